"""Tests of commands in their sandbox, and of attempts to leave it; and of the limits that hold
without a sandbox."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from agent.settings import ToolSettings
from agent.tools import allowance
from agent.tools.allowance import measure_usage
from agent.tools.base import Permission, ToolContext
from agent.tools.toolbox import Toolbox
from bot.settings import Settings
from memory.keys import ConversationKey
from memory.messages import ToolCall
from plugins.shell import box
from plugins.shell import feature as plugin
from tests.waiting import until, wait_until

pytestmark = pytest.mark.usefixtures("processes")

HAS_BOX = asyncio.run(box.is_there())
in_box = pytest.mark.skipif(not HAS_BOX, reason="bubblewrap is not there or may not work")


@pytest.fixture(params=[pytest.param(True, marks=in_box), False], ids=["boxed", "unboxed"])
def is_boxed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(plugin, "_BOX", [request.param])
    return bool(request.param)


@pytest.fixture
def boxed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "_BOX", [True])


def tools(**values: object) -> ToolSettings:
    """Return the section `tools` with these values, with the settings of all features."""
    return type(Settings().tools).model_validate(values)


async def run(folder: Path, command: str, seconds: int = 20) -> str:
    text, _ = await answer(folder, command, tools(shell_unboxed=True, shell_timeout=seconds))
    return text


async def allowed(permission: Permission) -> None:
    """Approve every permission."""


async def answer(folder: Path, command: str, settings: ToolSettings) -> tuple[str, bool]:
    key = ConversationKey("pipe/main", "pipe-main")
    context = ToolContext(key, folder, ZoneInfo("UTC"), settings=settings, approve=allowed)
    call = ToolCall("c", "shell", json.dumps({"command": command}))
    return await Toolbox(plugin.parley_tools()).run(call, context)


async def test_a_command_runs_in_the_files_of_its_chat(tmp_path: Path, is_boxed: bool) -> None:
    text = await run(tmp_path, "echo hello | tee note.txt; exit 3")
    assert text == "Exit code 3.\nhello"
    assert (tmp_path / "files" / "note.txt").read_text() == "hello\n"
    assert await run(tmp_path, r"printf 'a\377b\000c'") == "Exit code 0.\na�bc"
    text = await run(tmp_path, "nice; cat /proc/self/oom_score_adj")
    told = f"Exit code 0.\n{min(os.nice(0) + 10, 19)}\n1000"
    assert text == told, "the processor and the memory are the bot's first"


async def test_a_command_knows_no_secret_of_the_bot(
    tmp_path: Path, is_boxed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-its-value")
    text = await run(tmp_path, "env")
    names = {line.partition("=")[0] for line in text.splitlines()[1:]}
    assert names <= {"PATH", "LANG", "HOME", "PWD", "OLDPWD", "SHLVL", "_"}
    assert "sk-its-value" not in text


async def test_a_command_that_takes_too_long_is_killed_with_its_children(
    tmp_path: Path, is_boxed: bool
) -> None:
    text = await run(tmp_path, "for i in 1 2 3; do sleep 77.5 & done; echo begun; wait", 1)
    assert text.startswith("It was killed because it took longer than 1 s.")
    await gone("77.5")


async def test_what_a_command_leaves_running_ends_with_it(tmp_path: Path, is_boxed: bool) -> None:
    assert await run(tmp_path, "sleep 88.5 & echo gone") == "Exit code 0.\ngone"
    await gone("88.5")


async def test_a_command_is_killed_when_nobody_waits_for_it(tmp_path: Path, is_boxed: bool) -> None:
    running = asyncio.create_task(run(tmp_path, "touch begun; sleep 66.5", 600))
    await until((tmp_path / "files" / "begun").exists)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await gone("66.5")


async def test_a_flood_of_output_is_ended_and_cut_in_its_middle(tmp_path: Path) -> None:
    text = await run(tmp_path, "echo first; yes")
    assert text.startswith("It was killed because it wrote more than 20 MB.\nfirst\ny\n")
    assert "bytes left out here" in text
    assert len(text) < 40_000
    text = await run(tmp_path, "seq 100000")
    assert text.startswith("Exit code 0.\n1\n2\n")
    assert text.endswith("99999\n100000")
    assert "[… 558,895 bytes left out here …]" in text


async def test_the_name_of_a_file_is_no_command(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "$(touch injected); touch injected;.txt").touch()
    assert "injected);" in await run(tmp_path, 'for f in *; do echo "$f"; done')
    assert len(list((tmp_path / "files").iterdir())) == 1


async def test_without_a_box_nothing_runs_unless_the_owner_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin, "_BOX", [False])
    text, is_error = await answer(tmp_path, "touch here", tools())
    assert is_error
    assert text == plugin.NO_BOX
    assert not (tmp_path / "files" / "here").exists()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not await box.is_there(), "where its program is not"


@in_box
@pytest.mark.usefixtures("boxed")
async def test_the_rest_of_the_chats_folder_and_of_the_box_can_only_be_read(
    tmp_path: Path,
) -> None:
    (tmp_path / "memory").mkdir()
    note = tmp_path / "memory" / "2026-11-20.md"
    note.write_text("Tea.")
    text = await run(tmp_path, "cat ../memory/*; echo Coffee. > ../memory/2026-11-20.md")
    assert "Tea." in text
    assert "Read-only file system" in text
    assert note.read_text() == "Tea."
    for place in ("/dev/x", "/x", "/usr/x"):
        assert "Read-only file system" in await run(tmp_path, f"echo > {place}")


@in_box
@pytest.mark.usefixtures("boxed")
async def test_nothing_of_the_machine_is_in_the_box(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "secret.txt").write_text("of another chat")
    mine = tmp_path / "mine"
    command = f"ls /root /home {tmp_path} {Path.cwd()} ../../other; cat /etc/passwd; ls /"
    (tmp_path / "mine").mkdir()
    text = await run(mine, command)
    assert "secret" not in text
    assert text.count("No such file or directory") == 6
    assert {"workspace", "tmp", "usr"} <= set(text.split())
    assert not {"root", "home", "var", "mnt", "opt"} & set(text.split())


@in_box
@pytest.mark.usefixtures("boxed")
async def test_no_network_reaches_out_of_the_box(tmp_path: Path) -> None:
    async with await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
        command = f'/usr/bin/python3 -c "{code}" || echo refused; cat /proc/net/dev'
        text = await run(tmp_path, command)
    assert "refused" in text
    assert "eth" not in text


@in_box
@pytest.mark.usefixtures("boxed")
async def test_no_process_outside_of_the_box_is_seen_and_none_survives_it(tmp_path: Path) -> None:
    text = await run(tmp_path, "setsid sleep 99.5 & setsid nohup sleep 99.5 & ls -d /proc/[0-9]*")
    assert str(os.getpid()) not in text.replace("/proc/", " ").split()
    await gone("99.5")


@in_box
@pytest.mark.usefixtures("boxed")
async def test_a_swarm_of_processes_ends_with_the_time(tmp_path: Path) -> None:
    """Run processes like a fork bomb, but few enough for a machine on which root has no limit."""
    one = "(setsid sh -c 'while :; do sleep 55.5; done' &)"
    swarm = f"for i in $(seq 40); do {one}; done; sleep 55.5"
    text = await run(tmp_path, swarm, 1)
    assert text.startswith("It was killed")
    await gone("55.5")


@in_box
@pytest.mark.usefixtures("boxed")
async def test_a_link_out_of_the_box_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "way").symlink_to("/etc/passwd")
    assert "No such file" in await run(tmp_path, "cat way")


@in_box
@pytest.mark.usefixtures("boxed")
async def test_what_is_only_in_memory_has_a_size(tmp_path: Path) -> None:
    for place in ("/tmp", "/dev/shm"):
        text = await run(tmp_path, f"dd if=/dev/zero of={place}/x bs=1000000 count=300")
        assert "No space left on device" in text
    await run(tmp_path, "truncate -s 100G huge")
    huge = tmp_path / "files" / "huge"
    assert not huge.exists() or huge.stat().st_size < 4_000_000_000, "nor a file on the disk"


async def limited(folder: Path, command: str, settings: ToolSettings) -> str:
    chosen = settings.model_copy(update={"shell_unboxed": True, "shell_timeout": 120})
    return (await answer(folder, command, chosen))[0]


async def test_all_processes_of_a_command_share_one_limit_of_memory(
    tmp_path: Path, is_boxed: bool
) -> None:
    """None of them alone exceeds the limit."""
    hold = "x=$(head -c 25000000 /dev/zero | tr '\\0' x); sleep 244.5; :"
    text = await limited(
        tmp_path, f"for i in 1 2 3 4; do ({hold}) & done; wait", tools(shell_memory=80)
    )
    assert text.startswith("It was killed because its processes took more than 80 MB of memory")
    await gone("244.5")


async def test_a_command_has_so_many_processes_at_most(
    tmp_path: Path, is_boxed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(box, "MOST_PROCESSES", 20)
    many = "for i in $(seq 30); do sleep 233.5 & done; wait"
    text = await limited(tmp_path, many, tools())
    assert text.startswith("It was killed because it had more than 20 processes.")
    await gone("233.5")


async def test_a_command_that_fills_the_chats_folder_is_killed(
    tmp_path: Path, is_boxed: bool
) -> None:
    command = "for i in 1 2; do head -c 1500000 /dev/zero > $i; done; sleep 222.5"
    text = await limited(tmp_path, command, tools(files_quota=2))
    assert text == (
        "It was killed because this chat may keep 2 MB of files (tools.files_quota). "
        "It printed nothing."
    )
    await gone("222.5")
    text = await limited(tmp_path, "rm 1 2", tools(files_quota=2))
    assert text == f"Exit code 0. It printed nothing.\n{plugin.NO_ROOM}"
    text = await limited(tmp_path, "ls", tools(files_quota=2))
    assert text == "Exit code 0. It printed nothing.", "what was too much could be deleted"


async def test_what_is_written_fast_is_noticed_where_looking_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Write fast where there are very many files: no file can be written beside them until they
    have been counted once more."""
    begun = tmp_path / "files" / "begun"

    def slowly(workspace: Path) -> int:
        if begun.exists():  # the written data is counted before it is complete
            usage = measure_usage(workspace)
            wait_until((tmp_path / "files" / "20").exists)
            return usage
        return measure_usage(workspace)

    monkeypatch.setattr(allowance, "measure_usage", slowly)
    writing = "touch begun; for i in $(seq 20); do head -c 9000000 /dev/zero > $i; done"
    text = await limited(tmp_path, f"{writing}; sleep 250", tools(files_quota=10))
    assert text.startswith("It was killed because this chat may keep 10 MB of files")


