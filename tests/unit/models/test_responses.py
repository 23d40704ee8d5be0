import json
import time
from dataclasses import replace
from typing import Any, cast

import pytest
from openai.types.responses import ResponseCreateParams
from pydantic import TypeAdapter

from outlast.agents.config.model_settings import MCPToolChoice, ModelSettings
from outlast.agents.tools.custom import CustomTool
from outlast.agents.tools.hosted import (
    CodeInterpreterTool,
    FileSearchTool,
    HostedMCPTool,
    HostedTool,
    WebSearchTool,
)
from outlast.agents.tools.search import ToolSearchTool
from outlast.extensions.machine.computer_tool import ComputerTool
from outlast.extensions.machine.shell import ShellTool
from outlast.loop.items import refusal_of, text_of
from outlast.loop.values import JsonObject, Usage
from outlast.models import OpenAIConnection, ResponsesModel
from outlast.models.openai.responses import FILTERED, responses_body
from outlast.ports.model import (
    Model,
    ModelError,
    ModelRequest,
    OutputSpec,
    ToolSpec,
    response_of_stream,
)
from tests.unit.models.conftest import over_both
from tests.unit.models.model_server import ModelServer
from tests.unit.models.responses_api import HELLO, ask, message, response
from tests.unit.models.streams import collect_until_failure

REFUND = ToolSpec(
    name="refund",
    description="Pay back.",
    parameters={
        "type": "object",
        "properties": {"order": {"type": "string"}},
        "required": ["order"],
        "additionalProperties": False,
    },
)


async def test_a_response_comes_back_with_its_items_usage_and_ids(
    model: ResponsesModel, server: ModelServer
) -> None:
    call: JsonObject = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "refund",
        "arguments": "{}",
        "status": "completed",
    }
    reasoning: JsonObject = {"type": "reasoning", "id": "rs_1", "summary": []}
    server.answer(response(reasoning, message("hi"), call), headers={"x-request-id": "req_9"})
    answer = await model.get_response(ask())
    assert answer.output == [reasoning, message("hi"), call]
    assert answer.usage == Usage(
        requests=1,
        input_tokens=30,
        output_tokens=7,
        total_tokens=37,
        cached_tokens=20,
        reasoning_tokens=5,
    )
    assert (answer.response_id, answer.request_id) == ("resp_1", "req_9")


async def test_the_request_is_posted_as_json_with_the_key(
    model: ResponsesModel, server: ModelServer
) -> None:
    server.answer(response(message("hi")))
    await model.get_response(ask())
    request = server.request
    assert request.path == "/v1/responses"
    assert request.headers["authorization"] == "Bearer sk-test-4711"
    assert request.headers["content-type"] == "application/json"
    assert request.body == {"model": "gpt-test", "instructions": "Be kind.", "input": HELLO}


@over_both
@pytest.mark.breaks_rules("thread-once")
async def test_every_setting_reaches_the_body_under_the_name_the_api_knows(
    model: ResponsesModel, server: ModelServer
) -> None:
    server.answer(response(message("hi")))
    settings = ModelSettings(
        temperature=0.5,
        top_p=0.9,
        frequency_penalty=1.0,
        presence_penalty=1.0,
        tool_choice="refund",
        parallel_tool_calls=False,
        truncation="auto",
        max_tokens=100,
        reasoning={"effort": "low"},
        verbosity="low",
        metadata={"team": "support"},
        store=False,
        include=["reasoning.encrypted_content"],
        extra_headers={"x-team": "support"},
        extra_query={"version": "2"},
        extra_args={"service_tier": "flex", "top_p": 0.8},
        extra_body={"service_tier": "priority"},
    )
    output = OutputSpec(name="answer", schema={"type": "object"}, strict=False)
    await model.get_response(
        ask(
            tools=[REFUND],
            settings=settings,
            output=output,
            previous_response_id="resp_0",
            conversation_id="conv_1",
        )
    )
    assert server.request.body == {
        "model": "gpt-test",
        "instructions": "Be kind.",
        "input": HELLO,
        "tools": [
            {
                "type": "function",
                "name": "refund",
                "description": "Pay back.",
                "parameters": REFUND.parameters,
                "strict": True,
            }
        ],
        "tool_choice": {"type": "function", "name": "refund"},
        "parallel_tool_calls": False,
        "temperature": 0.5,
        "top_p": 0.8,
        "truncation": "auto",
        "max_output_tokens": 100,
        "reasoning": {"effort": "low"},
        "metadata": {"team": "support"},
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "text": {
            "format": {
                "type": "json_schema",
                "name": "answer",
                "schema": {"type": "object"},
                "strict": False,
            },
            "verbosity": "low",
        },
        "previous_response_id": "resp_0",
        "conversation": "conv_1",
        "service_tier": "priority",
    }
    assert server.request.headers["x-team"] == "support"
    assert server.request.query == {"version": ["2"]}


