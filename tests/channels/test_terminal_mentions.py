"""Files in messages: named, offered while a name is typed, dropped, and from the clipboard."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from channels.terminal.mentions import (
    begun_mention,
    describe_unknown,
    discard,
    find_mentions,
    name_dropped,
    offer_files,
    paste_picture,
)

PNG = b"\x89PNG\r\n\x1a\n and more"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("notes.txt", "two words.txt", "a.png", "b c.PNG", ".hidden", 'od"d.png'):
        Path(name).write_bytes(PNG)
    Path("sub").mkdir()
    Path("sub/deep.txt").write_text("x")


def test_a_file_that_is_named_is_found_and_any_other_word_is_a_word() -> None:
    for text, files in [
        ("look at @notes.txt, please", ["notes.txt"]),
        ("@notes.txt @sub/deep.txt @notes.txt", ["notes.txt", "sub/deep.txt"]),
        ('see @"two words.txt".', ["two words.txt"]),
        ("write to ann@notes.txt", []),
        ("thanks @ann, and @sub", []),
        ("@" + "x" * 5_000, []),
        ("@no\0thing", []),
    ]:
        assert find_mentions(text) == [Path(name) for name in files], text


def test_a_name_is_begun_by_an_at_sign_in_front_of_a_word() -> None:
    for typed, begun in [
        ("see @no", "@no"),
        ('see @"two w', '@"two w'),
        ("@", "@"),
        ("a@b", None),
        ("@a b", None),
    ]:
        assert begun_mention(typed) == begun, typed


def test_files_are_offered_as_they_are_to_be_typed() -> None:
    for begun, offered in [
        ("@no", ["@notes.txt"]),
        ("@tw", ['@"two words.txt"']),
        ("@su", ["@sub/"]),
        ("@sub/", ["@sub/deep.txt"]),
        ("@.h", ["@.hidden"]),
        ("@/nowhere/x", []),
        ("@none", []),
    ]:
        assert [text for text, _ in offer_files(begun)] == offered, begun


def test_hidden_files_are_offered_only_when_they_are_meant() -> None:
    assert "@.hidden" not in [text for text, _ in offer_files("@")]


def test_a_dropped_picture_is_a_file_that_is_named(tmp_path: Path) -> None:
    for form in ["{}", "'{}'", "file://{}", " {} "]:
        assert name_dropped(form.format(tmp_path / "a.png")) == f"@{tmp_path}/a.png ", form


def test_a_path_with_blanks_is_known_however_a_terminal_pastes_it(tmp_path: Path) -> None:
    wanted = f'@"{tmp_path}/b c.PNG" '
    escaped = str(tmp_path / "b c.PNG").replace(" ", "\\ ")
    encoded = f"file://{tmp_path}/b%20c.PNG"
    for pasted in (str(tmp_path / "b c.PNG"), escaped, encoded):
        assert name_dropped(pasted) == wanted
    both = f"{tmp_path}/a.png {escaped}"
    assert name_dropped(both) == f"@{tmp_path}/a.png {wanted}"


def test_any_other_pasted_text_stays_what_it_is(tmp_path: Path) -> None:
    for text in ["", "hello", "a.png", "/etc/passwd", "/nowhere/a.png", "it's", "x" * 10_000]:
        assert name_dropped(text) == "", text
        assert name_dropped(f"{tmp_path}/notes.txt") == "", text
        assert name_dropped(f'{tmp_path}/od"d.png') == "", text


@pytest.mark.usefixtures("processes")
def test_the_picture_of_the_clipboard_is_a_file_for_its_owner_until_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    tool = tools / "wl-paste"
    tool.write_text(f"#!/bin/sh\nexec /bin/cat '{tmp_path}/a.png'\n")
    monkeypatch.setenv("PATH", str(tools))
    assert paste_picture() is None, "what can't be run is none"
    tool.chmod(0o755)
    found = paste_picture()
    assert found is not None
    assert found.read_bytes() == PNG
    assert stat.S_IMODE(found.stat().st_mode) == 0o600
    discard([found, tmp_path / "a.png"])
    assert not found.exists()
    assert (tmp_path / "a.png").exists()


def test_a_home_that_nobody_has_is_no_file() -> None:
    assert find_mentions("see @~nobody-here/x.txt") == []
    assert [*offer_files("@~nobody-here/x")] == []


def test_a_name_is_looked_for_once_and_not_too_many_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pasted code is full of them, and the line stands still meanwhile."""
    looked: list[str] = []

    def find(name: str) -> str:
        looked.append(name)
        return ""

    monkeypatch.setattr("channels.terminal.mentions._find_near", find)
    assert describe_unknown("@property\n" * 1_000 + "@nose.txt") != ""
    assert looked == ["property", "nose.txt"]
    looked.clear()
    assert describe_unknown(" ".join(f"@word{number}" for number in range(1_000))) == ""
    assert len(looked) == 50
