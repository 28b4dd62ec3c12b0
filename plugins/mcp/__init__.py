"""Tools of other programs, by the Model Context Protocol: `mcp` in the settings says which.

`settings` has the settings of a server, `pasted` reads those that others' documentation shows,
`catalogue` makes tools of what a server lists, `client` speaks the protocol by its SDK, through
`pipes` to a process and `http` to an address, `messages` reads what comes, `health` finds why one
failed, `session` supervises one, `servers` has them all with what is known of their tools (kept by
`record`), and `offers` finds those that serve a conversation.
"""


class ServerDown(Exception):
    """A server that does not work as required. The text is a sentence."""


class SessionExpired(ServerDown):
    """A call that was not executed, since the server has lost the session: it was restarted. The
    call may be repeated in a new session."""
