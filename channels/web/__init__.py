"""The web channel: a page with the context beside the chat, REST, and OpenAI's protocol.

| module | does |
|---|---|
| `channel` | the channel itself: a server on a socket |
| `guard` | authorisation of requests; the headers of every response |
| `feed`, `draft` | the numbered events of a session, for all followers; the answer so far |
| `operations` | all operations, as routes and as the OpenAPI document |
| `sessions`, `files`, `completions` | their handlers: Parley's own REST, and OpenAI's protocol |
| `shapes` | the bodies of requests and responses, as JSON |
| `markup` | Markdown as inert HTML |
| `page/`, `pages` | the page, and the sending of its files |
"""

from channels.web.channel import ListenError, Web, WebConfig

__all__ = ["ListenError", "Web", "WebConfig"]
