"""`python main.py audit`: the open, weak or shared parts of this installation, and how to fix them.

Only risks that are present are reported, not possible ones: irrelevant lines teach people to skip
lines. Nothing is changed, and no data leaves the machine.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from msgspec import Struct

from bot.checks import Finding, Severity, add_verdict, list_risks
from bot.data_folder import DATABASE, find_database, plugins_folder
from bot.logs import looks_secret
from bot.settings import Layers, Settings, SettingsStore, load_layers
from bot.settings.permits import HARMLESS, Permit, parse_permit
from channels.guess_limit import is_weak
from channels.web.guard import is_loopback
from memory.record.engines import engine_for
from memory.record.transfer import copy_out
from plugins.operations.record import CarriedSettings, read_carried
from plugins.operations.restore import SET_ASIDE

COLOURS: Mapping[Severity, str] = {"high": "31;1", "medium": "33", "low": "36", "note": "2"}
RANKS: tuple[Severity, ...] = ("high", "medium", "low", "note")
_OTHERS, _WRITERS = 0o077, 0o022
_HAS_ACCOUNTS = hasattr(os, "geteuid")
_WIDEST = {4: 8, 6: 32}
"""The minimum prefix length of a proxy's network, by IP version."""
_MOST_NAMED = 5

_Risk = tuple[Severity, str, str]
"""The severity of a risk, the risk as a sentence, and its fix."""


class Installation(Struct, frozen=True):
    """The audited installation. `book` also has the settings of chats; `is_root` says whether the
    bot's account is root."""

    config: Path
    data: Path
    layers: Layers
    book: SettingsStore
    carried: CarriedSettings
    is_root: bool

    @property
    def settings(self) -> Settings:
        return self.book.effective()

    @property
    def everywhere(self) -> Iterator[tuple[str, Settings]]:
        """The settings of all chats, and of each chat that has its own."""
        scopes = {"", *(scope for scope, _, _ in self.carried.settings)}
        return ((scope, self.book.effective(scope)) for scope in sorted(scopes))


def installation(config: Path, data: Path, environ: Mapping[str, str]) -> Installation:
    """Read an installation. Raises SettingError, and StoreError for an unreadable database."""
    layers = load_layers(config, environ)
    carried = _read_carried(find_database(layers, data))
    book = SettingsStore(layers)
    book.adopt(_overrides(carried))
    return Installation(config, data, layers, book, carried, _own_account() == 0)


def _read_carried(place: Path | str) -> CarriedSettings:
    """Read the settings, people, keys and commands in the record. Raises StoreError."""
    if isinstance(place, Path):
        return read_carried(place) if place.exists() else CarriedSettings()
    with tempfile.TemporaryDirectory() as work:
        copy = Path(work, DATABASE)
        copy_out(engine_for(place), copy, ("override", "user", "api_key", "link", "inbox"))
        return read_carried(copy)


def _overrides(carried: CarriedSettings) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for scope, key, value in carried.settings:
        try:
            found.setdefault(scope, {})[key] = json.loads(value)
        except (ValueError, RecursionError):
            continue  # the bot ignores it too
    return found


def audit(one: Installation) -> list[Finding]:
    """Return all risks, most severe first."""
    looks = {
        "web page": _web,
        "keys": _keys,
        "tools": _tools,
        "plugins": _plugins,
        "files": _files,
        "settings": _secrets,
        "account": _account,
        "copies": _leftovers,
        "people": _people,
    }
    found = [Finding(name, *risk) for name, look in looks.items() for risk in look(one)]
    return sorted(found, key=lambda risk: RANKS.index(risk.severity))


def report(risks: Sequence[Finding], has_colours: bool) -> str:
    """Return the risks as text, each with its fix below."""
    lines = [_line(risk, has_colours) for risk in risks]
    return add_verdict(lines, risks, "No risk found.", "To look at")


def _risk_of(finding: Finding) -> _Risk:
    return finding.severity, finding.sentence, finding.advice


