"""The process that extracts the main content of a web page.

The page is untrusted, and the extracting library (trafilatura) takes half a minute for 800 kB that
were made for that purpose: so it runs in a process with limits (`pages.py`). The page, as UTF-8, is
read from standard input, and the content is written as Markdown. Argument: the URL of the page.
"""

from __future__ import annotations

import sys

import trafilatura


def main() -> int:
    """Write the content, or nothing if none is found."""
    content = trafilatura.extract(
        sys.stdin.buffer.read().decode("utf-8", "replace"),
        url=sys.argv[1],
        output_format="markdown",
        include_comments=False,
        include_links=True,
        favor_recall=True,
    )
    sys.stdout.buffer.write((content or "").encode("utf-8", "replace"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
