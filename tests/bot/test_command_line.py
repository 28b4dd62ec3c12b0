"""Tests of the command line's arguments."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from main import main, make_parser


def test_the_places_of_a_bot_stand_before_or_behind_a_command() -> None:
    for line, data, config in (
        ("", "data", "config.json"),
        ("restore FILE", "data", "config.json"),
        ("--data there restore FILE", "there", "config.json"),
        ("restore FILE --data there --config c.json", "there", "c.json"),
        ("--data here restore --data there FILE", "there", "config.json"),
        ("key list --data there", "there", "config.json"),
        ("key --data there list", "there", "config.json"),
    ):
        options = make_parser().parse_args(line.split())
        assert (options.data, options.config) == (Path(data), Path(config)), line


@pytest.mark.parametrize("has_folder", [True, False])
def test_a_fault_is_a_sentence_and_the_log_has_its_place(
    has_folder: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(_: object) -> int:
        raise ZeroDivisionError("nobody foresaw this")

    monkeypatch.setattr("main._pair", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    data = tmp_path / "data"
    if has_folder:
        data.mkdir()
    assert main(["--data", str(data), "pair", "123"]) == 1
    told = capsys.readouterr().err
    assert "a fault in Parley (ZeroDivisionError); the details are in " in told
    (kept,) = tmp_path.rglob("fault.log")
    assert str(kept) in told
    assert (data in kept.parents) is has_folder
    assert "nobody foresaw this" in kept.read_text()
    assert (kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.parametrize(
    "line",
    ["--data=~/x", "--data ~/x", "export F --data=~/x", "import chatgpt ~/x", "ask -f ~/x Hi"],
)
def test_a_home_folder_is_known_wherever_a_path_is_named(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    options = vars(make_parser().parse_args(line.split()))
    found = [options["data"], options.get("path"), *options.get("file", [])]
    assert tmp_path / "x" in found


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--data=", "its name is empty"),
        ("--config=~nobody-here/x", "there is no home folder for ~nobody-here"),
        ("--web --port 80", "there is no option --port"),
        ("--prot=80", "there is no option --prot"),
        ("import chatgpt x --dryrun", "there is no option --dryrun; did you mean --dry-run?"),
        ("improt chatgpt x", "there is no improt; did you mean import?"),
        ("import chatgtp x", "there is no chatgtp; did you mean chatgpt?"),
        ("key lst", "there is no lst; did you mean list?"),
        ("nonsense", "there is no nonsense; there are: pair, "),
    ],
)
def test_a_wrong_word_is_named_and_the_right_one_is_advised(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        make_parser().parse_args(line.split())
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_words_of_a_question_are_no_options() -> None:
    options = make_parser().parse_args(["ask", "--", "What", "is", "--port?"])
    assert options.question == ["What", "is", "--port?"]


ROOT = Path(__file__).parents[2]


def start(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run main.py in its own folder; -S hides all installed packages."""
    shutil.copy(ROOT / "main.py", folder)
    return subprocess.run(
        [sys.executable, "-S", "main.py", *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.usefixtures("processes")
def test_it_goes_on_with_the_python_that_has_them(tmp_path: Path) -> None:
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "went on: $*"\nexit 7\n')
    python.chmod(0o755)
    started = start(tmp_path, "ask", "What is new?")
    assert (started.stdout, started.returncode) == ("went on: main.py ask What is new?\n", 7)


@pytest.mark.usefixtures("processes")
def test_without_one_it_says_how_to_install_them(tmp_path: Path) -> None:
    started = start(tmp_path, "doctor")
    assert started.stderr.startswith("Parley's packages are not installed: run `make run`")
    assert started.returncode == 1
