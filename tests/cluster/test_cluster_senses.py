"""Voice, and tools of other programs, where several workers are one bot."""

from __future__ import annotations

from pathlib import Path

from channels.message import Attachment
from plugins.cluster.wire import SPOOL
from tests.cluster.cluster_testbot import channel, clustered
from tests.cluster.rabbitmq_server import RabbitMQServer
from tests.fakes.openai_server import OpenAIServer, Say
from tests.fakes.voice_server import OGG
from tests.mcp.testbot import calls_in, notes, script, with_servers


def sounds(data: Path) -> list[bytes]:
    """The voice messages that are kept."""
    return [file.read_bytes() for file in data.glob("audiences/*/data/*.ogg")]


def files_in(folder: Path) -> list[Path]:
    assert folder.exists()
    return [*folder.iterdir()]


async def test_a_voice_message_is_heard_once_by_the_owner_and_answered_aloud(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    settings = {"voice": {"model": "whisper-1", "speech_model": "tts-1", "reply": "always"}}
    async with (
        OpenAIServer([Say("Green.")]) as endpoint,
        clustered(tmp_path, broker, endpoint, settings) as cluster,
    ):
        endpoint.voice.transcripts.append("Which tea?")
        endpoint.voice.sound = OGG
        bot = channel()
        await cluster.add_gateway(bot)
        assert (await bot.says("", files=(Attachment("v.ogg", "audio/ogg", OGG),))).text
        assert len(endpoint.voice.uploads) == 1
        (request,) = endpoint.requests
        assert "[heard] Which tea?" in str(request.body["messages"][-1]["content"])
        assert sounds(tmp_path / "data") == [OGG]
        assert not files_in(tmp_path / "data" / SPOOL), "nothing is left on its way"


async def test_servers_of_tools_are_used_on_every_worker_and_each_call_is_made_once(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    async with (
        OpenAIServer(script) as endpoint,
        clustered(tmp_path, broker, endpoint, with_servers(notes=notes(tmp_path))) as cluster,
    ):
        bot = channel()
        await cluster.add_gateway(bot)
        chats = [f"chat{number}" for number in range(8)]  # on both workers
        for chat in chats:
            await bot.says('use notes__find_notes {"words": "milk"}', chat)
            (*_, result) = (
                one for one in endpoint.turns[-1].body["messages"] if one["role"] == "tool"
            )
            assert "One note." in result["content"]
        loaded = [len(one.app.conversations.list_loaded()) for one in cluster.workers]
        assert min(loaded) > 0
        assert calls_in(tmp_path).count("find_notes milk") == len(chats)
        await cluster.workers[0].app.idle()
        assert "notes" in (await bot.says("/mcp", chats[0])).text
