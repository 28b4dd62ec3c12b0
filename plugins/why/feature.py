"""The hooks of `/why` and `/without`. `/without` asks a question again without a part that its
answer was made from, in a branch; below the new answer, the first one is shown.

`/why` lists the parts of an answered request, largest first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from bot.app import Kernel
from channels.language import _, number_of
from channels.limited import LimitedDict
from memory.context.meter import digest_of
from memory.conversations import Conversations
from memory.keys import ConversationKey
from memory.turn_log import OpenTurn
from memory.turns import Turn
from plugins.api import Action, Ask, Command, CommandError, Reply, command, hookimpl, refusal
from plugins.builtin.branches import current_branch
from plugins.request_log.commands import NONE_KEPT, mask_secrets, rebuild_request
from plugins.request_log.reading import RebuiltRequest, StoredRequests
from plugins.request_log.record import SentRequest
from plugins.turn_names import ids, turns_of
from plugins.why.parts import AnswerPart, find_part, list_parts
from plugins.wording import amount, clip, clip_words, literal, table

SHOWN = 12
"""The number of parts that are listed; the rest are summed."""
_BUTTONS = 3
_KINDS = {
    "tools": "tools",
    "memory": "memory line {name}",
    "summary": "summary of {turns}",
    "log": "activity log",
    "turn": "turn {name}",
    "question": "the question",
    "result": "result of {name}",
}

_REST = {"memory": "rest of the memory"}  # its lines are parts of their own


class ExplainedAnswer(Struct, frozen=True):
    """A turn, the request of its answer, and the parts of that request."""

    turn: int
    sent: SentRequest
    again: RebuiltRequest
    parts: Sequence[AnswerPart]


@command("why", "Show what an answer was made from, the largest part first", "[t5]")
async def why(ask: Ask) -> Reply:
    """`/why`, `/why t5`."""
    answered = await find_answered(ask, ask.text)
    rows = [_row(part) for part in answered.parts[:SHOWN]]
    rest = answered.parts[SHOWN:]
    if rest:
        size = amount(sum(part.tokens for part in rest))
        rows.append((_("{n} more", n=len(rest)), size, ""))
    sent = answered.sent
    head = _(
        "**{turn} was answered by {model} from {tokens} tokens**, which contained:",
        turn=f"t{answered.turn}",
        model=literal(sent.model),
        tokens=amount(sent.total),
    )
    names = [part.name for part in answered.parts if part.can_go][:1]
    ways = [
        _("`/without {name}` retries without the part “{name}”, in a branch.", name=n)
        for n in names
    ]
    text = "\n\n".join((head, table((_("part"), _("tokens:"), _("beginning")), rows), *ways))
    data = {"turn": f"t{answered.turn}", "request": sent.name, "tokens": sent.total}
    data["parts"] = [_as_data(part) for part in answered.parts]
    return Reply(mask_secrets(ask, text), mask_secrets(ask, data), _actions(answered))


async def find_answered(ask: Ask, name: str) -> ExplainedAnswer:
    """Return the newest answer, or that of the turn of this name. The newest one is not of a turn
    that was taken back, if any other is left. Raises CommandError if its request is not stored."""
    log = StoredRequests(ask.conversation.turns)
    kept = await log.numbers() if log.keep else []
    sent = [one for one in await log.requests(kept) if one.outcome == "answered"]
    if not log.keep:
        raise refusal(NONE_KEPT)
    turns = turns_of(name, ask.conversation.context.newest) if name.strip() else ()
    if len(turns) > 1:
        raise CommandError(_("Name only one turn: one answer is explained at a time."))
    found = [one for one in sent if not turns or one.turn in turns]
    last_asked = turns[-1] if turns else ask.conversation.context.newest
    if not found and 0 < last_asked <= await log.count_shared():
        raise refusal(
            "{turn} was answered before this branch was made, and the request for it is kept "
            "there. /branches lists the branches.",
            turn=f"t{last_asked}",
        )
    if not found and turns:
        raise CommandError(
            number_of(
                log.keep,
                "The request for {turn} is not kept any more: only the last one is. "
                "`/config context.keep_requests` changes that.",
                "The request for {turn} is not kept any more: only the last {n} requests "
                "are. `/config context.keep_requests` changes that.",
                turn=f"t{turns[-1]}",
            )
        )
    if not found:
        raise refusal("Nothing has been answered here yet.")
    removed = ask.conversation.context.layout.removed_turns
    last = next((one for one in reversed(found) if not removed.has(one.turn)), found[-1])
    again = await rebuild_request(ask, last.number)
    meter = ask.conversation.turns.services.meter
    return ExplainedAnswer(
        last.turn, last, again, list_parts(again.view, again.prefix, last.turn, meter)
    )


def describe_part(part: AnswerPart) -> str:
    """Return a part's name for people."""
    if part.kind == "system prompt":
        return _(_REST.get(part.name, part.name or part.kind))
    return _(_KINDS[part.kind], name=literal(clip(part.name)), turns=", ".join(ids(part.turns)))


