"""The process in which the main content of a web page is found.

Whoever wrote the page is a stranger, and the library that finds it (trafilatura) takes half a
minute for 800 kB that were made for it: so it works in a process that takes limits upon itself
first. The page, as UTF-8, is its standard input, the content as Markdown its output. Arguments:
megabytes of memory, seconds of computing, the address of the page.
"""

from __future__ import annotations

import resource
import sys


def main() -> int:
    """Write the content, or nothing where none is found."""
    megabytes, seconds, address = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    limits = {"RLIMIT_AS": megabytes << 20, "RLIMIT_CPU": seconds, "RLIMIT_CORE": 0}
    limits["RLIMIT_FSIZE"] = 0  # it writes into a pipe, and no file
    for name, limit in limits.items():
        resource.setrlimit(getattr(resource, name), (limit, limit))
    import trafilatura  # noqa: PLC0415 - what it takes is limited, too

    content = trafilatura.extract(
        sys.stdin.buffer.read().decode("utf-8", "replace"),
        url=address,
        output_format="markdown",
        include_comments=False,
        include_links=True,
        favor_recall=True,
    )
    sys.stdout.buffer.write((content or "").encode("utf-8", "replace"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
