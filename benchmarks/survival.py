"""A measure of the content that survives compactions: instructions, corrections, open and finished
requests, numbers and identifiers, after 1, 3 and 10 of them.

`python -m benchmarks.survival [--write]`: the whole bot talks to a scripted model on this machine
(no key, no network), under each of its strategies. The summaries are written by a good model, by
one that loses a third each time, by a hostile one that drops all instructions, states corrected
values and lists finished requests as tasks, and by none ("extractive"). Beside it run small models
of the documented behaviour of other bots:

- CowAgent: the older half of the turns is removed, and its summary is put in front, unchecked.
- OpenClaw's safeguard: all but the last three turns are summarised. The summary is checked for
  headings, requested once more, and then accepted.
- Open WebUI with a filter that clips: the last ten messages.
- A sliding window of 20 turns.

No model judges: a text has an item, or it does not (`survival_script.py`). `--write` stores the
tables in `docs/survival.md` and the chart in `docs/survival.svg`.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from benchmarks.survival_script import (
    FILLER,
    GRADES,
    KINDS,
    conversation,
    measure,
    summarise,
)
from memory.context.strategies import STRATEGIES
from tests.fakes.openai_server import Answer, Fail, Received, Say
from tests.whole.testbot import TestBot, run_bot

ROUNDS = (1, 3, 10)
DOCS = Path(__file__).parents[1] / "docs"
HEADINGS = ("## Decisions", "## Open TODOs", "## Constraints", "## Exact identifiers")

Shares = Mapping[str, float]
Row = dict[int, Shares]
"""The share of each kind that survives, by the number of compactions."""


# --- the bot -------------------------------------------------------------------------------------


async def ours(strategy: str, grade: str) -> Row:
    """Return the shares that survive in the bot's own requests."""
    replies = dict([*conversation(), *FILLER])
    generation = 0

    def answer(request: Received) -> Answer:
        nonlocal generation
        messages = request.body["messages"]
        if request.is_turn:
            return Say(replies.get(str(messages[-1]["content"]).split("\n")[-1], "All right."))
        generation += 1
        text = summarise(grade, str([message["content"] for message in messages]), generation)
        return Say(text) if text else Fail(400, {"message": "there is no such model"})

    settings = {
        "agent_max_context_turns": 1_000,
        "context": {"strategy": strategy},
        "rules": {"detect": "auto"},
    }
    with tempfile.TemporaryDirectory() as folder:
        async with run_bot(Path(folder), answer, settings) as bot:
            return await _talk(bot)


async def _talk(bot: TestBot) -> Row:
    for said, _reply in conversation():
        await bot.says(said)
    found: Row = {}
    for number in range(1, max(ROUNDS) + 1):
        for said, _reply in FILLER:
            await bot.says(said)
        await bot.says("/context compact")
        if number in ROUNDS:
            await bot.says("So far, so good?")
            sent = bot.sent_to_model()
            found[number] = measure("\n".join(str(message["content"]) for message in sent))
    return found


# --- the documented behaviour of others ----------------------------------------------------------


