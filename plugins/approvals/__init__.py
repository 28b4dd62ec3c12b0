"""Approvals: permission for a tool call is asked for in the chat (`tools.approve`).

Without this folder nobody can be asked, so such calls are refused.
"""

GUARDS = True
