"""The parser of settings in YAML. Loaded when needed: most files are JSON, and PyYAML is 1 MB."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import yaml

from bot.settings.schema import dict_once


class _PlainYaml(yaml.SafeLoader):
    """YAML limited to the values of JSON: no aliases (a few bytes can expand to gigabytes), no
    tags, no dates, and `on` is a string."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own shape

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "tag", None):
            raise yaml.composer.ComposerError(
                None, None, "aliases and tags are not allowed", event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        pairs = [(name.value, None) for name, _ in node.value]
        if all(isinstance(name, str) for name, _ in pairs):
            dict_once(pairs)
        return super().construct_mapping(node, deep)


for _tag, _pattern, _first in (
    ("null", r"null|~|", ["n", "~", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"-?(0|[1-9][0-9]*)", list("-0123456789")),
    ("float", r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?", list("-0123456789")),
):
    _PlainYaml.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), _first
    )


def parse(text: str) -> Any:
    """Return the value of a text in YAML. Raises ValueError."""
    try:
        tree = yaml.load(text, _PlainYaml)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ValueError(f"{place}{error.problem}") from None
    except yaml.YAMLError as error:
        raise ValueError(str(error).partition("\n")[0]) from None
    return {} if tree is None else tree


def find_line(text: str, parts: Iterable[str]) -> int:
    """Return the line number of a part ("hooks", "2", "condition") of YAML or JSON, or of the
    nearest part around it; 0 if unknown."""
    try:
        node = yaml.compose(text, _PlainYaml)
    except yaml.YAMLError:
        return 0
    line = 0
    for part in parts:
        if (found := _find_part(node, part)) is None:
            break
        line, node = found
    return line


def _find_part(node: Any, part: str) -> tuple[int, Any] | None:
    """Return a part of a mapping or a list, with its line."""
    if isinstance(node, yaml.MappingNode):
        for name, inside in node.value:
            if name.value == part:
                return name.start_mark.line + 1, inside
    elif isinstance(node, yaml.SequenceNode) and part.isdigit() and int(part) < len(node.value):
        inside = node.value[int(part)]
        return inside.start_mark.line + 1, inside
    return None
