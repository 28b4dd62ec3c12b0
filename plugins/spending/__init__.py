"""Spending: what calls to models cost is kept and shown, and limited for a calendar month.

`record` keeps every call, in the transaction of the answer; `accounts` adds up the month, warns and
refuses; `saving` has a cheaper model answer where money is short; `commands` is `/usage`.
"""

GUARDS = True
