"""`python main.py service install | status | uninstall`: the bot as a systemd user service, which
runs from the start of the machine on, whether or not the user is logged in."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from bot.command_line import CommandRefused, write_line

_PATIENCE = 120.0  # seconds for a response of systemd; a start waits until the bot is ready
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_NO_SYSTEMD = (
    "There is no {program} here: this system has no systemd. Start the bot with the service "
    "manager of this system: python main.py --web"
)
_TEMPLATE = """\
# Written by `python main.py service install`, which writes it anew.
[Unit]
Description=Parley, a chat bot
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=notify
ExecStart={command}
WorkingDirectory={folder}
Restart=on-failure
RestartSec=5
# Exit code 2: the configuration has to be corrected first.
RestartPreventExitStatus=2
TimeoutStopSec=60
WatchdogSec=60
UMask=0077
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
SystemCallArchitectures=native

[Install]
WantedBy=default.target
"""


class ServiceError(CommandRefused):
    """The service can't be managed. The text says why, and what to do."""


class Service(Struct, frozen=True):
    """A service: its name, its command, and its working folder."""

    name: str
    command: Sequence[str]
    folder: Path

    @property
    def unit(self) -> str:
        """The content of its unit file."""
        words = " ".join(map(_quote, self.command))
        return _TEMPLATE.format(command=words, folder=str(self.folder).replace("%", "%%"))


def _quote(word: str) -> str:
    """Return a word of a command line, quoted for systemd (`man systemd.service`)."""
    if not word.isprintable():
        raise ServiceError(f"A service can't have {word!r} in its command; rename that folder.")
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


def clean_name(name: str) -> str:
    """Return the name of a service, without the suffix of its unit. Raises ServiceError."""
    name = name.removesuffix(".service")
    if not _NAME.fullmatch(name):
        raise ServiceError(
            f"{name!r} can't be the name of a service: a name has up to 100 letters, digits, and "
            ". _ -, and begins with a letter or a digit."
        )
    return name


def describe_bot(options: argparse.Namespace) -> Service:
    """Return the service that runs this bot, with this configuration and data: with the page,
    unless all configured channels (--serve) or only Telegram were requested."""
    main = Path(sys.argv[0]).resolve()
    places = ("--config", str(options.config.absolute()), "--data", str(options.data.absolute()))
    faces = [f"--{name}" for name in ("serve", "telegram") if getattr(options, name)]
    if options.web or not faces:
        faces.append("--web")
    return Service(
        clean_name(options.name),
        (sys.executable, str(main), *places, *faces),
        options.config.absolute().parent,
    )


class UserUnits:
    """The units of one user, managed by systemd's own programs."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        if not hasattr(os, "geteuid"):
            raise ServiceError(_NO_SYSTEMD.format(program="systemctl"))
        home = Path(environ.get("HOME") or Path.home())
        self.folder = Path(environ.get("XDG_CONFIG_HOME") or home / ".config", "systemd", "user")
        self.user = environ.get("USER") or str(os.geteuid())
        runtime = Path(f"/run/user/{os.geteuid()}")  # a plain `su` does not set it
        known = {"XDG_RUNTIME_DIR": str(runtime)} if runtime.exists() else {}
        self._environ = {**known, **environ}

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.service"

    def control(self, *arguments: str) -> str:
        """Return the output of `systemctl --user`. Raises ServiceError if it fails."""
        code, output = self.ask(*arguments)
        if code == 0:
            return output
        if "bus" in output or "No medium" in output:
            raise ServiceError(
                f"There is no systemd for your user here ({output}). Log in as the user that the "
                "bot belongs to (not with su or sudo). Where no systemd runs at all, have the bot "
                "started by the program that starts services there."
            )
        raise ServiceError(f"systemctl --user {' '.join(arguments)}: {output}")

    def ask(self, *arguments: str) -> tuple[int, str]:
        """Return the exit code of `systemctl --user`, and its output."""
        return self._run("systemctl", "--user", *arguments)

    def linger(self) -> bool:
        """Let the user's services run without a login; return whether they do."""
        return self._run("loginctl", "enable-linger", self.user)[0] == 0

    def does_linger(self) -> bool:
        return "yes" in self._run("loginctl", "show-user", self.user, "--property=Linger")[1]

    def last_lines(self, name: str) -> str:
        """Return the last log lines of the service."""
        command = ("journalctl", "--user", "--unit", name, "--lines", "5", "--output", "cat")
        return self._run(*command)[1]

    def _run(self, program: str, *arguments: str) -> tuple[int, str]:
        if not shutil.which(program, path=self._environ.get("PATH")):
            raise ServiceError(_NO_SYSTEMD.format(program=program))
        try:
            done = subprocess.run(
                [program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=_PATIENCE,
                check=False,
                env=self._environ,
            )
        except subprocess.TimeoutExpired:
            raise ServiceError(f"{program} has not answered for {_PATIENCE:.0f} s.") from None
        return done.returncode, done.stdout.strip()


def install(service: Service, units: UserUnits) -> None:
    """Write and start the unit, and enable it at the machine's start. Raises ServiceError."""
    unit, path = service.unit, units.path(service.name)
    units.control("list-units", "--no-pager", "--no-legend", service.name)
    try:
        service.folder.mkdir(parents=True, exist_ok=True)  # the settings may not exist yet
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(unit, encoding="utf-8")
    except OSError as error:
        raise ServiceError(f"{path} can't be written ({error.strerror}).") from None
    write_line(f"Written: {path}")
    units.control("daemon-reload")
    units.control("enable", service.name)
    code, _ = units.ask("restart", service.name)
    if code:
        units.ask("stop", service.name)
        raise ServiceError(
            f"The bot did not start:\n{units.last_lines(service.name)}\n"
            "Correct that, and run this again."
        )
    write_line("The bot runs, and starts with the machine.")
    if not (units.does_linger() or units.linger()):
        write_line(
            "It runs only while you are logged in. To keep it running: "
            f"sudo loginctl enable-linger {units.user}"
        )
    write_line(f"Its log: journalctl --user --unit {service.name} --follow")


def report(name: str, units: UserUnits) -> tuple[bool, list[str]]:
    """Return whether the service runs, and its status in lines."""
    path = units.path(name)
    if not path.exists():
        return False, ["It is not installed: python main.py service install"]
    state = units.ask("is-active", name)[1]
    lines = [f"{path}: {state}, {units.ask('is-enabled', name)[1]}"]
    if not units.does_linger():
        lines.append(
            f"It runs only while you are logged in: sudo loginctl enable-linger {units.user}"
        )
    if state != "active":
        lines.append(units.last_lines(name))
    return state == "active", lines


def uninstall(name: str, units: UserUnits) -> None:
    """Stop the service, and delete its unit; the data is kept. Raises ServiceError."""
    path = units.path(name)
    if not path.exists():
        raise ServiceError(f"There is no service {name!r} of yours ({path}).")
    units.control("disable", "--now", name)
    path.unlink()
    units.control("daemon-reload")
    write_line(
        f"Stopped, and {path} is deleted. The data folder and the configuration are unchanged."
    )
