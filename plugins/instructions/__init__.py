"""Standing instructions: orders of a person that hold until they are revoked (`/rules`).

`detect` finds them in a person's own words (`own_words`), `standing` keeps them and decides,
`record` stores them, `commands` is `/rules`, and `tool` lets the model ask a person to keep one.
Their texts stand in the system prompt as a section of their own, so that no compaction, branch,
model or restart loses one. The hook rules (`plugins/rules`) are something else.
"""
