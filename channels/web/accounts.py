"""Signing in and out: by the owner's token, by a name with its password, or by a link that works
once. A browser stores a cookie that scripts can't read. Its owner is looked up at every request,
and while events stream, so that a person who is signed out gets no more events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from channels.base import KeyHolder, Login, Logins
from channels.guess_limit import CrowdedError, GuessQueues, Throttle
from channels.web.guard import (
    COOKIE,
    CROWDED,
    HOLDER,
    LOGIN,
    Refused,
    TokenAuth,
    peer_of,
    refuse_locked_out,
)
from channels.web.operations import Operation, Problem, as_json, body
from channels.web.shapes import (
    Invitation,
    NameAndPassword,
    NewPassword,
    Nothing,
    State,
    Visitor,
)

MONTH = 30 * 24 * 3600  # seconds
WORDS = 10_000
"""The maximum number of bytes of a body."""
LOOK = 1.0
"""The interval in seconds for checking that a follower of events is still signed in."""
WRONG_TOKEN = "Wrong password or access key."
WRONG_PASSWORD = "Wrong name or password."
NOT_YOURS = "That is not the password that you have now."
NO_NAME = "You have no password here: you signed in with the token, or from the bot's machine."
NO_LOGINS = "Nobody can sign in here, since the feature for it (plugins/accounts) is not there."
NO_INVITATION = (
    "This link is not valid any more: it works once, within three days. Ask the person who "
    "sent it for a new one."
)


class Accounts(Struct, frozen=True):
    """The operations. `throttle` counts guesses, by address or by login; `lanes` queue guesses that
    need a hash; `language_of` returns the language of a user of the page ("": the owner)."""

    logins: Logins
    language_of: Callable[[str], str]
    lock: TokenAuth
    throttle: Throttle
    lanes: GuessQueues

    @property
    def operations(self) -> tuple[Operation, ...]:
        problems = (400, 401, 403, 413, 429)
        return (
            Operation(
                "POST",
                "/api/login",
                "Sign this browser in: with the token, or with a name and its password.",
                self.sign_in,
                takes=NameAndPassword,
                gives=State,
                problems=problems,
                is_open=True,
            ),
            Operation(
                "POST",
                "/api/join",
                "Come in by a link that was sent to you, and perhaps choose a password.",
                self.join,
                takes=Invitation,
                gives=State,
                problems=problems,
                is_open=True,
            ),
            Operation(
                "POST",
                "/api/logout",
                "Sign this browser out.",
                self.sign_out,
                takes=Nothing,
                gives=State,
            ),
            Operation(
                "POST",
                "/api/password",
                "Choose another password. Your other browsers are signed out.",
                self.change_password,
                takes=NewPassword,
                gives=State,
                problems=(400, 403, 413, 429),
            ),
            Operation(
                "GET", "/api/me", "The person who is signed in here.", self.show_me, gives=Visitor
            ),
        )

    async def sign_in(self, request: Request) -> Response:
        given = await body(request, NameAndPassword, WORDS)
        if given.token or not given.name:
            return await self._sign_in_owner(request, given.token.strip())

        async def is_right() -> bool:
            return await self.logins.is_password(given.name, given.password)

        guess = f"{given.name}\0{given.password}"
        if not await self._check_guess(peer_of(request.scope), guess, is_right):
            raise Problem(401, WRONG_PASSWORD)
        return _with_cookie(request, await self.logins.begin(given.name, "", _browser(request)))

    async def _sign_in_owner(self, request: Request, token: str) -> Response:
        is_right = bool(self.lock.token) and self.lock.opens(token)
        if seconds := self.throttle.check(peer_of(request.scope), token, is_right):
            raise _problem(refuse_locked_out(seconds))
        if not is_right:
            raise Problem(401, WRONG_TOKEN)
        secret = await self.logins.begin("", self.lock.proof, _browser(request))
        if not secret:
            raise Problem(403, NO_LOGINS)
        return _with_cookie(request, secret)

    async def join(self, request: Request) -> Response:
        given, peer = await body(request, Invitation, WORDS), peer_of(request.scope)
        if seconds := self.throttle.wait(peer):
            raise _problem(refuse_locked_out(seconds))
        is_invited = await self.logins.is_invited(given.code)  # nothing else is worth a hash
        if seconds := self.throttle.check(peer, given.code, is_invited):
            raise _problem(refuse_locked_out(seconds))
        if not is_invited:
            raise Problem(401, NO_INVITATION)
        try:
            async with self.lanes.enter(peer):
                secret = await self.logins.join(given.code, given.password, _browser(request))
        except CrowdedError:
            raise _problem(CROWDED) from None
        if secret is None:  # it was used meanwhile
            raise Problem(401, NO_INVITATION)
        return _with_cookie(request, secret)

    async def change_password(self, request: Request) -> Response:
        given, login = await body(request, NewPassword, WORDS), login_of(request)
        if login is None or not login.user:
            raise Problem(400, NO_NAME)

        async def is_right() -> bool:
            return await self.logins.change_password(login, given.current, given.password)

        if not await self._check_guess(f"login {login.number}", given.current, is_right):
            raise Problem(403, NOT_YOURS)
        return as_json({"status": "ok"})

    async def _check_guess(
        self, guesser: str, guess: str, is_right: Callable[[], Awaitable[bool]]
    ) -> bool:
        """Return whether a guess is right whose check needs a hash; it is only checked if its
        guesser is not locked out. Raises Problem."""
        if seconds := self.throttle.wait(guesser, guess):
            raise _problem(refuse_locked_out(seconds))
        try:
            async with self.lanes.enter(guesser):
                if seconds := self.throttle.wait(guesser, guess):  # by the guesses before it
                    raise _problem(refuse_locked_out(seconds))
                found = await is_right()
                if seconds := self.throttle.check(guesser, guess, found):
                    raise _problem(refuse_locked_out(seconds))
                return found
        except CrowdedError:
            raise _problem(CROWDED) from None

    async def sign_out(self, request: Request) -> Response:
        await body(request, Nothing, WORDS)
        if (login := login_of(request)) is not None:
            await self.logins.end(login.number)
        response = as_json({"status": "ok"})
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response

    async def show_me(self, request: Request) -> Response:
        holder: KeyHolder = getattr(request.state, HOLDER)
        login = login_of(request)
        number = login.number if login else 0
        language = self.language_of(holder.user)
        me = Visitor(user=holder.user, is_signed_in=bool(login), login=number, language=language)
        return as_json(me.model_dump())

    async def while_signed_in(
        self, request: Request, events: AsyncIterator[bytes]
    ) -> AsyncIterator[bytes]:
        """Yield the same events, until their follower is signed out."""
        login = login_of(request)
        if login is None:  # a token in the header, or the person at this machine
            async for one in events:
                yield one
            return
        following = _Follower(self.logins, login.number)
        upcoming = asyncio.ensure_future(_next_of(events))
        try:
            while await following.may_have(upcoming):
                yield upcoming.result()
                upcoming = asyncio.ensure_future(_next_of(events))
        except _StreamEnd:
            return
        finally:
            upcoming.cancel()
            await asyncio.gather(upcoming, return_exceptions=True)


class _StreamEnd(Exception):
    """The end of the events; a task can't raise StopAsyncIteration."""


