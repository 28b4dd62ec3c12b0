"""The page's files, ready to be sent: from memory, so that they are there also when no file can be
opened any more; packed, where the browser takes that; and each with a tag that says whether it
changed."""

from __future__ import annotations

import gzip
import hashlib
import json
import mimetypes
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

PAGE = Path(__file__).parent / "page"
INDEX, WORKER = "index.html", "worker.js"
_KINDS = {".webmanifest": "application/manifest+json", ".js": "text/javascript"}
_MODULES = b"  <!-- modules -->\n"
"""The place where the page names its modules, so that a browser need not find one by reading
another."""
_ALONE = frozenset({"theme.js", WORKER})  # scripts that are no modules
_WORTH = 1_000  # bytes from which on a file is packed


def routes() -> Iterator[Route]:
    """Yield a route for each file: the page itself at /, its worker at /worker.js, since it has a
    say over what lies below its address, all others below /page/."""
    files = read_files()
    for address, content in files.items():
        name = {"/": INDEX}.get(address, address)
        kind = _KINDS.get(Path(name).suffix) or mimetypes.guess_type(name)[0]
        yield Route(address, partial(_send, content, kind))


def read_files() -> dict[str, bytes]:
    """Return the content of each file by its address."""
    contents = {path.name: path.read_bytes() for path in sorted(PAGE.iterdir())}
    index, worker = contents.pop(INDEX), contents.pop(WORKER)
    modules = [name for name in contents if name.endswith(".js") and name not in _ALONE]
    links = "".join(f'  <link rel="modulepreload" href="/page/{name}">\n' for name in modules)
    files = {"/": index.replace(_MODULES, links.encode())}
    files.update({f"/page/{name}": content for name, content in contents.items()})
    return {**files, "/worker.js": _head(files).encode() + worker}


def _head(files: Mapping[str, bytes]) -> str:
    """Return the head that the worker must know: which files there are, and when they are
    others."""
    version = hashlib.sha256(b"\0".join(files.values())).hexdigest()[:16]
    return f"const FILES = {json.dumps([*files])};\nconst VERSION = {json.dumps(version)};\n"


async def _send(content: bytes, kind: str | None, request: Request) -> Response:
    is_packed = len(content) >= _WORTH and "gzip" in request.headers.get("accept-encoding", "")
    tag = f'"{_digest(content)}{"-gz" if is_packed else ""}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
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
    """Return the same bytes each time, whenever it is packed."""
    return gzip.compress(content, mtime=0)
