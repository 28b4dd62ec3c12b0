"""Standing instructions: a person's orders that apply until they are revoked (`/rules`).

`detect` finds them in a person's own words, `standing` manages them, `record` stores them,
`commands` is `/rules`, and with the tool `propose_rule` the model asks a person to keep one. Their
texts are a section of the system prompt, so that no compaction, branch, model change or restart
loses one. They are unrelated to the hook rules (`plugins/rules`).
"""
