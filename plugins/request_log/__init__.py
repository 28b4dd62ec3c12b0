"""The request log: what was sent to the model in a conversation's own turns, shown as it was.

`log` notes each request and stores its row, `record` is the SQL, `reading` makes a request again,
`pictures` says how its pictures were sent; `commands` and `comparison` are verbs of `/context`. The
kernel deletes the rows with their turns.
"""
