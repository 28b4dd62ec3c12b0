import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from agent.settings import ToolSettings
from agent.tools import text_lines
from agent.tools.allowance import measure_usage
from agent.tools.base import ToolContext
from agent.tools.text_lines import Search
from agent.tools.toolbox import Toolbox
from memory.keys import ConversationKey
from memory.messages import ToolCall
from memory.record.closeness import finder
from plugins.files import feature as files
from tests.waiting import PATIENCE

Run = Callable[..., Awaitable[str]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path


@pytest.fixture
def run(root: Path) -> Run:
    return runner(root)


def runner(root: Path, *services: object) -> Run:
    """Run a tool as a model would; an error is returned as "! " and its sentence."""
    toolbox, key = Toolbox(files.parley_tools()), ConversationKey("pipe/main", "main")
    opened = {type(one): one for one in services}
    context = ToolContext(key, root, ZoneInfo("UTC"), services=opened)

    async def run(name: str, **arguments: object) -> str:
        text, is_error = await toolbox.run(ToolCall("1", name, json.dumps(arguments)), context)
        return f"! {text}" if is_error else text

    return run


def put(root: Path, path: str, content: str | bytes) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.mark.usefixtures("processes")
async def test_what_was_written_can_be_read_listed_found_and_searched(run: Run) -> None:
    written = await run("write_file", path="notes.txt", content="Grüße\nan alle\n")
    assert written == "Wrote 14 characters to files/notes.txt."
    assert await run("read_file", path="notes.txt") == "Grüße\nan alle"
    assert await run("list_files", path="files") == "notes.txt (16 bytes)"
    assert await run("glob", pattern="*.txt") == "files/notes.txt"
    assert await run("grep", pattern="a.l") == "files/notes.txt:2: an alle"


async def test_writing_too_much_or_what_no_file_can_hold_is_refused(run: Run, root: Path) -> None:
    much = await run("write_file", path="a.txt", content="ü" * 500_001)
    assert much.startswith("! The content has 1,000,002 bytes, but a file may have 1,000,000")
    broken = await run("write_file", path="a.txt", content="ab\ud800")
    assert broken == "! Character 3 of the content can't be written."
    outside = await run("write_file", path="memory/a.md", content="")
    assert outside == "! 'memory/a.md' can't be written: only files in 'files/' can."
    assert os.listdir(root / "files") == []


async def test_writing_over_a_file_says_so_and_over_a_folder_or_below_a_file_is_refused(
    run: Run, root: Path
) -> None:
    await run("write_file", path="files/a/b.md", content="old")
    again = await run("write_file", path="files/a/b.md", content="n")
    assert again == "Wrote 1 character to files/a/b.md, replacing what was there."
    assert await run("read_file", path="a/b.md") == "n"
    over = await run("write_file", path="files/a", content="")
    assert over == "! 'files/a' is a folder, not a file."
    below = await run("write_file", path="files/a/b.md/c", content="")
    assert below == "! 'files/a/b.md/c' has a file where a folder is needed."


async def test_a_page_says_where_to_read_on_and_is_bounded_in_characters_too(
    run: Run, root: Path
) -> None:
    put(root, "files/long.txt", "\n".join(map(str, range(1, 1001))))
    page = await run("read_file", path="long.txt", offset=11, limit=2)
    assert page == "11\n12\n[The file goes on: read it with offset=13.]"
    assert await run("read_file", path="long.txt", offset=999) == "999\n1000"
    beyond = await run("read_file", path="long.txt", offset=2000)
    assert beyond == "[The file ends before line 2,000.]"
    put(root, "files/wide.txt", "\n".join(["x" * 4_000] * 100))
    page = await run("read_file", path="wide.txt")
    assert len(page) < 61_000
    assert page.endswith("[The file goes on: read it with offset=16.]")
    put(root, "files/line.json", "ü" * 12_000 + "\nend")
    shown, end = (await run("read_file", path="line.json")).split("\n")
    assert shown == "ü" * 5_000 + "… [7,000 more characters in this line]"
    assert end == "end"


async def test_a_line_behind_millions_of_empty_ones_is_read_without_reading_each(
    run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    lines = text_lines.TextLines.__iter__

    def counted(file: text_lines.TextLines) -> Iterator[str]:
        for line in lines(file):
            read.append(line)
            yield line

    monkeypatch.setattr(text_lines.TextLines, "__iter__", counted)
    put(root, "empty.log", b"\n" * 6_000_000 + b"the last\n")
    assert await run("read_file", path="empty.log", offset=6_000_001) == "the last"
    assert "before line 7,000,000" in await run("read_file", path="empty.log", offset=7_000_000)
    assert len(read) < 1_000


@given(
    content=st.text("ab\n\r", max_size=40),
    offset=st.integers(1, 45),
    block=st.integers(1, 12),
)
def test_lines_are_counted_alike_in_whatever_blocks_they_are_skipped(
    content: str, offset: int, block: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_lines, "LINE_BYTES", block)
        one_by_one, skipped = BytesIO(content.encode()), BytesIO(content.encode())
        expected = [*text_lines.TextLines(one_by_one)][offset - 1 :]
        text_lines.skip(skipped, offset - 1, 1_000)
        assert [*text_lines.TextLines(skipped)] == expected


async def test_a_huge_file_is_read_to_a_bound(
    run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_READ_BYTES", 3_000)
    put(root, "files/huge.log", "line of a log\n" * 1_000)
    page = await run("read_file", path="huge.log", offset=200)
    assert page.endswith("line of a log\n[Only the first 3.0 KB of a file can be read.]")
    beyond = await run("read_file", path="huge.log", offset=900)
    assert beyond == "[Only the first 3.0 KB of a file can be read.]"


async def test_a_binary_an_empty_and_a_wrong_file_each_get_a_sentence(run: Run, root: Path) -> None:
    put(root, "files/picture.png", b"\x89PNG\r\n\0\0" * 1_000)
    put(root, "files/empty.txt", "")
    put(root, "files/latin.txt", "Grüße\r\nan alle".encode("latin-1"))
    os.mkfifo(root / "files" / "pipe")
    for path, sentence in {
        "picture.png": "! 'picture.png' is a binary file (8.0 KB); only text can be read.",
        "empty.txt": "'empty.txt' is empty.",
        "files": "! 'files' is a folder, not a file.",
        ".": "! '.' is a folder, not a file.",
        "pipe": "! 'pipe' can't be used: it is not a regular file.",
        "latin.txt": "Grüße\nan alle\n[The file is not UTF-8; it was read as windows-1252.]",
    }.items():
        assert await run("read_file", path=path) == sentence


@pytest.mark.usefixtures("processes")
async def test_a_missing_file_is_answered_with_the_nearest_names(run: Run, root: Path) -> None:
    assert await run("read_file", path="notes.txt") == (
        "! There is no 'notes.txt' in the workspace. It holds no files yet."
    )
    put(root, "files/2026/plan.md", "")
    put(root, "files/notes.txt", "")
    assert await run("read_file", path="note.txt") == (
        "! There is no 'note.txt' in the workspace. Did you mean files/notes.txt?"
    )
    assert await run("read_file", path="plan.md") == (
        "! There is no 'plan.md' in the workspace. Did you mean files/2026/plan.md?"
    )
    assert await run("list_files", path="2025") == (
        "! There is no '2025' in the workspace. Did you mean files/2026?"
    )
    assert await run("grep", pattern="x", path="zzz") == (
        "! There is no 'zzz' in the workspace. list_files and glob show what is there."
    )


async def test_a_file_that_the_system_denies_gets_a_sentence(
    run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, "files/a.txt", "a")
    monkeypatch.setattr(files, "open_file", _denied)
    assert await run("read_file", path="a.txt") == (
        "! 'a.txt' can't be opened: the system denies access."
    )


def _denied(root: Path, target: Path) -> None:
    raise PermissionError(13, "Permission denied")


async def test_a_listing_tells_folders_files_and_links(run: Run, root: Path) -> None:
    put(root, "files/b.txt", "x" * 2_500_000)
    put(root, "files/a/c.txt", "")
    (root / "files" / os.fsdecode(b"caf\xe9.txt")).touch()
    (root / "files" / "door").symlink_to("/")
    assert await run("list_files", path="files") == (
        "a/\nb.txt (2.5 MB)\ncaf?.txt (0 bytes)\ndoor (a link or a device, which can't be opened)"
    )
    assert await run("list_files") == "files/"
    below = await run("list_files", path="files/b.txt")
    assert below == "! 'files/b.txt' has a file where a folder is needed."


async def test_an_empty_folder_and_a_workspace_that_is_not_there_yet_are_empty(
    run: Run, root: Path
) -> None:
    assert await run("list_files", path="files") == "'files' is an empty folder."
    shutil.rmtree(root)
    assert await run("list_files") == "'.' is an empty folder."
    assert await run("glob", pattern="*") == "No file matches '*'."
    assert await run("write_file", path="a.txt", content="a") == (
        "Wrote 1 character to files/a.txt."
    )


async def test_a_long_listing_says_how_many_more(run: Run, root: Path) -> None:
    for number in range(510):
        put(root, f"files/{number:03}.txt", "")
    assert (await run("list_files", path="files")).endswith("\n[10 more entries]")
    found = await run("glob", pattern="*")
    assert found.startswith("files/000.txt\nfiles/001.txt\n")
    assert found.endswith("\n[10 more files]")


async def test_a_glob_finds_files_by_name(run: Run, root: Path) -> None:
    put(root, "files/top.md", "")
    put(root, "files/a/b/c.md", "")
    for pattern, found in {
        "*.md": "files/a/b/c.md files/top.md",
        "files/*.md": "files/top.md",
        "files/**/*.md": "files/a/b/c.md files/top.md",
        "**/b/*": "files/a/b/c.md",
        "files/**": "files/a/b/c.md files/top.md",
        "./files/to?.[mn]d": "files/top.md",
        "../**": "",
        "/**": "",
    }.items():
        names = (await run("glob", pattern=pattern)).split("\n")
        assert sorted(names) == (found.split() or [f"No file matches '{pattern}'."])


@pytest.mark.timeout(60)
async def test_no_glob_takes_for_ever(run: Run, root: Path) -> None:
    """Try patterns that match in very many ways: the search exceeds the time limit."""
    put(root, "files/" + "a/" * 25 + "a" * 200, "")
    for pattern in ("**/a" * 100 + "/b", "*a" * 200 + "b"):
        assert (await run("glob", pattern=pattern)).startswith("No file matches")


@given(pattern=st.text(st.sampled_from("ab*?/.[]!"), min_size=1, max_size=20))
def test_a_pattern_without_stars_for_folders_fits_as_python_says(pattern: str) -> None:
    steps = Path(f"x/{pattern}").parts
    if "**" not in steps:
        name = Path("x/a/b")
        is_match = files._Glob(f"x/{pattern}")(name.as_posix())
        assert is_match == (len(steps) == 3 and name.match("/".join(steps)))


@pytest.mark.usefixtures("processes")
async def test_a_search_shows_hits_with_their_place(run: Run, root: Path) -> None:
    put(root, "files/a.txt", "one\ntwo\r\nThree\n")
    put(root, "files/b.bin", b"two\0")
    put(root, "memory/day.md", "two")
    assert await run("grep", pattern="t[wh]") == "files/a.txt:2: two\nmemory/day.md:1: two"
    assert await run("grep", pattern="^t", ignore_case=True, path="files") == (
        "files/a.txt:2: two\nfiles/a.txt:3: Three"
    )
    assert await run("grep", pattern="o$", path="a.txt") == "files/a.txt:2: two"
    assert await run("grep", pattern="two", path="b.bin") == (
        "No line of a text file matches 'two' in 'b.bin'."
    )


@pytest.mark.usefixtures("processes")
async def test_of_much_that_matches_a_part_is_shown(run: Run, root: Path) -> None:
    put(root, "files/a.txt", "hit\n" * 60)
    hits = (await run("grep", pattern="hit")).split("\n")
    assert hits[49:] == ["files/a.txt:50: hit", "[10 more lines that match]"]
    first = await run("grep", pattern="hit", limit=1)
    assert first == "files/a.txt:1: hit\n[59 more lines that match]"
    put(root, "files/one-line.json", "x" * 50_000 + "needle" + "y" * 50_000)
    hit = await run("grep", pattern="needle")
    assert hit.startswith("files/one-line.json:1: …xxx")
    assert "xneedley" in hit
    assert hit.endswith("yyy…")
    assert len(hit) < 400


@pytest.mark.usefixtures("processes")
async def test_a_pattern_that_takes_for_ever_is_stopped(
    run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, "files/a.txt", "a" * 5_000 + "b")
    for seconds, pattern in ((0.2, "(a|aa)+$"), (0, "x")):
        monkeypatch.setattr(files, "SECONDS", seconds)
        assert await run("grep", pattern=pattern) == (
            f"! The search was stopped after {seconds} seconds: simplify the pattern, or name a "
            "smaller folder."
        )


EXPLODING = """
import asyncio, json, re, resource, sys
from pathlib import Path
from zoneinfo import ZoneInfo

resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

from agent.tools.base import ToolContext
from agent.tools.toolbox import Toolbox
from memory.keys import ConversationKey
from memory.messages import ToolCall
from plugins.files import feature as files

async def main():
    context = ToolContext(ConversationKey("pipe/main", "main"), Path(sys.argv[1]), ZoneInfo("UTC"))
    for pattern in sys.argv[2:]:
        call = ToolCall("1", "grep", json.dumps({"pattern": pattern}))
        print((await Toolbox(files.parley_tools()).run(call, context))[0])
    # Not getrusage: what it tells begins with what the process had that started this one.
    print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024)

asyncio.run(main())
"""


@pytest.mark.usefixtures("processes")
def test_a_pattern_that_describes_more_than_a_machine_holds_is_refused(root: Path) -> None:
    put(root, "files/a.txt", "a" * 1_000)
    patterns = ["(?:a{65535}){65535}", *(f"(?:a{{6000}}){{{n}}}" for n in (300, 301)), "a{9}"]
    done = subprocess.run(
        [sys.executable, "-c", EXPLODING, root, *patterns],
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    *texts, last, megabytes = done.stdout.split("\n")[:-1]
    assert texts == [
        f"The search was stopped: {pattern!r} takes more than 400 MB of memory or 5 seconds. "
        "Simplify the pattern."
        for pattern in patterns[:3]
    ]
    assert last.startswith("files/a.txt:1: aaa")
    assert int(megabytes) < 300, "nothing of it is left in the bot"


@pytest.mark.usefixtures("processes")
async def test_a_search_ends_with_its_turn(
    run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search's process is killed; the time limit does not end it."""
    monkeypatch.setattr(files, "SECONDS", 1_000)
    put(root, "files/a.txt", "a" * 5_000 + "b")
    begun, ended = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    class Watched(Search):
        def hits(self, lines: Sequence[str]) -> list[tuple[int, int]]:
            loop.call_soon_threadsafe(begun.set)
            try:
                return super().hits(lines)
            finally:
                loop.call_soon_threadsafe(ended.set)

    monkeypatch.setattr(files, "Search", Watched)
    task = asyncio.ensure_future(run("grep", pattern="(a|aa)+$"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(ended.wait(), PATIENCE)


@pytest.mark.usefixtures("processes")
async def test_what_users_of_the_tool_know_of_patterns_still_holds(run: Run, root: Path) -> None:
    put(root, "files/a.txt", "price: 12 €\nPREIS: 12 €\nanna\nGrüße\n")
    for pattern, line in (
        (r"(?<=price: )\d+", "1: price: 12 €"),
        (r"^(\w)(\w)\2\1$", "3: anna"),
        (r"\p{Lu}{5}", "2: PREIS: 12 €"),
        (r"^(?:Gruse){e<=2}$", "4: Grüße"),
    ):
        assert f"files/a.txt:{line}" in await run("grep", pattern=pattern)


@pytest.mark.usefixtures("processes")
async def test_no_pattern_of_the_models_is_kept(run: Run, root: Path) -> None:
    put(root, "files/a.txt", "a")
    finder("kept by us: how a text is split")
    before = len(regex._main._cache), len(re._cache)  # type: ignore[attr-defined]
    for number in range(5):
        await run("grep", pattern=f"kept{number}")
        await run("glob", pattern=f"kept{number}*")
        finder(f"kept {number}")
    assert (len(regex._main._cache), len(re._cache)) == before  # type: ignore[attr-defined]


@pytest.mark.timeout(60)
async def test_a_mistyped_name_does_not_take_for_ever_to_compare(run: Run, root: Path) -> None:
    for number in range(300):
        put(root, "files/" + "ab" * 100 + f"/{'ab' * 100}{number}", "")
    assert "There is no" in await run("read_file", path="/".join(["ba" * 120] * 8))


@pytest.mark.usefixtures("processes")
async def test_a_broken_pattern_gets_a_sentence(run: Run, root: Path) -> None:
    put(root, "files/a.txt", "a")
    for pattern in ("(", "[", "*", "(" * 900, r"\L<x>", "(?P<a>x)(?P=b)"):
        text = await run("grep", pattern=pattern)
        assert text.startswith("! ")
        assert "is not a regular expression" in text


@pytest.mark.usefixtures("processes")
async def test_no_tool_follows_a_link_out_of_the_workspace(run: Run, root: Path) -> None:
    workspace = root / "files"
    outside = root / "outside"
    put(root, "outside/secret.txt", "secret")
    (workspace / "door").symlink_to(outside)
    (workspace / "secret.txt").symlink_to(outside / "secret.txt")
    for name, arguments in (
        ("read_file", {"path": "files/door/secret.txt"}),
        ("read_file", {"path": "files/secret.txt"}),
        ("list_files", {"path": "files/door"}),
        ("grep", {"pattern": "s", "path": "files/door"}),
        ("write_file", {"path": "files/door/secret.txt", "content": "x"}),
    ):
        assert "is a symbolic link, and links are not followed" in await run(name, **arguments)
    assert "No line" in await run("grep", pattern="secret", path="files")
    assert "No file" in await run("glob", pattern="files/**")
    assert (outside / "secret.txt").read_text() == "secret"


def test_each_tool_says_what_it_touches() -> None:
    tools = {tool.name: tool for tool in files.parley_tools()}
    assert list(tools) == ["glob", "grep", "list_files", "read_file", "write_file"]
    assert {name for name, tool in tools.items() if "writes" in tool.touches} == {"write_file"}
    assert {name for name, tool in tools.items() if not tool.is_parallel} == {"write_file"}


async def test_no_more_is_written_than_a_chat_may_keep(root: Path) -> None:
    settings = ToolSettings(files_quota=1)
    key = ConversationKey("pipe/main", "main")
    context = ToolContext(key, root, ZoneInfo("UTC"), settings=settings)
    toolbox = Toolbox(files.parley_tools())

    async def write(name: str, size: int) -> str:
        arguments = json.dumps({"path": name, "content": "x" * size})
        return (await toolbox.run(ToolCall("1", "write_file", arguments), context))[0]

    assert (await write("a.txt", 600_000)).startswith("Wrote")
    assert await write("b.txt", 600_000) == (
        "Nothing was written, because this chat may keep 1 MB of files (tools.files_quota). "
        "Delete something first."
    )
    assert (await write("a.txt", 500_000)).startswith("Wrote"), "it takes no more room than before"
    assert (await write("b.txt", 400_000)).startswith("Wrote")


def test_what_lies_too_deep_to_be_looked_at_counts_as_much(root: Path) -> None:
    here = os.open(root / "files", os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=here)
        inner = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    assert 1_000_000_000 < measure_usage(root) < 1_001_000_000
