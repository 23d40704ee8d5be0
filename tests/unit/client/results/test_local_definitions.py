"""What the calling process knows of a run's agents."""

from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.config.run_config import RunConfig
from outlast.agents.errors import UserError
from outlast.agents.guardrails.guardrail import (
    GuardrailFunctionOutput,
    InputGuardrail,
    OutputGuardrail,
    input_guardrail,
    output_guardrail,
)
from outlast.agents.guardrails.tool_guardrails import (
    ToolGuardrailFunctionOutput,
    tool_input_guardrail,
    tool_output_guardrail,
)
from outlast.agents.items.run_items import MessageOutputItem, ToolCallItem, ToolCallOutputItem
from outlast.agents.items.tool_origin import ToolOrigin, ToolOriginType
from outlast.agents.tools.function_tool import function_tool
from outlast.client.results.local_definitions import LocalDefinitions, RemoteAgent
from outlast.extensions.machine.shell import ShellTool
from outlast.loop.items import Item
from outlast.loop.values import JsonObject
from outlast.testing import shell_call
from tests.mcp_servers import Shelf, tool


@input_guardrail
def calm(context: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:  # noqa: A002
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)


@output_guardrail
def polite(context: Any, agent: Any, agent_output: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)


@tool_input_guardrail
def cheap(data: Any) -> ToolGuardrailFunctionOutput:
    return ToolGuardrailFunctionOutput.allow()


@tool_output_guardrail
def short(data: Any) -> ToolGuardrailFunctionOutput:
    return ToolGuardrailFunctionOutput.allow()


@function_tool(tool_input_guardrails=[cheap], tool_output_guardrails=[short])
def pay() -> str:
    """Pay somebody."""
    return "paid"


BILLING = Agent[Any](name="Billing", tools=[pay], output_type=int)
TRIAGE = Agent[Any](name="Triage", handoffs=[BILLING], input_guardrails=[calm])


def test_agents_are_found_along_the_handoffs() -> None:
    known = LocalDefinitions(TRIAGE)
    assert known.agent("Triage") is TRIAGE
    assert known.agent("Billing") is BILLING
    assert known.agent("Orders") == RemoteAgent("Orders")
    assert known.find_agent("Orders") is None
    assert LocalDefinitions("Triage").agent("Triage") == RemoteAgent("Triage")


def test_a_graph_that_a_worker_would_refuse_is_no_reason_to_fail_here() -> None:
    @function_tool(name_override="pay")
    def other() -> None:
        """Pay nobody."""

    twins = Agent[Any](name="A", handoffs=[Agent[Any](name="B", tools=[pay, other])])
    known = LocalDefinitions(twins)
    assert known.agent("A") is twins
    assert known.agent("B") == RemoteAgent("B")


def test_the_type_of_an_answer_is_that_of_its_agent() -> None:
    known = LocalDefinitions(TRIAGE)
    schema = known.output_schema("Billing")
    assert schema is not None
    assert schema.name() == "int"
    assert known.output_schema("Triage") is None
    assert known.output_schema("Orders") is None


def test_a_call_has_what_the_model_was_told_about_its_tool() -> None:
    known = LocalDefinitions(TRIAGE)
    call = known.run_item(Item("tool_call", {"type": "function_call", "name": "pay"}, "Billing"))
    assert isinstance(call, ToolCallItem)
    assert (call.agent, call.description) == (BILLING, "Pay somebody.")
    said = known.run_item(Item("message", {"type": "message", "role": "assistant"}, "Orders"))
    assert isinstance(said, MessageOutputItem)
    assert said.agent.name == "Orders"


def test_calls_and_their_outputs_say_where_the_tool_comes_from() -> None:
    desk = Agent[Any](name="Desk", tools=[*BILLING.tools, TRIAGE.as_tool("ask", "Ask.")])
    known = LocalDefinitions(desk)
    origins: list[ToolOrigin | None] = []
    for at, name in enumerate(["pay", "ask", "gone"]):
        call: JsonObject = {"type": "function_call", "name": name, "call_id": f"c{at}"}
        output: JsonObject = {"type": "function_call_output", "call_id": f"c{at}", "output": ""}
        items = (Item("tool_call", call, "Desk"), Item("tool_output", output, "Desk"))
        for item in map(known.run_item, items):
            assert isinstance(item, ToolCallItem | ToolCallOutputItem)
            origins.append(item.tool_origin)
    function = ToolOrigin(ToolOriginType.FUNCTION)
    nested = ToolOrigin(ToolOriginType.AGENT_AS_TOOL, agent_name="Triage", agent_tool_name="ask")
    assert origins == [function, function, nested, nested, None, None]


