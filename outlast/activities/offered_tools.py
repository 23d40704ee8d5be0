"""The tools and handoffs of an agent that are enabled for one model call."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from outlast.activities.errors import EffectError, of_user_code
from outlast.activities.invocation import Invocation
from outlast.activities.mcp_listing import list_mcp_tools
from outlast.agents.callables import call
from outlast.agents.handoffs.handoff import Handoff
from outlast.agents.logs import get_logger
from outlast.agents.registry import handoffs_of, taken_by_handoff
from outlast.agents.tools.definition import FunctionTool
from outlast.agents.tools.hosted import HostedTool, function_tools, hosted_tools
from outlast.agents.tools.local import LocalTool
from outlast.contract import failures
from outlast.contract.policies import MODEL
from outlast.ports.model import ToolSpec
from outlast.ports.model_arguments import function_specs

logger = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTools:
    """The tools and handoffs that a model call offers, by name.

    `hosted` are the tools that the provider runs. A tool with its own Responses item type has the
    name that calls of that type have. `away` are the MCP servers that could not be listed.
    """

    tools: Mapping[str, FunctionTool]
    handoffs: Mapping[str, Handoff]
    hosted: Sequence[HostedTool] = ()
    unknown_is_fatal: bool = False
    away: Sequence[str] = ()

    def specs(self) -> list[ToolSpec]:
        """Return the specifications of the function tools."""
        return function_specs(self.tools.values(), self.handoffs.values())

    def entries(self) -> list[HostedTool]:
        """Return the tools with their own request entries, which are not functions."""
        return [
            *(tool for tool in self.tools.values() if isinstance(tool, LocalTool)),
            *self.hosted,
        ]

    def hosted_kinds(self) -> set[str]:
        """Return the provider's types of the tools that it runs."""
        return {str(one.to_tool_param().get("type")) for one in self.hosted}


async def offered_tools(invocation: Invocation, *, attempt: int = 1) -> OfferedTools:
    """Return the enabled tools and handoffs, tools of MCP servers first.

    A handoff hides a function tool with its name; a later entry hides an earlier one.

    Args:
        invocation: the agent and the context.
        attempt: the number of the model call's attempt.

    Raises:
        EffectError: a predicate or a server failed, or two entries have one name and the run
        forbids that, or one of them is no function.
    """
    agent = invocation.agent
    listed = await list_mcp_tools(invocation, attempt=attempt, attempts=MODEL.attempts)
    own, entries = await _enabled(invocation, function_tools(agent.tools), handoffs_of(agent))
    tools = {tool.called_name: tool for tool in own}
    tools = {tool.name: tool for tool in listed.tools if tool.name not in tools} | tools
    handoffs = {entry.tool_name: entry for entry in entries}
    for name in sorted({one.tool_name for one in entries if one is not handoffs[one.tool_name]}):
        _collided(invocation, f"Agent {agent.name!r} has two handoffs named {name!r}")
    if invocation.server_managed:
        _check_server_managed(invocation, handoffs.values())
    for name in sorted(tools.keys() & handoffs.keys()):
        if isinstance(tools[name], LocalTool):  # the handoff was added after the worker started
            message = taken_by_handoff(agent.name, name)
            raise EffectError(failures.USER_ERROR, message, retryable=False)
        _collided(
            invocation, f"Agent {agent.name!r}: the handoff {name!r} hides a tool of that name"
        )
    return OfferedTools(
        tools={name: tool for name, tool in tools.items() if name not in handoffs},
        handoffs=handoffs,
        hosted=hosted_tools(agent.tools),
        # The model may remember tools of servers that are unavailable.
        unknown_is_fatal=not listed.away
        and invocation.settings.get("tool_not_found_behavior") == "raise",
        away=listed.away,
    )


def _collided(invocation: Invocation, message: str) -> None:
    """Warn that two entries have one name.

    Raises:
        EffectError: the run forbids it.
    """
    if invocation.settings.get("tool_name_collision_policy") == "error":
        raise EffectError(failures.USER_ERROR, f"{message}. Rename one of them.", retryable=False)
    logger.warning("%s", message)


def _check_server_managed(invocation: Invocation, handoffs: Iterable[Handoff]) -> None:
    """Refuse features that need to take items back from the provider's server.

    Raises:
        EffectError: there are output guardrails, or a handoff has a filter.
    """
    if invocation.output_guardrails():
        message = (
            f"Agent {invocation.agent.name!r} has output guardrails, but the provider's server keeps "
            "the conversation, and an answer that they block would stay there. Leave them out, or "
            "run without conversation_id and previous_response_id."
        )
        raise EffectError(failures.USER_ERROR, message, retryable=False)
    of_run = "handoff_input_filter" in invocation.settings
    filtered = [one.tool_name for one in handoffs if one.input_filter is not None or of_run]
    if filtered:
        message = (
            f"Agent {invocation.agent.name!r}: the handoff {filtered[0]!r} has an input filter, but the "
            "provider's server keeps the conversation, and no filter can change it there. Leave "
            "the filter out, or run without conversation_id and previous_response_id."
        )
        raise EffectError(failures.USER_ERROR, message, retryable=False)


async def is_enabled(invocation: Invocation, name: str, entry: FunctionTool | Handoff) -> bool:
    """Return whether an entry is enabled now.

    Raises:
        EffectError: the predicate failed.
    """
    if isinstance(entry.is_enabled, bool):
        return entry.is_enabled
    try:
        return bool(await call(entry.is_enabled, invocation.wrapper, invocation.agent))
    except Exception as error:
        what = f"is_enabled of {name!r} of agent {invocation.agent.name!r}"
        raise of_user_code(what, error) from error


async def _enabled(
    invocation: Invocation, tools: Sequence[FunctionTool], handoffs: Sequence[Handoff]
) -> tuple[list[FunctionTool], list[Handoff]]:
    """Return the enabled entries; all predicates run in parallel."""
    conditional: list[FunctionTool | Handoff] = [
        one for one in [*tools, *handoffs] if not isinstance(one.is_enabled, bool)
    ]
    # Usually there is no predicate, and even an empty gather takes a turn of the event loop.
    checks = (is_enabled(invocation, _name_of(one), one) for one in conditional)
    answers = await asyncio.gather(*checks) if conditional else []
    yes = {id(one): answer for one, answer in zip(conditional, answers, strict=True)}
    return (
        [one for one in tools if yes.get(id(one), one.is_enabled)],
        [one for one in handoffs if yes.get(id(one), one.is_enabled)],
    )


def _name_of(entry: FunctionTool | Handoff) -> str:
    return entry.tool_name if isinstance(entry, Handoff) else entry.called_name
