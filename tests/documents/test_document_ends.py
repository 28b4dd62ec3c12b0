"""The end of a document whose reader has failed, however it did: the sentence, and what is kept."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from plugins.documents import reader
from plugins.documents.feature import describe_end
from tests.tables import each_row

_TRACEBACK = b"Traceback:\nlxml.etree.XMLSyntaxError: xmlCtxtSetMaxAmplification, line 1\n"


@each_row("code", [1, 4, 120, *(-number for number in signal.valid_signals())])
def test_no_word_of_a_library_is_said_of_a_reader_that_failed(code: int) -> None:
    said = describe_end(code, _TRACEBACK)
    assert said.startswith(("takes more than", "can't be read"))
    assert not any(word in said for word in ("xmlCtxt", "Error", "lxml"))


def test_what_took_too_much_memory_is_not_called_damaged() -> None:
    assert describe_end(4, b"") == "takes more than 1000 MB of memory to read"


def test_a_fault_that_the_reader_knows_is_said_in_its_words() -> None:
    assert describe_end(3, b"is locked by a password\n") == "is locked by a password"


def _fault_of_the_document() -> Exception:
    from formats.package import NoText  # type: ignore[import-not-found]  # noqa: PLC0415

    fault: Exception = NoText("is damaged")
    return fault


@pytest.mark.parametrize(
    ("make", "note"),
    [(MemoryError, "it takes too much memory."), (_fault_of_the_document, "it is damaged.")],
)
def test_what_was_read_before_a_fault_is_given_with_a_note(
    make: Callable[[], BaseException],
    note: str,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    def read(_content: bytes) -> Iterator[str]:
        yield "The first line."
        raise make()

    monkeypatch.setattr(reader, "_read", read)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", ["reader.py", "30", "1000", ""])
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO()))
    assert reader.main() == 0
    text = f"The first line.\n[The rest is left out: {note}]\n"
    assert capsysbinary.readouterr().out.decode() == text