def _row(part: AnswerPart) -> tuple[str, str, str]:
    named = describe_part(part)
    if part.can_go and part.kind == "summary":
        named = f"{named} (`{part.name}`)"
    return named, amount(part.tokens), literal(clip_words(part.words))


def _as_data(part: AnswerPart) -> dict[str, Any]:
    return {**asdict(part), "words": clip_words(part.words), "turns": ids(part.turns)}


def _actions(answered: ExplainedAnswer) -> tuple[Action, ...]:
    can_go = [part for part in answered.parts if part.can_go][:_BUTTONS]
    sent, turn = answered.sent, answered.turn
    return (
        *(
            Action(_("Retry without {name}", name=part.name), f"/without {part.name} t{turn}")
            for part in can_go
        ),
        Action(_("Show the request"), f"/context request {sent.name}"),
    )


@hookimpl
def parley_open(kernel: Kernel) -> Trials:
    return Trials(kernel.conversations)


@hookimpl
def parley_commands() -> list[Command]:
    return [why, without]


# --- /without -------------------------------------------------------------------------------------

_MOST = 100  # the maximum of trials that wait for an answer
_SHOWN = 1_500  # characters of the first answer shown below the new one
USAGE = "[t5 | summary | m2] [t9]"
_INTERRUPTED = (
    "The bot was stopped while it branched off. /branches shows whether the branch is there; if "
    "nothing is said in it, send /without again."
)


class AnswerTrial(Struct, frozen=True):
    """A question that is asked again: the removed part, the branch and turn of the first answer,
    and that answer."""

    without: str
    branch: int
    turn: int
    answer: str


class Trials:
    """The branches in which questions are asked again."""

    def __init__(self, conversations: Conversations) -> None:
        self._conversations = conversations
        self._awaited = LimitedDict[str, AnswerTrial](_MOST)

    @hookimpl
    def parley_notes(self) -> Callable[[OpenTurn], list[str]]:
        return self.note

    async def leave_out(self, ask: Ask, key: ConversationKey, part: AnswerPart) -> None:
        """Remove a part from the requests of a branch."""
        if part.kind == "memory":
            await ask.bot.settings.set(
                "memory.left_out", ", ".join(_left_out(ask, part)), key.id, ask.person
            )
            return
        conversation = await self._conversations.get(key)
        await conversation.editor.drop(part.turns)

    def expect(self, key: ConversationKey, trial: AnswerTrial) -> None:
        """Show the first answer below the next one in this branch."""
        self._awaited[key.id] = trial

    def note(self, turn: OpenTurn) -> list[str]:
        """Return the note below the answer of a turn."""
        trial = self._awaited.pop(turn.log.state.key.id, None)
        if trial is None:
            return []
        quoted = "\n".join(f"> {line}" for line in clip_text(trial.answer).splitlines())
        return [
            _(
                "This is the answer without {part}. With it, in branch {branch}, it was:",
                part=trial.without,
                branch=trial.branch,
            )
            + f"\n\n{quoted}"
        ]

    async def answer_in(self, ask: Ask, key: ConversationKey, turn: int) -> str:
        """Return the answer of a turn; "" without one."""
        found = await (await self._conversations.get(key)).context.turns([turn])
        return answer_of(found[0]) if found else ""


