"""The registry: a worker's definitions, by name.

Finds every reachable agent, and checks names. Runs refer to agents, tools and objects of their
settings only by name, so that runs survive the process that defined them.
"""

import sys
from collections.abc import Iterable, Mapping
from typing import Any, cast
from weakref import WeakSet

from outlast.agents.agent import Agent
from outlast.agents.agent_tools.agent_tool import AgentTool
from outlast.agents.callables import shown
from outlast.agents.errors import UserError
from outlast.agents.handoffs.handoff import Handoff, handoff
from outlast.agents.logs import get_logger
from outlast.agents.mcp.server import MCPServer
from outlast.agents.references import ReferenceTable, is_registered, named_references, resolve
from outlast.agents.schemas.agent_output import check_output_schema
from outlast.agents.tools.definition import FunctionTool
from outlast.agents.tools.hosted import function_tools
from outlast.agents.tools.local import LocalTool

logger = get_logger(__name__)


class Registry:
    """Agents by name, with all agents reachable through handoffs and agent tools.

    The graph is searched again if a name is not found, so handoffs that are added later (to close a
    cycle) are found. An agent that a handoff picks when it is invoked cannot be found: register it
    separately.
    """

    def __init__(self, agents: Iterable[Agent[Any]] = ()) -> None:
        self._agents: dict[str, Agent[Any]] = {}
        self._context_types: dict[str, Any] = {}
        self._references = ReferenceTable()
        self._listed: dict[str, dict[str, FunctionTool]] = {}
        self._of_runs: dict[str, Registry] = {}
        self._former_servers: WeakSet[MCPServer] = WeakSet()
        for agent in agents:
            self.add(agent)

    def add(self, agent: Agent[Any]) -> None:
        """Register an agent and everything it can hand over to or use as a tool.

        Raises:
            UserError: the value is no agent; another agent has the same name, or two tools of one
            agent do; its output type must be strict and cannot be.
        """
        given = cast("object", agent)
        if not isinstance(given, Agent):
            raise UserError(f"{shown(given)} is not an Agent. Register agents: agents=[my_agent].")
        waiting = [agent]
        while waiting:
            one = waiting.pop()
            known = self._agents.get(one.name)
            if known is one:
                continue
            if known is not None:
                raise UserError(
                    f"Two agents are named {one.name!r}. Runs refer to agents by name, so each needs "
                    "its own name."
                )
            _check_tool_names(one)
            check_output_schema(one.output_type, f"Agent {one.name!r}")
            self._agents[one.name] = one
            for tool in function_tools(one.tools):
                self._note_context_type(tool.context_type)
            waiting.extend(_targets_of(one))

    def replace(self, agent: Agent[Any]) -> None:
        """Register an agent, replacing one with the same name and its graph.

        For interactive use, where a definition is run again; a worker's agents do not change.

        Raises:
            UserError: as for `add`; the earlier agents then stay.
        """
        agents, listed = dict(self._agents), dict(self._listed)
        self._former_servers.update(self.mcp_servers)
        for one in _reachable(agent):
            self._agents.pop(one.name, None)
            self._listed.pop(one.name, None)
        try:
            self.add(agent)
        except UserError:
            self._agents, self._listed = agents, listed
            raise

    def holds(self, agent: Agent[Any]) -> bool:
        """Whether this agent object and all agents reachable from it are registered."""
        return all(self._agents.get(one.name) is one for one in _reachable(agent))

    def keep_for_run(self, run_id: str, definitions: "Registry") -> None:
        """Set separate definitions for one run and the runs nested in it."""
        self._of_runs[run_id] = definitions
        self._former_servers.update(definitions.mcp_servers)

    def forget_run(self, run_id: str) -> None:
        """Remove the separate definitions of a run."""
        self._of_runs.pop(run_id, None)

    def of_run(self, run_id: str) -> "Registry":
        """Return the definitions of a run: its own, or these.

        The id of a nested run begins with its parent's id and a slash.
        """
        within = run_id
        while within:
            if within in self._of_runs:
                return self._of_runs[within]
            within = within.rpartition("/")[0]
        return self

    @property
    def names(self) -> list[str]:
        """The names of all registered agents, sorted."""
        return sorted(self._agents)

    def agent(self, name: str) -> Agent[Any]:
        """Return the agent with a name.

        Raises:
            UserError: no agent has this name; the message lists the registered ones.
        """
        if name not in self._agents:
            for agent in list(self._agents.values()):
                self._add_new_targets(agent)
        if name not in self._agents:
            known = ", ".join(repr(one) for one in self.names) or "none"
            raise UserError(
                f"This worker has no agent {name!r}. It has: {known}. Register the agent with "
                "AgentWorker(agents=[...]), or send the run to the right task queue."
            )
        return self._agents[name]

    def tool(self, agent: str, name: str) -> FunctionTool:
        """Return a tool of an agent, including agent tools and listed MCP tools.

        Raises:
            UserError: the agent, or the tool, is unknown.
        """
        listed = self._listed.get(agent, {})
        tools = [*listed.values(), *function_tools(self.agent(agent).tools)]
        for tool in reversed(tools):
            if tool.called_name == name:
                return tool
        known = ", ".join(repr(tool.called_name) for tool in tools) or "none"
        raise UserError(f"Agent {agent!r} has no tool {name!r} on this worker. It has: {known}.")

    def note_listed(self, agent: str, tools: Iterable[FunctionTool]) -> None:
        """Keep the tools that the MCP servers of an agent have listed.

        A list may depend on the run, so earlier tools stay.
        """
        self._listed.setdefault(agent, {}).update({tool.name: tool for tool in tools})

    def tool_names(self, agent: str) -> list[str]:
        """Return the names of an agent's tools, listed MCP tools first.

        Raises:
            UserError: the agent is unknown.
        """
        own = [tool.name for tool in self.agent(agent).tools]
        return [*(name for name in self._listed.get(agent, {}) if name not in own), *own]

    @property
    def mcp_servers(self) -> list[MCPServer]:
        """The MCP servers of the registered agents."""
        return [server for agent in self._agents.values() for server in agent.mcp_servers]

    async def release_servers(self) -> None:
        """Close the connections to MCP servers that were opened on first use."""
        for server in dict.fromkeys([*self.mcp_servers, *self._former_servers]):
            try:
                await server.release()
            except Exception:
                logger.exception("the MCP server %r could not be closed", server.name)

    def handoff(self, agent: str, name: str, target: str = "") -> Handoff:
        """Return a handoff of an agent by its tool name.

        Args:
            agent: the agent's name.
            name: the handoff's tool name. Several handoffs may share it if only one is enabled at a
                time.
            target: the name of the wanted handoff's agent.

        Raises:
            UserError: the agent, or the handoff, is unknown.
        """
        named = [one for one in handoffs_of(self.agent(agent)) if one.tool_name == name]
        meant = [one for one in named if one.agent_name == target]
        if meant or named:
            return (meant or named)[-1]
        raise UserError(f"Agent {agent!r} has no handoff {name!r} on this worker.")

    def context_type(self, name: str | None) -> Any:
        """Return a context type by name, else the only registered type, else None.

        An unregistered name may belong to a class that this process has imported: a script that
        runs again still has its class, even if no callable is annotated with it. The only
        registered type may have another name, as a script's own class does.
        """
        if name is not None and name in self._context_types:
            return self._context_types[name]
        if (imported := _imported_class(name)) is not None:
            return imported
        distinct = list(self._context_types.values())
        return distinct[0] if len(distinct) == 1 else None

    def add_context_type(self, context_type: type) -> None:
        """Register a context type, so that runs can use it."""
        self._note_context_type(context_type)

    def add_reference(self, entry: object, name: str | None = None) -> str:
        """Register an object for settings of runs, such as a callable or a model.

        Args:
            entry: the object.
            name: the name for runs; default: the object's own name.

        Returns:
            The name.

        Raises:
            UserError: the name belongs to another object.
        """
        named = named_references([entry] if name is None else {name: entry})
        self._add_named(named)
        return named[0][0]

    def add_references(self, references: Iterable[object] | Mapping[str, object]) -> None:
        """Register objects for settings of runs: a list, or a dict by name.

        Raises:
            UserError: two objects have the same name, or an object cannot be registered.
        """
        self._add_named(named_references(references))

    def reference(self, name: str) -> Any:
        """Return the object with a name in a run's settings.

        This registry's own names outrank those of the process.

        Raises:
            UserError: no object has this name.
        """
        return self._references.get(name) if name in self._references else resolve(name)

    def unknown_references(self, names: Iterable[str]) -> list[str]:
        """Return the names without an object here."""
        return [name for name in names if name not in self._references and not is_registered(name)]

    def _add_named(self, named: Iterable[tuple[str, object]]) -> None:
        for name, entry in named:
            self._references.register_as(name, entry)

    def _note_context_type(self, context_type: Any) -> None:
        if isinstance(context_type, type):
            self._context_types[type_name(context_type)] = context_type

    def _add_new_targets(self, agent: Agent[Any]) -> None:
        for target in _targets_of(agent):
            if target.name not in self._agents:
                self.add(target)