def test_guardrails_are_found_with_the_agents_and_in_the_settings() -> None:
    config = RunConfig(output_guardrails=[polite], input_guardrails=["elsewhere"])  # pyright: ignore[reportArgumentType]  a name
    known = LocalDefinitions(TRIAGE, run_config=config)
    assert known.input_guardrail("Triage", "calm") is calm
    assert known.output_guardrail("Triage", "polite") is polite
    assert known.tool_input_guardrail("Billing", "pay", "cheap") is cheap
    assert known.tool_output_guardrail("Billing", "pay", "short") is short


async def test_a_guardrail_that_only_the_worker_has_is_known_by_name() -> None:
    known = LocalDefinitions(run_config={"workflow_name": "Support"})
    inputs, outputs = known.input_guardrail("A", "x"), known.output_guardrail("A", "x")
    before = known.tool_input_guardrail("A", "pay", "x")
    after = known.tool_output_guardrail("A", "pay", "x")
    assert isinstance(inputs, InputGuardrail)
    assert isinstance(outputs, OutputGuardrail)
    assert {one.get_name() for one in (inputs, outputs, before, after)} == {"x"}
    context: Any = None
    calls: list[Any] = [
        inputs.run(None, "Hi", context),
        outputs.run(context, None, "Hi"),
        before.run(context),
        after.run(context),
    ]
    for running in calls:
        with pytest.raises(UserError, match="'x' is defined at the worker"):
            await running


def test_a_context_that_was_given_is_told_of_the_run() -> None:
    given = {"n": 1}
    known = LocalDefinitions(context=given)
    known.update_context({"n": 2})
    assert given == {"n": 2}
    LocalDefinitions(program_context=known.program_context).update_context(
        {"n": 3}
    )  # the run goes on, with another result
    assert given == {"n": 3}
    LocalDefinitions().update_context({"n": 4})
    assert given == {"n": 3}


def test_a_context_of_unknown_type_is_made_by_who_knows_it() -> None:
    def make(fields: JsonObject) -> tuple[str, int]:
        return "made", fields["n"]

    assert LocalDefinitions(make_context=make).context({"n": 1}) == ("made", 1)
    assert LocalDefinitions(make_context=make).context({"other": 1}) == {"other": 1}
    assert LocalDefinitions(context={}, make_context=make).context({"n": 1}) == {"n": 1}


class Seen(Shelf):
    """A server that this process has asked already."""

    @property
    def cached_tools(self) -> list[Any] | None:
        return self.tools


def test_a_call_of_an_mcp_tool_says_what_this_process_has_seen_of_it() -> None:
    shelf = Seen(tool("find", description="Finds.", title="Find a book"))
    known = LocalDefinitions(Agent[Any](name="Desk", mcp_servers=[shelf]))
    raw: JsonObject = {"type": "function_call", "call_id": "c1", "name": "find", "arguments": "{}"}
    item: Any = known.run_item(Item("tool_call", raw, "Desk"))
    origin = ToolOrigin(ToolOriginType.MCP, mcp_server_name="shelf")
    assert (item.description, item.title, item.tool_origin) == ("Finds.", "Find a book", origin)
    shelf.tools.clear()
    again: Any = known.run_item(Item("tool_call", raw, "Desk"))
    assert again.tool_origin == origin


@pytest.mark.parametrize("shelves", [[Shelf()], [Seen(), Seen(name="other")]])
def test_a_call_of_an_mcp_tool_that_is_not_known_here_says_nothing(shelves: list[Any]) -> None:
    known = LocalDefinitions(Agent[Any](name="Desk", mcp_servers=shelves))
    raw: JsonObject = {"type": "function_call", "call_id": "c1", "name": "find", "arguments": "{}"}
    item: Any = known.run_item(Item("tool_call", raw, "Desk"))
    assert (item.description, item.title, item.tool_origin) == (None, None, None)


def test_a_tool_on_a_machine_is_found_under_the_name_that_its_calls_have() -> None:
    shell = ShellTool(str, name="bash")
    known = LocalDefinitions(Agent[Any](name="A", tools=[shell]))
    assert known.tool("A", "shell") is shell
    item = known.run_item(Item("tool_call", shell_call("c1", "ls"), "A"))
    assert isinstance(item, ToolCallItem)
    assert (item.tool_name, item.tool_origin, item.description) == ("shell", None, None)
