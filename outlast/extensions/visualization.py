"""A picture of agents, their tools, MCP servers and handoffs, as a Graphviz graph."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any, cast

from outlast import Agent, Handoff, UserError

__all__ = ["draw_graph", "get_all_edges", "get_all_nodes", "get_main_graph"]

START, END = "__start__", "__end__"

_LOOKS = {
    "end": "shape=ellipse, style=filled, fillcolor=lightblue, width=0.5, height=0.3",
    "agent": 'shape=box, style="filled,rounded", fillcolor=lightyellow, width=1.5, height=0.8',
    "tool": "shape=ellipse, style=filled, fillcolor=lightgreen, width=0.5, height=0.3",
    "server": "shape=box, style=filled, fillcolor=lightgrey, width=1, height=0.5",
}
"""The attributes of each kind of node."""

_USES = {"tool": "style=dotted, penwidth=1.5", "server": "style=dashed, penwidth=1.5"}
"""The attributes of the edges between an agent and what it uses."""


def draw_graph(agent: Agent[Any], filename: str | None = None) -> Any:
    """Return a `graphviz.Source` of an agent, and of all agents that it can hand over to.

    Needs the extra `viz`. To write a file, or to show the graph in a notebook, the program `dot` of
    Graphviz has to be installed, too.

    Args:
        agent: the agent where runs start.
        filename: writes a PNG file, under this name and `.png`.

    Raises:
        UserError: the package graphviz is missing.
    """
    try:
        graphviz: Any = import_module("graphviz")
    except ImportError:
        raise UserError(
            "draw_graph needs the package graphviz: pip install 'outlast[viz]'. "
            "get_main_graph(agent) returns the graph's text without it."
        ) from None
    graph = graphviz.Source(get_main_graph(agent))
    if filename:
        graph.render(filename, format="png", cleanup=True)
    return graph


def get_main_graph(agent: Agent[Any]) -> str:
    """Return the graph of an agent, and of all agents that it can hand over to, in DOT.

    Args:
        agent: the agent where runs start.
    """
    graph = _graph_of(agent, set())
    head = ["graph [splines=true];", 'node [fontname="Arial"];', "edge [penwidth=1.5];"]
    lines = [*head, *graph.nodes, *graph.edges]
    return "\n".join(["digraph G {", *(f"    {line}" for line in lines), "}", ""])


def get_all_nodes(
    agent: Agent[Any], parent: Agent[Any] | None = None, visited: set[str] | None = None
) -> str:
    """Return the nodes of the graph in DOT, for graphs that a program draws itself.

    Args:
        agent: the agent where runs start.
        parent: has no effect.
        visited: names of agents that are left out; the names of the drawn ones are added.
    """
    del parent
    return "\n".join(_graph_of(agent, set() if visited is None else visited).nodes)


def get_all_edges(
    agent: Agent[Any], parent: Agent[Any] | None = None, visited: set[str] | None = None
) -> str:
    """Return the edges of the graph in DOT; the arguments are those of `get_all_nodes`."""
    del parent
    return "\n".join(_graph_of(agent, set() if visited is None else visited).edges)


def _graph_of(agent: Agent[Any], visited: set[str]) -> "_Graph":
    graph, left_out = _Graph(), frozenset(visited)
    if agent.name in left_out:
        return graph
    graph.add_node(START, START, "end")
    graph.add_node(END, END, "end")
    graph.add_node(agent, agent.name, "agent")
    graph.add_edge(START, agent)
    waiting: list[Agent[Any]] = [agent]
    drawn: set[int] = set()
    while waiting:
        current = waiting.pop(0)
        if id(current) in drawn:
            continue
        drawn.add(id(current))
        visited.add(current.name)
        for kind, used in (("tool", current.tools), ("server", current.mcp_servers)):
            for entry in used:
                graph.add_node(entry, entry.name, kind)
                graph.add_edge(current, entry, _USES[kind])
                graph.add_edge(entry, current, _USES[kind])
        for target, name in _targets(current):
            is_shown = name not in left_out
            graph.add_node(target, name, "agent", is_shown=is_shown)
            graph.add_edge(current, target)
            if is_shown and isinstance(target, Agent):
                waiting.append(cast("Agent[Any]", target))
        if not current.handoffs:
            graph.add_edge(current, END)
    return graph


def _targets(agent: Agent[Any]) -> Iterator[tuple[object, str]]:
    """Yield the targets of an agent's handoffs, or the handoff itself if it has no agent."""
    for entry in agent.handoffs:
        target = entry.agent if isinstance(entry, Handoff) else entry
        if target is None:
            yield entry, cast("Handoff", entry).agent_name
        else:
            yield target, target.name


class _Graph:
    """Nodes and edges in DOT; nodes of one name get different ids."""

    def __init__(self) -> None:
        self._ids: dict[object, str] = {}
        self.nodes: list[str] = []
        self.edges: list[str] = []

    def add_node(self, thing: object, label: str, kind: str, *, is_shown: bool = True) -> None:
        """Add a node for a thing, once. Its id is the label, unless that is in use."""
        if _key(thing) in self._ids:
            return
        name, number = _quoted(label), 1
        while name in self._ids.values():
            number += 1
            name = _quoted(f"{label} ({number})")
        self._ids[_key(thing)] = name
        if is_shown:
            self.nodes.append(f"{name} [label={_quoted(label)}, {_LOOKS[kind]}];")

    def add_edge(self, start: object, end: object, look: str = "") -> None:
        """Add an edge between the nodes of two things."""
        attributes = f" [{look}]" if look else ""
        ends = f"{self._ids[_key(start)]} -> {self._ids[_key(end)]}"
        self.edges.append(f"{ends}{attributes};")


def _key(thing: object) -> object:
    return thing if isinstance(thing, str) else id(thing)


def _quoted(text: str) -> str:
    """Return a text as a string of DOT."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "\\n".join(escaped.splitlines()) + '"'
