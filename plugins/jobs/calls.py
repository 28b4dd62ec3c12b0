"""Jobs that are called over HTTP: the verification of calls, and one run per call.

The secrets are in the environment or in `.env`, like all secrets. They are long enough to make
guessing hopeless without a lockout, which could exclude other callers from the same address.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import secrets
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from uuid import uuid4

import msgspec
import orjson
from msgspec import Struct

from bot.delivery import to_received
from bot.received import key_of
from bot.sending import address_of
from bot.settings.layers import HOOK_SECRET
from bot.turns import Turns
from channels.base import Bot
from channels.guess_limit import is_weak
from channels.message import Address, HookCall, NotCompleted, clean_text
from memory.messages import mark_untrusted
from memory.record.database import Database
from memory.record.mailbox import InboxRow
from memory.record.store import StoreError
from plugins.jobs import record as rows
from plugins.jobs.record import RunRow
from plugins.jobs.runs import JobRunner

log = logging.getLogger(__name__)

MINUTE = 60.0
QUIET = 10.0
"""The seconds for which forged calls are counted before the count is stored and logged."""


def secret_name(hook: str) -> str:
    """Return the name of the environment variable with a hook's secret."""
    return HOOK_SECRET + hook.upper().replace("-", "_")


class VerifiedCall(Struct, frozen=True):
    """A verified call: its job, its address, and the text for its turn."""

    job: int
    address: Address
    text: str
    delivery: str


class HookCalls:
    """The handler of hook calls."""

    def __init__(self, runner: JobRunner, turns: Turns, known: Mapping[str, str]) -> None:
        self._runner, self._turns, self._known, self._uptime = runner, turns, known, time.monotonic
        self._forged, self._written = Counter[str](), -QUIET
        self._nobodys = secrets.token_urlsafe(32)

    def has_secret(self, hook: str) -> bool:
        """Return whether a valid secret is set for this hook."""
        return not is_weak(self._secret_of(hook))

    def _secret_of(self, hook: str) -> str:
        return self._known.get(secret_name(hook), "").strip()

    async def opens(self, call: HookCall) -> bool:
        """Return whether a call has the hook's secret or a valid signature."""
        secret = self._secret_of(call.name) if self.has_secret(call.name) else self._nobodys
        if call.signature:
            proof = hmac.new(secret.encode(), call.body, hashlib.sha256).hexdigest()
            is_right = _same(call.signature.strip().lower(), f"sha256={proof}")
        else:
            is_right = _same(call.secret, secret)
        if not is_right:
            await self._note_forged(call.name)
        return is_right

    async def _note_forged(self, hook: str) -> None:
        """Count a call without the secret. During a flood, the counts are stored only from time to
        time."""
        self._forged[hook if self.has_secret(hook) else ""] += 1
        now = self._uptime()
        if now - self._written < QUIET:
            return
        self._written, counts, self._forged = now, self._forged, Counter()
        for name, calls in counts.items():
            which = f"the hook {name!r}" if name else "any hook"
            log.warning("without the secret of %s; calls refused: %d", which, calls)
        at = self._runner.clock()

        def work(db: Database) -> None:
            for name, calls in counts.items():
                rows.count_forged(db, name, calls, at)

        try:
            await self._runner.store.write(work, is_synced=False)
        except StoreError:
            log.exception("forged calls could not be counted")

    async def call(self, bot: Bot, call: HookCall) -> bool:
        """Run the job of a verified call, in the process that owns its conversation; return False
        for a call that was already made. Raises NotCompleted."""
        proven = await self.read(call)
        done = await bot.call_owner(proven.address, "jobs.call", msgspec.json.encode(proven))
        return msgspec.json.decode(done, type=bool)

    async def execute(self, body: bytes) -> bytes:
        """Run a `VerifiedCall` given as JSON; return whether it is new, as JSON."""
        is_new = await self.take(msgspec.json.decode(body, type=VerifiedCall))
        return msgspec.json.encode(is_new)

    async def read(self, call: HookCall) -> VerifiedCall:
        """Return a verified call with the text for its job's turn. Raises NotCompleted."""
        job = await self._runner.store.read(lambda db: rows.find_hook(db, call.name))
        if job is None:
            sentence = f"There is no hook {call.name}: /jobs hook makes one."
            raise NotCompleted("refused", sentence)
        filled = await asyncio.to_thread(fill, job.text, call.body, call.name)
        head = f"[Job {job.id}, the hook {call.name}. Nobody is here to answer questions.]"
        delivery = hashlib.sha256((call.delivery or uuid4().hex).encode()).hexdigest()[:32]
        return VerifiedCall(job.id, address_of(job.place), f"{head}\n{filled}", delivery)

    async def take(self, call: VerifiedCall) -> bool:
        """Add a call to the queue of its conversation; return False if it was added before. Raises
        NotCompleted, and StoreError."""
        now, runner = self._runner.clock(), self._runner
        job = await runner.store.read(lambda db: rows.find(db, call.job))
        if job is None or job.state != "active":
            why = job.why if job else "it was deleted"
            raise NotCompleted("refused", f"This job does not run: {why}.")
        if why := await runner.find_why_not(job):
            await runner.pause(job, why)
            raise NotCompleted("refused", f"This job does not run: {why}.")
        key = runner.resolve(job)
        rate, midnight = runner.settings(key).hook_rate, runner.midnight()
        message = InboxRow(
            0,
            job.place,
            f"hook-{job.id}-{call.delivery}",
            call.text,
            "",
            now,
            branch=key.id if key.id != key_of(address_of(job.place)).id else "",
            is_outside=True,
        )

        def work(db: Database) -> InboxRow | None:
            row = rows.enqueue_call(db, RunRow(job.id, now, now), message)
            if row is None:
                return None
            # An exception from here on rolls back the transaction.
            if rows.count_runs_since(db, job.id, now - MINUTE) > rate:
                raise _too_fast(rate)
            if job.day_budget and rows.spent_since(db, job.id, midnight) >= job.day_budget:
                raise NotCompleted("spent", "This job has spent what it may on one day.")
            return row

        if self._turns.is_busy(key):
            raise NotCompleted("busy", "Too many messages wait in this conversation.")
        with self._turns.expect(key):
            row = await runner.store.write(work)
        if row is not None:
            runner.kernel.bot.dispatch(to_received(row, key, None))
        return row is not None


