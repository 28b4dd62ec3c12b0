"""The site that is built from the project's pages: `python -m tests.docs.site FOLDER`.

Links to files that are not pages become plain text, unless `--repository URL` names the place where
these can be read.
"""

from __future__ import annotations

import argparse
import os.path
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT

ELSEWHERE = {
    "README.md": "about.md",
    "CHANGELOG.md": "changelog.md",
    ".github/SECURITY.md": "reporting.md",
    ".github/CONTRIBUTING.md": "contributing.md",
}
"""Pages outside of docs/, and their names on the site."""
LINK = re.compile(r"(!?)\[((?:[^][]|\[[^][]*\])*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
MORE = re.compile(r"(?<=\w) (?!title=)[^\n]*")
"""Words after the language of a code block, which would make the site generator ignore the block's
language."""
PROGRAM = re.compile(r"(?<![\w./])(?:python main\.py\b|(?<=`)main\.py(?= ))")
"""The program as the pages name it, for readers with a checkout; readers of the site have the
wheel."""
OF_BOTH = ("CHANGELOG.md", "docs/install.md", "docs/decisions/")
"""Pages about both the checkout and the wheel."""
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def page_of_site(text: str, path: str, repository: str = "") -> str:
    """Return the text of the project's page at `path`, with links as on the site."""

    def link(found: re.Match[str]) -> str:
        mark, words, target, anchor = found.groups(default="")
        if not target or "://" in target:
            return found[0]
        meant = os.path.normpath(os.path.join(os.path.dirname(path), target))
        place = place_of(meant)
        if place:
            target = os.path.relpath(place, os.path.dirname(place_of(path)) or ".")
            return f"{mark}[{words}]({target}{anchor})"
        return f"{mark}[{words}]({repository}/{meant})" if repository else words

    if not path.startswith(OF_BOTH):
        text = PROGRAM.sub("parley", text)
    return "".join(
        plain_fence(part) if number % 2 else LINK.sub(link, part)
        for number, part in enumerate(FENCE.split(text))
    )


def place_of(path: str) -> str:
    """Return the path on the site of a project file; "" if it is not on the site."""
    inner = path.removeprefix("docs/")
    return ELSEWHERE.get(path, inner if inner != path else "")


def plain_fence(block: str) -> str:
    """Return a code block with only its language on its first line."""
    head, line_break, code = block.partition("\n")
    return MORE.sub("", head) + line_break + code


def build(folder: Path, repository: str = "") -> Path:
    """Write the site below `folder`, and return its path; a wrong link or anchor is an error."""
    pages = folder / "pages"
    shutil.copytree(ROOT / "docs", pages, dirs_exist_ok=True)
    (pages / "mkdocs.yml").replace(folder / "mkdocs.yml")
    inner = (str(page.relative_to(ROOT)) for page in ROOT.glob("docs/**/*.md"))
    for path in (*ELSEWHERE, *inner):
        text = page_of_site((ROOT / path).read_text("utf-8"), path, repository)
        (pages / place_of(path)).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    subprocess.run([*command, "-f", "mkdocs.yml"], cwd=folder, check=True)
    return folder / "site"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Build the site of the documentation.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repository", default="", help="where the project's files can be read")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    place = build(asked.folder.resolve(), asked.repository) / "index.html"
    sys.stdout.write(f"The site is at {place}\n")
