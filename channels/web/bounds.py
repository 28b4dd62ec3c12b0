"""Bounds on requests. They are checked before entries are validated, and validation stops at the
first error, so that a refused request costs no more than an accepted one."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema


class AtMost(Struct, frozen=True):
    """The maximum number of entries of a list or an object. For a list, only the first invalid
    entry is reported, and validation stops there."""

    entries: int

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        schema = handler(source)
        if schema["type"] in ("tuple", "list"):
            return {**schema, "fail_fast": True, "max_length": self.entries}
        return core_schema.no_info_before_validator_function(self._check, schema)

    def _check(self, given: Any) -> Any:
        if isinstance(given, dict) and len(given) > self.entries:
            data = {"max_length": self.entries}
            raise PydanticCustomError("too_long", "too many entries", data)
        return given


def keep_known(shape: type[BaseModel], given: Any) -> Any:
    """Return the fields of an object that a shape has, and the first unknown one."""
    if not isinstance(given, dict) or len(given) <= len(shape.model_fields):
        return given
    unknown = next((name for name in given if name not in shape.model_fields), None)
    return {name: given[name] for name in given if name in shape.model_fields or name is unknown}
