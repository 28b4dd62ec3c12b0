"""Conversion of events as stored up to schema 47 into the forms that they gave to turns.

Such an event stored how boundaries moved: a `cut` at a seq, before which all turns except those in
`keep` were removed, and sets of turns. Its effect on each turn is found by replaying a
conversation's events in order, with the layout that the event's strategy had before it.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
from msgspec import Struct
from peewee import fn

from memory.context.change import Change, Clip, Kind, ShortenedLog, ViewEvent
from memory.context.forms import (
    ASIDE,
    CLEARED,
    DROPPED,
    OWN,
    RANGE,
    ROLLED,
    SUMMARY,
    WHOLE,
    Forms,
    FormSpan,
    TurnForm,
    assign_form,
    overlay,
)
from memory.context.layout import Layout, limit, list_effective
from memory.record import tables
from memory.record.branches import Ancestor, lineage, within
from memory.record.database import Database

log = logging.getLogger(__name__)

_KINDS: Mapping[str, Kind] = {
    **{"inject": "text", "edit": "edit", "undo": "undo", "redo": "redo", "hold": "hold"},
    **{"rebase": "setting", "unfold": "setting", "reframe": "prompt"},
}


class TurnBounds:
    """The first and the last seq of each turn of a transcript."""

    def __init__(self, rows: Iterable[tuple[int, int, int]]) -> None:
        found = sorted(rows)
        self._turns = [turn for turn, *_ in found]
        self._begins = [first for _, first, _ in found]
        self._ends = {turn: last for turn, _, last in found}

    def __contains__(self, turn: int) -> bool:
        return turn in self._ends

    def end(self, turn: int) -> int:
        """Return the last seq of a turn; 0 if the turn is not stored."""
        return self._ends.get(turn, 0)

    def list_over(self, cut: int) -> list[int]:
        """Return the last turns that ended before a seq."""
        begun = bisect_left(self._begins, cut)
        return [t for t in self._turns[max(0, begun - 2) : begun] if self._ends[t] < cut]

    def list_begun(self, cut: int, layout: Layout) -> Iterator[int]:
        """Yield the turns in context that began before a seq."""
        begun = bisect_left(self._begins, cut)
        for first, last in layout.spans():
            end = begun if last is None else min(begun, bisect_right(self._turns, last))
            yield from self._turns[bisect_left(self._turns, first) : end]


class _Row(Struct, frozen=True):
    """A row of an event, with its change as parsed JSON."""

    id: int
    conversation: int
    kind: str
    actor: Any
    strategy: str
    turn: int
    leaving: tuple[int, ...]
    change: Mapping[str, Any]


def convert(database: Database) -> None:
    """Rewrite all events. An unreadable one is left unchanged, and is skipped later as well."""
    columns = tables.ViewEvent
    rows: dict[int, list[_Row]] = {}
    for row in _read(database):
        rows.setdefault(row.conversation, []).append(row)
    made: dict[int, tuple[int, ViewEvent]] = {}  # by id, with the conversation
    squeezed: dict[int, frozenset[int]] = {}
    for conversation in sorted(rows):  # a branch comes after its parent
        line = lineage(database, conversation)
        shared = [*_list_shared(line, made)] if len(line) > 1 else []
        history = _History(_read_places(database, line), shared, squeezed)
        for row, strategy in _with_strategies(rows[conversation], shared):
            try:
                event = history.add(row, strategy)
            except tables.UNREADABLE as error:
                log.warning("event e%s is damaged, and is left out: %r", row.id, error)
                continue
            made[event.id] = conversation, event
            columns.update(
                kind=event.kind,
                change=orjson.dumps(event.change.to_json()).decode(),
                leaving=orjson.dumps(_pairs(event.leaving)).decode(),
            ).where(columns.id == event.id).execute(database)


def _read(database: Database) -> Iterator[_Row]:
    columns = tables.ViewEvent
    names = ("id", "conversation", "kind", "actor", "strategy", "turn", "leaving", "change")
    query = columns.select(*(getattr(columns, name) for name in names)).order_by(columns.id)

    def read(row: dict[str, Any]) -> _Row:
        kept = {
            "leaving": tuple(orjson.loads(row["leaving"])),
            "change": orjson.loads(row["change"]),
        }
        return _Row(**{**row, **kept})

    return tables.readable(query.dicts().execute(database), read)


def _read_places(database: Database, line: Sequence[Ancestor]) -> TurnBounds:
    columns = tables.Message
    query = columns.select(columns.turn, fn.MIN(columns.seq), fn.MAX(columns.seq))
    found = query.where(within(columns, columns.turn, line, "turn")).group_by(columns.turn)
    return TurnBounds(found.tuples().execute(database))


def _list_shared(
    line: Sequence[Ancestor], made: Mapping[int, tuple[int, ViewEvent]]
) -> Iterator[ViewEvent]:
    """Yield the events that a branch shares, as they apply to it, in order."""
    ends = {link.conversation: link.event for link in line[:-1]}
    bounds = {event: link for link in line for event in link.steering}
    for number in sorted(made):
        conversation, event = made[number]
        if number in bounds:
            limited = limit(event, bounds[number].turn, bounds[number].seq)
            if limited is not None:
                yield limited
        elif number <= ends.get(conversation, 0):
            yield event


def _with_strategies(
    rows: Sequence[_Row], shared: Sequence[ViewEvent]
) -> Iterator[tuple[_Row, str]]:
    """Yield events with the strategy in force. A rule's event has the strategy that the rule named;
    an undo has none."""
    known = [event.strategy for event in shared if event.actor != "rule" and event.strategy]
    told = [row.strategy for row in rows if row.actor != "rule" and row.strategy]
    in_force = (known[-1:] or told[:1] or [""])[0]
    for row in rows:
        if row.actor != "rule" and row.strategy:
            in_force = row.strategy
        yield row, in_force or row.strategy


def _pairs(turns: Sequence[int]) -> list[tuple[int, int]]:
    return [(span.first, span.last) for span in assign_form(turns, WHOLE)]


class _History:
    """The converted events of a conversation. `squeezed` has, by event, the turns that it squeezed:
    they stay squeezed when they return to the context."""

    def __init__(
        self, places: TurnBounds, shared: list[ViewEvent], squeezed: dict[int, frozenset[int]]
    ) -> None:
        self._places, self._events, self._squeezed = places, shared, squeezed
        self._layouts: dict[str, Layout] = {}
        self._held: list[ViewEvent] = list_effective(shared)

    def add(self, row: _Row, strategy: str) -> ViewEvent:
        """Convert the next event, which was made under a strategy."""
        self._squeezed[row.id] = frozenset(row.change.get("squeeze", ()))
        event = ViewEvent(
            at=datetime.fromtimestamp(0, UTC),
            kind=_KINDS.get(row.kind, "view"),
            actor=row.actor,
            reason="",
            change=self._convert(row, strategy),
            strategy=row.strategy,
            turn=row.turn,
            leaving=row.leaving,
            id=row.id,
        )
        self._events.append(event)
        if event.kind in ("undo", "redo"):
            self._layouts.clear()
            self._held = list_effective(self._events)
        else:
            self._held.append(event)
            self._layouts = {
                strategy: _after(layout, event, strategy)
                for strategy, layout in self._layouts.items()
            }
        return event

    def _layout(self, strategy: str) -> Layout:
        if strategy not in self._layouts:
            layout = Layout()
            for event in self._held:
                layout = _after(layout, event, strategy)
            self._layouts[strategy] = layout
        return self._layouts[strategy]

    def _find_squeezed(self, strategy: str) -> frozenset[int]:
        """Return the turns that are squeezed by the events in force under a strategy."""
        held = (e for e in self._held if e.actor != "strategy" or e.strategy == strategy)
        return frozenset[int]().union(*(self._squeezed.get(event.id, ()) for event in held))

    def _convert(self, row: _Row, strategy: str) -> Change:
        old, layout = row.change, self._layout(strategy)
        one = _Conversion(row, layout, self._places, lambda: self._find_squeezed(strategy))
        forms = one.forms()
        folded, rolled = old.get("folded"), old.get("rolled")
        return Change(
            forms=forms,
            clip={int(seq): Clip(*sizes) for seq, sizes in old.get("clip", {}).items()},
            stub={int(seq): tokens for seq, tokens in old.get("stub", {}).items()},
            pin=frozenset(old.get("pin", ())),
            unpin=frozenset(old.get("unpin", ())),
            texts=one.texts(),
            after=one.after(forms),
            reference="" if old.get("preface", 0) < 0 else old.get("reference") or None,
            folded=None if folded is None else (*folded[3:], 0)[0],
            rolled=None if rolled is None else ShortenedLog(*rolled[1:]),
            target=old.get("target", 0) if row.kind in ("undo", "redo") else 0,
        )


def _after(layout: Layout, event: ViewEvent, strategy: str) -> Layout:
    """Return the layout under a strategy after one more event in force."""
    if event.actor == "strategy" and event.strategy != strategy:
        return layout
    return layout.apply(event.change, event.id)


class _Conversion:
    """The forms that one old event gave to turns."""

    def __init__(
        self,
        row: _Row,
        layout: Layout,
        places: TurnBounds,
        find_squeezed: Callable[[], frozenset[int]],
    ) -> None:
        self._row, self._layout, self._places = row, layout, places
        self._old, self._find_squeezed = row.change, find_squeezed
        self._stand_in = row.change.get("stand_in")

    def texts(self) -> dict[int, int]:
        """Return the summaries that are shown from this event on."""
        preface, target = self._old.get("preface", 0), self._old.get("target", 0)
        if self._stand_in is not None:
            turns, *_, summary, event = (*self._stand_in, 0, 0, 0)[:4]
            slot = OWN if turns else event
            return {slot: summary} if summary else {}
        if preface <= 0:
            return {}
        if self._row.kind == "expand":
            return {target or -preface: preface}
        return {target if self._row.kind in ("inject", "edit") else OWN: preface}

    def after(self, forms: Forms) -> int:
        """Return the event whose summary this one's continues."""
        if self._row.kind == "inject":
            return int(self._old.get("target", 0))
        makes = Change(forms).makes("summary")
        return (self._layout.front or 0) if makes else 0

    def forms(self) -> Forms:
        """Return the forms that the event gave to turns."""
        if self._row.kind in ("clear", "new"):
            return self._clear_turns()
        if self._row.kind == "expand":
            return self._expand()
        if self._row.kind == "unfold":
            return self._unfold()
        forms = self._squeeze()
        if self._stand_in is not None:
            return overlay(forms, assign_form(self._stand_in[0], RANGE))
        if "drop" in self._old:
            forms = overlay(forms, self._drop(frozenset(self._old["drop"])))
        if self._row.leaving and self._old.get("squeeze") and not self._old.get("cut"):
            forms = overlay(self._front_forms(), forms)
        if self._old.get("cut"):
            forms = overlay(
                forms, self._cut(self._old["cut"], frozenset(self._old.get("keep", ())))
            )
        if "folded" in self._old:
            forms = overlay(forms, self._fold())
        if "rolled" in self._old:
            forms = overlay(forms, self._roll())
        return forms

    def _clear_turns(self) -> Forms:
        last = max(self._places.list_over(self._old["cut"]), default=0)
        last = max(last, *(span.last for span in self._layout.forms), *self._row.leaving, 0)
        numbers = range(1, last + 1)
        if self._row.kind == "clear":
            return assign_form(numbers, TurnForm("gone", CLEARED))
        away = self._layout.removed_turns
        return assign_form([n for n in numbers if not away.has(n)], TurnForm("gone", ASIDE))

    def _expand(self) -> Forms:
        back = self._old.get("back", ())
        forms: Forms = self._shown_again(back)
        preface, target = self._old.get("preface", 0), self._old.get("target", 0)
        if not preface:
            return forms
        rest = [turn for turn in self._layout.turns("summary") if turn not in set(back)]
        slot = (target or -preface) if preface > 0 else None
        form = TurnForm("gone", ASIDE) if slot is None else TurnForm("summary", slot)
        halves = (span for span in self._layout.forms if span.form.by is not None)
        for first, last, half in halves:
            forms = overlay((FormSpan(first, last, half._replace(by=slot)),), forms)
        return overlay(forms, assign_form(rest, form))

    def _shown_again(self, turns: Iterable[int]) -> Forms:
        """Return the forms by which turns return to the context: squeezed ones stay squeezed."""
        there = {turn for turn in turns if turn in self._places}
        squeezed = self._find_squeezed()
        short = assign_form(there & squeezed, TurnForm("squeezed"))
        return overlay(assign_form(there - squeezed, WHOLE), short)

    def _squeeze(self) -> Forms:
        forms: Forms = ()
        for turn in self._old.get("squeeze", ()):
            form = self._layout.form(turn)
            if form.kind in ("whole", "tail"):
                by = OWN if turn in self._row.leaving else form.by
                forms = overlay(forms, assign_form([turn], TurnForm("squeezed", form.of, by)))
        return forms

    def _drop(self, dropped: frozenset[int]) -> Forms:
        hit = (one.turns for one in self._layout.ranges if not dropped.isdisjoint(one.turns))
        back: Forms = self._shown_again({turn for turns in hit for turn in turns})
        return overlay(back, assign_form(dropped, TurnForm("gone", DROPPED)))

    def _find_shown_before(self, cut: int, keep: frozenset[int]) -> tuple[set[int], list[int]]:
        """Return the turns that a cut removes, and those of which it removes a part."""
        shown = [t for t in self._places.list_begun(cut, self._layout) if t not in keep]
        half = [t for t in shown if self._places.end(t) >= cut]
        return {t for t in shown if self._places.end(t) < cut}, half

    def _cut(self, cut: int, keep: frozenset[int]) -> Forms:
        gone, half = self._find_shown_before(cut, keep)
        stays = {t for t in self._row.leaving if self._layout.shows(t) and t not in gone}
        ranges = (
            one.turns
            for one in self._layout.ranges
            if keep.isdisjoint(one.turns) and self._end(one.turns[-1]) < cut
        )
        left = {*(set(self._row.leaving) - stays), *gone}.union(*ranges)
        if self._row.leaving:
            forms = overlay(self._front_forms(), assign_form(left, SUMMARY))
        else:
            slot = self._layout.front
            form = TurnForm("gone", ASIDE) if slot is None else TurnForm("summary", slot)
            forms = assign_form(left, form)
        for turn in half:
            kind, first, by = self._layout.form(turn)
            by = OWN if self._row.leaving else by
            form = TurnForm("squeezed" if kind == "squeezed" else "tail", max(cut, first), by)
            forms = overlay(forms, assign_form([turn], form))
        return forms

    def _end(self, turn: int) -> int:
        return self._places.end(turn)

    def _front_forms(self) -> Forms:
        """Return the forms by which all turns summarised in front are in this event's own
        summary."""
        told = (span for span in self._layout.forms if span.form.kind == "summary")
        return tuple(span._replace(form=SUMMARY) for span in told)

    def _fold(self) -> Forms:
        cut, keep, full, *_ = self._old["folded"]
        gone, _half = self._find_shown_before(cut, frozenset(keep))
        return assign_form({*gone, *self._old.get("fold", ())}, TurnForm("line", full))

    def _roll(self) -> Forms:
        first = self._old["rolled"][0]
        lines = {*self._layout.turns("line"), *self._old.get("fold", ())}
        gone = {turn for turn in lines if turn < first}
        forms = assign_form(gone, TurnForm("gone", ROLLED))
        if self._row.kind == "fold" or not self._row.leaving:
            return forms
        return overlay(forms, overlay(self._front_forms(), assign_form(self._row.leaving, SUMMARY)))

    def _unfold(self) -> Forms:
        forms: Forms = ()
        lines = {*self._layout.turns("line")}
        if "folded" in self._old:
            cut, keep, *_ = self._old["folded"]
            back = {t for t in lines if self._end(t) >= cut or t in keep}
            forms, lines = self._shown_again(back), lines - back
        if "rolled" in self._old:
            first = self._old["rolled"][0]
            again = {
                turn
                for turn in self._layout.turns("gone")
                if self._layout.form(turn) == TurnForm("gone", ROLLED) and turn >= first
            }
            forms = overlay(forms, assign_form(again, TurnForm("line", 10)))
            forms = overlay(
                forms, assign_form({t for t in lines if t < first}, TurnForm("gone", ROLLED))
            )
            if self._row.leaving:
                made = overlay(self._front_forms(), assign_form(self._row.leaving, SUMMARY))
                forms = overlay(forms, made)
        return forms
