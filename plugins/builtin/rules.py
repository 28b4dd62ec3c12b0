"""The engine of the hook rules (`plugins/rules`): it receives events and carries out the rules."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterator

from msgspec import Struct, field

from memory.conversation import Conversation
from memory.events import NOTHING, EventName
from plugins.api import Event, HookContext, Listener, Verdict, hookimpl
from plugins.rules import Rule
from plugins.rules.conditions import RuleEvent
from plugins.rules.rule import CompactContext, InjectMessage, LogAction, Notify

log = logging.getLogger(__name__)

BEFORE_A_STEP: frozenset[EventName] = frozenset(
    ("session_start", "turn_start", "tool_start", "tool_end")
)
"""The events after which the model makes another request in the same turn."""
LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class RuleCount(Struct):
    """The number of a rule's actions in a conversation, the time of the last one (monotonic clock,
    in seconds), and the number of tool calls that had ended by then."""

    fires: int = 0
    last: float = -math.inf
    calls: int = 0

    def allows(self, rule: Rule, now: float) -> bool:
        """Return whether the rule may act again."""
        is_spent = 0 < rule.max_fires <= self.fires
        return not is_spent and now - self.last >= rule.cooldown


class RuleState(Struct):
    """The counts of a conversation while the bot runs: tool calls in all and before the last
    compaction, each rule's tally, and the texts that wait for the model's next request."""

    calls: int = 0
    compacted_at: int = 0
    compaction: int = 0
    tallies: dict[str, RuleCount] = field(default_factory=dict)
    waiting: tuple[str, ...] = ()

    def count(self, event: Event, conversation: Conversation) -> None:
        """Register a compaction, and then a tool call that has ended."""
        newest = conversation.context.replayed.compaction
        if newest != self.compaction:
            self.compaction, self.compacted_at = newest, self.calls
        self.calls += event.name == "tool_end"

    def tally(self, rule: Rule) -> RuleCount:
        return self.tallies.setdefault(rule.id, RuleCount())

    def calls_for(self, rule: Rule) -> int:
        """Return the number of tool calls since the beginning of the session, the last compaction,
        or the rule's last action."""
        return self.calls - max(self.compacted_at, self.tally(rule).calls)

    def act(self, rule: Rule, now: float) -> RuleCount:
        """Count an action of the rule and return its previous tally. It is counted before the
        action, so that a rule can't trigger itself."""
        before = self.tally(rule)
        self.tallies[rule.id] = RuleCount(before.fires + 1, now, self.calls)
        return before


class Engine:
    """The listener that carries out the rules in force. Their state lasts as long as a session."""

    def __init__(self, context: HookContext, clock: Callable[[], float] = time.monotonic) -> None:
        self._context, self._clock = context, clock
        self._sessions: dict[str, RuleState] = {}

    def minds(self, name: EventName) -> bool:
        """Return whether an event can trigger a rule, or is needed for counting."""
        rules = self._context.rules()
        if name == "session_end":
            return bool(self._sessions)
        return any(rule.on == name for rule in rules) or (name == "tool_end" and bool(rules))

    async def handle(self, event: Event) -> Verdict:
        """Carry out each rule that matches this event and whose condition holds."""
        conversation = self._context.conversation(event.key)
        if conversation is None:
            return NOTHING  # evicted from memory: it is idle
        session = self._sessions.setdefault(event.key.id, RuleState())
        session.count(event, conversation)
        sentences: list[str] = []
        for rule in self._rules_for(event):
            now = self._clock()
            moment = RuleEvent(event, conversation, session.calls_for(rule))
            if session.tally(rule).allows(rule, now) and rule.condition.holds(moment):
                before = session.act(rule, now)
                done = await self._execute(rule, moment)
                if done is None:
                    session.tallies[rule.id] = before
                sentences += done or ()
        return self._verdict(session, event, tuple(sentences))

    def _rules_for(self, event: Event) -> Iterator[Rule]:
        own = (r for r in self._context.rules() if r.enabled and r.on == event.name)
        return iter(sorted(own, key=lambda rule: rule.priority))

    async def _execute(self, rule: Rule, moment: RuleEvent) -> tuple[str, ...] | None:
        """Carry out a rule within its timeout and return the texts for the model. None: it did
        nothing, so this does not count as an action."""
        try:
            async with asyncio.timeout(rule.timeout):
                return await self._act(rule, moment)
        except TimeoutError:
            log.warning("the rule %s took longer than %g s and was ended", rule.id, rule.timeout)
        except Exception:
            log.exception("the rule %s failed", rule.id)
        return ()

    async def _act(self, rule: Rule, moment: RuleEvent) -> tuple[str, ...] | None:
        match rule.action:
            case InjectMessage(content=content):
                return (content,)
            case Notify(message=message):
                self._context.notify(moment.event.key, message)
            case LogAction(message=message, level=level):
                log.log(LEVELS[level], "%s: %s", rule.id, message)
            case CompactContext() as compaction:
                if not await _compact(rule, compaction, moment.conversation):
                    return None
        return ()

    def _verdict(self, session: RuleState, event: Event, sentences: tuple[str, ...]) -> Verdict:
        """Return the texts for the model. If it makes no further request in this turn, they wait
        for the next turn."""
        session.waiting += sentences
        if event.name == "session_end":
            self._sessions.pop(event.key.id, None)
        if event.name not in BEFORE_A_STEP or not session.waiting:
            return NOTHING
        sentences, session.waiting = session.waiting, ()
        return Verdict(inject=sentences)


async def _compact(rule: Rule, compaction: CompactContext, conversation: Conversation) -> bool:
    """Return whether turns were removed."""
    event = await conversation.compactor.compact_by_rule(
        compaction.strategy,
        compaction.keep_recent,
        compaction.summary_max_tokens,
        why=f"the rule {rule.id}, with the window {conversation.context.pressure:.0%} full",
    )
    return event is not None


@hookimpl
def parley_listeners(context: HookContext) -> list[Listener]:
    engine = Engine(context)
    return [Listener("hook rules", engine.handle, timeout=None, minds=engine.minds)]