def handoffs_of(agent: Agent[Any]) -> list[Handoff]:
    """Return an agent's handoffs, in order; a listed agent becomes a handoff."""
    return [entry if isinstance(entry, Handoff) else handoff(entry) for entry in agent.handoffs]


def target_of(entry: Handoff | AgentTool) -> Agent[Any]:
    """Return the agent of a handoff or of an agent tool.

    Raises:
        UserError: there is no agent; a handoff that picks an agent when invoked has none yet.
    """
    target: object = entry.agent
    if not isinstance(target, Agent):
        what = (
            f"The tool {entry.name!r}"
            if isinstance(entry, AgentTool)
            else f"The handoff {entry.tool_name!r}"
        )
        raise UserError(f"{what} leads to {target!r}, not to an Agent.")
    return cast("Agent[Any]", target)


def agent_tools_of(agent: Agent[Any]) -> list[AgentTool]:
    """Return those of an agent's tools that are agents."""
    return [tool for tool in agent.tools if isinstance(tool, AgentTool)]


def _targets_of(agent: Agent[Any]) -> list[Agent[Any]]:
    """Return the agents that can be reached from an agent in one step."""
    known = [entry for entry in handoffs_of(agent) if entry.agent is not None]
    return [target_of(entry) for entry in [*known, *agent_tools_of(agent)]]


