"""Approvals that a provider requests for a hosted MCP server: row 36 of the table."""

from typing import Any

import pytest

from outlast import (
    Agent,
    FunctionToolResult,
    HostedMCPTool,
    MCPToolApprovalRequest,
    RunConfig,
    SQLiteSession,
    ToolErrorFormatterArgs,
    ToolsToFinalOutputResult,
    function_tool,
)
from outlast.loop.values import JsonObject
from outlast.testing import ScriptedModel, call
from tests.conformance.executors import Executor, also_on_server, row

CONFIG = {"type": "mcp", "server_label": "crm", "server_url": "https://crm.example/mcp"}


def request(request_id: str, name: str = "delete", arguments: str = '{"id": 7}') -> JsonObject:
    head = {"type": "mcp_approval_request", "id": request_id, "server_label": "crm"}
    return {**head, "name": name, "arguments": arguments}


def response(request_id: str, *, approve: bool, **reason: str) -> JsonObject:
    head = {"type": "mcp_approval_response", "approval_request_id": request_id}
    return {**head, "approve": approve, **reason}


def sent(model: ScriptedModel, at: int) -> list[JsonObject]:
    """Return the requests and responses in the input of a model call."""
    return [item for item in model.requests[at].input if "mcp_" in str(item.get("type"))]


@pytest.mark.smoke
@row(36)
async def test_a_person_decides_and_the_run_continues_with_the_providers_item(
    executor: Executor,
) -> None:
    model = ScriptedModel([request("mcpr_1"), request("mcpr_2", "rename")], "Done.")
    agent = Agent(name="A", tools=[HostedMCPTool(CONFIG)])
    result = await executor.execute(agent, model=model)
    first, second = result.interruptions
    assert (first.tool_name, first.call_id, first.arguments) == (
        "crm.delete",
        "mcpr_1",
        '{"id": 7}',
    )
    state = result.to_state()
    state.approve(first)
    state.reject(second, rejection_message="Not today.")
    result = await executor.resume(agent, state)
    assert result.final_output == "Done."
    assert sent(model, 1) == [
        request("mcpr_1"),
        request("mcpr_2", "rename"),
        response("mcpr_1", approve=True),
        response("mcpr_2", approve=False, reason="Not today."),
    ]
    kinds = [item.type for item in result.new_items]
    assert kinds.count("mcp_approval_request_item") == 2
    assert kinds.count("mcp_approval_response_item") == 2
    assert "tool_call_item" not in kinds


def _formatted(args: ToolErrorFormatterArgs[Any]) -> str:
    return f"No {args.tool_name} today."


@row(36)
async def test_the_formatter_gives_the_reason_of_a_rejection_without_a_message(
    executor: Executor,
) -> None:
    model = ScriptedModel([request("mcpr_1")], [request("mcpr_2")], "Done.")
    agent = Agent(name="A", tools=[HostedMCPTool(CONFIG)])
    config = RunConfig(tool_error_formatter=_formatted)
    result = await executor.execute(agent, model=model, run_config=config)
    state = result.to_state()
    state.reject(result.interruptions[0], always_reject=True)
    result = await executor.resume(agent, state)
    assert result.final_output == "Done."
    reason = "No crm.delete today."
    assert sent(model, 2)[1] == response("mcpr_1", approve=False, reason=reason)
    assert sent(model, 2)[3] == response("mcpr_2", approve=False, reason=reason)


@row(36)
async def test_the_formatter_gives_the_reason_of_a_callback_that_names_none(
    executor: Executor,
) -> None:
    tool = HostedMCPTool(CONFIG, on_approval_request=lambda _: {"approve": False})
    model = ScriptedModel([request("mcpr_1")], "Done.")
    config = RunConfig(tool_error_formatter=_formatted)
    await executor.execute(Agent(name="A", tools=[tool]), model=model, run_config=config)
    assert sent(model, 1)[1] == response("mcpr_1", approve=False, reason="No crm.delete today.")


async def _yes(asked: MCPToolApprovalRequest) -> Any:
    assert asked.ctx_wrapper.context == {"user": "ann"}
    return {"approve": asked.data.name == "delete" and asked.data.server_label == "crm"}


def _no(asked: MCPToolApprovalRequest) -> Any:
    return {"approve": False, "reason": f"{asked.data.name} is not allowed."}


@row(36)
@pytest.mark.parametrize(
    ("decides", "answer"),
    [
        (_yes, response("mcpr_1", approve=True)),
        (_no, response("mcpr_1", approve=False, reason="delete is not allowed.")),
    ],
)
async def test_a_callback_decides(executor: Executor, decides: Any, answer: JsonObject) -> None:
    model = ScriptedModel([request("mcpr_1")], "Done.")
    agent = Agent(name="A", tools=[HostedMCPTool(CONFIG, on_approval_request=decides)])
    result = await executor.execute(agent, model=model, context={"user": "ann"})
    assert (result.final_output, result.interruptions) == ("Done.", [])
    assert sent(model, 1) == [request("mcpr_1"), answer]


