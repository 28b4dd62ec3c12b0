"""The site made of the pages under docs/: `python -m tests.docs.site FOLDER`.

Links to files of the project that are no pages keep their text alone, unless `--repository URL` says
where these can be read."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT

FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def page_of_site(text: str, up: str, repository: str = "") -> str:
    """A page whose links out of docs/, which begin with `up`, lead to the repository, or are text."""
    link = re.compile(rf"\[([^][]*)\]\({re.escape(up)}([^)\s]*)\)")
    to = rf"[\1]({repository}/\2)" if repository else r"\1"
    parts = FENCE.split(text)
    return "".join(
        part if number % 2 else link.sub(to, part) for number, part in enumerate(parts)
    )


def build(folder: Path, repository: str = "") -> Path:
    """Write the site into a folder of this folder, or raise if a link or an anchor is wrong."""
    pages = folder / "pages"
    shutil.copytree(ROOT / "docs", pages, dirs_exist_ok=True)
    (pages / "mkdocs.yml").replace(folder / "mkdocs.yml")
    for page in pages.rglob("*.md"):
        up = "../" * len(page.relative_to(pages).parts)
        page.write_text(page_of_site(page.read_text("utf-8"), up, repository), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    subprocess.run([*command, "-f", "mkdocs.yml"], cwd=folder, check=True)
    return folder / "site"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Build the site of the documentation.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repository", default="", help="where the project's files can be read")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    print(build(asked.folder.resolve(), asked.repository) / "index.html")
