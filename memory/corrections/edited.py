"""Values that a person replaced in a text. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memory.corrections.classes import list_classes
from memory.corrections.ended_values import EndedValue, find_places, is_of_one_thing
from memory.corrections.sentences import OF_ANYTHING, content_words
from memory.text.values import Value, find_values
from memory.text.wording import split_sentences

AT_ONCE = 2**62
"""The seq of a correction that applies to all messages until now."""
_MOST = 50  # changed sentences; a text with more of them is another text
_LONGEST = 1_000  # characters of a changed sentence
_ALIKE = 0.5  # minimum share of common words in a changed sentence


def list_replaced(old: str, new: str) -> Iterator[EndedValue]:
    """Yield the values of a sentence that differ in the correct one. If it has several of a kind,
    as many must be in the correct one, in the same order."""
    before, after = find_values(old), find_values(new)
    removed = [value for value in before if not any(value.is_same(other) for other in after)]
    added = [value for value in after if not any(value.is_same(other) for other in before)]
    pairs: list[tuple[Value, Value]] = []
    for kind in dict.fromkeys(value.kind for value in removed):
        olds, news = ([one for one in many if one.kind == kind] for many in (removed, added))
        pairs += zip(olds, news, strict=True) if len(olds) == len(news) else ()
    if not removed and not added:
        pairs += list_classes(old, new)
    topic = content_words(old) | content_words(new)
    for value, other in pairs:
        about = topic - content_words(f"{value.text} {other.text}")
        if about or value.kind != "number":
            about = (about - OF_ANYTHING) or about
            yield EndedValue(value.text, other.text, 0, AT_ONCE, about, is_shared=True)


def find_replaced(before: str, after: str) -> list[EndedValue]:
    """Return the values that the edit of a text replaces, each in a sentence that is similar
    otherwise. A sentence that still has the old value is about something else."""
    olds, news = (dict.fromkeys(split_sentences(text)) for text in (before, after))
    removed = [one for one in olds if one not in news]
    added = [one for one in news if one not in olds]
    if len(removed) > _MOST or len(added) > _MOST:
        return []
    removed, added = ([one for one in many if len(one) <= _LONGEST] for many in (removed, added))
    found = list[EndedValue]()
    for new in added:
        old = max(removed, key=lambda one, new=new: _likeness(one, new), default="")  # type: ignore[misc]
        if _likeness(old, new) >= _ALIKE:
            removed.remove(old)
            found += list_replaced(old, new)
    rest = [_narrowed(one, list(news)) for one in found[:_MOST]]
    return [one for one in rest if one.topic or is_of_one_thing(one.old)]


def _likeness(one: str, other: str) -> float:
    first, second = content_words(one), content_words(other)
    return len(first & second) / max(1, len(first), len(second))


def _narrowed(value: EndedValue, sentences: Sequence[str]) -> EndedValue:
    """Return the value without the words by which sentences with the old value are about it."""
    topic = value.topic
    for one in sentences:
        if not topic.isdisjoint(words := content_words(one)) and any(find_places(one, value.old)):
            topic -= words
    return EndedValue(value.old, value.new, value.turn, value.seq, topic, value.is_shared)
