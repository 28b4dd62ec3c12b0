"""Tests of the audit: it reports open, weak or shared parts of an installation, and is silent if
all is well."""

from __future__ import annotations

import io
import json
import os
import re
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bot.checks import Finding, exit_code
from main import main
from memory.record.engines.sqlite import connect
from memory.record.migrations import migrate
from plugins.operations.audit import audit, installation, report
from tests.bot.in_process import run_main

TOKEN = "a-token-that-nobody-guesses-0123456789"


@dataclass
class Installation:
    """An installation that a test configures; it has no findings by default."""

    folder: Path
    settings: dict[str, Any] = field(default_factory=dict)
    environ: dict[str, str] = field(default_factory=dict)
    is_root: bool = False

    def __post_init__(self) -> None:
        self.data = self.folder / "data"
        self.data.mkdir(mode=0o700)
        self.make("data/audiences/ann/memory/2026-11-21.md", "words")
        self.make(".env", "X=1")
        database = connect(self.data / "parley.db")
        migrate(database)
        database.close()
        for path in self.data.glob("parley.db*"):
            path.chmod(0o600)

    @property
    def config(self) -> Path:
        return self.folder / "config.json"

    def make(self, name: str, text: str = "", mode: int = 0o600) -> Path:
        path = self.folder / name
        for folder in (*reversed(path.parents[: len(Path(name).parts) - 1]),):
            folder.mkdir(mode=0o700, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def keeps(self, statement: str, *values: object) -> None:
        with closing(sqlite3.connect(self.data / "parley.db")) as database, database:
            database.execute(statement, values)

    def sets(self, key: str, value: object, scope: str = "") -> None:
        self.keeps("INSERT INTO override VALUES (?, ?, ?, 1)", scope, key, json.dumps(value))

    def lets_in(self, kind: str, name: str, role: str) -> None:
        self.keeps("INSERT INTO user VALUES (?, ?, ?, '', '', 1)", kind, name, role)

    @property
    def risks(self) -> list[Finding]:
        if not self.config.exists():
            self.make("config.json", json.dumps(self.settings), 0o644)
        one = installation(self.config, self.data, self.environ)
        return audit(replace(one, is_root=self.is_root))


@pytest.fixture
def place(tmp_path: Path) -> Installation:
    return Installation(tmp_path)


def test_nothing_is_said_of_an_installation_that_is_well_and_nothing_left(
    place: Installation,
) -> None:
    place.make("config.json", "{}")
    before = sorted(place.folder.rglob("*"))
    assert place.risks == []
    assert sorted(place.folder.rglob("*")) == before
    assert exit_code([]) == 0
    assert report([], has_colours=False) == "No risk found."


def test_what_is_only_to_be_known_is_no_fault(place: Installation) -> None:
    place.settings = {"owners": ["telegram/1"], "spend_limit_user": 5}
    place.sets("tools.shell", True)
    place.make("data/plugins/dice.py")
    place.lets_in("chat", "telegram/-5", "user")
    risks = place.risks
    assert {risk.severity for risk in risks} == {"note"}
    text = report(risks, has_colours=False)
    for word in ("telegram/1", "telegram/-5", "dice.py", "commands"):
        assert word in text
    assert exit_code(risks) == 0


Doing = Callable[[Installation], object]


def setting(**settings: Any) -> Doing:
    return lambda place: place.settings.update(settings)


def surroundings(**environ: str) -> Doing:
    return lambda place: place.environ.update(environ)


def both(*doings: Doing) -> Doing:
    return lambda place: [doing(place) for doing in doings]


def mode(name: str, bits: int) -> Doing:
    return lambda place: (place.folder / name).chmod(bits)


def key(role: str, may_command: int, used: int) -> Doing:
    def make(place: Installation) -> None:
        place.lets_in("person", "web/ann", role)
        place.keeps("INSERT INTO api_key VALUES ('web/ann', 'd', ?, 1, ?)", may_command, used)

    return make


OPEN = setting(web={"host": "0.0.0.0"})


@pytest.mark.parametrize(
    ("make", "severity", "words", "fix"),
    [
        (OPEN, "high", "no token", "PARLEY_WEB_TOKEN"),
        (surroundings(PARLEY_WEB_TOKEN="a"), "high", "could be guessed", "token_urlsafe"),
        (both(OPEN, surroundings(PARLEY_WEB_TOKEN=TOKEN)), "medium", "without encryption", "https"),
        (setting(channels={"web": True}), "low", "Every account on this machine", "TOKEN"),
        (setting(web={"trusted_proxies": ["0.0.0.0/0"]}), "high", "nearly anybody", "_proxies"),
        (key("owner", 1, 1), "medium", "owner's rights", "key revoke ann"),
        (key("owner", 0, 1), "low", "owner's rights", "key revoke ann"),
        (key("user", 1, 1), "low", "may use commands", "key revoke ann"),
        (key("user", 0, 0), "low", "never used", "key revoke ann"),
        (setting(tools={"shell": True, "approve": "never"}), "high", "without asking", "approve"),
        (setting(tools={"shell": True, "shell_unboxed": True}),
         "high", "outside a sandbox", "shell_unboxed"),
        (lambda place: place.make("data/plugins/dice.py", mode=0o622),
         "high", "others may write to it", "chmod go-w"),
        (mode(".env", 0o640), "high", "may read the keys", "chmod 600"),
        (mode("data", 0o777), "high", "Others may write in", "chmod -R go="),
        (both(mode("data", 0o755), mode("data/parley.db", 0o644)),
         "medium", "1 files in it are open", "chmod -R go="),
        (mode("data", 0o755), "low", "can read", "chmod -R go="),
        (lambda place: place.make("config.json", "{}", 0o666),
         "high", "Others may change", "chmod go-w"),
        (setting(system_prompt="Use sk-0123456789abcdef0123 for all."),
         "high", "looks like a key", "{{secret.NAME}}"),
        (lambda place: setattr(place, "is_root", True), "medium", "runs as root", "adduser"),
        (lambda place: (place.folder / "data.before-restore-1").mkdir(),
         "low", "There are older copies", "rm -r"),
        (lambda place: place.make("saved.tar.gz", mode=0o644),
         "medium", "saved.tar.gz", "chmod 600"),
        (lambda place: place.make("data/set-aside/plugins/x.py"),
         "low", "nobody agreed to", "rm -r"),
        (lambda place: place.lets_in("person", "telegram/7", "user"),
         "low", "nothing limits", "spend_limit_user"),
    ],
)  # fmt: skip
def test_what_is_open_or_weak_is_said_with_its_fix(
    place: Installation, make: Doing, severity: str, words: str, fix: str
) -> None:
    make(place)
    risks = place.risks
    (found,) = (risk for risk in risks if words in risk.sentence)
    assert found.severity == severity
    assert fix in found.advice
    assert exit_code(risks) == 1
    assert found.sentence in report(risks, has_colours=False)


def test_one_chat_that_goes_further_than_the_others_is_named(place: Installation) -> None:
    place.settings = {"tools": {"approve": "never"}}
    place.sets("context.strategy", "full", "pipe/a")
    place.sets("tools.web_fetch", True)
    (found,) = (risk for risk in place.risks if risk.severity == "high")
    assert "without asking" in found.sentence


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_plugin_of_another_account_is_said(place: Installation) -> None:
    os.chown(place.make("data/plugins/dice.py"), 65_534, -1)
    assert any("belongs to another account" in risk.sentence for risk in place.risks)


def test_no_key_is_shown(place: Installation) -> None:
    place.environ = {"PARLEY_WEB_TOKEN": "aaaaaaaaaaaa"}
    place.settings = {"system_prompt": "sk-0123456789abcdef0123"}
    text = report(place.risks, has_colours=True)
    assert "aaaaaaaaaaaa" not in text
    assert "0123456789abcdef" not in text
    assert "\033[31;1mhigh" in text


def test_it_is_a_command_and_the_doctor_points_to_it(
    place: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    place.make("config.json", json.dumps({"web": {"host": "0.0.0.0"}}))
    done = run_main(capsys, place.folder, "audit")
    assert done.code == 1
    assert "no token for the page" in done.out
    assert "\033" not in done.out
    told = run_main(capsys, place.folder, "doctor").out
    assert re.search(
        r"^To check the security.*, run `python main.py --config .* audit`.$", told, re.M
    )


def test_a_terminal_that_lacks_letters_gets_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "\u6f22"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    written = io.BytesIO()
    terminal = io.TextIOWrapper(written, encoding="ascii", write_through=True)
    monkeypatch.setattr(sys, "stdout", terminal)
    main(["--config", str(folder / "config.json"), "--data", str(folder / "data"), "doctor"])
    assert b"\\u6f22" in written.getvalue()


def test_a_broken_installation_gets_a_sentence(
    place: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    place.make("config.json", "{")
    assert run_main(capsys, place.folder, "audit").code == 2
    place.make("config.json", "{}")
    for broken in ("a file that is no database " * 100, ""):
        place.make("data/parley.db", broken)
        done = run_main(capsys, place.folder, "audit")
        assert done.out or done.err


def test_what_users_may_set_without_a_bound_is_told(place: Installation) -> None:
    place.settings = {
        "spend_limit_user": 5,
        "users_may_set": ["when_busy", "model", "agent_max_steps 1..20"],
    }
    place.lets_in("person", "telegram/7", "user")
    (risk,) = (risk for risk in place.risks if risk.severity == "low")
    assert risk.sentence == "People who are not owners may set these to anything: model."
    assert risk.advice == "/config users_may_set --unset"
