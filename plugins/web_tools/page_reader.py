"""The process in which the main content of a web page is found.

Whoever wrote the page is a stranger, and the library that finds it (trafilatura) takes half a
minute for 800 kB that were made for it: so it works in a process under limits
(`pages.py`). The page, as UTF-8, is its standard input, the content as Markdown
its output. Argument: the address of the page.
"""

from __future__ import annotations

import sys

import trafilatura


def main() -> int:
    """Write the content, or nothing where none is found."""
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
