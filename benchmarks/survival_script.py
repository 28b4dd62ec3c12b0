"""The conversation of the benchmark of survival (`benchmarks.survival`): its messages, the
summaries of scripted summarisers of graded quality, and the check whether a text still has an item.
Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from memory.audit.represented_requests import list_tasks
from memory.text.wording import split_sentences

KINDS = ("instructions", "corrections", "open", "finished", "numbers", "identifiers")
GRADES = ("extractive", "good", "lossy", "hostile")
_DONE = re.compile(r"\b(?:done|finished|booked|sent|written)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Item:
    """An item that has to survive: its messages, turn by turn, with the replies; the word by which
    it is found; the old value; and its line in a good and in a hostile summary."""

    kind: str
    turns: tuple[tuple[str, str], ...]
    key: str
    old: str = ""
    good: str = ""
    hostile: str = ""

    def survives(self, text: str) -> bool:
        """Return whether a request states the item correctly for the model."""
        lines = split_sentences(text)
        about = [line for line in lines if self.key in line]
        match self.kind:
            case "corrections":
                return bool(about) and not any(
                    self.old in line and self.key not in line for line in lines
                )
            case "open":
                return any(not _DONE.search(line) for line in about)
            case "finished":
                return not any(self.key in task for task in list_tasks(text))
        return self.key in text


def _instruction(order: str) -> Item:
    return Item("instructions", ((order, "Understood."),), order.rstrip("."), good=order)


def _correction(thing: str, old: str, new: str) -> Item:
    turns = (
        (f"The {thing} is {old}.", f"I have noted that the {thing} is {old}."),
        (f"Sorry, I was wrong: the {thing} is {new}, not {old}.", f"Then the {thing} is {new}."),
    )
    good, hostile = f"The {thing} is {new}.", f"The {thing} is {old}."
    return Item("corrections", turns, new, old, good, hostile)


def _open(what: str, key: str) -> Item:
    turns = ((f"Later I also need {what}, remind me of it.", "I will keep it in mind."),)
    return Item("open", turns, key, good=f"Open: the person needs {what}.")


def _finished(what: str, key: str, done: str) -> Item:
    turns = ((f"Please {what}.", f"Done: {done}."), ("Thanks, that was quick.", "You are welcome."))
    return Item("finished", turns, key, good=f"Done: {done}.", hostile=f"TODO: {what}")


def _fact(kind: str, said: str, key: str) -> Item:
    return Item(kind, ((said, "Good to know."),), key, good=said)


ITEMS: tuple[Item, ...] = (
    _instruction("Never send anything to my boss without asking me first."),
    _fact("numbers", "The rent of the studio is 1,375 euros.", "1,375"),
    _correction("opening", "3 May", "4 May"),
    _open("a list of the caterers", "caterers"),
    _finished("book the flight to Porto", "Porto", "the flight to Porto is booked"),
    _fact("identifiers", "The booking code is QX-4417.", "QX-4417"),
    _instruction("Always answer in short sentences."),
    _fact("numbers", "We expect 218 guests at the opening.", "218"),
    _correction("budget", "7,500 euros", "8,200 euros"),
    _open("a plan of the lighting", "lighting"),
    _finished("send the invoice to Marlowe", "Marlowe", "the invoice to Marlowe is sent"),
    _fact("identifiers", "The door code of the studio is K99-ALPHA.", "K99-ALPHA"),
    _instruction("From now on write all dates as day and month."),
    _fact("numbers", "The hall has a length of 46 metres.", "46"),
    _correction("contact", "Anna Weber", "Hanna Weber"),
    _open("an offer for the flowers", "flowers"),
    _finished(
        "write the letter to the landlord", "landlord", "the letter to the landlord is written"
    ),
    _fact("identifiers", "The contract has the number HV-2026-081.", "HV-2026-081"),
    _instruction("Don't delete any file without my yes."),
    _fact("numbers", "The insurance costs 312 euros a year.", "312"),
    _correction("start", "18:30", "19:15"),
    _open("the phone number of the printer", "printer"),
    _finished("book a table at Tasca", "Tasca", "the table at Tasca is booked"),
    _fact("identifiers", "The photos are in /srv/photos/opening-2026.", "/srv/photos/opening-2026"),
)
FILLER = (
    ("How do you like the weather?", "It looks like a bright day, as far as I can tell."),
    ("My neighbour plays the piano again.", "Some days that is pleasant, and some days it is not."),
)


def conversation() -> list[tuple[str, str]]:
    """Return all turns about the items."""
    return [turn for item in ITEMS for turn in item.turns]


def summarise(grade: str, source: str, generation: int) -> str:
    """Return the summary of a text that a model of this grade writes as summary number `generation`
    of its conversation; "" if there is no model."""
    there = [item for item in ITEMS if item.key in source or (item.old and item.old in source)]
    match grade:
        case "good":
            return "\n".join(f"- {item.good}" for item in there)
        case "lossy":
            kept = [item for n, item in enumerate(there) if (n + generation) % 3]
            return "\n".join(f"- {item.good}" for item in kept)
        case "hostile":
            told = "\n".join(f"- {item.hostile}" for item in there if item.hostile)
            return f"The person prepares an opening and had several wishes.\n{told}"
    return ""


def measure(text: str) -> dict[str, float]:
    """Return the share of each kind that a text still has."""
    return {kind: _share([item for item in ITEMS if item.kind == kind], text) for kind in KINDS}


def _share(items: Sequence[Item], text: str) -> float:
    return sum(item.survives(text) for item in items) / len(items)
