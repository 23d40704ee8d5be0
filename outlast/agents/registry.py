"""The registry: a worker's definitions, by name.

Runs refer to agents, tools and objects of their settings only by name, so that runs survive the
process that defined them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import lru_cache, partial
from typing import Any, Final, cast
from weakref import WeakSet

from outlast.agents.agent import Agent
from outlast.agents.agent_changes import OF, changes_of, with_changes
from outlast.agents.agent_tools.agent_tool import AgentTool
from outlast.agents.approvals.policy import ApprovalPolicy, ToolEffect, policy_of
from outlast.agents.argument_names import near_name
from outlast.agents.callables import callable_name, shown
from outlast.agents.config.settings import write_run_config
from outlast.agents.context.encoding import class_named, has_name, imported_class, type_name
from outlast.agents.context.wrapper import NamedAgent
from outlast.agents.errors import UserError
from outlast.agents.handoffs.handoff import Handoff, handoff
from outlast.agents.installed_sdk import refuse_agent
from outlast.agents.json_values import as_object
from outlast.agents.logs import get_logger
from outlast.agents.mcp.server import MCPServer
from outlast.agents.mcp.tools import source_of, tools_seen
from outlast.agents.references import (
    ReferenceTable,
    RunReferences,
    is_registered,
    named_references,
    resolve,
)
from outlast.agents.schemas.agent_output import check_output_schema
from outlast.agents.tools.definition import FunctionTool
from outlast.agents.tools.hosted import function_tools
from outlast.agents.tools.local import LocalTool
from outlast.loop.canonical import digest_of
from outlast.loop.values import Json, JsonObject

logger: Final = get_logger(__name__)


@lru_cache(maxsize=1000)
def warn_of_late_failure(problem: str) -> None:
    """Log a warning about an agent that no run can use, once in a process."""
    logger.warning("%s A run that gets to this agent fails.", problem)


class Registry:
    """Agents by name, with all agents reachable through handoffs and agent tools.

    The graph is searched again if a name is not found, so handoffs that are added later (to close a
    cycle) are found. An agent that a handoff picks when it is invoked cannot be found: register it
    separately.

    With `tell_apart`, further agents of a name get a number, such as "Clerk (2)". Only for a
    process that hosts its own runs: another version of a program may change the order of the graph.
    """

    def __init__(self, agents: Iterable[Agent[Any]] = (), *, tell_apart: bool = False) -> None:
        self._tells_apart = tell_apart
        self._agents: dict[str, Agent[Any]] = {}
        self._names: dict[int, str] = {}
        self._context_types: dict[str, Any] = {}
        self._references = ReferenceTable()
        self._listed: dict[str, dict[tuple[str, str], FunctionTool]] = {}
        self._own: RunReferences | None = None
        self._chosen: dict[str, Agent[Any]] = {}
        self._recorded: JsonObject = {}
        self._is_hosted = tell_apart
        self._number: int | None = None
        self._of_tools = RunReferences()
        self._former: WeakSet[MCPServer | LocalTool] = WeakSet()
        for agent in agents:
            self.add(agent)

    def add(self, agent: Agent[Any]) -> None:
        """Register an agent and everything it can hand over to or use as a tool.

        Raises:
            UserError: another agent has the same name, or a tool or output type does not fit.
        """
        value = cast("object", agent)
        refuse_agent(value)
        if not isinstance(value, Agent):
            raise UserError(f"{shown(value)} is not an Agent. Register agents: agents=[my_agent].")
        waiting = [agent]
        while waiting:
            one = waiting.pop(0)
            if self.has(one):
                continue
            name = self._free_name(one)
            _check_tool_names(one)
            self._check_output_type(one, is_first=one is agent)
            self._agents[name] = one
            self._names[id(one)] = name
            for tool in function_tools(one.tools):
                self.add_context_type(tool.context_type)
            waiting.extend(_targets_of(one))

    def _check_output_type(self, agent: Agent[Any], *, is_first: bool) -> None:
        """Refuse an output type that no model call can use.

        A process that hosts its own runs may reach such an agent and never use it, as in the SDK:
        there, only the agent that begins is refused at once, and the others when they are used.
        """
        try:
            check_output_schema(f"Agent {agent.name!r}", agent.output_type)
        except UserError as error:
            if is_first or not self._is_hosted:
                raise
            warn_of_late_failure(error.message)

    def replace(self, agent: Agent[Any]) -> None:
        """Register an agent, replacing one with the same name and its graph.

        For interactive use, where a definition is run again; a worker's agents do not change.
        """
        before = dict(self._agents), dict(self._names), dict(self._listed)
        self._former.update(self.resources)
        replaced = {reachable.name for reachable in _reachable(agent)}
        for name, one in before[0].items():
            if one.name in replaced:
                del self._agents[name], self._names[id(one)]
                self._listed.pop(name, None)
        try:
            self.add(agent)
        except UserError:
            self._agents, self._names, self._listed = before
            raise

    def holds(self, agent: Agent[Any]) -> bool:
        """Whether this agent object and all agents reachable from it are registered."""
        return all(self.has(reachable) for reachable in _reachable(agent))

    @property
    def own_references(self) -> RunReferences | None:
        """The objects that the settings of one run name; None for the definitions of a worker."""
        return self._own

    @property
    def is_hosted(self) -> bool:
        """Whether these are definitions of runs that a program hosts."""
        return self._is_hosted

    @property
    def tells_apart(self) -> bool:
        """Whether these are definitions of runs that a program hosts, or of one run."""
        return self._tells_apart

    def has(self, agent: NamedAgent) -> bool:
        """Whether this very agent object is registered."""
        return self._agents.get(self._names.get(id(agent), "")) is agent

    def _free_name(self, agent: Agent[Any]) -> str:
        name, number = agent.name, 1
        if self._number is not None:
            name = f"{agent.name} ({self._number})"
        while name in self._agents:
            if not self._tells_apart:
                raise UserError(
                    f"Two agents are named {name!r}. Runs refer to agents by name, so each needs "
                    "its own name."
                )
            number += 1
            name = f"{agent.name} ({number})"
        return name

    def for_run(
        self, references: RunReferences | None, chosen: dict[str, Agent[Any]] | None = None
    ) -> "Registry":
        """Return these definitions as one run sees them.

        The view has the objects that the run's settings name, and the agents that handoffs of the
        run have made, which it keeps in `chosen`. No other run sees these.
        """
        chosen = {} if chosen is None else chosen
        agents = {**self._agents, **chosen}
        view = copy(self)
        vars(view).update(
            _tells_apart=True,
            _own=references,
            _chosen=chosen,
            _agents=agents,
            _names={id(one): name for name, one in agents.items()},
            _context_types=dict(self._context_types),
            _listed={},
            _of_tools=RunReferences(),
        )
        return view

    def release_later(self, registry: "Registry") -> None:
        """Close what another registry would close, too, when this one is released."""
        self._former.update(registry.all_resources)

    @property
    def names(self) -> list[str]:
        """The names of all registered agents, sorted."""
        return sorted(self._agents)

    def name_of(self, agent: NamedAgent) -> str:
        """Return the name by which runs refer to an agent."""
        return self._names[id(agent)] if self.has(agent) else agent.name

    def take_over(self, agent: Agent[Any], number: int) -> None:
        """Add an agent that a handoff of the run has made, and all that it can reach.

        Several workers may host the run, and each knows the agents that were made in its process. So
        the name has the `number` of the handoff, but where the run's program hosts it alone.
        """
        before = set(self._agents)
        self._number = None if self._is_hosted else number
        try:
            self.add(agent)
        finally:
            self._number = None
        made = {name: one for name, one in self._agents.items() if name not in before}
        self._chosen.update(made)
        self._former.update(_resources_of(made.values()))

    def changed(self, agent: Agent[Any], number: int) -> tuple[str, JsonObject] | None:
        """Return a name for an agent that a handoff has made, and its changes of a registered one.

        None if it is no clone of a registered agent, or differs in more than data.
        """
        base = self._agents.get(agent.name)
        changes = None if base is None else changes_of(agent, base, agent.name)
        if changes is None:
            return None
        name, again = f"{agent.name} ({number})", 1
        while name in self._agents:
            again += 1
            name = f"{agent.name} ({number}.{again})"
        return name, changes

    def with_changed(self, recorded: JsonObject) -> "Registry":
        """Return these definitions with the agents that a run has recorded as changes.

        Raises:
            UserError: the agent that was changed is not registered here.
        """
        made: dict[str, Agent[Any]] = {}
        for name, changes in recorded.items():
            found = as_object(changes) or {}
            base = self.agent(str(found.get(OF)))
            made[name] = with_changes(base, found, base.name)
        agents = {**self._agents, **made}
        view = copy(self)
        names = {id(one): name for name, one in agents.items()}
        vars(view).update(_agents=agents, _names=names, _recorded=recorded)
        return view

    def changes_of_chosen(self, name: str) -> JsonObject | None:
        """Return the recorded changes of an agent that a handoff has made, if it is such an agent."""
        return as_object(self._recorded.get(name))

    def policy_owner(self, agent: NamedAgent) -> str:
        """Return the name by which operators mean an agent: one that a handoff made has its own."""
        name = self.name_of(agent)
        return agent.name if name in self._chosen or name in self._recorded else name

    def target_name(self, entry: Handoff) -> str:
        """Return the name by which runs refer to the agent of a handoff."""
        return self.name_of(entry.agent) if entry.agent is not None else entry.agent_name

    def agent(self, name: str) -> Agent[Any]:
        """Return the agent with a name."""
        if name not in self._agents:
            for agent in list(self._agents.values()):
                self._add_new_targets(agent)
        if name not in self._agents:
            names = ", ".join(repr(one) for one in self.names) or "none"
            raise UserError(
                f"This worker has no agent {name!r}.{near_name(name, self.names)} It has: {names}. Give it the agent "
                "(agents=[...]), or start the program again that has it; or send the run to the "
                "right task queue."
            )
        return self._agents[name]

    def tool(self, agent: str, name: str, source: str = "") -> FunctionTool:
        """Return a tool of an agent, including agent tools and listed MCP tools.

        A tool of this name from another MCP server than `source` is another tool.
        """
        found = self.agent(agent)
        tools = [*self._listed.get(agent, {}).values(), *function_tools(found.tools)]
        if found.makes_tools:  # what it returned comes before what it has
            tools.reverse()
        for tool in reversed(tools):
            if tool.called_name == name and source in {"", source_of(tool)}:
                return tool
        names = ", ".join(repr(tool.called_name) for tool in tools) or "none"
        raise UserError(f"Agent {agent!r} has no tool {name!r} on this worker. It has: {names}.")

    def keep_listed(self, agent: str, tools: Iterable[FunctionTool]) -> None:
        """Keep the tools that the MCP servers of an agent have listed.

        A list may depend on the run, so earlier tools stay; the newest list comes last.
        """
        kept = self._listed.setdefault(agent, {})
        for tool in tools:
            kept.pop((source_of(tool), tool.name), None)
            kept[source_of(tool), tool.name] = tool

    def tool_names(self, agent: str) -> list[str]:
        """Return the names of an agent's tools, listed MCP tools first."""
        own = [tool.name for tool in self.agent(agent).tools]
        listed = dict.fromkeys(name for _, name in self._listed.get(agent, {}))
        return [*(name for name in listed if name not in own), *own]

    def adopt_chosen(self) -> None:
        """Take in the agents that another view of the same run has got from a handoff."""
        for name, agent in self._chosen.items():
            if name not in self._agents:
                self._agents[name] = agent
                self._names[id(agent)] = name

    @property
    def chosen(self) -> dict[str, Agent[Any]]:
        """The agents that handoffs of the run have made in this process, by name."""
        return self._chosen

    async def release(self) -> None:
        """Close connections to MCP servers, and the resources of local tools."""
        for resource in self.all_resources:
            try:
                await resource.release()
            except Exception:  # the others have to be closed, too
                kind = type(resource).__name__
                logger.exception("%s %r could not be closed", kind, resource.name)

    @property
    def all_resources(self) -> list[MCPServer | LocalTool]:
        """The resources, and those of definitions that this registry releases, too."""
        return list(dict.fromkeys([*self.resources, *self._former]))

    @property
    def resources(self) -> list[MCPServer | LocalTool]:
        """The MCP servers and local tools of the registered agents."""
        return _resources_of(self._agents.values())

    def handoff(self, agent: str, name: str, target: str, variant: str = "") -> Handoff:
        """Return the handoff that a model was offered.

        Several may share a name if only one is enabled at a time. `target` is the agent of the
        wanted one, and `variant` tells it from others that lead there: see `handoff_variant`.

        Raises:
            UserError: this worker does not have exactly this handoff.
        """
        named = [entry for entry in handoffs_of(self.agent(agent)) if entry.tool_name == name]
        alike = [entry for entry in named if self.target_name(entry) == target]
        found = [entry for entry in alike if variant in {"", _variant(entry, alike)}]
        if len(found) == 1:
            return found[0]
        if not named:
            raise UserError(f"Agent {agent!r} has no handoff {name!r} on this worker.")
        if not alike:
            leads = self.target_name(named[-1])
            raise UserError(
                f"The handoff {name!r} of agent {agent!r} leads to {leads!r} on this worker, but "
                f"the model was offered one to {target!r}. Start a worker that has it."
            )
        raise UserError(
            f"Agent {agent!r} has changed its handoffs {name!r} to {target!r}: it is not certain "
            f"which one of {len(alike)} the model was offered. Start a worker with the handoffs of "
            "that time, or give each its own name: handoff(tool_name_override=...)."
        )

    def handoff_variant(self, agent: Agent[Any], entry: Handoff) -> str:
        """Return what tells a handoff from others of its agent with the same name and target.

        Empty if there are no others. It does not change if handoffs are added or reordered.
        """
        target = self.target_name(entry)
        alike = [
            one
            for one in handoffs_of(agent)
            if one.tool_name == entry.tool_name and self.target_name(one) == target
        ]
        return _variant(entry, alike) if len(alike) > 1 else ""

    def context_type(self, name: str | None, annotated: Any = None) -> tuple[Any, bool]:
        """Return the type of a run's context, and whether it is the run's own.

        The run's own type has the `name`; None is plain JSON. It may be registered, or a class that
        this process has imported: a script that runs again still has its class. For other runs, it
        is the callable's annotation, else the only registered type, else None.
        """
        if name is not None:
            if isinstance(annotated, type) and has_name(annotated, name):
                return annotated, True
            own = class_named(name, self._context_types) or imported_class(name)
            if own is not None:
                return own, True
        distinct = list(self._context_types.values())
        only = distinct[0] if len(distinct) == 1 else None
        return (only if annotated is None else annotated), False

    def add_context_type(self, context_type: Any) -> None:
        """Register a context type, so that runs can use it; what is no class is ignored."""
        if isinstance(context_type, type):
            self._context_types[type_name(context_type)] = context_type

    def add_references(self, references: Iterable[object] | Mapping[str, object]) -> None:
        """Register objects for settings of runs: a list, or a dict by name."""
        for name, entry in named_references(references):
            self._references.register_as(name, entry)

    def reference(self, name: str) -> Any:
        """Return the object of a name in a run's settings: the run's own, or a registered one."""
        for own in (self._own, self._of_tools):
            if own is not None and name in own:
                return own[name]
        return self._references.get(name) if name in self._references else resolve(name)

    def nested_settings(self, agent: str, tool: AgentTool) -> JsonObject | None:
        """Return the settings of the runs of an agent's tool, if the tool has its own.

        The objects that they name are found again by the names of the agent and the tool.
        """
        if tool.run_config is None:
            return None
        place = f"{agent}/{tool.name}/"
        return write_run_config(tool.run_config, partial(self._of_tools.name, place=place))

    def unknown_references(self, names: Iterable[str]) -> list[str]:
        """Return the names without an object here."""
        known = (self._own or (), self._of_tools, self._references)
        return [
            name
            for name in names
            if not any(name in table for table in known) and not is_registered(name)
        ]

    def _add_new_targets(self, agent: Agent[Any]) -> None:
        for target in _targets_of(agent):
            if target.name not in self._agents or (self._tells_apart and not self.has(target)):
                self.add(target)


