"""What a server sends that is odd: it costs neither the rest of it, nor an effect."""

import logging
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.mcp.calls import FOLLOWED
from outlast.agents.mcp.results import WARNING
from outlast.agents.mcp.server import MCPRefusal
from outlast.loop.values import JsonObject
from outlast.mcp.repairs import repaired_list, repaired_result
from outlast.testing import ScriptedModel, call, run_in_memory
from tests.conformance.views import offered, tool_outputs
from tests.unit.mcp.odd_server import OddServer

OBJECT: JsonObject = {"type": "object"}
PAID: JsonObject = {"type": "text", "text": "Paid. Receipt R-7"}
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"receipt": {"type": "string"}},
    "required": ["receipt"],
}


async def outcome(server: OddServer) -> str:
    """Return what the model reads of a call of `pay`."""
    agent = Agent(name="A", mcp_servers=[server])
    result = await run_in_memory(agent, "Pay.", model=ScriptedModel([call("pay", "c1")], "Done."))
    await server.cleanup()
    assert len(server.calls()) == 1
    [output] = tool_outputs(result)
    return output if isinstance(output, str) else "\n".join(part["text"] for part in output)


@pytest.mark.parametrize(
    ("schema", "result"),
    [
        (SCHEMA, {"content": [PAID]}),
        (SCHEMA, {"content": [PAID], "structuredContent": {"receipt": 7}}),
        (
            {"type": "object", "properties": {"receipt": {"type": "card"}}},
            {"content": [PAID], "structuredContent": {"receipt": "R-7"}},
        ),
        (
            {"type": "object", "$ref": "https://evil.example/schema"},
            {"content": [PAID], "structuredContent": {}},
        ),
        (None, {"content": [PAID, {"type": "receipt_card", "number": "R-7"}]}),
        (None, {"content": [{"type": "receipt_card", "text": "Paid. Receipt R-7"}]}),
        (None, {"content": [{**PAID, "annotations": "none"}]}),
        (None, {"content": PAID}),
        (None, {"content": [PAID], "isError": "no idea"}),
        (None, {"content": [PAID], "_meta": "none"}),
        (None, {"content": [PAID], "structuredContent": ["R-7"]}),
        (None, {"structuredContent": ["Paid. Receipt R-7"]}),
        (None, {"toolResult": "Paid. Receipt R-7"}),
    ],
)
async def test_a_result_after_the_effect_reaches_the_model_with_a_warning(
    schema: JsonObject | None, result: JsonObject
) -> None:
    tool = {"name": "pay", "inputSchema": OBJECT}
    tools = [tool if schema is None else {**tool, "outputSchema": schema}]
    told = await outcome(OddServer(result, tools=tools))
    assert "Paid. Receipt R-7" in told
    assert told.endswith(WARNING)


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ({"content": [], "structuredContent": {"receipt": "R-7"}}, '{"receipt": "R-7"}'),
        ({"content": [], "structuredContent": {"why": "no"}, "isError": True}, '{"why": "no"}'),
        ({"content": []}, "[]"),
        ({"content": [PAID]}, "Paid. Receipt R-7"),
        ({"content": [PAID], "structuredContent": {"receipt": "R-7"}}, "Paid. Receipt R-7"),
    ],
)
async def test_a_result_without_content_is_its_structure(result: JsonObject, told: str) -> None:
    assert await outcome(OddServer(result)) == told


async def test_the_words_of_an_error_reach_the_model() -> None:
    error = {"error": {"code": -32602, "message": "amount: must be at most 500"}}
    assert await outcome(OddServer(error)) == (
        "The tool pay failed. It may have had an effect. Its server answered: amount: must be at most "
        "500"
    )


async def test_an_endless_error_is_cut() -> None:
    error = {"error": {"code": -32603, "message": "no" * 5_000}}
    assert len(await outcome(OddServer(error))) < 2_200


ODD: list[tuple[Any, str]] = [
    ({"name": "a", "inputSchema": {}}, "a"),
    ({"name": "a"}, "a"),
    ({"name": "a", "inputSchema": {"anyOf": [{"properties": {"x": {}}}]}}, "a"),
    ({"name": "a", "inputSchema": OBJECT, "title": 3, "icons": "no", "_meta": 1}, "a"),
    ({"name": "a", "inputSchema": {"type": "object", "properties": []}}, ""),
    ({"name": "a", "inputSchema": {"type": "string"}}, ""),
    ({"name": "a", "inputSchema": "object"}, ""),
    ({"inputSchema": OBJECT}, ""),
    ({"name": "", "inputSchema": OBJECT}, ""),
    ("a", ""),
    ({"name": "books.find", "inputSchema": OBJECT}, "books_find_"),
    ({"name": "x" * 80, "inputSchema": OBJECT}, "x" * 55),
    ({"name": "pay", "inputSchema": OBJECT}, ""),
]


