"""Titles of conversations: three to five words by the model that writes summaries.

`naming` asks once per conversation, after its first answer and beside all else; `cleaning` makes a
title of what came back; `record` keeps which conversations were asked for. A title that a person
gave is never touched. Without this folder, lists show a conversation's first words.
"""
