"""`main.py completion SHELL`: the script by which a shell completes the command line.

The script contains all words, so that pressing Tab starts no program. A word that is neither a
command nor an option may be a file.
"""

from __future__ import annotations

import argparse
import re
from argparse import _SubParsersAction
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from bot.command_line import Commands, write_line
from channels.program import CALL

Words = Mapping[tuple[str, ...], Sequence[str]]
"""The words that may follow the command with these words; the empty tuple is the program itself."""
_WORD = re.compile(r"-{0,2}\w[\w-]*")


class CompletedCommand(Struct, frozen=True):
    """A command in the script: its words, and the words that may follow."""

    path: tuple[str, ...]
    words: Sequence[str]

    def joined(self, separator: str = " ") -> str:
        return separator.join(self.path)


def add_command(commands: Commands, program: argparse.ArgumentParser) -> None:
    """Add `completion` to the command line."""
    parser = commands.add_parser("completion", help="print a script for your shell's completion")
    parser.add_argument("shell", choices=sorted(_SCRIPTS), metavar="SHELL", help="bash, fish, zsh")
    parser.set_defaults(run=lambda options: _print(options.shell, program))


def _print(shell: str, program: argparse.ArgumentParser) -> int:
    write_line(script_for(shell, CALL[-1], list_words(program)))
    return 0


def list_words(program: argparse.ArgumentParser) -> Words:
    """Return the words of a command line and of all its commands."""
    return dict(_list(program, ()))


def _list(
    parser: argparse.ArgumentParser, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Sequence[str]]]:
    words: list[str] = []
    below: list[tuple[str, argparse.ArgumentParser]] = []
    for action in parser._actions:
        if action.help is argparse.SUPPRESS:
            continue
        words += action.option_strings
        if isinstance(action, _SubParsersAction):
            below = [*action.choices.items()]
        if not action.option_strings:
            words += [str(one) for one in action.choices or ()]
    yield path, [word for word in words if _WORD.fullmatch(word)]
    for name, inner in below:
        yield from _list(inner, (*path, name))


def script_for(shell: str, name: str, words: Words) -> str:
    """Return the completion script of a shell for the program of this name."""
    places = [CompletedCommand(path, known) for path, known in words.items() if known or not path]
    return _SCRIPTS[shell](name, re.sub(r"\W", "_", name), places)


def _bash(name: str, function: str, places: Sequence[CompletedCommand]) -> str:
    return f"""\
_{function}() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" place="" word words
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$place $word" in
{_cases(places, '      "{}") place="$place $word" ;;')}
    esac
  done
  case "$place" in
{_cases(places, '    "{}") words="{}" ;;', whole=True)}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [[ ${{#COMPREPLY[@]}} -gt 0 ]] && return
  while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$current")
}}
complete -o filenames -F _{function} {name}"""


def _zsh(name: str, function: str, places: Sequence[CompletedCommand]) -> str:
    return f"""\
#compdef {name}
_{function}() {{
  local place="" word known
  for word in "${{(@)words[2,CURRENT-1]}}"; do
    case "$place $word" in
{_cases(places, '      "{}") place="$place $word" ;;')}
    esac
  done
  case "$place" in
{_cases(places, '    "{}") known="{}" ;;', whole=True)}
  esac
  compadd -- ${{=known}} || _files
}}
compdef _{function} {name}"""


def _cases(places: Sequence[CompletedCommand], line: str, *, whole: bool = False) -> str:
    """Return a line of a `case` for each command; `whole`: with its words, and with the program
    itself."""
    found = [one for one in places if one.path or whole]
    return "\n".join(
        line.format("".join(f" {word}" for word in one.path), " ".join(one.words)) for one in found
    )


def _fish(name: str, function: str, places: Sequence[CompletedCommand]) -> str:
    first = " ".join(place.joined() for place in places if len(place.path) == 1)
    lines = [f"function __{function}_is_first", f"  not __fish_seen_subcommand_from {first}", "end"]
    for place in places:
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in place.path)
        condition = seen or f"__{function}_is_first"
        lines += [
            f"complete -c {name} -n '{condition}' {option}"
            for option in map(_fish_option, place.words)
        ]
    return "\n".join(lines)


def _fish_option(word: str) -> str:
    if word.startswith("--"):
        return f"-l {word[2:]}"
    return f"-s {word[1:]}" if word.startswith("-") else f"-a {word}"


_SCRIPTS: Mapping[str, Callable[[str, str, Sequence[CompletedCommand]], str]] = {
    "bash": _bash,
    "fish": _fish,
    "zsh": _zsh,
}
