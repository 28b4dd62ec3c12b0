"""Requests as a text represents them: as a task, as done, or not at all. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory.patterns import lazy
from memory.text.request_signs import SHOWN, reports_done
from memory.text.requests import LIKE, PersonRequest, Requests
from memory.text.wording import is_wide, shared, split_sentences, stems

_LIKE_WIDE = 0.5  # of the pairs of characters in Chinese
_CLEARLY = 2  # words of finished work in a task that has none of an open request


def find_restated(
    text: str, found: Requests, deeds: Sequence[PersonRequest] = ()
) -> list[PersonRequest]:
    """Return the finished requests that a text lists as tasks, or as not done yet. `deeds` are
    searched for only in lists of tasks: they may be standing instructions, which a text may state
    as rules."""
    listed = {*list_tasks(text, only_headed=True), *(denied := _list_denied(text))}
    restated = []
    tasks = (part for line in list_tasks(text) for part in (line, *_AND_TASKS.split(line)))
    for line in dict.fromkeys((*tasks, *denied)):
        said = stems(line)
        known = (*found.open, *found.finished, *(deeds if line in listed else ()))
        best = max(known, key=lambda one: _likeness(said, one), default=None)
        like = _likeness(said, best) if best else 0.0
        if best is None or like < (_LIKE_WIDE if is_wide(line) else LIKE):
            continue
        if any(_likeness(said, one) * 2 >= like for one in found.open):
            continue
        if line in denied and _NOT_YET.search(best.text):
            continue
        if len(shared(best.own, said)) >= min(2, len(best.own)):
            restated.append(best)
    for line in list_unbacked(text, found):
        done = max((*found.finished, *deeds), key=lambda one: _overlap(line, one), default=None)
        if done and _overlap(line, done) >= _CLEARLY:
            restated.append(done)
    return list(dict.fromkeys(restated))


def list_unbacked(text: str, found: Requests) -> list[str]:
    """Return the tasks under a heading, and their parts, that share no word with an open request;
    empty if there is none."""
    if not found.open:
        return []
    lines = (line for line in list_tasks(text, only_headed=True) if not _DECIDES.search(line))
    parts = (part for line in lines for part in dict.fromkeys((line, *_TASK_PARTS.split(line))))
    return [
        part
        for part in parts
        if len(stems(part)) >= _CLEARLY and not any(_overlap(part, one) for one in found.open)
    ]


def _overlap(line: str, one: PersonRequest) -> int:
    """Return how many topic words of a request a line has, also as parts of longer words."""
    said, folded = stems(line), line.casefold()
    wanted = one.about or one.own
    return sum(word in said or word[:4] in said or word in folded for word in wanted)


def find_lost_requests(text: str, found: Requests) -> list[PersonRequest]:
    """Return the open requests that a text does not mention, or reports as done."""
    lines = [(line, stems(line)) for line in split_sentences(text)] if found.open else []
    tasks = {*list_tasks(text), *(line for line, _ in lines if _waits(line))}
    return [
        one
        for one in found.open
        if not any(_tells(line, said, one) for line, said in lines)
        and not any(_is_of_task(line, one) for line in tasks)
    ]


def find_told_finished(text: str, found: Requests) -> list[PersonRequest]:
    """Return the open requests that a text reports as done."""
    if not found.open:
        return []
    parts = [
        (part, stems(part))
        for line in split_sentences(text)
        for part in _CLAUSES.split(line)
        if (reports_done(part) or _WAS_DONE.search(part)) and not _UNDONE.search(part)
    ]
    return [
        one
        for one in found.open
        if any(
            len(shared(one.own, said)) >= max(_CLEARLY * (1 + is_wide(part)), len(one.own) / 2)
            for part, said in parts
        )
    ]


def _waits(line: str) -> bool:
    """Return whether a line says that something waits, and not that it was done."""
    return bool(_WAITS.search(line)) and not _WAS_DONE.search(line)


def _is_of_task(line: str, one: PersonRequest) -> bool:
    """Return whether a line that tells of a task, or of waiting, has two words or numbers of an
    open request and its answer."""
    numbers = {*_ALL_NUMBERS.findall(one.text)} & {*_ALL_NUMBERS.findall(line)}
    return bool(_overlap(line, one)) and _overlap(line, one) + len(numbers) >= _CLEARLY


def list_tasks(text: str, *, only_headed: bool = False) -> list[str]:
    """Return the lines of a text that are tasks: those under such a heading, and (unless
    `only_headed`) those worded as tasks; without those marked as done."""
    found, is_under, is_told = list[str](), False, False
    for line in split_sentences(text):
        heading = _TASKS_HEAD.match(line)
        says_so = not only_headed and bool(_TASK.search(line))
        is_item = bool(_ITEM.match(line))
        if heading or (_HEAD.match(line) and not (is_under and is_item)):
            line = line[heading.end() :] if heading else ""
            is_under = bool(heading) and not line  # "Open: …" is one line
        elif is_under and not is_item:
            is_under = says_so
        leaves_unfinished = is_told and line.startswith("·")
        is_told = bool(line) and (bool(heading) or is_under or says_so or leaves_unfinished)
        if is_told and not _is_cut(line) and not reports_done(line):
            found.append(line.removeprefix("· "))
    return found


def _is_cut(line: str) -> bool:
    """Return whether a line was truncated, other than at the length of a request."""
    return line.endswith("…") and len(line) < SHOWN


def _list_denied(text: str) -> list[str]:
    """Return the clauses of a text that say that something was not done yet."""
    parts = (part for line in split_sentences(text) for part in _PARTS.split(line))
    return [part for part in parts if _NOT_YET.search(part)]


def _likeness(said: set[str], one: PersonRequest) -> float:
    """Return the share of a line's words that is about a request."""
    return len(shared(said, set(one.about))) / len(said) if said else 0.0


