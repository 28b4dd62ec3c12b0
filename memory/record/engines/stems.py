"""The words of the search index, split and stemmed as by SQLite's FTS5, for every database system.

Results must not depend on the system, and implementations of Porter's algorithm differ. So for a
system without FTS5, the FTS5 that comes with Python stems each word, and the result is cached.
"""

from __future__ import annotations

import sqlite3
from functools import lru_cache
from threading import local

TOKENIZER = "porter unicode61"
_KEPT = 50_000  # words, about 10 MB

_thread = local()


@lru_cache(_KEPT)
def stems(word: str) -> tuple[str, ...]:
    """Return the terms that the index stores for a word: its stem, without accents. (FTS5 has no
    terms for some words.)"""
    index = _index()
    index.execute("INSERT INTO words (rowid, word) VALUES (1, ?)", (word,))
    found = index.execute("SELECT term FROM terms").fetchall()
    index.execute("INSERT INTO words (words) VALUES ('delete-all')")
    return tuple(term for (term,) in found)


def _index() -> sqlite3.Connection:
    if not hasattr(_thread, "index"):
        _thread.index = sqlite3.connect(":memory:", isolation_level=None)
        _thread.index.executescript(
            f"""CREATE VIRTUAL TABLE words USING fts5(word, content='', tokenize='{TOKENIZER}');
            CREATE VIRTUAL TABLE terms USING fts5vocab(words, 'row')"""
        )
    index: sqlite3.Connection = _thread.index
    return index
