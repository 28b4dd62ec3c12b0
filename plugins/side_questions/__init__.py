"""Side questions: `/btw` asks with the whole context, and neither question nor answer becomes part
of it.

`feature` asks and builds the request, `record` stores the questions with their answers. The kernel
deletes the rows with the turns after which they were asked.
"""
