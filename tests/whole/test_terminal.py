"""The whole bot at a real pseudo-terminal, as a person sits at it."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.openai_server import OpenAIServer, Say
from tests.whole.pseudo_terminal import sitting

CONFIG = '{"model": "gpt-4o-mini"}'


def install(folder: Path) -> None:
    """What stands in the folder where the bot is started."""
    (folder / "config.json").write_text(CONFIG)


async def test_the_bottom_line_names_the_model_and_context_is_drawn(tmp_path: Path) -> None:
    install(tmp_path)
    async with (
        OpenAIServer([Say("Hello!")]) as endpoint,
        sitting(tmp_path, endpoint, environ={"TERM": "xterm-kitty"}) as person,
    ):
        await person.sees("gpt-4o-mini answers.")
        person.types("Hi\r")
        await person.sees("Hello!")
        await person.sees("· 1/20 turns · <$0.01")
        person.types("/context\r")
        await person.sees("▒ tools (")
        await person.sees("Tools: context_search ")
        person.types("/context map\r")
        await person.sees("context-map.png")
        assert "\x1b_Ga=T,f=100,c=72," in person.glass.raw
        assert await person.leaves() == 0


async def test_a_map_is_made_of_blocks_where_pictures_are_not_shown(tmp_path: Path) -> None:
    install(tmp_path)
    async with (
        OpenAIServer([Say("Hello!")]) as endpoint,
        sitting(tmp_path, endpoint) as person,
    ):
        person.types("Hi\r")
        await person.sees("Hello!")
        person.types("/context map\r")
        await person.sees("in play")
        assert "\x1b_G" not in person.glass.raw
        assert await person.leaves() == 0
