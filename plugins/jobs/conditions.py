"""Conditions, which tell whether there is anything to ask a model about: a tool is called without
one, and its result is compared with the one before."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from typing import Literal
from uuid import uuid4

import orjson
from msgspec.structs import replace

from agent.tools import ToolError
from agent.tools.base import NOT_RUN, Approve, Permission
from bot.sending import address_of
from channels.language import ENGLISH, _, speaking
from channels.message import Reply
from memory.keys import ConversationKey
from memory.messages import ToolCall, mark_untrusted
from memory.record.store import StoreError
from memory.tasks import BackgroundTasks
from plugins.jobs.plans import plan_after
from plugins.jobs.record import JobRow
from plugins.jobs.runner import JobRunner

log = logging.getLogger(__name__)

TOLD, RESTS = 3, 10
"""Looks that fail in a row after which that is told, and the job rests."""
AT_ONCE = 4
"""Looks that are under way at the same time."""
PATIENCE = 120.0
"""Seconds for one of them."""
LONGEST = 8_000
"""Characters of what was found that the model is shown."""
Finding = Literal["new", "same", "failed"]
_PRINTED = re.compile(r"Exit code 0\.\n(.+)", re.DOTALL)


def digest_of(text: str) -> str:
    """Return the digest that is kept of a result."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def judge_found(condition: str, before: str, text: str, *, is_error: bool) -> Finding:
    """Return whether a result is new against that of the digest `before`. A command has something
    to say where it succeeds and prints anything; of what else there is, the first look is only
    kept. That a file is not there is a finding like any other; that a page can't be read is
    none."""
    tool = condition.partition(":")[0]
    if tool == "shell" and not is_error:
        is_new = _PRINTED.match(text) is not None and digest_of(text) != before
        return "new" if is_new else "same"
    if is_error and tool != "read_file":
        return "failed"
    return "new" if before and digest_of(text) != before else "same"


class JobConditions:
    """Looks, beside all else: a page that is slow holds up nothing."""

    def __init__(self, runner: JobRunner) -> None:
        self._runner, self._conversations = runner, runner.kernel.conversations
        self._looking: set[int] = set()
        self._room = asyncio.Semaphore(AT_ONCE)
        self.tasks = BackgroundTasks()

    def look(self, job: JobRow, key: ConversationKey, quiet: str = "") -> None:
        """Have a job that is due, or is new, look, and run if there is anything to say; unless that
        is under way."""
        if job.id not in self._looking:
            self._looking.add(job.id)
            self.tasks.start(self._look(job, key, quiet), f"look for job {job.id}")

    async def _look(self, job: JobRow, key: ConversationKey, quiet: str) -> None:
        try:
            async with self._room:
                text, is_error = await self._call(job, key)
            await self._settle(job, key, quiet, text, is_error)
            await self._runner.wake()
        except StoreError as error:
            log.warning("what job %d found was not kept; it looks again: %s", job.id, error)
        except Exception:
            log.exception("job %d could not look", job.id)
        finally:
            self._looking.discard(job.id)

    async def _call(self, job: JobRow, key: ConversationKey) -> tuple[str, bool]:
        """Return the result of the call, and whether it is an error."""
        address = address_of(job.place)
        conversation = await self._conversations.get(key)
        agent = self._runner.config.agent(conversation, address)
        name, _colon, text = job.condition.partition(":")
        argument = agent.toolbox.find_text_argument(name)
        if not argument:
            return f"The tool {name} is not offered here any more.", True
        person = self._runner.access.identify(address)
        approve = _approve_look(may_own=person is not None and person.is_owner)
        surroundings = replace(agent.surroundings, approve=approve, place=None, delegate=None)
        call = ToolCall(f"call_{uuid4().hex}", name, orjson.dumps({argument: text}).decode())
        try:
            async with asyncio.timeout(PATIENCE):
                with speaking(ENGLISH):  # the model reads it, too
                    return await agent.toolbox.run(call, surroundings)
        except TimeoutError:
            return f"{name} took longer than {PATIENCE:g} s.", True

    async def _settle(
        self, job: JobRow, key: ConversationKey, quiet: str, text: str, is_error: bool
    ) -> None:
        now = self._runner.clock()
        finding = judge_found(job.condition, job.found, text, is_error=is_error)
        if job.due > now:  # a new one, which has something to compare with from now on
            after = replace(job, looked_at=now, found=job.found if is_error else digest_of(text))
            await self._runner.move(job, after)
            return
        is_again = job.retry_at > 0  # a run of what was new then has failed
        moved = replace(plan_after(job, now, quiet), looked_at=now)
        if finding == "failed":
            await self._fail(job, moved, text, now)
        elif finding == "new" or (is_again and job.found == digest_of(text)):
            after = replace(moved, found=digest_of(text))
            shown = mark_untrusted(text[:LONGEST], job.condition.partition(":")[0])
            await self._runner.run(job, key, after, now, found=shown)
        else:
            await self._runner.move(job, replace(moved, found=digest_of(text), failures=0))

    async def _fail(self, job: JobRow, moved: JobRow, why: str, now: float) -> None:
        """Keep that a look has failed; the next is the next time that it is due."""
        why = " ".join(why.split())[:300]
        after = replace(moved, failures=job.failures + 1)
        if after.failures >= RESTS and after.state == "active":
            after = replace(after, state="paused", why=f"{RESTS} runs in a row failed")
        if after.failures not in (TOLD, RESTS):
            await self._runner.note_run(job, after, "failed", why, now)
            return
        with self._runner.speaking_to(job):
            said = _("Job {n} could not look what is new: {why}", n=job.id, why=why)
            if after.state == "paused":
                said += "\n\n" + _("It is paused now; /jobs resume {n} resumes it.", n=job.id)
        await self._runner.tell_run(job, after, Reply(said), "failed", now, why)
        sentence = f"Job {job.id} failed: {why}"
        await self._runner.kernel.alerts.job_failed(job.id, sentence, address_of(job.place))


def _approve_look(*, may_own: bool) -> Approve:
    """Return a check that allows the call, since the job's author wrote it; but what only an owner
    may allow is refused unless `may_own`."""

    async def approve(wanted: Permission) -> None:
        if wanted.is_for_owner and not may_own:
            raise ToolError(f"{NOT_RUN} only an owner may allow it.")

    return approve
