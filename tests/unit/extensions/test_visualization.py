"""A picture of agents: what is in it, and what must not break it."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from outlast import Agent, UserError, WebSearchTool, function_tool, handoff
from outlast.extensions.visualization import (
    draw_graph,
    get_all_edges,
    get_all_nodes,
    get_main_graph,
)
from outlast.mcp import MCPServerStdio

graphviz: Any = import_module("graphviz")  # it has no stubs


def agent(name: str, **fields: Any) -> Agent[Any]:
    """Return an agent."""
    return Agent[Any](name=name, **fields)


def edges(graph: str) -> list[str]:
    """Return the edges of a graph, without their looks."""
    lines = [line.strip().partition(" [")[0].rstrip(";") for line in graph.splitlines()]
    return [line for line in lines if " -> " in line]


def test_a_graph_has_agents_tools_servers_and_handoffs() -> None:
    @function_tool
    def refund() -> None: ...

    billing = agent("Billing", tools=[refund])
    files = MCPServerStdio({"command": "files"}, name="files")
    triage = agent(
        "Triage", handoffs=[handoff(billing)], tools=[WebSearchTool()], mcp_servers=[files]
    )
    graph = get_main_graph(triage)
    assert graph.startswith("digraph G {\n")
    assert '"Billing" [label="Billing", shape=box, style="filled,rounded"' in graph
    assert edges(graph) == [
        '"__start__" -> "Triage"',
        '"Triage" -> "web_search"',
        '"web_search" -> "Triage"',
        '"Triage" -> "files"',
        '"files" -> "Triage"',
        '"Triage" -> "Billing"',
        '"Billing" -> "refund"',
        '"refund" -> "Billing"',
        '"Billing" -> "__end__"',
    ]


def test_agents_that_hand_over_to_each_other_are_drawn_once() -> None:
    one, other = agent("One"), agent("Other")
    one.handoffs.append(other)
    other.handoffs.append(handoff(one))
    graph = get_main_graph(one)
    assert edges(graph) == ['"__start__" -> "One"', '"One" -> "Other"', '"Other" -> "One"']
    assert graph.count('label="One"') == 1


def test_things_of_one_name_are_not_mixed_up() -> None:
    @function_tool
    def clerk() -> None: ...

    graph = get_main_graph(
        agent("clerk", tools=[clerk], handoffs=[agent("clerk"), agent("__end__")])
    )
    assert '"clerk (2)" [label="clerk", shape=ellipse' in graph
    assert '"clerk (3)" [label="clerk", shape=box' in graph
    assert '"__end__ (2)" -> "__end__"' in edges(graph)


def test_a_name_cannot_break_out_of_its_string() -> None:
    graph = get_main_graph(agent('a"]; evil [x="\\\nb'))
    assert '[label="a\\"]; evil [x=\\"\\\\\\nb", ' in graph


def test_the_graph_can_be_shown() -> None:
    drawn = draw_graph(agent("A"))
    assert isinstance(drawn, graphviz.Source)
    assert drawn.source == get_main_graph(agent("A"))


def test_a_file_name_writes_a_picture(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rendered: list[Any] = []

    def render(self: Any, name: str, **options: Any) -> None:
        rendered.append((self.source, name, options))

    monkeypatch.setattr(graphviz.Source, "render", render)
    name = str(tmp_path / "agents")
    draw_graph(agent("A"), filename=name)
    assert rendered == [(get_main_graph(agent("A")), name, {"format": "png", "cleanup": True})]


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(UserError, match=r"pip install 'outlast\[viz\]'"):
        draw_graph(agent("A"))


def test_the_nodes_and_edges_alone_leave_out_agents_by_name() -> None:
    child = Agent(name="Child")
    parent = Agent(name="Parent", handoffs=[child])
    visited = {"Child"}
    nodes = get_all_nodes(parent, visited=visited)
    assert 'label="Parent"' in nodes
    assert 'label="Child"' not in nodes
    assert visited == {"Parent", "Child"}
    assert '"Parent" -> "Child";' in get_all_edges(parent, visited={"Child"})
    assert get_all_edges(child).splitlines() == ['"__start__" -> "Child";', '"Child" -> "__end__";']
    assert get_all_nodes(child, visited={"Child"}) == ""
