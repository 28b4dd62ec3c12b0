"""`/memory wrong`: find all places with a wrong text, show the edits, and apply them after
approval. Then the search is repeated, and the answer reports the places that are left."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from channels.language import _, number_of
from memory.conversation import Conversation
from memory.corrections.edited import AT_ONCE, list_replaced
from memory.corrections.ended_values import EndedValue, find_places, show_corrected
from memory.corrections.sentences import QUOTED, content_words
from memory.long_term.document import MemoryLine, facts
from memory.patterns import lazy
from memory.summary_editor import CurrentSummary, EditRefused
from memory.text.values import find_values
from plugins.api import Action, Ask, CommandError, Form, Reply, refusal
from plugins.memory.views import to_block, to_data
from plugins.wording import fence, format_list, literal

LIST = Action("Show all", "/memory list")
WHY = "/memory wrong"
_ASKS = lazy(r"(?:line (\d{1,9}))?")
"""An empty argument or a line number: it asks what is wrong and what is right."""
_ARROW = lazy(r"\s*(?:->|→|=>)\s*")
_SENTENCE = lazy(
    # A quotation or code stays in one sentence; a date ("3. Mai") does not end a sentence.
    rf"(?:(?ms:{QUOTED.pattern})|[^.!?。！？\s]|(?<![.!?。！？][\"”“」])[^\S\n]|\.(?=[^\s.])"
    r"|(?<=\d)\.(?=\s+(?:Jan|Feb|März|Apr|Ma[iy]|Jun|Jul|Aug|Sep|Okt|Oct|Nov|De[cz])))++[.!?。！？]*"
)
_YES = lazy(r"yes\s+([0-9a-f]{8})\s+", re.IGNORECASE)
_SEARCHED = 10  # results
_FEW = 2  # minimum words of a wrong sentence
_ALIKE = 0.7  # minimum share of a wrong line's words in a sentence with the same meaning


class WrongValues(Struct, frozen=True):
    """A request: wrong values with the correct ones, and a line of `MEMORY.md` with its replacement
    ("": none)."""

    values: tuple[EndedValue, ...]
    line: MemoryLine | None = None
    right: str = ""


class Edits(Struct, frozen=True):
    """The edits that correct it: lines of the file by their old text, and summaries in force."""

    lines: Mapping[str, str]
    summaries: tuple[tuple[CurrentSummary, str], ...]

    @property
    def changes(self) -> list[tuple[str, str]]:
        """Return the edits as a diff."""
        found: list[tuple[str, str]] = []
        for old, new in self.lines.items():
            found += [("-", old), *([("+", new)] if new else [])]
        for standing, text in self.summaries:
            before, after = standing.summary.text.splitlines(), text.splitlines()
            name = standing.summary.name
            found += [("-", f"{name}: {line}") for line in before if line not in after]
            found += [("+", f"{name}: {line}") for line in after if line not in before]
        return found

    @property
    def digest(self) -> str:
        text = "\n".join(f"{sign}{line}" for sign, line in self.changes)
        return hashlib.sha256(text.encode()).hexdigest()[:8]


async def wrong(ask: Ask, rest: str) -> Reply:
    """Run `/memory wrong 3 [TEXT]`, `/memory wrong 3 May -> 4 May` or `/memory wrong WORDS`."""
    if asked := _ASKS.fullmatch(rest.strip()):
        return await _ask_for_permission(ask.conversation, int(asked[1] or 0))
    seen = _YES.match(rest.strip())
    order = rest.strip()[seen.end() :] if seen else rest.strip()
    conversation = ask.conversation
    what = await _read(conversation, order)
    edits = await _find_edits(conversation, what)
    turns = _turns_with(conversation, what.values)
    if not edits.changes and not turns:
        return await _report_nothing(conversation, what)
    if seen is None:
        return _show(order, edits, _places(edits) or turns)
    if seen[1].lower() != edits.digest:
        raise refusal("That has changed since you saw it; send /memory wrong again.")
    return await _execute(ask, what, edits)


async def _ask_for_permission(conversation: Conversation, number: int) -> Reply:
    """Ask for the correction: the new text of a line, or for 0 any words."""
    if not number:
        text = _(
            "Correct the memory: write the wrong text -> the right text, for example: 3 "
            "May -> 4 May."
        )
        return Reply(text, form=Form("/memory wrong"))
    line = _line_at(facts((await conversation.long_term.read()).lines), number)
    text = _("Write line {n} as it is right. You see all changes before they are made.", n=number)
    return Reply(text, {"text": line.text}, form=Form(f"/memory wrong {number}", line.text))


def _line_at(lines: Sequence[MemoryLine], number: int) -> MemoryLine:
    if not 1 <= number <= len(lines):
        raise refusal("There is no line {words}; /memory list shows all of them.", words=number)
    return lines[number - 1]


async def _read(conversation: Conversation, order: str) -> WrongValues:
    old, *new = _ARROW.split(order, maxsplit=1)
    if new and old and new[0]:
        if _is_bare_number(old):
            raise refusal(
                "{words} may apply to many things. Add a word on what it is about: "
                "/memory wrong 3 cats -> 4 cats",
                words=literal(old),
            )
        return WrongValues((EndedValue(old, new[0], 0, AT_ONCE),))
    word, _space, right = order.partition(" ")
    lines = facts((await conversation.long_term.read()).lines)
    number = int(word[:9]) if word.isascii() and word.isdigit() else 0
    if any(value.start == 0 and value.end > len(word) for value in find_values(order)):
        number = 0  # "14 March" is text, not line 14
    if not number and len(content_words(order)) < _FEW:
        raise refusal(
            "/memory wrong needs the number of a line and what is right (wrong 3 Ann lives in "
            "Porto.), or the wrong words and the right ones (wrong 3 May -> 4 May)."
        )
    if not number:
        return WrongValues((), MemoryLine(order))
    line, right = _line_at(lines, number), right.strip()
    return WrongValues(tuple(list_replaced(line.text, right)), line, right)


def _is_bare_number(words: str) -> bool:
    values = [value for value in find_values(words) if value.kind != "number"]
    rest = words
    for value in find_values(words):
        rest = rest.replace(value.text, "")
    return not values and not any(map(str.isalpha, rest))


async def _find_edits(conversation: Conversation, what: WrongValues) -> Edits:
    lines = dict[str, str]()
    for line in facts((await conversation.long_term.read()).lines):
        if what.line is not None and line.raw == what.line.raw:
            lines[line.raw] = line.raw.replace(line.text, what.right) if what.right else ""
        elif (text := _correct(line.text, what)) != line.text:
            lines[line.raw] = line.raw.replace(line.text, text) if text else ""
    summaries = []
    for standing in await conversation.summary.list_standing():
        text = await asyncio.to_thread(_correct, standing.summary.text, what)
        if text.strip() != standing.summary.text.strip():
            summaries.append((standing, text.strip()))
    return Edits(lines, tuple(summaries))


def _correct(text: str, what: WrongValues) -> str:
    """Return the corrected text; without a correction, the text without sentences that mean the
    same as the wrong line."""
    plain = [replace(value, is_marked=False) for value in what.values]
    text = show_corrected(text, plain)
    if what.line is None or what.right:
        return text
    wanted = content_words(what.line.text)

    def keep(sentence: re.Match[str]) -> str:
        words = content_words(sentence[0])
        return "" if wanted and len(wanted & words) >= _ALIKE * len(wanted) else sentence[0]

    return _SENTENCE.sub(keep, text)


def _show(order: str, edits: Edits, places: str) -> Reply:
    text = _("Found in {places}. Nothing is changed before you agree.", places=places)
    data = {"diff": to_data(edits.changes), "is_waiting": True}
    yes = Action(_("Correct it"), f"/memory wrong yes {edits.digest} {order}")
    how = f"{_('Without a button, send:')}\n\n{fence(yes.command)}"
    return Reply(f"{text}\n\n{to_block(edits.changes)}\n\n{how}", data, (yes,))


def _places(edits: Edits) -> str:
    parts = [
        *[number_of(len(edits.lines), "{n} remembered line", "{n} remembered lines")]
        * bool(edits.lines),
        *[number_of(len(edits.summaries), "{n} summary", "{n} summaries")] * bool(edits.summaries),
    ]
    return format_list(parts)


def _text(text: str, before: object) -> str:
    """Return a text, regardless of the previous one."""
    return text


async def _execute(ask: Ask, what: WrongValues, edits: Edits) -> Reply:
    conversation = ask.conversation
    try:
        for standing, text in edits.summaries:
            if text:
                number = standing.summary.number
                await conversation.summary.change(partial(_text, text), number, WHY)
    except EditRefused as error:
        raise CommandError(str(error)) from None
    await conversation.long_term.end(edits.lines, what.values, ask.person.id, WHY)
    conversation.compactor.summaries.forget_prepared()
    left = len((await _find_edits(conversation, what)).changes) + await _count_read(ask, what)
    turns = _turns_with(conversation, what.values)
    places = _places(edits)
    text = _("Corrected in {places}.", places=places or turns)
    if left:
        text += " " + number_of(left, "{n} place still says so.", "{n} places still say so.")
    elif not what.values:
        text += " " + _(
            "It is in 0 remembered lines and summaries; searches still find where it was said."
        )
    else:
        text += " " + _("It is in 0 lines, summaries and search results that the model can read.")
    if turns:
        text += " " + _("It was said in {turns}, which are in context word for word.", turns=turns)
    data = {"diff": to_data(edits.changes), "left": left, "is_waiting": False}
    return Reply(text, data, (LIST,))


async def _count_read(ask: Ask, what: WrongValues) -> int:
    """Count the texts in the prompt and in the model's search results that still contain an
    outdated value."""
    read = [ask.bot.remembered(ask.conversation.key).text]
    for value in what.values:
        words = " ".join((value.old, *sorted(value.topic)))
        found = await ask.conversation.memory.recall(words, _SEARCHED)
        read += [hit.text for hit in (*found.said.hits, *found.notes.hits)]
    return sum(show_corrected(text, what.values) != text for text in read)


def _turns_with(conversation: Conversation, values: Sequence[EndedValue]) -> str:
    """Return the turns in context that contain an outdated value."""
    return format_list(
        [
            turn.id
            for turn in conversation.context.view().turns
            if any(_says(entry.message.text, values) for entry in turn.entries)
        ]
    )


def _says(text: str, values: Iterable[EndedValue]) -> bool:
    return any(True for value in values for _place in find_places(text, value.old))


async def _report_nothing(conversation: Conversation, what: WrongValues) -> Reply:
    turns = _turns_with(conversation, what.values)
    text = _("No line of the memory and no summary says that.")
    if turns:
        text += " " + _("It was said in {turns}, which are in context word for word.", turns=turns)
    words = literal(what.values[0].old) if what.values else ""
    return Reply(text, {"diff": [], "is_waiting": False, "old": words}, (LIST,))
