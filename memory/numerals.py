"""Numbers as people write them: never in scientific notation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from math import isfinite
from typing import Any


def plain_number(value: float, digits: int = 17) -> str:
    """Return a number in plain digits, as it would be typed: 0.0000001, not 1e-07. It has at most
    so many significant digits."""
    if not isfinite(value):
        return json.dumps(value)
    text = f"{Decimal(repr(value) if digits >= 17 else f'{value:.{digits}g}'):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def plain_json(value: Any) -> str:
    """Return a value as JSON with such numbers; what JSON does not know as text."""
    if isinstance(value, float):
        return plain_number(value)
    if isinstance(value, Mapping):
        pairs = (f"{json.dumps(k, ensure_ascii=False)}: {plain_json(v)}" for k, v in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(plain_json, value))}]"
    return json.dumps(value, ensure_ascii=False, default=str)
