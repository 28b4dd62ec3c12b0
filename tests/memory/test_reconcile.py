"""Tests of the accepted size of a prompt, for any reports of a provider."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from hypothesis import example, given
from hypothesis import strategies as st

from memory.calibration import Calibration, KnownModels
from memory.context.meter import PrefixTokens
from memory.context.reconcile import (
    CountedRequest,
    KnownSizes,
    RejectedReport,
    Report,
    SizeDecision,
    count_odd,
    reconcile,
)
from memory.context.settings import Limits
from memory.context.view import View
from memory.record.store import Store
from tests.tables import each_row

SET = Limits().but(model="m", window=20_000)
LEAST, MOST = 0.5, 2.2  # of the true size


class NoStore:
    """A store that keeps nothing."""

    async def write(self, job: object, *, is_synced: bool = True) -> None:
        del job, is_synced


def fresh() -> Calibration:
    return Calibration(cast("Store", NoStore()), KnownModels())


def sent(raw: int, tools: int = 0) -> View:
    """Return a request of this many raw tokens of plain text."""
    return View((), (), PrefixTokens(raw - tools, tools))


def report_sizes(sizes: Sequence[int], caches: str, times: str) -> list[tuple[int, int]]:
    """Return a provider's reports of prompts of these sizes: the reported size, and the cached
    part."""
    said, before = list[tuple[int, int]](), 0
    for number, size in enumerate(sizes):
        cached = min(before, size) // 128 * 128 if caches != "never" else 0
        cached = cached if cached >= 1_024 else 0
        before = size
        prompt = size if caches in ("never", "inside") else size - cached
        cached = 0 if caches == "uncached only" else cached
        if times == "all so far":
            prompt += said[number - 1][0] if said else 0
            cached += said[number - 1][1] if said else 0
        elif times:
            prompt, cached = prompt * int(times), cached * int(times)
        said.append((prompt, cached))
    return said


WAYS = (
    *((caches, "") for caches in ("never", "inside", "apart", "uncached only")),
    *(("inside", times) for times in ("2", "4", "all so far")),
)
"""The ways of reporting the cached part, and the figures."""


@given(
    st.floats(0.6, 1.9),
    st.sampled_from(WAYS),
    st.integers(1_200, 6_000),
    st.lists(st.integers(10, 2_500), min_size=1, max_size=25),
    st.sampled_from(["", "zeros", "missing"]),
)
@example(1.0, ("uncached only", ""), 2_600, [40] * 20, "")
@example(0.93, ("inside", "2"), 2_600, [300] * 12, "")
@example(1.9, ("uncached only", ""), 2_000, [1_000] * 5, "")
def test_what_is_believed_is_never_far_from_the_truth(
    factor: float, way: tuple[str, str], prefix: int, turns: list[int], gaps: str
) -> None:
    """A conversation that grows, and is compacted when its accepted size requires it. No known
    vocabulary makes more than 1.5 tokens of one of plain text; for one that does, at least the
    fewest tokens of any vocabulary are accepted."""
    least = LEAST if factor <= 1.5 else 0.58 / factor
    calibration = fresh()
    raw, raws = prefix, [prefix]
    for turn in turns:
        raw = raw + turn if raw < 20_000 else prefix + turn
        raws.append(raw)
    reports = report_sizes([round(factor * raw) for raw in raws], *way)

    async def talk() -> None:
        for number, (raw, (prompt, cached)) in enumerate(zip(raws, reports, strict=True)):
            if prompt and not (gaps and number % 3 == 1):
                await calibration.learn(sent(raw), prompt, "m", cached)
            for more in (0, 100):
                view = sent(raw + more)
                believed = calibration.scale(view, "m").tokens(view.raw_tokens)
                assert least <= believed / (factor * view.raw_tokens) <= MOST

    asyncio.run(talk())


def learn(*reports: tuple[int, int, int]) -> Calibration:
    """Return a calibration that learned from reports: raw tokens, the prompt, the cached part."""
    calibration = fresh()

    async def hear() -> None:
        for raw, prompt, cached in reports:
            await calibration.learn(sent(raw), prompt, "m", cached)

    asyncio.run(hear())
    return calibration


def size(calibration: Calibration, raw: int) -> tuple[int, bool]:
    """Return the displayed size of a request, and whether it is called measured."""
    scale = calibration.scale(sent(raw), "m")
    return scale.tokens(raw), scale.is_measured


def test_what_was_not_cached_is_no_measure() -> None:
    assert size(learn((3_000, 3_100, 0), (7_900, 125, 0)), 7_900) == (8_163, False)


@each_row("factor", [0.7, 1.0, 1.4])
def test_what_is_reported_within_bounds_is_what_is_shown(factor: float) -> None:
    reports = [(raw, round(factor * raw), 0) for raw in (2_600, 3_000, 5_000)]
    assert size(learn(*reports), 5_000) == (round(factor * 5_000), True)


def test_what_is_cached_counts_where_it_is_reported_apart() -> None:
    calibration = learn((3_000, 3_100, 0), (3_400, 450, 3_072))
    assert size(calibration, 3_400) == (3_522, True)
    calibration = learn((3_000, 3_100, 0), (6_000, 3_100, 3_072))
    assert size(calibration, 6_000) == (6_172, True), "it is what the one before lets expect"


def test_what_is_cached_does_not_count_twice() -> None:
    calibration = learn((3_000, 3_100, 0), (3_400, 3_500, 3_072))
    assert size(calibration, 3_400) == (3_500, True)


@each_row("times", [2, 4])
def test_a_multiple_is_neither_shown_nor_learnt(times: int) -> None:
    reports = [(raw, times * raw, 0) for raw in range(2_600, 9_000, 400)]
    calibration = learn(*reports)
    assert size(calibration, 8_600) == (8_600, False)
    assert calibration.models.ratios == {}


def test_a_sum_of_all_requests_is_not_believed_from_the_second_one_on() -> None:
    raws = range(2_600, 4_000, 50)
    calibration = learn(*((raw, sum(range(2_600, raw + 1, 50)), 0) for raw in raws))
    assert size(calibration, 3_950) == (3_950, False)
    assert calibration.models.ratio("m") == 1.0


def test_one_odd_report_teaches_nothing_and_three_alike_do() -> None:
    honest = [(2_600, 2_600, 0), (3_000, 3_000, 0)]
    assert learn(*honest, (3_400, 2_210, 0)).models.ratio("m") == 1.0
    assert size(learn(*honest, (3_400, 2_210, 0)), 3_400) == (3_400, False)
    odd = [(raw, round(0.65 * raw), 0) for raw in (3_400, 3_800, 4_200)]
    assert size(learn(*honest, *odd), 4_200) == (2_730, True)


def test_a_prompt_of_the_endpoints_own_is_part_of_the_size() -> None:
    reports = [(raw, raw + 4_000, 0) for raw in (2_600, 3_000, 3_400)]
    calibration = learn(*reports)
    assert size(calibration, 3_400) == (7_400, True)
    assert size(calibration, 4_000) == (8_000, True)
    assert calibration.models.ratios == {}


def test_a_ratio_that_was_learnt_of_nonsense_is_corrected() -> None:
    calibration = fresh()
    calibration.models.ratios["m"] = 4.0
    asyncio.run(calibration.learn(sent(3_000), 12_000, "m"))
    assert calibration.models.ratio("m") == 1.5


def test_a_refusal_confirms_what_was_too_much_to_be_believed() -> None:
    """An unknown vocabulary makes 1.9 tokens of one."""
    calibration = learn(*((raw, round(1.9 * raw), 0) for raw in (6_000, 8_000, 10_000)))
    assert size(calibration, 11_000) == (11_000, False)
    calibration.accept_refusal(sent(11_000), SET, 0)
    assert size(calibration, 11_000) == (20_900, False)
    asyncio.run(calibration.learn(sent(9_000), 17_100, "m"))
    assert size(calibration, 9_000) == (17_100, True)


def test_a_vocabulary_for_another_script_may_be_far_off() -> None:
    """Gujarati: 0.21 tokens of o200k for each counted one."""
    text = CountedRequest(6_000, 1_000, 0, odd=5_000, characters=4_000)
    assert reconcile(Report(2_000), text, KnownSizes()).size == 2_000
    plain = CountedRequest(6_000, 1_000, 0, characters=20_000)
    assert reconcile(Report(2_000), plain, KnownSizes()).size == 0


def test_pictures_are_a_guess() -> None:
    seen = CountedRequest(4_000, 2_000, pictures=1_000, images=1)
    for tokens in (3_100, 30_000):
        belief = reconcile(Report(tokens), seen, KnownSizes())
        assert (belief.size, belief.ratio) == (tokens, 0.0)
    assert reconcile(Report(100), seen, KnownSizes()) == SizeDecision(
        0, "part", doubt=RejectedReport(100, 4_000, "part")
    )


def test_digits_and_other_scripts_are_counted_as_odd() -> None:
    assert count_odd("it is 4711 für 木曜日") == 4 + 1 + 3
