"""Self-contained tools: the time, a calculator, and reading a skill."""

from __future__ import annotations

import ast
import difflib
import functools
import math
import operator
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo, available_timezones

import simpleeval  # type: ignore[import-untyped]
from pydantic import Field

from plugins.api import Tool, ToolContext, ToolError, hookimpl, tool

_MOST_BITS = 10_000  # maximum size of a whole number: about 3,000 digits

_SIGNS = str.maketrans("×·÷−", "**/-")

Number = int | float


@tool
def current_time(context: ToolContext, timezone: str = "") -> str:
    """Say the date, weekday and time.

    Args:
        timezone: Like Europe/Berlin.
    """
    return format_moment(datetime.now(_zone(timezone) if timezone else context.timezone))


@tool
def calculate(expression: Annotated[str, Field(max_length=1000)]) -> str:
    """Work out an arithmetic expression.

    Args:
        expression: Like 2**3 * pi.
    """
    try:
        return _format_value(_calculator.eval(expression, _parse(expression)))
    except _FAULTS as error:
        raise ToolError(f"{expression[:100]!r} {_reason(error)}") from None


def format_moment(moment: datetime) -> str:
    """Return a moment as "Friday, 2025-11-21 03:15:07, UTC+01:00 (Europe/Berlin)"."""
    text = moment.isoformat(" ", "seconds")
    return f"{moment:%A}, {text[:19]}, UTC{text[19:]} ({moment.tzinfo})"


def _zone(name: str) -> ZoneInfo:
    known = _zone_names()
    if name in known.values():
        return ZoneInfo(name)
    matches = difflib.get_close_matches(name[:100].casefold().replace(" ", "_"), known)
    guess = " or ".join(dict.fromkeys(known[match] for match in matches))
    advice = f"Did you mean {guess}?" if guess else "Names look like 'Europe/Berlin'."
    raise ToolError(f"There is no time zone {name[:100]!r}. {advice}")


@functools.cache  # it reads the whole time zone database
def _zone_names() -> dict[str, str]:
    """Return the time zones by their name and by their city, both in lower case."""
    names = sorted(available_timezones())
    cities = {name.rpartition("/")[2].casefold(): name for name in names}
    return cities | {name.casefold(): name for name in names}


def _parse(expression: str) -> ast.expr:
    """Return the expression's syntax tree. `^` is read as a power, which is `**` in Python."""
    return ast.parse(expression.strip().replace("^", "**").translate(_SIGNS), mode="eval").body


def _format_value(value: Any) -> str:
    """Return a result as people write it: floats have 15 digits, so that 0.1 + 0.2 is 0.3."""
    if not isinstance(value, Number):
        raise TypeError(value)
    if not isinstance(value, float):
        return str(value)
    if not math.isfinite(value):
        raise OverflowError
    return f"{value:.15g}"


def _bound(function: Callable[..., Any]) -> Callable[..., Number]:
    """Wrap a function; the wrapper raises if the result is too large or not a real number."""

    def call_bounded(*values: Number) -> Number:
        result = function(*values)
        if isinstance(result, complex):
            raise ValueError(result)
        if isinstance(result, int) and result.bit_length() > _MOST_BITS:
            raise OverflowError
        return result  # type: ignore[no-any-return]

    return call_bounded


def _power(base: Number, exponent: Number) -> Any:
    if isinstance(base, int) and abs(base) > 1 and base.bit_length() * exponent > _MOST_BITS:
        raise OverflowError
    return base**exponent


def _limited(function: Callable[..., int]) -> Callable[..., int]:
    """Wrap factorial(n), comb(n, k) or perm(n, k); the wrapper raises OverflowError if the
    computation would take long."""

    def checked(n: int, *k: int) -> int:
        if operator.index(n).bit_length() * (k[-1] if k else n) > _MOST_BITS:
            raise OverflowError
        return function(n, *k)

    return checked


def _round(value: Number, digits: int = 0) -> Number:
    if abs(digits) > 1000:  # Python computes 10 ** -digits for a whole number
        raise OverflowError
    return round(value, digits)


def _constant(node: ast.Constant) -> Number:
    if not isinstance(node.value, Number):
        raise simpleeval.FeatureNotAvailable
    return node.value


_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: _bound(operator.add),
    ast.Sub: _bound(operator.sub),
    ast.Mult: _bound(operator.mul),
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _bound(_power),
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_MATHS = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil cos cosh degrees exp floor gcd hypot isqrt "
    "log log10 log2 radians sin sinh sqrt tan tanh trunc"
)
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(math, name) for name in _MATHS.split()},
    **{name: _limited(getattr(math, name)) for name in ("comb", "factorial", "perm")},
    "lcm": _bound(math.lcm),
    "abs": abs,
    "float": float,
    "int": int,
    "max": max,
    "min": min,
    "round": _round,
}
_CONSTANTS = {"pi": math.pi, "e": math.e, "tau": math.tau}
_NODES = (ast.Name, ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call)


def _number_evaluator() -> simpleeval.SimpleEval:
    """Return an evaluator that accepts only numbers: no texts, attributes, indices or
    assignments."""
    evaluator = simpleeval.SimpleEval(_OPERATORS, _FUNCTIONS, _CONSTANTS)
    evaluator.nodes = {kind: evaluator.nodes[kind] for kind in _NODES}
    evaluator.nodes[ast.Constant] = _constant
    return evaluator


_calculator = _number_evaluator()

_REASONS: dict[type[Exception], str] = {
    ZeroDivisionError: "divides by zero",
    OverflowError: "is too large: whole numbers go to about 3,000 digits, others to 1e308",
    ValueError: "has no real result: a function or power is used outside its range",
    TypeError: "uses a function with too many, too few or the wrong kind of numbers",
    SyntaxError: "is not an arithmetic expression",
    MemoryError: "is nested too deeply",
    RecursionError: "is nested too deeply",
    simpleeval.InvalidExpression: "may hold only numbers (1000, not 1,000) and functions",
    KeyError: "uses an operator that is not known here",
}
_FAULTS = tuple(_REASONS)


def _reason(error: Exception) -> str:
    """Return the error of an expression, in words that follow the expression in a sentence."""
    name = getattr(error, "func_name", "") or getattr(error, "name", "")
    if isinstance(error, simpleeval.InvalidExpression) and name:
        known = [*_FUNCTIONS, *_CONSTANTS]
        nearest = difflib.get_close_matches(name, known, n=1)
        advice = f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(known)}."
        return f"uses {name!r}, which is unknown: {advice}"
    return next(f"{reason}." for kind, reason in _REASONS.items() if isinstance(error, kind))


@tool(touches={"reads"})
def read_skill(context: ToolContext, name: str) -> str:
    """Read the instructions of a skill."""
    by_name = {skill.name: skill for skill in context.skills}
    if name in by_name:
        return by_name[name].text()
    near = difflib.get_close_matches(name, by_name, n=1)
    guess = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(by_name) or 'none'}."
    raise ToolError(f"There is no skill {name[:100]!r}; {guess}")


@hookimpl
def parley_tools() -> list[Tool]:
    return [calculate, current_time, read_skill]
