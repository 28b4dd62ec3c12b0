"""The page's files, ready to be sent: from memory, so that they are available even if no more files
can be opened; compressed, if the browser accepts that; and each with a tag for detecting changes.
The page itself contains its style sheets and the script that runs before it is drawn: one response
is enough to draw it, and its modules are loaded afterwards."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import mimetypes
import re
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from channels.web.guard import make_policy

PAGE = Path(__file__).parent / "page"
INDEX, WORKER = "index.html", "worker.js"
FONT = ".woff2"
_KINDS = {".webmanifest": "application/manifest+json", ".js": "text/javascript", FONT: "font/woff2"}
_MODULES = b"  <!-- modules -->\n"
"""The place where the page lists its modules, so that a browser need not find one by reading
another."""
_STYLES = re.compile(rb'(?: *<link rel="stylesheet" href="/page/[\w.]+">\n)+')
_SCRIPT = re.compile(rb'<script src="/page/([\w.]+)"></script>')
_INSIDE = re.compile(rb"<(style|script)>(.*?)</\1>", re.DOTALL)
_WORTH = 1_000  # bytes from which on a file is compressed


def routes() -> Iterator[Route]:
    """Yield a route for each file: the page itself at /, its worker at /worker.js, since it
    controls the paths below its address, all others below /page/."""
    files = read_files()
    own = {"/": {"Content-Security-Policy": make_policy(*_hash_inside(files["/"]))}}
    for address, content in files.items():
        name = {"/": INDEX}.get(address, address)
        kind = _KINDS.get(Path(name).suffix) or mimetypes.guess_type(name)[0]
        yield Route(address, partial(_send, content, kind, own.get(address, {})))


def read_files() -> dict[str, bytes]:
    """Return the content of each file by its address."""
    contents = {path.name: path.read_bytes() for path in sorted(PAGE.iterdir())}
    worker = contents.pop(WORKER)
    index = _put_inside(contents.pop(INDEX), contents)
    modules = [name for name in contents if name.endswith(".js")]
    links = "".join(
        f'  <link rel="modulepreload" href="/page/{name}" fetchpriority="low">\n'
        for name in modules
    )
    files = {"/": index.replace(_MODULES, links.encode())}
    files.update({f"/page/{name}": content for name, content in contents.items()})
    return {**files, "/worker.js": _head(files).encode() + worker}


def _put_inside(index: bytes, contents: dict[str, bytes]) -> bytes:
    """Move the style sheets and the plain scripts into the page itself."""

    def style(found: re.Match[bytes]) -> bytes:
        names = re.findall(rb"/page/([\w.]+)", found[0])
        return b"<style>%b</style>\n" % b"".join(contents.pop(name.decode()) for name in names)

    def script(found: re.Match[bytes]) -> bytes:
        return b"<script>%b</script>" % contents.pop(found[1].decode())

    return _SCRIPT.sub(script, _STYLES.sub(style, index))


def _hash_inside(page: bytes) -> tuple[str, str]:
    """Return the sources with which a policy allows the styles and the scripts inside the page."""
    sources = {b"style": "", b"script": ""}
    for kind, text in _INSIDE.findall(page):
        digest = base64.b64encode(hashlib.sha256(text).digest()).decode()
        sources[kind] += f" 'sha256-{digest}'"
    return sources[b"style"], sources[b"script"]


def _head(files: Mapping[str, bytes]) -> str:
    """Return the head that the worker must know: which files there are, but for the font, which
    most browsers never need, and when they are others."""
    version = hashlib.sha256(b"\0".join(files.values())).hexdigest()[:16]
    kept = [name for name in files if not name.endswith(FONT)]
    return f"const FILES = {json.dumps(kept)};\nconst VERSION = {json.dumps(version)};\n"


async def _send(
    content: bytes, kind: str | None, own: Mapping[str, str], request: Request
) -> Response:
    """Send a file, with its own headers."""
    takes = request.headers.get("accept-encoding", "")
    is_packed = len(content) >= _WORTH and kind != _KINDS[FONT] and "gzip" in takes
    tag = f'"{_digest(content)}{"-gz" if is_packed else ""}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding", **own}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    if is_packed:
        headers["Content-Encoding"] = "gzip"
    return Response(_pack(content) if is_packed else content, headers=headers, media_type=kind)


@cache
def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


@cache
def _pack(content: bytes) -> bytes:
    """Return compressed content; the same bytes each time."""
    return gzip.compress(content, mtime=0)
