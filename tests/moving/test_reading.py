"""A list of JSON is read entry by entry, wherever the pieces of the file happen to end."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.moving import reading
from plugins.moving.reading import Archive
from plugins.moving.source import MovingError

texts = st.text('ab"\\[]{},:\n\u00e9', max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(values, max_size=6), st.integers(1, 9), st.booleans())
def test_entries_are_the_same_whatever_the_pieces(
    entries: list[Any], size: int, is_indented: bool
) -> None:
    splitter = reading._ListSplitter()
    content = json.dumps(entries, ensure_ascii=False, indent=1 if is_indented else None).encode()
    file = io.BytesIO(content[1:])
    found: list[Any] = []
    while chunk := file.read(size):
        found += (json.loads(one) for one in splitter.feed(chunk) if one is not None)
    assert splitter.is_over
    assert found == entries


def test_what_stands_around_the_list_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    path.write_bytes(b"\xef\xbb\xbf \n [1, nonsense, [2] ] \n")
    assert list(Archive(path).entries(path.name)) == [1, None, [2]]
    path.write_bytes(b'{"a": 1}')
    assert list(Archive(path).entries(path.name)) == [{"a": 1}]
    path.write_bytes(b'[{"a": 1}, {"b"')
    with pytest.raises(MovingError, match="is incomplete"):
        list(Archive(path).entries(path.name))


@given(
    top=st.sampled_from(("", "export/", "\u00fc \u732b/deep/er/")),
    separator=st.sampled_from("/\\"),
    is_zip=st.booleans(),
    is_of_mac=st.booleans(),
)
def test_the_names_are_the_same_whatever_system_packed_them(
    tmp_path_factory: pytest.TempPathFactory,
    top: str,
    separator: str,
    is_zip: bool,
    is_of_mac: bool,
) -> None:
    names = [f"{top}conversations.json", f"{top}files/a.json"]
    beside = [f"__MACOSX/{top}._conversations.json", f"{top}files/._a.json"] if is_of_mac else []
    path = tmp_path_factory.mktemp("packed") / "export"
    if is_zip:
        with zipfile.ZipFile(path, "w") as archive:
            for name in (*names, *beside):
                archive.writestr(name.replace("/", separator), "[1]")
    else:
        for name in (*names, *beside):
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text("[1]")
    found = Archive(path)
    assert found.names == sorted(names)
    assert [list(found.entries(name)) for name in names] == [[1], [1]]
