"""Letters, the channel of docs/channels.md: only lines in files, so choices have numbers."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from channels.base import Channel
from channels.kit.messenger import Messenger
from channels.kit.platform import Location, Post
from tests.channels.clock import quick_sleep
from tests.channels.contract.stage import Seen, Stage
from tests.docs.pages import example


class LettersStage(Stage):
    name, owner = "letters", "me"
    can = ()

    async def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        (self.folder / "questions.txt").touch()
        self.names: dict[str, Any] = {}
        self.posted: list[Seen] = []
        exec(example("channels.md", "python"), self.names)

    async def close(self) -> None:
        shutil.rmtree(self.folder)

    def channel(self, settings: Callable[[], Any]) -> Channel:
        stage = self

        class Watched(self.names["Letters"]):  # type: ignore[misc, name-defined]  # from the page
            async def post(self, place: Location, post: Post) -> str:
                message: str = await super().post(place, post)
                stage.posted.append(Seen(message, post.text))
                return message

        return Messenger(Watched(self.folder), quick_sleep)

    async def say(
        self,
        text: str,
        chat: str = "private",
        *,
        by: str = "ann",
        mention: bool = True,
        thread: str = "",
        age: float = 0.0,
    ) -> str:
        file = self.folder / "questions.txt"
        start = file.stat().st_size
        with file.open("a") as lines:
            lines.write(f"{text}\n")
        return str(start)

    async def see(self, chat: str = "private", by: str = "ann") -> list[Seen]:
        return self.posted
