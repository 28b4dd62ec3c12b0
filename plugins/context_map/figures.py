"""`/context map json`: the figures of the map that the page draws. They are the next request in
blocks, in the order of the request, the nearest limit, and the size of each turn's largest request.

A long conversation has thousands of turns, and a map some hundred pixels: adjacent blocks that are
too small to be visible are merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from channels.language import _
from memory.context.forecast import find_sizes
from memory.context.settings import Limits
from memory.context.view import View
from memory.turns import Turn
from plugins.api import Ask, Reply
from plugins.builtin.context.overview import block_sizes, parts
from plugins.builtin.context.values import (
    LOG,
    RANGE,
    RUNNING,
    SUMMARY,
    TURN,
    RequestBlock,
    TurnStates,
    states,
)
from plugins.turn_names import spell
from plugins.wording import amount, clip, clip_words

MOST = 150
"""The maximum of blocks of turns, and of points of a line, which can still be distinguished."""
_WORDS = 80  # characters shown of a block

_INSIDE = (RANGE, TURN, RUNNING)


class MapBlock(Struct, frozen=True):
    """A block: its `part` of the request by name, and its tokens. It represents `count` turns from
    `first` to `last` (0: none); `turns` names the ones that can be steered, in the notation of
    commands."""

    part: str
    tokens: int
    first: int = 0
    last: int = 0
    count: int = 0
    turns: str = ""
    state: Sequence[str] = ()
    words: str = ""


def list_blocks(view: View, system: str = "", most: int = MOST) -> list[MapBlock]:
    """Return the next request in order; the tokens add up to its size. `system` is the text of the
    system prompt."""
    sizes, known = parts(view), block_sizes(view)
    front = {block.part: block for block, __ in known if block.part in (SUMMARY, LOG)}
    fixed = [
        _in_front(name, tokens, front.get(name), system)
        for name, tokens in sizes.items()
        if tokens and name not in _INSIDE
    ]
    where = states(view)
    inside = [_inside(b, tokens, where) for b, tokens in known if b.part in _INSIDE]
    return fixed + _merge(inside, view, most)


def _in_front(part: str, tokens: int, block: RequestBlock | None, system: str) -> MapBlock:
    shown = MapBlock(part, tokens, words=clip(system, _WORDS) if part == "system prompt" else "")
    if block is None:
        return shown
    words = clip_words(block.text, _WORDS) if part == SUMMARY else ""
    return replace(_over(shown, block.turns), words=words)


def _inside(block: RequestBlock, tokens: int, where: TurnStates) -> MapBlock:
    if block.turn is not None:
        state = [*where.of(block.turn.number)]
        return _over(MapBlock(block.part, tokens, state=state), block.turns)
    words = clip_words(block.text, _WORDS)
    return _over(MapBlock(RANGE, tokens, turns=spell(block.turns), words=words), block.turns)


def _over(block: MapBlock, numbers: Sequence[int]) -> MapBlock:
    if not numbers:
        return block
    return replace(block, first=numbers[0], last=numbers[-1], count=len(numbers))


def _merge(blocks: Sequence[MapBlock], view: View, most: int) -> list[MapBlock]:
    """Return the blocks, with small ones merged with adjacent ones of the same state."""
    whole = {turn.number: turn for turn in view.turns}
    total = sum(block.tokens for block in blocks)
    merged = []
    for (part, __), found in groupby(blocks, lambda one: (one.part, one.state)):
        if part == TURN:
            some = [*found]
            per_block = total / most if len(blocks) > most else 0
            merged += [_join(few, whole) for few in _gather(some, per_block)]
        else:
            merged += [_name(block, whole) for block in found]
    return merged


def _gather(blocks: Sequence[MapBlock], least: float) -> Iterator[list[MapBlock]]:
    """Yield runs of adjacent blocks with a total size of at least `least`."""
    few: list[MapBlock] = []
    size = 0
    for block in blocks:
        few.append(block)
        size += block.tokens
        if size >= least:
            yield few
            few, size = [], 0
    if few:
        yield few


def _join(few: Sequence[MapBlock], whole: Mapping[int, Turn]) -> MapBlock:
    numbers = [block.first for block in few]
    tokens = sum(block.tokens for block in few)
    joined = replace(_over(few[0], numbers), tokens=tokens, turns=spell(numbers))
    return _name(joined, whole)


def _name(block: MapBlock, whole: Mapping[int, Turn]) -> MapBlock:
    """Return a block with the first words of its first turn, if it has none yet."""
    turn = whole.get(block.first)
    if block.words or turn is None:
        return block
    return replace(block, words=clip(turn.question.text, _WORDS))


def find_limit(view: View, limits: Limits) -> dict[str, Any]:
    """Return the nearest limit: of "turns" or "tokens", the `used` and the `most` of it, and the
    tokens `at` which it is reached if turns keep their average size (`per_turn`)."""
    turns, tokens = len(view.turns), view.tokens
    nearest, __ = limits.nearest(tokens, turns)
    per_turn = view.scale.part(find_sizes(view)[1])
    found = {"of": nearest, "used": tokens, "most": limits.most_tokens, "at": limits.most_tokens}
    if nearest == "turns":
        at = max(0, tokens + (limits.most_turns - turns) * per_turn)
        found |= {"used": turns, "most": limits.most_turns, "at": at}
    return {**found, "per_turn": per_turn}


def downsample(points: Mapping[int, int], most: int = MOST) -> list[tuple[int, int]]:
    """Return (turn, size) of at most `most` turns: of adjacent ones, the largest."""
    pairs = [*points.items()]
    step = -(-len(pairs) // most)
    runs = (pairs[start : start + step] for start in range(0, len(pairs), step or 1))
    return [max(run, key=lambda pair: pair[1]) for run in runs]


async def show_figures(ask: Ask) -> Reply:
    """`/context map json`"""
    conversation = ask.conversation
    context = conversation.context
    limits = context.limits
    view = context.view(limits=limits)
    shown = list_blocks(view, context.prefix.system)
    data = {
        "blocks": [_as_data(block) for block in shown],
        "limit": find_limit(view, limits),
        "sizes": downsample(await conversation.prompts_by_turn()),
    }
    lines = [f"- {_title(block)}: {amount(block.tokens)}" for block in shown]
    return Reply("\n".join(lines), data)


def _as_data(block: MapBlock) -> dict[str, Any]:
    return {name: value for name, value in asdict(block).items() if value}


def _title(block: MapBlock) -> str:
    return f"{_(block.part)} {block.turns}".rstrip()
