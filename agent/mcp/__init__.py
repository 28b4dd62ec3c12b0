"""Tools of other programs, by the Model Context Protocol: `mcp` in the settings says which.

`settings` says what is set of a server, `catalogue` what is made of what it lists, `client` speaks
the protocol (and alone knows its SDK), `pipes` runs a server as a process, `session` supervises
one, and `servers` has them all, with what is known of their tools.
"""


class ServerDown(Exception):
    """A server that does not do what it is asked for. The text is a sentence."""