def half_leaves(grade: str) -> Row:
    """Return the shares that survive CowAgent's documented method."""
    return _other(grade, lambda turns: len(turns) - len(turns) // 2)


def safeguard(grade: str) -> Row:
    """Return the shares that survive OpenClaw's documented safeguard: headings are requested twice,
    and then a summary without them is accepted."""
    return _other(grade, lambda turns: len(turns) - 3, "\n".join(HEADINGS))


def _other(grade: str, leaving: Callable[[Sequence[object]], int], headings: str = "") -> Row:
    turns, summary, found = list(conversation()), "", Row()
    for number in range(1, max(ROUNDS) + 1):
        turns += FILLER
        count = leaving(turns)
        source = "\n".join((summary, *(text for turn in turns[:count] for text in turn)))
        turns = turns[count:]
        written = summarise(grade, source, number)
        summary = "\n".join(filter(None, (headings if written else "", written)))
        if number in ROUNDS:
            found[number] = measure("\n".join((summary, *(t for turn in turns for t in turn))))
    return found


def window(messages: int) -> Row:
    """Return the shares that survive in a window of the last messages."""
    turns, found = list(conversation()), Row()
    for number in range(1, max(ROUNDS) + 1):
        turns += FILLER
        if number in ROUNDS:
            said = [text for turn in turns for text in turn]
            found[number] = measure("\n".join(said[-messages:]))
    return found


# --- tables and the chart ------------------------------------------------------------------------


def table(rows: Mapping[str, Row]) -> str:
    """Return a table: the mean after each number of compactions, and each kind after the last."""
    last = max(ROUNDS)
    head = " | ".join([*(f"after {n}" for n in ROUNDS), *KINDS])
    lines = [f"| | {head} |", f"|---|{'---:|' * (len(ROUNDS) + len(KINDS))}"]
    for name, row in rows.items():
        means = [f"{fmean(row[n].values()):.0%}" for n in ROUNDS]
        lines.append(
            f"| {name} | {' | '.join([*means, *(f'{row[last][k]:.0%}' for k in KINDS)])} |"
        )
    return "\n".join(lines)


def chart(rows: Mapping[str, Row]) -> str:
    """Return a chart of the shares that survive the last compaction, by kind."""
    left, top, wide, high = 210, 60, 100, 26
    width, height = left + wide * len(KINDS) + 20, top + high * len(rows) + 20
    style = 'font-family="sans-serif" font-size="13"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {style}>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="10" y="22" font-weight="bold">Left after {max(ROUNDS)} compactions by a hostile '
        "summariser</text>",
    ]
    for column, kind in enumerate(KINDS):
        x = left + wide * column + wide // 2
        parts.append(f'<text x="{x}" y="{top - 10}" text-anchor="middle">{kind}</text>')
    for line, (name, row) in enumerate(rows.items()):
        y = top + high * line
        parts.append(f'<text x="10" y="{y + 17}">{name}</text>')
        for column, kind in enumerate(KINDS):
            share, x = row[max(ROUNDS)][kind], left + wide * column
            parts += [
                f'<rect x="{x + 4}" y="{y + 3}" width="{wide - 8}" height="{high - 6}" '
                f'fill="#eeeeee"/>',
                f'<rect x="{x + 4}" y="{y + 3}" width="{(wide - 8) * share:.0f}" '
                f'height="{high - 6}" fill="#7fb685"/>',
                f'<text x="{x + wide // 2}" y="{y + 18}" text-anchor="middle">{share:.0%}</text>',
            ]
    return "\n".join([*parts, "</svg>", ""])


async def run(grade: str) -> dict[str, Row]:
    """Return the rows of a summariser."""
    rows = {f"Parley, {name}": await ours(name, grade) for name in STRATEGIES}
    return rows | {
        "CowAgent": half_leaves(grade),
        "OpenClaw, safeguard": safeguard(grade),
        "Open WebUI, clip filter": window(10),
        "sliding window of 20": window(40),
    }


GRADES_TOLD = {
    "extractive": "No model writes: the bot chooses sentences. Others have nothing then.",
    "good": "It writes down all that matters.",
    "lossy": "It omits a third of the facts, another third each time. The receipt names the facts "
    "that a first summary omits, with a button that adds them; here, nobody presses it.",
    "hostile": "It drops all instructions, numbers and identifiers, repeats values that were "
    "corrected, and lists finished requests as tasks.",
}
PAGE = """\
# Survival of compactions

A conversation has four items of each kind: standing instructions, corrected values, open requests,
finished requests, numbers and identifiers. It is compacted repeatedly (`/context compact`). The
figures are the share that the next request still has. An instruction counts if it is there word for
word; a correction if the new value is there and the old one nowhere; an open request if it is
listed as open; a finished request if it is never listed as a task (a bot that forgets everything
has 100 % of these).

```console
python -m benchmarks.survival --write
```

No key and no network are needed: the models are scripts on this machine, and no model judges. The
other bots are small models of what their documentation describes, not the programs themselves;
[the program](../benchmarks/survival.py) says how each is modelled.

![Shares kept with a hostile summariser](survival.svg)
"""


def page(tables: Mapping[str, Mapping[str, Row]]) -> str:
    """Return the page."""
    parts = [PAGE.rstrip()]
    for grade, rows in tables.items():
        parts += [f"## The summariser: {grade}", GRADES_TOLD[grade], table(rows)]
    return "\n\n".join(parts) + "\n"


def main(arguments: Sequence[str]) -> None:
    tables = {}
    for grade in GRADES:
        tables[grade] = asyncio.run(run(grade))
        print(f"\n{grade}\n\n{table(tables[grade])}", flush=True)
    if "--write" in arguments:
        (DOCS / "survival.md").write_text(page(tables), "utf-8")
        (DOCS / "survival.svg").write_text(chart(tables["hostile"]), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
