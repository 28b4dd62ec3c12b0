"""Versions of what tools write in `files/`, so that files can follow the conversation.

`archive` keeps them beside the workspaces, `points` says which change came after which turn,
`versions` watches the tools and makes the offers, `commands` is `/files`.
"""
