"""The tools of MCP servers as tools of an agent."""

import json
from datetime import timedelta
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import RunContextWrapper, ToolContext
from outlast.agents.errors import ModelBehaviorError, UserError
from outlast.agents.guardrails.tool_guardrails import (
    ToolGuardrailFunctionOutput,
    tool_input_guardrail,
    tool_output_guardrail,
)
from outlast.agents.items.tool_origin import ToolOriginType
from outlast.agents.items.tool_output import ToolOutputText
from outlast.agents.mcp.server import MCPConfig, MCPToolCustomDataContext, MCPToolMetaContext
from outlast.agents.mcp.tools import (
    MCPFunctionTool,
    check_mcp_config,
    mcp_tools_of,
    tools_seen,
)
from outlast.agents.tools.definition import default_tool_error
from outlast.agents.tools.function_tool import function_tool
from outlast.loop.values import JsonObject
from tests.mcp_servers import TITLE, Shelf, said, tool

WRAPPER = RunContextWrapper[Any](context=None)


async def tools_of(*shelves: Shelf, **options: Any) -> list[Any]:
    return list(await mcp_tools_of(Agent(name="A", mcp_servers=list(shelves), **options), WRAPPER))


async def tool_of(shelf: Shelf, **options: Any) -> MCPFunctionTool:
    (one,) = await tools_of(shelf, **options)
    assert isinstance(one, MCPFunctionTool)
    return one


def context(arguments: str = "{}") -> ToolContext[Any]:
    return ToolContext[Any](
        context=None,
        tool_name="find",
        tool_call_id="c1",
        tool_arguments=arguments,
        idempotency_key="support-42:c1",
    )


async def test_tools_come_in_the_order_of_the_servers() -> None:
    tools = await tools_of(Shelf(tool("b"), tool("a"), name="x"), Shelf(tool("c"), name="y"))
    assert [one.name for one in tools] == ["b", "a", "c"]
    assert [one.server_name for one in tools] == ["x", "x", "y"]


async def test_what_a_server_has_listed_is_known_without_asking_again() -> None:
    agent = Agent[Any](name="A", mcp_servers=[Shelf(tool("b"))])
    assert tools_seen(agent) == []
    await mcp_tools_of(agent, WRAPPER)
    assert [one.name for one in tools_seen(agent)] == ["b"]


async def test_an_agent_without_servers_has_none() -> None:
    assert await tools_of() == []


async def test_a_tool_tells_what_its_server_tells() -> None:
    listed = tool("find", description="Finds.", title="Find", inputSchema=TITLE)
    one = await tool_of(Shelf(listed))
    assert (one.name, one.description, one.mcp_title) == ("find", "Finds.", "Find")
    # Its server is a stranger: its arguments are called by their names.
    assert (one.title, one.argument_titles) == ("Find", {})
    assert one.params_json_schema == TITLE
    assert not one.strict_json_schema
    assert one.tool_origin is not None
    assert one.tool_origin.type is ToolOriginType.MCP
    assert one.failure_error_function is default_tool_error


async def test_a_hostile_title_is_visible_and_short() -> None:
    one = await tool_of(Shelf(tool("find", title="\u202eRead\n" + "x" * 500)))
    assert one.title is not None
    assert one.title.startswith("\\u202eRead xxx")
    assert len(one.title) == 80
    assert (await tool_of(Shelf(tool("find", title=" \n")))).title is None


@pytest.mark.parametrize(
    ("fields", "description"),
    [
        ({}, ""),
        ({"title": "Find"}, "Find"),
        ({"annotations": {"title": "Find it"}}, "Find it"),
        ({"title": "Find", "description": "Finds."}, "Finds."),
    ],
)
async def test_a_title_stands_in_for_a_description(fields: Any, description: str) -> None:
    assert (await tool_of(Shelf(tool(**fields)))).description == description


async def test_a_schema_without_properties_gets_some_and_the_servers_stays() -> None:
    shelf = Shelf()
    one = await tool_of(shelf)
    assert one.params_json_schema == {"type": "object", "properties": {}}
    assert shelf.tools[0].input_schema == {"type": "object"}


async def test_schemas_are_strict_where_that_is_wanted_and_possible() -> None:
    free: JsonObject = {"type": "object", "additionalProperties": True, "properties": {"a": {}}}
    shelf = Shelf(tool("find", inputSchema=TITLE), tool("note", inputSchema=free))
    find, note = await tools_of(shelf, mcp_config={"convert_schemas_to_strict": True})
    assert find.strict_json_schema
    assert find.params_json_schema["additionalProperties"] is False
    assert not note.strict_json_schema
    assert note.params_json_schema == free