def test_what_is_set_of_caches_logprobs_and_long_conversations_is_asked_for() -> None:
    settings = ModelSettings(
        top_logprobs=3,
        include=["reasoning.encrypted_content"],
        prompt_cache_key="desk",
        prompt_cache_retention="24h",
        prompt_cache_options={"mode": "implicit"},
        context_management=[{"type": "compaction", "compact_threshold": 1000}],
    )
    body = responses_body(ask(settings=settings), "m")
    assert body == {
        "model": "m",
        "instructions": "Be kind.",
        "input": HELLO,
        "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
        "top_logprobs": 3,
        "prompt_cache_key": "desk",
        "prompt_cache_retention": "24h",
        "prompt_cache_options": {"mode": "implicit"},
        "context_management": [{"type": "compaction", "compact_threshold": 1000}],
    }
    declared: TypeAdapter[Any] = TypeAdapter(ResponseCreateParams)
    declared.validate_python(body)


def test_the_body_fits_the_parameters_that_the_client_package_declares() -> None:
    settings = ModelSettings(tool_choice="required", reasoning={"effort": "low"}, verbosity="high")
    body = responses_body(
        ask(tools=[REFUND], settings=settings, output=OutputSpec(name="a", schema={})), "gpt-test"
    )
    declared: TypeAdapter[Any] = TypeAdapter(ResponseCreateParams)
    declared.validate_python(body)


@pytest.mark.parametrize("choice", ["auto", "required", "none"])
def test_a_tool_choice_that_is_no_tool_goes_out_as_it_is(choice: str) -> None:
    body = responses_body(ask(tools=[REFUND], settings=ModelSettings(tool_choice=choice)), "m")
    assert body["tool_choice"] == choice


def test_a_kind_of_tool_may_be_chosen_by_the_name_that_the_api_has_for_it() -> None:
    settings = ModelSettings(tool_choice="web_search_preview")
    searching = ask(hosted_tools=[WebSearchTool()], settings=settings)
    assert responses_body(searching, "m")["tool_choice"] == {"type": "web_search_preview"}


def test_a_function_may_have_the_name_of_a_hosted_tool() -> None:
    named = ToolSpec(name="tool_search", description="", parameters={})
    settings = ModelSettings(tool_choice="tool_search")
    searching = ask(tools=[named], hosted_tools=[ToolSearchTool()], settings=settings)
    chosen = {"type": "function", "name": "tool_search"}
    assert responses_body(searching, "m")["tool_choice"] == chosen


def test_a_tool_that_is_not_strict_says_so() -> None:
    tool = ToolSpec(name="t", description="", parameters={}, strict=False)
    assert responses_body(ask(tools=[tool]), "m")["tools"][0]["strict"] is False


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({}, False),
        ({"prompt": {"id": "pmpt_1"}}, True),
        ({"extra_args": {"tools": [{"type": "web_search"}]}}, True),
        ({"extra_body": {"tools": [{"type": "web_search"}]}}, True),
    ],
)
def test_tool_choice_goes_out_only_where_there_may_be_tools(
    fields: dict[str, Any], sent: bool
) -> None:
    prompt = fields.pop("prompt", None)
    settings = ModelSettings(tool_choice="required", parallel_tool_calls=True, **fields)
    body = responses_body(ask(settings=settings, prompt=prompt), "m")
    assert ("tool_choice" in body, "parallel_tool_calls" in body) == (sent, sent)


@over_both
async def test_a_stored_prompt_chooses_the_model_unless_somebody_named_one(
    model: ResponsesModel, server: ModelServer
) -> None:
    prompt = {"id": "pmpt_1", "version": "2"}
    nobodys = ResponsesModel("gpt-test", model._connection, is_default=True)
    for one in (model, nobodys):
        server.answer(response(message("hi")))
        await one.get_response(ModelRequest(instructions=None, input=HELLO, prompt=prompt))
    assert server.requests[0].body == {"model": "gpt-test", "input": HELLO, "prompt": prompt}
    assert server.requests[1].body == {"input": HELLO, "prompt": prompt}


