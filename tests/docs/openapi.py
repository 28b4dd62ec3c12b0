"""`docs/openapi.json` and its page `docs/openapi.md`, generated from a running bot: `python -m
tests.docs.openapi`."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plugins.wording import cell
from tests.docs.pages import ROOT
from tests.web.site import serving

FILE = ROOT / "docs" / "openapi.json"
PAGE = ROOT / "docs" / "openapi.md"
_INTRODUCTION = """\
# Operations over HTTP

<!-- Made by `make docs` from the code; changes made here by hand are lost. -->

All operations of [REST and OpenAI's protocol](rest.md), which explains them. The file
[openapi.json](openapi.json) has their parameters and bodies in full (OpenAPI 3.1): generators of
clients read it. A bot that runs gives its own at `/openapi.json`.
"""


def file_of(document: Mapping[str, Any]) -> str:
    """Return the text of the file."""
    return json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def page_of(document: Mapping[str, Any]) -> str:
    """Return the text of the page."""
    rows = [
        f"| `{method.upper()} {cell(path)}` | {cell(operation['summary'])} |"
        for path, operations in sorted(document["paths"].items())
        for method, operation in sorted(operations.items())
    ]
    return "\n".join([_INTRODUCTION, "| operation | what it does |", "|---|---|", *rows, ""])


async def find_document(folder: Path) -> dict[str, Any]:
    """Return the document that a bot serves."""
    async with serving(folder) as site:
        _, document = await site.get("/openapi.json")
    return dict(document)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        found = asyncio.run(find_document(Path(place)))
    FILE.write_text(file_of(found), encoding="utf-8")
    PAGE.write_text(page_of(found), encoding="utf-8")
