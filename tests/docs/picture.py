"""The picture in docs/architecture.md, generated from the imports: `python -m
tests.docs.picture`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
PARTS = {
    "features": "plugins/NAME<br>features",
    "bot": "bot<br>settings, access, inbox, turns, delivery, assembly",
    "plugins": "plugins<br>hooks, loader, built-in commands and tools",
    "agent": "agent<br>loop, prompt, models, tools",
    "channels.platforms": "channels/NAME<br>one per platform, the web page",
    "channels": "channels<br>contract, kit, languages",
    "memory": "memory<br>transcript, context, compaction, search, storage",
}
_FENCE = re.compile(r"```mermaid\n.*?```\n", re.DOTALL)
_API = ("builtin", "rules")  # folders of plugins/ that are not features


def part_of(module: str) -> str:
    """Return the part of the picture that a module belongs to; "" for none."""
    layer, _, rest = module.partition(".")
    folder = rest.partition(".")[0]
    if layer == "plugins" and folder not in _API and (ROOT / "plugins" / folder).is_dir():
        return "features" if folder else "plugins"
    if layer == "channels" and folder != "kit" and (ROOT / "channels" / folder).is_dir():
        return "channels.platforms" if folder else "channels"
    named = f"{layer}.{folder}"
    return named if named in PARTS else layer if layer in PARTS else ""


def imports() -> set[tuple[str, str]]:
    """Return the pairs of parts with an import at the top of a module."""
    found = set()
    for layer in ("bot", "plugins", "agent", "channels", "memory"):
        for path in (ROOT / layer).rglob("*.py"):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for name in _imported(path):
                one, other = part_of(module), part_of(name)
                if one and other and one != other:
                    found.add((one, other))
    return found


def _imported(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def draw() -> str:
    """Return the picture: an arrow from each part to those it imports, without arrows that follow
    from two others."""
    edges = imports()
    shown = sorted((a, b) for a, b in edges if not _follows(edges, a, b))
    boxes = [f'  {_id(name)}["{label}"]' for name, label in PARTS.items()]
    arrows = [f"  {_id(a)} --> {_id(b)}" for a, b in shown]
    return "\n".join(["```mermaid", "flowchart TD", *boxes, *arrows, "```", ""])


def _follows(edges: set[tuple[str, str]], one: str, other: str) -> bool:
    return any(
        (one, via) in edges and (via, other) in edges and (via, one) not in edges
        for via in PARTS
        if via not in (one, other)
    )


def _id(name: str) -> str:
    return name.replace(".", "_")


def draw_anew(page: str) -> str:
    """Return the page with the current picture."""
    return _FENCE.sub(lambda _: draw(), page, count=1)


if __name__ == "__main__":
    PAGE.write_text(draw_anew(PAGE.read_text("utf-8")), encoding="utf-8")
