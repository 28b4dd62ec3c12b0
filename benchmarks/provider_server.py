"""A server with ten providers, each under its own path. It checks every request against the
provider's rules, counts refusals, and answers from a script."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

from benchmarks.provider_answers import ANSWER, Move, Script, by_chat, by_messages, by_responses
from benchmarks.provider_profiles import PROFILES, Profile
from benchmarks.provider_rules import Asked, Rule

Json = dict[str, Any]
QUESTION = "Question"
"""The first word of each question of a person."""
_PICTURE = re.compile(rb"iVBORw0KGgo[A-Za-z0-9+/=]*")
Place = tuple[str, str, str]
_ON_ITS_WAY = 2.0  # maximum seconds from a refusal until its lesson is on disk
_AT_ONCE = 0.5  # seconds in which a second request may have been sent before the first refusal


@dataclass
class Tally:
    """The statistics of one provider. `refused` and `lessons` are by rules; `repeated` counts
    requests that came again unchanged after a refusal, `misled` answers to incorrect histories."""

    requests: int = 0
    turns: int = 0
    dead: int = 0
    unanswered: int = 0
    repeated: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    lessons: Counter[str] = field(default_factory=Counter)
    misled: Counter[str] = field(default_factory=Counter)

    @property
    def faults(self) -> int:
        counted = sum(self.refused.values()) + sum(self.misled.values())
        return counted + self.dead + self.unanswered + self.repeated


@dataclass
class Fault:
    """A kind of fault: its first example and its count."""

    example: str
    count: int = 0


class ProviderServer:
    """The server, on a free port of the loopback interface; an asynchronous context manager.

    `asked` names the last requested provider, `faults` has the kinds of faults, each with an
    example. `is_troubled` means that the script caused a failure since the last reset. A request
    that comes while `holds` is set waits for `release`; with `wants_gate` the next answer is a call
    that waits at the gate.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self.tallies: defaultdict[str, Tally] = defaultdict(Tally)
        self.faults: dict[str, Fault] = {}
        self.base_url = self.asked = ""
        self.is_troubled = False
        self.wants_gate = self.holds = False
        self.held, self._released = asyncio.Event(), asyncio.Event()
        self.forget()
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/{profile}/v1/chat/completions", self._ask)
        app.router.add_post("/{profile}/v1/responses", self._ask)
        app.router.add_post("/{profile}/v1/messages", self._ask)
        app.router.add_post("/{profile}/v1/messages/count_tokens", self._count)
        app.router.add_post("/voice/v1/audio/transcriptions", self._hear)
        app.router.add_get("/{place:.*}", self._list)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.base_url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def forget(self) -> None:
        """Delete all lessons and refusals: a bot on a fresh folder knows nothing, and may learn
        everything again."""
        self._taught: dict[tuple[Place, str | frozenset[bytes]], float] = {}
        self._excused: set[tuple[Place, str]] = set()
        self._least: dict[Place, int] = {}
        self._refused: set[bytes] = set()
        self._taken: defaultdict[tuple[str, str], set[bytes]] = defaultdict(set)  # pictures
        self._before, self._begun = {*self._refused}, 0.0

    def begin(self) -> None:
        """Record the begin of a turn."""
        self.is_troubled = self.wants_gate = self.holds = False
        self.held = asyncio.Event()
        self._before, self._begun = {*self._refused}, time.monotonic()

    def kill(self) -> None:
        """Record that the bot is killed in this turn: lessons of this turn or from just before it
        may not be on disk yet."""
        since = self._begun - _ON_ITS_WAY
        self._taught = {lesson: at for lesson, at in self._taught.items() if at < since}
        self._refused = {*self._before}
        self._taken.clear()

    def hold(self) -> None:
        """Make the next request wait."""
        self.holds = True
        self.held, self._released = asyncio.Event(), asyncio.Event()

    def release(self) -> None:
        self.holds = False
        self._released.set()

    # --- requests ---

    async def _ask(self, request: web.Request) -> web.StreamResponse:
        profile = PROFILES[request.match_info["profile"]]
        asked = await _read(request)
        if (refusal := self.check(profile, asked)) is not None:
            return refusal
        if self.holds:
            self.holds = False
            self.held.set()
            await self._released.wait()
        move = self._move(profile, asked)
        return await self._act(request, profile, asked, move)

    async def _count(self, request: web.Request) -> web.StreamResponse:
        profile = PROFILES[request.match_info["profile"]]
        asked = await _read(request)
        counted = Asked({"max_tokens": 1, **asked.body}, asked.raw, asked.model)
        if (refusal := self.check(profile, counted)) is not None:
            return refusal
        return web.json_response({"input_tokens": len(asked.raw) // 4})

    async def _hear(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        return web.json_response({"text": f"{QUESTION}: what did I say?"})

    async def _list(self, request: web.Request) -> web.StreamResponse:
        profile = PROFILES.get(request.path.split("/")[1])
        names = profile.models if profile else ()
        return web.json_response({"object": "list", "data": [{"id": name} for name in names]})

    # --- rules ---

    def check(self, profile: Profile, asked: Asked) -> web.Response | None:
        """Return the refusal of a request; None if it is accepted."""
        tally, self.asked = self.tallies[profile.name], profile.name
        tally.requests += 1
        digest = hashlib.sha256(profile.name.encode() + asked.raw).digest()
        for rule, words in _breaches(profile, asked):
            if rule.is_silent:
                tally.misled[rule.name] += 1
                self._keep(profile, asked, rule.name, words)
                continue
            if digest in self._refused:
                tally.repeated += 1
                self._keep(profile, asked, f"again unchanged, {rule.name}", words)
            self._refused.add(digest)
            if self._is_lesson(profile, asked, rule, words):
                tally.lessons[rule.name] += 1
            else:
                tally.refused[rule.name] += 1
                self._keep(profile, asked, rule.name, words)
            return _response(profile.say_refusal(words, rule.status), rule.status)
        self._taken[profile.name, asked.model].update(_PICTURE.findall(asked.raw))
        return None

    def _is_lesson(self, profile: Profile, asked: Asked, rule: Rule, words: str) -> bool:
        """Return True if this refusal could not be avoided."""
        place = (profile.name, asked.model, rule.name)
        if rule.teaches == "less":
            least = self._least.get(place, 1 << 60)
            self._least[place] = min(least, len(asked.raw))
            return len(asked.raw) < least
        if rule.name == "pictures":
            return rule.teaches == "once" and self._is_new_to_see(place, asked)
        about = words * ("parameters" in rule.name)
        now, lesson = time.monotonic(), (place, about)
        is_new = lesson not in self._taught
        if not is_new and now - self._taught[lesson] < _AT_ONCE and lesson not in self._excused:
            self._excused.add(lesson)  # e.g. a turn and a summary are requested at once
            is_new = True
        self._taught.setdefault(lesson, now)
        return rule.teaches == "once" and is_new

    def _is_new_to_see(self, place: Place, asked: Asked) -> bool:
        """Return True if no request with a subset of the suspect pictures was refused before. A
        refusal does not name the picture, and pictures that were accepted are excluded."""
        may_be = frozenset(_PICTURE.findall(asked.raw)) - self._taken[place[:2]]
        is_new = bool(may_be) and not any(
            where == place and isinstance(known, frozenset) and known <= may_be
            for where, known in self._taught
        )
        self._taught.setdefault((place, may_be), time.monotonic())
        return is_new

    def _keep(self, profile: Profile, asked: Asked, kind: str, words: str) -> None:
        self.note(f"{profile.name}: {kind}", f"{asked.model}: {words}\n{_outline(asked.body)}")

    def note(self, kind: str, example: str) -> None:
        """Count a fault of this kind."""
        self.faults.setdefault(kind, Fault(example)).count += 1

    # --- answers ---

    def _move(self, profile: Profile, asked: Asked) -> Move:
        if not _is_turn(asked.body):
            return self.script.summary()
        may_call = bool(asked.body.get("tools")) and _choice(asked.body) == "auto"
        if self.wants_gate and may_call:
            self.wants_gate = False
            return self.script.waiting()
        is_claude = profile.protocol == "messages"
        thinks = not is_claude or asked.body.get("thinking", {}).get("type") not in (
            None,
            "disabled",
        )
        thoughts = profile.thoughts if thinks else ""
        move = self.script.answer(thoughts, may_call=may_call, is_claude=is_claude)
        self.is_troubled |= not move.is_clean
        return move

    async def _act(
        self, request: web.Request, profile: Profile, asked: Asked, move: Move
    ) -> web.StreamResponse:
        if move.status != 200:
            return _response(
                profile.say_refusal("Something is wrong here.", move.status), move.status
            )
        if move.end == "json":
            return web.json_response({"error": {"message": "no capacity", "code": 1305}})
        prompt = len(asked.raw) // 4
        if profile.protocol == "responses":
            pieces = by_responses(move, asked.model, prompt)
        elif profile.protocol == "messages":
            pieces = by_messages(move, asked.model, prompt)
        else:
            pieces = by_chat(move, asked.model, profile.thoughts, prompt)
        kind = {"Content-Type": "text/event-stream; charset=utf-8"}
        if move.end != "break":
            return web.Response(body=b"".join(pieces), headers=kind)
        response = web.StreamResponse(headers=kind)
        await response.prepare(request)
        await response.write(b"".join(pieces))
        if request.transport is not None:
            request.transport.abort()
        return response


async def _read(request: web.Request) -> Asked:
    raw = await request.read()
    body = json.loads(raw)
    return Asked(body, raw, str(body.get("model", "")))


def _breaches(profile: Profile, asked: Asked) -> Iterator[tuple[Rule, str]]:
    for rule in profile.rules:
        for words in rule.breaches(asked):
            yield rule, words


def _choice(body: Mapping[str, Any]) -> object:
    choice = body.get("tool_choice", "auto")
    return choice.get("type", "auto") if isinstance(choice, dict) else choice


def _is_turn(body: Mapping[str, Any]) -> bool:
    """Return True if a request contains a person's question; a request for a summary does not.
    Without tools, results of earlier calls may follow the question as text, and a summary with
    answers in it may precede the question."""
    if body.get("tools"):
        return True
    said = body.get("messages") or body.get("input") or [{}]
    people = [str(one["content"]) for one in said if one.get("role") == "user" and one["content"]]
    last = people[-1][-12_000:] if people else ""
    return last.rfind(QUESTION) > last.rfind(ANSWER) or " returned]" in last


def _response(said: object, status: int) -> web.Response:
    if isinstance(said, str):
        return web.Response(text=said, status=status, content_type="text/html")
    return web.json_response(said, status=status)


def _outline(body: Mapping[str, Any]) -> str:
    """Return the last messages of a request, a line for each."""
    said = body.get("messages") or body.get("input") or []
    lines = [f"    {n}: {json.dumps(one, ensure_ascii=False)[:260]}" for n, one in enumerate(said)]
    return "\n".join(lines[-8:])
