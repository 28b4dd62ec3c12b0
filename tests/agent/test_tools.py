import asyncio
import json
import logging
import threading
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pydantic import BaseModel, Field

from agent.tools import ToolError
from agent.tools.base import Permission, Tool, ToolContext, refuse_permission
from agent.tools.schema import tool
from agent.tools.toolbox import Toolbox
from memory.keys import ConversationKey
from memory.messages import ToolCall
from tests.waiting import PATIENCE


async def allowed(permission: Permission) -> None:
    """Say yes to every permission."""


CONTEXT = ToolContext(
    ConversationKey("pipe/main", "main"), Path("nowhere"), ZoneInfo("UTC"), approve=allowed
)


@tool(touches={"network"})
async def weather(
    context: ToolContext,
    city: str,
    days: Annotated[int, Field(ge=1, le=7)] = 1,
    unit: Literal["celsius", "kelvin"] = "celsius",
) -> str:
    """Say what the weather
    will be.

    Farmers ask for it.

    Args:
        city: Where, in any
            spelling.
        days (int): How far ahead.
        context: Not for the model.

    Returns:
        A forecast.
    """
    return f"{city} {days} {unit} {context.key.id}"


@tool
def title(title: str, json: dict[str, int] | None = None) -> Any:
    """Give back what came."""
    return json if title == "json" else title


async def answer(made: Tool, arguments: str | dict[str, Any] = "") -> tuple[str, bool]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return await Toolbox([made]).run(ToolCall("1", made.name, text), CONTEXT)


def calls(*names: str) -> list[ToolCall]:
    return [ToolCall(str(number), name, "{}") for number, name in enumerate(names)]


def test_a_schema_comes_from_signature_and_docstring() -> None:
    assert weather.to_wire() == {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Say what the weather will be.\nFarmers ask for it.",
            "parameters": {
                "type": "object",
                "required": ["city"],
                "properties": {
                    "city": {"type": "string", "description": "Where, in any spelling."},
                    "days": {
                        "type": "integer",
                        "default": 1,
                        "maximum": 7,
                        "description": "How far ahead.",
                    },
                    "unit": {
                        "type": "string",
                        "default": "celsius",
                        "enum": ["celsius", "kelvin"],
                    },
                },
            },
        },
    }


def test_a_schema_has_no_titles_but_a_parameter_may_be_named_title() -> None:
    class Place(BaseModel):
        title: str

    def visit(place: Place, title: str = "") -> str:
        """Go there."""
        return place.title

    visit.__annotations__ |= {"place": Place, "title": str, "return": str}
    schema = tool(visit).parameters
    assert list(schema["properties"]) == ["place", "title"]
    assert "title" in schema["$defs"]["Place"]["properties"]
    assert '"title": "' not in json.dumps(schema)


async def test_a_schema_holds_what_a_model_goes_by_and_arguments_are_checked_by_all_of_it() -> None:
    def draw(
        name: Annotated[str, Field(min_length=1, max_length=9)],
        default: bool = False,
        minimum: Annotated[int, Field(ge=2)] | None = None,
        count: int = 0,
    ) -> str:
        """Draw."""
        return f"{name} {default} {minimum} {count}"

    made = tool(draw)
    assert made.parameters == {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string"},
            "default": {"type": "boolean"},
            "minimum": {"type": "integer", "minimum": 2},
            "count": {"type": "integer", "default": 0},
        },
    }
    assert await answer(made, {"name": "a", "minimum": None}) == ("a False None 0", False)
    for wrong in ({"name": ""}, {"name": "a" * 10}, {"name": "a", "more": 1}):
        text, is_error = await answer(made, wrong)
        assert is_error
        assert text.startswith("draw was not run:")


def test_writers_and_shells_run_alone_unless_they_say_otherwise() -> None:
    def work() -> str:
        """Work."""
        return ""

    assert tool(work).is_parallel
    assert tool(touches={"reads", "network"})(work).is_parallel
    assert not tool(touches={"writes"})(work).is_parallel
    assert not tool(touches={"shell"})(work).is_parallel
    assert tool(touches={"writes"}, is_parallel=True)(work).is_parallel
    assert not tool(is_parallel=False)(work).is_parallel