@over_both
async def test_a_request_is_not_changed_by_being_sent(
    model: ResponsesModel, server: ModelServer
) -> None:
    request = ask(
        [{"role": "user", "content": [{"type": "input_text", "text": "hello"}]}],
        tools=[REFUND],
        settings=ModelSettings(extra_args={"a": {"b": 1}}, extra_body={"c": [1]}),
    )
    before = json.dumps([request.input, request.settings.extra_args, REFUND.parameters])
    server.answer(response(message("hi")))
    await model.get_response(request)
    assert json.dumps([request.input, request.settings.extra_args, REFUND.parameters]) == before


@over_both
async def test_an_answer_cut_short_is_an_answer(model: ResponsesModel, server: ModelServer) -> None:
    details = {"reason": "max_output_tokens"}
    server.answer(response(message("hi"), status="incomplete", incomplete_details=details))
    [item] = (await model.get_response(ask())).output
    assert item == {**message("hi"), "status": "incomplete"}


REASONING: JsonObject = {"type": "reasoning", "id": "rs_1", "summary": []}
CALL: JsonObject = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c1",
    "name": "refund",
    "arguments": "{}",
    "status": "incomplete",
}


@over_both
@pytest.mark.parametrize(
    ("output", "said"),
    [
        ([], ""),
        ([REASONING], ""),
        ([message("Half a sen")], "Half a sen"),
        ([REASONING, message("Half a sen"), CALL], "Half a sen"),
    ],
)
async def test_a_filtered_answer_is_a_refusal(
    model: ResponsesModel, server: ModelServer, output: list[JsonObject], said: str
) -> None:
    details = {"reason": "content_filter"}
    filtered = response(*output, status="incomplete", incomplete_details=details)
    server.answer(filtered)
    [item] = (await model.get_response(ask())).output
    assert (refusal_of(item), text_of(item)) == (FILTERED, said)
    server.stream([{"type": "response.incomplete", "response": filtered}])
    streamed = await response_of_stream(model.stream_response(ask()))
    assert [{**one, "id": item["id"]} for one in streamed.output] == [item]


@over_both
@pytest.mark.parametrize("status", ["completed", "incomplete"])
@pytest.mark.parametrize("output", [[], [REASONING], [message("")], [REASONING, message(" ")]])
async def test_an_answer_of_nothing_is_no_answer(
    model: ResponsesModel, server: ModelServer, output: list[JsonObject], status: str
) -> None:
    empty = response(*output, status=status)
    server.answer(empty)
    with pytest.raises(ModelError, match="answered with nothing") as caught:
        await model.get_response(ask())
    error = caught.value
    assert (error.code, error.retryable, error.attempts) == ("empty_answer", True, 2)
    server.stream([{"type": f"response.{status}", "response": empty}])
    _, failure = await collect_until_failure(model.stream_response(ask()))
    assert failure.code == "empty_answer"


@over_both
async def test_an_answer_of_nothing_is_not_asked_for_again_where_the_server_keeps_the_conversation(
    model: ResponsesModel, server: ModelServer
) -> None:
    server.answer(response())
    with pytest.raises(ModelError) as caught:
        await model.get_response(ask(conversation_id="conv_1"))
    assert (caught.value.code, caught.value.retryable) == ("empty_answer", False)


@over_both
async def test_an_answer_whose_items_came_on_the_way_only_is_no_empty_one(
    model: ResponsesModel, server: ModelServer
) -> None:
    done = {"type": "response.output_item.done", "item": message("hi")}
    server.stream([done, {"type": "response.completed", "response": response()}])
    streamed = await response_of_stream(model.stream_response(ask()))
    assert streamed.output == [message("hi")]


@over_both
@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, Usage(requests=1)),
        (
            {"input_tokens": 3, "output_tokens": 2},
            Usage(requests=1, input_tokens=3, output_tokens=2, total_tokens=5),
        ),
        ({"input_tokens": "many", "output_tokens": True, "total_tokens": -1}, Usage(requests=1)),
        (
            {"input_tokens": 3, "input_tokens_details": None, "total_tokens": 4},
            Usage(requests=1, input_tokens=3, total_tokens=4),
        ),
    ],
)
async def test_usage_that_is_missing_or_odd_counts_as_zero(
    model: ResponsesModel, server: ModelServer, usage: object, expected: Usage
) -> None:
    server.answer(response(message("hi"), usage=usage))
    assert (await model.get_response(ask())).usage == expected


