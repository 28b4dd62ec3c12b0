"""Versions of what tools write in `files/`, so that files can follow the conversation.

`archive` and `keeper` keep them beside the workspaces, `points` says which change came after which
turn, `versions` watches the tools and makes the offers, `feature` is `/files`.
"""
