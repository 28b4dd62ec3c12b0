"""`/why`: the parts that an answer was made from; `/without`: the same question, asked again
without one of them, in a branch.

`parts` lists the parts of a request, `feature` shows them and asks again.
"""

REQUIRES = ("request_log",)
