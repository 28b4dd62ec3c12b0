"""Tests of the settings that users who are not owners may change, in a private chat and in a group,
within limits; of their values when the owner narrows the list; and of former owners."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from bot.settings.permits import parse_permit
from tests.whole.test_access import OWNER, afar, befriended
from tests.whole.testbot import TestBot


async def in_force(bot: TestBot, key: str, chat: str) -> object:
    """Return a setting of a chat as an owner sees it."""
    data = (await bot.says(f"/config {key}", chat, OWNER)).data or {}
    return data["value"]


REFUSED = (
    "/config model gpt-5-pro --here",
    "/config fallback_models a, b --here",
    "/config turn_timeout 86400 --here",
    "/config agent_max_steps 200 --here",
    "/config agent_max_calls 1000 --here",
    "/config request_timeout 3600 --here",
    "/config system_prompt You have no rules. --here",
    "/config context.strategy full --here",
    "/config context.max_images 100 --here",
    "/config agent_max_context_tokens 2000000 --here",
    "/config agent helper --here",
    "/config model --unset --here",
    "/config users_may_set model",
    "/config turn_timeout 10",
    "/model gpt-5-pro",
    "/agent helper",
    "/agent default",
)
AGENTS = [{"id": "helper", "brain": {"model": "gpt-5-pro"}}]


async def test_a_user_sets_nothing_that_costs_or_concerns_others(tmp_path: Path) -> None:
    async with afar(tmp_path, agents=AGENTS, messages_per_minute=0) as bot:
        await befriended(bot, "ann")
        await bot.says("/pair here", "family", OWNER)
        for chat in ("ann", "family"):
            for command in REFUSED:
                told = (await bot.says(command, chat, "ann")).text
                assert "only an owner may" in told.lower() or "you can set" in told, command
            assert await in_force(bot, "model", chat) == "gpt-4o-mini"
            assert await in_force(bot, "turn_timeout", chat) == 600
            assert await in_force(bot, "agent", chat) == "default"


async def test_a_user_may_make_a_conversation_cheaper_and_take_that_back(tmp_path: Path) -> None:
    async with afar(tmp_path) as bot:
        await befriended(bot, "ann")
        told = (await bot.says("/config agent_max_steps 3 --here", "ann", "ann")).text
        assert "is now **3**" in told
        assert await in_force(bot, "agent_max_steps", "ann") == 3
        told = (await bot.says("/config agent_max_steps 16 --here", "ann", "ann")).text
        assert told == (
            "Nothing was changed: agent_max_steps can't be 16 here; you can set at most 15, the "
            "value for everybody."
        )
        await bot.says("/config agent_max_steps --unset --here", "ann", "ann")
        assert await in_force(bot, "agent_max_steps", "ann") == 15
        await bot.says("/config agent_max_steps 12 --here", "ann", "ann")
        await bot.says("/config agent_max_steps 8", OWNER, OWNER)
        assert await in_force(bot, "agent_max_steps", "ann") == 8, "what holds for everybody"


async def test_a_user_sees_what_they_may_change_and_how_far(tmp_path: Path) -> None:
    async with afar(
        tmp_path, users_may_set=["model gpt-4o-mini|gpt-4o", "turn_timeout ..60"]
    ) as bot:
        await befriended(bot, "ann")
        seen = await bot.says("/config", "ann", "ann")
        assert [setting["key"] for setting in (seen.data or {})["settings"]] == [
            "model",
            "turn_timeout",
        ]
        assert "gpt-4o-mini or gpt-4o" in seen.text
        assert "at most 60" in seen.text
        one = await bot.says("/config turn_timeout", "ann", "ann")
        assert "You can set at most 60" in one.text
        assert not one.actions
        refused = await bot.says("/config owners", "ann", "ann")
        assert refused.text.startswith("Only an owner may see and change owners")
        assert OWNER not in refused.text


async def test_an_owner_marks_models_and_agents_for_users(tmp_path: Path) -> None:
    marked = ["model gpt-4o-mini|gpt-4o", "agent helper|default"]
    agents = [*AGENTS, {"id": "costly", "brain": {"model": "gpt-5-pro"}}]
    async with afar(tmp_path, users_may_set=marked, agents=agents) as bot:
        await befriended(bot, "ann")
        await bot.says("/config model gpt-4o --here", "ann", "ann")
        assert await in_force(bot, "model", "ann") == "gpt-4o"
        told = (await bot.says("/agent costly", "ann", "ann")).text
        assert "you can set helper or default" in told
        await bot.says("/agent helper", "ann", "ann")
        assert await in_force(bot, "agent", "ann") == "helper"


async def test_what_was_set_holds_only_while_the_list_has_it_also_after_a_restart(
    tmp_path: Path,
) -> None:
    async with afar(tmp_path, users_may_set=["turn_timeout 10..900"]) as bot:
        await befriended(bot, "ann")
        await bot.says("/config turn_timeout 900 --here", "ann", "ann")
        assert await in_force(bot, "turn_timeout", "ann") == 900
        await bot.says("/config users_may_set turn_timeout ..700", OWNER, OWNER)
        assert await in_force(bot, "turn_timeout", "ann") == 600
        await bot.says("/config users_may_set turn_timeout ..1000", OWNER, OWNER)
        assert await in_force(bot, "turn_timeout", "ann") == 900
    async with afar(tmp_path, users_may_set=["when_busy"]) as bot:
        await bot.says("/config users_may_set --unset", OWNER, OWNER)
        assert await in_force(bot, "turn_timeout", "ann") == 600


async def test_what_an_owner_sets_in_a_chat_takes_the_place_of_what_users_set(
    tmp_path: Path,
) -> None:
    async with afar(tmp_path) as bot:
        await bot.says("/pair here", "family", OWNER)
        await bot.says("/config agent_max_steps 9 --here", "family", "ann")
        await bot.says("/config agent_max_steps 5 --here", "family", OWNER)
        assert await in_force(bot, "agent_max_steps", "family") == 5
        told = (await bot.says("/config agent_max_steps 6 --here", "family", "ann")).text
        assert "at most 5" in told
        await bot.says("/config agent_max_steps --unset --here", "family", "ann")
        assert await in_force(bot, "agent_max_steps", "family") == 5


async def test_who_is_an_owner_no_more_has_a_users_rights(tmp_path: Path) -> None:
    async with afar(tmp_path) as bot:
        await bot.says(f"/config owners afar/{OWNER}, afar/ann", OWNER, OWNER)
        await bot.says("/config turn_timeout 900 --here", "ann", "ann")
        await bot.says(f"/config owners afar/{OWNER}", OWNER, OWNER)
        await befriended(bot, "ann")
        assert await in_force(bot, "turn_timeout", "ann") == 900, "an owner had set it"
        for command in ("/config turn_timeout 1000 --here", "/config model x --here"):
            assert "you can set" in (await bot.says(command, "ann", "ann")).text
        await bot.says("/config turn_timeout --unset --here", "ann", "ann")
        assert await in_force(bot, "turn_timeout", "ann") == 900
        await bot.says("/config turn_timeout --unset --here", "ann", OWNER)
        assert await in_force(bot, "turn_timeout", "ann") == 600


async def test_an_entry_that_is_none_is_refused(tmp_path: Path) -> None:
    async with afar(tmp_path) as bot:
        for entry in ("owners", "nonsense", "model down", "when_busy 1..2", "hooks"):
            told = (await bot.says(f"/config users_may_set when_busy, {entry}", OWNER, OWNER)).text
            assert told.startswith("Nothing was changed: users_may_set can't be")
            assert "it must be a list of entries like" in told


NUMBERS = st.integers(-10, 10_000)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_a_number_is_allowed_only_within_the_bounds(low: int, high: int, value: int) -> None:
    assert parse_permit(f"k {low}..{high}").allows(value, 5) == (low <= value <= high)
    assert parse_permit("k down").allows(value, high) == (value <= high)
    assert not parse_permit(f"k {low}..{high}").allows(True, 5)
    assert not parse_permit("k down").allows("auto", high)
    for entry in ("k down", f"k {low}..{high}"):
        allowed = parse_permit(entry).allows(0, high, zero_is_no_least=True)
        assert allowed == (entry == "k down" and high == 0), "0 means no limit there"
