"""All parsers of texts from other people, by name: each is called with one text."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

from agent.models.refusals import parse_window
from agent.tools.page import text_of
from bot.attachments import safe_name
from bot.logs import mask
from bot.received import command_line
from channels.discord import rendering as discord
from channels.kit.delivery import pieces
from channels.kit.markdown import render_html
from channels.mail.reading import read as read_mail
from channels.settings import TelegramSettings
from channels.slack import rendering as slack
from channels.splitting import split
from channels.telegram.rendering import LONGEST, rendered
from channels.telegram.telegram import Telegram
from channels.terminal import display
from channels.terminal.display import StreamedAnswer, without_controls
from channels.web.markup import html
from channels.whatsapp import letters as whatsapp
from memory.audit.judge import Candidate, audit
from memory.audit.source import AuditSource
from memory.context.settings import Limits
from memory.context.summary import check_answer
from memory.context.terse import TerseFilter, extract
from memory.corrections.corrected import CurrentValues, choose_certain
from memory.corrections.edited import find_replaced
from memory.corrections.ended_values import EndedValue, show_corrected
from memory.corrections.finder import find_corrections
from memory.long_term import ended
from memory.long_term.document import lines_from_json
from memory.messages import mark_untrusted
from memory.record import daily
from memory.record.closeness import finder, spans
from memory.record.search import words
from memory.summary.extract import extract as shorten
from plugins.builtin.context_search import LONGEST_QUERY
from plugins.instructions.detect import find_instructions, is_plain, own_words
from plugins.mcp.health import find_reason
from plugins.mcp.layers import UnreadableAnswerError
from plugins.mcp.messages import encode, read_messages
from plugins.mcp.pasted import read_pasted
from plugins.moving.hermes_text import drop_notes, split_summary
from plugins.voice.feature import to_spoken
from plugins.wording import clip, literal
from tests.memory.audit_turns import turns_of

_AUDIENCE, _DAY = "main", date(2026, 1, 2)


def _in_pieces(text: str) -> None:
    """Parse a streaming reply, a character at a time."""
    terse = TerseFilter()
    for sign in text:
        terse.feed(sign)
    terse.finish()


def _on_the_screen(text: str) -> None:
    """Render an answer in the terminal 40 times while it streams."""
    answer = StreamedAnswer()
    step = len(text) // 40 + 1
    for start in range(0, len(text), step):
        answer.add(text[start : start + step])
        display.markdown(answer.take(), 80)
        display.render_tail(answer.tail.strip("\n"), 80, 24)
    display.markdown(answer.take_all(), 80)


def _at_telegram(text: str) -> None:
    """Split a reply as before storing, and render it as before sending."""
    platform = Telegram("1:token", TelegramSettings)
    for part in pieces(platform, text):
        rendered(part)
    next(split(text, LONGEST, platform.length), "")


def _in_dialects(text: str) -> None:
    """Measure a reply for Discord, Slack and WhatsApp, and render it as HTML."""
    discord.length(text)
    slack.length(text)
    whatsapp.rendered(text)
    render_html(text)


def _daily_file(text: str) -> None:
    with TemporaryDirectory() as folder:
        path = daily.folder(Path(folder), _AUDIENCE) / f"{_DAY}.md"
        path.parent.mkdir(parents=True)
        path.write_text(text)
        list(daily.notes(Path(folder), _AUDIENCE, _DAY))


def _searched(text: str) -> None:
    said = words.words(text)
    words.signs(text, said, is_user=True)
    words.question(text, ())


_MAIL_FIELDS = {
    "From": "",
    "Subject": "",
    "Date": "",
    "Message-ID": "<",
    "References": "<",
    "Authentication-Results": "mx.example.net; ",
    "Auto-Submitted": "",
    "Content-Type": "text/plain",
    "Content-Disposition": "attachment",
    "Content-Transfer-Encoding": "",
}
"""The parsed fields of a mail, and the beginning of each value."""


def _mail_head(text: str) -> None:
    """Parse mails with the text in each field, and as the fields themselves."""
    for name, start in _MAIL_FIELDS.items():
        value = " ".join(text.splitlines())
        _read_mail(f"{name}: {start}{value}\r\n\r\na")
    _read_mail(f"{text}\r\n\r\na")


def _mail_body(text: str) -> None:
    """Parse mails of plain text, of HTML, and of parts."""
    reply = "In-Reply-To: <1@a>\r\nContent-Type:"
    _read_mail(f"{reply} text/plain\r\n\r\n{text}")
    _read_mail(f"{reply} text/html\r\n\r\n{text}")
    _read_mail(f"{reply} multipart/mixed; boundary=a\r\n\r\n{text}")


def _read_mail(raw: str) -> None:
    with suppress(Exception):  # the channel skips such a mail
        read_mail(raw.encode(), "<1@imap>", "bot@example.org")


def _mcp_message(text: str) -> None:
    """Parse a line of an MCP server, an answer with the text in it, and a part of one."""
    told = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"content": [text, {"text": text}]}})
    for line in (text, told, f'{{"jsonrpc":"2.0","id":1,"result":{text}', f'{{"a":{text}}}'):
        with suppress(UnreadableAnswerError):
            encode(read_messages(line.encode()))


def _corrections(text: str) -> None:
    """Parse a person's words before a correction, as a correction, and as the corrected text."""
    said = [text, f"no, 4 May, not 3 May {text}", f"I meant 5. {text}", f"不对，改成{text}"]
    found = choose_certain(find_corrections(said), said)
    show_corrected(text, [EndedValue(one.old, one.new, 1, 1) for one in found])