async def _next_of(events: AsyncIterator[bytes]) -> bytes:
    try:
        return await anext(events)
    except StopAsyncIteration:
        raise _StreamEnd from None


class _Follower:
    """A follower of events; its login is checked when somebody is signed out, and once a second."""

    def __init__(self, logins: Logins, number: int) -> None:
        self._logins, self._number = logins, number
        self._looked = asyncio.get_running_loop().time()

    async def may_have(self, upcoming: asyncio.Future[bytes]) -> bool:
        """Wait for the next event; return False if its follower was signed out before it."""
        while True:
            changed = asyncio.ensure_future(self._logins.changed.wait())
            try:
                await asyncio.wait(
                    (upcoming, changed), timeout=LOOK, return_when=asyncio.FIRST_COMPLETED
                )
                is_due = changed.done() or self._is_due
            finally:
                changed.cancel()
            if is_due and not await self._is_in():
                return False
            if upcoming.done():
                return True

    @property
    def _is_due(self) -> bool:
        return asyncio.get_running_loop().time() - self._looked >= LOOK

    async def _is_in(self) -> bool:
        self._looked = asyncio.get_running_loop().time()
        return await self._logins.is_in(self._number)


def login_of(request: Request) -> Login | None:
    """Return the browser's login, as found by the guard; None for other ways to authenticate."""
    login: Login | None = getattr(request.state, LOGIN, None)
    return login


def _browser(request: Request) -> str:
    return request.headers.get("user-agent", "")


def _problem(refused: Refused) -> Problem:
    return Problem(refused.status, refused.sentence, retry_after=refused.seconds)


def _with_cookie(request: Request, secret: str) -> Response:
    response = as_json({"status": "ok"})
    is_secure = request.scope["scheme"] == "https"
    response.set_cookie(COOKIE, secret, MONTH, httponly=True, samesite="strict", secure=is_secure)
    return response