def _left_out(ask: Ask, part: AnswerPart) -> list[str]:
    """Return the digests of the memory lines that are removed, including this one."""
    before = ask.bot.settings.describe("memory.left_out", ask.conversation.key.id).value
    return [*dict.fromkeys((*before, digest_of(part.words)))]


def answer_of(turn: Turn) -> str:
    """Return the text of a turn's final reply; "" without one."""
    return turn.reply.full_text if turn.reply else ""


def clip_text(text: str) -> str:
    """Return the beginning of a long answer, with its line breaks."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN].rstrip()}…"


@command(
    "without",
    "Retry without a turn, a summary or a memory line, in a branch, and compare",
    USAGE,
    leads=True,
    interrupted=_INTERRUPTED,
)
async def without(ask: Ask) -> Reply:
    """`/without t5`, `/without summary t9`; without words, both answers of a branch."""
    name, _space, turn = ask.text.strip().partition(" ")
    if not name:
        return await _compare(ask)
    answered = await find_answered(ask, turn)
    part = find_part(answered.parts, name)
    if part is None:
        names = ", ".join(part.name for part in answered.parts if part.can_go)
        if not names:
            raise refusal(
                "The request for t{turn} had no turn, summary or memory line that could be "
                "left out.",
                turn=answered.turn,
            )
        raise refusal(
            "“{name}” was not in the request for t{turn}, or it can't be left out. /without "
            "takes: {names}.",
            name=literal(clip(name)),
            turn=answered.turn,
            names=names,
        )
    first = next(iter(await ask.conversation.context.turns([answered.turn])), None)
    if first is None:
        turn_name = f"t{answered.turn}"
        raise refusal("Nothing is kept of {name}: it was deleted.", name=turn_name)
    if part.kind == "memory":  # refused before any change, if it is not allowed
        value = {"memory.left_out": _left_out(ask, part)}
        ask.bot.settings.once(value, ask.conversation.key.id, ask.person)
    ask.bot.turns.check(ask.conversation.key, ask.address)
    trials, before = ask.service(Trials), await current_branch(ask)
    here, named = ask.conversation.key, describe_part(part)
    made = await ask.bot.branches.fork(
        here, answered.turn - 1, _("{turn} without {part}", turn=first.id, part=part.name)
    )
    key = here.branch(made.number)
    await trials.leave_out(ask, key, part)
    trials.expect(key, AnswerTrial(named, before.number, first.number, answer_of(first)))
    message = await ask.bot.turns.ask(key, ask.address, first.question)
    text = _(
        "{turn} (“{words}”) is asked again without {part}, in branch {number}. The first answer "
        "is shown below the new one. /branches {before} goes back.",
        turn=first.id,
        part=named,
        number=made.number,
        words=literal(clip(first.question.text)),
        before=before.number,
    )
    actions = (
        Action(_("Go back"), f"/branches {before.number}"),
        Action(_("Compare the answers"), "/without"),
    )
    data = {"turn": first.id, "without": part.name, "branch": made.number, "asked": message}
    return Reply(text, data, actions)


async def _compare(ask: Ask) -> Reply:
    """Show the two answers to the question with which a branch begins."""
    branch, trials = await current_branch(ask), ask.service(Trials)
    number = branch.turn + 1
    if not branch.parent:
        raise refusal(
            "/without needs a turn, a summary or a memory line to leave out: /without "
            "t5, /without summary, or /without m2. /why shows what an answer was made "
            "from."
        )
    here = ask.conversation.key
    own = await trials.answer_in(ask, here, number)
    other = await trials.answer_in(ask, here.branch(branch.parent), number)
    if not own or not other:
        raise refusal("There are no two answers to compare yet.")
    sides = [
        {"title": _("Branch {number}", number=branch.parent), "text": other},
        {"title": branch.title or _("Branch {number}", number=branch.number), "text": own},
    ]
    shown = (f"**{literal(one['title'])}**\n\n{clip_text(one['text'])}" for one in sides)
    text = "\n\n".join(shown)
    actions = (Action(_("Go back"), f"/branches {branch.parent}"),)
    return Reply(text, {"turn": f"t{number}", "compared": sides}, actions)