@pytest.mark.parametrize(("odd", "name"), ODD)
async def test_one_odd_tool_does_not_cost_the_others(
    odd: Any, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    pay = {"name": "pay", "inputSchema": OBJECT, "title": "Pay"}
    server = OddServer({"content": [PAID]}, tools=[pay, odd])
    model = ScriptedModel([call("pay", "c1")], "Done.")
    with caplog.at_level(logging.WARNING):
        await run_in_memory(Agent(name="A", mcp_servers=[server]), "Pay.", model=model)
    await server.cleanup()
    first, *others = offered(model.requests[0])
    assert first == "pay"
    assert len(others) == bool(name)
    assert all(one.startswith(name) and len(one) <= 64 for one in others)
    schema = model.requests[0].tools[-1].parameters
    assert schema["type"] == "object"
    assert "anyOf" not in schema
    is_changed = odd not in [tool for tool, _ in ODD[:3]]
    lines = [one.message for one in caplog.records if "MCP server 'shop'" in one.message]
    assert len(lines) == is_changed  # once, although the tools were listed twice
    assert len(server.tool_problems) == is_changed


async def test_a_mapped_name_calls_the_servers_tool() -> None:
    tools = [{"name": "books.find", "inputSchema": OBJECT}]
    server = OddServer({"content": [PAID]}, tools=tools)
    agent = Agent(name="A", mcp_servers=[server])
    probe = ScriptedModel("Done.")
    await run_in_memory(agent, "Hello", model=probe)
    [name] = offered(probe.requests[0])
    assert name.startswith("books_find_")
    model = ScriptedModel([call(name, "c1")], "Done.")
    await run_in_memory(agent, "Hello", model=model)
    await server.cleanup()
    assert [one["name"] for one in server.calls()] == ["books.find"]


async def test_a_program_that_calls_a_tool_has_the_result_too() -> None:
    tools = [{"name": "pay", "inputSchema": OBJECT, "outputSchema": SCHEMA}]
    server = OddServer({"content": [PAID]}, tools=tools)
    result = await server.call_tool("pay", {})
    assert result.content[0].text == "Paid. Receipt R-7"
    await server.cleanup()


def needs_link(url: str = "https://bank.example/consent?id=7") -> JsonObject:
    """Return the refusal of a server of 2025-11-25 that wants a person's consent."""
    link = {"mode": "url", "message": "Log in to your bank", "url": url, "elicitationId": "e"}
    return {"error": {"code": -32042, "message": "Consent", "data": {"elicitations": [link]}}}


async def test_a_person_opens_the_link_and_the_call_is_sent_again() -> None:
    server = OddServer(needs_link(), {"content": [PAID]})
    asked: list[Any] = []

    def deliver(wait: Any) -> Any:
        asked.append((wait.name, wait.schema))
        return {"followed": True}

    model = ScriptedModel([call("pay", "c1")], "Done.")
    agent = Agent[Any](name="A", mcp_servers=[server])
    result = await run_in_memory(agent, "Pay.", model=model, deliver=deliver)
    await server.cleanup()
    assert tool_outputs(result) == [[{"type": "input_text", "text": "Paid. Receipt R-7"}]]
    assert asked == [("input 1", FOLLOWED)]
    first, second = server.calls()
    assert first == second  # with the same idempotency key


async def test_a_link_that_nobody_follows_is_a_refusal_in_words() -> None:
    server = OddServer(needs_link(), {"content": [PAID]})
    model = ScriptedModel([call("pay", "c1")], "Done.")
    agent = Agent[Any](name="A", mcp_servers=[server])
    result = await run_in_memory(
        agent, "Pay.", model=model, deliver=lambda wait: {"followed": False}
    )
    await server.cleanup()
    assert "A person has to open a link first, and has declined." in str(tool_outputs(result))
    assert len(server.calls()) == 1


async def test_a_refusal_without_links_says_why() -> None:
    told = await outcome(OddServer({"error": {"code": -32042, "message": "No bank is linked"}}))
    assert told.endswith("Its server answered: No bank is linked")


async def test_a_link_that_a_program_is_asked_to_open_is_a_refusal() -> None:
    server = OddServer(needs_link())
    with pytest.raises(MCPRefusal, match="it asks something"):
        await server.call_tool("pay", {})
    await server.cleanup()


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28", "2031-01-01"])
def test_what_is_right_stays_as_it_is(version: str) -> None:
    result = {"content": [PAID], "resultType": "complete", "structuredContent": {"a": 1}}
    assert repaired_result(result, version) is result
    tool = {"name": "pay", "inputSchema": OBJECT, "title": "Pay"}

    def note(name: str, problem: str) -> None:
        raise AssertionError(name + problem)

    assert repaired_list({"tools": [tool]}, version, note) == {"tools": [tool]}
    assert repaired_list({"tools": "none"}, version, note) == {"tools": "none"}


@pytest.mark.parametrize("kind", ["task", "input_required"])
def test_other_answers_to_a_call_stay_as_they_are(kind: str) -> None:
    raw = {"resultType": kind, "taskId": "t"}
    assert repaired_result(raw, "2026-07-28") is raw


@pytest.mark.parametrize("kind", ["stream", None, 3])
def test_an_answer_of_a_new_type_is_a_result(kind: Any) -> None:
    made = repaired_result({"content": [PAID], "resultType": kind}, "2026-07-28")
    assert (made["content"], made["resultType"]) == ([PAID], "complete")
