"""The voice part of a strict server that speaks OpenAI's protocol: `/audio/transcriptions` and
`/audio/speech`. It refuses what OpenAI refuses, by its reference."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from aiohttp import BodyPartReader, web

_FORMATS = ("flac", "m4a", "mp3", "mp4", "mpeg", "mpga", "oga", "ogg", "wav", "webm")
_FORMS = ("mp3", "opus", "aac", "flac", "wav", "pcm")
_LARGEST = 25 * 1024 * 1024
OGG = b"OggS\0\2" + b"\0" * 22 + b"OpusHead"
"""The beginning of a voice message."""


@dataclass(frozen=True)
class Upload:
    """A recording that was uploaded for transcription."""

    name: str
    sound: bytes
    fields: dict[str, str]


@dataclass
class VoiceServer:
    """`transcripts` are the next results: a text, or a whole response. `uploads` are the received
    recordings, `speeches` the received texts, both in order; `sound` is the audio of speech, or a
    whole response. Requests beyond the script fail the test."""

    unexpected: list[str]
    key: str = ""
    transcripts: deque[str | Callable[[], web.StreamResponse]] = field(default_factory=deque)
    uploads: list[Upload] = field(default_factory=list)
    speeches: list[dict[str, Any]] = field(default_factory=list)
    sound: bytes | Callable[[], web.StreamResponse] = b""
    seconds: float = 6.0
    reached: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    gate: asyncio.Event | None = None

    def serve(self, app: web.Application) -> None:
        app.router.add_post("/v1/audio/transcriptions", self._transcribe)
        app.router.add_post("/v1/audio/speech", self._speak)

    def assert_done(self) -> None:
        assert not self.transcripts, f"nobody asked for {list(self.transcripts)}"

    async def _transcribe(self, request: web.Request) -> web.StreamResponse:
        fields: dict[str, str] = {}
        name, sound = "", b""
        async for part in await request.multipart():
            assert isinstance(part, BodyPartReader)
            if part.name == "file":
                name, sound = part.filename or "", bytes(await part.read())
            else:
                fields[str(part.name)] = await part.text()
        self.uploads.append(Upload(name, sound, fields))
        self.reached.release()
        if complaint := self._complaint(request) or _bad_upload(name, sound, fields):
            return complaint
        if self.gate is not None:
            await self.gate.wait()
        if not self.transcripts:
            self.unexpected.append(f"a transcript of {name}")
            return _error(400, "the script of this test server has no transcript left")
        heard = self.transcripts.popleft()
        if not isinstance(heard, str):
            return heard()
        usage = {"type": "duration", "seconds": self.seconds}
        return web.json_response({"text": heard, "usage": usage})

    async def _speak(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.speeches.append(body)
        self.reached.release()
        if complaint := self._complaint(request) or _bad_speech(body):
            return complaint
        if self.gate is not None:
            await self.gate.wait()
        if not self.sound:
            self.unexpected.append(f"speech of {body['input'][:50]}")
            return _error(400, "the script of this test server has no speech")
        if not isinstance(self.sound, bytes):
            return self.sound()
        return web.Response(body=self.sound, content_type=f"audio/{body['response_format']}")

    def _complaint(self, request: web.Request) -> web.Response | None:
        is_known = not self.key or request.headers.get("Authorization") == f"Bearer {self.key}"
        return None if is_known else _error(401, "Incorrect API key provided: sk-wrong.")


def _bad_upload(name: str, sound: bytes, fields: dict[str, str]) -> web.Response | None:
    if not fields.get("model"):
        return _error(400, "you must provide a model parameter")
    if unknown := set(fields) - {"model", "language", "prompt", "response_format", "temperature"}:
        return _error(400, f"Unknown parameter: {min(unknown)!r}.")
    if PurePosixPath(name).suffix.lstrip(".") not in _FORMATS:
        return _error(400, f"Invalid file format. Supported formats: {list(_FORMATS)}")
    if not sound:
        return _error(400, "Audio file is too short. Minimum audio length is 0.1 seconds.")
    if len(sound) > _LARGEST:
        return _error(413, "Maximum content size limit (26214400) exceeded")
    return None


def _bad_speech(body: dict[str, Any]) -> web.Response | None:
    if not all(body.get(name) for name in ("model", "voice", "input")):
        return _error(400, "Missing required parameter.")
    if len(body["input"]) > 4096:
        return _error(400, "String should have at most 4096 characters")
    if body.get("response_format", "mp3") not in _FORMS:
        return _error(400, "Invalid value for 'response_format'.")
    return None


def _error(status: int, message: str) -> web.Response:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return web.json_response({"error": error}, status=status)
