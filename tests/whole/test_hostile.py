"""Malicious answers and endpoints: the bot keeps running, and no message is lost."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from benchmarks.hostile_endpoint import FAMILIES, LIMITS, SETTINGS, HostileEndpoint, _peak
from bot import sending
from bot.turn_runner import BROKEN
from channels.base import ChannelError
from channels.message import Outbound
from memory.record import mailbox
from memory.record.mailbox import AddressColumns, OutboxRow
from memory.record.store import Store
from tests.fakes.openai_server import Answer, Call, OpenAIServer, Received, Say
from tests.waiting import PATIENCE, until
from tests.whole.process import MAIN, talking
from tests.whole.telegram_testbot import at_telegram
from tests.whole.testbot import TestBot, run_bot, running


@pytest.mark.parametrize("mark", ["`", "~", "||a", "$\\sqrt{", "|\n"])
async def test_an_answer_of_marks_alone_holds_nobody_up(tmp_path: Path, mark: str) -> None:
    hostile = "Look:" + mark * (8_000 // len(mark))
    begin = time.process_time()
    async with at_telegram(tmp_path, [Say(hostile), Say("Fine.")]) as bot:
        bot.ann.says("Say it")
        await bot.telegram.shown("Look:")
        bot.ann.says("And now?")
        await bot.telegram.shown("Fine.")
        await bot.is_idle()
        shown = [sent for sent in bot.telegram.messages.values() if sent.text != "Fine."]
        assert len(shown) <= 10
    assert time.process_time() - begin < 20


async def test_what_needs_more_than_ten_messages_goes_as_a_file_with_all_of_it(
    tmp_path: Path,
) -> None:
    long = "\n\n".join(f"Paragraph {n}: " + "word " * 100 for n in range(200))
    async with at_telegram(tmp_path, [Say(long)]) as bot:
        bot.ann.says("Tell me all")
        sent = await bot.telegram.shown("too long for a message")
        await bot.is_idle()
        assert sent.file.decode().strip() == long.strip()
        assert "Paragraph 0: word" in sent.text
        assert len(bot.telegram.made("sendDocument")) == 1
        assert [text for text in bot.telegram.texts if "Paragraph" in text] == [sent.text]


async def test_an_answer_that_froze_the_version_before_is_sent_after_a_restart(
    tmp_path: Path,
) -> None:
    text = "`" * 8_000
    await _leave(tmp_path, OutboxRow(_ANN, "7", None, _reply(text)))
    async with at_telegram(tmp_path, [Say("Fine.")]) as bot:
        bot.ann.says("Hi")
        await bot.telegram.shown("Fine.")
        await bot.telegram.shown("````")


_DYING = """
import asyncio, os, sys
from pathlib import Path
from bot.assembly import assemble
from bot.settings import load_layers

class Dying:
    name = "telegram"
    def __init__(self):
        self.is_sent = asyncio.Event()
    async def listen(self, bot):
        await self.is_sent.wait()
    async def send(self, outbound):
        if not outbound.is_plain:
            os._exit(9)
        print(outbound.reply.text)
        self.is_sent.set()

async def main():
    folder = Path(sys.argv[1])
    config = folder / "config.json"
    config.write_text('{"model": "gpt-4o-mini"}')
    await (await assemble(load_layers(config, {}), folder / "data", [Dying()])).run()