@over_both
@pytest.mark.parametrize(
    ("body", "says"),
    [
        ([], "JSON object"),
        ({}, "no list of items"),
        ({"output": None}, "no list of items"),
        ({"output": ["text"]}, "no list of items"),
        ({"output": [{"id": "msg_1"}]}, "without a type"),
        ({"choices": []}, "speaks Chat Completions"),
    ],
)
async def test_json_that_is_no_response_is_a_bad_response(
    model: ResponsesModel, server: ModelServer, body: object, says: str
) -> None:
    server.answer(body)
    with pytest.raises(ModelError, match=says) as caught:
        await model.get_response(ask())
    assert (caught.value.code, caught.value.retryable) == ("bad_response", True)


@over_both
@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        ({"code": "server_error", "message": "Sorry."}, "server_error", True),
        ({"code": "rate_limit_exceeded", "message": "Slow."}, "rate_limited", True),
        ({"code": "invalid_image_url", "message": "No image."}, "invalid_request", False),
        ({"code": "vector_store_timeout", "message": "Slow."}, "timeout", True),
        (None, "server_error", True),
    ],
)
async def test_a_response_that_failed_is_told_by_its_error(
    model: ResponsesModel, server: ModelServer, error: object, code: str, retryable: bool
) -> None:
    server.answer(response(status="failed", error=error))
    with pytest.raises(ModelError) as caught:
        await model.get_response(ask())
    assert (caught.value.code, caught.value.retryable) == (code, retryable)


@over_both
@pytest.mark.parametrize("status", ["queued", "in_progress", "cancelled"])
async def test_a_response_left_in_the_background_is_not_taken_for_an_answer(
    model: ResponsesModel, server: ModelServer, status: str
) -> None:
    server.answer(response(status=status))
    with pytest.raises(ModelError, match=status) as caught:
        await model.get_response(ask())
    assert (caught.value.code, caught.value.retryable) == ("invalid_request", False)


async def test_a_long_conversation_costs_no_model_object_per_item(
    model: ResponsesModel, server: ModelServer
) -> None:
    items: list[JsonObject] = []
    for n in range(100):
        call_id = f"call_{n}"
        items += [
            {"type": "function_call", "call_id": call_id, "name": "t", "arguments": "{}"},
            {"type": "function_call_output", "call_id": call_id, "output": "x" * 1000},
        ]
    costs: list[float] = []
    for _ in range(8):
        server.answer(response(message("hi")))
        started = time.process_time()
        await model.get_response(ask(items))
        costs.append(time.process_time() - started)
    # Both ends together take 2 ms; the client's typed method alone takes 90.
    assert min(costs) < 0.03
    assert server.requests[-1].body["input"] == items


def test_it_is_a_model(model: ResponsesModel) -> None:
    port: Model = model
    assert port is model


def test_hosted_tools_are_sent_beside_the_functions() -> None:
    files = FileSearchTool(vector_store_ids=["vs_1"], include_search_results=True)
    request = ModelRequest(
        instructions=None,
        input=[],
        tools=[REFUND],
        hosted_tools=[files, WebSearchTool()],
        settings=ModelSettings(include=["reasoning.encrypted_content"], tool_choice="web_search"),
    )
    body = responses_body(request, "m")
    assert [tool["type"] for tool in body["tools"]] == ["function", "file_search", "web_search"]
    assert body["include"] == ["reasoning.encrypted_content", "file_search_call.results"]
    assert body["tool_choice"] == {"type": "web_search"}


def test_tools_are_sent_in_the_agents_order() -> None:
    request = ModelRequest(
        instructions=None,
        input=[],
        tools=[REFUND, ToolSpec(name="track", description="", parameters={})],
        hosted_tools=[
            WebSearchTool(),
            CodeInterpreterTool({"type": "code_interpreter", "container": {"type": "auto"}}),
            FileSearchTool(["vs_1"]),
        ],
        hosted_positions=[0, 2],
    )
    assert [tool.get("name") or tool["type"] for tool in responses_body(request, "m")["tools"]] == [
        "web_search",
        "refund",
        "code_interpreter",
        "track",
        "file_search",
    ]


def test_a_function_may_have_the_name_of_a_hosted_tool_that_is_not_there() -> None:
    request = ModelRequest(
        instructions=None,
        input=[],
        tools=[ToolSpec(name="file_search", description="", parameters={})],
        hosted_tools=[WebSearchTool()],
        settings=ModelSettings(tool_choice="file_search"),
    )
    assert responses_body(request, "m")["tool_choice"] == {
        "type": "function",
        "name": "file_search",
    }


