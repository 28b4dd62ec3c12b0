"""The rules by which Slack refuses blocks, from its reference of Block Kit; `docs` names the page.

Limits that stand nowhere in it are marked as unverified.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]

MOST_BLOCKS = 50  # docs: Blocks ("up to 50 blocks in each message")
LONGEST_JSON = 13_200  # unverified: bolt-js issue 2509 saw msg_blocks_too_long from about there
_TOP = ("rich_text_section", "rich_text_list", "rich_text_preformatted", "rich_text_quote")
_STYLES = {"bold", "italic", "strike", "code", "underline"}  # docs: Rich text block, "text"
_FIELDS = {
    "section": {"type", "block_id", "text", "fields", "accessory", "expand"},
    "actions": {"type", "block_id", "elements"},
    "rich_text": {"type", "block_id", "elements"},
    "rich_text_section": {"type", "elements"},
    "rich_text_list": {"type", "elements", "style", "indent", "offset", "border"},
    "rich_text_preformatted": {"type", "elements", "border"},
    "rich_text_quote": {"type", "elements", "border"},
    "text": {"type", "text", "style"},
    "link": {"type", "url", "text", "unsafe", "style"},
    "plain_text": {"type", "text", "emoji"},
    "mrkdwn": {"type", "text", "verbatim"},
    "button": {
        *("type", "text", "action_id", "url", "value", "style", "confirm"),
        "accessibility_label",
    },
}


class BadBlocks(Exception):
    """The errors that Slack lists in `response_metadata.messages`."""


def check_blocks(blocks: Sequence[Json]) -> None:
    """Raises BadBlocks."""
    if len(blocks) > MOST_BLOCKS:
        raise BadBlocks(f"no more than {MOST_BLOCKS} items allowed [json-pointer:/blocks]")
    for number, block in enumerate(blocks):
        at = f"/blocks/{number}"
        _check_fields(block, at, ("section", "actions", "rich_text"))
        match block["type"]:
            case "section":
                _check_text(block.get("text", {}), f"{at}/text", 3_000)  # docs: Section block
            case "actions":
                _check_actions(block["elements"], at)
            case _:
                _check_rich_text(block["elements"], at)


def is_too_long(blocks: Sequence[Json]) -> bool:
    return len(json.dumps(blocks, ensure_ascii=False, separators=(",", ":"))) > LONGEST_JSON


def _check_fields(value: Any, at: str, kinds: Sequence[str]) -> None:
    if not isinstance(value, dict) or value.get("type") not in kinds:
        raise BadBlocks(f"unsupported type: {value!r:.80} [json-pointer:{at}/type]")
    if unknown := set(value) - _FIELDS[value["type"]]:
        raise BadBlocks(f"additional property: {sorted(unknown)[0]} [json-pointer:{at}]")


def _check_text(value: Json, at: str, longest: int, kinds: Sequence[str] = ()) -> None:
    _check_fields(value, at, kinds or ("plain_text", "mrkdwn"))
    if not 1 <= len(value.get("text", "")) <= longest:
        raise BadBlocks(f"must be more than 0 and less than {longest + 1} characters [{at}/text]")


def _check_actions(elements: Sequence[Json], at: str) -> None:
    if not 1 <= len(elements) <= 25:  # docs: Actions block
        raise BadBlocks(f"no more than 25 items allowed [json-pointer:{at}/elements]")
    for number, button in enumerate(elements):
        here = f"{at}/elements/{number}"
        _check_fields(button, here, ("button",))
        _check_text(button.get("text", {}), f"{here}/text", 75, ("plain_text",))  # docs: Button
        if len(button.get("action_id", "")) > 255 or len(button.get("value", "")) > 2_000:
            raise BadBlocks(f"must be less than 2001 characters [json-pointer:{here}/value]")
    if len({button.get("action_id") for button in elements}) < len(elements):
        raise BadBlocks(f"`action_id` already exists [json-pointer:{at}/elements]")


def _check_rich_text(elements: Sequence[Json], at: str) -> None:
    if not elements:
        raise BadBlocks(f"must define elements [json-pointer:{at}/elements]")
    for number, element in enumerate(elements):
        here = f"{at}/elements/{number}"
        _check_fields(element, here, _TOP)
        if not element["elements"]:
            raise BadBlocks(f"must define elements [json-pointer:{here}/elements]")  # unverified
        if element["type"] == "rich_text_list":
            _check_list(element, here)
            for item in element["elements"]:
                _check_fields(item, here, ("rich_text_section",))
                _check_words(item["elements"], here)
        else:
            _check_words(element["elements"], here)


def _check_list(element: Json, at: str) -> None:
    if element.get("style") not in ("bullet", "ordered"):
        raise BadBlocks(f"must be one of bullet, ordered [json-pointer:{at}/style]")
    if not 0 <= element.get("indent", 0) <= 8:  # unverified: what Block Kit Builder takes
        raise BadBlocks(f"must be less than 9 [json-pointer:{at}/indent]")
    if element.get("offset", 0) < 0 or element.get("border", 0) not in (0, 1):
        raise BadBlocks(f"must be more than -1 [json-pointer:{at}/offset]")


def _check_words(elements: Sequence[Json], at: str) -> None:
    for element in elements:
        _check_fields(element, at, ("text", "link"))
        if element["type"] == "text" and not element.get("text"):
            raise BadBlocks(f"must be more than 0 characters [json-pointer:{at}/text]")
        if element["type"] == "link" and "://" not in element["url"].replace("mailto:", "://"):
            raise BadBlocks(f"must be a valid URL [json-pointer:{at}/url]")
        if unknown := set(element.get("style", {})) - _STYLES:
            raise BadBlocks(f"additional property: {unknown} [json-pointer:{at}/style]")


def visible(blocks: Sequence[Mapping[str, Any]]) -> str:
    """Return the visible text of blocks: a line for each item of a list, without buttons."""
    lines: list[str] = []
    for block in blocks:
        match block["type"]:
            case "section":
                lines.append(block["text"]["text"])
            case "rich_text":
                lines += map(_seen, block["elements"])
    return "\n".join(line.strip("\n") for line in lines)


def _seen(element: Mapping[str, Any]) -> str:
    if element["type"] == "rich_text_list":
        is_ordered, before = element["style"] == "ordered", element.get("offset", 0) + 1
        marks = (f"{before + n}." if is_ordered else "•" for n in range(len(element["elements"])))
        return "\n".join(
            f"{mark} {_seen(item)}" for mark, item in zip(marks, element["elements"], strict=True)
        )
    return "".join(one.get("text", one.get("url", "")) for one in element["elements"])
