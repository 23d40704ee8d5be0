"""What an agent offers its model in one call."""

import logging
from typing import Any

import pytest

from outlast.activities.errors import EffectError
from outlast.activities.planning.offered_tools import is_enabled, offered_tools
from outlast.agents.agent import Agent
from outlast.agents.config.run_config import RunConfig
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.handoffs.handoff import handoff
from outlast.agents.tools.function_tool import function_tool
from outlast.agents.tools.hosted import CodeInterpreterTool, WebSearchTool
from outlast.extensions.machine.shell import ShellTool
from outlast.loop.changes import Change
from tests.mcp_servers import Shelf, tool
from tests.unit.activities.desk import invocation_of, raising, settings_of


@function_tool
async def look_up(order_id: str) -> str:
    """Look an order up."""
    return order_id


@function_tool(name_override="transfer_to_b")
async def impostor() -> str:
    """Bear the name of a handoff."""
    return ""


@function_tool(is_enabled=lambda ctx, agent: ctx.context["open"] and agent.name == "A")
async def shop() -> str:
    """Buy."""
    return ""


def colliding() -> Agent[Any]:
    return Agent(name="A", tools=[impostor, look_up], handoffs=[Agent(name="B")])


async def test_tools_come_before_handoffs_in_their_order() -> None:
    offer = await offered_tools(
        invocation_of(Agent(name="A", tools=[look_up], handoffs=[Agent(name="B")]))
    )
    assert [spec.name for spec in offer.specs()] == ["look_up", "transfer_to_b"]
    assert offer.specs()[0].parameters == look_up.params_json_schema


@pytest.mark.parametrize("is_open", [True, False])
async def test_a_predicate_sees_the_context_and_the_agent(*, is_open: bool) -> None:
    offer = await offered_tools(
        invocation_of(Agent(name="A", tools=[shop]), context={"open": is_open})
    )
    assert bool(offer.tools) is is_open


async def test_a_predicate_that_fails_is_named_and_tried_again() -> None:
    entry = handoff(Agent(name="B"), is_enabled=raising(ConnectionError("down")))
    with pytest.raises(EffectError, match="is_enabled of 'transfer_to_b' of agent 'A'") as caught:
        await offered_tools(invocation_of(Agent(name="A", handoffs=[entry])))
    assert caught.value.retryable


async def test_what_a_predicate_changes_in_the_context_is_kept() -> None:
    def count(ctx: RunContextWrapper[Any], _agent: Any) -> bool:
        ctx.context["asked"] += 1
        return True

    invocation = invocation_of(Agent(name="A"), context={"asked": 0})
    assert await is_enabled(invocation, "transfer_to_b", handoff(Agent(name="B"), is_enabled=count))
    assert invocation.changes() == (Change("set", ("asked",), 1, 0),)


