"""Tests of the main content of pages: extracted in a separate process, with bounded cost."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agent.tools.page import text_of
from plugins.web_tools import pages
from plugins.web_tools.feature import format_page
from plugins.web_tools.pages import WebPage, find_main_content

MENU = "".join(f"<li><a href='/menu/{n}'>Menu {n}</a></li>" for n in range(60))
STORY = "".join(
    f"<p>Part {n} of this story says how <a href='https://example.org/{n}'>tea</a> is made there, "
    "with enough words to count as one.</p>"
    for n in range(40)
)
PAGE = (
    f"<html><head><title>Tea</title></head><body><nav><ul>{MENU}</ul></nav><main><article><h1>Tea"
    f"</h1>{STORY}<table><tr><th>kind</th><td>green</td></tr></table></article></main>"
    "<footer>Imprint and cookies</footer></body></html>"
)
HERE = "https://example.org/tea"


@pytest.mark.usefixtures("processes")
def test_menus_and_footers_are_left_out_and_links_stay() -> None:
    found = find_main_content(PAGE, HERE)
    assert "Part 39 of this story" in found
    assert "[tea](https://example.org/7)" in found
    assert "green" in found
    assert "Menu" not in found
    assert "cookies" not in found


@pytest.mark.usefixtures("processes")
def test_what_has_no_main_content_has_none() -> None:
    assert find_main_content("<html><body>" + "<script>x</script>" * 2_000, HERE) == ""
    assert "\0" not in find_main_content("\0\ud800" * 3_000, HERE)


@pytest.mark.usefixtures("processes")
def test_a_page_that_would_take_half_a_minute_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pages, "READING", 1)
    caplog.set_level("INFO")
    assert find_main_content("<p>x" * 200_000, HERE) == ""
    assert f"no main content was found of {HERE}" in caplog.text


def test_a_process_that_can_not_be_is_no_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    assert find_main_content(PAGE, HERE) == ""


def test_the_model_is_told_that_there_is_more_and_may_have_it() -> None:
    page = WebPage(HERE, text_of(PAGE), is_cut=False, main="The story.")
    shown = format_page(page, 0, is_whole=False)
    assert shown.endswith("[This is the main content; #whole after the address shows all.]")
    assert "The story." in shown
    assert "Menu 7" not in shown
    assert "Menu 7" in format_page(page, 0, is_whole=True)
    assert "#whole" not in format_page(WebPage(HERE, "Short.", is_cut=False), 0)