def test_what_another_server_wants_back_is_not_sent() -> None:
    item = {**message("hi"), "provider_data": {"model": "anthropic/claude"}}
    body = responses_body(ask([*HELLO, item]), "gpt-test")
    assert body["input"] == [*HELLO, message("hi")]
    assert "provider_data" in item


def test_what_another_servers_model_thought_is_not_sent() -> None:
    kept = {"model": "anthropic/claude"}
    thought: JsonObject = {"type": "reasoning", "id": "rs_1", "summary": [], "provider_data": kept}
    body = responses_body(ask([*HELLO, thought]), "gpt-test")
    assert body["input"] == HELLO


def thought(item_id: str = "rs_1", **fields: Any) -> JsonObject:
    return {"type": "reasoning", "id": item_id, "summary": [], **fields}


SEALED: JsonObject = {"encrypted_content": "gAAAA"}
LOOK: JsonObject = {
    "type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": "{}",
}  # fmt: skip
SEEN: JsonObject = {"type": "function_call_output", "call_id": "c1", "output": "seen"}
SEARCH: JsonObject = {"type": "web_search_call", "id": "ws_1", "status": "completed"}


def plain(item: JsonObject) -> JsonObject:
    return {name: value for name, value in item.items() if name != "id"}


@pytest.mark.parametrize(
    ("items", "sent"),
    [
        ([thought(), message("hi")], None),
        ([thought(), LOOK, {**LOOK, "id": "fc_2", "call_id": "c2"}, SEEN], None),
        ([thought(), thought("rs_2"), SEARCH], None),
        ([thought(), SEARCH, message("hi")], [thought(), SEARCH, plain(message("hi"))]),
        ([message("before"), *HELLO, thought(), LOOK], [plain(message("before")), *HELLO, thought(), LOOK]),
        ([thought(), LOOK, SEEN, message("hi")], [thought(), LOOK, SEEN, plain(message("hi"))]),
        ([thought(), *HELLO], HELLO),
        ([message("hi"), thought()], [plain(message("hi"))]),
        ([thought(), SEEN], [SEEN]),
        ([thought(), plain(message("hi"))], [plain(message("hi"))]),
        ([thought(**SEALED), plain(message("hi"))], [plain(thought(**SEALED)), plain(message("hi"))]),
        ([plain(thought(**SEALED)), message("hi")], [plain(thought(**SEALED)), plain(message("hi"))]),
    ],
)  # fmt: skip
def test_reasoning_and_what_it_led_to_have_their_ids_together_or_not_at_all(
    items: list[JsonObject], sent: list[JsonObject] | None
) -> None:
    body = responses_body(ask([*HELLO, *items]), "gpt-test")
    assert body["input"] == [*HELLO, *(items if sent is None else sent)]


@pytest.mark.parametrize("run_id", [None, "run"])
@pytest.mark.parametrize(
    ("model", "takes"),
    [("gpt-5.6-luna", True), ("o3", True), ("computer-use-preview", True), ("gpt-4.1", False),
     ("gpt-4o-mini", False), ("gpt-5-chat-latest", False), ("ft:gpt-4.1:team::x", False)],
)  # fmt: skip
def test_a_model_that_takes_no_reasoning_gets_none(
    model: str, run_id: str | None, *, takes: bool
) -> None:
    """As after a handoff or a deploy, in the same run."""
    items = [*HELLO, thought(), message("hi"), *HELLO]
    request = replace(ask(items), run_id=run_id)
    assert responses_body(request, "o4-mini")["input"] == items
    sent = items if takes else [*HELLO, plain(message("hi")), *HELLO]
    assert responses_body(request, model)["input"] == sent


def test_what_begins_a_conversation_may_have_lost_its_reasoning_and_has_no_id() -> None:
    two = {**message("two"), "id": "msg_2"}
    cut = [message("one"), LOOK, SEEN, two]
    body = responses_body(ask([*cut, *HELLO]), "gpt-test")
    assert body["input"] == [plain(message("one")), plain(LOOK), SEEN, two, *HELLO]


def test_reasoning_that_is_followed_in_the_next_request_is_sent_then() -> None:
    begun = [*HELLO, thought()]
    for items, sent in ((begun, HELLO), ([*begun, LOOK], [*begun, LOOK]), (begun, HELLO)):
        request = replace(ask(items), run_id="followed")
        assert responses_body(request, "gpt-test")["input"] == sent


