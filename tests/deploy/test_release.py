"""Tests of the release checklist, on a separate project."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.usefixtures("processes")
SCRIPT = Path(__file__).parents[2] / "deploy" / "release.py"


@pytest.fixture
def release() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["release"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Create a project that is ready for its release 1.2.3."""
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3\n\n## 1.2.2\n")
    (tmp_path / ".gitignore").write_text(".pytest_cache\n")
    cache = tmp_path / ".pytest_cache" / "v" / "cache"
    cache.mkdir(parents=True)
    (cache / "nodeids").write_text("[]")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "All")
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True)


def wanting(release: ModuleType, project: Path, version: str = "1.2.3") -> list[str]:
    return [check.name for check in release.checks(project, version) if not check.is_met]


def test_a_project_that_is_ready_wants_nothing(release: ModuleType, project: Path) -> None:
    assert wanting(release, project) == []


def test_each_thing_that_is_missing_is_told(release: ModuleType, project: Path) -> None:
    assert wanting(release, project, "1.3") == [
        "the version 1.3 is a semantic one",
        "the changelog begins with this version",
    ]
    git(project, "tag", "v1.2.3")
    assert wanting(release, project) == ["there is no tag v1.2.3 yet"]
    git(project, "tag", "--delete", "v1.2.3")
    cache = project / ".pytest_cache" / "v" / "cache"
    (cache / "lastfailed").write_text(json.dumps({"tests/test_a.py::test_b": True}))
    (project / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3 (not released yet)\n")
    assert wanting(release, project) == [
        "the changelog calls it released",
        "nothing is left to commit",
        "the last run of the tests found nothing",
    ]
    (cache / "lastfailed").unlink()
    (cache / "nodeids").unlink()
    assert "the last run of the tests found nothing" in wanting(release, project)


def test_the_files_of_a_release_name_its_version_its_address_and_its_image(
    release: ModuleType, tmp_path: Path
) -> None:
    wheel = tmp_path / "parley_bot-1.2.3-py3-none-any.whl"
    older = tmp_path / "parley_bot-1.2.2-py3-none-any.whl"
    for one, at in ((wheel, 2), (older, 1)):
        one.write_bytes(b"a wheel")
        os.utime(one, (at, at))
    published = release.Published("1.2.3", "https://example.org/parley", "example.org/parley")
    release.write_templates(SCRIPT.parents[1], tmp_path, published)
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".whl"]
    texts = {
        path.relative_to(tmp_path).as_posix(): path.read_text("utf-8")
        for path in written
        if path.suffix != ".png"
    }
    assert not [name for name, text in texts.items() if "{{" in text]
    assert 'url=${PARLEY_URL:-"https://example.org/parley"}' in texts["install.sh"]
    for name in ("stores/umbrel/docker-compose.yml", "stores/casaos/docker-compose.yml"):
        assert 'image: "example.org/parley:1.2.3"' in texts[name]
    assert 'version: "1.2.3"' in texts["stores/home-assistant/config.yaml"]
    named = {
        name
        for text in texts.values()
        for name in re.findall(r"https://example\.org/parley/([\w./-]+)", text)
    }
    assert "icon.svg" in named
    assert not [name for name in named if not (tmp_path / name).is_file()]
    assert (tmp_path / "stores/home-assistant/icon.png").read_bytes().startswith(b"\x89PNG")
    done = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert wheel.name in texts["SHA256SUMS"]
    assert older.name not in texts["SHA256SUMS"]