def _line(risk: Finding, has_colours: bool) -> str:
    mark = f"{risk.severity:6}"
    if has_colours:
        mark = f"\033[{COLOURS[risk.severity]}m{mark}\033[0m"
    fix = f"\n         fix: {risk.advice}" if risk.advice else ""
    return f"{mark} {risk.sentence}{fix}"


def _web(one: Installation) -> Iterator[_Risk]:
    web, token = one.settings.web, one.layers.secrets.get("PARLEY_WEB_TOKEN", "")
    new = "python -c 'import secrets; print(secrets.token_urlsafe())', as PARLEY_WEB_TOKEN in .env"
    is_open = not is_loopback(web.host)
    if token and is_weak(token):
        yield (
            "high",
            "PARLEY_WEB_TOKEN could be guessed, and it opens everything that owners can do.",
            new,
        )
    if not token and is_open:
        yield "high", f"web.host is {web.host}, and there is no token for the page.", new
    elif not token and one.settings.channels.web:
        yield "low", "Every account on this machine may use the web page as an owner.", new
    if token and is_open and not web.trusted_proxies:
        yield (
            "medium",
            f"The web page listens at {web.host} without encryption: anyone on the way "
            "can read along.",
            'set "web": {"host": "127.0.0.1"} and put a proxy with https in front '
            '(documentation: "Web")',
        )
    for name in web.trusted_proxies:
        network = ip_network(name, strict=False)
        if network.prefixlen < _WIDEST[network.version]:
            yield (
                "high",
                f"web.trusted_proxies has {name}: nearly anybody could claim to be somebody else.",
                "name the address of your proxy alone in web.trusted_proxies",
            )


def _keys(one: Installation) -> Iterator[_Risk]:
    for person, may_command, used in one.carried.keys:
        name = person.partition("/")[2]
        revoke = f"python main.py key revoke {name}"
        if person in one.carried.owners:
            sentence = f"The key {name} to /v1 has an owner's rights."
            yield "medium" if may_command else "low", sentence, revoke
        elif may_command:
            yield "low", f"Whoever has the key {name} to /v1 may use commands.", revoke
        if not used:
            yield "low", f"The key {name} to /v1 was never used.", revoke


def _tools(one: Installation) -> Iterator[_Risk]:
    named: set[str] = set()
    for scope, settings in one.everywhere:
        for severity, sentence, fix in _reach(settings):
            if sentence not in named:
                named.add(sentence)
                where = f" (in {scope})" if scope else ""
                yield severity, f"{sentence[:-1]}{where}.", fix


def _reach(settings: Settings) -> Iterator[_Risk]:
    risks = [*list_risks(settings)]
    if risks and settings.tools.approve == "never":
        yield (
            "high",
            "Tools run commands or use the web without asking, so anything that talks the "
            "model into it gets its way.",
            "/config tools.approve ask",
        )
    yield from map(_risk_of, risks)


def _plugins(one: Installation) -> Iterator[_Risk]:
    folder = plugins_folder(one.settings, one.data)
    files = [path for path in sorted(folder.rglob("*")) if path.suffix != ".pyc"]
    code = [path for path in files if path.is_file() or path.is_symlink()]
    for path in [folder, *files] if code else []:
        if (why := _find_other_writers(path)) is not None:
            yield "high", f"{path} runs inside the bot, and {why}.", f"chmod go-w {path}"
    if code:
        names = _join_names([str(path.relative_to(folder)) for path in code])
        yield "note", f"Plugins run with all of the bot's rights: {names}.", f"ls {folder}"


def _find_other_writers(path: Path) -> str | None:
    status = path.stat() if path.exists() else path.lstat()
    if status.st_uid not in (_own_account(), 0):
        return "belongs to another account"
    return "others may write to it" if status.st_mode & _WRITERS else None


