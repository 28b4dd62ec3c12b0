"""`/context export` and `/context import`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson

from agent.tools.workspace import WRITABLE, open_file, plain_errors, resolve, save_file
from memory.conversation import Conversation
from memory.messages import Message
from memory.turns import Turn, named
from plugins.api import Action, Ask, CommandError, Reply, ToolError
from plugins.builtin.context import exchange
from plugins.builtin.context.ranges import ids
from plugins.wording import amount, count

WHOLE, TERSE = "context.json", "context.terse.json"
_BATCH = 1_000  # turns that are read at once


async def export(ask: Ask, rest: str) -> Reply:
    """`/context export`"""
    del rest
    turns = [turn for turn in await _all_turns(ask.conversation) if turn.is_complete]
    if not turns:
        raise CommandError("There is nothing to export: no turn is finished.")
    root, name = ask.bot.workspace(ask.conversation.key), ask.conversation.key.id
    files = {WHOLE: exchange.as_data(turns, name), TERSE: exchange.as_terse(turns, name)}
    paths = await asyncio.to_thread(
        lambda: [str(save(root, file, _json(data))) for file, data in files.items()]
    )
    messages = sum(len(turn.entries) for turn in turns)
    text = (
        f"Exported {count(len(turns), 'turn')} ({count(messages, 'message')}) to files/{WHOLE}, "
        f"and a line for each turn to files/{TERSE}, in `{root}`. /context import reads them."
    )
    return Reply(text, {"turns": len(turns), "messages": messages, "files": paths})


async def _all_turns(conversation: Conversation) -> list[Turn]:
    turns: list[Turn] = []
    for first in range(1, conversation.newest + 1, _BATCH):
        turns += await conversation.turns(range(first, first + _BATCH))
    return turns


def _json(data: dict[str, Any]) -> bytes:
    return orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


async def import_(ask: Ask, rest: str) -> Reply:
    """`/context import [NAME]`"""
    name = rest.strip() or WHOLE
    root = ask.bot.workspace(ask.conversation.key)
    turns = await asyncio.to_thread(_read, root, name)
    added = await ask.conversation.append(turns)
    numbers = tuple(turn.number for turn in added)
    tokens = ask.conversation.view().scale.part(sum(turn.tokens for turn in added))
    dropping = f"t{numbers[0]}-t{numbers[-1]}" if len(numbers) > 1 else f"t{numbers[0]}"
    return Reply(
        f"Imported {count(len(added), 'turn')} from {name} as {named(numbers)}, about "
        f"{amount(tokens)} tokens. /context drop {dropping} takes them out again.",
        {"turns": ids(numbers), "tokens": tokens},
        (Action("Take out", f"/context drop {dropping}"),),
    )


def _read(root: Path, name: str) -> list[list[Message]]:
    try:
        content = _content(root, name)
        return exchange.parsed(content)
    except (ToolError, CommandError) as error:
        raise CommandError(f"Nothing was imported from {name[:100]}: {error}") from None


def _content(root: Path, name: str) -> bytes:
    target = resolve(root, name, must_write=False)
    with plain_errors(name), open_file(root, target) as file:
        content = file.read(exchange.MOST_BYTES + 1)
    if len(content) > exchange.MOST_BYTES:
        raise CommandError(f"it is larger than {exchange.MOST_BYTES // 1_000_000} MB.")
    return content


def save(root: Path, name: str, content: bytes) -> Path:
    """Write a file into the folder `files/` of a workspace. Raises CommandError."""
    try:
        target = resolve(root, name, must_write=True)
        with plain_errors(name):
            save_file(root, target, content)
    except ToolError as error:
        raise CommandError(str(error)) from None
    return target


def delete_exports(root: Path) -> None:
    """Delete what `/context export` saved, for `/forget`."""
    for name in (WHOLE, TERSE):
        (root / WRITABLE / name).unlink(missing_ok=True)
