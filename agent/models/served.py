"""A model behind an endpoint, for all protocols: one connection, streamed answers, and reports of
lost ones."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import orjson
from msgspec.structs import replace

from agent.models import failures, refusal_facts
from agent.models.answer import MOST_CHARACTERS, Answer
from agent.models.base import (
    ContextOverflow,
    Model,
    ModelAnswerBroken,
    ModelAnswerTooLong,
    ModelCall,
    ModelError,
    ModelReply,
    ModelRequest,
    OnCalled,
    OnDelta,
    uncalled,
)
from agent.models.brain import find_provider
from agent.models.endpoint import Endpoint
from agent.models.history import THOUGHTS, sign, signer_of
from agent.models.learnt import Lesson, ModelFacts
from agent.models.listed import ListedModel, read_list
from agent.models.spoken_calls import extract_calls, may_have_calls
from agent.pictures import blind, has_pictures, picture_urls, without_pictures
from memory.context.terse import extract

if TYPE_CHECKING:
    from agent.models.sdk_client import SdkClient

log = logging.getLogger(__name__)

Encode = Callable[[], bytes]
Json = dict[str, Any]
NO_HEADERS: Mapping[str, str] = {}
MOST_LESSONS = 8
"""The maximum number of refusals after which a request is rebuilt."""
_MOST_PICTURES = 4
"""Pictures that are left out of a request one by one; after that, all of them are."""
_KNOWN_PICTURES = 1_000
_LEAST_ROOM = 1_024
"""The minimum tokens for a shortened answer."""


class EndpointModel(Model):
    """A model asked through an official SDK, which is loaded at the first request. `on_called` is
    notified of the end of each request."""

    name = provider = ""
    is_free = False
    revision = 0
    LIST = "/models"
    """The path at which the endpoint lists its models."""

    def __init__(self, endpoint: Endpoint, learnt: ModelFacts | None = None) -> None:
        """Set the endpoint; `learnt` are the model's known facts, which grow."""
        self._endpoint, self.name, self.is_free = endpoint, endpoint.model, endpoint.is_free
        self.provider = endpoint.provider or endpoint.base_url
        self.learnt = learnt or ModelFacts()
        self._known = find_provider(endpoint.provider, endpoint.base_url, endpoint.quirks)
        self._client: SdkClient | None = None
        self._opening = asyncio.Lock()
        self._accepted: frozenset[str] = frozenset()  # pictures
        self._suspected: set[str] = set()
        self.on_called: OnCalled = uncalled

    @property
    def window(self) -> int:
        return self._endpoint.window

    @property
    def takes_tools(self) -> bool:
        own = self._endpoint.takes_tools and self._known.takes_tools
        return own and self.learnt.facts.get("tools") is not False

    @property
    def sees(self) -> bool:
        return self._known.sees and self.learnt.facts.get("pictures") is not False

    async def first_listed_model(self) -> str | None:
        """Return the first model that the endpoint lists; None if it lists none, or fails."""
        try:
            return next((one.name for one in await self.list_models()), None)
        except ModelError:
            return None

    async def list_models(self) -> list[ListedModel]:
        """Return all chat models that the endpoint lists. Raises ModelError."""
        provider = self._known
        if not provider.lists:
            raise failures.no_model_list_error(self._endpoint)
        client = await self._connect()
        return read_list(await client.fetch(self.LIST), provider)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _adapt(self, request: ModelRequest) -> ModelRequest:
        """Return the request adapted to the endpoint."""
        longest = [self._endpoint.max_tokens, self.learnt.number("longest")]
        most = min(filter(None, longest), default=0)
        if request.tools and not self.takes_tools:
            request = replace(request, tools=(), tool_choice="auto")
        return request.within(self._endpoint.temperature, most)

    async def reply(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        """Answer, streaming. The lesson of a refusal is stored, and the request is rebuilt; a part
        refused only in this request (thoughts of another key) is left out of it."""
        trial = Trial()
        while True:
            adapted = self._adapt(request)
            body = self._mark(self._to_neutral(adapted), adapted, trial) | trial.changes
            trial.version = self.learnt.version
            watch = _Watch(on_delta)
            try:
                reply = await self._stream_conversation(body, adapted, watch)
            except ModelError as error:
                trial.lessons += 1
                if watch.has_streamed or trial.lessons > MOST_LESSONS:
                    raise
                if not self._learn(body, adapted, error, trial):
                    raise
                await self.learnt.kept()
            else:
                self._accept(body, trial)
                if self.learnt.version != trial.version:
                    await self.learnt.kept()
                notices: tuple[str, ...] = ()
                if request.is_told:
                    notices = (*self.learnt.take_unreported(), *trial.notices)
                thoughts = sign(reply.thoughts, self._signer) if reply.thoughts else ""
                return replace(reply, thoughts=thoughts, notices=notices)

    @abstractmethod
    def _to_neutral(self, request: ModelRequest) -> Json:
        """Return a request's body, with its history in the shape that all protocols share."""

    @abstractmethod
    async def _stream_conversation(
        self, body: Mapping[str, Any], request: ModelRequest, on_delta: OnDelta
    ) -> ModelReply:
        """Send a body in the endpoint's protocol, and stream the answer. Raises ModelError."""

    @property
    def _smallest_refused(self) -> int:
        """The bytes of a request that is known to be too large; 0 if none is."""
        said = self._known.largest_body
        sizes = (said + 1 if said else 0, self.learnt.number("bytes"))
        return min(filter(None, sizes), default=0)

    @property
    def _signer(self) -> str:
        made = self.learnt.number("signer")
        return signer_of(self.provider, self.name) + (f"-{made}" if made else "")

    def _mark(self, body: Json, request: ModelRequest, trial: Trial) -> Json:
        """Return a body with the instructions for sending its history to this model."""
        messages = request.messages
        if (system := self.learnt.facts.get("system")) is not None:
            body["one_system" if system == "one" else "no_system"] = True
        if request.beside.thoughts:
            body["signer"] = self._signer
        trial.has_pictures = has_pictures(messages)
        if trial.has_pictures:
            refused = {*self.learnt.facts.get("refused", ()), *self._suspected}
            urls = [url for url in picture_urls(messages) if refusal_facts.digest(url) in refused]
            earlier = self._suspected - {*map(refusal_facts.digest, trial.left_out)}
            trial.suspected = [url for url in urls if refusal_facts.digest(url) in earlier]
            body["messages"] = without_pictures(messages, urls)
            if not self.sees:
                body["messages"] = blind(body["messages"])
        return body

    def _learn(self, body: Json, request: ModelRequest, error: ModelError, trial: Trial) -> bool:
        """Learn from a refusal; return whether the request is worth a retry."""
        given = [*(request.parameters or {})]
        lesson = refusal_facts.find_lesson(self._endpoint, body, error, self.learnt, given)
        if lesson is not None and trial.is_new(lesson):
            self.learnt.learn(lesson)
        if lesson is not None and self.learnt.version != trial.version:
            log.info("%s refused a request, which says something of: %s", self.name, lesson.fact)
            if lesson.fact != "bytes":
                return True
        length = refusal_facts.find_length(body)
        if (
            length
            and isinstance(error, ContextOverflow)
            and _LEAST_ROOM <= error.room < body[length]
        ):
            trial.changes[length] = error.room  # a shorter answer fits
            return True
        if refusal_facts.is_about_thoughts(error) and self._leave_out_thoughts(
            body, request, trial
        ):
            self.learnt.learn(Lesson("signer", self.learnt.number("signer") + 1))
            return True
        if refusal_facts.is_too_large(error):
            known = self._smallest_refused
            excess = error.sent - known + 1 if 0 < known < error.sent else 0
            return trial.leave_out_oldest(body["messages"], excess)
        if url := refusal_facts.find_bad_picture(body, error, self._accepted):
            if self._is_only_new(url, body):
                self._refuse([url], trial)
            trial.leave_out(url, body["messages"])
            self._suspected.update(map(refusal_facts.digest, trial.refused))
            return True
        return False

    def _is_only_new(self, url: str, body: Json) -> bool:
        """Return whether all other pictures of a request were accepted before."""
        others = {*map(refusal_facts.digest, picture_urls(body["messages"]))} - {
            refusal_facts.digest(url)
        }
        return others <= self._accepted

    def _leave_out_thoughts(self, body: Json, request: ModelRequest, trial: Trial) -> bool:
        """Leave thoughts out of this request; return whether there were any."""
        is_sent = (THOUGHTS in body or "protocol" in body) and bool(request.beside.thoughts)
        if not is_sent or "without_thoughts" in body:
            return False
        trial.changes["without_thoughts"] = True
        return True

    def _accept(self, body: Json, trial: Trial) -> None:
        """Remember the pictures that the model has accepted, and those that it refused."""
        if trial.has_pictures:
            taken = map(refusal_facts.digest, picture_urls(body["messages"]))
            self._accepted = frozenset([*self._accepted, *taken][-_KNOWN_PICTURES:])
        if refused := [*trial.refused, *trial.suspected]:
            self._refuse(refused, trial)
        self._suspected.difference_update(map(refusal_facts.digest, [*refused, *trial.left_out]))

    def _refuse(self, urls: Sequence[str], trial: Trial) -> None:
        """Store that pictures are refused, with a notice for the person whose request it is."""
        if self.learnt.learn(refusal_facts.refuse_pictures(urls)):
            trial.notices = (refusal_facts.describe_refused(self._endpoint),)

    @abstractmethod
    def _open(self) -> SdkClient:
        """Import the SDK and make its client, in a thread. Raises ModelRefused."""

    async def _ask(
        self,
        answer: Answer,
        encode: Encode,
        on_delta: OnDelta,
        request: ModelRequest,
        headers: Mapping[str, str] = NO_HEADERS,
        shown: Mapping[str, Any] | None = None,
    ) -> ModelReply:
        """Send the bytes made by `encode`, which is called once, and stream the answer. `shown` is
        the body for observers of requests (None: it is a part of one)."""
        begun = time.monotonic()
        first: list[float] = []
        sizes = [0]
        error, is_stopped = None, False

        def make() -> bytes:
            content = encode()
            sizes[0] = len(content)
            if 0 < (refused := self._smallest_refused) <= sizes[0]:
                raise failures.too_large(self._endpoint, refused)
            if shown is not None:
                request.on_sent(shown, content)
            return content

        try:
            return await self._stream(answer, make, on_delta, request, headers, first)
        except asyncio.CancelledError:
            is_stopped = True
            raise
        except ModelError as failure:
            error = failure
            error.sent = sizes[0]
            raise
        finally:
            waited = first[0] - begun if first else None
            lasted = time.monotonic() - begun
            self.on_called(ModelCall(self.name, self.provider, lasted, waited, error, is_stopped))

    async def _stream(
        self,
        answer: Answer,
        encode: Encode,
        on_delta: OnDelta,
        request: ModelRequest,
        headers: Mapping[str, str],
        first: list[float],
    ) -> ModelReply:
        """Return the streamed reply; `first` gets the time when the answer began."""
        client = self._client or await self._connect()
        try:
            options: dict[str, Any] = {"headers": headers} if headers else {}
            if request.is_hasty:
                options["max_retries"] = 0
            async with aclosing(client.chunks(encode, answer, options)) as chunks:
                await _read_stream(chunks, answer, on_delta, request.on_thought, first)
            may_be_empty = request.parameters is not None or answer.is_paused
            reply = finish_reply(self._endpoint, answer, may_be_empty)
            return _with_lifted(reply, request) if answer.THINKS_ALOUD else reply
        except ModelAnswerTooLong:
            answer.is_full = True
            if not answer.text.strip():
                request.on_lost(answer.reply(self.name))
                raise
            return answer.reply(self.name)
        except asyncio.CancelledError:  # the endpoint has read the prompt, and may keep writing
            request.on_lost(answer.reply(self.name))
            raise
        except ModelError as error:
            if answer.has_begun:
                request.on_lost(answer.reply(self.name))
            if isinstance(error, ModelAnswerBroken):
                error.text = answer.text
            raise

    async def _connect(self) -> SdkClient:
        async with self._opening:
            if self._client is None:
                self._client = await asyncio.to_thread(self._open)
            return self._client


class _Watch:
    """A callback that forwards streamed text, and records whether there was any."""

    def __init__(self, on_delta: OnDelta) -> None:
        self._on_delta, self.has_streamed = on_delta, False

    def __call__(self, piece: str) -> None:
        self.has_streamed = True
        self._on_delta(piece)


class Trial:
    """The changes of one request after its refusals: `changes` to its body. `lessons` counts the
    refusals, `refused` are the URLs of pictures that must have been the reason, and `notices` are
    for the person whose request it is."""

    def __init__(self) -> None:
        self.changes: Json = {}
        self.lessons = self.version = 0
        self.refused: list[str] = []
        self.left_out: list[str] = []
        self.suspected: list[str] = []  # left out as in an earlier, unfinished request
        self.notices: tuple[str, ...] = ()
        self.has_pictures = False
        self._facts: set[str] = set()
        self._tries = 0
        self._fewer = 1

    def is_new(self, lesson: Lesson) -> bool:
        """Return whether this request has no earlier lesson on the same fact: contradictory
        refusals are ignored."""
        is_list = isinstance(lesson.value, list)
        is_known = lesson.fact in self._facts and not is_list
        self._facts.add(lesson.fact)
        return not is_known

    def leave_out(self, url: str, messages: Sequence[Mapping[str, Any]]) -> None:
        """Replace a picture by words, or all of them after several attempts."""
        self._tries += 1
        self.left_out += [url] if self._tries <= _MOST_PICTURES else picture_urls(messages)
        if self._tries > _MOST_PICTURES:
            self.refused = picture_urls(messages)
            self.changes["messages"] = blind(messages)
        else:
            self.refused = [url]
            self.changes["messages"] = without_pictures(messages, [url])

    def leave_out_oldest(self, messages: Sequence[Mapping[str, Any]], excess: int) -> bool:
        """Replace the oldest pictures of a request that is too large by `excess` bytes, or, if that
        is unknown (0), twice as many at each attempt. The newest is last. Return whether there are
        any."""
        urls = [*dict.fromkeys(picture_urls(messages))]
        count = self._fewer
        if excess > 0:
            freed = [*accumulate(map(len, urls))]
            count = 1 + sum(size < excess for size in freed)
        else:
            self._fewer *= 2
        count = min(count, max(1, len(urls) - 1))
        self.changes["messages"] = without_pictures(messages, urls[:count])
        return bool(urls)


async def _read_stream(
    chunks: AsyncIterator[Iterable[object]],
    answer: Answer,
    on_delta: OnDelta,
    on_thought: OnDelta,
    first: list[float],
) -> None:
    async for came in chunks:
        text: list[str] = []  # text that came together is forwarded at once
        try:
            for chunk in came:
                piece = answer.add(chunk)
                if not first and (piece or answer.has_begun):
                    first.append(time.monotonic())
                if answer.thought:
                    _stream_text(text, on_delta)
                    on_thought(answer.thought)
                if piece:
                    text.append(piece)
                if answer.is_full:
                    return
        finally:  # including text before an error
            _stream_text(text, on_delta)


def _stream_text(text: list[str], on_delta: OnDelta) -> None:
    if text:
        on_delta("".join(text))
        text.clear()


def _with_lifted(reply: ModelReply, request: ModelRequest) -> ModelReply:
    """Return a reply with calls that the server left in the text as real calls."""
    if reply.tool_calls or reply.finish != "complete" or request.tool_choice == "none":
        return reply
    if not may_have_calls(reply.text):
        return reply
    offered = [tool["function"] for tool in request.tools]
    schemas = {one["name"]: one.get("parameters") or {} for one in offered}
    text, calls = extract_calls(reply.text, schemas)
    return replace(reply, text=text, tool_calls=calls, finish="tools") if calls else reply


def encode(body: Mapping[str, Any]) -> bytes:
    """Return a request's bytes. Raises ValueError."""
    return orjson.dumps(body, default=dict)


def finish_reply(endpoint: Endpoint, answer: Answer, may_be_empty: bool = False) -> ModelReply:
    """Return the reply of a finished stream. Raises ModelAnswerBroken for an invalid one."""
    reply = answer.reply(endpoint.model)
    if answer.finish and may_be_empty:
        return reply
    if not reply.tool_calls and not extract(reply.text)[0].strip():  # nothing that is shown
        if answer.is_full:
            raise failures.too_much(endpoint, f"more than {MOST_CHARACTERS:,} characters at once")
        if not answer.finish and (said := failures.find_words(answer.other)):
            raise failures.error_in_answer(endpoint, said)
        raise failures.empty_answer_error(endpoint, answer.finish)
    if not answer.is_whole:
        raise failures.connection_broken_error(endpoint)
    return reply
