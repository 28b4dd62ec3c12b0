"""The sentence about a document whose reader has failed, however it did."""

from __future__ import annotations

import signal

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
