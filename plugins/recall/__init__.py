"""The search by meaning: beside the words of a question, what messages mean is compared with it.

`encoder` turns texts into vectors, with a small model that is a package of its own
(`requirements.txt`); `feature` makes those that are missing, in the background, and compares them
in a search; `record` keeps them. Without the package, or with `search.semantic` off, a search goes
by words alone.
"""