def test_what_makes_no_tool_is_refused_with_a_sentence() -> None:
    def silent() -> str:
        return ""

    def untyped(x) -> str:  # type: ignore[no-untyped-def]
        """Guess."""
        return str(x)

    def open_ended(*words: str) -> str:
        """Take anything."""
        return ""

    def misread(x: int) -> str:
        """Read.

        Args:
            y: Not there.
        """
        return ""

    def größe() -> str:
        """Measure."""
        return ""

    for function, sentence in (
        (silent, "needs a docstring"),
        (untyped, "'x' of tool untyped needs a name and a type"),
        (open_ended, "'words' of tool open_ended needs a name and a type"),
        (misread, r"describes \['y'\]"),
        (größe, "can't name a tool"),
    ):
        with pytest.raises(TypeError, match=sentence):
            tool(function)
    with pytest.raises(TypeError, match="a tool touches"):
        tool(touches="reads")(answer)  # type: ignore[arg-type]


async def test_arguments_are_checked_and_the_context_is_handed_in() -> None:
    text, is_error = await answer(weather, {"city": "Ulm", "days": "3"})
    assert (text, is_error) == ("Ulm 3 celsius pipe/main", False)


async def test_wrong_arguments_are_named_one_by_one_with_what_is_wanted() -> None:
    text, is_error = await answer(weather, {"days": 9, "unit": "rankine", "colour": "red"})
    assert is_error
    assert text == (
        "weather was not run: `city` is missing; "
        "`days` is 9, but it should be less than or equal to 7; "
        "`unit` is 'rankine', but it should be 'celsius' or 'kelvin'; `colour` is unknown. "
        "It takes city (string), days (integer, optional), unit (celsius|kelvin, optional)."
    )


async def test_only_the_first_wrong_arguments_are_named() -> None:
    text, _ = await answer(title, {"title": "x"} | {f"x{number}": 1 for number in range(9)})
    assert "`x4` is unknown; and 4 more. It takes title (string), json" in text


async def test_arguments_that_are_no_json_object_get_a_sentence() -> None:
    for arguments in ("{", "[1]", '"text"', "[" * 100_000, "{'city': 1}"):
        text, is_error = await answer(weather, arguments)
        assert is_error
        assert text.startswith("weather was not run: the arguments ")
        assert text.endswith("unit (celsius|kelvin, optional).")


async def test_an_unknown_tool_is_answered_with_the_nearest_and_all_names() -> None:
    text, is_error = await Toolbox([weather, title]).run(ToolCall("1", "wheather", ""), CONTEXT)
    assert is_error
    assert text == "There is no tool 'wheather'. Did you mean weather? Tools: title, weather."
    text, _ = await Toolbox([]).run(ToolCall("1", "x", ""), CONTEXT)
    assert text == "There is no tool 'x'. Tools: none."


async def test_a_refusal_is_its_own_sentence() -> None:
    @tool
    def refuse() -> str:
        """Refuse."""
        raise ToolError("The shop is closed; come back at nine.")

    assert await answer(refuse) == ("The shop is closed; come back at nine.", True)


