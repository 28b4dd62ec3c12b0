"""The frames of Feishu's long connection: messages of Protocol Buffers with nine fields, which is
little enough to be read and written here (decision 0017)."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

CONTROL, DATA = 0, 1
_NUMBERS = ("seq", "log", "service", "method")  # the fields 1 to 4
_TEXTS = {6: "encoding", 7: "media", 9: "new_log"}


class WireFrame(Struct):
    """`method` is CONTROL or DATA; `headers` say what is in `payload`. The others come back as they
    came."""

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
        parts += [_bytes(n, getattr(self, _TEXTS[n]).encode()) for n in (6, 7) if self._has(n)]
        parts += [_bytes(8, self.payload)] if self.payload else []
        parts += [_bytes(9, self.new_log.encode())] if self.new_log else []
        return b"".join(parts)

    def _has(self, number: int) -> bool:
        return bool(getattr(self, _TEXTS[number]))

    @classmethod
    def load(cls, content: bytes) -> WireFrame:
        """Return the frame in these bytes. Raises ValueError for content that is no frame."""
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