def _files(one: Installation) -> Iterator[_Risk]:
    env = one.config.with_name(".env")
    if env.exists() and _mode(env) & _OTHERS:
        yield "high", f"Others on this machine may read the keys in {env}.", f"chmod 600 {env}"
    if one.config.exists() and _mode(one.config) & _WRITERS:
        yield "high", f"Others may change {one.config}.", f"chmod go-w {one.config}"
    if not one.data.exists():
        return
    if _mode(one.data) & _WRITERS:
        yield "high", f"Others may write in {one.data}.", f"chmod -R go= {one.data}"
    elif _mode(one.data) & _OTHERS:
        inside = [path for path in one.data.rglob("*") if not path.is_symlink()]
        readable = sum(bool(_mode(path) & _OTHERS) for path in inside)
        yield (
            "medium" if readable else "low",
            f"Others on this machine can read {one.data}; {readable} files in it are open to them.",
            f"chmod -R go= {one.data}",
        )


def _mode(path: Path) -> int:
    """Return the permission bits; 0 on Windows, which stores permissions elsewhere."""
    return path.stat().st_mode & 0o777 if _HAS_ACCOUNTS else 0


def _own_account() -> int:
    return os.geteuid() if _HAS_ACCOUNTS else -1


def _secrets(one: Installation) -> Iterator[_Risk]:
    try:
        text = one.config.read_text("utf-8", errors="replace")
    except OSError:
        return
    if looks_secret(text):
        yield (
            "high",
            f"{one.config} holds what looks like a key.",
            f"move it to .env, and write {{{{secret.NAME}}}} in {one.config}",
        )


def _account(one: Installation) -> Iterator[_Risk]:
    if one.is_root:
        yield (
            "medium",
            "The bot runs as root: a hole in it or in a plugin opens the whole machine.",
            "adduser --system parley, and start the bot as that account",
        )


def _leftovers(one: Installation) -> Iterator[_Risk]:
    """Yield the risks of copies that remain after messages are forgotten, and of data without
    consent."""
    beside = one.data.absolute().parent
    copies = [*beside.glob(f"{one.data.name}.before-restore-*"), *beside.glob(".parley-restore-*")]
    copies += [*one.data.glob(f"{DATABASE}*.before-*"), *one.data.glob(f"{DATABASE}*.damaged-*")]
    if copies:
        sentence = "There are older copies of conversations here, which /forget does not delete"
        names = _join_names([path.name for path in sorted(copies)])
        yield "low", f"{sentence}: {names}.", f"rm -r {copies[0]}"
    archives = {*beside.glob("*.tar.gz"), *one.config.absolute().parent.glob("*.tar.gz")}
    for path in sorted(archives):
        if _mode(path) & _OTHERS:
            yield "medium", f"Others may read {path.name}, maybe a backup.", f"chmod 600 {path}"
    if (aside := one.data / SET_ASIDE).exists():
        sentence = f"{aside} holds what came with a restored backup and nobody agreed to."
        yield "low", sentence, f"rm -r {aside}"


def _people(one: Installation) -> Iterator[_Risk]:
    owners = [*one.settings.owners, *one.carried.owners]
    if owners:
        yield "note", f"Owners, who may do everything: {_join_names(owners)}.", "/revoke WHO"
    if one.carried.users:
        users = _join_names(one.carried.users)
        yield "note", f"Users, and chats open to everyone in them: {users}.", "/revoke WHO"
        yield from map(_risk_of, list_risks(one.settings, with_users=True))
    if one.carried.links:
        pairs = [f"{home} in that of {target}" for home, target in one.carried.links]
        sentence = f"Linked chats: {_join_names(pairs)}."
        yield "note", sentence, "/unlink all"
    permits = [parse_permit(entry) for entry in one.settings.users_may_set if entry not in HARMLESS]
    if free := [permit.key for permit in permits if permit == Permit(permit.key)]:
        yield (
            "low",
            f"People who are not owners may set these to anything: {_join_names(free)}.",
            "/config users_may_set --unset",
        )


def _join_names(names: Iterable[str]) -> str:
    known = [name if name.isprintable() else repr(name) for name in names]
    rest = len(known) - _MOST_NAMED
    return ", ".join(known[:_MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")