def type_name(context_type: type) -> str:
    """Return the name of a context type in the messages of a run."""
    return f"{context_type.__module__}:{context_type.__qualname__}"


def _imported_class(name: str | None) -> type[Any] | None:
    """Return the class with a name, if its module is already imported, else None."""
    module_name, _, qualname = (name or "").partition(":")
    found: Any = sys.modules.get(module_name)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) else None


def _reachable(agent: Agent[Any]) -> list[Agent[Any]]:
    found: dict[int, Agent[Any]] = {}
    waiting = [agent]
    while waiting:
        one = waiting.pop()
        if id(one) not in found:
            found[id(one)] = one
            waiting.extend(_targets_of(one))
    return list(found.values())


def _check_tool_names(agent: Agent[Any]) -> None:
    names = [tool.called_name for tool in function_tools(agent.tools)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(f"Agent {agent.name!r} has two tools named {twice[0]!r}. Rename one.")
    handoffs = {entry.tool_name for entry in handoffs_of(agent)}
    for tool in agent.tools:
        if isinstance(tool, LocalTool) and tool.called_name in handoffs:
            raise UserError(taken_by_handoff(agent.name, tool.called_name))


def taken_by_handoff(agent: str, name: str) -> str:
    """Return the error message for a handoff with the name of a local tool.

    The handoff would hide the tool, because the model sees the tool only by its own type.
    """
    return (
        f"Agent {agent!r}: the handoff {name!r} has the name of one of its tools. Give the handoff "
        "another: handoff(..., tool_name_override=...)."
    )
