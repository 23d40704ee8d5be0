"""The graph of agents: who hands over to whom, what they use, and the way of a run."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from outlast import Agent, Handoff, function_tool, handoff, input_guardrail, output_guardrail
from outlast.agents.guardrails.guardrail import GuardrailFunctionOutput
from outlast.agents.tools.hosted import WebSearchTool
from outlast.loop.items import Item
from outlast.loop.state import LoopState
from outlast.serve.pages.agent_graph import (
    MOST_AGENTS,
    AgentEdge,
    AgentGraph,
    AgentNode,
    Part,
    Way,
    columns_of,
    graph_of,
    way_of,
    with_way,
)
from outlast.views.run import snapshot_of


@function_tool
def look_up(order: str) -> str:
    """Look an order up."""
    return order


@function_tool(needs_approval=True)
def refund(order: str) -> str:
    """Refund an order."""
    return order


@input_guardrail
async def is_polite(_context: Any, _agent: Any, _input: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)


@output_guardrail
async def is_true(_context: Any, _agent: Any, _output: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)


def support() -> Agent[Any]:
    writer = Agent[Any](name="Writer")
    billing = Agent[Any](
        name="Billing",
        tools=[refund, writer.as_tool(tool_name="write")],
        output_guardrails=[is_true],
        output_approval=True,
    )
    orders = Agent[Any](name="Orders", tools=[look_up, WebSearchTool()])
    triage = Agent[Any](
        name="Triage",
        handoffs=[billing, handoff(orders, needs_approval=True)],
        input_guardrails=[is_polite],
    )
    orders.handoffs.append(triage)
    return triage


def test_a_graph_has_everything_that_agents_lead_to() -> None:
    graph = graph_of([support()])
    assert [node.name for node in graph.nodes] == ["Triage", "Billing", "Orders", "Writer"]
    assert [node.parts for node in graph.nodes[:3]] == [
        (Part(kind="input check", name="is_polite"),),
        (
            Part(kind="tool", name="refund", asks=True),
            Part(kind="agent tool", name="write"),
            Part(kind="output check", name="is_true"),
        ),
        (Part(kind="tool", name="look_up"), Part(kind="hosted tool", name="web_search")),
    ]
    assert [node.asks for node in graph.nodes] == [False, True, False, False]
    assert graph.edges == (
        AgentEdge(source=0, target=1, kind="hands over"),
        AgentEdge(source=0, target=2, kind="hands over", asks=True),
        AgentEdge(source=1, target=3, kind="runs as a tool", part=1),
        AgentEdge(source=2, target=0, kind="hands over"),
    )


def test_an_agent_that_is_passed_twice_is_one_node() -> None:
    triage = support()
    assert graph_of([triage, triage]) == graph_of([triage])


async def _chosen(_context: Any, _arguments: str) -> Agent[Any]:
    return Agent[Any](name="A team")


def test_a_handoff_may_choose_its_agent_later() -> None:
    chooses = Handoff[Any, Any](
        tool_name="go", tool_description="", agent_name="Any team", on_invoke_handoff=_chosen
    )
    graph = graph_of([Agent[Any](name="A", handoffs=[chooses])])
    assert graph.nodes[1] == AgentNode(name="Any team", is_known=False)


def test_a_graph_that_nobody_can_read_is_cut() -> None:
    agents = [Agent[Any](name=f"A{number}") for number in range(MOST_AGENTS + 2)]
    graph = graph_of(agents)
    assert (len(graph.nodes), graph.left_out) == (MOST_AGENTS, 2)


def test_a_run_marks_its_way() -> None:
    way = Way(
        ("Triage", "Orders", "Triage", "Billing"),
        Counter({("Orders", "look_up"): 2, ("Orders", "mcp_find"): 1, ("Elsewhere", "x"): 1}),
    )
    graph = with_way(graph_of([support()]), way)
    triage, billing, orders, writer, elsewhere = graph.nodes
    assert [node.visits for node in graph.nodes] == [(1, 3), (4,), (2,), (), ()]
    assert [node.is_active for node in graph.nodes] == [False, True, False, False, False]
    assert orders.parts == (
        Part(kind="tool", name="look_up", calls=2),
        Part(kind="hosted tool", name="web_search"),
        Part(kind="tool", name="mcp_find", calls=1),
    )
    assert elsewhere == AgentNode(
        name="Elsewhere", is_known=False, parts=(Part(kind="tool", name="x", calls=1),)
    )
    assert [edge.steps for edge in graph.edges] == [(3,), (1,), (), (2,)]
    assert triage.is_known
    assert billing.parts == graph_of([support()]).nodes[1].parts
    assert writer.parts == ()


def test_a_way_that_the_definitions_lack_is_added() -> None:
    graph = with_way(graph_of([]), Way(("A", "B"), Counter()))
    assert [node.name for node in graph.nodes] == ["A", "B"]
    assert graph.edges == (AgentEdge(source=0, target=1, kind="hands over", steps=(1,)),)


def test_the_way_of_a_run_is_read_from_its_state() -> None:
    call = {"type": "function_call", "name": "look_up", "arguments": "{}", "call_id": "c1"}
    state = LoopState(
        agent="Orders",
        handoff_path=("Triage", "Orders"),
        items=(
            Item("input", {"role": "user", "content": "Hello"}),
            Item("tool_call", call, "Orders", 1),
            Item("tool_call", {**call, "call_id": "c2"}, "Orders", 2),
            Item("tool_output", {"type": "function_call_output", "output": "x"}, "Orders", 2),
            Item("other", {"type": "web_search_call"}, "Orders", 2),
            Item("other", {"type": "compaction"}, "Orders", 2),
        ),
    )
    counts = Counter({("Orders", "look_up"): 2, ("Orders", "web_search"): 1})
    assert way_of(snapshot_of(state)) == Way(("Triage", "Orders"), counts)
    assert way_of(snapshot_of(replace(state, handoff_path=()))).path == ("Orders",)
    assert way_of(snapshot_of(LoopState())) == Way((), Counter())


@pytest.mark.parametrize(
    ("count", "ways", "expected"),
    [
        (0, [], []),
        (1, [], [[0]]),
        (1, [(0, 0)], [[0]]),
        (3, [], [[0, 1, 2]]),
        (3, [(0, 1), (1, 2)], [[0], [1], [2]]),
        (3, [(1, 0), (1, 2)], [[1], [0, 2]]),
        (3, [(0, 1), (0, 2), (1, 0), (2, 0)], [[0], [1, 2]]),
        (3, [(2, 0), (2, 1), (0, 2), (1, 2)], [[2], [0, 1]]),
        (2, [(0, 1), (1, 0)], [[0], [1]]),
    ],
)
def test_the_agent_that_leads_to_most_others_comes_first(
    count: int, ways: list[tuple[int, int]], expected: list[list[int]]
) -> None:
    nodes = tuple(AgentNode(name=f"{number}") for number in range(count))
    edges = tuple(AgentEdge(source=one, target=to, kind="hands over") for one, to in ways)
    assert columns_of(AgentGraph(nodes, edges)) == expected