def _fails(asked: MCPToolApprovalRequest) -> Any:
    raise OSError("no network")


def _says_nothing(asked: MCPToolApprovalRequest) -> Any:
    return None


@row(36)
@pytest.mark.parametrize(
    ("decides", "reason"),
    [
        (_fails, "on_approval_request failed (OSError), so a person decides."),
        (_says_nothing, "on_approval_request returned no {'approve': True}"),
    ],
)
async def test_a_callback_that_does_not_decide_leaves_it_to_a_person(
    executor: Executor, decides: Any, reason: str
) -> None:
    model = ScriptedModel([request("mcpr_1")], "Done.")
    agent = Agent(name="A", tools=[HostedMCPTool(CONFIG, on_approval_request=decides)])
    result = await executor.execute(agent, model=model)
    (waiting,) = result.snapshot.pending_approvals
    assert waiting.reason.startswith(reason)
    state = result.to_state()
    state.approve(result.interruptions[0], always_approve=True)
    result = await executor.resume(agent, state)
    assert result.final_output == "Done."


@row(36)
async def test_a_decision_for_all_calls_covers_the_servers_tool_and_no_other(
    executor: Executor,
) -> None:
    model = ScriptedModel(
        [request("mcpr_1")], [request("mcpr_2")], [request("mcpr_3", "rename")], "Done."
    )
    agent = Agent(name="A", tools=[HostedMCPTool(CONFIG)])
    result = await executor.execute(agent, model=model)
    state = result.to_state()
    state.approve(result.interruptions[0], always_approve=True)
    result = await executor.resume(agent, state)
    (waiting,) = result.interruptions
    assert waiting.tool_name == "crm.rename"
    assert sent(model, 2)[-1] == response("mcpr_2", approve=True)


@row(36)
async def test_calls_of_tools_here_run_beside_the_request(executor: Executor) -> None:
    @function_tool
    async def look() -> str:
        return "seen"

    model = ScriptedModel([request("mcpr_1"), call("look", "c1")], "Done.")
    agent = Agent(name="A", tools=[HostedMCPTool(CONFIG), look])
    result = await executor.execute(agent, model=model)
    state = result.to_state()
    state.approve(result.interruptions[0])
    result = await executor.resume(agent, state)
    assert result.final_output == "Done."
    answers = [item for item in model.requests[1].input if "output" in item]
    assert [item["output"] for item in answers] == ["seen"]
    assert response("mcpr_1", approve=True) in sent(model, 1)


@row(36)
async def test_a_rule_about_tool_outputs_sees_no_approvals(executor: Executor) -> None:
    seen: list[list[str]] = []

    @function_tool
    async def look() -> str:
        return "seen"

    def rule(context: Any, results: list[FunctionToolResult]) -> ToolsToFinalOutputResult:
        seen.append([result.tool.name for result in results])
        return ToolsToFinalOutputResult(is_final_output=False)

    model = ScriptedModel([request("mcpr_1"), call("look", "c1")], [request("mcpr_2")], "Done.")
    allows = HostedMCPTool(CONFIG, on_approval_request=lambda asked: {"approve": True})
    agent = Agent(name="A", tools=[allows, look], tool_use_behavior=rule)
    result = await executor.execute(agent, model=model)
    assert result.final_output == "Done."
    assert seen == [["look"]]


@also_on_server
@row(36)
async def test_what_a_session_holds_is_never_an_unanswered_request(
    executor: Executor, tmp_path: Any
) -> None:
    session = SQLiteSession("s", tmp_path / "sessions.db")
    model = ScriptedModel([request("mcpr_1")])
    agent = Agent(name="A", tools=[HostedMCPTool(CONFIG)])
    await executor.execute(agent, model=model, session=session)
    assert any("mcp_" in str(item.get("type")) for item in await session.get_items())
    model = ScriptedModel([request("mcpr_2")], "Done.", "Yes.")
    allows = HostedMCPTool(CONFIG, on_approval_request=lambda asked: {"approve": True})
    agent = Agent(name="A", tools=[allows])
    await executor.execute(agent, "And now?", model=model, session=session)
    assert sent(model, 0) == []
    await executor.execute(agent, "Again?", model=model, session=session)
    assert sent(model, 2) == [request("mcpr_2"), response("mcpr_2", approve=True)]
    session.close()


@row(36)
async def test_the_events_have_the_names_of_approvals(executor: Executor) -> None:
    model = ScriptedModel([request("mcpr_1")], "Done.")
    allows = HostedMCPTool(CONFIG, on_approval_request=lambda asked: {"approve": True})
    stream = await executor.stream(Agent(name="A", tools=[allows]), model=model)
    names = [
        event.name
        async for event in stream.stream_events()
        if event.type == "run_item_stream_event"
    ]
    assert names == [
        "mcp_approval_requested",
        "mcp_approval_response",
        "message_output_created",
    ]
