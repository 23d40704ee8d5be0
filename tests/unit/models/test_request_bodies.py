"""What runs send to a model server: what the OpenAI Agents SDK 0.24 sends for the same program."""

from typing import Any

import pytest

from outlast import (
    Agent,
    ModelSettings,
    RunConfig,
    ToolContext,
    ToolSearchTool,
    function_tool,
    tool_namespace,
)
from outlast.agents.config.model_defaults import settings_of_model
from outlast.agents.schemas.provider_names import provider_name
from outlast.loop.values import JsonObject
from outlast.models import (
    ChatCompletionsModel,
    OpenAIConnection,
    OpenAIProvider,
    ResponsesModel,
    get_default_model_settings,
)
from outlast.testing import run_in_memory, run_in_memory_streamed
from tests.unit.models.chat_api import completion
from tests.unit.models.model_server import ModelServer
from tests.unit.models.responses_api import message, response


@function_tool
def look(at: int) -> str:
    """Look."""
    return f"seen {at}"


def call(name: str, arguments: str = "{}") -> JsonObject:
    ids = {"id": "fc_1", "call_id": "call_1", "status": "completed"}
    return {"type": "function_call", **ids, "name": name, "arguments": arguments}


async def body_of(server: ModelServer, agent: Agent[Any], **options: Any) -> JsonObject:
    """Run an agent to its first answer, and return the body of the request."""
    provider: Any = OpenAIProvider("sk-test", server.base_url, default_model="gpt-5.4-mini")
    server.answer(response(message("hi")))
    await run_in_memory(agent, "hello", model=provider, **options)
    await provider.aclose()
    return server.requests[-1].body


@pytest.mark.parametrize(
    ("model", "effort", "verbosity"),
    [
        ("gpt-5", "low", "low"),
        ("gpt-5-2025-08-07", "low", "low"),
        ("gpt-5.1", "none", "low"),
        ("gpt-5.2-pro", "medium", "low"),
        ("gpt-5.2-codex", "low", "low"),
        ("gpt-5-mini", None, "low"),
        ("gpt-5.3-chat-latest", None, None),
        ("gpt-4.1", None, None),
        ("openai/gpt-5", None, None),
        (None, "none", "low"),
    ],
)
async def test_a_models_name_brings_the_defaults_of_its_family(
    server: ModelServer, model: str | None, effort: str | None, verbosity: str | None
) -> None:
    body = await body_of(server, Agent(name="A", model=model))
    assert body.get("reasoning") == (effort and {"effort": effort})
    assert body.get("text") == (verbosity and {"verbosity": verbosity})


async def test_settings_of_an_agent_replace_the_defaults(server: ModelServer) -> None:
    for settings in (ModelSettings(), ModelSettings(temperature=0.1)):
        agent = Agent(name="A", model="gpt-5", model_settings=settings)
        for same in (agent, agent.clone(name="B")):
            assert {"reasoning", "text"}.isdisjoint(await body_of(server, same))


async def test_the_defaults_follow_the_model_that_the_run_or_a_copy_names(
    server: ModelServer,
) -> None:
    config = RunConfig(model="gpt-5.2", model_settings=ModelSettings(temperature=0.3))
    body = await body_of(server, Agent(name="A", model="gpt-4.1"), run_config=config)
    assert (body["reasoning"], body["temperature"]) == ({"effort": "none"}, 0.3)
    copy = Agent(name="A", model="gpt-5").clone(model="gpt-4.1")
    assert "reasoning" not in await body_of(server, copy)


async def test_a_model_object_and_a_stored_prompt_have_no_defaults(
    server: ModelServer, connection: OpenAIConnection
) -> None:
    body = await body_of(server, Agent(name="A", model=ResponsesModel("gpt-5", connection)))
    assert {"reasoning", "text"}.isdisjoint(body)
    body = await body_of(server, Agent(name="A", prompt={"id": "pmpt_1"}))
    assert {"model", "reasoning", "text"}.isdisjoint(body)


def test_the_defaults_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert get_default_model_settings("gpt-5") == settings_of_model("gpt-5")
    monkeypatch.setenv("OUTLAST_MODEL", "gpt-4.1")
    assert get_default_model_settings() == ModelSettings()


async def test_ids_that_no_provider_made_are_not_sent(
    server: ModelServer, connection: OpenAIConnection
) -> None:
    second = Agent(name="B", model=ResponsesModel("r", connection))
    chat = ChatCompletionsModel("c", connection)
    first = Agent(name="A", model=chat, tools=[look], handoffs=[second])

    def ask_for(name: str, arguments: str, call_id: str) -> JsonObject:
        function = {"name": name, "arguments": arguments}
        return {"id": call_id, "type": "function", "function": function}

    server.answer(completion({"content": "one", "tool_calls": [ask_for("look", '{"at":1}', "c1")]}))
    server.answer(completion({"tool_calls": [ask_for("transfer_to_b", "{}", "c2")]}))
    server.answer(response(message("done")))
    result = await run_in_memory(first, "hello", model=chat)
    assert [item.get("id") is not None for item in result.to_input_list()[1:4]] == [
        True,
        True,
        False,
    ]
    assert server.requests[-1].body["input"] == [
        {"role": "user", "content": "hello"},
        {
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "one", "annotations": [], "logprobs": []}],
        },
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at":1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "seen 1"},
        {"type": "function_call", "call_id": "c2", "name": "transfer_to_b", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c2", "output": '{"assistant": "B"}'},
    ]


