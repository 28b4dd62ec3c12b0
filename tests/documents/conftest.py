"""The fixtures of the tools that read files, with the feature that reads documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugins.documents.feature import DocumentTexts
from tests.plugins.test_files import Run, runner


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path


@pytest.fixture
def run(root: Path) -> Run:
    return runner(root, DocumentTexts())
