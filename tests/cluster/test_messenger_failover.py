"""A messenger on the kit, which one gateway serves: what it keeps is the others' too."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cluster.cluster_processes import cluster_of, read, until_owned_by, until_shared
from tests.docs.test_channels import set_up, until_written
from tests.fakes.payments import Echo
from tests.waiting import PATIENCE

SERVING = "channel.letters"


async def test_when_the_gateway_of_a_messenger_is_killed_another_goes_on_where_it_was(
    tmp_path: Path, servers: Mapping[str, Any], postgresql: str
) -> None:
    told = set_up(tmp_path)
    questions, answers = tmp_path / "letters/questions.txt", tmp_path / "letters/answers.txt"
    questions.touch()

    def writes(line: str) -> None:
        with questions.open("a") as file:
            file.write(f"{line}\n")

    async with (
        Echo(0.3) as endpoint,
        cluster_of(tmp_path, endpoint, {**servers, **told}, workers=1) as processes,
    ):
        gateways = [await processes.start("--role", "gateway", "--serve") for _ in range(2)]
        await until_shared(postgresql, 1)
        active = await until_owned_by(postgresql, SERVING, *gateways)
        writes("one")
        await until_written(answers, "re: one")
        writes("two")
        await asyncio.wait_for(endpoint.reached.acquire(), PATIENCE)
        await asyncio.wait_for(endpoint.reached.acquire(), PATIENCE)
        await active.kill()
        writes("three")
        (other,) = [gateway for gateway in gateways if gateway is not active]
        assert await until_owned_by(postgresql, SERVING, other) is other
        text = await until_written(answers, "re: three")
    told_of = re.findall(r"re: (\w+)", text)
    assert list(dict.fromkeys(told_of)) == ["one", "two", "three"], "in order, none lost"
    assert told_of.count("one") == told_of.count("three") == 1
    asked = read(postgresql, "SELECT text FROM message WHERE role = 'user' ORDER BY id")
    assert [text for (text,) in asked] == ["one", "two", "three"]
