"""The main content of a web page: without menus, banners and what else stands around it."""

from __future__ import annotations

import logging
import subprocess
from pathlib import Path

from agent.tools import ToolError
from agent.tools.apart import ReaderProcess

log = logging.getLogger(__name__)

SECONDS = 10
"""The seconds that finding it may take; else the whole page is taken."""
MEGABYTES = 800
"""Memory that the process may have."""
SHORT = 4_000
"""Characters of a page's text up to which it is taken as a whole: nothing is gained by looking."""
_LEAST = 500  # characters; less is more likely a part that was taken for the content
_READER = Path(__file__).with_name("page_reader.py")


def find_main_content(html: str, address: str) -> str:
    """The main content as Markdown, "" where none is found, whatever the page is. It takes a second
    of computing, mostly to start; for a thread."""
    try:
        done = ReaderProcess(_READER, MEGABYTES, SECONDS).run(
            address,
            patience=2 * SECONDS,
            input=html.encode("utf-8", "replace"),
            capture_output=True,
        )
    except (subprocess.TimeoutExpired, OSError, ValueError, ToolError) as error:
        log.info("no main content was found of %s: %s", address, type(error).__name__)
        return ""
    if done.returncode:
        log.info("no main content was found of %s: exit code %d", address, done.returncode)
        return ""
    text = done.stdout.decode("utf-8", "replace").strip()
    return text if len(text) >= _LEAST else ""
