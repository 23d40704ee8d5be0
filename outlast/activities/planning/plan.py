"""The plan for each call in a model's reply, made once and recorded.

User code that affects the plan runs here and never again. Its failure is part of the plan, because
the model call has been paid for.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, Literal, cast

from outlast.activities.approvals.gate import handoff_digest, tool_digest, with_defaults
from outlast.activities.approvals.rule import (
    Refusal,
    answer_rule,
    approval_rule_of,
    handoff_rule,
    hosted_approval_rule,
)
from outlast.activities.errors import EffectError, failure_of
from outlast.activities.guardrails.tool_checks import ToolCheck
from outlast.activities.invocation import Invocation
from outlast.activities.model.choice import model_label
from outlast.activities.planning.offered_tools import OfferedTools, is_enabled
from outlast.activities.planning.plan_callbacks import (
    FORMATTER,
    checked_before_approval,
    nested_plan,
    not_offered,
    rejection_text,
)
from outlast.activities.planning.reply_calls import (
    ReplyItem,
    nonsense,
    program_problem,
    reply_items,
    unknown_call,
    without_repeats,
)
from outlast.agents.agent import Agent
from outlast.agents.agent_tools.agent_tool import AgentTool
from outlast.agents.errors import ModelBehaviorError
from outlast.agents.handoffs.handoff import Handoff
from outlast.agents.hooks import overrides
from outlast.agents.items.repair import is_empty_message
from outlast.agents.logs import get_logger
from outlast.agents.mcp.tools import source_of
from outlast.agents.registry import target_of
from outlast.agents.schemas.agent_output import output_schema_of, write_output
from outlast.agents.tools.definition import FunctionTool, default_tool_error
from outlast.agents.tools.hosted import HostedMCPTool
from outlast.agents.tools.local import LocalTool
from outlast.agents.tools.use_behavior import final_call
from outlast.contract import failures
from outlast.loop.call_forms import FUNCTION, MCP_APPROVAL, arguments_of
from outlast.loop.calls import ExecutionOptions, FinalKind, PlannedCall, RequiredApproval
from outlast.loop.checks import GuardrailRecord
from outlast.loop.items import Item, program_of, refusal_of, text_of
from outlast.loop.phrases import REJECTED
from outlast.loop.values import Failure, Json, JsonObject

logger: Final = get_logger(__name__)

LONGEST_FAST = timedelta(seconds=5)  # half of what the server gives a workflow task

LARGEST_REPLY_BYTES = 1_000_000
"""The size of a reply as JSON: far beyond any model's, and below the limit of a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan for a reply.

    Attributes:
        items: what is recorded of the reply.
        final: the meaning of a reply without calls.
        value: the answer, if `final` is `value`.
        failure: why the run cannot go on.
        ends_with: the call whose output is the answer, or that a rule of the agent decides.
        reuses_call_id: the failure is an invalid call id.
        checks: results of tool guardrails that ran before approval.
        approval: what a person's decision about the answer needs; None if nobody decides.
    """

    items: tuple[JsonObject, ...]
    calls: tuple[PlannedCall, ...] = ()
    final: FinalKind = "text"
    value: Json = None
    failure: Failure | None = None
    ends_with: int | Literal["judged"] | None = None
    reuses_call_id: bool = False
    checks: tuple[GuardrailRecord, ...] = ()
    approval: RequiredApproval | None = None


async def plan_reply(
    output: Sequence[JsonObject],
    offer: OfferedTools,
    history: Sequence[Item],
    invocation: Invocation,
) -> Plan:
    """Plan a reply; empty messages are not recorded."""
    problem = _recording_problem(output)
    if problem is not None:
        return Plan(items=(), failure=nonsense(problem))
    replied = reply_items([raw for raw in output if not is_empty_message(raw)], offer)
    renames = not (invocation.server_managed or invocation.is_live)
    kept, reused = without_repeats(replied, history, renames=renames)
    failure = reused or unknown_call(kept, offer) or program_problem(kept, history, offer)
    failure = failure or await _disabled_meanwhile(kept, invocation)
    rest = tuple([one.raw for one in kept if not one.is_planned])
    if failure is not None:
        return Plan(items=rest, failure=failure, reuses_call_id=reused is not None)
    ends_with = _ends_with(kept, invocation.agent)
    calls = [
        await _plan_call(index, one, offer, invocation, final=ends_with == index)
        for index, one in enumerate(kept)
        if one.is_planned
    ]
    checks = tuple([check for call in calls for check in call.checks])
    refused = next((call.failure for call in calls if call.failure is not None), None)
    if refused is not None:
        return Plan(items=rest, failure=refused, checks=checks)
    items = tuple([one.raw for one in kept])
    if calls:
        plans = tuple([_of_program(call.plan, kept[call.plan.item]) for call in calls])
        return Plan(items=items, calls=plans, ends_with=ends_with, checks=checks)
    if len(rest) < len(replied):  # only repeated calls: their outputs stand
        return Plan(items=items, final="again")
    is_said = any(raw.get("type") == "message" for raw in items)
    final, value, invalid = _final(items if is_said else output, invocation)
    approval = None
    if invalid is None and final != "again":
        approval = await _answer_approval(items, final, value, invocation)
    return Plan(items=items, final=final, value=value, failure=invalid, approval=approval)


@dataclass(frozen=True, slots=True)
class _Planned:
    plan: PlannedCall
    failure: Failure | None = None
    checks: tuple[GuardrailRecord, ...] = ()


async def _plan_call(
    index: int, one: ReplyItem, offer: OfferedTools, invocation: Invocation, *, final: bool
) -> _Planned:
    raw, tool = one.raw, one.tool
    if one.handoff is not None:
        return _Planned(await _plan_handoff(index, raw, one.handoff, invocation))
    if one.form == MCP_APPROVAL:
        return _Planned(await _plan_hosted_approval(index, raw, offer, invocation))
    if tool is None:
        problem = await not_offered(invocation, raw, [*offer.tools, *offer.handoffs], offer.away)
        return _Planned(PlannedCall(item=index, kind="unknown", problem=problem))
    written = arguments_of(raw)
    problem = _cut_short(raw) or _argument_problem(tool, written, invocation)
    rule, rejection, checked = None, None, ToolCheck()
    if problem is None:
        rule = await approval_rule_of(tool, raw, invocation)
    if isinstance(rule, Refusal):
        problem, rule = rule.reason or await rejection_text(invocation, raw) or REJECTED, None
    if rule is not None:
        rejection = await rejection_text(invocation, raw)
    is_asked = rule is not None and tool.name not in invocation.decided
    if problem is None and (isinstance(tool, AgentTool) or is_asked):
        checked = await checked_before_approval(invocation, tool, raw)
        problem = checked.message
    if problem is not None:
        rule = None
    elif rule is not None:
        filled = written
        if not isinstance(tool, LocalTool):
            filled = with_defaults(tool.params_json_schema, written)
        rule = replace(
            rule,
            source=source_of(tool),
            tool_digest=tool_digest(invocation.agent_name, tool),
            arguments="" if filled == written else filled,
        )
    plan = PlannedCall(
        item=index,
        kind="tool",
        problem=problem,
        source=source_of(tool),
        approval=rule,
        rejection=rejection,
        fatal=tool.failure_error_function is None,
        final=final,
        policy=policy_of_tool(
            tool,
            is_short=invocation.worker.memory.tool_times.is_short(tool.name),
            waits=rule is not None,
        ),
    )
    planned = _Planned(plan, checked.failure, checked.records)
    return _as_agent(planned, tool, invocation) if isinstance(tool, AgentTool) else planned


def _of_program(plan: PlannedCall, one: ReplyItem) -> PlannedCall:
    if not (program := program_of(one.raw)):
        return plan
    gives_object = one.tool is not None and one.tool.output_json_schema is not None
    return replace(plan, program=program, gives_object=gives_object)


async def _plan_hosted_approval(
    index: int, raw: JsonObject, offer: OfferedTools, invocation: Invocation
) -> PlannedCall:
    label = str(raw.get("server_label"))
    servers = (one for one in offer.hosted if isinstance(one, HostedMCPTool))
    server = next((one for one in servers if one.server_label == label), None)
    rule = await hosted_approval_rule(server, raw, invocation)
    is_refused = isinstance(rule, Refusal)
    needs_text = rule is not None and not (is_refused and rule.reason)
    rejection = await rejection_text(invocation, raw) if needs_text else None
    return PlannedCall(
        item=index,
        kind="tool",
        problem=(rule.reason or rejection or REJECTED) if is_refused else None,
        approval=None if is_refused else rule,
        rejection=rejection,
    )


def _as_agent(planned: _Planned, tool: AgentTool, invocation: Invocation) -> _Planned:
    nested, failure = None, planned.failure
    if planned.plan.problem is None:
        try:
            nested = nested_plan(invocation, tool)
        except Exception as error:  # noqa: BLE001  the model call is paid for
            failure = failure or failure_of(f"The run_config of the tool {tool.name!r}", error)
    plan = replace(
        planned.plan,
        kind="agent",
        target=invocation.worker.registry.name_of(tool.agent),
        nested=nested,
    )
    return replace(planned, plan=plan, failure=failure)


async def _plan_handoff(
    index: int, raw: JsonObject, entry: Handoff, invocation: Invocation
) -> PlannedCall:
    """Plan a handoff; it needs an activity if it has user code to run."""
    filters = (
        _changes_view(entry, invocation) or invocation.is_streamed
    )  # `on_stream` gets its events from the transcript
    hooked = overrides(invocation.run_hooks, "on_handoff") or overrides(
        invocation.agent.hooks, "on_handoff"
    )
    target = None if entry.picks_agent else target_of(entry)
    rule = await handoff_rule(entry, raw, invocation)
    registry = invocation.worker.registry
    target_name = registry.target_name(entry)
    variant = registry.handoff_variant(invocation.agent, entry)
    if rule is not None:
        own_digest = handoff_digest(invocation.agent_name, entry, target_name, variant)
        rule = replace(rule, tool_digest=own_digest)
    return PlannedCall(
        item=index,
        kind="handoff",
        approval=rule,
        rejection=None if rule is None else await rejection_text(invocation, raw),
        target=target_name,
        variant=variant,
        target_own_name="" if entry.agent_name == target_name else entry.agent_name,
        target_model=model_label(target.model) if target is not None else "",
        target_steps=invocation.required_steps(target) if target is not None else (),
        # A guarded handoff is judged again where it happens.
        callback=entry.needs_activity or filters or hooked or rule is not None,
        filters=filters,
    )


def _changes_view(entry: Handoff, invocation: Invocation) -> bool:
    if entry.input_filter is not None or "handoff_input_filter" in invocation.settings:
        return True
    nests = entry.nest_handoff_history
    if nests is None:
        nests = invocation.settings.get("nest_handoff_history") is True
    if nests and invocation.server_managed:
        logger.warning(
            "handoff %r: server-managed conversations do not support nest_handoff_history",
            entry.tool_name,
        )
    return nests and not invocation.server_managed


def _ends_with(items: Sequence[ReplyItem], agent: Agent[Any]) -> int | Literal["judged"] | None:
    """Return the call that gives the answer; None if the reply also hands over.

    Only a function's result can be the answer.
    """
    if any(one.handoff is not None for one in items):
        return None
    places = [at for at, one in enumerate(items) if one.form == FUNCTION and one.tool is not None]
    found = final_call(agent.tool_use_behavior, [items[at].name for at in places])
    return places[found] if isinstance(found, int) else found


async def _disabled_meanwhile(items: Sequence[ReplyItem], invocation: Invocation) -> Failure | None:
    for one in items:
        tool = one.tool
        if not one.is_planned or tool is None or isinstance(tool.is_enabled, bool):
            continue
        try:
            if not await is_enabled(invocation, tool.name, tool):
                return nonsense(
                    f"The model called the tool {tool.name!r}, which is no longer enabled."
                )
        except EffectError as error:
            return Failure(code=error.code, message=error.message, details=error.details)
    return None


def policy_of_tool(
    tool: FunctionTool, *, is_short: bool = False, waits: bool = False
) -> ExecutionOptions:
    """Return the time-out and retries of a tool's calls.

    A fast tool blocks the run's workflow task, so its time-out is a few seconds at most. A call
    that `waits` for a person is always an activity: a fast one would delay the decision's receipt.
    """
    is_fast = tool.fast is True and not waits
    timeout = min(tool.timeout, LONGEST_FAST) if is_fast else tool.timeout
    defers = tool.fast is None and tool.effect == "read" and is_short
    return ExecutionOptions(
        timeout_ms=int(timeout.total_seconds() * 1000),
        attempts=tool.retry.attempts,
        initial_interval_ms=int(tool.retry.initial_interval.total_seconds() * 1000),
        backoff=tool.retry.backoff,
        maximum_interval_ms=int(tool.retry.maximum_interval.total_seconds() * 1000),
        fast=is_fast or defers,
        defers=defers,
    )


def _recording_problem(output: object) -> str | None:
    entries = cast("list[object]", output) if isinstance(output, list | tuple) else [None]
    if not all(isinstance(entry, dict) for entry in entries):
        return f"The model's reply is not a list of items: {output!r:.80}."
    try:
        size = len(json.dumps(output))
    except (TypeError, ValueError, RecursionError) as error:
        return f"The model's reply cannot be written as JSON: {error}."
    if size > LARGEST_REPLY_BYTES:
        return f"The model's reply has {size:,} bytes; the limit is {LARGEST_REPLY_BYTES:,}."
    return None


def _cut_short(raw: JsonObject) -> str | None:
    """Return what the model reads of a call that a limit cut off, whose arguments may be half."""
    if raw.get("status") != "incomplete" or not raw.get("name"):
        return None
    return (
        f"The call of {raw['name']} was cut off before its end, and did not run. Make it again,"
        " with shorter arguments."
    )


def _argument_problem(tool: FunctionTool, arguments: str, invocation: Invocation) -> str | None:
    """Return the problem of a call's arguments, worded for the model.

    If hooks or guardrails observe the call, or the tool or run has its own error messages, the call
    runs and reports the problem then.
    """
    is_hooked = invocation.hooked("on_tool_start") or invocation.hooked("on_tool_end")
    is_agent = isinstance(tool, AgentTool)
    has_own_text = (
        tool.failure_error_function is not default_tool_error or FORMATTER in invocation.settings
    )
    if not is_agent and (is_hooked or tool.tool_input_guardrails or has_own_text):
        return None
    try:
        if tool.validate is not None:
            return tool.validate(arguments)
        fits = isinstance(json.loads(arguments or "{}"), dict)
    except Exception as error:  # noqa: BLE001  a user's check must not repeat a paid model call
        logger.warning("the arguments of %s could not be checked: %r", tool.name, error)
        fits = False
    return None if fits else f"Invalid JSON input for tool {tool.name}: expected a JSON object."


def _empty_answer(invocation: Invocation) -> Failure | None:
    """Return a failure for the run's error handler; without one, the model is called again."""
    if invocation.error_handler("invalid_final_output") is None:
        return None
    message = f"The answer of agent {invocation.agent.name!r} is empty."
    return Failure(code=failures.INVALID_OUTPUT, message=message, details=failures.EMPTY_ANSWER)


