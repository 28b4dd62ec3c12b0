"""The hooks of a conversation's files."""

from __future__ import annotations

from memory.mirror import Mirror
from plugins.api import Verb, hookimpl
from plugins.context_files.commands import export, import_
from plugins.context_files.mirror import FileMirror

_VERBS = (
    Verb(
        "context",
        "export",
        "save the whole conversation as files (export markdown: to read)",
        export,
        after="search",
    ),
    Verb(
        "context",
        "import",
        "add the turns of an exported file, which may come along (import context.json)",
        import_,
        after="export",
        is_slow=True,
        takes_files=True,
    ),
)


@hookimpl
def parley_mirror() -> type[Mirror]:
    return FileMirror


@hookimpl
def parley_verbs() -> list[Verb]:
    return [*_VERBS]