def test_an_id_that_several_answers_have_is_none() -> None:
    """As some models give all that they say one id."""
    items = [
        *HELLO,
        message("one"),
        *HELLO,
        message("two"),
        *HELLO,
        {**message("x"), "id": "msg_9"},
    ]
    sent = [*HELLO, plain(message("one")), *HELLO, plain(message("two")), *items[4:]]
    assert responses_body(ask(items), "gpt-test")["input"] == sent


def test_an_id_that_is_too_long_for_openai_is_shortened_in_pairs() -> None:
    long = {"call_id": "x" * 80}
    called, seen = responses_body(ask([*HELLO, LOOK | long, SEEN | long]), "m")["input"][1:]
    assert called["call_id"] == seen["call_id"] != "x" * 80
    assert len(seen["call_id"]) <= 40


@pytest.mark.parametrize("model", ["gpt-5.6-luna", "gpt-4.1"])
def test_a_search_that_reasoning_led_to_is_not_sent_without_it(model: str) -> None:
    items = [*HELLO, thought(), SEARCH, message("hi"), *HELLO]
    sent = items[1:3] if model == "gpt-5.6-luna" else []
    body = responses_body(ask(items), model)
    assert body["input"] == [*HELLO, *sent, plain(message("hi")), *HELLO]


def test_what_stands_for_an_id_in_saved_conversations_is_not_sent() -> None:
    call: JsonObject = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    saved = [{**one, "id": "__fake_id__"} for one in (message("hi"), call)]
    body = responses_body(ask([*HELLO, *saved]), "gpt-test")
    assert body["input"] == [
        *HELLO,
        {name: value for name, value in message("hi").items() if name != "id"},
        call,
    ]


class Screen:
    """What a request tells of a computer."""

    environment = "mac"
    dimensions = (8, 6)


def request_of(choice: str | None, *tools: HostedTool) -> ModelRequest:
    settings = ModelSettings(tool_choice=choice)
    return ModelRequest(instructions=None, input=[], hosted_tools=tools, settings=settings)


@pytest.mark.parametrize("choice", ["computer", "computer_use", "computer_use_preview"])
@pytest.mark.parametrize(
    ("model", "kind"), [("gpt-5.4", "computer"), ("computer-use-preview", "computer_use_preview")]
)
def test_a_computer_is_told_as_the_model_knows_it(model: str, kind: str, choice: str) -> None:
    tool = ComputerTool(len)
    tool.computer = cast("Any", Screen())
    body = responses_body(request_of(choice, tool), model)
    assert body["tools"][0]["type"] == kind
    assert body["tool_choice"] == {"type": kind}


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("shell", {"type": "shell"}),
        ("sql", {"type": "custom", "name": "sql"}),
        ("custom", {"type": "function", "name": "custom"}),
        ("computer", {"type": "function", "name": "computer"}),
    ],
)
def test_a_tool_that_is_no_function_is_chosen_by_its_kind_or_name(
    choice: str, sent: JsonObject
) -> None:
    tools = (ShellTool(str), CustomTool("sql", "", cast("Any", str)))
    assert responses_body(request_of(choice, *tools), "gpt-5.4")["tool_choice"] == sent


def test_a_tool_of_an_mcp_server_is_chosen_by_both_names() -> None:
    server = HostedMCPTool({"type": "mcp", "server_label": "wiki", "server_url": "https://w"})
    request = ask(
        hosted_tools=(server,), settings=ModelSettings(tool_choice=MCPToolChoice("wiki", "search"))
    )
    assert responses_body(request, "m")["tool_choice"] == {
        "type": "mcp",
        "server_label": "wiki",
        "name": "search",
    }


def test_what_only_replies_may_have_is_not_sent_back() -> None:
    call: JsonObject = {"type": "shell_call", "id": "s", "call_id": "c", "created_by": "p"}
    assert responses_body(ask([*HELLO, call]), "m")["input"] == [
        *HELLO,
        {"type": "shell_call", "id": "s", "call_id": "c"},
    ]


async def test_a_stand_in_for_a_client_needs_only_what_a_call_uses() -> None:
    class Client:
        pass

    client: Any = Client()
    target = OpenAIConnection(client=client).target("/responses", "m")
    assert (target.base_url, target.key) == ("https://api.openai.com/v1", None)
