"""Spending: the cost of model calls is stored, shown, and limited per calendar month.

`record` stores every call, in the transaction of the answer. `accounts` sums up the month, warns
and refuses. `saving` selects a cheaper model near a limit. `feature` has `/usage`.
"""

GUARDS = True
