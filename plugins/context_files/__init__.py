"""The files of a conversation (flo.monster's two, and one for people): `/context export` writes
them, `/context import` reads them, and `context.context_files` has them kept up to date.

`files` writes them, with every check of what comes back; `feature` keeps them up to date.
"""
