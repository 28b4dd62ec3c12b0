"""Titles of conversations: three to five words by the model that writes summaries.

`feature` asks once per conversation, after its first answer and in the background, and extracts a
title from the reply; `record` stores for which conversations it asked. A title that a person gave
is never changed. Without this folder, lists show a conversation's first words.
"""
