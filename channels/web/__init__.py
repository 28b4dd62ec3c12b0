"""The web channel: a page with the context beside the chat, REST, and OpenAI's protocol.

| module | does |
|---|---|
| `channel` | the channel itself: a server on a socket |
| `guard` | who is let in; the headers of every answer |
| `feed`, `draft` | what happens in a session, numbered, for all who follow it; the answer so far |
| `operations` | all that can be asked for, as routes and as the OpenAPI document |
| `sessions`, `files`, `completions` | what they do: Parley's own REST, and OpenAI's protocol |
| `shapes` | what comes in and goes out, as JSON |
| `markup` | Markdown as HTML that does nothing |
| `page/`, `pages` | the page, and how its files are sent |
"""

from channels.web.channel import CannotListen, Web, WebConfig

__all__ = ["CannotListen", "Web", "WebConfig"]
