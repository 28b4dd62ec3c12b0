"""Corrections in the chat, as edits of `MEMORY.md` that wait for approval."""

from __future__ import annotations

from collections.abc import Sequence

from bot.kernel import Kernel
from channels.language import number_of
from channels.message import Reply
from memory.context.correction_score import may_correct
from memory.turn_log import OpenTurn
from plugins.api import Action, SaidWords

KEPT = 100
"""Turns whose note is not shown yet."""
DIFF = Action("Show the changes", "/memory diff")


class MemoryCorrections:
    """Proposes to end corrected values in remembered lines, and says so below the turn's answer."""

    def __init__(self, kernel: Kernel) -> None:
        self._conversations, self._config = kernel.conversations, kernel.config
        self._changed: dict[tuple[str, int], int] = {}

    async def hear(self, said: SaidWords) -> None:
        """Propose what follows from the corrections in a person's message."""
        if not any(map(may_correct, said.texts)):
            return
        conversation = await self._conversations.get(said.key)
        ended = await conversation.ended_in(said.turn)
        if not ended:
            return
        why = f"corrected in t{said.turn}"
        changed = await conversation.long_term.correct(ended, why)
        if changed and self._config.book.effective(said.key.id).memory.approve == "auto":
            await conversation.long_term.approve("")
        elif changed:
            while len(self._changed) >= KEPT:
                del self._changed[next(iter(self._changed))]
            self._changed[said.key.id, said.turn] = changed

    def list_notes(self, turn: OpenTurn) -> Sequence[str | Reply]:
        """Return what is said of it below the answer."""
        changed = self._changed.pop((turn.log.state.key.id, turn.number), 0)
        if not changed:
            return ()
        text = number_of(
            changed,
            "{n} remembered line says the old value. The edit waits for you: /memory diff.",
            "{n} remembered lines say the old value. The edits wait for you: /memory diff.",
        )
        return (Reply(text, {"changed": changed}, (DIFF,)),)
