"""The files of a session: those that came with messages, and what tools wrote."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import BinaryIO
from urllib.parse import quote

from msgspec import Struct
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from channels.base import Bot
from channels.message import LARGEST_ATTACHMENT, MOST_ATTACHMENTS
from channels.web.operations import Operation, Parameter, Problem, as_json
from channels.web.sessions import CHANNEL_OF, ONE, SESSION, address_of
from channels.web.shapes import FileList, address_of_file

_PATH = Parameter("path", "query", "As the list of files or a message names it.", {})
_PIECE = 256_000  # bytes that are read at once
INERT = "default-src 'none'; style-src 'none'; sandbox"
"""The policy of a file: whatever it holds, it does nothing if somebody opens it."""


class FileOperations(Struct, frozen=True):
    """The operations on files. `upload` is the most bytes of one message's files."""

    bot: Bot
    upload: int

    @property
    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                "GET",
                f"{ONE}/files",
                "The files of the workspace, newest first, and how many a message may bring.",
                self.list_files,
                gives=FileList,
                parameters=(SESSION, CHANNEL_OF),
                problems=(404,),
            ),
            Operation(
                "GET",
                f"{ONE}/file",
                "One file: of the workspace, or of a message.",
                self.read_file,
                parameters=(SESSION, CHANNEL_OF, _PATH),
                problems=(404,),
            ),
        )

    async def list_files(self, request: Request) -> Response:
        address = address_of(request, self.bot)
        found = await self.bot.list_files(address)
        files = [
            {
                "name": file.path.partition("/")[2],
                "address": address_of_file(address, file.path),
                "size": file.size,
                "at": file.at.isoformat(),
            }
            for file in found.files
        ]
        limits = {
            "files": MOST_ATTACHMENTS,
            "file_bytes": min(LARGEST_ATTACHMENT, self.upload, found.room),
            "bytes": min(self.upload, found.room),
        }
        return as_json({"files": files, "limits": limits})

    async def read_file(self, request: Request) -> Response:
        path = request.query_params.get("path", "")
        file = await self.bot.open_file(address_of(request, self.bot), path)
        if file is None:
            raise Problem(404, "There is no such file here, or not any more.")
        kept = "inline" if file.picture else "attachment"
        headers = {
            "Content-Disposition": f"{kept}; filename*=UTF-8''{quote(file.name)}",
            "Content-Length": str(file.size),
            "Content-Security-Policy": INERT,
        }
        kind = (
            file.picture or file.sound or "application/octet-stream"
        )  # never one that a browser would run
        closing = BackgroundTask(file.content.close)
        pieces = _pieces(file.content, file.size)
        return StreamingResponse(pieces, headers=headers, media_type=kind, background=closing)


async def _pieces(content: BinaryIO, size: int) -> AsyncIterator[bytes]:
    """As many bytes as were announced, also where it grows meanwhile."""
    with content:
        while size > 0 and (piece := await asyncio.to_thread(content.read, min(size, _PIECE))):
            size -= len(piece)
            yield piece