async def test_a_handoff_beats_a_tool_of_its_name(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        offer = await offered_tools(invocation_of(colliding()))
    assert (list(offer.tools), list(offer.handoffs)) == (["look_up"], ["transfer_to_b"])
    assert "hides a tool of that name" in caplog.text


async def test_a_handoff_that_came_late_does_not_hide_a_shell() -> None:
    agent = Agent[Any](name="A", tools=[ShellTool(lambda _request: "done")])
    invocation = invocation_of(agent)
    agent.handoffs.append(handoff(Agent(name="B"), tool_name_override="shell"))
    with pytest.raises(EffectError, match="has the name of one of its tools") as caught:
        await offered_tools(invocation)
    assert not caught.value.retryable


async def test_two_entries_of_one_name_are_an_error_where_the_run_says_so() -> None:
    settings = {"tool_name_collision_policy": "error"}
    with pytest.raises(EffectError, match=r"hides a tool of that name\. Rename one") as caught:
        await offered_tools(invocation_of(colliding(), settings=settings))
    assert not caught.value.retryable


@pytest.mark.parametrize("policy", ["warn", "error"])
@pytest.mark.parametrize("enabled", [(True, False), (False, True)])
async def test_of_handoffs_of_one_name_the_one_that_is_enabled_is_offered(
    enabled: tuple[bool, bool], policy: Any
) -> None:
    entries = [
        handoff(Agent(name=name), tool_name_override="escalate", is_enabled=is_on)
        for name, is_on in zip("BC", enabled, strict=True)
    ]
    settings = settings_of(RunConfig(tool_name_collision_policy=policy))
    offer = await offered_tools(
        invocation_of(Agent(name="A", handoffs=[*entries]), settings=settings)
    )
    assert list(offer.handoffs.values()) == [entries[enabled.index(True)]]


async def test_two_enabled_handoffs_of_one_name_are_an_error_where_the_run_says_so() -> None:
    entries = [handoff(Agent(name=name), tool_name_override="escalate") for name in "BC"]
    settings = settings_of(RunConfig(tool_name_collision_policy="error"))
    with pytest.raises(EffectError, match="two handoffs named 'escalate'"):
        await offered_tools(invocation_of(Agent(name="A", handoffs=[*entries]), settings=settings))


async def test_a_later_handoff_beats_an_earlier_one_of_its_name() -> None:
    first, second = (
        handoff(Agent(name="B")),
        handoff(Agent(name="C"), tool_name_override="transfer_to_b"),
    )
    offer = await offered_tools(invocation_of(Agent(name="A", handoffs=[first, second])))
    assert offer.handoffs["transfer_to_b"].agent_name == "C"


@pytest.mark.parametrize(("behavior", "fatal"), [("raise", True), (None, False)])
async def test_an_unknown_name_is_fatal_where_the_run_says_so(
    behavior: str | None, *, fatal: bool
) -> None:
    offer = await offered_tools(invocation_of(settings={"tool_not_found_behavior": behavior}))
    assert offer.unknown_is_fatal is fatal


async def test_tools_of_the_provider_are_offered_beside_and_nobody_asks_about_them() -> None:
    search = WebSearchTool()
    offer = await offered_tools(invocation_of(Agent(name="A", tools=[search, look_up])))
    assert list(offer.hosted) == [search]
    assert [spec.name for spec in offer.specs()] == ["look_up"]


def keep(data: Any) -> Any:
    return data


@pytest.mark.parametrize(
    ("entry", "config", "refused"),
    [
        (handoff(Agent[Any](name="B"), input_filter=keep), {}, True),
        (handoff(Agent[Any](name="B")), {"handoff_input_filter": keep}, True),
        (handoff(Agent[Any](name="B")), {}, False),
        (handoff(Agent[Any](name="B"), input_filter=keep, is_enabled=False), {}, False),
    ],
)
async def test_a_filter_is_refused_where_the_providers_server_keeps_the_conversation(
    entry: Any, config: dict[str, Any], *, refused: bool
) -> None:
    settings = settings_of(RunConfig(**config))
    invocation = invocation_of(Agent(name="A", handoffs=[entry]), settings=settings)
    assert len((await offered_tools(invocation)).handoffs) == int(entry.is_enabled)
    invocation.server_managed = True
    if not refused:
        await offered_tools(invocation)
        return
    with pytest.raises(EffectError, match="do not support handoff input filters") as caught:
        await offered_tools(invocation)
    assert (caught.value.code, caught.value.retryable) == ("user_error", False)


async def test_tools_of_mcp_servers_come_first_and_the_agents_own_beats_them() -> None:
    own = function_tool(name_override="tear")(lambda: "own")
    shelf = Shelf(tool("find"), tool("tear"))
    offer = await offered_tools(invocation_of(Agent(name="A", tools=[own], mcp_servers=[shelf])))
    assert [spec.name for spec in offer.specs()] == ["find", "tear"]
    assert offer.tools["tear"] is own


async def test_a_tool_of_a_form_of_its_own_has_an_entry_of_its_own() -> None:
    shell, hosted = ShellTool(str, name="bash"), WebSearchTool()
    offer = await offered_tools(invocation_of(Agent(name="A", tools=[shell, hosted, look_up])))
    assert list(offer.tools) == ["shell", "look_up"]
    assert [spec.name for spec in offer.specs()] == ["look_up"]
    assert offer.entries() == {0: shell, 1: hosted}
    assert offer.hosted_kinds() == {"web_search"}


async def test_one_that_is_not_enabled_has_none() -> None:
    offer = await offered_tools(
        invocation_of(Agent(name="A", tools=[ShellTool(str, is_enabled=False)]))
    )
    assert (offer.entries(), list(offer.tools)) == ({}, [])


async def test_tools_keep_the_agents_order_whatever_they_are() -> None:
    first, second = (
        WebSearchTool(),
        CodeInterpreterTool({"type": "code_interpreter", "container": {"type": "auto"}}),
    )
    shelf = Shelf(tool("find"))
    agent = Agent(name="A", tools=[first, look_up, second], mcp_servers=[shelf])
    offer = await offered_tools(invocation_of(agent))
    assert [one.name for one in offer.all_tools()] == [
        "find",
        "web_search",
        "look_up",
        "code_interpreter",
    ]
    assert offer.entries() == {1: first, 3: second}