async def test_ids_of_the_provider_are_sent(server: ModelServer) -> None:
    server.answer(response(call("look", '{"at":1}')))
    body = await body_of(server, Agent(name="A", tools=[look]))
    assert body["input"][1] == call("look", '{"at":1}')


@pytest.mark.parametrize("heard", [False, True])
async def test_a_nested_agent_is_streamed_only_for_an_on_stream(
    server: ModelServer, *, heard: bool
) -> None:
    events: list[Any] = []
    inner = Agent(name="Inner", model="m")
    tool = inner.as_tool("ask_inner", "Ask.", on_stream=events.append if heard else None)
    provider: Any = OpenAIProvider("sk-test", server.base_url)

    def stream(*output: JsonObject) -> None:
        server.stream([{"type": "response.completed", "response": response(*output)}])

    stream(call("ask_inner", '{"input": "x"}'))
    if heard:
        stream(message("inner"))
    else:
        server.answer(response(message("inner")))
    stream(message("outer"))
    outer = Agent(name="Outer", model="m", tools=[tool])
    reading = run_in_memory_streamed(outer, "hello", model=provider)
    assert [event async for event in reading.stream_events()]
    assert reading.final_output == "outer"
    streamed = [request.body.get("stream", False) for request in server.requests]
    assert streamed == [True, heard, True]
    assert bool(events) is heard
    await provider.aclose()


async def test_a_tool_keeps_its_name_and_the_provider_gets_one_in_ascii(
    server: ModelServer,
) -> None:
    seen: list[str] = []

    @function_tool(name_override="größe_prüfen")
    def check(context: ToolContext[Any], at: int) -> str:
        """Check."""
        seen.append(context.tool_name)
        return f"fits {at}"

    refunds = Agent(name="退款", model="m")
    settings = ModelSettings(tool_choice="größe_prüfen")
    agent = Agent(name="A", model="m", model_settings=settings, tools=[check], handoffs=[refunds])
    safe, over = provider_name("größe_prüfen"), provider_name("transfer_to_退款")
    assert (safe, over) == ("gro_e_prufen_e90a0476", "transfer_to_a86ab875")
    server.answer(response(call(safe, '{"at": 1}')))
    server.answer(response({**call(over), "id": "fc_2", "call_id": "call_2"}))
    server.answer(response(message("done")))
    provider: Any = OpenAIProvider("sk-test", server.base_url)
    result = await run_in_memory(agent, "hello", model=provider)
    await provider.aclose()
    first, second, third = (request.body for request in server.requests)
    assert [tool["name"] for tool in first["tools"]] == [safe, over]
    assert first["tool_choice"] == {"type": "function", "name": safe}
    assert [item.get("name") for item in second["input"]] == [None, safe, None]
    assert [item.get("name") for item in third["input"]] == [None, safe, None, over, None]
    assert seen == ["größe_prüfen"]
    names = [item.get("name") for item in result.to_input_list()]
    assert names[1::2] == ["größe_prüfen", "transfer_to_退款", None]
    assert result.last_agent.name == "退款"


def entry(name: str, **more: Any) -> JsonObject:
    schema: JsonObject = {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
        "required": [],
    }
    head: JsonObject = {"type": "function", "name": name, "description": "", "parameters": schema}
    return {**head, "strict": True, **more}


async def test_deferred_tools_are_found_by_search(server: ModelServer) -> None:
    @function_tool(defer_loading=True)
    def refund() -> str:
        return "paid"

    @function_tool
    def find() -> str:
        return "found"

    crm = tool_namespace(name="crm", description="Customers.", tools=[find])
    search: list[JsonObject] = [
        {"type": "tool_search_call", "id": "ts_1", "execution": "server", "arguments": {}},
        {"type": "tool_search_output", "id": "ts_2", "execution": "server", "tools": []},
        {**call("refund"), "namespace": "refund"},
    ]
    server.answer(response(*search))
    server.answer(response(message("Paid.")))
    agent = Agent(name="A", model="m", tools=[refund, *crm, ToolSearchTool()])
    provider: Any = OpenAIProvider("sk-test", server.base_url)
    result = await run_in_memory(agent, "hello", model=provider)
    await provider.aclose()
    first, second = (request.body for request in server.requests)
    namespace = {"type": "namespace", "name": "crm", "description": "Customers."}
    assert first["tools"] == [
        entry("refund", defer_loading=True),
        {**namespace, "tools": [entry("find")]},
        {"type": "tool_search"},
    ]
    assert second["input"][1:4] == search
    assert second["input"][4]["output"] == "paid"
    kinds = [item.type for item in result.new_items]
    assert kinds[:3] == ["tool_search_call_item", "tool_search_output_item", "tool_call_item"]