def _resources_of(agents: Iterable[Agent[Any]]) -> list[MCPServer | LocalTool]:
    agents = list(agents)
    servers = [server for agent in agents for server in agent.mcp_servers]
    tools = [tool for agent in agents for tool in agent.tools]
    return [*servers, *(tool for tool in tools if isinstance(tool, LocalTool))]


def handoffs_of(agent: Agent[Any]) -> list[Handoff]:
    """Return an agent's handoffs, in order; a listed agent becomes a handoff."""
    return [entry if isinstance(entry, Handoff) else handoff(entry) for entry in agent.handoffs]


def _variant(entry: Handoff, alike: Sequence[Handoff]) -> str:
    """Return the digest of a handoff's definition, with its number if others are equal."""
    own = _definition(entry)
    equal = [one for one in alike if _definition(one) == own]
    number = next((at for at, one in enumerate(equal, 1) if one is entry), 1)
    return digest_of(own) + (f" {number}/{len(equal)}" if len(equal) > 1 else "")


def _definition(entry: Handoff) -> list[Json]:
    """Return what is written of a handoff; callables are represented by their names."""
    parts: list[object] = [
        entry.on_handoff,
        entry.on_invoke_handoff if entry.picks_agent else None,
        entry.input_filter,
        entry.needs_approval,
        None if isinstance(entry.is_enabled, bool) else entry.is_enabled,
    ]
    names: list[Json] = [
        callable_name(one) if callable(one) else type(one).__name__ for one in parts
    ]
    return [entry.tool_description, entry.input_json_schema, entry.nest_handoff_history, names]


