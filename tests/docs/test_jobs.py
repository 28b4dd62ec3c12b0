"""The page on reminders and jobs: its examples are understood as they stand."""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime
from pathlib import Path

import pytest
import time_machine

from tests.docs.pages import example
from tests.fakes.openai_server import Say
from tests.web.site import serving
from tests.whole.testbot import run_bot

LINES = example("jobs.md", "text").splitlines()


async def test_the_examples_are_understood(tmp_path: Path) -> None:
    with time_machine.travel(datetime(2026, 11, 23, 12, tzinfo=UTC), tick=True):
        settings = {"timezone": "Europe/Berlin", "tools": {"web_fetch": True}}
        async with run_bot(tmp_path, settings=settings) as bot:
            for number, line in enumerate(LINES, 1):
                answer = (await bot.says(line)).text
                assert f" {number} is set: " in answer
                assert "(Europe/Berlin)" in answer


@pytest.mark.usefixtures("processes")
async def test_the_examples_of_looking_are_understood(tmp_path: Path) -> None:
    settings = {"tools": {"web_fetch": True, "shell": True}}
    async with run_bot(tmp_path, settings=settings) as bot:
        for number, line in enumerate(example("jobs.md", "plain").splitlines(), 1):
            answer = (await bot.says(line)).text
            assert f" {number} is set: " in answer
            assert "finds anything new" in answer


async def test_the_webhook_is_called_as_the_page_says(tmp_path: Path) -> None:
    lines, call = example("jobs.md", "ini").splitlines(), shlex.split(example("jobs.md", "bash"))
    secret = "a-long-random-text-0123456789"
    (tmp_path / ".env").write_text(f"PARLEY_HOOK_SECRET_GITHUB={secret}\n")
    async with serving(tmp_path, [Say("Hello."), Say("Ann mended it.")]) as site:
        await site.says("Hello")
        answers = [(await site.commands(line))["text"] for line in lines]
        assert "is set" in answers[-1]
        headers = dict(
            call[n + 1].replace("$SECRET", secret).split(": ", 1)
            for n, word in enumerate(call)
            if word == "-H"
        )
        body = json.loads(call[call.index("-d") + 1])
        assert (await site.post("/api/hooks/github", body, headers=headers))[0] == 202
        await site.app.idle()
        asked = site.server.turns[-1].body["messages"][-1]["content"]
        assert "pusher.name: Ann\nref: main\ncommits.0.message: Mend the roof" in asked
