"""The accepted size of a prompt: a provider's report, checked against the counted tokens.

The cost is not decided here: it follows the provider's report. The accepted size is compared with
the limits, and shown to a person as measured.

The range of other vocabularies relative to the one used for counting (cl100k_base), measured with
o200k, DeepSeek V4, Mistral 32k and Tekken, Claude (2023), Llama 2, Qwen 3 and Gemma 3, in their
tokens for each of ours:

    English, German, code, JSON                    0.86 .. 1.41
    numbers                                        1.00 .. 2.30
    Russian, Chinese, Japanese, Korean, Arabic     0.49 .. 1.25
    Hindi, Gujarati, Tamil, Thai                   0.19 .. 1.77
    emoji                                          0.38 .. 1.24
    3,000 spaces and empty lines                   0.49 .. 2.27

Anthropic says that its tokenizer since Claude Opus 4.7 makes up to 1.35 times as many tokens as the
one before. Tools are sent as JSON, and each provider converts them: OpenAI shows them to its models
as declarations, which are shorter.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

_PLAIN = (0.58, 1.5)  # tokens for each counted one, of ASCII text without digits
_ODD = (0.18, 2.4)  # of digits, and of non-ASCII text
_TOOLS = 0.4  # the least for each counted one, of the schemas of tools
_RUN = 4  # characters per token of text for which our vocabulary has whole words: rules, spaces
_TEMPLATE = 400  # tokens that a chat template may add; Anthropic says 346 for tools
_MOST_EXTRA = 10_000  # tokens that an endpoint may add in front of a request
_PICTURE = 50_000  # most tokens of a picture: OpenAI bills up to 48,169 for gpt-4o-mini

_JUMP = 1.3  # the most by which a report may differ from the expected size, as a factor
_ALIKE = 1.15  # the most by which several differing reports may differ from each other
_OFTEN = 3  # this many such reports in a row are accepted
_GROWTH = 300  # raw tokens from which on the growth of a request is significant
_SMALL = 200  # raw tokens below which a report is not significant for a model

_TELLING = 1_000  # tokens below which a difference is no evidence of a cut prompt
_SMALLEST = 500  # tokens of a window; there is no smaller one
_DENSEST = 8  # characters of text that no vocabulary makes one token of, on average
_CHARACTERS = 4  # of a token, roughly

Why = Literal["reported", "with cached", "extra", "odd", "too much", "part", "cut"]
"""The reason why a size is accepted: it was reported, alone, or with the cached tokens, or with the
tokens that the endpoint adds. Or the reason why it is rejected: it differs from the size expected
after the earlier reports, or is above or below the range of all vocabularies ("cut": the model has
not read the whole prompt)."""


class CountedRequest(Struct, frozen=True):
    """A request as the meter counts it. Of its `raw` tokens, `tools` are of schemas, `odd` of text
    for which vocabularies differ much, and `pictures` are estimated, for `images` of them.
    `characters` is the length of the conversation, without the `prefix` raw tokens before it."""

    raw: int
    prefix: int = 0
    tools: int = 0
    odd: int = 0
    pictures: int = 0
    images: int = 0
    characters: int = 0

    def bounds(self) -> tuple[float, float]:
        """Return the fewest and the most tokens that any vocabulary makes of it, without those of
        pictures."""
        odd = min(self.odd, self.raw - self.pictures)
        plain = max(0, self.raw - self.pictures - odd)
        tools = min(self.tools, plain)
        words = _PLAIN[1] * plain + _ODD[1] * odd
        return (
            _PLAIN[0] * (plain - tools) + _TOOLS * tools + _ODD[0] * odd,
            max(words, _PLAIN[1] * self.prefix + self.characters / _RUN),
        )


class Report(Struct, frozen=True):
    """A provider's report of a prompt: its tokens, and the cached tokens, which are part of them or
    in addition."""

    prompt: int
    cached: int = 0


class RejectedReport(Struct, frozen=True):
    """A rejected report, the number of similar ones in a row, and its growth in tokens per raw
    token since the report before (0: unknown)."""

    size: int
    raw: int
    why: Why
    times: int = 1
    slope: float = 0.0


class KnownSizes(Struct, frozen=True):
    """The known facts about the model in this conversation: the last accepted size, of `raw` tokens
    (0: none), with `slope` tokens for each in addition to `extra`, which the endpoint adds;
    `is_same`: the conversation has only grown since; and the report rejected after that. `ratio` is
    the model's ratio if nothing else is known. `proved` is a ratio that a refusal has confirmed.
    `is_partial`: the model has reported less than any window holds."""

    ratio: float = 1.0
    size: int = 0
    raw: int = 0
    slope: float = 1.0
    extra: int = 0
    is_same: bool = False
    doubt: RejectedReport | None = None
    proved: float = 0.0
    is_partial: bool = False


class SizeDecision(Struct, frozen=True):
    """The decision about a report: the size of the prompt (0: the counted one), and the values
    learnt from it: the model's ratio (0: none), its growth per raw token, and the tokens that its
    endpoint adds."""

    size: int
    why: Why
    ratio: float = 0.0
    slope: float = 0.0
    extra: int = 0
    doubt: RejectedReport | None = None


def reconcile(report: Report, counted: CountedRequest, known: KnownSizes) -> SizeDecision:
    """Decide the size of a prompt."""
    least, most = counted.bounds()
    most = max(most + _PICTURE * counted.images, known.proved * _ALIKE * counted.raw)
    expected = _expect(counted, known)
    prompt, both = report.prompt, report.prompt + report.cached
    sizes = dict.fromkeys((both,) if report.cached > prompt else (prompt, both))
    fitting = [size for size in sizes if least <= size <= most + known.extra + _TEMPLATE]
    is_cut = report.cached <= prompt and _is_cut(prompt, counted, known)
    if is_cut and not (known.size and _distance(both, expected) <= _ALIKE):
        return SizeDecision(0, "cut")
    if not fitting:
        smallest = min(sizes)
        why: Why = "part" if smallest < least else "too much"
        return _doubt(smallest, why, counted, known, most)
    size = min(fitting, key=lambda one: _distance(one, expected))
    if not known.size and prompt in fitting:
        size = prompt  # as the protocols define it
    if _is_odd(size, counted, known, expected):
        return _doubt(size, "odd", counted, known, most)
    return _accept_size(size, "reported" if size == prompt else "with cached", counted, known, most)


def _accept_size(
    size: int, why: Why, counted: CountedRequest, known: KnownSizes, most: float
) -> SizeDecision:
    """Accept a size. Tokens above `most` are added by the endpoint, and say nothing about the
    text."""
    ratio = size / counted.raw if counted.raw else 0.0
    if counted.raw < _SMALL or counted.images or known.extra:
        return SizeDecision(size, why, 0.0, known.slope if known.extra else 0.0, known.extra)
    ratio = ratio if size <= most else 0.0
    return SizeDecision(size, why, ratio, ratio)


def _doubt(
    size: int, why: Why, counted: CountedRequest, known: KnownSizes, most: float
) -> SizeDecision:
    """Reject a report, unless others were similar, or the endpoint adds tokens."""
    doubt, raw = known.doubt, counted.raw
    if doubt is None or doubt.why == "part" != why:
        return SizeDecision(0, why, doubt=RejectedReport(size, raw, why))
    grown, more = raw - doubt.raw, size - doubt.size
    slope = more / grown if abs(grown) >= _GROWTH else 0.0
    extra = round(size - slope * raw)
    is_steady = _PLAIN[0] <= slope <= _PLAIN[1] and _distance(slope, doubt.slope) <= _ALIKE
    if why == "too much" and is_steady and 0 < extra <= _MOST_EXTRA:
        return SizeDecision(size, "extra", slope=slope, extra=extra)
    ratio = size / max(1, raw)
    is_alike = _distance(ratio, doubt.size / max(1, doubt.raw)) <= _ALIKE
    is_alike &= not slope or (slope > 0 and _distance(slope, ratio) <= _ALIKE * _ALIKE)
    times = doubt.times + 1 if is_alike else 1
    if why == "odd" and times >= _OFTEN:
        return _accept_size(size, "reported", counted, replace(known, extra=0), most)
    if is_alike and not slope:  # the next report is compared with the one before this
        return SizeDecision(0, why, doubt=replace(doubt, why=why, times=times))
    return SizeDecision(0, why, doubt=RejectedReport(size, raw, why, times, slope))


def _is_odd(size: int, counted: CountedRequest, known: KnownSizes, expected: float) -> bool:
    """Return whether a report within bounds is far from the size expected after the one before: a
    vocabulary does not change, but the new text may be of another kind, or have pictures."""
    if not known.size:
        return known.is_partial or known.doubt is not None
    odd = min(counted.odd, counted.raw - counted.pictures)
    share = odd / max(1, counted.raw)
    least = expected * (1 - share) / _JUMP + _ODD[0] * odd - counted.pictures
    most = expected * (1 - share) * _JUMP + _ODD[1] * odd + _PICTURE * counted.images
    return not least - _TEMPLATE / 2 <= size <= most + _TEMPLATE / 2


def _expect(counted: CountedRequest, known: KnownSizes) -> float:
    if not known.size:
        return known.ratio * counted.raw
    return max(1.0, known.size + known.slope * (counted.raw - known.raw))


def _distance(one: float, other: float) -> float:
    """Return the factor by which two positive numbers differ."""
    low, high = sorted((max(one, 1e-9), max(other, 1e-9)))
    return high / low


def _is_cut(size: int, counted: CountedRequest, known: KnownSizes) -> bool:
    """Return whether a report is so far below the sent size that the provider must have truncated
    the prompt silently (Ollama does). The size is checked by the meter and by characters, since
    vocabularies differ; or the report no longer grows with the request. The rest of a truncated
    prompt fills a window: a report of almost nothing, or of far less than the one before, counts
    something else (some servers leave out cached tokens)."""
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


def is_partial(report: Report, counted: CountedRequest) -> bool:
    """Return whether a report is below the size of any window, for a prompt that is much longer:
    the model reports the tokens that were not cached, and no prompt was truncated."""
    return report.prompt + report.cached < min(_SMALLEST, counted.bounds()[0])


def clamp(ratio: float, counted: CountedRequest) -> float:
    """Return a model's ratio, limited to the range that is possible for this text."""
    raw, (least, most) = max(1, counted.raw), counted.bounds()
    return min(max(ratio, least / raw), most / raw)


def is_measure(counted: int, raw: int) -> bool:
    """Return whether a count of a request that was not sent is possible for this many raw
    tokens."""
    return raw > 0 and _ODD[0] * raw <= counted <= _ODD[1] * raw + _TEMPLATE


def count_odd(text: str) -> int:
    """Count the characters for which vocabularies differ much: digits, and non-ASCII characters."""
    digits = sum(map(text.count, "0123456789"))
    return digits + (0 if text.isascii() else len(text) - len(text.encode("ascii", "ignore")))
