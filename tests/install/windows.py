"""A start of the bot as on Windows, as far as Linux can simulate it: `python -m
tests.install.windows`, with the arguments of `main.py`.

Only the bot's modules import reduced versions of `sys`, `os`, `signal`, `select` and `socket`, and
cannot import modules that Windows lacks. The event loop lacks the methods that Windows' Proactor
loop refuses. Files with names that are invalid on Windows cannot be opened by any module.
"""

from __future__ import annotations

import asyncio
import builtins
import errno
import os
import re
import select
import signal
import socket
import stat
import sys
import warnings
from collections.abc import Callable, Collection
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

ROOT = Path(__file__).parents[2]
OURS = ("main", "agent", "bot", "channels", "memory", "plugins")
NO_MODULES = frozenset(
    {
        *("fcntl", "grp", "nis", "ossaudiodev", "posix", "pty", "pwd", "readline", "resource"),
        *("spwd", "syslog", "termios", "tty", "uvloop", "curses", "crypt"),
    }
)
"""Modules that Windows does not have (`Availability` in Python's documentation)."""
NO_NAMES: dict[str, frozenset[str]] = {
    "os": frozenset(
        {
            *("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_SYNC"),
            *("O_DSYNC", "O_PATH", "O_TMPFILE", "chown", "fchdir", "fchmod", "fchown", "fork"),
            *("forkpty", "fpathconf", "fstatvfs", "fwalk", "getegid", "geteuid", "getgid"),
            *("getgroups", "getloadavg", "getpgid", "getpgrp", "getpriority", "getuid", "killpg"),
            *("lchown", "lockf", "memfd_create", "mkfifo", "mknod", "nice", "openpty"),
            *("pathconf", "pidfd_open", "pipe2", "posix_fallocate", "posix_spawn", "pread"),
            *("preadv", "pwrite", "pwritev", "readv", "sched_getaffinity", "sched_yield"),
            *("sendfile", "setpgid", "setpriority", "setsid", "setuid", "statvfs", "sync"),
            *("sysconf", "ttyname", "uname", "wait3", "wait4", "waitid", "writev"),
            *("WEXITSTATUS", "WIFEXITED", "WIFSIGNALED", "WTERMSIG", "WNOHANG"),
        }
    ),
    "signal": frozenset(
        {
            *("SIGALRM", "SIGCHLD", "SIGCONT", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT"),
            *("SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGUSR1", "SIGUSR2", "SIGWINCH"),
            *("SIGXCPU", "SIGXFSZ", "alarm", "pause", "pthread_kill", "pthread_sigmask"),
            *("setitimer", "siginterrupt", "sigpending", "sigwait"),
        }
    ),
    "select": frozenset({"PIPE_BUF", "POLLIN", "POLLOUT", "epoll", "kqueue", "poll"}),
    "socket": frozenset({"AF_UNIX", "SCM_RIGHTS", "SO_REUSEPORT", "sendmsg", "recv_fds"}),
    "sys": frozenset({"getdlopenflags", "setdlopenflags", "abiflags"}),
}
"""Names in modules that only other systems have."""
NO_LOOP = (
    *("add_signal_handler", "remove_signal_handler", "add_reader", "add_writer"),
    *("create_unix_connection", "create_unix_server"),
)
"""Methods that Windows' event loop refuses."""
_ILL_NAMED = re.compile(
    r'.*[<>:"/\\|?*\x00-\x1f].*|.*[. ]|(con|prn|aux|nul|(com|lpt)[\d¹²³])( *\..*)?',
    re.IGNORECASE | re.DOTALL,
)
_WITH_DESCRIPTOR = ("dir_fd", "src_dir_fd", "dst_dir_fd")


class _Poorer(ModuleType):
    """A module without some of its names."""

    def __init__(self, real: ModuleType, changed: dict[str, Any], lacking: Collection[str]) -> None:
        super().__init__(real.__name__)
        self.__dict__.update(_real=real, _lacking=lacking, **changed)

    def __getattr__(self, name: str) -> Any:
        if name in self._lacking:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)


def _without_descriptors(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        if any(options.get(name) is not None for name in _WITH_DESCRIPTOR):
            raise NotImplementedError("dir_fd unavailable on this platform")
        return function(*arguments, **options)

    return call


def _open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: None = None) -> int:
    if dir_fd is not None:
        raise NotImplementedError("dir_fd unavailable on this platform")
    if os.path.isdir(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
    return os.open(path, flags, mode)


def _scan(path: Any = ".") -> Any:
    if isinstance(path, int):
        raise TypeError("scandir: path should be string, bytes, os.PathLike or None, not int")
    return os.scandir(path)


def _fsync(number: int) -> None:
    if stat.S_ISDIR(os.fstat(number).st_mode):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    os.fsync(number)


def _poorer_modules() -> dict[str, ModuleType]:
    taking = ("mkdir", "stat", "lstat", "unlink", "remove", "rename", "replace", "rmdir", "link")
    poor_os: dict[str, Any] = {name: _without_descriptors(getattr(os, name)) for name in taking}
    poor_os |= {"open": _open, "scandir": _scan, "fsync": _fsync, "name": "nt"}
    poor_os |= {"supports_dir_fd": set[Any](), "supports_fd": set[Any]()}
    changed: dict[str, dict[str, Any]] = {"os": poor_os, "sys": {"platform": "win32"}}
    real = {"os": os, "signal": signal, "select": select, "socket": socket, "sys": sys}
    return {name: _Poorer(real[name], changed.get(name, {}), NO_NAMES[name]) for name in real}


def hide() -> None:
    """Hide from our modules everything that Windows lacks, from now on."""
    poorer, plain = _poorer_modules(), builtins.__import__

    def import_as_there(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        importer = str((globals or {}).get("__name__", "")).partition(".")[0]
        if importer in OURS and level == 0:
            if name.partition(".")[0] in NO_MODULES:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            if name in poorer:
                return poorer[name]
        return plain(name, globals, locals, fromlist, level)

    builtins.__import__ = import_as_there


class WindowsLoop(asyncio.SelectorEventLoop):
    """A loop with only the capabilities of Proactor's."""


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise NotImplementedError


for _name in NO_LOOP:
    setattr(WindowsLoop, _name, _refuse)


def is_ill_named(name: str) -> bool:
    """Return whether a name is invalid on Windows, or refers to something else there."""
    return _ILL_NAMED.fullmatch(name) is not None


def refuse_names_in(folder: Path) -> None:
    """Refuse files and folders below `folder` with names that are invalid on Windows, for all
    modules."""
    top = os.fspath(folder.absolute())

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "os.mkdir", "os.rename"):
            paths = arguments[:2] if event == "os.rename" else arguments[:1]
            for path in map(os.fsdecode, (p for p in paths if isinstance(p, (str, bytes)))):
                if path.startswith(top) and any(
                    is_ill_named(part) for part in path[len(top) :].split(os.sep) if part
                ):
                    raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)

    sys.addaudithook(hear)


def main() -> int:
    """Run the bot; the arguments have `--data`, the folder in which names are checked."""
    data = Path(sys.argv[sys.argv.index("--data") + 1])
    asyncio.new_event_loop = WindowsLoop
    asyncio.events.new_event_loop = WindowsLoop
    refuse_names_in(data)
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(ROOT))
    hide()
    import main as program  # noqa: PLC0415 - it is imported as there

    code = program.main(sys.argv[1:])
    if report := os.environ.get("IMPORTED"):
        names = sorted(name for name in sys.modules if name.partition(".")[0] in OURS)
        Path(report).write_text("\n".join(names))
    return code


if __name__ == "__main__":
    sys.exit(main())