def _too_fast(rate: int) -> NotCompleted:
    sentence = f"This job may be called {rate} times a minute (jobs.hook_rate)."
    return NotCompleted("too_fast", sentence, int(MINUTE))


def _same(one: str, other: str) -> bool:
    """Compare two texts in constant time."""
    return hmac.compare_digest(
        one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass")
    )


# --- the content of a call in its job's turn ------------------------------------------------------

# The template is written by the job's author, the body by anybody. So the body is not inserted into
# the template. The template stays unchanged, and the values that it names in braces follow it
# between marks, under these names.

_NAME = re.compile(r"\{([\w-]+(?:\.[\w-]+)*)\}")
WHOLE = "body"
"""The name of the whole body as text."""
LONGEST_VALUE, LONGEST = 4_000, 16_000
"""The maximum number of characters of a value that a template names, and of the whole body."""


def fill(template: str, body: bytes, hook: str) -> str:
    """Return a template, followed by the body's values for the names in it
    ("{pull_request.title}"); without names, followed by the whole body. In a list, a number is an
    index from 0."""
    names = [*dict.fromkeys(_NAME.findall(template))] or [WHOLE]
    text, tree = body.decode("utf-8", "replace"), _parse(body)
    values = [f"{name}: {_value(name, text, tree)}" for name in names]
    content = clean_text("\n".join(values))
    return f"{template}\n\n{mark_untrusted(content, f'hook {hook}')}"


def _parse(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except ValueError:
        return None


def _value(name: str, text: str, tree: object) -> str:
    if name == WHOLE:
        return _cut(text, LONGEST)
    found = _find(name.split("."), tree)
    if found is None:
        return "(nothing)"
    return _cut(found if isinstance(found, str) else orjson.dumps(found).decode(), LONGEST_VALUE)


def _find(path: Sequence[str], tree: object) -> object:
    """Return the value at a path; None if there is none."""
    for step in path:
        if isinstance(tree, Mapping):
            tree = tree.get(step)
        elif isinstance(tree, list) and step.isdecimal() and int(step[:9]) < len(tree):
            tree = tree[int(step[:9])]
        else:
            return None
    return tree


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[:most]}… (cut; {len(text):,} characters came)"
