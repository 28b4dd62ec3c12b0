"""Personas of another program as agents of the configuration, which only a file may have."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from bot.settings import SettingError, load_layers
from bot.settings.files import read_tree
from bot.setup_files import write_all
from channels.message import clean_text
from plugins.moving.source import MovingError, Persona

_LONGEST_PROMPT, _LONGEST_ABOUT = 90_000, 500
_NAMES = re.compile(r"[^A-Za-z0-9_-]+")


def add_agents(config: Path, personas: Sequence[Persona], known: Collection[str]) -> list[str]:
    """Write those into the configuration that it does not have; returns their names. The rest of
    the file says what it said. Raises MovingError and SettingError."""
    new = [one for one in map(as_agent, personas) if one["id"] not in known]
    new = list({one["id"]: one for one in new}.values())
    if not new:
        return []
    if config.suffix.lower() in (".yaml", ".yml"):
        block = json.dumps(new, indent=2, ensure_ascii=False)
        raise MovingError(
            f"{config} is YAML, whose comments would be lost, so the personas were not written; "
            f"put them there yourself:\nagents: {block}"
        )
    tree = read_tree(config) if config.exists() else {}
    before = config.read_text("utf-8") if config.exists() else None
    wanted = {**tree, "agents": [*tree.get("agents", []), *new]}
    write_all({config: json.dumps(wanted, indent=2, ensure_ascii=False) + "\n"})
    try:
        load_layers(config, os.environ)
    except SettingError:
        if before is None:
            config.unlink()
        else:
            write_all({config: before})
        raise
    return [one["id"] for one in new]


def as_agent(persona: Persona) -> Mapping[str, Any]:
    """Return a persona as the configuration has an agent. Its words are words there: they name no
    file, and no secret."""
    prompt = clean_text(persona.prompt)[:_LONGEST_PROMPT].replace("{{", "{ {")
    if prompt.startswith("file:") or prompt.endswith((".md", ".txt")):
        prompt = f"You are told:\n{prompt}"
    return {
        "id": _NAMES.sub("-", persona.name).strip("-")[:64] or "imported",
        "description": " ".join(clean_text(persona.description).split())[:_LONGEST_ABOUT].replace(
            "{{", "{ {"
        ),
        "system_prompt": prompt,
    }