@pytest.mark.parametrize(
    ("fault", "is_async"),
    [
        (KeyError("secret"), True),
        (StopIteration(), False),
        (SystemExit(3), True),
        (asyncio.CancelledError(), True),  # of a task that it awaits
    ],
)
async def test_a_crash_is_a_sentence_for_the_model_and_a_traceback_for_the_log(
    fault: BaseException, is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def crash() -> str:
        """Crash."""
        raise fault

    async def crash_later() -> str:
        """Crash."""
        raise fault

    text, is_error = await answer(tool(crash_later if is_async else crash))
    assert is_error
    assert "failed because of an error inside it" in text
    assert "secret" not in text
    assert "Traceback" not in text
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None


async def test_cancelling_the_caller_cancels_the_tool() -> None:
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        await asyncio.Event().wait()
        return ""

    task = asyncio.create_task(answer(wait))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_sync_tool_leaves_the_event_loop_free() -> None:
    released = threading.Event()

    @tool
    def wait() -> str:
        """Wait."""
        return "released" if released.wait(timeout=PATIENCE) else "blocked"

    task = asyncio.create_task(answer(wait))
    await asyncio.sleep(0)
    released.set()
    assert await task == ("released", False)


async def test_whatever_a_tool_returns_is_sent_as_text() -> None:
    results: list[tuple[Any, str]] = [
        ("", "(no output)"),
        (" \n", "(no output)"),
        (None, "(no output)"),
        (0, "0"),
        ({"größe": [1, None]}, '{"größe":[1,null]}'),
        ({"path": Path("a/b")}, '{"path":"a/b"}'),
        ("half \ud83d of a sign", "half ? of a sign"),
        ("\x1b[31mred\x1b[0m \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\x1b(0", "red link"),
        ("\x1b]52;c;aGk=\x07a\x00b\x7f\x9bc", "abc"),
        ("10%\r20%\r\ndone\t\N{WOMAN}\u200d\N{GIRL}", "10%\n20%\ndone\t\N{WOMAN}\u200d\N{GIRL}"),
        ("a\u202etxt.exe\u2066\u2028", "atxt.exe"),
        ("It\x92s \x93here\x94", "Its here"),
        ("\x1b[0m", "(no output)"),
        ({"a": "\x1b[1m"}, '{"a":"\\u001b[1m"}'),
    ]

    @tool
    def give(number: int) -> Any:
        """Give."""
        return results[number][0]

    for number, (_, text) in enumerate(results):
        assert await answer(give, {"number": number}) == (text, False)


@given(
    st.text(st.sampled_from("\x1b[]0;mP\\\x07\x9b\x9c\x00\r\u202e\u2069\ufeffab\n")), st.booleans()
)
async def test_nothing_that_acts_on_a_screen_is_in_a_result(text: str, is_refusal: bool) -> None:
    @tool
    def give() -> str:
        """Give."""
        if is_refusal:
            raise ToolError(text)
        return f"{text}end"

    said, is_error = await answer(give, {})
    assert not set(said) & set("\x1b\x07\x9b\x9c\x00\r\u202e\u2069\ufeff")
    assert is_error is is_refusal


async def test_parameters_may_have_the_names_of_pydantic_methods() -> None:
    assert await answer(title, {"title": "json", "json": {"a": 1}}) == ('{"a":1}', False)


def test_schemas_are_sent_in_the_same_order_whatever_order_they_came_in() -> None:
    assert Toolbox([weather, title]).wire == Toolbox([title, weather]).wire
    assert [wire["function"]["name"] for wire in Toolbox([weather, title]).wire] == [
        "title",
        "weather",
    ]


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two tools are named 'title'"):
        Toolbox([title, weather, title])


def alone() -> str:
    """Work alone."""
    return ""


ALONE = tool(touches={"writes"})(alone)


def test_neighbours_that_may_run_together_share_a_batch() -> None:
    toolbox = Toolbox([weather, title, ALONE])
    batches = toolbox.batches(calls("title", "weather", "alone", "alone", "unknown", "title"))
    assert [[call.name for call in batch] for batch in batches] == [
        ["title", "weather"],
        ["alone"],
        ["alone"],
        ["unknown", "title"],
    ]
    assert toolbox.batches([]) == []


@given(st.lists(st.sampled_from(["title", "weather", "alone", "unknown"])))
def test_batches_keep_every_call_in_its_order(names: list[str]) -> None:
    asked = calls(*names)
    batches = Toolbox([weather, title, ALONE]).batches(asked)
    assert [call for batch in batches for call in batch] == asked
    assert all(len(batch) == 1 or "alone" not in {call.name for call in batch} for batch in batches)


async def test_what_reaches_the_network_or_a_shell_is_not_run_where_nobody_can_be_asked() -> None:
    nobody = replace(CONTEXT, approve=refuse_permission)
    call = ToolCall("1", "weather", '{"city": "Rome"}')
    text, is_error = await Toolbox([weather]).run(call, nobody)
    assert is_error
    assert "nobody can be asked" in text
    assert "city: Rome" in text
    free = Toolbox([replace(weather, asks_first=False)])
    assert await free.run(call, nobody) == ("Rome 1 celsius pipe/main", False)


async def test_nobody_is_asked_what_is_too_long_to_be_read() -> None:
    call = ToolCall("1", "weather", json.dumps({"city": "x" * 10_001}))
    text, is_error = await Toolbox([weather]).run(call, CONTEXT)
    assert is_error
    assert "more than 10,000 characters, too many for a person" in text
