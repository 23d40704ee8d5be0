"""User code that contributes to the plan of a call."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from outlast.activities.errors import failure_of
from outlast.activities.guardrails.tool_checks import ToolCheck, check_call
from outlast.activities.invocation import Invocation
from outlast.agents.agent_tools.agent_tool import AgentTool
from outlast.agents.callables import call
from outlast.agents.config.run_config import ToolErrorFormatterArgs, ToolType
from outlast.agents.config.settings import read_tool_execution
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.tools.definition import FunctionTool
from outlast.contract.names import SETTING_SESSION
from outlast.contract.records import NOT_INHERITED
from outlast.loop import phrases
from outlast.loop.call_forms import arguments_of, form_of, name_of
from outlast.loop.calls import NestedPlan
from outlast.loop.effects import RunTool
from outlast.loop.items import call_id_of
from outlast.loop.values import JsonObject, ServerThread

FORMATTER = "tool_error_formatter"

_TOOL_TYPES: dict[str, ToolType] = {
    "custom_tool_call": "custom",
    "shell_call": "shell",
    "local_shell_call": "shell",
    "apply_patch_call": "apply_patch",
    "computer_call": "computer",
}


async def not_offered(
    invocation: Invocation, raw: JsonObject, offered: list[str], away: Sequence[str] = ()
) -> str:
    """Return the output of a call of a tool that was not offered."""
    available = ", ".join(offered) or "none"
    default = f"There is no tool {name_of(raw)!r}. Available: {available}."
    if away:
        default = f"{default} {servers_away(away)}"
    about = _About(name_of(raw), call_id_of(raw), form_of(raw))
    return await _format(invocation, "tool_not_found", about, default) or default


def servers_away(names: Sequence[str]) -> str:
    """Return the text about unavailable MCP servers for the model."""
    servers = " and ".join(repr(name) for name in names)
    return f"The tools of {servers} are not available at the moment."


async def rejection_text(invocation: Invocation, raw: JsonObject) -> str | None:
    """Return the output of a call rejected without a message; None for the default.

    Made when the call is planned, because no user code runs when a person decides.
    """
    about = _About(name_of(raw), call_id_of(raw), form_of(raw))
    return await _format(invocation, "approval_rejected", about, phrases.REJECTED)


async def checked_before_approval(
    invocation: Invocation, tool: FunctionTool, raw: JsonObject
) -> ToolCheck:
    """Run a tool's input guardrails before approval, if the run wants that.

    A person decides only if the guardrails neither reject nor fail the call. Guardrails of an agent
    used as a tool always run here: its call is a nested run, which starts after approval.
    """
    early = read_tool_execution(invocation.settings).pre_approval_tool_input_guardrails
    if not (early or isinstance(tool, AgentTool)) or not tool.tool_input_guardrails:
        return ToolCheck()
    context = tool_context(
        invocation,
        tool,
        raw,
        name=name_of(raw),
        call_id=call_id_of(raw),
        arguments=arguments_of(raw),
    )
    try:
        checked = await check_call(tool, context)
    except Exception as error:  # noqa: BLE001  the model call is paid for
        return ToolCheck(failure=failure_of(f"A guardrail of the tool {tool.name!r}", error))
    invocation.wrapper.context = context.context
    return checked


def nested_plan(invocation: Invocation, tool: AgentTool) -> NestedPlan:
    """Return how to run the agent of a tool.

    Raises:
        UserError: the tool's `run_config` cannot be written as JSON.
    """
    thread_start = tool.conversation_id or tool.previous_response_id
    return NestedPlan(
        max_turns=tool.max_turns,
        settings=_nested_settings(invocation, tool),
        session=tool.session is not None,
        thread=ServerThread(
            conversation_id=tool.conversation_id,
            previous_response_id=tool.previous_response_id,
            chained=tool.previous_response_id is not None,
        )
        if thread_start
        else None,
    )


def _nested_settings(invocation: Invocation, tool: AgentTool) -> JsonObject | None:
    own: JsonObject = {} if tool.session is None else {SETTING_SESSION: {}}
    settings = invocation.worker.registry.nested_settings(invocation.agent_name, tool)
    if settings is not None:
        return settings | own
    if not own:
        return None
    return {
        key: value for key, value in invocation.settings.items() if key not in NOT_INHERITED
    } | own


def tool_context(
    invocation: Invocation,
    tool: FunctionTool,
    raw: JsonObject,
    *,
    name: str,
    call_id: str,
    arguments: str,
) -> ToolContext[Any]:
    """Return the context of a call, at its first attempt.

    `name`, `call_id` and `arguments` are what `raw`, the call's item, has of them.
    """
    return ToolContext(
        context=invocation.wrapper.context,
        usage=invocation.usage,
        run_id=invocation.run_id,
        run_key=invocation.run_key,
        turn=invocation.turn,
        tool_input=invocation.wrapper.tool_input,
        tool_name=name,
        tool_namespace=tool.namespace and tool.namespace.name,
        tool_call_id=call_id,
        tool_arguments=arguments,
        agent=invocation.agent,
        idempotency_key=f"{invocation.run_key}:{call_id}",
        tool_call=dict(raw),
    )


async def formatted_failure(
    invocation: Invocation, called: RunTool, default: str, error: Exception
) -> str:
    """Return the output of a failed tool, from the run's formatter."""
    about = _About(called.name, called.call_id, called.form)
    text = await _format(invocation, "tool_exception", about, default, error)
    return default if text is None else text


@dataclass(frozen=True, slots=True)
class _About:
    name: str
    call_id: str
    form: str


async def _format(
    invocation: Invocation,
    kind: Literal["approval_rejected", "tool_not_found", "tool_exception"],
    about: _About,
    default: str,
    error: Exception | None = None,
) -> str | None:
    try:
        formatter = invocation.reference(FORMATTER)
        if formatter is None:
            return None
        args = ToolErrorFormatterArgs[Any](
            kind=kind,
            tool_type=_TOOL_TYPES.get(about.form, "function"),
            tool_name=about.name,
            call_id=about.call_id,
            default_message=default,
            run_context=invocation.wrapper,
            error=error,
        )
        text: object = await call(formatter, args)
    except Exception:  # noqa: BLE001  a failing formatter leaves the default
        return None
    return text if isinstance(text, str) else None
