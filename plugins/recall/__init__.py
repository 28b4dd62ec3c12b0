"""The search by meaning: compares the meaning of a question with that of messages, besides its
words.

`encoder` turns texts into vectors, with a small model in a separate package (`requirements.txt`);
`feature` makes missing vectors in the background, and compares them in a search; `record` stores
them. Without the package, or with `search.semantic` off, a search uses words alone.
"""
