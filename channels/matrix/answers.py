"""The meaning of the server's answers: what is wrong, and who reads a Matrix room."""

from __future__ import annotations

from typing import Any

from nio import ErrorResponse, MatrixRoom


class MatrixError(Exception):
    """An answer by which the server refuses: its code ("M_FORBIDDEN"), the status of HTTP, seconds
    to wait."""

    def __init__(self, answer: ErrorResponse) -> None:
        super().__init__(f"{answer.status_code or 'no code'}: {answer.message}")
        self.code = str(answer.status_code or "")
        self.status = int(getattr(answer.transport_response, "status", 0))
        self.seconds = (answer.retry_after_ms or 0) / 1000


class NobodyThere(Exception):
    """A message can't go to a room, because somebody else would read it, or it is encrypted."""


def checked(answer: Any) -> Any:
    """Return the answer of a request. Raises MatrixError."""
    if isinstance(answer, ErrorResponse):
        raise MatrixError(answer)
    return answer


def is_private(room: MatrixRoom) -> bool:
    """Return whether nobody but one person and the bot can read a room, and nobody else can come in
    without being invited."""
    is_open = room.join_rule != "invite" or room.history_visibility == "world_readable"
    return bool(room.member_count == 2 and not is_open)


def known_members(room: MatrixRoom) -> set[str]:
    """Return those of a room's people of whom the server has told."""
    heroes = room.summary.heroes if room.summary else None
    return {*room.users, *(heroes or ())}
