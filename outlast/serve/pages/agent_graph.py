"""The graph of agents: who hands over to whom, and what each of them uses."""

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias, cast

from outlast.agents.agent import Agent
from outlast.agents.agent_tools.agent_tool import AgentTool
from outlast.agents.handoffs.handoff import Handoff
from outlast.agents.tools.definition import FunctionTool
from outlast.views.records import Item
from outlast.views.run import RunSnapshot

PartKind: TypeAlias = Literal[
    "tool", "agent tool", "hosted tool", "MCP server", "input check", "output check"
]
"""What an agent uses, in the words that people read."""

EdgeKind: TypeAlias = Literal["hands over", "runs as a tool"]

MOST_PROBLEMS: Final = 20
"""The most tools of a server of which a page says what is wrong with them."""

MOST_AGENTS: Final = 300
"""The most agents in a graph; nobody reads a larger one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Something that an agent uses.

    Attributes:
        kind: what it is.
        name: its name.
        asks: whether a person may have to decide before it runs.
        checks: the names of the guardrails of a tool.
        problems: the tools of an MCP server that are left out or changed, each with the reason, as far
            as this process has listed them.
        calls: how often a run has called it.
    """

    kind: PartKind
    name: str
    asks: bool = False
    checks: tuple[str, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()
    calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentNode:
    """An agent in the graph.

    Attributes:
        name: its name; two agents may have one name.
        description: what it is for, as other agents read it.
        parts: what it uses.
        is_known: whether this desk has its definition.
        asks: whether a person may have to decide before its answer leaves.
        visits: its places on the way of a run, from 1.
        is_active: whether the run is with it.
    """

    name: str
    description: str = ""
    parts: tuple[Part, ...] = ()
    is_known: bool = True
    asks: bool = False
    visits: tuple[int, ...] = ()
    is_active: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEdge:
    """A way from an agent to another one.

    Attributes:
        source: the number of the first agent.
        target: the number of the second one.
        kind: what leads to it.
        part: the number of the tool among the parts of the first agent.
        asks: whether a person may have to decide before it.
        steps: when the run took it, from 1.
    """

    source: int
    target: int
    kind: EdgeKind
    part: int | None = None
    asks: bool = False
    steps: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentGraph:
    """Agents and the ways between them.

    Attributes:
        nodes: the agents, those of the program first.
        edges: the ways.
        left_out: how many agents are not in it because there are too many.
    """

    nodes: tuple[AgentNode, ...]
    edges: tuple[AgentEdge, ...]
    left_out: int = 0


def graph_of(agents: Iterable[Agent[Any]]) -> AgentGraph:
    """Return the graph of agents, and of all agents that they hand over to or run as tools."""
    walk = _Walk()
    for agent in agents:
        walk.visit(agent)
    walk.run()
    return AgentGraph(tuple(walk.nodes), tuple(walk.edges), walk.left_out)


@dataclass
class _Walk:
    nodes: list[AgentNode] = field(default_factory=list[AgentNode])
    edges: list[AgentEdge] = field(default_factory=list[AgentEdge])
    left_out: int = 0
    _numbers: dict[int, int] = field(default_factory=dict[int, int])
    _waiting: list[tuple[int, Agent[Any]]] = field(default_factory=list[tuple[int, Agent[Any]]])
    _kept: list[object] = field(default_factory=list[object])

    def visit(self, thing: object, name: str = "") -> int | None:
        """Return the number of an agent, or of a handoff that chooses its agent later."""
        number = self._numbers.get(id(thing))
        if number is not None:
            return number
        if len(self.nodes) >= MOST_AGENTS:
            self.left_out += 1
            return None
        number = self._numbers[id(thing)] = len(self.nodes)
        self._kept.append(thing)  # ids are those of living objects
        if isinstance(thing, Agent):
            agent = cast("Agent[Any]", thing)
            self.nodes.append(_node_of(agent))
            self._waiting.append((number, agent))
        else:
            known: object = getattr(thing, "name", name)
            self.nodes.append(AgentNode(name=name or str(known), is_known=False))
        return number

    def run(self) -> None:
        """Follow handoffs and tools until nothing new comes."""
        for number, agent in self._waiting:
            for entry in agent.handoffs:
                is_record = isinstance(entry, Handoff)
                handoff = cast("Handoff[Any, Any]", entry)
                target: object = entry
                if is_record and handoff.agent is not None:
                    target = handoff.agent
                name = handoff.agent_name if is_record and handoff.agent is None else ""
                asks = is_record and handoff.needs_approval is not False
                self._connect(number, self.visit(target, name), "hands over", asks=asks)
            for at, tool in enumerate(agent.tools):
                if isinstance(tool, AgentTool):
                    target_number = self.visit(tool.agent)
                    self._connect(number, target_number, "runs as a tool", part=at)

    def _connect(
        self,
        source: int,
        target: int | None,
        kind: EdgeKind,
        part: int | None = None,
        *,
        asks: bool = False,
    ) -> None:
        if target is not None:
            edge = AgentEdge(source=source, target=target, kind=kind, part=part, asks=asks)
            self.edges.append(edge)


def _node_of(agent: Agent[Any]) -> AgentNode:
    return AgentNode(
        name=agent.name,
        description=agent.handoff_description or "",
        parts=tuple(_parts_of(agent)),
        asks=agent.output_approval is not False,
    )


def _parts_of(agent: Agent[Any]) -> Iterator[Part]:
    """Yield what an agent uses, the tools first: edges name them by their place."""
    for tool in agent.tools:
        kind: PartKind = "hosted tool"
        if isinstance(tool, FunctionTool):
            kind = "agent tool" if isinstance(tool, AgentTool) else "tool"
        guards = [
            *getattr(tool, "tool_input_guardrails", ()),
            *getattr(tool, "tool_output_guardrails", ()),
        ]
        yield Part(
            kind=kind,
            name=str(getattr(tool, "called_name", tool.name)),
            asks=getattr(tool, "needs_approval", False) is not False,
            checks=tuple(str(one.get_name()) for one in guards),
        )
    for server in agent.mcp_servers:
        problems = tuple(server.tool_problems.items())[:MOST_PROBLEMS]
        yield Part(kind="MCP server", name=server.name, problems=problems)
    for guardrail in agent.input_guardrails:
        yield Part(kind="input check", name=guardrail.get_name())
    for guardrail in agent.output_guardrails:
        yield Part(kind="output check", name=guardrail.get_name())


# --- The way of a run ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Way:
    """What a run did in the graph.

    Attributes:
        path: the agents that had the conversation, in order.
        calls: how often each agent called each tool.
    """

    path: tuple[str, ...]
    calls: Counter[tuple[str, str]]


def way_of(state: RunSnapshot) -> Way:
    """Return the way that a run took."""
    path = list(state.handoff_path)
    if state.agent and (not path or path[-1] != state.agent):
        path.append(state.agent)
    calls = Counter((item.agent, _called(item)) for item in state.items if _is_call(item))
    return Way(tuple(path), calls)


def _is_call(item: Item) -> bool:
    is_hosted = item.kind == "other" and str(item.raw.get("type", "")).endswith("_call")
    return item.kind == "tool_call" or is_hosted


def _called(item: Item) -> str:
    return str(item.raw.get("name") or str(item.raw.get("type", "")).removesuffix("_call"))


def with_way(graph: AgentGraph, way: Way) -> AgentGraph:
    """Return the graph with the way of a run in it; agents that it lacks are added."""
    nodes = list(graph.nodes)
    numbers = _numbers(nodes)
    for name in [*way.path, *(agent for agent, _ in way.calls)]:
        if name and name not in numbers:
            numbers[name] = len(nodes)
            nodes.append(AgentNode(name=name, is_known=False))
    edges = _with_steps(graph.edges, nodes, way.path, numbers)
    last = way.path[-1] if way.path else None
    made = tuple(_with_visits(node, way, is_active=node.name == last) for node in nodes)
    return AgentGraph(made, tuple(edges), graph.left_out)


def _numbers(nodes: Sequence[AgentNode]) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for at, node in enumerate(nodes):
        numbers.setdefault(node.name, at)
    return numbers


def _with_steps(
    edges: Sequence[AgentEdge],
    nodes: Sequence[AgentNode],
    path: Sequence[str],
    numbers: dict[str, int],
) -> Iterator[AgentEdge]:
    steps: dict[tuple[str, str], list[int]] = {}
    for step, pair in enumerate(itertools.pairwise(path), 1):
        steps.setdefault(pair, []).append(step)
    for edge in edges:
        pair = (nodes[edge.source].name, nodes[edge.target].name)
        taken = steps.pop(pair, []) if edge.kind == "hands over" else []
        yield replace(edge, steps=tuple(taken))
    # Ways that the definitions here do not have: the run was hosted by others.
    for (source, target), taken in steps.items():
        yield AgentEdge(
            source=numbers[source], target=numbers[target], kind="hands over", steps=tuple(taken)
        )


def _with_visits(node: AgentNode, way: Way, *, is_active: bool) -> AgentNode:
    visits = tuple(at for at, name in enumerate(way.path, 1) if name == node.name)
    left = {tool: count for (agent, tool), count in way.calls.items() if agent == node.name}
    parts = [replace(part, calls=left.pop(part.name, 0)) for part in node.parts]
    # Tools of MCP servers, and those of agents that are defined elsewhere.
    parts += [Part(kind="tool", name=name, calls=count) for name, count in sorted(left.items())]
    return replace(node, visits=visits, parts=tuple(parts), is_active=is_active)


# --- Columns ---------------------------------------------------------------------------------------


def columns_of(graph: AgentGraph) -> list[list[int]]:
    """Return the numbers of the agents by how many ways each is away from where the graph starts.

    The graph starts at the agent from which most others are reached.
    """
    after = [[edge.target for edge in graph.edges if edge.source == at] for at in _range(graph)]
    layers = dict[int, int]()
    while left := [at for at in _range(graph) if at not in layers]:
        start = max(left, key=lambda at: (len(_reached(at, after, left)), len(set(after[at])), -at))
        layers[start] = 0
        waiting = [start]
        for at in waiting:
            new = [one for one in dict.fromkeys(after[at]) if one not in layers]
            layers |= dict.fromkeys(new, layers[at] + 1)
            waiting += new
    columns: list[list[int]] = [[] for _ in range(max(layers.values(), default=-1) + 1)]
    for at in _range(graph):
        columns[layers[at]].append(at)
    return columns


def _range(graph: AgentGraph) -> range:
    return range(len(graph.nodes))


def _reached(start: int, after: Sequence[Sequence[int]], among: Collection[int]) -> set[int]:
    seen, waiting = {start}, [start]
    for at in waiting:
        new = [one for one in dict.fromkeys(after[at]) if one in among and one not in seen]
        seen.update(new)
        waiting += new
    return seen