def _tells(line: str, said: set[str], one: PersonRequest) -> bool:
    wanted = one.own
    known = shared(wanted, said | {word[:4] for word in said})
    numbers = {*_NUMBERS.findall(one.text)} & {*_NUMBERS.findall(line)}
    least = max(1, min(3, round(len(wanted) / 3)))
    folded = line.casefold()
    is_marked = not one.marks or not one.turn or any(word in folded for word in one.marks)
    if not is_marked and len(known) < len(wanted) * _LIKE_WIDE:
        return False
    is_told = bool(known) and len(known) + len(numbers) >= least and not _is_cut(line)
    deed = _WAS_DONE.search(line)  # "was upgraded", of the very thing that was asked for
    is_done = reports_done(line) or (deed and not wanted.isdisjoint(stems(deed[0])))
    return is_told and not (is_done and not _TASK.search(line))


_CLAUSES = lazy(r"[;；，。]|,(?!\d)")
_UNDONE = lazy(
    r"\b(?:not|n['’]t|no|never|requested|nicht|kein\w*|noch|still|yet|once|until|when|after|if|wenn|sobald"
    r"|bis|to be|zu)\b|n['’]t\b|[不没未待等再]",
    re.IGNORECASE,
)
_NUMBERS = lazy(r"\d{3,}")
_ALL_NUMBERS = lazy(r"\d{1,2}[.:]\d\d|\d+")
_WAS_DONE = lazy(
    r"\b(?:was|were|has been|have been) \w+ed\b"
    r"|\b(?:I|we)(?: have|['’]ve)?(?: already)?"
    r" (?:\w{2,14}ed|sent|wrote|written|found|made|bought|drew|chose)\b|\bw[ua]rden?\b"
    r"|\b(?:habe ich|ich habe)\b[^.;,]{0,80}\b\w*(?:ge|ent|be|ver|er)\w{3,12}(?:t|en)\b"
    r"|已|我[^，。；]{0,6}了"
)
_WAITS = lazy(
    r"\b(?:wait(?:s|ing)?|on hold|once|until|as soon as|after|later|unresolved|undecided)\b"
    r"|\b(?:wartet|warten|sobald|erst|nach|später|offen|ungeklärt|ab)\b|待|等|以后|之后|后再|还没",
    re.IGNORECASE,
)
_ITEM = lazy(r"(?:[-*•–·]|\d{1,2}[.)、]|\[[ xX]?\])\s*")
_HEAD = lazy(r"#{1,6}\s|\*\*[^*]{1,60}\*\*:?\s*|[^\s:：.。,，][^:：.。\n]{0,40}[:：](?:\s|$)")
_TO_DO = (
    r"to[- ]?dos?\b|tasks?(?: left| remaining)?\b(?! overview)|next steps?\b|remaining\b|pending\b"
    r"|still (?:open|to do|to be done|needed)\b|open(?: (?:tasks?|points?|items?|requests?))?\b"
    r"|action items?\b|outstanding\b|what(?:'s| is) left\b"
    r"|noch (?:zu (?:tun|erledigen)|offen)\b|offen(?:e [\w ]{1,20})?\b|zu (?:tun|erledigen)\b"
    r"|aufgaben\b|nächste schritte\b|ausstehend\b"
    r"|待办(?:事项)?|待辦(?:事項)?|下一步|未完成|尚未完成|还需要?做|接下来"
)
_TASKS_HEAD = lazy(
    rf"(?:#{{1,6}}\s*|\*\*|[-*•]\s*)?(?:{_TO_DO})[^:：\n]{{0,20}}(?:[:：]|\*\*|$)\**[:：]?\s*",
    re.IGNORECASE,
)
_TASK = lazy(
    r"\b(?:to[- ]?do|needs? to|ha(?:s|ve) to|must(?: be)?|still (?:to|needs?|has)|should(?: be)?"
    r"|remains? to|will (?:need|have) to|is to be|are to be|wants? (?:the assistant|you) to)"
    r"|\b(?:muss|müssen|noch zu|soll(?:en)? noch|ist noch|sind noch|als nächstes"
    r"|steht (?:noch )?aus)"
    r"|\[ \]|待办|待辦|需要|还要|還要|仍需|尚未|尚待|要做|下一步",
    re.IGNORECASE,
)
_AND_TASKS = lazy(r"[;；]")
_PARTS = lazy(r"[;；，。]|,(?!\d)|\b(?:and|und)\b")
_TASK_PARTS = lazy(r"[;；。，]|,(?!\d)|\b(?:and|und)\b|并且?|再")
_DECIDES = lazy(
    r"\b(?:decid|undecided|choose|clarif|confirm|wait|await|answer|depends|whether)"
    r"|entscheid|entschieden|klär|bestätig|wart|antwort|abhäng|\bob\b|决定|确认|等待|是否|答复",
    re.IGNORECASE,
)
"""Words for decisions or answers that are still awaited."""
_NOT_YET = lazy(
    r"\bw[ua]rden? (?:\w+ )?nicht \w+t\b|\b(?:was|were|has|have) (?:not|n['’]t) (?:been )?\w+ed\b|"
    r"\b(?:not|n['’]t)\b.{0,40}\byet\b|\bnot yet\b|\bno \w+ (?:has|have) been\b"
    r"|\bnoch (?:nicht|kein\w{0,2})\b|还没|还未|尚未|没有(?=[^，。]{0,6}[订预发交做写改办])",
    re.IGNORECASE,
)
