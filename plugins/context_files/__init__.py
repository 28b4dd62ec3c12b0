"""The files of a conversation (flo.monster's two, and one for people): `/context export` writes
them, `/context import` reads them, and `context.context_files` has them kept up to date.

`writing` makes them, `mirror` keeps them up to date, `reading` is every check of what comes back.
"""
