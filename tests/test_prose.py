"""Tests of how docstrings and descriptions begin: with a verb or a noun, no relative clause."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from bot.settings.schema import SETTINGS
from channels.web.channel import list_words
from tests.tables import each_row

ROOT = Path(__file__).parent.parent
FOLDERS = ("memory", "agent", "channels", "benchmarks", "bot", "plugins", "tests")
"""The folders whose docstrings are checked."""
WORDS = (
    r"\s*(How|One|That|Those|What|Whatever|When|Whenever|Where|Wherever|Whether|Which|Who|Whoever"
    r"|Whom|Whose|Why)\b"
)
HEADLESS, MAY_BE = re.compile(WORDS), re.compile(rf'^[ \t]*[a-zA-Z]?"+{WORDS}', re.MULTILINE)


def docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the docstring of each module, class and function, and the texts below constants."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        statements = body if isinstance(body, list) else []
        for before, statement in zip([node, *statements], statements, strict=False):
            match before, statement:
                case (
                    (
                        ast.Module()
                        | ast.ClassDef()
                        | ast.FunctionDef()
                        | ast.AsyncFunctionDef()
                        | ast.Assign()
                        | ast.AnnAssign()
                    ),
                    ast.Expr(value=ast.Constant(value=str()) as found),
                ):
                    yield found


def headless_in(source: str, name: str) -> list[str]:
    """List the docstrings that begin with such a word, as "name:line: their first words"."""
    if not MAY_BE.search(source):  # much faster than parsing
        return []
    found = [one for one in docstrings(ast.parse(source)) if HEADLESS.match(str(one.value))]
    found.sort(key=lambda one: one.lineno)
    return [f"{name}:{one.lineno}: {' '.join(str(one.value).split()[:6])}" for one in found]


@each_row("folder", FOLDERS)
def test_docstrings_begin_with_a_verb_or_a_noun(folder: str) -> None:
    found: list[str] = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        found += headless_in(path.read_text("utf-8"), path.relative_to(ROOT).as_posix())
    assert found == [], 'write "Return the names that …" or "The names that …"'


BAD = '''"""What is said."""

LIMIT = 3
"""How many there are."""
kept: int = 0
"""
Whether it is kept."""


class Names:
    """Whose they are."""

    names = ()
    """Those that are known."""

    async def find(self) -> str:
        """One of them."""
        if self.names:
            first = 1
            """Where it stands."""
        return "What is no docstring."


def find() -> None:
    """Whoever asks."""
'''
GOOD = '''"""The names, and what they mean."""

LIMIT = 3
"""The most of them: those that are kept."""


def find() -> None:
    """Return the oneness that Whatson found."""
    print("""What is printed.""")
    """What is no docstring, since no assignment is above it."""


def stub() -> str:
    """Onesided names are found."""
    return """Which is a value."""
'''


def test_each_kind_of_docstring_is_checked() -> None:
    lines = [1, 4, 6, 11, 14, 17, 20, 25]
    assert [int(one.split(":")[1]) for one in headless_in(BAD, "bad.py")] == lines
    assert headless_in(BAD, "bad.py")[0] == "bad.py:1: What is said."
    assert headless_in(GOOD, "good.py") == []


COMMENT = re.compile(rf"^[ \t]*/\*\*{WORDS}|\A//{WORDS}", re.MULTILINE)
"""The comment that describes a function or a file of the page, with such a beginning."""


def test_comments_of_the_page_begin_with_a_verb_or_a_noun() -> None:
    files = [*(ROOT / "channels/web/page").glob("*.js")]
    found = [
        (one.name, told[0]) for one in files for told in COMMENT.finditer(one.read_text("utf-8"))
    ]
    assert found == []
    assert len(files) > 30
    assert COMMENT.match("// What is said")
    assert COMMENT.search("x\n  /** Whose it is */")


DESCRIBES = {"description", "help", "meaning", "summary"}
"""The keywords of calls that take the description of a setting, an option or an operation."""


def descriptions_in(source: str) -> Iterator[str]:
    """Yield each text that describes a setting or an option, or is given to a `_quirk`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            given = [one.value for one in node.keywords if one.arg in DESCRIBES]
            if isinstance(node.func, ast.Name) and node.func.id == "_quirk":
                given += node.args[:1]
            for one in given:
                if isinstance(one, ast.Constant) and isinstance(one.value, str):
                    yield one.value


@each_row("folder", [one for one in FOLDERS if one not in {"benchmarks", "tests"}])
def test_descriptions_of_settings_and_options_begin_with_a_noun(folder: str) -> None:
    texts = [
        text
        for path in sorted((ROOT / folder).rglob("*.py"))
        for text in descriptions_in(path.read_text("utf-8"))
    ]
    assert [text for text in texts if re.match(WORDS, text, re.IGNORECASE)] == []


def test_no_setting_and_no_label_of_the_page_begins_with_a_relative_clause() -> None:
    told = [(one.key, one.meaning) for one in SETTINGS.values()]
    told += [("page", text) for text in list_words() if not text.endswith("?")]
    headless = re.compile(r"(How|What|Whether|Which|Who|Whose)\b")
    assert [(name, text) for name, text in told if headless.match(text)] == []
    assert len(told) > len(SETTINGS) > 50


REPLACED = re.compile(
    r"_?(believe|bring(_[a-z_]+)?|clings|conclude|converse|demand|excuse|give_(back|up)|heed"
    r"|hand_over|hang_up|is_(meant|told|unborn|unheard)|knock|lagging|lead|let_(go|in)|liken|look|meet"
    r"|pass_on|peel|put_(away|in|out|right)|regret|retell|room|says_[a-z_]+|settle|sorry|steer"
    r"|take_(after|apart|as|at|back|from|in|out|place|up)|tell_[a-z_]+|unsay|unsee|unthought|void|want"
    r"|weigh|wherever|Beside|Belongings|ByHand|CannotListen|Courier|Desk|Ears|Hands|Heard|Hearing"
    r"|HookDesk|House|Kept[A-Z][a-z]+|LetIn|Mouth|OwnUser|Pressed|Reception|Remains"
    r"|Said(Dates|Numbers|Sentence|Words)|Speaking|Told|Wishes|WrongCall)"
)
"""The names that terms of the field have replaced: status, resolve, evict, flush, and others."""


def names_in(source: str) -> list[str]:
    """List the functions and classes that a module defines."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return [node.name for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)]


@each_row("folder", [one for one in FOLDERS if one not in {"benchmarks", "tests"}])
def test_functions_and_classes_have_the_terms_of_the_field(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in names_in(path.read_text("utf-8"))
        if REPLACED.fullmatch(name)
    ]
    assert found == [], "use status, resolve, evict, wait_for_capacity, flush, load, …"
    assert REPLACED.fullmatch("_settle")
    assert not REPLACED.fullmatch("settled_by")
