"""The project's pages, and the examples in them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = tuple(
    page for folder in ("*.md", ".github/*.md", "docs/**/*.md") for page in ROOT.glob(folder)
)


def example(page: str, language: str) -> str:
    """Return the only code block in this language on a page under `docs/`."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    (block,) = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return str(block)