@pytest.mark.parametrize(
    "broken",
    [
        {"allOf": [5]},
        {"type": "object", "properties": 5},
        {"type": "object", "properties": {"a": {"allOf": ["x"]}}},
        {"type": "object", "properties": {"a": {"anyOf": 5}}},
        {"type": "object", "properties": {"a": {"type": 5}}},
        {"$ref": "#/$defs/a", "$defs": {"a": 5}},
        {"$ref": "#/$defs/a", "$defs": 5},
    ],
    ids=str,
)
async def test_a_broken_schema_costs_its_server_nothing_but_strict_mode(broken: JsonObject) -> None:
    shelf = Shelf(tool("find", inputSchema=broken), tool("note", inputSchema=TITLE))
    find, note = await tools_of(shelf, mcp_config={"convert_schemas_to_strict": True})
    assert not find.strict_json_schema
    assert note.strict_json_schema


async def test_names_can_tell_the_server_and_keep_clear_of_the_agents_own() -> None:
    @function_tool(name_override="mcp_x__find")
    def own() -> str:
        """Find."""
        return ""

    shelves = Shelf(name="x"), Shelf(name="y")
    config = MCPConfig(include_server_in_tool_names=True)
    first, second = await tools_of(*shelves, mcp_config=config, tools=[own])
    assert first.name.startswith("mcp_x__find_")
    assert second.name == "mcp_y__find"
    await second.on_invoke_tool(context(), "{}")
    assert shelves[1].calls == [("find", {}, None)]


async def test_two_servers_with_one_name_of_a_tool_are_refused() -> None:
    with pytest.raises(UserError, match="Agent 'A': the MCP servers 'x' and 'y' both have a tool"):
        await tools_of(Shelf(name="x"), Shelf(name="y"))


async def test_a_call_reaches_the_server_and_its_result_comes_back() -> None:
    shelf = Shelf()
    one = await tool_of(shelf)
    assert await one.on_invoke_tool(context(), '{"title": "Dune"}') == ToolOutputText(
        text="find {'title': 'Dune'}"
    )
    assert shelf.calls == [("find", {"title": "Dune"}, None)]


async def test_a_server_that_knows_of_no_metadata_can_be_called() -> None:
    class Old(Shelf):
        async def call_tool(self, tool_name: str, arguments: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  as they were once
            return await super().call_tool(tool_name, arguments)

    old = Old()
    await (await tool_of(old)).on_invoke_tool(context(), "{}")
    assert old.calls == [("find", {}, None)]


async def test_metadata_is_the_resolvers_then_the_tools_then_the_key() -> None:
    asked: list[MCPToolMetaContext] = []

    async def resolve(given: MCPToolMetaContext) -> dict[str, Any]:
        asked.append(given)
        assert given.arguments is not None
        given.arguments.clear()
        return {"tenant": "acme", "version": 1}

    class Keyed(Shelf):
        idempotency_meta_key = "key"

    shelf = Keyed(tool(_meta={"version": 2}), tool_meta_resolver=resolve)
    await (await tool_of(shelf)).on_invoke_tool(context(), '{"a": 1}')
    meta = {"tenant": "acme", "version": 2, "key": "support-42:c1"}
    assert shelf.calls == [("find", {"a": 1}, meta)]
    assert (asked[0].server_name, asked[0].tool_name) == ("shelf", "find")


async def test_a_server_makes_custom_data_of_its_results() -> None:
    asked: list[MCPToolCustomDataContext] = []

    async def extract(given: MCPToolCustomDataContext) -> dict[str, Any]:
        asked.append(given)
        given.arguments.clear()
        return {"chart": (given.result_meta or {})["chart"]}

    def answer(_name: str, _arguments: Any) -> Any:
        return said("found", _meta={"chart": "line"}, structuredContent={"n": 1})

    shelf = Shelf(answer=answer, custom_data_extractor=extract)
    this = context()
    await (await tool_of(shelf)).on_invoke_tool(this, '{"a": 1}')
    assert this.custom_data == {"chart": "line"}
    (one,) = asked
    assert (one.server_name, one.tool_name, one.tool_display_name) == ("shelf", "find", "find")
    assert (one.structured_content, one.is_error) == ({"n": 1}, False)
    assert one.tool_output == ToolOutputText(text="found")
    assert one.run_context is this


async def test_metadata_that_is_none_is_refused() -> None:
    def resolve(_context: Any) -> Any:
        return "acme"

    one = await tool_of(Shelf(tool_meta_resolver=resolve))
    with pytest.raises(UserError, match="tool_meta_resolver of the MCP server 'shelf' returned"):
        await one.on_invoke_tool(context(), "{}")


async def test_structured_content_is_the_servers_choice() -> None:
    def answer(_name: str, _arguments: Any) -> Any:
        return said("3", structured_content={"n": 3})

    shelf = Shelf(use_structured_content=True, answer=answer)
    assert await (await tool_of(shelf)).on_invoke_tool(context(), "{}") == '{"n": 3}'


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('{"title": "Dune"}', None),
        ('{"title": "Dune", "more": 1}', None),
        ("", "The arguments of find lack title."),
        ("[]", "expected a JSON object"),
        ("{", "Invalid JSON input for tool"),
    ],
)
async def test_arguments_are_checked_as_far_as_the_schema_is_plain(
    arguments: str, problem: str | None
) -> None:
    one = await tool_of(Shelf(tool(inputSchema=TITLE)))
    assert one.validate is not None
    found = one.validate(arguments)
    assert found is None if problem is None else found is not None and problem in found