async def _answer_approval(
    items: Sequence[JsonObject], final: FinalKind, value: Json, invocation: Invocation
) -> RequiredApproval | None:
    """Return the approval that an answer needs; a refusal of the model is no answer."""
    messages = [raw for raw in items if raw.get("type") == "message"]
    if messages and refusal_of(messages[-1]) is not None:
        return None
    text = text_of(messages[-1]) if messages else ""
    return await answer_rule(value if final == "value" else text, invocation)


def _final(
    items: Sequence[JsonObject], invocation: Invocation
) -> tuple[FinalKind, Json, Failure | None]:
    """Return the kind and value of a reply without calls.

    A reply that only holds the provider's own tool calls is no answer yet; neither is an empty
    message of an agent with an output type, unless the run's error handler makes it one.
    """
    types = {raw.get("type") for raw in items}
    if types - {"message", "reasoning"} and "message" not in types:
        return "again", None, None
    agent = invocation.agent
    schema = output_schema_of(agent.output_type)
    messages = [raw for raw in items if raw.get("type") == "message"]
    last: JsonObject = messages[-1] if messages else {}
    if schema is None or refusal_of(last) is not None:
        return "text", None, None
    text = text_of(last)
    if not text:
        return "again", None, _empty_answer(invocation)
    try:
        return "value", write_output(schema, schema.validate_json(text)), None
    except ModelBehaviorError as error:
        return "text", None, Failure(code=failures.INVALID_OUTPUT, message=str(error))
    except Exception as error:  # noqa: BLE001  a user's schema; the model call is paid for
        message = f"The answer of agent {agent.name!r} could not be read: {error}"
        return "text", None, Failure(code=failures.INVALID_OUTPUT, message=message)
