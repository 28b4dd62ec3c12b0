"""Values that a person corrects, in the chat or by `/memory wrong`, are shown with their current
value."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.openai_server import Answer, Call, Received, Say
from tests.waiting import until
from tests.whole.distilling import SETTINGS, commands, distilled_to, file_of, prompt, write
from tests.whole.scenario import say_all
from tests.whole.testbot import run_bot


async def test_a_correction_in_the_chat_reaches_the_prompt_and_proposes_an_edit(
    tmp_path: Path,
) -> None:
    answers = [Say("Hello."), Say("It is on 4 May then."), Say("Yes.")]
    async with run_bot(tmp_path, answers, SETTINGS) as bot:
        await bot.says("Hi.")
        await bot.says("/remember The meeting is on 3 May.")
        said = await bot.says("no, the meeting is on 4 May, not 3 May")
        assert "1 remembered line says the old value." in said.text
        assert "/memory diff" in commands(said)
        assert "The meeting is on 4 May (corrected in t2)." in prompt(bot)
        assert "3 May" not in prompt(bot)
        assert "The meeting is on 3 May." in file_of(tmp_path).read_text()
        diff = await bot.says("/memory diff")
        assert "The meeting is on 4 May." in diff.text
        await bot.says("/memory diff approve")
        assert "The meeting is on 4 May." in file_of(tmp_path).read_text()
        await bot.says("Fine?")
        assert "The meeting is on 4 May." in prompt(bot)
        assert "changed: memory" in (await bot.says("/context history")).text


@pytest.mark.parametrize(
    ("said", "wrong", "old"),
    [
        ("No, the meeting is on 4 May, not 3 May", "The meeting is on 3 May.", "3 May"),
        ("Nein, wir brauchen 160 Stühle, nicht 140", "Wir brauchen 140 Stühle.", "140"),
        ("说错了，预算是四万二千块，不是三万五千块", "预算是三万五千块。", "三万五千"),
    ],
)
async def test_no_later_summary_brings_an_ended_value_back(
    tmp_path: Path, said: str, wrong: str, old: str
) -> None:
    """The message with the correction may have been summarised before."""

    def script(request: Received) -> Answer:
        return Say(f"- {wrong}\n- {wrong}" if request.is_summary else "Yes. " * 30)

    async with run_bot(tmp_path, script) as bot:
        await say_all(bot, wrong, said)
        for number in range(3):
            await say_all(bot, *(f"Tell me more about the weather, {number + 1}" for _ in range(4)))
            await bot.says("/context compact")
            await bot.says("And?")
            told = str(bot.sent_to_model()[1]["content"])
            assert "<summary" in told, "what is left is a summary"
            assert old not in told


async def test_a_value_that_holds_is_added_to_a_summary_that_omits_it(tmp_path: Path) -> None:
    def script(request: Received) -> Answer:
        return Say("They told of the weather." if request.is_summary else "Yes. " * 30)

    async with run_bot(tmp_path, script) as bot:
        await say_all(bot, "The meeting is on 3 May.", "No, the meeting is on 4 May, not 3 May.")
        for number in range(3):
            await say_all(bot, *(f"Tell more of the weather, {number + 1}" for _ in range(4)))
            await bot.says("/context compact")
            await bot.says("And?")
            told = str(bot.sent_to_model()[1]["content"])
            assert "the meeting is on 4 May" in told
            assert "3 May" not in told


async def test_a_corrected_value_is_not_distilled(tmp_path: Path) -> None:
    async with run_bot(tmp_path, distilled_to([]), SETTINGS) as bot:
        await bot.says("The meeting is on 3 May.")
        await bot.says("no, the meeting is on 4 May, not 3 May")
        write(tmp_path, "The meeting is on 3 May.", 1, turns="t1 to t1")
        await bot.says("/memory distill")
        asked = next(str(one.body["messages"]) for one in bot.server.requests if one.is_distilling)
        assert "The meeting is on 4 May (corrected in t2)." in asked
        assert "3 May" not in asked


async def test_what_is_wrong_is_corrected_in_lines_and_summaries_after_a_yes(
    tmp_path: Path,
) -> None:
    search = Call("memory_search", '{"query": "meeting"}')

    def answer(request: Received) -> Say:
        last = request.body["messages"][-1]
        asks = last["role"] == "user" and "When is" in str(last["content"])
        return Say(calls=(search,)) if asks else Say("Noted.")

    async with run_bot(tmp_path, answer, SETTINGS) as bot:
        await bot.says("The meeting is on 3 May in Oslo. " + "The hall is large. " * 200)
        await bot.says("/remember The meeting is on 3 May.")
        await bot.says("/remember Grandma was born on 3 May.")
        await bot.says("Tea?")
        await bot.says("/context compact t1")
        await bot.app.conversations.flush()
        await bot.says("/context summary edit s1 They meet. The meeting is on 3 May in Oslo.")
        shown = await bot.says("/memory wrong 2 The meeting is on 4 May.")
        assert "Found in 1 remembered line and 1 summary." in shown.text
        assert commands(shown)[0] in shown.text.splitlines(), "it can be sent without a button"
        (yes,) = [one for one in commands(shown) if one.startswith("/memory wrong yes")]
        assert "The meeting is on 3 May." in file_of(tmp_path).read_text()
        done = await bot.says(yes)
        assert "It is in 0 lines, summaries and search results" in done.text
        kept = file_of(tmp_path).read_text()
        assert "The meeting is on 4 May." in kept
        assert "Grandma was born on 3 May." in kept
        await bot.says("When is the meeting?")
        sent = [str(one["content"]) for one in bot.sent_to_model() if one["role"] != "system"]
        assert any("The meeting is on 4 May in Oslo." in one for one in sent), "the summary"
        assert any("4 May (corrected) in Oslo" in one for one in sent), "the search"
        assert all("3 May in Oslo" not in one for one in sent)


async def test_a_summary_that_was_prepared_before_a_command_is_written_anew(tmp_path: Path) -> None:
    def script(request: Received) -> Answer:
        return Say("The meeting is on 3 May." if request.is_summary else "Yes. " * 40)

    async with run_bot(tmp_path, script, {"agent_max_context_turns": 4}) as bot:
        await say_all(bot, "The meeting is on 3 May.", "/remember The meeting is on 3 May.")
        await say_all(bot, "Tell me of tea.", "Tell me of milk.", "Tell me of sugar.")
        await bot.app.conversations.flush()
        assert bot.server.summaries, "it is prepared"
        shown = await bot.says("/memory wrong 3 May -> 4 May")
        await bot.says(shown.actions[0].command)
        await say_all(bot, "Tell me of lemons.", "Tell me of honey.")
        await bot.app.conversations.flush()
        await bot.says("And?")
        told = str(bot.sent_to_model()[1]["content"])
        assert "The meeting is on 4 May." in told
        assert "3 May" not in told
        await bot.says("/memory undo")
        await bot.says("/context compact")
        await bot.app.conversations.flush()
        read = str(bot.server.summaries[-1].body["messages"])
        assert "The meeting is on 3 May." in read, "the summary that is continued has it again"
        assert "4 May" not in read
        await bot.says("And now?")
        assert "The meeting is on 3 May." in str(bot.sent_to_model()[1]["content"])


async def test_what_nobody_says_is_told_and_a_wrong_order_explains_itself(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("Hello.")], SETTINGS) as bot:
        await bot.says("Hi.")
        assert "the wrong text -> the right text" in (await bot.says("/memory wrong")).text
        assert "Allow this" not in (await bot.says("/cancel")).text
        assert "needs the number of a line" in (await bot.says("/memory wrong tea")).text
        assert "There is no line 3" in (await bot.says("/memory wrong 3 Ann is 12")).text
        assert "many things" in (await bot.says("/memory wrong 3 -> 4")).text
        assert "No line of the memory" in (await bot.says("/memory wrong 3 May -> 4 May")).text
        await bot.says("/remember The meeting is on 3 May.")
        shown = await bot.says("/memory wrong 3 May -> 4 May")
        (yes,) = [one for one in commands(shown) if one.startswith("/memory wrong yes")]
        await bot.says("/remember The party is on 3 May.")
        assert "has changed since you saw it" in (await bot.says(yes)).text
        assert "wrong 3 May -> 4 May" in (await bot.says("/memory wrong 3 May")).text  # no line 3


async def test_a_button_asks_for_what_is_right(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("Hello.")], SETTINGS) as bot:
        await bot.says("Hi.")
        await bot.says("/remember The meeting is on 3 May.")
        assert "/memory wrong" in commands(await bot.says("/memory list"))
        shown = await bot.says("/memory why 1")
        asked = await bot.says("/memory wrong line 1")
        assert "/memory wrong line 1" in commands(shown)
        assert asked.form
        assert (asked.form.command, asked.form.text) == (
            "/memory wrong 1",
            "The meeting is on 3 May.",
        )
        shown = await bot.says("The meeting is on 4 May.")
        (yes,) = [one for one in commands(shown) if one.startswith("/memory wrong yes")]
        await bot.says(yes)
        assert "The meeting is on 4 May." in file_of(tmp_path).read_text()
        assert "There is no line 7" in (await bot.says("/memory wrong line 7")).text


async def test_sentences_that_say_what_is_wrong_are_taken_out(tmp_path: Path) -> None:
    async with run_bot(tmp_path, [Say("Hello.")], SETTINGS) as bot:
        await bot.says("Hi.")
        await bot.says("/remember Ann lives in Lisbon with two cats.")
        await bot.says("/remember Ann likes tea.")
        shown = await bot.says("/memory wrong Ann lives in Lisbon")
        (yes,) = [one for one in commands(shown) if one.startswith("/memory wrong yes")]
        done = await bot.says(yes)
        assert "It is in 0 remembered lines and summaries; searches" in done.text
        assert "Lisbon" not in file_of(tmp_path).read_text()
        assert "Ann likes tea." in file_of(tmp_path).read_text()
        await bot.says("/memory undo")
        assert "Lisbon" in file_of(tmp_path).read_text()


async def test_a_day_of_the_memory_is_shown_with_the_values_that_hold(tmp_path: Path) -> None:
    """The texts are in the person's language, although the model's summary was rejected."""

    def script(request: Received) -> Answer:
        return Say("Die Reise ist am 14. März." if request.is_summary else "Gut. " * 30)

    async with run_bot(tmp_path, script, {"language": "de"}) as bot:
        await say_all(bot, "Die Reise ist am 14. März.", "Nein, sie ist am 16. März, nicht am 14.")
        await say_all(bot, "Und das Wetter?", "Und das Essen?")
        assert "Komprimiert" in (await bot.says("/context compact")).text
        await bot.says("Und der Wein?")
        await until(lambda: [*tmp_path.glob("data/**/memory/2*.md")])
        for line in ("/memory", "/memory search Reise März"):
            shown = (await bot.says(line)).text.replace("**", "")
            assert "am 16. März (korrigiert in t2)" in shown, shown
            assert "am 14. März" not in shown, shown
            assert "t1 bis t3" in shown, shown
