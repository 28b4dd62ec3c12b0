"""Markdown as Telegram shows it: plain text with entities, in messages that are short enough.

Entities leave nothing for Telegram to parse, so that no answer is refused for its punctuation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from telegram import MessageEntity
from telegramify_markdown import RenderConfig, convert, utf16_len

from channels.splitting import split

LONGEST = 4096
"""UTF-16 units of a message's text, without its markup."""

_ADDRESS = re.compile(r"(https?://|mailto:|tg://)", re.IGNORECASE)
_CODE_OR_TAG = re.compile(
    r"(?P<code>^[ \t>]*(?P<fence>`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t>]*(?P=fence)|\Z)"
    r"|(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))|<(?!https?://|mailto:)",
    re.DOTALL | re.MULTILINE,
)


def _plain_style() -> RenderConfig:
    style = RenderConfig.isolated()
    symbols = style.markdown_symbol
    symbols.heading_level_1 = symbols.heading_level_2 = ""
    symbols.heading_level_3 = symbols.heading_level_4 = ""
    symbols.unordered_list_item = "•"
    style.cite_expandable = False
    return style


_STYLE = _plain_style()


@dataclass(frozen=True, slots=True)
class Rendered:
    """A message's text and its markup."""

    text: str
    entities: tuple[MessageEntity, ...] = ()


def rendered(markdown: str) -> Rendered:
    """One message. What Telegram would show nothing of is shown as it stands."""
    text, entities = convert(_with_tags_shown(markdown), config=_STYLE, latex_escape=False)
    if not text.strip():
        return Rendered(markdown)
    shown = (entity for entity in entities if entity.url is None or _ADDRESS.match(entity.url))
    return Rendered(text, tuple(MessageEntity(**entity.to_dict()) for entity in shown))


def pieces(markdown: str) -> list[str]:
    """A text in pieces that make a message each."""
    return list(split(markdown, LONGEST, _length))


def messages(markdown: str) -> Iterator[Rendered]:
    """As many messages as it takes."""
    return map(rendered, pieces(markdown))


def _length(markdown: str) -> int:
    text, _ = convert(_with_tags_shown(markdown), config=_STYLE, latex_escape=False)
    return utf16_len(text if text.strip() else markdown)


def _with_tags_shown(markdown: str) -> str:
    """Tags are words here ("List<String>"), and Markdown would swallow them."""
    return _CODE_OR_TAG.sub(lambda found: found["code"] or r"\<", markdown)
