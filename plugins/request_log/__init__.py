"""The request log: what was sent to the model in a conversation's own turns, shown as it was.

`reading` notes each request, stores its row, and makes the request again with what was said of its
pictures; `record` is the SQL, `commands` and `comparison` are verbs of `/context`. The kernel
deletes the rows with their turns.
"""
