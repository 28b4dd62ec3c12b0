"""The size of a prompt that is believed: a provider's report, compared with what was counted.

What is paid is not decided here: that is what the provider reports. Here it is decided what the
limits are compared with, and what a person is shown as measured.

How far another vocabulary can be from the one that counts (cl100k_base), measured with o200k,
DeepSeek V4, Mistral 32k and Tekken, Claude (2023), Llama 2, Qwen 3 and Gemma 3, in tokens of theirs
for each of ours:

    English, German, code, JSON                    0.86 .. 1.41
    numbers                                        1.00 .. 2.30
    Russian, Chinese, Japanese, Korean, Arabic     0.49 .. 1.25
    Hindi, Gujarati, Tamil, Thai                   0.19 .. 1.77
    emoji                                          0.38 .. 1.24
    3,000 blanks and empty lines                   0.49 .. 2.27

Anthropic says that its tokenizer since Claude Opus 4.7 makes up to 1.35 times as many tokens as the
one before. Tools are sent as JSON, and what becomes of them is the provider's affair: OpenAI shows
them to its models as declarations, which are shorter.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

_PLAIN = (0.58, 1.5)  # tokens for each of ours, of ASCII text without digits
_ODD = (0.18, 2.4)  # of digits, and of what is not ASCII
_TOOLS = 0.4  # the least for each of ours, of the schemas of tools
_RUN = 4  # characters a token of text that our vocabulary has whole words for: rules, blanks
_TEMPLATE = 400  # tokens that a chat template may add; Anthropic says 346 for tools
_MOST_EXTRA = 10_000  # tokens that an endpoint may send before what it was sent
_PICTURE = 50_000  # tokens of a picture at most: OpenAI bills up to 48,169 for gpt-4o-mini

_JUMP = 1.3  # how far a report may be from what the one before it lets expect, at once
_ALIKE = 1.15  # how far reports that say something else may be from each other
_OFTEN = 3  # reports that say so, one after the other, are believed
_GROWTH = 300  # raw tokens from which the growth of a request says something
_SMALL = 200  # raw tokens below which a report says little about a model

_TELLING = 1_000  # tokens below which a difference says nothing about cut prompts
_SMALLEST = 500  # tokens of a window; there is no smaller one
_DENSEST = 8  # characters of text that no vocabulary makes one token of, on the whole
_CHARACTERS = 4  # of a token, roughly

Why = Literal["reported", "with cached", "extra", "odd", "too much", "part", "cut"]
"""The reason for which a size is believed: it is what was reported, by itself or with what is
cached, or with what the endpoint adds; or the reason for which none is: it is not what the reports
before it let expect, above what any vocabulary makes of the text, or below it, of which "cut" is
what the model has not read."""


class Counted(Struct, frozen=True):
    """A request as the meter counts it. Of its `raw` tokens, `tools` are of schemas, `odd` of text
    on which vocabularies differ much, and `pictures` are guessed, for `images` of them;
    `characters` is the length of the conversation, without the `prefix` raw tokens before it."""

    raw: int
    prefix: int = 0
    tools: int = 0
    odd: int = 0
    pictures: int = 0
    images: int = 0
    characters: int = 0

    @property
    def least(self) -> float:
        """The fewest tokens that any vocabulary makes of it."""
        odd = min(self.odd, self.raw - self.pictures)
        plain = max(0, self.raw - self.pictures - odd)
        tools = min(self.tools, plain)
        return _PLAIN[0] * (plain - tools) + _TOOLS * tools + _ODD[0] * odd

    @property
    def most(self) -> float:
        """The most tokens that any vocabulary makes of it."""
        odd = min(self.odd, self.raw - self.pictures)
        plain = max(0, self.raw - self.pictures - odd)
        words = _PLAIN[1] * plain + _ODD[1] * odd
        return max(words, _PLAIN[1] * self.prefix + self.characters / _RUN) + self.unknown

    @property
    def unknown(self) -> float:
        """Tokens that nobody can count: pictures."""
        return _PICTURE * self.images


class Report(Struct, frozen=True):
    """A provider's report of a prompt: its tokens, and those of them, or besides them, that it had
    cached."""

    prompt: int
    cached: int = 0


class Doubt(Struct, frozen=True):
    """A report that was not believed, how many in a row have said the same, and by how many tokens
    it grew for each raw one since the one before it (0: that is not known)."""

    size: int
    raw: int
    why: Why
    times: int = 1
    slope: float = 0.0


class KnownSizes(Struct, frozen=True):
    """The facts known of the model in this conversation: the size that was believed last, of `raw`
    tokens (0: none was), at so many tokens for each (`slope`) beyond what the endpoint adds, and
    whether the conversation has only grown since (`is_same`); the report that was doubted after
    that. `ratio` is what is taken for its ratio where nothing else is known. `proved` is a ratio
    that a refusal has confirmed, `is_partial` that the model has reported less than any window
    holds."""

    ratio: float = 1.0
    size: int = 0
    raw: int = 0
    slope: float = 1.0
    extra: int = 0
    is_same: bool = False
    doubt: Doubt | None = None
    proved: float = 0.0
    is_partial: bool = False


class Belief(Struct, frozen=True):
    """The belief about a report: the size of the prompt (0: what was counted), and what that
    teaches, as the model's ratio (0: nothing), its growth for each raw token, and what its endpoint
    adds."""

    size: int
    why: Why
    ratio: float = 0.0
    slope: float = 0.0
    extra: int = 0
    doubt: Doubt | None = None


def reconcile(report: Report, counted: Counted, known: KnownSizes) -> Belief:
    """Decide what is believed of a prompt's size."""
    least, most = counted.least, max(counted.most, known.proved * _ALIKE * counted.raw)
    expected = _expect(counted, known)
    prompt, both = report.prompt, report.prompt + report.cached
    sizes = dict.fromkeys((both,) if report.cached > prompt else (prompt, both))
    fitting = [size for size in sizes if least <= size <= most + known.extra + _TEMPLATE]
    is_expected = known.size and _distance(both, expected) <= _ALIKE
    if report.cached <= prompt and not is_expected and _is_cut(prompt, counted, known):
        return Belief(0, "cut")
    if not fitting:
        smallest = min(sizes)
        why: Why = "part" if smallest < least else "too much"
        return _doubt(smallest, why, counted, known, most)
    size = min(fitting, key=lambda one: _distance(one, expected))
    if not known.size and prompt in fitting:
        size = prompt  # that is what the protocols say
    if _is_odd(size, counted, known, expected):
        return _doubt(size, "odd", counted, known, most)
    return _believe(size, "reported" if size == prompt else "with cached", counted, known, most)