_OTHER_DIGITS = str.maketrans("0123456789", "1234567890")


def _audited(text: str) -> None:
    """A summary of a chat, a chat with the text in it, and both, judged and written without a
    model."""
    lines = ["Please book the flight to Lisbon.", text, text, "Done. What else?"]
    other = text.translate(_OTHER_DIGITS)  # numbers that the chat does not have
    short = ["We fly on 3 May.", "Noted."]
    summaries = (text, "We fly on 3 May.", other, text)
    for summary, chat in zip(summaries, (short, lines, lines, lines), strict=True):
        turns = turns_of(chat)
        source = AuditSource(chat[::2], chat[1::2], turns=turns)
        audit(Candidate(summary, 1), source)
        held = CurrentValues(source.current, source.ended)
        shorten(turns, summary, 500, len, source.facts, source.requests, held)


_SECRETS = ["a" * 8, "sk-secret", "1" * 6]


def _imported(text: str) -> None:
    """Read the text alone, and behind the beginnings of notes that Hermes writes."""
    for begin in (
        "",
        "[The user sent a file ",
        "[The user sent an image but ",
        "\n[Image attached: ",
    ):
        split_summary(begin + text)
        drop_notes(begin + text)


def _imported_corrections(text: str) -> None:
    for one in (text, json.dumps([{"value": {"old": text, "new": "5", "turn": 1, "seq": 1}}])):
        for decode in (ended.decode, lines_from_json):
            with suppress(ValueError):
                decode(one.encode("utf-8", "replace"))


PARSERS: dict[str, Callable[[str], object]] = {
    "the splitting of replies": lambda text: list(split(text, 4096)),
    "a reply at Telegram": _at_telegram,
    "a reply in other dialects": _in_dialects,
    "the page": html,
    "the terminal's tools": lambda text: display.tool(text, text, "ok", 80),
    "the terminal's controls": without_controls,
    "the terse tag": extract,
    "a page of the web": text_of,
    "what an endpoint says": parse_window,
    "the log": lambda text: mask(text, _SECRETS),
    "the marks": lambda text: mark_untrusted(text, "a page"),
    "a file's name": safe_name,
    "a command": lambda text: (command_line(text), command_line(f"/a {text}")),
    "a summary": lambda text: check_answer("structured", text, Limits()),
    "a summary in fields": lambda text: check_answer("structured", f'{{"a": {text}}}', Limits()),
    "a daily file": _daily_file,
    "the search's words": _searched,
    "a search": lambda text: finder(text[:LONGEST_QUERY]).search(text[1:]),
    "a search's spans": lambda text: spans(text, [text[:50].casefold(), "a", "1"]),
    "corrections": _corrections,
    "an edited summary": lambda text: find_replaced(text, text.translate(_OTHER_DIGITS)),
    "imported corrections": _imported_corrections,
    "orders": lambda text: (find_instructions(text), own_words(text), is_plain(text, 0)),
    "an audit": _audited,
    "a voice": to_spoken,
    "a mail's head": _mail_head,
    "a mail's body": _mail_body,
    "an MCP server's message": _mcp_message,
    "an MCP server's last words": lambda text: find_reason(text.encode()[-8_000:]),
    "pasted MCP servers": lambda text: (read_pasted(text), read_pasted(f'{{"a":"{text}')),
    "an imported message": _imported,
    "wording": lambda text: (literal(text), clip(text)),
}
DRAWN: dict[str, Callable[[str], object]] = {
    "the terminal": lambda text: display.markdown(text, 80),
    "the terminal, streaming": _on_the_screen,
    "the terse tag, streaming": _in_pieces,
}
"""The parsers that draw, or read letter by letter, which costs a thousand times as much as reading
at once: they are asked about fewer texts, which are shorter."""
