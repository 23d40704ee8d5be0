"""The registry: agents by name, with everything that can be reached from them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.config.run_config import RunConfig
from outlast.agents.context.encoding import type_name
from outlast.agents.context.wrapper import RunContextWrapper, ToolContext
from outlast.agents.errors import UserError
from outlast.agents.handoffs.handoff import Handoff, handoff
from outlast.agents.references import RunReferences, base_name
from outlast.agents.registry import (
    Registry,
    agent_tools_of,
    handoffs_of,
    target_of,
    warn_of_late_failure,
)
from outlast.agents.schemas.agent_output import AgentOutputSchema
from outlast.agents.tools.definition import (
    FunctionTool,
)
from outlast.agents.tools.function_tool import function_tool
from outlast.extensions.machine.shell import ShellTool
from tests.mcp_servers import Shelf


@dataclass
class Customer:
    name: str = ""


@dataclass
class Order:
    id: str = ""


def tool(name: str, reply: str = "") -> FunctionTool:
    @function_tool(name_override=name)
    def answer() -> str:
        """Answer."""
        return reply

    return answer


@function_tool
def greet(ctx: ToolContext[Customer]) -> str:
    """Greet."""
    return ctx.context.name


@function_tool
def ship(ctx: RunContextWrapper[Order]) -> str:
    """Ship."""
    return ctx.context.id


def desk() -> tuple[Agent[Any], Agent[Any], Agent[Any]]:
    """Three agents that hand over in a circle."""
    triage = Agent[Any](name="Triage")
    billing = Agent[Any](name="Billing", handoffs=[triage])
    orders = Agent[Any](name="Orders", handoffs=[handoff(billing)])
    triage.handoffs.append(orders)
    return triage, orders, billing


def test_everything_that_can_be_reached_is_registered() -> None:
    triage, orders, billing = desk()
    registry = Registry([triage])
    assert registry.names == ["Billing", "Orders", "Triage"]
    assert registry.agent("Orders") is orders
    assert registry.agent("Billing") is billing


def test_the_same_agent_may_be_given_twice() -> None:
    triage, orders, _ = desk()
    registry = Registry([triage, orders, triage])
    assert registry.names == ["Billing", "Orders", "Triage"]


def test_a_handoff_that_is_added_later_is_found() -> None:
    triage = Agent[Any](name="Triage")
    registry = Registry([triage])
    late = Agent[Any](name="Late", handoffs=[Agent(name="Later")])
    triage.handoffs.append(late)
    assert registry.agent("Later").name == "Later"
    assert registry.names == ["Late", "Later", "Triage"]


def test_two_agents_of_one_name_are_refused() -> None:
    inner = Agent[Any](name="A")
    with pytest.raises(UserError, match="Two agents are named 'A'"):
        Registry([Agent(name="A", handoffs=[inner])])
    with pytest.raises(UserError, match="Two agents are named 'A'"):
        Registry([Agent(name="A"), Agent(name="A")])


def test_an_output_type_that_cannot_be_strict_is_refused() -> None:
    agent = Agent[Any](name="A", output_type=dict[str, int])
    with pytest.raises(UserError, match=r"^Agent 'A': .*strict_json_schema=False"):
        Registry([agent])
    agent.output_type = AgentOutputSchema(dict[str, int], strict_json_schema=False)
    assert Registry([agent]).names == ["A"]


def test_a_program_that_hosts_its_runs_may_have_such_an_agent_as_long_as_none_uses_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loose = Agent[Any](name="Loose", output_type=dict[str, int])
    warn_of_late_failure.cache_clear()
    for _ in range(2):
        registry = Registry([Agent(name="A", handoffs=[loose])], tell_apart=True)
        assert registry.names == ["A", "Loose"]
    (warning,) = caplog.messages
    assert warning.startswith("Agent 'Loose': Output type dict[str, int]: the schema accepts any")
    assert warning.endswith("strict_json_schema=False). A run that gets to this agent fails.")
    with pytest.raises(UserError, match=r"^Agent 'Loose': "):
        Registry([loose], tell_apart=True)


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(UserError, match="agent 'A': the tool name `look_up` is used by"):
        Registry([Agent(name="A", tools=[tool("look_up"), tool("x"), tool("look_up")])])


def test_a_handoff_cannot_have_the_name_of_a_tool_with_a_form_of_its_own() -> None:
    desk = Agent[Any](name="A", tools=[ShellTool(lambda _request: "done", name="bash")])
    desk.handoffs.append(handoff(Agent(name="B"), tool_name_override="shell"))
    with pytest.raises(UserError, match=r"Agent 'A': the handoff 'shell' .* tool_name_override"):
        Registry([desk])
    desk.handoffs[:] = [handoff(Agent(name="B"), tool_name_override="bash")]
    assert Registry([desk]).names == ["A", "B"]


@pytest.mark.parametrize("agents", [["Triage"], [None], [Agent], [greet]])
def test_what_is_no_agent_is_refused(agents: Iterable[Any]) -> None:
    with pytest.raises(UserError, match=r"is not an Agent\. Register agents: agents=\[my_agent\]"):
        Registry(agents)


@pytest.mark.parametrize(("agents", "known"), [([], "none"), (["A", "B"], "'A', 'B'")])
def test_an_unknown_agent_is_an_error_that_lists_the_known_ones(
    agents: list[str], known: str
) -> None:
    registry = Registry(Agent[Any](name=name) for name in agents)
    with pytest.raises(UserError, match=f"has no agent 'C'. It has: {known}. Give it the agent"):
        registry.agent("C")


@pytest.mark.parametrize("name", ["billing", "BILLING", "Biling"])
def test_an_agent_that_is_nearly_named_is_asked_about(name: str) -> None:
    registry = Registry([Agent[Any](name="Billing"), Agent[Any](name="Desk")])
    with pytest.raises(UserError, match=f"has no agent '{name}'. Did you mean 'Billing'?"):
        registry.agent(name)


def test_a_tool_is_found_by_agent_and_name() -> None:
    mine, theirs = tool("look_up"), tool("look_up")
    other = Agent[Any](name="B", tools=[theirs])
    registry = Registry([Agent(name="A", tools=[mine, tool("x")]), other])
    assert registry.tool("A", "look_up") is mine
    assert registry.tool("B", "look_up") is theirs


def test_an_unknown_tool_is_an_error_that_lists_the_known_ones() -> None:
    registry = Registry([Agent(name="A", tools=[tool("x"), tool("y")]), Agent(name="B")])
    with pytest.raises(UserError, match=r"'A' has no tool 'z' on this worker. It has: 'x', 'y'\."):
        registry.tool("A", "z")
    with pytest.raises(UserError, match=r"'B' has no tool 'x' .* It has: none\."):
        registry.tool("B", "x")
    with pytest.raises(UserError, match="has no agent 'C'"):
        registry.tool("C", "x")


def test_a_handoff_is_found_by_its_tool_name_and_its_target() -> None:
    triage, _, _ = desk()
    registry = Registry([triage])
    assert registry.handoff("Orders", "transfer_to_billing", "Billing").agent_name == "Billing"
    assert registry.handoff("Triage", "transfer_to_orders", "Orders").agent_name == "Orders"
    with pytest.raises(UserError, match="'Triage' has no handoff 'transfer_to_billing'"):
        registry.handoff("Triage", "transfer_to_billing", "Billing")
    with pytest.raises(UserError, match=r"leads to 'Orders' on this worker, but .* to 'Billing'"):
        registry.handoff("Triage", "transfer_to_orders", "Billing")


def test_handoffs_of_one_name_are_told_apart_by_their_target() -> None:
    first, second = Agent[Any](name="Big desk"), Agent[Any](name="big desk")
    agent = Agent[Any](name="A", handoffs=[first, second])
    registry = Registry([agent])
    assert registry.handoff("A", "transfer_to_big_desk", "big desk").agent is second
    assert registry.handoff("A", "transfer_to_big_desk", "Big desk").agent is first
    assert registry.handoff_variant(agent, handoff(first)) == ""


def to_desk(target: Agent[Any], description: str, **options: Any) -> Handoff:
    """Return a handoff that shares its name and target with others."""
    return handoff(
        target, tool_name_override="desk", tool_description_override=description, **options
    )


def test_handoffs_of_one_name_and_target_are_told_apart_by_their_variant() -> None:
    target = Agent[Any](name="Desk")
    vip, standard = to_desk(target, "vip"), to_desk(target, "standard")
    agent = Agent[Any](name="A", handoffs=[vip, standard])
    registry = Registry([agent])
    of_vip, of_standard = (registry.handoff_variant(agent, one) for one in (vip, standard))
    assert registry.handoff("A", "desk", "Desk", of_vip) is vip
    assert registry.handoff("A", "desk", "Desk", of_standard) is standard
    agent.handoffs.reverse()
    agent.handoffs.insert(0, to_desk(target, "night"))
    assert registry.handoff("A", "desk", "Desk", of_vip) is vip, "others may come and go"
    agent.handoffs.remove(vip)
    with pytest.raises(UserError, match="not certain which one of 2 the model was offered"):
        registry.handoff("A", "desk", "Desk", of_vip)


def test_a_handoff_that_has_become_ambiguous_is_not_guessed() -> None:
    target = Agent[Any](name="Desk")
    agent = Agent[Any](name="A", handoffs=[to_desk(target, "vip")])
    registry = Registry([agent])
    assert registry.handoff("A", "desk", "Desk") is agent.handoffs[0]
    agent.handoffs.append(to_desk(target, "standard"))
    with pytest.raises(
        UserError, match=r"changed its handoffs 'desk' to 'Desk': .* which one of 2"
    ):
        registry.handoff("A", "desk", "Desk")


def test_handoffs_that_are_written_alike_are_told_apart_by_their_number() -> None:
    target = Agent[Any](name="Desk")
    alike = [to_desk(target, "", on_handoff=print) for _ in range(2)]
    agent = Agent[Any](name="A", handoffs=[*alike, target])
    registry = Registry([agent])
    variants = [registry.handoff_variant(agent, one) for one in alike]
    assert [registry.handoff("A", "desk", "Desk", one) for one in variants] == alike
    agent.handoffs.remove(alike[0])
    with pytest.raises(UserError, match="which one of 1"):
        registry.handoff("A", "desk", "Desk", variants[1])


def test_a_definition_that_is_run_again_replaces_the_first() -> None:
    triage, _, _ = desk()
    registry = Registry([triage])
    again, orders, _ = desk()
    registry.replace(again)
    assert registry.agent("Triage") is again
    assert registry.agent("Orders") is orders
    assert registry.names == ["Billing", "Orders", "Triage"]


def test_a_definition_that_is_wrong_leaves_the_first_where_it_was() -> None:
    triage, orders, _ = desk()
    registry = Registry([triage])
    wrong = Agent[Any](name="Triage", handoffs=[Agent(name="New"), Agent(name="New")])
    with pytest.raises(UserError, match="Two agents are named 'New'"):
        registry.replace(wrong)
    assert registry.agent("Triage") is triage
    assert registry.agent("Orders") is orders
    assert "New" not in registry.names


def test_the_type_of_a_context_is_known_by_its_name() -> None:
    registry = Registry([Agent(name="A", tools=[greet, ship])])
    assert registry.context_type(type_name(Customer))[0] is Customer
    assert registry.context_type(type_name(Order))[0] is Order
    assert registry.context_type("elsewhere:Thing") == (None, False), "two are known: which?"
    assert registry.context_type(None) == (None, False)


def test_the_only_type_of_a_context_is_the_one_that_is_meant() -> None:
    registry = Registry([Agent(name="A", tools=[greet])])
    assert registry.context_type(None) == (Customer, False)
    assert registry.context_type("__main__:Customer") == (Customer, False)
    registry.add_context_type(Order)
    assert registry.context_type(None) == (None, False)
    assert registry.context_type(type_name(Order))[0] is Order


def test_the_runs_own_type_comes_before_the_annotation_of_a_callable() -> None:
    registry = Registry([Agent(name="A", tools=[greet])])
    assert registry.context_type(type_name(Customer), Order) == (Customer, True)
    assert registry.context_type("elsewhere:Thing", Order) == (Order, False)
    assert registry.context_type(None, Order) == (Order, False)
    assert registry.context_type(type_name(Order), Order) == (Order, True)


def test_no_type_is_known_where_no_tool_names_one() -> None:
    assert Registry([Agent(name="A", tools=[tool("x")])]).context_type("app:Customer")[0] is None


def test_a_type_that_no_tool_names_is_found_where_it_is_imported() -> None:
    registry = Registry([Agent(name="A", tools=[tool("x")])])
    assert registry.context_type(type_name(Customer))[0] is Customer
    assert registry.context_type(f"{__name__}:Nobody")[0] is None
    assert registry.context_type(f"{__name__}:type_name")[0] is None, "it is no class"
    registry.add_context_type(Order)
    assert registry.context_type(type_name(Customer))[0] is Customer, "and not the only one that is"


def test_an_agent_among_the_handoffs_stands_for_a_handoff_to_it() -> None:
    other = Agent[Any](name="B")
    chosen = handoff(other, tool_name_override="go")
    plain, kept = handoffs_of(Agent(name="A", handoffs=[other, chosen]))
    assert (plain.tool_name, plain.agent) == ("transfer_to_b", other)
    assert kept is chosen


def test_a_handoff_has_to_lead_to_an_agent() -> None:
    @dataclass
    class Impostor:
        name: str = "B"
        handoff_description: str | None = None

    entry = Handoff(tool_name="go", tool_description="", agent=Impostor())
    with pytest.raises(UserError, match=r"'go' leads to .*Impostor.*, not to an Agent"):
        target_of(entry)
    with pytest.raises(UserError, match="not to an Agent"):
        Registry([Agent(name="A", handoffs=[entry])])


def test_a_type_travels_under_its_module_and_name() -> None:
    assert type_name(Agent) == "outlast.agents.agent:Agent"


def test_agents_that_are_tools_are_registered_with_all_they_reach() -> None:
    deep = Agent[Any]("Deep", tools=[greet])
    helper = Agent[Any]("Helper", handoffs=[Agent("Other", tools=[deep.as_tool()])])
    tool = helper.as_tool("ask_helper")
    registry = Registry([Agent("Triage", tools=[tool])])
    assert registry.names == ["Deep", "Helper", "Other", "Triage"]
    assert registry.tool("Triage", "ask_helper") is tool
    assert target_of(tool) is helper
    assert agent_tools_of(registry.agent("Triage")) == [tool]
    assert registry.context_type(None) == (Customer, False)


def test_an_agent_may_be_its_own_tool() -> None:
    agent = Agent[Any]("Again")
    agent.tools.append(agent.as_tool())
    registry = Registry([agent])
    assert registry.names == ["Again"]
    registry.replace(agent)
    assert registry.agent("Again") is agent


def test_an_agent_that_becomes_a_tool_later_is_found() -> None:
    triage = Agent[Any]("Triage")
    registry = Registry([triage])
    triage.tools.append(Agent[Any]("Late").as_tool())
    assert registry.agent("Late").name == "Late"


def test_an_agent_that_is_a_tool_needs_a_name_of_its_own() -> None:
    with pytest.raises(UserError, match="Two agents are named 'A'"):
        Registry([Agent("A", tools=[Agent[Any]("A").as_tool("other")])])


def test_a_handoff_that_picks_its_agent_later_is_not_followed() -> None:
    late = Agent[Any]("Late")

    async def pick(context: RunContextWrapper[Any], arguments: str) -> Agent[Any]:
        return late

    entry = Handoff(
        tool_name="pick", tool_description="", agent_name="Late", on_invoke_handoff=pick
    )
    registry = Registry([Agent("Triage", handoffs=[entry])])
    assert registry.names == ["Triage"]
    assert registry.handoff("Triage", "pick", "Late") is entry
    with pytest.raises(UserError, match="has no agent 'Late'"):
        registry.agent("Late")


def trim(data: Any) -> Any:
    return data


def test_references_of_a_run_come_before_those_of_the_worker_and_of_the_process() -> None:
    registry, theirs, own = Registry(), tool("x"), RunReferences()
    name = RunReferences().name(trim)
    assert registry.reference(name) is trim
    registry.add_references({name: theirs})
    assert registry.reference(name) is theirs
    assert Registry().reference(name) is trim
    assert registry.for_run(own).reference(name) is theirs
    own.name(trim)
    assert registry.for_run(own).reference(name) is trim


def test_two_runs_of_one_worker_have_their_own_objects() -> None:
    registry, first, second = Registry(), RunReferences(), RunReferences()
    name = first.name(ann := Customer("Ann"))
    assert second.name(ben := Customer("Ben")) == name
    one, other = registry.for_run(first), registry.for_run(second)
    assert (one.reference(name), other.reference(name)) == (ann, ben)
    assert (one.own_references, registry.own_references) == (first, None)
    assert one.unknown_references([name, "app:other"]) == ["app:other"]
    assert registry.unknown_references([name]) == [name]
    with pytest.raises(UserError, match="the process that started the run"):
        registry.reference(name)


def asking(person: str, name: str) -> Agent[Any]:
    """Return an agent whose tool has settings with a filter that says the name."""

    def say_name(data: Any) -> Any:
        return name

    config = RunConfig(call_model_input_filter=say_name)
    asked = Agent[Any](f"Expert of {person}").as_tool("ask", run_config=config)
    return Agent(person, tools=[asked, tool("look_up")])


def test_the_settings_of_a_tool_name_its_objects_by_its_place() -> None:
    registry = Registry([Agent("Desk", handoffs=[asking("A", "of A"), asking("B", "of B")])])
    for view in (registry, registry.for_run(RunReferences())):
        for agent in ("A", "B"):
            asked: Any = view.tool(agent, "ask")
            name = f"run:{agent}/ask/{base_name(asked.run_config.call_model_input_filter)}"
            assert view.unknown_references([name]) == [name]
            assert view.nested_settings(agent, asked) == {"call_model_input_filter": name}
            assert view.reference(name)(None) == f"of {agent}"
            assert view.nested_settings(agent, asked) == {"call_model_input_filter": name}
            assert view.unknown_references([name]) == []


def test_a_tool_without_settings_leaves_its_runs_those_of_the_caller() -> None:
    assert Registry().nested_settings("A", Agent[Any]("B").as_tool("ask")) is None


def test_references_are_given_as_a_list_or_by_name() -> None:
    registry = Registry()
    registry.add_references([trim, Customer])
    registry.add_references({"customer": Customer})
    assert registry.reference(f"{__name__}:trim") is trim
    assert registry.reference("customer") is Customer
    assert registry.unknown_references(["customer", "app:other", f"{__name__}:trim"]) == [
        "app:other"
    ]


def test_a_reference_that_could_mean_two_things_is_refused() -> None:
    registry = Registry()
    registry.add_references({"trim": trim})
    with pytest.raises(UserError, match="The name 'trim' belongs to two objects"):
        registry.add_references({"trim": Customer})


def test_an_unknown_reference_is_an_error_that_says_where_to_register_it() -> None:
    with pytest.raises(UserError, match=r"no object named 'app:trim'.*references="):
        Registry().reference("app:trim")


def test_tools_that_mcp_servers_listed_are_known_behind_the_agents_own() -> None:
    own, listed, other = tool("find", "own"), tool("find", "listed"), tool("tear")
    registry = Registry([Agent[Any](name="A", tools=[own])])
    registry.keep_listed("A", [listed, other])
    registry.keep_listed("A", [])  # for another run
    assert registry.tool_names("A") == ["tear", "find"]
    assert registry.tool("A", "find") is own
    assert registry.tool("A", "tear") is other
    registry.replace(Agent[Any](name="A"))
    with pytest.raises(UserError, match="has no tool 'tear'"):
        registry.tool("A", "tear")


async def test_each_mcp_server_is_released_once() -> None:
    shared, own = Shelf(), Shelf()
    helper = Agent[Any](name="B", mcp_servers=[shared, own])
    registry = Registry([Agent[Any](name="A", mcp_servers=[shared], handoffs=[helper])])
    await registry.release()
    assert (shared.steps, own.steps) == (["release"], ["release"])


async def test_an_mcp_server_that_cannot_be_released_does_not_keep_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Stuck(Shelf):
        async def release(self) -> None:
            raise OSError("stuck")

    other = Shelf()
    await Registry([Agent[Any](name="A", mcp_servers=[Stuck(), other])]).release()
    assert other.steps == ["release"]
    assert "could not be closed" in caplog.text


async def test_the_servers_of_agents_that_were_replaced_or_that_runs_had_are_released_too() -> None:
    first, second, third = Agent[Any](name="A", mcp_servers=[Shelf()]), Shelf(), Shelf()
    registry = Registry([first])
    registry.replace(Agent[Any](name="A", mcp_servers=[second]))
    of_run = Registry([Agent[Any](name="A", mcp_servers=[third, second])])
    before = Registry([Agent[Any](name="A", mcp_servers=[fourth := Shelf()])])
    of_run.release_later(before)
    registry.release_later(of_run)
    registry.release_later(of_run)
    await registry.release()
    shelves = [*first.mcp_servers, second, third, fourth]
    assert [shelf.steps for shelf in shelves if isinstance(shelf, Shelf)] == [["release"]] * 4


def test_a_registry_holds_an_agent_if_all_that_it_leads_to_is_the_same() -> None:
    orders = Agent[Any](name="Orders")
    agent = Agent[Any](name="A", handoffs=[orders])
    registry = Registry([agent])
    assert registry.holds(agent)
    assert not registry.holds(Agent[Any](name="A"))
    agent.handoffs = [Agent[Any](name="Orders")]
    assert not registry.holds(agent)


# --- Agents with the same name --------------------------------------------------------------------


def specialist(model: str) -> Agent[Any]:
    return Agent(name="Clerk", model=model)


def test_agents_with_the_same_name_are_told_apart_where_that_is_allowed() -> None:
    one, other = specialist("m1"), specialist("m2")
    triage = Agent[Any](name="Triage", handoffs=[one], tools=[other.as_tool("ask", "Ask.")])
    registry = Registry([triage], tell_apart=True)
    assert registry.names == ["Clerk", "Clerk (2)", "Triage"]
    assert (registry.agent("Clerk"), registry.agent("Clerk (2)")) == (one, other)
    assert [registry.name_of(agent) for agent in (one, other)] == ["Clerk", "Clerk (2)"]
    assert registry.name_of(Agent(name="Elsewhere")) == "Elsewhere"
    assert Registry([triage], tell_apart=True).names == registry.names, "each process agrees"
    assert registry.holds(triage)


def test_an_agent_with_a_taken_name_that_is_linked_later_is_found() -> None:
    triage = Agent[Any](name="Triage", handoffs=[specialist("m1")])
    registry = Registry([triage], tell_apart=True)
    late = specialist("m2")
    triage.handoffs.append(late)
    assert registry.agent("Clerk (2)") is late
    assert registry.handoff("Triage", "transfer_to_clerk", "Clerk (2)").agent is late


def test_a_definition_that_is_run_again_replaces_all_agents_of_its_names() -> None:
    first = Agent[Any](name="Triage", handoffs=[specialist("m1"), specialist("m2")])
    registry = Registry([first], tell_apart=True)
    again = Agent[Any](name="Triage", handoffs=[specialist("m3")])
    registry.replace(again)
    assert registry.names == ["Clerk", "Triage"]
    assert registry.holds(again)
    assert not registry.holds(first)


# --- The definitions of one run ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("is_hosted", "names"),
    [
        (False, ["Clerk (7)", "Helper (7)", "Clerk (9)"]),
        (True, ["Clerk", "Helper", "Clerk (2)"]),
    ],
)
def test_agents_that_handoffs_made_are_those_of_one_run(
    names: list[str], *, is_hosted: bool
) -> None:
    worker = Registry([desk := Agent[Any](name="Desk")], tell_apart=is_hosted)
    chosen: dict[str, Agent[Any]] = {}
    view = worker.for_run(RunReferences(), chosen)
    first, second = specialist("m1"), specialist("m2")
    first.handoffs.append(helper := Agent[Any](name="Helper"))
    view.take_over(first, 7)
    view.take_over(second, 9)
    view.take_over(second, 11)
    assert [view.name_of(one) for one in (first, helper, second)] == names
    assert chosen == dict(zip(names, [first, helper, second], strict=True))
    assert view.has(first)
    assert not worker.has(first)
    assert (worker.tells_apart, view.tells_apart) == (is_hosted, True)
    assert [view.policy_owner(one) for one in (desk, first, second)] == ["Desk", "Clerk", "Clerk"]
    again = worker.for_run(RunReferences(), chosen)
    assert again.agent(names[2]) is second
    assert again.name_of(helper) == names[1]
    assert worker.names == worker.for_run(RunReferences()).names == ["Desk"]


def test_an_agent_that_a_handoff_made_has_to_fit() -> None:
    view = Registry([Agent[Any](name="Desk")]).for_run(RunReferences())
    with pytest.raises(UserError, match="`x` is used by multiple tools"):
        view.take_over(Agent("Odd", tools=[tool("x"), tool("x")]), 7)


def test_two_agents_that_one_handoff_made_have_two_names() -> None:
    """An attempt of a handoff may be repeated, and makes another agent then."""
    view = Registry([Agent[Any](name="Desk")]).for_run(RunReferences())
    for made, name in ((specialist("m1"), "Clerk (7)"), (specialist("m2"), "Clerk (2)")):
        view.take_over(made, 7)
        assert view.name_of(made) == name


def test_a_clone_is_recorded_by_its_changes() -> None:
    clerk = specialist("m1")
    registry = Registry([clerk])
    changes = {"of": "Clerk", "model": "m2"}
    assert registry.changed(clerk.clone(model="m2"), 7) == ("Clerk (7)", changes)
    assert registry.changed(clerk.clone(tools=[greet]), 7) is None
    assert registry.changed(Agent("Stranger"), 7) is None
    run = registry.for_run(own := RunReferences()).with_changed({"Clerk (7)": changes})
    assert run.agent("Clerk (7)").model == "m2"
    assert run.agent("Clerk") is clerk
    assert (run.changes_of_chosen("Clerk (7)"), run.changes_of_chosen("Clerk")) == (changes, None)
    assert run.policy_owner(run.agent("Clerk (7)")) == "Clerk"
    assert run.own_references is own
    assert registry.names == ["Clerk"]
    with pytest.raises(UserError, match="no agent 'Gone'"):
        registry.with_changed({"Gone (7)": {"of": "Gone"}})


def test_a_clone_never_takes_the_name_of_another_agent_of_the_run() -> None:
    clerks = [specialist(f"m{number}") for number in (1, 2, 3)]
    registry = Registry([Agent[Any](name="Triage", handoffs=[*clerks])], tell_apart=True)
    found = registry.changed(clerks[0].clone(model="m9"), 3)
    assert found is not None
    name, changes = found
    run = registry.with_changed({name: changes})
    assert [run.agent(run.name_of(one)) for one in clerks] == clerks
    assert run.agent(name).model == "m9"


def test_what_a_run_adds_to_the_definitions_is_not_the_workers() -> None:
    worker = Registry([Agent[Any](name="A", tools=[greet])])
    worker.keep_listed("A", [tool("of_all")])
    view = worker.for_run(RunReferences())
    view.add_context_type(Order)
    view.keep_listed("A", [tool("of_the_run")])
    assert view.tool_names("A") == ["of_the_run", "greet"]
    assert worker.tool_names("A") == ["of_all", "greet"]
    assert view.context_type(type_name(Order))[0] is Order
    assert worker.context_type(None) == (Customer, False), "it is still the only one"
    assert view.context_type(None) == (None, False)


def test_a_run_finds_what_was_linked_to_the_workers_agents_later() -> None:
    worker = Registry([triage := Agent[Any](name="Triage")])
    view = worker.for_run(RunReferences())
    triage.handoffs.append(late := Agent[Any](name="Late"))
    assert view.agent("Late") is late
    assert worker.agent("Late") is late


def test_what_is_linked_after_a_handoff_made_an_agent_has_its_own_name() -> None:
    view = Registry([triage := Agent[Any](name="Triage")]).for_run(RunReferences())
    view.take_over(specialist("m1"), 7)
    triage.handoffs.append(late := Agent[Any](name="Late"))
    assert view.agent("Late") is late
