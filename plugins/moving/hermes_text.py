"""Text that Hermes Agent 0.19.0 writes in a person's place, or around a person's words (see
`hermes.py`).

Rules from NousResearch/hermes-agent: `agent/conversation_compression.py` and
`agent/context_compressor.py` (compactions), `tools/process_registry.py`, `hermes_cli/goals.py`,
`agent/skill_commands.py`, and the notes on files in `cli.py`, `gateway/run.py` and
`agent/image_routing.py`. Each search takes time in proportion to the text.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

_SUMMARIES = ("[CONTEXT COMPACTION", "[CONTEXT SUMMARY]")
_PRIOR = "[PRIOR CONTEXT — for reference only; not a new message]\n"
_PRIOR_END = "[END OF PRIOR CONTEXT — COMPACTION SUMMARY BELOW]"
_TASKS = "[Your active task list was preserved across context compression]"
_SKILL = '[IMPORTANT: The user has invoked the "'
_OF_PROGRAM = (
    *("[System: ", "[IMPORTANT: ", "[ASYNC DELEGATION ", "[Background process "),
    *("[Continuing toward your standing goal]", "[Session was just handed off from ", _TASKS),
    "Continue from the compressed conversation context above. This marker exists",
    "You just executed tool calls but returned an empty response. Please process",
)
_NOTES = re.compile(
    r"(?>"
    r"\[The user (?:attached|sent) an image[.~] Here's what (?:it contains|I can see):\n(?>.*?\]\n"
    r"\[If you need a closer look, use vision_analyze with image_url: )(?P<seen>[^\n]*?)(?: ~)?\]"
    r"|\[The user (?:attached|sent) an image but (?>[^\n]*?image_url: )(?P<unseen>[^\n]*)\]"
    r"|\[The user sent an? (?>[^\n]*? saved at: )(?P<file>[^\n]*)\]"
    r"|\[Triggering message id: [^\n]*\]"
    r")(?:\n\n|\Z)",
    re.DOTALL,
)
_PLACE = re.compile(r"\[Image attached(?: at)?: .*\]")
_STRIPPED = "[Attached image — stripped after compression]"
_INSTRUCTIONS = (
    "\nThe user has provided the following instruction alongside the skill invocation: ",
    "\nUser instruction: ",
)
_AFTER = ("\n\n[Runtime note:", "\n\n[Loaded as part of the ")


def is_summary(text: str) -> bool:
    """Return whether a message is the summary of a compaction, and nothing else."""
    return text.lstrip().startswith(_SUMMARIES)


def split_summary(text: str) -> tuple[bool, str]:
    """Return whether a summary was written into this message, and the message without it. A summary
    after other text follows a copy of a person's last question, which is omitted, too."""
    if text.startswith(_PRIOR) and _PRIOR_END in text:
        return True, text.removeprefix(_PRIOR).partition(_PRIOR_END)[0].strip()
    is_one = is_summary(text) or f"\n\n{_SUMMARIES[0]}" in text
    return is_one, "" if is_one else text


def is_of_program(text: str) -> bool:
    """Return whether Hermes wrote this message in a person's place."""
    return text.startswith(_OF_PROGRAM) and not text.startswith(_SKILL)


def drop_notes(text: str) -> tuple[str, list[str], int]:
    """Return a person's message without the notes on its files, the paths of its pictures, and the
    number of other files."""
    pictures, files, begin = list[str](), 0, 0
    while found := _NOTES.match(text, begin):
        pictures += filter(None, (found["seen"], found["unseen"]))
        files += found["file"] is not None
        begin = found.end()
    text = _drop_places(text[begin:]).replace(_STRIPPED, "").partition(f"\n\n{_TASKS}")[0]
    if text.startswith(_SKILL):
        text = _read_invocation(text)
    return text.strip("\n"), pictures, files


def _drop_places(text: str) -> str:
    """Return the text without the lines at its end that say where pictures are."""
    first, *lines = text.split("\n")
    end = len(lines)
    for place in range(len(lines) - 1, -1, -1):
        if _PLACE.fullmatch(lines[place].rstrip()):
            end = place
        elif lines[place].strip():
            break
    return "\n".join((first, *lines[:end])).rstrip("\n") if end < len(lines) else text


def _read_invocation(text: str) -> str:
    """Return the command of a person who called a skill, without the skill's text."""
    name = text.removeprefix(_SKILL).partition('"')[0]
    asked = next((text.partition(mark)[2] for mark in _INSTRUCTIONS if mark in text), "")
    for mark in _AFTER:
        asked = asked.partition(mark)[0]
    return f"/{name} {asked}".strip()


def place_below(path: str, names: frozenset[str]) -> str:
    """Return the name of a cached picture in the folder of Hermes; "" if it is not there."""
    last = PurePosixPath(path.strip().replace("\\", "/")).name
    places = (f"{folder}/{last}" for folder in ("image_cache", "cache/images"))
    return next((name for name in places if name in names), "")