def target_of(entry: Handoff | AgentTool) -> Agent[Any]:
    """Return the agent of a handoff or of an agent tool."""
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
    agent.adopt()  # what was added to its lists
    handoffs = [entry for entry in handoffs_of(agent) if entry.agent is not None]
    return [target_of(entry) for entry in [*handoffs, *agent_tools_of(agent)]]


def _reachable(agent: Agent[Any]) -> list[Agent[Any]]:
    found: dict[int, Agent[Any]] = {}
    waiting = [agent]
    while waiting:
        one = waiting.pop()
        if id(one) not in found:
            found[id(one)] = one
            waiting.extend(_targets_of(one))
    return list(found.values())


_WORSE: Final[tuple[ToolEffect | None, ...]] = (
    "read",
    None,
    "reversible",
    "external_reversible",
    "irreversible",
)
"""Effects in order; an undeclared one may be more than reading."""


def worst_effect(
    agent: Agent[Any], policy: Callable[[Agent[Any], FunctionTool], ApprovalPolicy | None]
) -> ToolEffect | None:
    """Return the worst effect of the tools of an agent, and of every agent that it can reach."""
    effects: list[ToolEffect | None] = [
        _own_effect(tool, policy(one, tool)) if isinstance(tool, FunctionTool) else None
        for one in _reachable(agent)
        for tool in [*one.tools, *tools_seen(one)]
        if not isinstance(tool, AgentTool) or tool.effect is not None
    ]
    return max(effects, key=_WORSE.index, default=None)


