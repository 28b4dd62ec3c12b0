"""Bounds on what clients send. They hold before entries are looked at, and one error ends the
looking, so that what is refused costs no more than what is taken."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema


class AtMost(Struct, frozen=True):
    """So many entries of a list or an object. Of a list, the first wrong entry is complained about,
    and none after it is looked at."""

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
            told = {"max_length": self.entries}
            raise PydanticCustomError("too_long", "too many entries", told)
        return given


def keep_known(shape: type[BaseModel], given: Any) -> Any:
    """Return the fields of an object that a shape knows, and the first that it does not."""
    if not isinstance(given, dict) or len(given) <= len(shape.model_fields):
        return given
    unknown = next((name for name in given if name not in shape.model_fields), None)
    return {name: given[name] for name in given if name in shape.model_fields or name is unknown}
