"""Side questions: `/btw` asks with the whole context, and nothing of it stays there.

`asking` asks and makes the request, `record` keeps the questions with their answers. The kernel
deletes the rows with the turns after which they were asked.
"""
