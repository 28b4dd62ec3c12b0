"""`/rules`: show and change the standing instructions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from channels.language import _, format_datetime, number_of
from memory.patterns import lazy
from memory.turn_log import OpenTurn
from plugins.api import Action, Ask, Reply, command, refusal
from plugins.instructions.record import Instruction, Scope, place_at
from plugins.instructions.standing import StandingInstructions
from plugins.wording import (
    aside,
    clip,
    count,
    format_list,
    labelled,
    literal,
    quoted,
    series,
)

SCOPES: Mapping[str, Scope] = {
    "here": "conversation",
    "conversation": "conversation",
    "chat": "audience",
    "audience": "audience",
    "everywhere": "everywhere",
}
PLACES: Mapping[Scope, str] = {
    "conversation": "in this conversation",
    "audience": "in all of this chat",
    "everywhere": "everywhere",
}
KINDS: Mapping[str, str] = {
    "add": "given",
    "auto": "kept automatically",
    "keep": "kept",
    "dismiss": "dismissed",
    "edit": "changed",
    "revoke": "revoked",
    "move": "moved",
}
ASKED = 3
"""The maximum number of rules with a question below one answer."""
WITH_BUTTONS = 5
NEWEST = 20
"""The maximum number of changes shown."""
ALL = "all"
_CHANGE = lazy(r"c(\d{1,15})")


@command(
    "rules",
    "Show and change the standing instructions: rules that apply until you revoke them",
    "[add TEXT|keep N|dismiss N|edit N TEXT|revoke N|undo|move N WHERE|history]",
    (
        (
            "add",
            "give a rule (add Never write to my boss. --here for this conversation, --chat for all "
            "of this chat, --everywhere)",
        ),
        ("keep", "keep a proposed rule (keep 3)"),
        ("dismiss", "don't keep it, and don't be asked again (dismiss 3)"),
        ("edit", "say a rule in other words (edit 3 Never write to my boss or to Ann.)"),
        ("revoke", "end a rule (revoke 3), or all rules of this conversation (revoke all)"),
        ("undo", "undo the last change, or the last of one rule (undo 3)"),
        ("move", "move a rule elsewhere (move 3 here, chat or everywhere)"),
        ("history", "the history of the rules"),
    ),
    bare=("history",),
)
async def rules(ask: Ask) -> Reply:
    """Run `/rules` or `/rules WORD …`."""
    word, rest = (*ask.text.strip().split(None, 1), "", "")[:2]
    if not word:
        return await _list(ask)
    if word.lower() not in _VERBS:
        raise ask.refuse_word("rules", word)
    return await _VERBS[word.lower()](ask, rest.strip())


# --- show -----------------------------------------------------------------------------------------


async def _list(ask: Ask) -> Reply:
    standing, key = ask.service(StandingInstructions), ask.conversation.key
    active, proposed = standing.find(key, "active"), standing.find(key, "proposed")
    data = await _to_data(ask, [*active, *proposed])
    if not (active or proposed):
        return Reply(
            _(
                "There are no standing instructions here. Give one in a message (“Never …”, "
                "“From now on …”) or with /rules add TEXT; it then applies in every turn, "
                "until you revoke it."
            ),
            data,
        )
    parts = []
    if active:
        head = number_of(len(active), "{n} standing instruction", "{n} standing instructions")
        parts += [f"**{head}**", *[await _line(ask, rule) for rule in active]]
    if proposed:
        parts += [f"**{_('Awaiting approval')}**", *[await _line(ask, rule) for rule in proposed]]
    actions = [action for rule in proposed[:WITH_BUTTONS] for action in _buttons(rule)]
    actions += [
        Action(_("Revoke {n}", n=rule.id), f"/rules revoke {rule.id}")
        for rule in active[:WITH_BUTTONS]
    ]
    return Reply("\n\n".join(parts), data, tuple(actions))


async def _line(ask: Ask, rule: Instruction) -> str:
    is_here = rule.turn and rule.conversation == ask.conversation.key.id
    tokens = await ask.service(StandingInstructions).count_one(rule)
    besides = (_(PLACES[rule.scope]), f"t{rule.turn}" if is_here else "", count(tokens, "token"))
    return f"**{rule.id}** {literal(rule.text)}\n{' · '.join(filter(None, besides))}"


def _buttons(rule: Instruction, *, is_alone: bool = False) -> tuple[Action, Action]:
    keep = _("Keep") if is_alone else _("Keep {n}", n=rule.id)
    dismiss = _("Dismiss") if is_alone else _("Dismiss {n}", n=rule.id)
    question = f"rule {rule.id}"
    return (
        Action(keep, f"/rules keep {rule.id}", question=question),
        Action(dismiss, f"/rules dismiss {rule.id}", question=question),
    )


async def _to_data(ask: Ask, found: Sequence[Instruction]) -> dict[str, Any]:
    standing, key = ask.service(StandingInstructions), ask.conversation.key
    return {
        "rules": [
            {
                "id": rule.id,
                "text": rule.text,
                "state": rule.state,
                "scope": rule.scope,
                "conversation": rule.conversation,
                "turn": f"t{rule.turn}" if rule.turn else "",
                "person": rule.person,
                "origin": rule.origin,
                "at": _time(rule.at).isoformat(),
                "tokens": await standing.count_one(rule),
            }
            for rule in found
        ],
        "tokens": await standing.count(standing.find(key, "active")),
        "max_tokens": standing.settings(key).max_tokens,
        "detect": standing.settings(key).detect,
    }


def _time(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


async def _history(ask: Ask, rest: str) -> Reply:
    standing, key = ask.service(StandingInstructions), ask.conversation.key
    changes = await standing.list_changes(key, NEWEST)
    lines, data = [], []
    for one in changes:
        rule = standing.get_any(one.rule)
        is_shown = rule is not None and rule.reaches(key.audience, key.home)
        text = rule.text if rule is not None and is_shown else ""
        at = format_datetime(_time(one.at), ask.bot.zone())
        undone = aside(_("undone")) if one.undone else ""
        what = f"{_(KINDS[one.kind])}{undone}"
        if text:
            what = labelled(what, literal(clip(text, 120)))
        lines.append(f"- {at} · {literal(one.person)} · **{one.rule}** {what}")
        data.append(
            {
                "rule": one.rule,
                "kind": one.kind,
                "person": one.person,
                "at": _time(one.at).isoformat(),
                "text": text,
                "was": one.was.text if one.was and is_shown else "",
                "is_undone": bool(one.undone),
            }
        )
    return Reply("\n".join(lines) or _("No rule was changed here yet."), {"changes": data})


# --- change ---------------------------------------------------------------------------------------


def _decides(ask: Ask, *scopes: Scope) -> bool:
    """Return whether a person may decide on rules of these scopes: an owner on all, and a person in
    a private chat on those of that chat."""
    return ask.person.is_owner or (ask.address.is_private and "everywhere" not in scopes)


def _require(ask: Ask, found: Sequence[Instruction]) -> None:
    if not _decides(ask, *(rule.scope for rule in found)):
        ask.require_owner("decide which rules hold for others, too")


async def _add(ask: Ask, rest: str) -> Reply:
    scope, text = _read_scope(rest)
    if not text:
        raise refusal("Say the rule: /rules add Never write to my boss without asking me.")
    if scope == "everywhere":
        ask.require_owner("give a rule that holds everywhere")
    is_proposal = not _decides(ask, scope)
    standing, key = ask.service(StandingInstructions), ask.conversation.key
    rule = await standing.add(key, ask.person, text, scope, is_proposal=is_proposal)
    if is_proposal:
        sentence = _("An owner has to keep this rule first: /rules keep {n}.", n=rule.id)
        shown = f"{sentence}\n\n{await _line(ask, rule)}"
        return Reply(shown, await _to_data(ask, [rule]), _buttons(rule))
    return await _confirm_kept(ask, [rule])


def _read_scope(text: str) -> tuple[Scope, str]:
    """Return the scope that a flag before or after the text names, and the text without it. Raises
    CommandError for an unknown flag."""
    words = text.split()
    for word in (*words[:1], *words[-1:]):
        if not word.startswith("--") or not word[2:].isalpha():
            continue
        if (scope := SCOPES.get(word[2:].lower())) is None:
            raise refusal(
                "/rules has no option {option}, so nothing was done; it takes {known}.",
                option=literal(clip(word)),
                known=format_list([f"--{name}" for name in SCOPES], "or"),
            )
        rest = text[len(word) :] if text.startswith(word) else text[: -len(word)]
        return scope, rest.strip()
    return "conversation", text


async def _confirm_kept(ask: Ask, kept: Sequence[Instruction]) -> Reply:
    ask.conversation.context.notify()
    named = series(quoted(literal(rule.text)) for rule in kept)
    place = _(PLACES[kept[0].scope])
    text = _("Kept as a rule {place}: {named}", place=place, named=named)
    actions = await _list_undo(ask)
    if ask.person.is_owner and len(kept) == 1 and kept[0].scope != "everywhere":
        actions.append(Action("Everywhere", f"/rules move {kept[0].id} everywhere"))
    return Reply(text, await _to_data(ask, kept), tuple(actions))


async def _keep(ask: Ask, rest: str) -> Reply:
    found = _numbered(ask, rest, "keep")
    if all(rule.state == "active" for rule in found):
        raise refusal("This is a rule already; /rules lists them.")
    return await _confirm_kept(ask, await _apply(ask, "keep", found, state="active"))


async def _dismiss(ask: Ask, rest: str) -> Reply:
    found = _numbered(ask, rest, "dismiss")
    if any(rule.state == "active" for rule in found):
        raise refusal("It is in force; /rules revoke N ends it.")
    await _apply(ask, "dismiss", found, state="dismissed")
    return await _describe_done(ask, _("It is no rule, and you won't be asked again."))


async def _edit(ask: Ask, rest: str) -> Reply:
    number, text = (*rest.split(None, 1), "", "")[:2]
    (rule,) = _numbered(ask, number, "edit")
    if not text.strip():
        raise refusal("Write the new text of the rule: /rules edit {n} TEXT.", n=rule.id)
    await _apply(ask, "edit", [rule], text=text.strip())
    return await _describe_done(
        ask, _("Rule {n} is now: {text}", n=rule.id, text=literal(text.strip()))
    )


async def _revoke(ask: Ask, rest: str) -> Reply:
    standing, key = ask.service(StandingInstructions), ask.conversation.key
    if rest.lower() == ALL:
        found = [r for r in standing.find(key, "active") if r.scope != "everywhere"]
        if not found:
            raise refusal(
                "This conversation has no rules of its own. /rules revoke N ends one that applies "
                "everywhere."
            )
    else:
        found = _numbered(ask, rest, "revoke")
    await _apply(ask, "revoke", found, state="revoked")
    sentence = number_of(len(found), "{n} rule was revoked.", "{n} rules were revoked.")
    return await _describe_done(ask, sentence)


async def _move(ask: Ask, rest: str) -> Reply:
    number, where = (*rest.split(None, 1), "", "")[:2]
    (rule,) = _numbered(ask, number, "move")
    scope = SCOPES.get(where.strip().lower().removeprefix("--"))
    if scope is None:
        raise refusal(
            "Say where it applies from now on: /rules move {n} here, chat or everywhere.", n=rule.id
        )
    moved = place_at(rule, ask.conversation.key, scope)
    _require(ask, [rule, moved])
    standing = ask.service(StandingInstructions)
    await standing.apply(ask.conversation.key, ask.person.id, "move", [moved])
    sentence = _("Rule {n} holds {place} now.", n=rule.id, place=_(PLACES[scope]))
    return await _describe_done(ask, sentence)


async def _undo(ask: Ask, rest: str) -> Reply:
    standing, key = ask.service(StandingInstructions), ask.conversation.key
    number = int(rest) if rest.isascii() and rest.isdigit() else 0
    named = _CHANGE.fullmatch(rest)
    if rest and not number and not named:
        raise refusal("/rules undo takes the number of a rule, or nothing.")
    changes = await standing.find_last(key, number)
    if named and (not changes or changes[0].batch != int(named[1])):
        raise refusal(
            "That is no longer the last change of the rules, so nothing was undone; "
            "/rules history lists them."
        )
    if not changes:
        raise refusal("There is no change of a rule here that could be undone.")
    touched = [rule for one in changes for rule in (standing.get_any(one.rule), one.was) if rule]
    _require(ask, touched)
    done = await standing.undo(key, ask.person.id, changes)
    shown = {r.id: clip(r.text, 120) for r in done if r.reaches(key.audience, key.home)}
    lines = [f"{literal(shown.get(r.id, str(r.id)))}: {_(STATES[r.state])}" for r in done]
    return await _describe_done(ask, "\n".join((_("Undone."), *lines)))


STATES: Mapping[str, str] = {
    "active": "in force",
    "proposed": "awaiting approval",
    "dismissed": "no rule any more",
    "revoked": "revoked",
}


async def _apply(ask: Ask, kind: str, found: Sequence[Instruction], **to: Any) -> list[Instruction]:
    _require(ask, found)
    wanted = [replace(rule, **to) for rule in found]
    standing = ask.service(StandingInstructions)
    return await standing.apply(ask.conversation.key, ask.person.id, kind, wanted)


async def _describe_done(ask: Ask, sentence: str) -> Reply:
    ask.conversation.context.notify()
    standing = ask.service(StandingInstructions)
    data = await _to_data(ask, standing.find(ask.conversation.key, "active", "proposed"))
    return Reply(sentence, data, tuple(await _list_undo(ask)))


async def _list_undo(ask: Ask) -> list[Action]:
    """Return a button that undoes only the last change, even if it is pressed repeatedly; none if
    there is no change."""
    changes = await ask.service(StandingInstructions).find_last(ask.conversation.key, 0)
    return [Action("Undo", f"/rules undo c{one.batch}") for one in changes[:1]]


def _numbered(ask: Ask, words: str, verb: str) -> list[Instruction]:
    """Return the rules with these numbers. Raises CommandError."""
    numbers = words.replace(",", " ").split()
    if not numbers or not all(word.isascii() and word.isdigit() for word in numbers):
        raise refusal("/rules {verb} needs the number of a rule from /rules.", verb=verb)
    standing = ask.service(StandingInstructions)
    once = dict.fromkeys(int(word[:9]) for word in numbers)
    return [standing.get(ask.conversation.key, number) for number in once]


_VERBS: Mapping[str, Callable[[Ask, str], Awaitable[Reply]]] = {
    "add": _add,
    "keep": _keep,
    "dismiss": _dismiss,
    "edit": _edit,
    "revoke": _revoke,
    "undo": _undo,
    "move": _move,
    "history": _history,
}


# --- below an answer ------------------------------------------------------------------------------


def list_notes(standing: StandingInstructions, turn: OpenTurn) -> list[str | Reply]:
    """Return the notes about rules below a turn's answer: rules kept in it, rules that wait for
    approval, and rules that it ended or seems to end."""
    if not standing.rules:
        return []
    key = turn.log.state.key
    mine = [
        rule
        for rule in standing.find(key, "active", "proposed")
        if rule.turn == turn.number and rule.conversation == key.id
    ]
    kept = [rule for rule in mine if rule.state == "active" and rule.origin == "auto"]
    asked = [rule for rule in mine if rule.state == "proposed"]
    notes: list[str | Reply] = [
        Reply(
            _("Kept as a rule: “{text}”", text=literal(rule.text)),
            actions=(Action(_("Undo"), f"/rules undo {rule.id}"),),
        )
        for rule in kept
    ]
    notes += [
        Reply(
            _("Keep this as a rule? “{text}”", text=literal(rule.text)),
            actions=_buttons(rule, is_alone=len(asked) == 1),
        )
        for rule in asked[:ASKED]
    ]
    if asked[ASKED:]:
        notes.append(_("/rules lists {n} more that await your approval.", n=len(asked) - ASKED))
    for rule, is_ended in standing.find_endings(key, turn.number):
        if is_ended:
            sentence = _("Rule {n} was revoked: “{text}”", n=rule.id, text=literal(rule.text))
            action = Action(_("Undo"), f"/rules undo {rule.id}")
        else:
            sentence = _("Revoke rule {n}? “{text}”", n=rule.id, text=literal(rule.text))
            action = Action(_("Revoke {n}", n=rule.id), f"/rules revoke {rule.id}")
        notes.append(Reply(sentence, actions=(action,)))
    for rule, text in standing.find_rewordings(key, turn.number):
        sentence = _("Change rule {n} to “{text}”?", n=rule.id, text=literal(text))
        action = Action(_("Change {n}", n=rule.id), f"/rules edit {rule.id} {text}")
        notes.append(Reply(sentence, actions=(action,)))
    return notes