def effect_of(
    tool: FunctionTool, policy: Callable[[Agent[Any], FunctionTool], ApprovalPolicy | None]
) -> ToolEffect | None:
    """Return a tool's effect; that of an agent as a tool is the worst that it can reach."""
    if not isinstance(tool, AgentTool) or tool.effect is not None:
        return tool.effect
    try:
        return worst_effect(target_of(tool), policy)
    except UserError:  # a definition that cannot be read
        return "irreversible"


def only_reads(tool: FunctionTool) -> bool:
    """Whether a tool, or the policy of its approval, says that it only reads."""
    return _own_effect(tool, policy_of(tool.needs_approval)) == "read"


def _own_effect(tool: FunctionTool, policy: ApprovalPolicy | None) -> ToolEffect | None:
    return (policy.effect if policy is not None else None) or tool.effect


def _check_tool_names(agent: Agent[Any]) -> None:
    names = [tool.called_name for tool in function_tools(agent.tools)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(
            f"Ambiguous function tool configuration of agent {agent.name!r}: the tool name "
            f"`{twice[0]}` is used by multiple tools. Rename one."
        )
    handoffs = {entry.tool_name for entry in handoffs_of(agent)}
    for tool in agent.tools:
        if isinstance(tool, LocalTool) and tool.called_name in handoffs:
            raise UserError(handoff_clash(agent.name, tool.called_name))


def handoff_clash(agent: str, name: str) -> str:
    """Return the message for a handoff that would hide a local tool of its name."""
    return (
        f"Agent {agent!r}: the handoff {name!r} has the name of one of its tools. Give the handoff "
        "another: handoff(..., tool_name_override=...)."
    )
