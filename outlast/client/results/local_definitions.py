"""The calling process's definitions of a run's agents, found by name.

Agents, tools and guardrails that only the worker has are represented by stand-ins.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from outlast.agents.agent import Agent
from outlast.agents.agent_tools.call_items import call_item, handoff_call_item, origin_of
from outlast.agents.config.run_config import RunConfig, as_run_config
from outlast.agents.context.codec import ProgramContext, read_context
from outlast.agents.errors import UserError
from outlast.agents.guardrails.guardrail import InputGuardrail, OutputGuardrail
from outlast.agents.guardrails.tool_guardrails import ToolInputGuardrail, ToolOutputGuardrail
from outlast.agents.items.forms import run_item
from outlast.agents.items.run_items import RunItem
from outlast.agents.items.tool_origin import ToolOrigin
from outlast.agents.mcp.tools import tools_seen
from outlast.agents.registry import Registry
from outlast.agents.schemas.agent_output import AgentOutputSchemaBase, output_schema_of
from outlast.agents.tools.definition import FunctionTool
from outlast.agents.tools.hosted import function_tools
from outlast.blobs.contents import LargeContent
from outlast.client.transport.content import ContentReader
from outlast.loop.call_forms import name_of
from outlast.loop.items import Item, call_id_of
from outlast.loop.values import Json

NO_CONTENT = ContentReader(LargeContent(None))
"""Shows placeholders for content in the blob store."""


@dataclass(frozen=True)
class RemoteAgent:
    """The name of an agent that this process does not define.

    `Runner.run` takes it like an `Agent`.

    Attributes:
        name: the agent's name at the worker.
        handoff_description: always None.
    """

    name: str
    handoff_description: str | None = None


class LocalDefinitions:
    """The agents reachable from the program's starting agent, and the run's settings.

    Attributes:
        make_context: makes the context from its JSON, if its type is not set.
        program_context: the program's own context, also of an earlier call for a run that resumes.
        input_is_list: the program passed a list of items, even one with a single text.
        content: puts stored content back into values read from the run.
    """

    def __init__(
        self,
        starting_agent: object = None,
        *,
        run_config: RunConfig | Mapping[str, Any] | None = None,
        context: object = None,
        context_type: Any = None,
        program_context: ProgramContext | None = None,
        input_is_list: bool = False,
        make_context: Callable[[Any], Any] | None = None,
    ) -> None:
        self._start: Agent[Any] | None = None
        if isinstance(starting_agent, Agent):
            self._start = cast("Agent[Any]", starting_agent)
        self.input_is_list = input_is_list
        self.make_context = make_context
        self._config = as_run_config(run_config)
        self.context_type: Any = context_type if context is None else type(context)
        self.program_context: ProgramContext | None = (
            program_context if context is None else ProgramContext(context)
        )
        self._registry: Registry | None = None
        self._origins: dict[str, ToolOrigin] = {}
        self._served: dict[tuple[str, str], FunctionTool] = {}
        self.content = NO_CONTENT

    def agent(self, name: str) -> Any:
        """Return the agent with a name: an `Agent`, or else a `RemoteAgent`."""
        return self.find_agent(name) or RemoteAgent(name)

    def find_agent(self, name: str) -> Agent[Any] | None:
        """Return the `Agent` with a name, or None."""
        if self._start is None:
            return None
        if name == self._start.name:
            return self._start
        try:
            if self._registry is None:
                self._registry = Registry([self._start], tell_apart=True)
            return self._registry.agent(name)
        except UserError:  # unknown here, or an invalid graph that the worker reports
            return None

    def output_schema(self, agent: str) -> AgentOutputSchemaBase | None:
        """Return the schema of an agent's answers; None for text, and for unknown agents."""
        definition = self.find_agent(agent)
        return None if definition is None else output_schema_of(definition.output_type)

    def tool(self, agent: str, name: str) -> FunctionTool | None:
        """Return a tool of an agent, or None."""
        definition = self.find_agent(agent)
        tools = [] if definition is None else function_tools(definition.tools)
        own = next((tool for tool in reversed(tools) if tool.called_name == name), None)
        return own or (None if definition is None else self._served_tool(definition, name))

    def origin(self, agent: str, name: str) -> ToolOrigin | None:
        """Return the origin of an agent's tool, if the tool is defined here."""
        tool = self.tool(agent, name)
        return None if tool is None else origin_of(tool)

    def _served_tool(self, agent: Agent[Any], name: str) -> FunctionTool | None:
        key = (agent.name, name)
        if key not in self._served:
            found = next((tool for tool in tools_seen(agent) if tool.name == name), None)
            if found is None:
                return None
            self._served[key] = found
        return self._served[key]

    def run_item(self, item: Item) -> RunItem:
        """Return a transcript item as a public object; calls come before their outputs."""
        item = self.content.whole_item(item)
        call_id = call_id_of(item.raw)
        if item.kind == "handoff_call":
            return handoff_call_item(item, self.find_agent(item.agent), self.agent)
        if item.kind != "tool_call":
            return run_item(item, self.agent, tool_origin=self._origins.get(call_id))
        tool = self.tool(item.agent, name_of(item.raw))
        origin = None if tool is None else origin_of(tool)
        if origin is not None:
            self._origins[call_id] = origin
        return call_item(item, tool, self.agent)

    def update_context(self, context: Json) -> None:
        """Update the program's own context from the run's."""
        if self.program_context is not None:
            self.program_context.update(context)

    def context(self, value: Json) -> Any:
        """Return the context as its original type, or as JSON if the type is unknown."""
        if self.context_type is None and self.make_context is not None:
            with suppress(Exception):  # it may need another JSON than the run's
                return self.make_context(value)
        try:
            live = self.program_context.live if self.program_context is not None else None
            return read_context(value, self.context_type, live, is_own=True)
        except UserError:  # user code replaced the context
            return value

    def input_guardrail(self, agent: str, name: str) -> InputGuardrail[Any]:
        """Return an input guardrail of an agent or of the run's settings."""
        found = _find("input_guardrails", name, self.find_agent(agent), self._config)
        return found or InputGuardrail(_Elsewhere(name).check, name=name)

    def output_guardrail(self, agent: str, name: str) -> OutputGuardrail[Any]:
        """Return an output guardrail of an agent or of the run's settings."""
        found = _find("output_guardrails", name, self.find_agent(agent), self._config)
        return found or OutputGuardrail(_Elsewhere(name).check, name=name)

    def tool_input_guardrail(self, agent: str, tool: str, name: str) -> ToolInputGuardrail[Any]:
        """Return a guardrail on the calls of a tool."""
        found = _find("tool_input_guardrails", name, self.tool(agent, tool))
        return found or ToolInputGuardrail(_Elsewhere(name).check, name=name)

    def tool_output_guardrail(self, agent: str, tool: str, name: str) -> ToolOutputGuardrail[Any]:
        """Return a guardrail on the results of a tool."""
        found = _find("tool_output_guardrails", name, self.tool(agent, tool))
        return found or ToolOutputGuardrail(_Elsewhere(name).check, name=name)


def _find(kind: str, name: str, *definitions: object) -> Any:
    listed = [one for definition in definitions for one in getattr(definition, kind, None) or ()]
    objects = (guardrail for guardrail in listed if not isinstance(guardrail, str))
    return next((guardrail for guardrail in objects if guardrail.get_name() == name), None)


@dataclass(frozen=True)
class _Elsewhere:
    """Stands in for a guardrail that only the worker has."""

    name: str

    def check(self, *_arguments: object) -> NoReturn:
        raise UserError(
            f"The guardrail {self.name!r} is defined at the worker; this process only has its name "
            "and cannot run it."
        )