def _believe(size: int, why: Why, counted: Counted, known: KnownSizes, most: float) -> Belief:
    """Believe a size; what is above `most`, the endpoint adds, and says nothing of the text."""
    ratio = size / counted.raw if counted.raw else 0.0
    if counted.raw < _SMALL or counted.images or known.extra:
        return Belief(size, why, 0.0, known.slope if known.extra else 0.0, known.extra)
    ratio = ratio if size <= most else 0.0
    return Belief(size, why, ratio, ratio)


def _doubt(size: int, why: Why, counted: Counted, known: KnownSizes, most: float) -> Belief:
    """Do not believe a report, unless others have said the same, or the endpoint adds something."""
    doubt, raw = known.doubt, counted.raw
    if doubt is None or doubt.why == "part" != why:
        return Belief(0, why, doubt=Doubt(size, raw, why))
    grown, more = raw - doubt.raw, size - doubt.size
    slope = more / grown if abs(grown) >= _GROWTH else 0.0
    extra = round(size - slope * raw)
    is_steady = _PLAIN[0] <= slope <= _PLAIN[1] and _distance(slope, doubt.slope) <= _ALIKE
    if why == "too much" and is_steady and 0 < extra <= _MOST_EXTRA:
        return Belief(size, "extra", slope=slope, extra=extra)
    ratio = size / max(1, raw)
    is_alike = _distance(ratio, doubt.size / max(1, doubt.raw)) <= _ALIKE
    is_alike &= not slope or (slope > 0 and _distance(slope, ratio) <= _ALIKE * _ALIKE)
    times = doubt.times + 1 if is_alike else 1
    if why == "odd" and times >= _OFTEN:
        return _believe(size, "reported", counted, replace(known, extra=0), most)
    if is_alike and not slope:  # the next one is held against the one before this
        return Belief(0, why, doubt=replace(doubt, why=why, times=times))
    return Belief(0, why, doubt=Doubt(size, raw, why, times, slope))


