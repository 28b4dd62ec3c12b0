import json
import math
import re
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.tools.base import ToolContext
from agent.tools.toolbox import Toolbox
from memory.keys import ConversationKey
from memory.messages import ToolCall
from plugins.builtin import basics

TOOLBOX = Toolbox(basics.parley_tools())
CONTEXT = ToolContext(
    ConversationKey("pipe/main", "main"), Path("nowhere"), ZoneInfo("Asia/Kathmandu")
)


async def run(name: str, **arguments: object) -> str:
    """Run a tool as a model would; an error is returned as "! " and its sentence."""
    text, is_error = await TOOLBOX.run(ToolCall("1", name, json.dumps(arguments)), CONTEXT)
    return f"! {text}" if is_error else text


def test_a_moment_is_told_with_weekday_and_offset() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    assert basics.format_moment(datetime(2026, 7, 1, 9, 5, 7, 123, tzinfo=berlin)) == (
        "Wednesday, 2026-07-01 09:05:07, UTC+02:00 (Europe/Berlin)"
    )
    assert basics.format_moment(datetime(2026, 1, 1, tzinfo=berlin)) == (
        "Thursday, 2026-01-01 00:00:00, UTC+01:00 (Europe/Berlin)"
    )


async def test_the_time_is_that_of_the_zone_asked_for() -> None:
    for asked, offset, zone in (
        ("", "+05:45", "Asia/Kathmandu"),
        ("Pacific/Honolulu", "-10:00", "Pacific/Honolulu"),
    ):
        before = datetime.now(UTC).replace(microsecond=0)
        text = await run("current_time", timezone=asked)
        told = re.fullmatch(r"\w+day, ([-\d]+) ([:\d]+), UTC(\S+) \((.*)\)", text)
        assert told is not None
        assert told.group(3, 4) == (offset, zone)
        moment = datetime.fromisoformat(f"{told[1]}T{told[2]}{told[3]}")
        assert before <= moment <= datetime.now(UTC)


async def test_an_unknown_zone_is_answered_with_the_nearest() -> None:
    for asked, advice in (
        ("Europe/Berlln", "Did you mean Europe/Berlin"),
        ("new york", "Did you mean America/New_York"),
        ("../../etc/passwd", "Names look like 'Europe/Berlin'."),
        ("Europe", "Did you mean "),
        ("x" * 10_000, "Names look like 'Europe/Berlin'."),
    ):
        text = await run("current_time", timezone=asked)
        assert text.startswith(f"! There is no time zone '{asked[:100]}'. {advice}")


async def test_arithmetic_is_worked_out() -> None:
    large = 12345678901234567890 * 98765432109876543210
    results = {
        "2 + 3 * 4": "14",
        "0.1 + 0.2": "0.3",
        "10 / 4": "2.5",
        "7 // 2 - 7 % 4": "0",
        "2^10 + 1": "1025",
        "-2**2": "-4",
        "3 × 4 − 6 ÷ 2": "9",
        "2**-1": "0.5",
        "sqrt(2)**2 == 2": "False",
        "round(2.567, 2)": "2.57",
        "max(1, 2.5, abs(-3))": "3",
        "sin(pi / 2) + log(e)": "2",
        "comb(49, 6)": "13983816",
        "1 if 2 < 3 < 4 else 0": "1",
        "1_000 + 0x10 + 1e3": "2016",
        " 12345678901234567890 * 98765432109876543210 ": str(large),
    }
    assert {text: await run("calculate", expression=text) for text in results} == results


async def test_what_cannot_be_worked_out_gets_a_sentence() -> None:
    for reason, expressions in {
        "divides by zero.": ("1 / 0",),
        "is too large": ("factorial(10**9)", "round(5, -10**9)", "1e308 * 10", "10**400 / 3"),
        "is too large: whole numbers go to about 3,000 digits": ("9**9**9",),
        "has no real result": ("sqrt(-1)", "(-8) ** (1/3)"),
        "uses a function with too many, too few or the wrong kind of numbers.": ("sqrt()", "sqrt"),
        "uses 'sqr', which is unknown: did you mean sqrt?": ("sqr(4)",),
        "uses 'zzz', which is unknown: known are ": ("zzz",),
        "may hold only numbers (1000, not 1,000) and functions.": (
            *("'a' * 10**9", "1,000 * 2", "f'{1:>1000000000}'", "[1][0]"),
            *("().__class__.__bases__", "(lambda: 1)()"),
        ),
        "uses an operator that is not known here.": ("2 in 3",),
        "is not an arithmetic expression.": ("import os", "x = 3", "1; 2", "", "1\0", "(" * 500),
        "is nested too deeply.": ("-" * 999 + "1",),
    }.items():
        for expression in expressions:
            text = await run("calculate", expression=expression)
            assert text.startswith(f"! {expression[:100]!r} {reason}")
    assert "at most 1000 characters" in await run("calculate", expression="1+" * 1_000 + "1")


@pytest.mark.timeout(60)
async def test_no_expression_takes_for_ever() -> None:
    """Each expression would run forever if evaluated naively: none ends within the time limit."""
    for expression in (
        "2**9999 * 2**9999 * 2**9999",
        "*".join(["factorial(1000)"] * 60),
        "perm(10**3000, 10**3000)",
        "comb(10**9, 10**8)",
        "lcm(" + ",".join(str(10**9 + n) for n in range(80)) + ")",
        "**".join(["9"] * 300),
        "2**0.5" + "**2" * 300,
        "(10**3000)**0.0001",
        "(1+1e-9)**(10**18)",
        "-".join(["(7**3000 % 5)"] * 70),
    ):
        await run("calculate", expression=expression)


NUMBERS = st.integers(-999, 999).map(lambda number: f"({number})")
SUMS = st.recursive(
    NUMBERS,
    lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(
        lambda parts: f"({' '.join(parts)})"
    ),
    max_leaves=20,
)


@given(SUMS)
async def test_whole_numbers_are_exact(expression: str) -> None:
    assert await run("calculate", expression=expression) == str(eval(expression))


@given(st.text(st.sampled_from("0123456789.+-*/%()<>=,^ eijmnopqrstx'[]:{}_"), max_size=40))
async def test_any_text_ends_in_a_number_or_a_sentence(expression: str) -> None:
    text = await run("calculate", expression=expression)
    if text.startswith("! "):
        assert "error inside it" not in text
    else:
        assert text in {"True", "False"} or math.isfinite(float(text) if len(text) < 300 else 0)
