"""Numbers and texts in the form shown to people."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import memory.turns
from agent.models import embedded
from channels.base import ContextUsage
from channels.language import _, explain, figure, number_of
from memory.context_state import ContextState
from memory.plain_text import literal as literal
from memory.plain_text import words_of

T = TypeVar("T")


def amount(number: int) -> str:
    """Format a number of tokens or characters: 950, 12.4k, 200k, 1.5M."""
    if number < 1_000:
        return str(number)
    for size, letter in ((1_000, "k"), (1_000_000, "M")):
        if number < size * 999.95:
            return figure(f"{number / size:.1f}".removesuffix(".0")) + letter
    return f"{number / 1_000_000:.0f}M"


def amounts(before: int, after: int) -> tuple[str, str]:
    """Return two sizes of the same thing, in full if they differ and would look alike."""
    texts = amount(before), amount(after)
    if before == after or texts[0] != texts[1]:
        return texts
    return figure(f"{before:,}"), figure(f"{after:,}")


def spread(total: int, weights: Sequence[int]) -> list[int]:
    """Return integer shares of a total by weight, which add up to it (the largest remainders are
    rounded up); without any weight, equal shares."""
    if not weights:
        return []
    weights = weights if any(weights) else [1] * len(weights)
    whole = sum(weights)
    shares = [total * weight // whole for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda n: -(total * weights[n] % whole))
    for number in by_remainder[: total - sum(shares)]:
        shares[number] += 1
    return shares


def money(cost: float, unknown: int = 0) -> str:
    """Format US dollars; mentions omitted calls of unknown price."""
    if unknown and not cost:
        return _("unknown ({calls} of unknown price)", calls=count(unknown, "request"))
    text = _dollars(cost)
    return (
        _("{cost} (and {calls} of unknown price)", cost=text, calls=count(unknown, "request"))
        if unknown
        else text
    )


def _dollars(cost: float) -> str:
    """Format US dollars: $0, <$0.0001, $0.0123, $1.20."""
    if 0 < cost < 0.0001:
        return figure("<$0.0001")
    return figure("$0" if cost == 0 else f"${cost:.2f}" if cost >= 0.1 else f"${cost:.4f}")


def count(number: int, noun: str) -> str:
    """Format a count: 1 turn, 2 turns."""
    return number_of(number, f"{{n}} {noun}", f"{{n}} {noun}s")


def series(items: Iterable[str]) -> str:
    """Join texts by the comma of the language."""
    return _(", ").join(filter(None, items))


def aside(text: str) -> str:
    """Return a text in parentheses, with the space before them."""
    return _(" ({text})", text=text) if text else ""


def labelled(label: str, text: str) -> str:
    """Return a text after its label, with the colon of the language."""
    return _("{label}: {text}", label=label, text=text)


def quoted(words: str) -> str:
    """Return words in the quotation marks of the language."""
    return _("“{words}”", words=words)


def sentence(text: str) -> str:
    """Return a text as a sentence, with the full stop of the language."""
    return _("{said}.", said=text)


def sentences(*texts: str) -> str:
    """Join sentences by the space of the language, without empty ones."""
    return _("{said} {more}", said="", more="").join(filter(None, texts))


def format_turns(numbers: Sequence[int]) -> str:
    """Return turns in words: "t3", "t1 to t5", "t1 to t3, t7"."""
    return localize_turns(memory.turns.format_turns(numbers))


def localize_turns(written: str) -> str:
    """Return stored names of turns in the person's language."""
    return written.replace(" to ", _(" to "))


def localize_marks(shown: str) -> str:
    """Return a text with the marks of corrected values in the person's language."""

    def say(mark: re.Match[str]) -> str:
        return _("(corrected in {turn})", turn=mark[1]) if mark[1] else _("(corrected)")

    return re.sub(r"\(corrected(?: in (t\d+))?\)", say, shown)


def name_layer(layer: str) -> str:
    """Return the words for the source of a setting's value."""
    return _("configuration file") if layer == "file" else explain(_(layer))


def bar(share: float, width: int = 20) -> str:
    """Return a bar of blocks, full for the used share."""
    full = round(min(max(share, 0.0), 1.0) * width)
    return "▇" * full + "▁" * (width - full)


def duration(seconds: float) -> str:
    """Format a duration: 45 s, 3 min, 2 h 5 min, 4 days."""
    minutes = int(seconds) // 60
    if minutes < 1:
        return f"{int(seconds)} s"
    if minutes < 60:
        return f"{minutes} min"
    hours = minutes // 60
    return (
        _("{hours} h {minutes} min", hours=hours, minutes=minutes % 60)
        if hours < 48
        else number_of(hours // 24, "{n} day", "{n} days")
    )


def cell(text: str) -> str:
    """Return a text for a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


def clip(text: str, most: int = 60) -> str:
    """Return the first words of a text on one line, at most `most` characters."""
    line = " ".join(text[: most * 4].split())
    is_whole = len(line) <= most and len(text) <= most * 4
    return line if is_whole else f"{line[: most - 1].rstrip()}…"


def clip_words(text: str, most: int = 60) -> str:
    """Return the first words of Markdown, without its markup; a word is only cut if it is long."""
    words = clip(words_of(text[: most * 8]), most)
    whole = words.rpartition(" ")[0]
    return f"{whole}…" if words.endswith("…") and 2 * len(whole) > most else words


def fence(text: str, language: str = "") -> str:
    """Return a text as a code block, which nothing in it can close."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    marks = "`" * max(3, longest + 1)
    return f"{marks}{language}\n{text}\n{marks}"


def name_branch(number: int, title: str) -> str:
    """Return a branch of a chat, in words."""
    return (
        _("branch {number}, “{title}”", number=number, title=literal(clip(title)))
        if title
        else _("branch {number}", number=number)
    )


def format_list(names: Sequence[str], last: str = "and") -> str:
    """Join names as words: a, b and c."""
    return f" {_(last)} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table, with its header in the person's language; a column whose name ends
    with a colon is aligned to the right."""
    ruler = ["---:" if name.endswith(":") else "---" for name in header]
    names = [_(name).removesuffix(":") for name in header]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in (names, ruler, *rows))


def shorten(items: Sequence[T], first: int, last: int, between: Callable[[int], T]) -> list[T]:
    """Return the first and the last of many items, with `between(number left out)` in the
    middle."""
    left_out = len(items) - first - last
    if left_out <= 1:
        return list(items)
    return [*items[:first], between(left_out), *items[-last:]]


def usage_of(context: ContextState) -> ContextUsage:
    """Return the figures for the terminal's bar and `/context`."""
    limits = context.limits
    view = context.view(limits=limits)
    bill = context.chat_bill
    nearest, share = limits.nearest(view.tokens, len(view.turns))
    return ContextUsage(
        tokens=view.tokens,
        max_tokens=limits.budget,
        turns=len(view.turns),
        max_turns=limits.most_turns,
        cost=None if bill.unknown else bill.cost,
        is_measured=view.scale.is_measured,
        model=shown_name(limits.model),
        nearest=nearest,
        share=share,
    )


def shown_name(model: str) -> str:
    """Return a model's name as it is shown to people."""
    return embedded.SHOWN if model == embedded.NAME else model