def _is_odd(size: int, counted: Counted, known: KnownSizes, expected: float) -> bool:
    """Return whether a report within bounds is far from what the one before it lets expect: a
    vocabulary does not change. What came since may be text of another kind, or pictures."""
    if not known.size:
        return known.is_partial or known.doubt is not None
    odd = min(counted.odd, counted.raw - counted.pictures)
    share = odd / max(1, counted.raw)
    least = expected * (1 - share) / _JUMP + _ODD[0] * odd - counted.pictures
    most = expected * (1 - share) * _JUMP + _ODD[1] * odd + counted.unknown
    return not least - _TEMPLATE / 2 <= size <= most + _TEMPLATE / 2


def _expect(counted: Counted, known: KnownSizes) -> float:
    if not known.size:
        return known.ratio * counted.raw
    return max(1.0, known.size + known.slope * (counted.raw - known.raw))


def _distance(one: float, other: float) -> float:
    """By which factor two positive numbers differ."""
    low, high = sorted((max(one, 1e-9), max(other, 1e-9)))
    return high / low


def _is_cut(size: int, counted: Counted, known: KnownSizes) -> bool:
    """Return whether a report is so far below what was sent that the provider must have cut the
    prompt in silence (Ollama does): by the meter and by characters, since vocabularies differ; or
    it does not grow with the request any more. What is left of a cut prompt fills a window: a
    report of next to nothing, or of far less than the one before, counts something else (there are
    servers that leave out what they had cached)."""
    if counted.images or known.is_partial or size < _SMALLEST or size * 2 < known.size:
        return False
    ratio = known.ratio
    if known.is_same:
        size_before, raw_before = known.size, known.raw
        if known.doubt and known.doubt.why == "odd":
            size_before, raw_before = known.doubt.size, known.doubt.raw
        grown = ratio * (counted.raw - raw_before)
        if grown > _TELLING and (size - size_before) * 4 < grown:
            return True
    sent = ratio * counted.raw
    if sent < _TELLING or size * 2 > sent:
        return False
    return counted.prefix * _CHARACTERS + counted.characters > size * _DENSEST


def is_partial(report: Report, counted: Counted) -> bool:
    """Return whether a report is of less than any window holds, of a prompt that is much more: the
    model reports what it had not cached, and no prompt was cut."""
    return report.prompt + report.cached < min(_SMALLEST, counted.least)


def clamp(ratio: float, counted: Counted) -> float:
    """Return a model's ratio, as far as it can be true of this text."""
    raw = max(1, counted.raw)
    return min(max(ratio, counted.least / raw), (counted.most - counted.unknown) / raw)


def is_measure(counted: int, raw: int) -> bool:
    """Return whether a count of a request that was not sent can be true of so many raw tokens."""
    return raw > 0 and _ODD[0] * raw <= counted <= _ODD[1] * raw + _TEMPLATE


def count_odd(text: str) -> int:
    """Characters on which vocabularies differ much: digits, and all that is not ASCII."""
    digits = sum(map(text.count, "0123456789"))
    return digits + (0 if text.isascii() else len(text) - len(text.encode("ascii", "ignore")))