async def test_a_call_with_no_object_does_not_reach_the_server() -> None:
    shelf = Shelf()
    with pytest.raises(ModelBehaviorError, match="expected a JSON object"):
        await (await tool_of(shelf)).on_invoke_tool(context(), "[]")
    assert shelf.calls == []


@pytest.mark.parametrize(
    ("setting", "needs"),
    [("always", True), ("never", False), ({"find": True}, True), ({"tear": "always"}, False)],
)
async def test_which_tools_need_a_person(setting: Any, needs: bool) -> None:
    assert (await tool_of(Shelf(require_approval=setting))).needs_approval is needs


async def test_a_callable_says_which_tools_need_a_person() -> None:
    seen: list[Any] = []

    def rule(context: Any, agent: Any, one: Any) -> bool:
        seen.append((context, agent.name, one.name))
        return True

    one = await tool_of(Shelf(require_approval=rule))
    assert callable(one.needs_approval)
    assert await one.needs_approval(WRAPPER, {}, "c1") is True  # pyright: ignore[reportGeneralTypeIssues]  it is async
    assert seen == [(WRAPPER, "A", "find")]


async def test_the_agents_words_for_failures_go_behind_the_servers() -> None:
    def agents(_context: Any, _error: Exception) -> str:
        return "agent"

    def servers(_context: Any, _error: Exception) -> str:
        return "server"

    config = MCPConfig(failure_error_function=agents)
    assert (await tool_of(Shelf(), mcp_config=config)).failure_error_function is agents
    shelf = Shelf(failure_error_function=servers)
    assert (await tool_of(shelf, mcp_config=config)).failure_error_function is servers
    silent = MCPConfig(failure_error_function=None)
    assert (await tool_of(Shelf(), mcp_config=silent)).failure_error_function is None


async def test_guardrails_and_bounds_are_the_servers() -> None:
    @tool_input_guardrail
    def before(_data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.allow()

    @tool_output_guardrail
    def after(_data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.allow()

    class Patient(Shelf):
        @property
        def tool_timeout(self) -> timedelta:
            return timedelta(minutes=9)

    shelf = Patient(tool_input_guardrails=[before], tool_output_guardrails=[after])
    one = await tool_of(shelf)
    assert (one.tool_input_guardrails, one.tool_output_guardrails) == ([before], [after])
    assert one.timeout == timedelta(minutes=9)


@pytest.mark.parametrize(
    ("annotations", "errors"),
    [
        (None, False),
        ({"readOnlyHint": True}, True),
        ({"idempotentHint": True}, True),
        ({"readOnlyHint": False, "destructiveHint": False}, False),
    ],
)
async def test_a_failed_call_is_repeated_where_the_server_says_that_this_changes_nothing(
    annotations: Any, errors: bool
) -> None:
    one = await tool_of(Shelf(tool("find", annotations=annotations)))
    assert one.retries_errors is errors


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (None, "A: mcp_config must be a dict"),
        ({"strict": True}, "A: mcp_config must be a dict with convert_schemas_to_strict"),
        ({"failure_error_function": lambda: ""}, "failure_error_function'] is called with"),
    ],
)
def test_a_config_that_is_none_is_refused(wrong: Any, problem: str) -> None:
    with pytest.raises(UserError, match=json.dumps(problem)[1:-1].replace("]", r"\]")):
        check_mcp_config("A: mcp_config", wrong)