async def test_no_file_becomes_larger_than_there_is_room_for(tmp_path: Path) -> None:
    """The limit holds at any speed, before the files are counted."""
    settings = tools(files_quota=2)
    for name in ("one", "another"):
        await limited(tmp_path, f"head -c 50000000 /dev/zero > {name}; true", settings)
    assert sum(file.stat().st_size for file in (tmp_path / "files").iterdir()) <= 2_000_000


async def test_many_empty_files_fill_the_folder_too(tmp_path: Path) -> None:
    command = "for i in $(seq 500); do : > $i; done; sleep 250"
    text = await limited(tmp_path, command, tools(files_quota=1))
    assert text.startswith("It was killed because this chat may keep 1 MB of files")


SMALL_DISK = """
from pathlib import Path
from agent.tools.allowance import Allowance, find_why_full

def fill(name, megabytes):
    (workspace / "files" / name).write_bytes(bytes(megabytes * 1_000_000))

workspace = Path("/mnt")
(workspace / "files").mkdir()
running = Allowance.of(workspace, 1_000)
fill("a", 10)
print(find_why_full(workspace, 1_000, 5_000_000), running.quick_refusal(), sep="|")
fill("b", 9)
print(find_why_full(workspace, 1_000, 5_000_000), running.quick_refusal(), sep="|")
print(find_why_full(workspace, 1_000, 0), Allowance.of(workspace, 1_000).quick_refusal(), sep="|")
"""


@in_box
async def test_the_last_tenth_of_a_small_disk_is_left_to_messages(tmp_path: Path) -> None:
    disk = ("bwrap", "--bind", "/", "/", "--size", "20000000", "--tmpfs", "/mnt")
    ran = await box.run((*disk, sys.executable, "-c", SMALL_DISK), dict(os.environ), Path.cwd(), 60)
    assert ran.head.decode() == (
        "|\nthe disk is nearly full|the disk is nearly full\n|\n"  # existing files may be deleted
    )


async def gone(seconds: str) -> None:
    """Wait until no process sleeps for that long: a killed one takes a moment to end."""
    await until(lambda: not sleepers(seconds))


def sleepers(seconds: str) -> list[str]:
    """Return the processes on this machine that sleep for that long."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = process.read_bytes().split(b"\0")
        except OSError:
            continue  # it has just ended
        if words[:2] == [b"sleep", seconds.encode()]:
            found.append(process.parent.name)
    return found
