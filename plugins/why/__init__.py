"""`/why`: what an answer was made from; `/without`: the same question, asked again without a part
of that, in a branch.

`parts` lists what a request held, `commands` shows it, `trial` asks again.
"""

REQUIRES = ("request_log",)
