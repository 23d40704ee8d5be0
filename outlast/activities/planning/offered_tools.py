"""The tools and handoffs of an agent that are enabled for one model call."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from outlast.activities.errors import EffectError, mistake, user_code
from outlast.activities.invocation import Invocation
from outlast.activities.planning.mcp_listing import Listing, list_mcp_tools
from outlast.agents.callables import call
from outlast.agents.handoffs.handoff import Handoff
from outlast.agents.logs import get_logger
from outlast.agents.registry import handoff_clash, handoffs_of
from outlast.agents.tools.definition import FunctionTool
from outlast.agents.tools.hosted import HostedTool, function_tools, hosted_tools
from outlast.agents.tools.local import LocalTool
from outlast.contract import failures
from outlast.contract.policies import MODEL
from outlast.ports.model import ToolSpec
from outlast.ports.model_arguments import function_specs, is_function

logger: Final = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTools:
    """The tools and handoffs that a model call offers, by name.

    `hosted` are the tools that the provider runs. A tool with its own Responses item type has the
    name that calls of that type have. `order` holds both, in the agent's order. `away` are the MCP
    servers that could not be listed.
    """

    tools: Mapping[str, FunctionTool]
    handoffs: Mapping[str, Handoff]
    hosted: Sequence[HostedTool] = ()
    order: Sequence[FunctionTool | HostedTool] = ()
    unknown_is_fatal: bool = False
    away: Sequence[str] = ()

    def specs(self) -> list[ToolSpec]:
        """Return the specifications of the function tools."""
        return function_specs(self.all_tools(), self.handoffs.values())

    def all_tools(self) -> list[FunctionTool | HostedTool]:
        """Return all tools, in the agent's order."""
        return list(self.order) or [*self.tools.values(), *self.hosted]

    def entries(self) -> dict[int, HostedTool]:
        """Return the tools that are no functions, by their position among all tools."""
        return {
            position: cast("HostedTool", tool)
            for position, tool in enumerate(self.all_tools())
            if not is_function(tool)
        }

    def hosted_kinds(self) -> set[str]:
        """Return the provider's types of the tools that it runs."""
        return {str(tool.to_tool_param().get("type")) for tool in self.hosted}


async def offered_tools(invocation: Invocation, *, attempt: int = 1) -> OfferedTools:
    """Return the enabled tools and handoffs, tools of MCP servers first.

    A handoff hides a function tool with its name; a later entry hides an earlier one.

    Raises:
        EffectError: a predicate or a server failed, one of them is no function, or two entries have
            one name and the run forbids that.
    """
    agent = invocation.agent
    if agent.makes_tools:  # and says itself which are enabled
        from outlast.activities.made_tools import made_tools  # few agents make theirs

        listed, every = (
            Listing(()),
            await made_tools(
                invocation.worker.registry, agent, invocation.agent_name, invocation.wrapper
            ),
        )
        _, entries = await _enabled(invocation, (), handoffs_of(agent))
        own = function_tools(every)
    else:
        listed = await list_mcp_tools(invocation, attempt=attempt, attempts=MODEL.attempts)
        every = agent.tools
        own, entries = await _enabled(invocation, function_tools(every), handoffs_of(agent))
    tools = {tool.called_name: tool for tool in own}
    tools = {tool.name: tool for tool in listed.tools if tool.name not in tools} | tools
    handoffs = {entry.tool_name: entry for entry in entries}
    for name in sorted(
        {entry.tool_name for entry in entries if entry is not handoffs[entry.tool_name]}
    ):
        _report_collision(invocation, f"Agent {agent.name!r} has two handoffs named {name!r}")
    if invocation.server_managed:
        _check_server_managed(invocation, handoffs.values())
    for name in sorted(tools.keys() & handoffs.keys()):
        if isinstance(tools[name], LocalTool):  # the handoff was added after the worker started
            raise mistake(handoff_clash(agent.name, name))
        _report_collision(
            invocation, f"Agent {agent.name!r}: the handoff {name!r} hides a tool of that name"
        )
    tools = {name: tool for name, tool in tools.items() if name not in handoffs}
    hosted = hosted_tools(every)
    places = {id(tool): place for place, tool in enumerate(every)}
    return OfferedTools(
        tools=tools,
        handoffs=handoffs,
        hosted=hosted,
        order=sorted([*tools.values(), *hosted], key=lambda tool: places.get(id(tool), -1)),
        # The model may remember tools of servers that are unavailable.
        unknown_is_fatal=not listed.away
        and invocation.settings.get("tool_not_found_behavior") == "raise",
        away=listed.away,
    )


def _report_collision(invocation: Invocation, message: str) -> None:
    if invocation.settings.get("tool_name_collision_policy") == "error":
        raise EffectError(failures.USER_ERROR, f"{message}. Rename one of them.", retryable=False)
    logger.warning("%s", message)


def _check_server_managed(invocation: Invocation, handoffs: Iterable[Handoff]) -> None:
    """Refuse features that need to take items back from the provider's server."""
    if invocation.output_guardrails():
        raise mistake(
            f"Agent {invocation.agent.name!r} has output guardrails, but an answer that they block "
            "would stay in the server-managed conversation history. Leave them out, or "
            "run without conversation_id and previous_response_id."
        )
    of_run = "handoff_input_filter" in invocation.settings
    filtered = [
        handoff.tool_name for handoff in handoffs if handoff.input_filter is not None or of_run
    ]
    if filtered:
        raise mistake(
            f"Server-managed conversations do not support handoff input filters such as that of "
            f"{filtered[0]!r} of agent {invocation.agent.name!r}: no filter can change it there. Leave "
            "the filter out, or run without conversation_id and previous_response_id."
        )


async def is_enabled(invocation: Invocation, name: str, entry: FunctionTool | Handoff) -> bool:
    """Return whether an entry is enabled now.

    Raises:
        EffectError: the predicate failed.
    """
    if isinstance(entry.is_enabled, bool):
        return entry.is_enabled
    with user_code(f"is_enabled of {name!r} of agent {invocation.agent.name!r}"):
        return bool(await call(entry.is_enabled, invocation.wrapper, invocation.agent))


async def _enabled(
    invocation: Invocation, tools: Sequence[FunctionTool], handoffs: Sequence[Handoff]
) -> tuple[list[FunctionTool], list[Handoff]]:
    conditional: list[FunctionTool | Handoff] = [
        entry for entry in [*tools, *handoffs] if not isinstance(entry.is_enabled, bool)
    ]
    # Usually there is no predicate, and even an empty gather takes a turn of the event loop.
    checks = (is_enabled(invocation, _name_of(entry), entry) for entry in conditional)
    answers = await asyncio.gather(*checks) if conditional else []
    yes = {id(entry): answer for entry, answer in zip(conditional, answers, strict=True)}
    return (
        [tool for tool in tools if yes.get(id(tool), tool.is_enabled)],
        [handoff for handoff in handoffs if yes.get(id(handoff), handoff.is_enabled)],
    )


def _name_of(entry: FunctionTool | Handoff) -> str:
    return entry.tool_name if isinstance(entry, Handoff) else entry.called_name
