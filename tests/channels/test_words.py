"""The texts of the interface: each is marked, and has a singular form."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.commands import FAILED
from bot.settings.schema import SETTINGS
from channels.language import LANGUAGES, list_sentences
from plugins.api import HookContext
from plugins.loader import load
from tests.channels.made_up import speak_made_up, unmarked
from tests.fakes.openai_server import Received, Say
from tests.tables import each_row
from tests.whole.testbot import run_bot

LINES = """
/start|/help|/help context|/help strategies|/help nonsense|/nonsense|/status|/whoami|/new|/new now
/help all|Hello|Hello again|More|And more|/context|/context detail|/context turns|/context preview
/context history|/context pin t1|/context pin t1|/context unpin t2|/context advise|/context drop t2
/context undo|/context redo|/context undo e99|/context undo x|/context request|/context requests
/context diff|/context request r99|/context summary|/context summary s9|/context summary edit
/context keep|/context approve|/context decline|/context compact|/context compact t1-t2
/context summaries|/context expand s9|/context compress|/context compress {"a": 1}|/context free
/context clear|/context clear|/context search hello|/context search zebra|/context search
/context export|/context export markdown|/context export x|/context import|/context import x.json
/context nonsense|/context drop|/context drop t9-t3|/context drop t99|/context turns t99
/context compact --preview
/title|/title Plans|/title --unset|/pin|/pin --unset|/pin x|/archive|/archive --unset|/stop|/cancel
/undo|/undo x|/undo 99|/retry|/retry x|/approve|/approve XXXX|/deny|/version
/config|/config context|/config context.strategy|/config context.strategy slim --here
/config context.strategy --unset --here|/config agent_max_steps many|/config nonsense|/config --here
/config hooks|/config context.reserve_ratio 0.5|/config context.trigger_ratio 0.4
/config context.summary_template {x}|/context import ../x|/config context.reserve_ratio --unset
/config log_level|/config tools.approve
/model|/model list|/model --here|/agent|/agent x|/agent a b|/usage|/usage lift|/usage x
/fork|/fork Other|/fork 5|/branches|/branches 1|/branches 9|/branches Other
/regenerate t1|/regenerate t1 a b|/edit t1 Something else|/edit|/btw|/btw What?
/memory|/memory yesterday|/memory status|/memory pending|/memory approve 7|/memory search hello
/memory nightly|/memory nightly on|/memory nightly on|/memory nightly x|/memory nightly off
/memory search|/memory list|/remember Ann likes tea|/remember|/memory list|/memory why 1
/memory why|/memory why zebra|/memory diff|/memory edit|/cancel|/memory history|/memory undo
/files|/files x|/files undo|/files restore t1|/files restore t1 t2|/files restore branch
/why|/why t1|/why t99|/without t9|/without t1 t2|/branches 1|/rules|/rules add
/rules add ⟦Never write to my boss.⟧|/rules|/rules keep 1|/rules edit 1|/rules history
/rules edit 1 ⟦Never write to Ann.⟧|/rules move 1|/rules move 1 chat|/rules undo|/rules dismiss 1
/rules revoke 1|/rules revoke all|/rules undo|/rules undo 9|/rules nonsense|/memory wrong
/memory wrong 1|/memory wrong zebra|/context keep|/context receipt
/memory redo|/memory redo|/memory distill|/memory nonsense|/shell|/shell ls|/link|/link XXXX
/link show|/unlink|/users|/pair|/pair XXXX|/pair here|/revoke|/revoke ann|/invite|/invite ann
/remind|/remind nonsense|/remind 25:61 tea|/remind tomorrow 9:00|/remind tomorrow 9:00 Ann likes tea
/remind every 2 hours tea|/remind 30.2.2027 9:00 tea|/remind 3/4 9:00 tea|/remind 2020-01-01 tea
/remind every monday 9:00 tea|/remind cron 0 9 31 2 * tea|/remind cron 0 9 99 2 * tea|/jobs
/jobs add|/jobs add every day 8:00|/jobs add --allow web_fetch --budget 0.5 every weekday 8:00 tea
/jobs add --nonsense 3 every day 8:00 tea|/jobs add --branch 9 every day 8:00 tea|/jobs 1|/jobs 99
/jobs add every 3 days 8:00 tea|/jobs pause 1|/jobs pause 1|/jobs 1|/jobs resume 1|/jobs resume 1
/jobs run 1|/jobs run 2|/jobs|/jobs delete 1|/jobs delete|/jobs nonsense|/jobs x 1
/jobs hook|/jobs hook door tea|/jobs hook door tea
/jobs add --if x every hour tea|/jobs add --if read_file:files/a.md every hour tea|/jobs|/status
/mcp|/mcp nonsense|/mcp add|/mcp add files no-such-program|/mcp add files x|/mcp|/mcp tools web
/mcp tools files|/mcp restart files|/mcp trim|/mcp trim undo|/mcp remove files|/mcp
/tour|/tour x|/tour fill|/new|/tour fill|/tour forecast
/private|/private on|/private|/private on|/private x|/context|/undo|/private off|/private off
/logins|/logins end 9|/logins x|/forget|/forget t1|/forget yes|/forget chat
"""


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    speak_made_up(monkeypatch)


_BROKEN = re.escape(FAILED).replace(r"\{name\}", r"\w+")
"""The text shown when a command fails, which would replace all its other texts."""


_SETTINGS_BY_LOOK = {(one.unit, one.holds, type(one.default)): key for key, one in SETTINGS.items()}
"""A setting of each kind with its own description."""


def test_a_sentence_that_is_not_marked_would_be_seen() -> None:
    assert unmarked("⟦Nothing was {x}⟧ but this was forgotten.") == ["but this was forgotten"]
    assert unmarked("⟦Set⟧ `x.y` ⟦with /config {a ⟦b⟧}⟧") == []


@pytest.mark.usefixtures("made_up")
async def test_all_that_commands_say_is_marked(tmp_path: Path) -> None:
    def echo(request: Received) -> Say:
        return Say("re: " + str(request.body["messages"][-1]["content"])[:5])

    found: dict[str, list[str]] = {}
    lines = [line for line in LINES.replace("\n", "|").split("|") if line]
    lines += [f"/config {key}" for key in _SETTINGS_BY_LOOK.values()]
    async with run_bot(tmp_path, echo, settings={"language": "auto"}) as bot:
        for line in lines:
            said = await bot.says(line)
            names = [(one.label, one.command) for one in said.actions]
            labels = [label for label, way in names if not way.endswith(f" {label}")]
            for text in (said.text, *labels):
                empty = re.findall(r"^\|(?:.*\|)? *\|(?=.*\n\|[-:| ]+\|$)", text, re.MULTILINE)
                if words := [*unmarked(text), *empty, *re.findall(f"⟦{_BROKEN}", text)]:
                    found.setdefault(line, []).extend(words)
    assert found == {}


_DATE = re.compile(r"(?<![\w./-])\d{4}-\d\d-\d\d(?![\w./-])")
"""A date as programs write it."""
_TO_TYPE = re.compile(r"```.*?```|`[^`]*`|/\w+ [\d-]+|'[^']*'", re.DOTALL)
"""Texts that a person types or has typed, and names of files."""


def test_a_date_for_programs_would_be_seen() -> None:
    seen = [_DATE.findall(_TO_TYPE.sub("", text)) for text in ("on 2026-11-23: x", "2026-11-23")]
    assert seen == [["2026-11-23"]] * 2
    for text in ("`/memory 2026-11-23`", "/memory 2026-11-23.", "memory/2026-11-23.md"):
        assert _DATE.findall(_TO_TYPE.sub("", text)) == []


HALF_WIDE = re.compile(r"[\u4e00-\u9fff]\*{0,2}(?:[,.:;!?](?!\w)| ?\()|\)[\u4e00-\u9fff]")
"""A mark as wide as a Latin letter next to a Chinese one."""


async def test_marks_are_as_wide_as_the_letters_in_chinese(tmp_path: Path) -> None:
    found: dict[str, list[str]] = {}
    async with run_bot(tmp_path, lambda _: Say("re: so"), settings={"language": "zh"}) as bot:
        for line in filter(None, LINES.replace("\n", "|").split("|")):
            text = re.sub(r"`[^`]*`", "`", (await bot.says(line)).text)
            if marks := HALF_WIDE.findall(text):
                found[line] = marks
    assert found == {}


@pytest.mark.parametrize("language", LANGUAGES)
async def test_dates_are_in_words(tmp_path: Path, language: str) -> None:
    found: dict[str, list[str]] = {}
    async with run_bot(tmp_path, lambda _: Say("re: so"), settings={"language": language}) as bot:
        for line in filter(None, LINES.replace("\n", "|").split("|")):
            said = await bot.says(line)
            for text in (said.text, *(action.label for action in said.actions)):
                if dates := _DATE.findall(_TO_TYPE.sub("", text)):
                    found.setdefault(line, []).extend(dates)
    assert found == {}


def test_every_command_is_tried() -> None:
    names = load(Path("/nonexistent"), HookContext()).commands
    untried = {name for name in names if not re.search(rf"/{name}\b", LINES)}
    assert untried == set()


ROOT = Path(__file__).parents[2]
NOUNS = (
    *("branch", "call", "change", "character", "chat", "command", "compaction", "conversation"),
    *("day", "entry", "file", "hit", "hour", "job", "line", "message", "minute", "model", "page"),
    *("overflow", "part", "picture", "place", "question", "reminder", "reply", "request", "result"),
    *("rule", "second", "section", "server", "session", "step", "summary", "time", "tool", "turn"),
    *("version", "week", "word"),
)


def plural(noun: str) -> str:
    if noun.endswith("y") and noun not in ("day",):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith("ch") else f"{noun}s"


SINGULAR = {plural(noun): noun for noun in NOUNS}
COUNTED = re.compile(
    r"\{(\w+)\}\**(?: of your| (?:more|older|other|long|file|daily|remembered))?\**"
    rf" ({'|'.join(SINGULAR)})\b(?! (?:off after|here|from now))"
)
AT_LEAST_TWO = (
    "every {n} ",  # "every day" has its own words
    "takes no more requests for now",  # smaller units are used up to two of the larger
    "for {left} more hours",  # two are the least
    "{n} days ago",  # "yesterday"
    "there were {used} turns",  # more than a limit
    "there will be {used} turns",
    "{used} turns (limit {most})",
    "{turns} turns were over",  # the running one, and one that can be removed
    "a tool result of an earlier turn was over",
    "it adds {n} lines; at most",
    " ({n} times)",
    ", {n} times: {said}",
    "restored the last {n} turns",  # three at least
    "The context keeps the last {most} turns",  # refers to the default
    "{name}: {n} models",  # one is named
    "for {calls} requests",  # "1 request" is in its own sentence
    "crashed {n} times",
    "  … {n} more lines",
    " ({shown} of {total} lines)",
    "within {minutes} minutes",
    "{characters} characters",
    "{n} summaries are still being written",  # "1 summary" has its own
)
A_LARGE_LIMIT = (
    "A message can have {files} files",
    "Up to {files} files",
    "Your message has {n} files",
    "the memory holds {n} lines",
    "{lines} lines are read",
    "{most} branches, each",
    "{most} calls in a row",
    "of your messages",
    "of your commands",
    "of your rules already await approval",
    "did not answer within {seconds} seconds",
    "{many_calls} calls, however full",
)


def pairs() -> Iterator[tuple[str, str]]:
    """Return the sentences between which the code chooses by a number."""
    for layer in ("bot", "channels", "plugins"):
        for path in (ROOT / layer).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
                if isinstance(node, ast.Call) and name == "number_of" and len(node.args) == 3:
                    one, many = (getattr(part, "value", "") for part in node.args[1:])
                    yield str(one), str(many)


MANY = {many: one for one, many in pairs()}
SAID = frozenset(list_sentences())
OF_LAYERS_BELOW = {
    "I stopped after {steps} steps": "I stopped after one step",
    "only the first {most} calls were run": "only the first call was run",
    "fill the limit of {count} turns": "fills the limit of one turn",
    "has room for {n} turns": "has room for one turn",
    "{n} turns stay": "one turn stays",
    " of {most} turns": " of 1 turn",
    "Limit: {most} turns": "Limit: 1 turn",
    "{n} commands found": "One command found",
    "{never} of {all} tools never": "The only tool was never",
}
"""Sentences of the layers without languages, and of the page."""


def has_words_for_one(text: str, found: re.Match[str]) -> bool:
    one = f"{text[: found.start(2)]}{SINGULAR[found[2]]}{text[found.end(2) :]}"
    if one in SAID or text in MANY:
        return True
    known = [single for many, single in OF_LAYERS_BELOW.items() if many in text]
    return any(single in other for single in known for other in SAID)


@each_row("text", sorted(filter(COUNTED.search, SAID)))
def test_a_sentence_with_a_number_has_words_for_one(text: str) -> None:
    for found in COUNTED.finditer(text):
        is_many = any(known in text for known in (*AT_LEAST_TWO, *A_LARGE_LIMIT))
        assert is_many or has_words_for_one(text, found), found[0]


def test_the_sentence_for_one_has_no_plural() -> None:
    wrong = [one for one in MANY.values() if re.search(rf"\{{n\}} ({'|'.join(SINGULAR)})\b", one)]
    assert wrong == []


def test_no_exception_is_left_over() -> None:
    for known in (*AT_LEAST_TWO, *A_LARGE_LIMIT, *OF_LAYERS_BELOW):
        assert any(known in text for text in SAID), known
