"""Tests of the project's pages: their links have targets, and everything they name exists."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

from bot.settings.schema import SETTINGS
from channels.terminal.completion import COMMANDS, KEYS, TYPED
from memory.record.engines.sqlite import in_memory
from plugins.builtin.help import STRATEGIES
from tests.docs import picture
from tests.docs.commands import builtin
from tests.docs.pages import PAGES, ROOT
from tests.docs.picture import draw_anew

LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"`((?:agent|bot|channels|docs|memory|plugins|tests)/[\w/.]+)`")
FUNCTION = re.compile(r"`([\w/]+\.py)`: `(\w+)`")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)

GENERATED = {"commands.md", "configuration.md", "openapi.md"}


@cache
def prose(page: Path) -> str:
    """Return a page without its code blocks, which contain no links or headings."""
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchor of each heading, as GitHub makes it."""
    return {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        for heading in HEADING.findall(prose(page))
    }


def test_each_link_leads_somewhere_and_each_file_that_is_named_is_there() -> None:
    for page in PAGES:
        for link in LINK.findall(prose(page)):
            if link.startswith(("http://", "https://")):
                continue
            name, _, anchor = link.partition("#")
            target = page.parent / name if name else page
            assert target.exists(), (page, link)
            assert not anchor or anchor in anchors(target), (page, link)
        gone = [name for name in NAMED.findall(prose(page)) if not (ROOT / name).exists()]
        assert not gone, page


def test_each_function_on_the_walk_of_a_message_is_where_it_is_said_to_be() -> None:
    walk = FUNCTION.findall((ROOT / "docs" / "architecture.md").read_text("utf-8"))
    gone = [(file, name) for file, name in walk if f"def {name}(" not in (ROOT / file).read_text()]
    assert walk
    assert not gone


def test_the_picture_of_the_layers_is_as_the_code_is() -> None:
    page = picture.PAGE.read_text("utf-8")
    assert draw_anew(page) == page, "run python -m tests.docs.picture"
    imports = picture.imports()
    assert not {(a, b) for a, b in imports if (b, a) in imports}


def test_every_table_is_told_of() -> None:
    text = (ROOT / "docs" / "storage.md").read_text("utf-8")
    database = in_memory()
    inner = re.compile(r"sqlite_.*|.*_(config|content|data|docsize|idx)")  # SQLite's own
    tables = {table for table in database.get_tables() if not inner.fullmatch(table)}
    database.close()
    assert {table for table in tables if f"`{table}`" in text} == tables


def test_every_page_can_be_reached_from_the_first() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop().resolve()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            links = (link.partition("#")[0] for link in LINK.findall(prose(page)))
            waiting += [page.parent / link for link in links if "://" not in link]
    assert {page.resolve() for page in PAGES} <= reached


def test_the_list_of_all_pages_has_all() -> None:
    docs = ROOT / "docs"
    listed = prose(docs / "README.md").partition("## All pages")[2]
    there = {page.name for page in docs.glob("*.md")} - {"README.md"}
    assert there <= {target.partition("#")[0] for target in LINK.findall(listed)}


def test_no_page_is_long_but_those_that_are_generated() -> None:
    pages = {page.name: len(page.read_bytes()) for page in (ROOT / "docs").rglob("*.md")}
    long = {name: size for name, size in pages.items() if size > 15_000}
    assert not long.keys() - GENERATED, long


def test_the_page_of_the_terminal_has_every_key() -> None:
    page = (ROOT / "docs" / "terminal.md").read_text("utf-8")
    assert all(f"| {key} | {what} |\n" in page for key, what in KEYS)
    assert all(f"| `{text}` | {what} |\n" in page for text, what in TYPED)


def test_the_page_of_strategies_has_every_one_as_help_has_it() -> None:
    page = (ROOT / "docs" / "strategies.md").read_text("utf-8")
    assert all(f"| `{name}` | {w} | {h} |\n" in page for name, (w, h) in STRATEGIES.items())


def test_each_setting_and_command_that_the_first_pages_name_is_one() -> None:
    commands = {command.name for command in builtin()} | {name for name, _ in COMMANDS}
    for page in ("README.md", "docs/README.md", "docs/terminal.md"):
        text = (ROOT / page).read_text("utf-8")
        assert {*re.findall(r"`/([a-z]+)", text)} <= commands
        named = {
            *re.findall(r"/config ([a-z_.]+) ", text),
            *re.findall(r"^\| `([a-z_.]+)` \|", text, re.M),
        }
        assert page == "docs/terminal.md" or named
        assert page == "docs/terminal.md" or named <= SETTINGS.keys() | STRATEGIES.keys()


def test_the_recording_is_a_picture_with_every_frame_once() -> None:
    drawing = ElementTree.parse(ROOT / "docs" / "session.svg").getroot()
    frames = [one for one in drawing if one.tag.endswith("}g")]
    shown = [one.get("display") for one in frames]
    assert shown == ["inline"] + ["none"] * (len(frames) - 1)
    for number, frame in enumerate(frames):
        values = frame[0].get("values", "").split(";")
        assert [n for n, value in enumerate(values) if value == "inline"] == [number]
