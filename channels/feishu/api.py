"""The open platform's HTTP: a token that is renewed, and answers that say what went wrong; and the
frames of its long connection: messages of Protocol Buffers with nine fields, which is little enough
to be read and written here (decision 0017).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from typing import Any

import aiohttp
from msgspec import Struct, field

from channels.message import LARGEST_ATTACHMENT

Json = dict[str, Any]

_EXPIRED = {99991663, 99991668, 99991671}  # the tenant's token is unknown, wrong or expired
_SPARE = 300.0  # seconds before its end at which a token is renewed
_TIME = aiohttp.ClientTimeout(total=60, sock_connect=10)


class FeishuError(Exception):
    """Raised for an unsuccessful response: the code of "General error codes" or of the interface,
    or the HTTP status if there is no code; and the seconds to wait, if given."""

    def __init__(self, code: int, message: str, status: int = 200, seconds: float = 0.0) -> None:
        super().__init__(f"{message} ({code})")
        self.code, self.status, self.seconds = code, status, seconds


class FeishuApi:
    """Requests of one app. Raises FeishuError, aiohttp.ClientError and TimeoutError."""

    def __init__(self, base_url: str, app_id: str, secret: str) -> None:
        self._base, self._app_id, self._secret = base_url.rstrip("/"), app_id, secret
        self._token, self._until = "", 0.0
        self._renewing = asyncio.Lock()
        self.session = aiohttp.ClientSession(timeout=_TIME)

    async def close(self) -> None:
        await self.session.close()

    async def request(self, method: str, path: str, **options: Any) -> Json:
        """Return the `data` of a response; retry once with a new token if this one is unknown."""
        for is_last in (False, True):
            try:
                headers = {"Authorization": f"Bearer {await self._access()}"}
                url = f"{self._base}/open-apis/{path}"
                async with self.session.request(method, url, headers=headers, **options) as answer:
                    found = await _read(answer)
                data: Json = found.get("data") or found
                return data
            except FeishuError as error:
                if is_last or error.code not in _EXPIRED:
                    raise
                self._until = 0.0
        raise AssertionError("unreachable")

    async def upload(self, path: str, fields: Mapping[str, str], name: str, content: bytes) -> Json:
        """Upload a file, in a form field named by its kind ("image", "file"); return the
        response."""
        form = aiohttp.FormData(dict(fields))
        kind = "image" if path.endswith("images") else "file"
        form.add_field(kind, content, filename=name, content_type="application/octet-stream")
        return await self.request("POST", path, data=form())

    async def download(self, path: str) -> bytes:
        """Return the bytes of a file; a larger one is cut slightly above the bot's limit."""
        headers = {"Authorization": f"Bearer {await self._access()}"}
        async with self.session.get(f"{self._base}/open-apis/{path}", headers=headers) as answer:
            if answer.content_type == "application/json" and answer.status != 200:
                await _read(answer)
            answer.raise_for_status()
            content = bytearray()
            async for piece in answer.content.iter_chunked(65_536):
                content += piece
                if len(content) > LARGEST_ATTACHMENT:
                    break
            return bytes(content)

    async def find_connection(self) -> tuple[str, float]:
        """Return the address of a long connection, valid once, and the seconds between pings."""
        body = {"AppID": self._app_id, "AppSecret": self._secret}
        async with self.session.post(f"{self._base}/callback/ws/endpoint", json=body) as answer:
            data = (await _read(answer))["data"]
        return data["URL"], float((data.get("ClientConfig") or {}).get("PingInterval") or 120)

    async def _access(self) -> str:
        async with self._renewing:
            if time.monotonic() > self._until:
                body = {"app_id": self._app_id, "app_secret": self._secret}
                url = f"{self._base}/open-apis/auth/v3/tenant_access_token/internal"
                async with self.session.post(url, json=body) as answer:
                    found = await _read(answer)
                self._token = found["tenant_access_token"]
                self._until = time.monotonic() + float(found["expire"]) - _SPARE
            return self._token


async def _read(answer: aiohttp.ClientResponse) -> Json:
    try:
        found: Json = await answer.json(content_type=None)
        code = int(found["code"])
    except (ValueError, TypeError, KeyError):
        raise FeishuError(answer.status, answer.reason or "no JSON", answer.status) from None
    if code or answer.status >= 400:
        wait = answer.headers.get("x-ogw-ratelimit-reset", "")
        seconds = float(wait) if wait.isdecimal() else 0.0
        raise FeishuError(code or answer.status, str(found.get("msg")), answer.status, seconds)
    return found


CONTROL, DATA = 0, 1
_NUMBERS = ("seq", "log", "service", "method")  # the fields 1 to 4
_TEXTS = {6: "encoding", 7: "media", 9: "new_log"}


class WireFrame(Struct):
    """A frame. `method` is CONTROL or DATA; `headers` describe the `payload`. The other fields are
    returned unchanged."""

    seq: int = 0
    log: int = 0
    service: int = 0
    method: int = CONTROL
    headers: dict[str, str] = field(default_factory=dict)
    encoding: str = ""
    media: str = ""
    payload: bytes = b""
    new_log: str = ""

    def dump(self) -> bytes:
        parts = [_tag(n, 0) + _number(getattr(self, name)) for n, name in enumerate(_NUMBERS, 1)]
        for key, value in self.headers.items():
            parts.append(_bytes(5, _bytes(1, key.encode()) + _bytes(2, value.encode())))
        parts += [
            _bytes(n, getattr(self, _TEXTS[n]).encode()) for n in (6, 7) if getattr(self, _TEXTS[n])
        ]
        parts += [_bytes(8, self.payload)] if self.payload else []
        parts += [_bytes(9, self.new_log.encode())] if self.new_log else []
        return b"".join(parts)

    @classmethod
    def load(cls, content: bytes) -> WireFrame:
        """Return the frame in these bytes. Raises ValueError for invalid content."""
        frame = cls()
        for number, value in _fields(content):
            if isinstance(value, int):
                if number <= len(_NUMBERS):
                    setattr(frame, _NUMBERS[number - 1], value)
            elif number == 5:
                pair = dict(_fields(value))
                frame.headers[_text(pair.get(1))] = _text(pair.get(2))
            elif number == 8:
                frame.payload = value
            elif number in _TEXTS:
                setattr(frame, _TEXTS[number], _text(value))
        return frame


def _text(value: int | bytes | None) -> str:
    if not isinstance(value, bytes):
        raise ValueError("a text is missing")
    return value.decode()


def _tag(number: int, kind: int) -> bytes:
    return _number(number << 3 | kind)


def _number(value: int) -> bytes:
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


def _bytes(number: int, content: bytes) -> bytes:
    return _tag(number, 2) + _number(len(content)) + content


def _fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(content):
        tag, at = _read_number(content, at)
        if tag & 7 == 0:
            value, at = _read_number(content, at)
            yield tag >> 3, value
        elif tag & 7 == 2:
            size, at = _read_number(content, at)
            if at + size > len(content):
                raise ValueError("a frame is cut off")
            yield tag >> 3, content[at : at + size]
            at += size
        else:
            raise ValueError("a frame has a field of another kind")


def _read_number(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(content) and shift < 64:
        byte = content[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at
    raise ValueError("a frame is cut off")
