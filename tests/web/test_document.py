"""The OpenAPI document is correct: schemathesis tests everything that it describes."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path

import pytest

from channels import guess_limit
from channels.web import guard
from tests.docs.openapi import FILE, PAGE, file_of, find_document, page_of
from tests.fakes.openai_server import Say
from tests.web.site import serving

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "ignored_auth",
)
ENDLESS = "follow_events"


@pytest.mark.usefixtures("processes")
async def test_nothing_that_fits_the_document_or_does_not_breaks_the_bot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It tries a wrong token for each operation, and would be locked out (test_guard.py).
    monkeypatch.setattr(guess_limit, "TRIES", 10_000)
    monkeypatch.setattr(guard, "MOST_UNREAD", 10_000)
    async with serving(tmp_path, lambda _: Say("Well."), token="a long random text") as site:
        asking = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{site.url}/openapi.json"),
            *("--checks", ",".join(CHECKS), "--exclude-operation-id", ENDLESS),
            *("--header", "Authorization: Bearer a long random text"),
            *("--max-examples", "15", "--seed", "1", "--phases", "examples,coverage,fuzzing"),
            stdout=PIPE,
            stderr=STDOUT,
            cwd=tmp_path,
            env={**os.environ, "NO_COLOR": "1"},
        )
        said, _ = await asking.communicate()
    assert asking.returncode == 0, said.decode()


async def test_every_operation_is_described_with_its_bodies(tmp_path: Path) -> None:
    document = await find_document(tmp_path)
    assert FILE.read_text("utf-8") == file_of(document), "make docs writes it anew"
    assert PAGE.read_text("utf-8") == page_of(document), "make docs writes it anew"
    assert {"/api/sessions", "/api/sessions/{id}/compact", "/v1/chat/completions"} <= set(
        document["paths"]
    )
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], path
            assert method == "get" or "requestBody" in operation, path
    listing = document["paths"]["/api/sessions"]["get"]["parameters"]
    said = {one["name"]: one["description"] for one in listing}
    assert "list" in said["after"], "and no event: those have an `after` of their own"
