"""Tests of the facts learned from refusals, with the texts of public reports, and of refusals that
must teach none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.models.base import (
    ContextOverflow,
    ModelRefused,
    ModelUnreachable,
    UnexplainedRefusal,
)
from agent.models.endpoint import Endpoint
from agent.models.failures import reason_of, refusal
from agent.models.history import read_history, sign, signer_of
from agent.models.learnt import MOST_PICTURES, LearntModels, Lesson, ModelFacts
from agent.models.openai_request import to_body
from agent.models.refusal_facts import find_bad_picture, find_lesson, is_about_thoughts
from memory.messages import RequestExtras
from tests.agent.endpoints import TOOL
from tests.tables import each_row

PNG = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}
BODY = {
    "model": "m",
    "messages": [{"role": "user", "content": [{"type": "text", "text": "?"}, PNG]}],
    "stream": True,
    "stream_options": {"include_usage": True},
    "tools": [TOOL],
    "tool_choice": "auto",
    "max_tokens": 9_000,
    "temperature": 0.5,
    "prompt_cache_key": "k",
    "response_format": {"type": "json_schema"},
}
TAUGHT = {
    # vllm#12349, Qwen-Agent#344
    '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser': "tools",
    "registry.ollama.ai/library/gemma3:4b does not support tools": "tools",
    "No endpoints found that support tool use. To learn more about routing, visit": "tools",
    "`tool calling` is not supported with this model": "tools",
    "Tool use is not supported by this deployment": "tools",
    "This model does not support function calling": "tools",
    "tools is not supported in this model. For a list of supported models": "tools",
    "Extra inputs are not permitted: body.tools": "tools",
    "Function calling is not enabled for models/gemma-3-27b-it": "tools",
    "Unknown parameter: 'tools'.": "tools",
    "Input validation error: tools are not supported for this model": "tools",
    "tool_choice 'auto' requires a tool call parser": "tools",
    "Tool calling is unavailable here": "tools",
    "'tools' is not a permitted field": "tools",
    "Request body contains unsupported parameters: tools": "tools",
    "`temperature` may only be set to 1 when thinking is enabled": "without",
    "temperature: Input should be less than or equal to 0.3": "without",
    "response_format.type json_schema unavailable": "without",
    "the reasoning_content in the thinking mode must be passed back to the API.": "thoughts",
    "thinking is enabled but reasoning_content is missing in assistant tool call": "thoughts",
    "Missing `reasoning_content` field in the assistant message at message index 1.": "thoughts",
    "Function call is missing a thought_signature in functionCall parts.": "thoughts",
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
    "'max_completion_tokens' instead.": "without",
    "Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) "
    "value is supported.": "without",
    "invalid temperature: only 1 is allowed for this model": "without",
    "Unrecognized request argument supplied: stream_options": "without",
    "stream_options: Extra inputs are not permitted": "without",
    "[{'type': 'extra_forbidden', 'loc': ('body', 'prompt_cache_key'), 'msg': 'Extra inputs are "
    "not permitted'}]": "without",
    "include_usage is not supported": "without",
    "'response_format.type' : value is not one of the allowed values, json_schema is not "
    "supported": "without",
    "tool_choice: unsupported value": "without",
    "max_tokens: 9000 > 8192, which is the maximum allowed number of output tokens": "longest",
    "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]": "longest",
    "`max_tokens` must be less than or equal to `4096`": "longest",
    "This model does not support image input": "pictures",
    "No endpoints found that support image input": "pictures",
    "image input is not supported - hint: you may need to provide the mmproj": "pictures",
    "unknown variant `image_url`, expected `text`": "pictures",
    "fake-model is not a multimodal model": "pictures",
    "Conversation roles must alternate... System role not supported": "system",
    # the same in other words, from other servers
    "model features function calling not support": "tools",  # Novita
    "deepinfra error: Tool calling is not supported for model: m": "tools",
    "InvalidParameter: the model does not support tools, request id: 021": "tools",
    "The model `m` has no tool calling support": "tools",
    "This model is not compatible with tools": "tools",
    "Cannot use tools with this model: no tool template": "tools",
    "Unsupported tool_call_parser: None": "tools",
    "<400> InternalError.Algo.InvalidParameter: Tools are not supported by the model.": "tools",
    "body.tools: Extra inputs are not permitted": "tools",
    "ollama does not support parameters: ['tools'], for model=m.": "tools",
    "Tool choice is not supported": "without",
    "No endpoints found that support the provided 'tool_choice' value.": "without",
    "`temperature` and `top_p` cannot both be specified for this model.": "without",
    "The temperature parameter is illegal. [0,1]": "without",
    "'messages' must contain the word 'json', to use 'response_format'.": "without",
    "Structured outputs are not supported for this model": "without",
    "json mode cannot be combined with tool/function calling": "without",
    "Function calling with a response mime type: 'application/json' is unsupported": "without",
    'Invalid JSON payload received. Unknown name "prompt_cache_key": Cannot find field.': "without",
    'json: unknown field "stream_options"': "without",
    "max_tokens (9000) exceeds the maximum output of 8,192": "longest",
    "The maximum tokens you requested exceeds the model limit of 4096.": "longest",
    "it has a maxOutputTokens value of 9000 but the supported range is from 1 (inclusive) to 8193 "
    "(exclusive).": "longest",
    "max_tokens参数非法。限制 [1,8192]": "longest",
    "invalid params, max_tokens should be in (0, 8192]": "longest",
    "body.max_tokens: Input should be less than or equal to 8192": "longest",
    "The max_tokens parameter exceeds the limit: 9000 > 8192": "longest",
    "Invalid content type. image_url is only supported by certain models.": "pictures",
    "At most 0 image(s) may be provided in one request.": "pictures",
    "Input should be a valid string: messages.1.content": "pictures",
    "Unsupported message content type: image_url": "pictures",
    "Model only supports text input": "pictures",
    "Developer instruction is not enabled for models/gemma-3-27b-it": "system",
    "Unsupported value: 'messages[0].role' does not support 'system' with this model.": "system",
    "'system' role is not allowed": "system",
    "This model doesn't support system messages. Try again without.": "system",
    "invalid message role: system": "system",
    "Only one system message is allowed": "system",
    "multiple system messages are not supported": "system",
    "system messages are only allowed at the start of the conversation": "system",
}
TEACHES_NOTHING = (
    "parallel_tool_calls is not supported",
    "Unsupported arguments in tool call c1",
    "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
    "Invalid tool call arguments: expected an object",
    "tool call validation failed: attempted to call tool 'x' which was not in request.tools",
    "Failed to call a function. Please adjust your prompt.",
    "An assistant message with 'tool_calls' must be followed by tool messages",
    "Invalid schema for function 'look': In context=(), 'additionalProperties' is required",
    "tools.0.function.name: string does not match pattern",
    "Invalid 'messages[3].tool_calls[0].id': string too long",
    "Tool names must be unique.",
    "messages: text content blocks must be non-empty",
    "Parallel tool calls are not supported by this model",
    "Unsupported value: 'tools[0].type'. Supported values are: 'function'",
    "Unknown parameter: 'tools[0].strict'.",
    "body.tools.0.function.strict: extra fields not permitted",
    "Unsupported content type in tool message: image",
    "tool message is not allowed after user message",
    "Unknown tool 'x' in messages[3]",
    "Tool call arguments are not valid JSON: unexpected end",
    "System prompt must not be empty",
    "Your system does not support the operation",
    "This function is not available in your region",
    "The model `m` is not supported",
    "The request was refused.",
    "it gave no reason",
    "You have exceeded your limit",
)
SAID = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello!"},
    {"role": "user", "content": "And?"},
]
ENDPOINT = Endpoint("m", "http://127.0.0.1/v1")


def refused(said: str, status: int = 400) -> ModelRefused:
    error = ModelRefused("It was refused.")
    error.status, error.detail = status, said
    return error


@each_row("said", TAUGHT)
def test_the_words_of_public_reports_teach_what_they_mean(said: str) -> None:
    lesson = find_lesson(ENDPOINT, BODY, refused(said), ModelFacts())
    assert lesson is not None
    assert lesson.fact == TAUGHT[said]


@each_row("said", TEACHES_NOTHING)
def test_complaints_about_one_part_of_a_request_teach_nothing(said: str) -> None:
    assert find_lesson(ENDPOINT, BODY, refused(said), ModelFacts()) is None


@each_row("said", TAUGHT)
def test_a_key_a_limit_or_a_server_that_fails_teaches_nothing(said: str) -> None:
    for status in (401, 403, 429):
        assert find_lesson(ENDPOINT, BODY, refused(said, status), ModelFacts()) is None


def test_llama_cpp_says_with_500_that_it_takes_no_tools() -> None:
    error = ModelUnreachable("It failed.")
    error.status, error.detail = 500, "tools param requires --jinja flag"
    lesson = find_lesson(ENDPOINT, BODY, error, ModelFacts())
    assert lesson is not None
    assert (lesson.fact, lesson.value) == ("tools", False)
    error.detail = "the tool is not supported"
    assert find_lesson(ENDPOINT, BODY, error, ModelFacts()) is None


@each_row(
    ("said", "longest"),
    [
        ("max_tokens (9000) exceeds the maximum output of 8,192", 8192),
        ("supported range of maxOutputTokens is from 1 to 8193 (exclusive)", 8192),
        ("Range of max_tokens should be [1, 8192]", 8192),
        ("max_tokens is too large for claude-3-5-haiku-2024: 9000 > 8192", 8192),
        ("max_tokens: must be greater than thinking.budget_tokens (1024)", 0),
        ("max_tokens must be at least 1000", 0),
        ("max_tokens is out of range (error 400)", 0),
    ],
)
def test_the_longest_answer_is_the_largest_number_below_what_was_asked_for(
    said: str, longest: int
) -> None:
    lesson = find_lesson(ENDPOINT, BODY, refused(said), ModelFacts())
    assert (lesson.value if lesson and lesson.fact == "longest" else 0) == longest


def test_claude_is_always_told_how_long_an_answer_may_be() -> None:
    body = BODY | {"protocol": "anthropic"}
    assert find_lesson(ENDPOINT, body, refused("max_tokens: Field required"), ModelFacts()) is None


def test_a_refusal_may_come_with_any_status() -> None:
    for status, said in ((500, "Jinja Exception: System role not supported"), (405, "no tools")):
        body = f'{{"error": {{"message": "{said}", "code": {status}}}}}'
        error = refusal(ENDPOINT, status, body)
        assert isinstance(error, ModelRefused)
        assert str(status) in str(error)
    template = '{"error": {"message": "Error rendering chat template: only single tool-calls"}}'
    assert isinstance(refusal(ENDPOINT, 500, template), UnexplainedRefusal)
    assert isinstance(refusal(ENDPOINT, 500, '{"error": "out of memory"}'), ModelUnreachable)


def test_a_field_of_thoughts_is_refused_where_it_was_sent() -> None:
    for said in (
        "property 'reasoning_content' is unsupported",
        "reasoning_content: Extra inputs",
        "Please remove the reasoning_content from your message",
    ):
        sent = BODY | {"thoughts": "reasoning_content"}
        lesson = find_lesson(ENDPOINT, sent, refused(said), ModelFacts())
        assert lesson == Lesson("thoughts", "none")
        assert find_lesson(ENDPOINT, BODY, refused(said), ModelFacts()) is None


def test_who_wants_thoughts_though_they_were_sent_wants_them_in_answers_too() -> None:
    sent = BODY | {"thoughts": "reasoning_content"}
    said = "the reasoning_content in the thinking mode must be passed back to the API."
    assert find_lesson(ENDPOINT, sent, refused(said), ModelFacts()) == Lesson(
        "thoughts_everywhere", True
    )
    body = to_body(sent | {"messages": SAID, "thoughts_everywhere": True}, RequestExtras())
    assert all(m["reasoning_content"].strip() for m in body["messages"] if m["role"] == "assistant")


def test_parameters_of_a_client_are_not_left_out_behind_its_back() -> None:
    said = "Unsupported parameter: 'temperature'"
    assert find_lesson(ENDPOINT, BODY, refused(said), ModelFacts(), ["temperature"]) is None


def test_a_gateway_has_the_reason_in_its_metadata() -> None:
    inner = '{\\"error\\": {\\"message\\": \\"Invalid `signature` in `thinking` block\\"}}'
    body = (
        f'{{"error": {{"message": "Provider returned error", "metadata": {{"raw": "{inner}"}}}}}}'
    )
    assert reason_of(body) == "Invalid `signature` in `thinking` block"
    assert is_about_thoughts(refused(reason_of(body)))


@each_row(
    "body",
    [
        '{"errors": [{"code": 7, "message": "on fire"}], "success": false}',
        '{"error": null, "message": "on fire"}',
        '{"error": "{\\"detail\\": \\"on fire\\"}"}',
        '{"base_resp": {"status_code": 1, "status_msg": "on fire"}}',
        '"on fire"',
        "on fire",
    ],
)
def test_the_reason_is_found_wherever_it_is(body: str) -> None:
    assert reason_of(body) == "on fire"


def test_a_word_that_serves_as_a_key_is_not_blotted_out() -> None:
    said = "registry.ollama.ai/gemma does not support tools"
    for key, told in (("ollama", said), ("sk-0123456789", "…")):
        endpoint = Endpoint("m", "http://127.0.0.1/v1", key)
        assert endpoint.without_key(said if key == "ollama" else key) == told


def test_markup_is_no_reason_and_all_else_is() -> None:
    assert reason_of("<!doctype html><p>502") == reason_of(" ") == "it gave no reason"
    assert reason_of('{"error": {"message": "<400> Range"}}') == "<400> Range"
    fields = '{"detail": [{"loc": ["body", "tools", 0], "msg": "no"}, {"loc": ["x"], "msg": "y"}]}'
    assert reason_of(fields) == "body.tools.0: no; x: y"
    for body in ("{}", "[]", '{"error": {}}', '{"error": 7}', '{"error": {"message": [1]}}'):
        assert reason_of(body) == body


def test_the_picture_that_is_refused_is_the_newest_that_was_not_taken_before() -> None:
    error = refused("Could not process image")
    assert find_bad_picture(BODY, error, frozenset()) == PNG["image_url"]["url"]  # type: ignore[index]
    assert find_bad_picture(BODY, refused("no"), frozenset()) == ""


@given(st.lists(st.sampled_from(["tools", "without", "refused"])), st.lists(st.text(max_size=5)))
def test_a_lesson_is_new_once_and_is_told_once(facts: list[str], names: list[str]) -> None:
    learnt = ModelFacts()
    for fact in facts:
        lesson = Lesson(fact, False if fact == "tools" else names, f"{fact}!")
        is_new = learnt.learn(lesson)
        assert not learnt.learn(lesson)
        assert learnt.take_unreported() == ([f"{fact}!"] if is_new else [])
        assert learnt.take_unreported() == []
    assert all(isinstance(line, str) for line in learnt.describe())


@given(st.lists(st.integers(1, 10**7), min_size=1), st.sampled_from(["bytes", "longest"]))
def test_the_smallest_of_what_is_too_large_holds(sizes: list[int], fact: str) -> None:
    learnt = ModelFacts()
    for size in sizes:
        learnt.learn(Lesson(fact, size))
    assert learnt.facts == {fact: min(sizes)}


def test_a_request_with_pictures_that_is_too_large_says_how_large() -> None:
    error = ContextOverflow("too large")
    error.status, error.sent = 413, 100_000
    lesson = find_lesson(ENDPOINT, BODY, error, ModelFacts())
    assert lesson is not None
    assert (lesson.fact, lesson.value) == ("bytes", 100_000)
    error.sent = 9_000
    assert find_lesson(ENDPOINT, BODY, error, ModelFacts()) is None, "it means something else"


def test_refused_pictures_are_bounded() -> None:
    learnt = ModelFacts()
    for number in range(MOST_PICTURES + 9):
        learnt.learn(Lesson("refused", [str(number)]))
    assert len(learnt.facts["refused"]) == MOST_PICTURES


def test_kept_facts_that_cannot_be_read_are_left_out() -> None:
    models = LearntModels()
    models.load([("u", "a", "{"), ("u", "b", '{"tools": false}'), ("u", "c", "[1]")])
    assert [models.of("u", name).facts.get("tools") for name in "abc"] == [None, False, None]


@given(st.text(), st.sampled_from("ab"), st.sampled_from("ab"))
def test_thoughts_go_back_to_the_model_that_made_them_alone(
    thoughts: str, maker: str, reader: str
) -> None:
    signed = sign(thoughts, signer_of("p", maker))
    body = {"messages": [], "signer": signer_of("p", reader)}
    _, beside = read_history(body, RequestExtras({"c1": signed}))
    assert beside.thoughts.get("c1", "") == (thoughts if maker == reader else "")
