"""Conditions of jobs: a tool is called without a model, and the job runs only if the result has
changed since the last check."""

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
"""The number of consecutive failed checks after which the chat is notified, and after which the job
is paused."""
AT_ONCE = 4
"""The maximum number of concurrent checks."""
PATIENCE = 120.0
"""The timeout of a check in seconds."""
LONGEST = 8_000
"""The maximum number of characters of a result that the model gets."""
Finding = Literal["new", "same", "failed"]
_PRINTED = re.compile(r"Exit code 0\.\n(.+)", re.DOTALL)


def digest_of(text: str) -> str:
    """Return the digest of a result, which is stored."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def judge_found(condition: str, before: str, text: str, *, is_error: bool) -> Finding:
    """Return whether a result is new compared with the digest `before`. A command is new if it
    succeeds and its output differs; the first result of other tools is only stored. A missing file
    is a result like any other, but a page that can't be read is not."""
    tool = condition.partition(":")[0]
    if tool == "shell" and not is_error:
        is_new = _PRINTED.match(text) is not None and digest_of(text) != before
        return "new" if is_new else "same"
    if is_error and tool != "read_file":
        return "failed"
    return "new" if before and digest_of(text) != before else "same"


class JobConditions:
    """The checks of conditions. They run in the background, so that a slow page delays nothing."""

    def __init__(self, runner: JobRunner) -> None:
        self._runner, self._conversations = runner, runner.kernel.conversations
        self._looking: set[int] = set()
        self._room = asyncio.Semaphore(AT_ONCE)
        self.tasks = BackgroundTasks()

    def check(self, job: JobRow, key: ConversationKey, quiet: str = "") -> None:
        """Start the check of a job that is due or new, and run the job if the result is new; do
        nothing if a check is already running."""
        if job.id not in self._looking:
            self._looking.add(job.id)
            self.tasks.start(self._check(job, key, quiet), f"look for job {job.id}")

    async def _check(self, job: JobRow, key: ConversationKey, quiet: str) -> None:
        try:
            async with self._room:
                text, is_error = await self._call(job, key)
            await self._apply_result(job, key, quiet, text, is_error)
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
                with speaking(ENGLISH):  # the model reads the result as well
                    return await agent.toolbox.run(call, surroundings)
        except TimeoutError:
            return f"{name} took longer than {PATIENCE:g} s.", True

    async def _apply_result(
        self, job: JobRow, key: ConversationKey, quiet: str, text: str, is_error: bool
    ) -> None:
        now = self._runner.clock()
        finding = judge_found(job.condition, job.found, text, is_error=is_error)
        if job.due > now:  # a new job; later checks are compared with this result
            after = replace(job, looked_at=now, found=job.found if is_error else digest_of(text))
            await self._runner.move(job, after)
            return
        is_again = job.retry_at > 0  # a run for the same result has failed
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
        """Store that a check has failed; the next check is at the job's next time."""
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
    """Return a check that allows the call, since the job's author wrote it; except that calls which
    only an owner may allow are refused unless `may_own`."""

    async def approve(wanted: Permission) -> None:
        if wanted.is_for_owner and not may_own:
            raise ToolError(f"{NOT_RUN} only an owner may allow it.")

    return approve
