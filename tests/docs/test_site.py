"""Tests of the site: it builds, its links have targets, and it contacts no other host."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from playwright.async_api import expect

from tests.docs import site
from tests.docs.pages import ROOT
from tests.web.browser import Tab, launched, needs_chromium

LOADED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=[\"']?(https?:)?//")
STYLE = re.compile(r"url\([\"']?(?:https?:)?//|@import[^;]*(?:https?:)?//")


def test_the_navigation_has_every_page_once() -> None:
    nav = yaml.safe_load((ROOT / "docs" / "mkdocs.yml").read_text("utf-8"))["nav"]
    listed = re.findall(r"[\w/-]+\.md", str(nav))
    docs = ROOT / "docs"
    there = {str(page.relative_to(docs)) for page in docs.rglob("*.md")}
    there |= set(site.ELSEWHERE.values())
    assert len(listed) == len(set(listed))
    assert {page for page in there if not page.startswith("decisions/0")} == set(listed)


def test_links_out_of_the_pages_lead_to_the_repository_or_are_text() -> None:
    page = (
        "See [a](../tests/a.py), [b](b.md#c), [d](../README.md#e).\n\n```text x\n[c](../c)\n```\n"
    )
    plain = "See a, [b](b.md#c), [d](about.md#e).\n\n```text\n[c](../c)\n```\n"
    assert site.page_of_site(page, "docs/p.md") == plain
    linked = site.page_of_site(page, "docs/p.md", "https://example.org/parley")
    assert "[a](https://example.org/parley/tests/a.py)" in linked
    readme = "![f](docs/f.svg) [g](docs/g.md) [h](LICENSE) [i](https://example.org)"
    assert site.page_of_site(readme, "README.md") == (
        "![f](f.svg) [g](g.md) h [i](https://example.org)"
    )


def test_the_site_calls_the_program_as_the_wheel_does() -> None:
    page = (
        "`python main.py init` `main.py --web` .venv/bin/python main.py, [m](../main.py) `main.py`"
    )
    told = "`parley init` `parley --web` .venv/bin/python main.py, m `main.py`"
    assert site.page_of_site(page, "docs/p.md") == told
    assert site.page_of_site("`python main.py`", "docs/install.md") == "`python main.py`"
    for path in ROOT.glob("docs/*.md"):
        if not (inner := str(path.relative_to(ROOT))).startswith(site.OF_BOTH):
            text = site.page_of_site(path.read_text("utf-8"), inner)
            assert not re.search(r"(?<!bin/)python main\.py", text), inner


def test_links_of_a_decision_go_up() -> None:
    decision = site.page_of_site("[a](../a.md) [b](../../b.py)", "docs/decisions/0001-a.md")
    assert decision == "[a](../a.md) b"


@needs_chromium
@pytest.mark.usefixtures("processes")
async def test_the_site_builds_with_all_its_links_loads_nothing_from_elsewhere_and_can_be_searched(
    tmp_path: Path,
) -> None:
    built = site.build(tmp_path)
    for page in built.rglob("*.html"):
        assert not LOADED.search(page.read_text("utf-8")), page
    for style in built.rglob("*.css"):
        assert not STYLE.search(style.read_text("utf-8")), style
    assert "Undone" in (built / "first-hour.html").read_text("utf-8")
    assert (built / "web.png").exists()
    assert len(list(built.glob("*.html"))) > 40
    async with launched() as browser:
        tab = Tab(await browser.new_page())
        await tab.page.goto((built / "decisions" / "index.html").as_uri())
        await tab.page.locator(".md-search__button").click()
        await tab.page.get_by_role("combobox").fill("compaction")
        await expect(tab.page.get_by_text(re.compile(r"\d+ results"))).to_be_visible()
    assert (tab.hosts, tab.faults) == ({""}, [])