asyncio.run(main())
"""


@pytest.mark.usefixtures("processes")
async def test_what_kills_its_sender_goes_as_plain_text_at_the_third_attempt(
    tmp_path: Path,
) -> None:
    """The process that wrote it made the first attempt, here before the test."""
    await _leave(tmp_path, OutboxRow(_ANN, "7", None, _reply("Poison.")))
    ends = []
    for _ in range(3):
        run = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", _DYING, str(tmp_path)],
            cwd=MAIN.parent,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        ends.append((run.returncode, run.stdout))
    assert ends == [(9, ""), (9, ""), (0, "Poison.\n")]


@dataclass
class Refusing(TestBot):
    """A channel on which one text can never be sent."""

    refused: list[str] = field(default_factory=list)

    async def send(self, outbound: Outbound) -> None:
        if "Poison" in outbound.reply.text:
            self.refused.append(outbound.reply.text)
            raise ValueError("this can't be sent")
        await super().send(outbound)


async def test_what_can_never_be_sent_is_put_aside_and_an_owner_is_told(tmp_path: Path) -> None:
    await _leave(
        tmp_path, OutboxRow(AddressColumns("pipe", "main", "", ""), "7", None, _reply("Poison."))
    )
    tried = []
    for start in range(sending.ASIDE_AFTER + 2):
        bot = Refusing()
        async with running(tmp_path, bot, {}, {}):
            await bot.writes("/help", id=f"h{start}")  # from now on an owner can be notified
            await bot.reply_to(f"h{start}")
            if start == sending.ASIDE_AFTER:
                await _told(bot, "was put aside")
        tried.append(len(bot.refused))
    assert tried == [1] * sending.ASIDE_AFTER + [0, 0]


async def _told(bot: TestBot, words: str) -> None:
    await until(lambda: any(words in sent.reply.text for sent in bot.sent))


@dataclass
class Away(TestBot):
    """A channel whose platform is unreachable until the test starts it."""

    is_there: bool = False

    async def send(self, outbound: Outbound) -> None:
        if not self.is_there:
            raise ChannelError("there is no way to the platform")
        await super().send(outbound)


async def test_a_reply_that_nothing_could_be_sent_beside_is_not_to_blame(tmp_path: Path) -> None:
    await _leave(
        tmp_path, OutboxRow(AddressColumns("pipe", "main", "", ""), "7", None, _reply("Patience."))
    )
    for _ in range(sending.ASIDE_AFTER + 1):
        async with running(tmp_path, (away := Away()), {}, {}):
            await away.app.delivery.queues.idle()
    async with running(tmp_path, (there := Away(is_there=True)), {}, {}):
        sent = await there.reply_to("7")
    assert (sent.reply.text, sent.is_resent, sent.is_plain) == ("Patience.", True, False)


@dataclass
class Slow(TestBot):
    """A channel that accepts no reply until the test allows it."""

    may_send: asyncio.Event = field(default_factory=asyncio.Event)
    is_asked: asyncio.Event = field(default_factory=asyncio.Event)
    tried: list[int] = field(default_factory=list)

    async def tries(self) -> int:
        (row,) = await self.app.store.read(mailbox.list_outbox)
        return row.tries

    async def is_given_back(self) -> bool:
        """Return whether the running attempt is no longer counted."""
        return not await self.tries()

    async def send(self, outbound: Outbound) -> None:
        self.tried.append(await self.tries())
        self.is_asked.set()
        await self.may_send.wait()
        await super().send(outbound)


async def test_an_attempt_is_on_disk_before_it_is_made_and_excused_when_it_only_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "PATIENCE", 0.5)
    await _leave(
        tmp_path, OutboxRow(AddressColumns("pipe", "main", "", ""), "7", None, _reply("Slow."))
    )
    async with running(tmp_path, (bot := Slow()), {}, {}):
        await asyncio.wait_for(bot.is_asked.wait(), PATIENCE)
        await until(bot.is_given_back)
        bot.may_send.set()
        await bot.reply_to("7")
        assert bot.tried == [1]


_ANN = AddressColumns("telegram", "42", "", "42")


def _reply(text: str) -> str:
    return json.dumps({"text": text, "data": None, "actions": []})


async def _leave(folder: Path, row: OutboxRow) -> None:
    """Store a reply that an earlier process wrote and did not send."""
    (folder / "data").mkdir()
    store = await Store.open(folder / "data" / "parley.db")
    await store.write(lambda db: mailbox.enqueue_reply(db, row))
    await store.close()


MOST_MEMORY = 500
"""MB; the bot itself uses 110."""
HEARD = {
    "one huge JSON": "sent more than 4 MB at once",
    "gzip bomb": "answered with compressed text ('gzip')",
    "no newline": "sent more than 4 MB at once",
    "words, then no newline": "As far as I know.\n\n(The answer ends here because it is as long",
    "endless words": "(The answer ends here because it is as long",
    "endless reasoning": "sent more than 2,000,000 characters at once",
    "an endless event": "sent more than 4 MB at once",
    "a deep nest": "broke off",
    "many small values": "gave an empty answer",
    "40,000 calls": "(I stopped after 3 steps",
    "20,000 calls at once": "(I stopped after 3 steps",
    "endless arguments": "sent more than 2,000,000 characters at once",
    "words, then comments": "As far as I know.\n\n(http",
    "blanks for ever": "kept the connection open for 3 s without an answer",
    "100 Continue for ever": "sent nothing for 1 s",
    "an endless error": "refused the request (error 400)",
    "an error in punycode": "refused the request (error 400)",
    "an endless list of models": "Fine.",
    "redirect elsewhere": "Nothing was sent there",
    "redirect of the list": "Fine.",
}


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("is_slow", [True, False], ids=["slow", "endless"])
async def test_an_endpoint_that_wants_to_harm_gets_nowhere(tmp_path: Path, is_slow: bool) -> None:
    """Run a process under limits, with an agent for each kind of endpoint. Only time limits end
    what a slow one sends; they must not end what an endless one sends, however busy the machine."""
    families = [family for family in FAMILIES if family.name in HEARD]
    families = [family for family in families if bool(family.pause) is is_slow]
    async with AsyncExitStack() as stack:
        endpoints = [
            await stack.enter_async_context(HostileEndpoint(family)) for family in families
        ]
        agents = [
            {
                "id": f"agent{number}",
                "brain": {
                    "model": "auto" if family.is_listing else "gpt-4o-mini",
                    "config": {"base_url": endpoint.base_url},
                },
            }
            for number, (family, endpoint) in enumerate(zip(families, endpoints, strict=True))
        ]
        times = {} if is_slow else {"request_timeout": 600, "turn_timeout": 1_800}
        settings = {**SETTINGS, **times, "agents": agents}
        bot = await stack.enter_async_context(talking(tmp_path, None, settings, shell=LIMITS))

        async def meet(number: int) -> None:
            name, chat = families[number].name, f"chat {number}"
            said = [
                (await bot.says(text, chat=chat, id=f"{number} {text}"))["text"]
                for text in (f"/agent agent{number}", "Hello?", "and now?")
            ]
            # A busy machine may delay an endpoint that sends a little now and then.
            heard = (HEARD[name], *(["sent nothing for 1 s"] if is_slow else ()))
            assert any(words in said[1] for words in heard), (name, said[1][:1_000])
            assert BROKEN not in said[1], name
            assert said[2] == "Fine.", name
            assert endpoints[number].elsewhere == [], "nothing reached another address"

        if is_slow:
            await asyncio.gather(*map(meet, range(len(families))))
        else:  # one after another: each keeps a processor busy
            for number in range(len(families)):
                await meet(number)
        assert _peak(bot) < MOST_MEMORY


def many(count: int) -> Say:
    """Answer with this many calls, all of an existing tool."""
    return Say(
        calls=tuple(
            Call("calculate", json.dumps({"expression": f"{n}+1"}), f"c{n}") for n in range(count)
        )
    )


async def test_of_too_many_calls_the_first_are_run_and_the_model_is_told(tmp_path: Path) -> None:
    def script(request: Received) -> Answer:
        asked = str(request.body["messages"][-1]["content"])
        return many(int(asked[-1])) if asked.startswith("Count ") else Say("Done.")

    async with run_bot(tmp_path, script, {"agent_max_calls": 4}) as bot:
        assert (await bot.says("Count to 4")).text == "Done."
        *_, all_asked, first, _two, _three, fourth = bot.sent_to_model()
        assert (len(all_asked["tool_calls"]), all_asked["content"] or "") == (4, "")
        assert (first["content"], fourth["content"]) == ("1", "4")
        assert (await bot.says("Count to 9")).text == "Done."
        *_, asked, one, two, three, last = bot.sent_to_model()
    assert [message["content"] for message in (one, two, three)] == ["1", "2", "3"]
    assert [call["id"][:2] for call in asked["tool_calls"]] == ["c0", "c1", "c2", "c3"]
    assert last["content"].startswith("4\n\n")
    assert "only the first 4 calls were run; the limit is `agent_max_calls`." in last["content"]


async def test_a_summary_without_an_end_is_no_longer_than_was_asked_for(tmp_path: Path) -> None:
    def script(request: Received) -> Answer:
        return Say("Fine.") if request.is_turn else Say("word " * 60_000, pieces=100)

    settings = {"agent_max_context_turns": 4, "context.summary_max_tokens": 100}
    async with run_bot(tmp_path, script, settings) as bot:
        for number in range(8):
            assert (await bot.says(f"question {number} " + "why " * 400)).text == "Fine."
        longest = max(len(str(message["content"])) for message in bot.sent_to_model())
    assert longest < 5_000


async def test_a_fallback_answers_for_a_model_that_sends_too_much(tmp_path: Path) -> None:
    def script(request: Received) -> Answer:
        if request.body["model"] == "second":
            return Say("I am the second.")
        return Say(reasoning="Hm. " * 700_000, text="Well.", pieces=9)

    settings = {"fallback_models": ["second"]}
    async with run_bot(tmp_path, script, settings) as bot:
        assert (await bot.says("Hello?")).text == "I am the second."


async def test_a_sentence_about_an_endpoint_names_the_setting_that_it_is_from(
    tmp_path: Path,
) -> None:
    async with OpenAIServer() as other:
        brain = {"model": "other", "config": {"base_url": f"{other.base_url}/nothing"}}
        settings = {"agents": [{"id": "other", "brain": brain}], "agent": "other"}
        async with run_bot(tmp_path, settings=settings) as bot:
            reply = await bot.says("Hello?")
    assert "check the model's name and the agent's brain.config.base_url" in reply.text
