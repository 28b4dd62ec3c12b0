"""`/context export` and `/context import`, and the hooks of a conversation's files.

If enabled in the settings, the files are kept up to date. Each update rewrites all of them, at a
cost in proportion to the conversation. So it runs in the background, once for many changes, and
takes at most a twentieth of the time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from agent.tools.allowance import Origins
from agent.tools.workspace import WRITABLE, open_file, plain_errors, resolve
from channels.language import _, explain
from memory.keys import Scope
from memory.messages import Message
from memory.record.store import StoreError
from memory.services import READABLE, TERSE, WHOLE, Mirror, MirroredConversation
from memory.tasks import BackgroundTasks
from plugins.api import Action, Ask, Reply, ToolError, Verb, hookimpl, refusal
from plugins.context_files import files
from plugins.context_files.files import MOST_BYTES, Unreadable, WrittenFiles, parse
from plugins.context_files.settings import ContextFilesSettings
from plugins.turn_names import ids, spell
from plugins.wording import amount, count, format_turns

log = logging.getLogger(__name__)

PAUSE = 1.0
"""Seconds from a change to its write, so that several changes are written at once."""
_REST = 20  # the pause after a write, as a multiple of its duration


async def write_files(
    conversation: MirroredConversation, *, is_readable: bool = False
) -> WrittenFiles:
    """Write a conversation's messages, and a line for each turn, into its folder; with
    `is_readable`, also as Markdown. Raises OSError."""
    name, redactor = conversation.key.id, conversation.redactor
    title = (await conversation.title() or name) if is_readable else ""
    return await conversation.write_turns(
        lambda folder, turns: files.write(folder, turns, name, redactor, title)
    )


def _is_kept(conversation: MirroredConversation) -> bool:
    section = conversation.limits.context
    return isinstance(section, ContextFilesSettings) and section.context_files


class FileMirror(Mirror):
    """Keeps the files of changed conversations up to date."""

    def __init__(self) -> None:
        self._touched: dict[str, MirroredConversation] = {}
        self._tasks = BackgroundTasks()
        self._followed: set[str] = set()
        self._hurry = asyncio.Event()

    def touch(self, conversation: MirroredConversation) -> None:
        """Schedule a write of the conversation's files, if they are kept, after a change or a
        deletion."""
        if not _is_kept(conversation):
            return
        name = conversation.key.id
        self._touched[name] = conversation
        if name not in self._followed:
            self._followed.add(name)
            self._tasks.start(self._follow(name), f"files {name}")

    async def renew(self, conversation: MirroredConversation) -> None:
        """Rewrite the files if they are kept or were exported. Raises OSError."""
        exported = conversation.folder / WHOLE
        if _is_kept(conversation) or await asyncio.to_thread(exported.exists):
            await write_files(conversation)

    async def flush(self) -> None:
        """Write all pending files now."""
        self._hurry.set()
        await self._tasks.idle()
        self._hurry.clear()

    def drop(self, is_selected: Scope) -> None:
        """Stop updating these conversations, which other processes own from now on."""
        for name in [name for name in self._touched if is_selected(name)]:
            del self._touched[name]

    async def close(self) -> None:
        """Stop; pending files are written with the next change."""
        await self._tasks.stop()

    async def _follow(self, name: str) -> None:
        pause = PAUSE
        try:
            while name in self._touched:
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._hurry.wait()
                started = time.monotonic()
                if (conversation := self._touched.pop(name, None)) is not None:
                    await _try(conversation)
                pause = max(PAUSE, _REST * (time.monotonic() - started))
        finally:
            self._followed.discard(name)


async def _try(conversation: MirroredConversation) -> None:
    try:
        await write_files(conversation)
    except (OSError, StoreError):
        log.exception("the files of %s could not be written", conversation.key.id)


async def export(ask: Ask) -> Reply:
    """`/context export [markdown]`"""
    if (kind := ask.text.strip().lower()) not in ("", "json", "markdown"):
        raise refusal("/context export takes nothing, or markdown for a file to read.")
    try:
        written = await write_files(ask.conversation, is_readable=kind == "markdown")
    except OSError as error:
        why = explain(error.strerror or str(error))
        raise refusal("The files could not be written: {strerror}.", strerror=why) from error
    if not written.files:
        raise refusal("There is nothing to export: no turn is finished.")
    counts = f"{count(written.turns, 'turn')} ({count(written.messages, 'message')})"
    readable = _(", to {readable} to be read", readable=READABLE) if kind == "markdown" else ""
    text = _(
        "Exported {said} to {whole}{readable}, and a line for each turn to {terse}, in "
        "`{folder}`. /context import reads them.",
        said=counts,
        whole=WHOLE,
        readable=readable,
        terse=TERSE,
        folder=ask.conversation.folder,
    )
    root = ask.bot.workspace(ask.conversation.key)
    data = {
        "turns": written.turns,
        "messages": written.messages,
        "files": [str(file) for file in written.files],
        "paths": [file.relative_to(root).as_posix() for file in written.files],
    }
    return Reply(text, data)


async def import_(ask: Ask) -> Reply:
    """`/context import [NAME]`, or the file that comes with it"""
    name = next(iter(ask.files), "") or ask.text.strip() or WHOLE
    root = ask.bot.workspace(ask.conversation.key)
    exported = ask.conversation.folder.relative_to(root).as_posix()
    turns = await asyncio.to_thread(_read, root, exported, name)
    added = await ask.conversation.turns.append(turns)
    numbers = tuple(turn.number for turn in added)
    tokens = ask.conversation.context.view().scale.part(sum(turn.tokens for turn in added))
    dropping = spell(numbers)
    return Reply(
        _(
            "Imported {turns} from {name} as {numbers}, about {tokens} tokens. /context "
            "drop {dropping} removes them again.",
            turns=count(len(added), "turn"),
            name=name,
            numbers=format_turns(numbers),
            tokens=amount(tokens),
            dropping=dropping,
        ),
        {"turns": ids(numbers), "tokens": tokens},
        (Action(_("Remove"), f"/context drop {dropping}"),),
    )


def _read(root: Path, exported: str, name: str) -> list[list[Message]]:
    """Return the turns of a file that was exported here, or of one elsewhere in the workspace; the
    lines of `NAME.json` may be in `NAME.terse.json`."""
    try:
        place = _place(root, exported, name)
        whole, is_strange = _content(root, place)
        lines, are_strange = f"{place.removesuffix('.json')}.terse.json", False
        terse = b""
        if resolve(root, lines, must_write=False).is_file():
            terse, are_strange = _content(root, lines)
        turns = parse(whole, terse)
        return _mark_untrusted(turns) if is_strange or are_strange else turns
    except (ToolError, Unreadable) as error:
        raise refusal(
            "Nothing was imported from {name}. {error}", name=name[:100], error=explain(str(error))
        ) from None


def _mark_untrusted(turns: Iterable[Iterable[Message]]) -> list[list[Message]]:
    """Return the turns with every tool result marked untrusted, and all messages tainted,
    regardless of the file."""
    return [
        [replace(m, is_untrusted=m.is_untrusted or m.role == "tool", is_tainted=True) for m in turn]
        for turn in turns
    ]


def _place(root: Path, exported: str, name: str) -> str:
    if "/" in name:
        return name
    place = f"{exported}/{name}"
    return place if resolve(root, place, must_write=False).is_file() else name


def _content(root: Path, name: str) -> tuple[bytes, bool]:
    """Return a file's content, and whether an outsider may have written it. Only the bot can write
    where exports are stored."""
    target = resolve(root, name, must_write=False)
    with plain_errors(name), open_file(root, target) as file:
        is_writable = target.is_relative_to(root / WRITABLE)
        is_strange = is_writable and Origins(root).is_from_outside(target, file)
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise Unreadable(
            _("it is larger than {most_bytes} MB.", most_bytes=MOST_BYTES // 1_000_000)
        )
    return content, is_strange


_VERBS = (
    Verb(
        "context",
        "export",
        "save the whole conversation as files (export markdown: to read)",
        export,
        after="search",
    ),
    Verb(
        "context",
        "import",
        "add the turns of an exported file, which may come along (import context.json)",
        import_,
        after="export",
        is_slow=True,
        takes_files=True,
    ),
)


@hookimpl
def parley_mirror() -> type[Mirror]:
    return FileMirror


@hookimpl
def parley_verbs() -> list[Verb]:
    return [*_VERBS]
