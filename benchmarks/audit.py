"""The time that the audit of a summary takes (`memory/audit/judge.py`).

`python -m benchmarks.audit` measures 20,000 tokens of conversation in each of three languages. It
prints milliseconds of processor time for three steps: finding the corrections (done as each message
arrives), all other findings in the source (done while the model writes), and checking the finished
summary. It also prints how often the meter could count the same text in that time; this ratio does
not depend on the machine. The aim is 20 ms on a current machine between a summary and its
acceptance; `--write` stores the ratios in `figures.json`.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Callable, Sequence

from benchmarks import figures
from memory.audit.judge import Candidate, audit
from memory.audit.source import AuditSource
from memory.context.meter import Meter
from memory.corrections.finder import Correction, find_corrections
from memory.turns import Turn
from tests.memory.audit_corpus import CHATS, GOOD
from tests.memory.audit_turns import turns_of

TOKENS = 20_000
LANGUAGES = {
    "English": ("trip", "bug", "chat"),
    "German": ("feier", "steuer", "garten"),
    "Chinese": ("旅行", "代码"),
}
_TIMES = 7  # the fastest one counts: other processes run on the same machine


def main() -> None:
    meter = Meter()
    asyncio.run(meter.ready())
    kept = {}
    for language, chats in LANGUAGES.items():
        lines = [line for chat in chats for line in CHATS[chat]]
        size = meter.count("\n".join(lines))
        said = [*lines, *(_again(line) for line in lines * (TOKENS // size))]
        turns = turns_of(said)
        text = next(text for chat, text in GOOD if chat in chats)
        whole = "\n".join(said)
        heard = _time(lambda: find_corrections(said[::2], said[1::2]))  # noqa: B023 - called at once
        corrections = find_corrections(said[::2], said[1::2])
        found = _time(lambda: _source(said, turns, corrections).prepare())  # noqa: B023
        source = _source(said, turns, corrections)
        source.prepare()
        judged = _time(lambda: audit(Candidate(text, len(text) // 4), source))  # noqa: B023
        counted = _time(lambda: meter.count(whole))  # noqa: B023
        name = f"of {TOKENS:,} tokens, {language}, times counting them"
        kept[f"source {name}"] = found / counted
        kept[f"audit {name}"] = judged / counted
        print(
            f"{language}: {1_000 * heard / len(turns):.2f} ms for each of {len(turns)} heard "
            f"messages; the source {1_000 * found:.1f} ms, {found / counted:.1f} times counting; "
            f"a summary {1_000 * judged:.1f} ms, {judged / counted:.2f} times counting"
        )
    figures.conclude("audit", kept, is_kept="--write" in sys.argv)


def _again(line: str) -> str:
    """Return a line without its correcting words: real people do not correct every fifth
    message."""
    return re.sub(r"not|nicht|Sorry|mixed up|instead|statt|不是|改", "", line)


def _source(
    said: Sequence[str], turns: Sequence[Turn], corrections: Sequence[Correction]
) -> AuditSource:
    return AuditSource(said[::2], said[1::2], TOKENS, turns=turns, corrections=corrections)


def _time(work: Callable[[], object]) -> float:
    quickest = float("inf")
    for _ in range(_TIMES):
        begun = time.process_time()
        work()
        quickest = min(quickest, time.process_time() - begun)
    return quickest


if __name__ == "__main__":
    main()
