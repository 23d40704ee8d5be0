"""Whether a call needs a person's approval, and under which terms.

Calls the predicate of the policy, and the tool's `on_approval`, which may decide instead of a
person. If a predicate fails, the call needs approval (fail closed).
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, cast

from outlast.activities.invocation import Invocation
from outlast.activities.worker_deps import WorkerDeps
from outlast.activities.worker_memory import JudgedCall
from outlast.agents.approvals.conditions import Condition
from outlast.agents.approvals.policy import ANSWER_DECISIONS, WITHOUT_ARGUMENTS, ApprovalPolicy
from outlast.agents.calendars import Calendar
from outlast.agents.callables import call
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.handoffs.handoff import Handoff
from outlast.agents.items.raw_items import HeldRaw
from outlast.agents.items.run_items import ToolApprovalItem
from outlast.agents.json_values import no_number
from outlast.agents.mcp.tools import MCPFunctionTool, source_of
from outlast.agents.registry import effect_of
from outlast.agents.tools.definition import FunctionTool, decisions_of
from outlast.agents.tools.hosted import HostedMCPTool, MCPToolApprovalRequest
from outlast.agents.tools.local import LocalTool
from outlast.contract.records import customer_of
from outlast.edges import clock
from outlast.edges.rendering import excerpt, json_text, named
from outlast.loop.approvals import REDACTED, ApprovalTerms, DecisionType
from outlast.loop.call_forms import arguments_of, name_of
from outlast.loop.calls import RequiredApproval
from outlast.loop.canonical import digest_of
from outlast.loop.hours import counted_terms
from outlast.loop.items import call_id_of
from outlast.loop.values import Json, JsonObject

NO_CUSTOMER = (
    "The run does not name its customer, so only members of the team who wrote a message of the "
    "question are excluded."
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A callback of the program refuses a call, and says perhaps why."""

    reason: str | None = None


Ruling: TypeAlias = RequiredApproval | Refusal | None
"""What a policy says of a call: people decide, the program refuses it, or it may run."""

Checker: TypeAlias = Callable[[RequiredApproval], Awaitable[str | None]]
"""Returns why the decisions about a call do not let it run under a policy, and None if they do."""

Subject = tuple[Any, str]
"""What a predicate judges, and why it cannot judge the call; empty if it can."""


def asks_nobody(tool: FunctionTool, invocation: Invocation) -> bool:
    """Whether no call of a tool needs approval, by its definition and without an operators' file."""
    return tool.needs_approval is False and invocation.worker.approvals is None


async def approval_rule_of(
    tool: FunctionTool,
    raw: JsonObject,
    invocation: Invocation,
    decided: Checker | None = None,
    altered: Callable[[], str] | None = None,
) -> Ruling:
    """Apply a tool's approval policy, and its `on_approval` if the call needs approval.

    The predicate of a tool with a remembered decision is not called.

    `decided` returns whether people have decided for the call already; None if they cannot have.
    `altered` returns the arguments that the tool's validators change; None where they must not run.
    """
    effect = effect_of(
        tool,
        lambda agent, one: invocation.approval_policy(
            "tool", one.called_name, one.needs_approval, agent, effect=one.effect
        ),
    )
    policy = invocation.approval_policy(
        "tool", tool.called_name, tool.needs_approval, effect=effect
    )
    if policy is None:
        return None
    this = _judged_call(invocation, tool, raw)
    is_free = decided is not None and invocation.worker.memory.judged.is_free(this)
    if is_free and (altered is None or not altered()):
        return None
    point = _Point(
        invocation,
        raw,
        subject=partial(_seen, tool, raw, invocation, altered),
        possible=decisions_of(tool.form),
        effect=effect,
        schema=tool.params_json_schema,
        title=tool.title or "",
        labels=tool.argument_titles or None,
    )
    rule = await _rule_of_tool(tool, point, policy, decided)
    if decided is None and rule is None:
        invocation.worker.memory.judged.keep(this)
    return rule


def _judged_call(invocation: Invocation, tool: FunctionTool, raw: JsonObject) -> JudgedCall:
    execution = invocation.worker.execution
    where = invocation.run_id if execution is None else execution.execution_id
    names = invocation.agent_name, f"{source_of(tool)}/{tool.called_name}"
    return (where, *names, call_id_of(raw), arguments_of(raw))


async def _rule_of_tool(
    tool: FunctionTool, point: "_Point", policy: ApprovalPolicy, decided: Checker | None
) -> Ruling:
    if tool.name in point.invocation.decided:
        return await point.gated(policy)
    rule = await point.rule(policy, decided)
    if rule is None or not isinstance(tool, LocalTool) or tool.on_approval is None:
        return rule
    item = ToolApprovalItem(agent=point.invocation.agent, raw_item=point.raw, tool_name=tool.name)
    return await _ask("on_approval", tool.on_approval, rule, point.invocation.wrapper, item)


async def hosted_approval_rule(
    tool: HostedMCPTool | None, raw: JsonObject, invocation: Invocation
) -> Ruling:
    """Apply a hosted MCP server's policy, and its `on_approval_request`, if it has one.

    Without one, a person decides.
    """
    setting = True if tool is None else tool.needs_approval
    policy = invocation.approval_policy("tool", name_of(raw), setting)
    if policy is None:
        return None
    point = _Point(invocation, raw, partial(_fields, {}, raw), WITHOUT_ARGUMENTS)
    if name_of(raw) in invocation.decided:
        return await point.gated(policy)
    rule = await point.rule(policy)
    if rule is None or tool is None or tool.on_approval_request is None:
        return rule
    request = MCPToolApprovalRequest(invocation.wrapper, HeldRaw(raw).shown())
    answer = await _ask("on_approval_request", tool.on_approval_request, rule, request)
    nothing = "on_approval_request returned no {'approve': True} or {'approve': False}"
    return _because(rule, f"{nothing}, so a person decides.") if answer is rule else answer


async def handoff_rule(
    entry: Handoff, raw: JsonObject, invocation: Invocation, decided: Checker | None = None
) -> RequiredApproval | None:
    """Apply the approval policy of a handoff; for `decided` see `approval_rule_of`."""
    policy = invocation.approval_policy("handoff", entry.tool_name, entry.needs_approval)
    if policy is None:
        return None
    schema = entry.input_json_schema
    subject = partial(_fields, schema, raw)
    point = _Point(invocation, raw, subject, entry.decisions, schema=schema)
    return await point.rule(policy, decided)


async def answer_rule(answer: Json, invocation: Invocation) -> RequiredApproval | None:
    """Apply the approval policy of the agent's answers."""
    agent = invocation.agent
    policy = invocation.approval_policy("answer", "", agent.output_approval)
    if policy is None:
        return None
    subject = cast("JsonObject", answer) if isinstance(answer, dict) else {"answer": answer}
    # A person's own answer is a text, which only fits an agent without an output type.
    is_text = agent.output_type is None or agent.output_type is str
    possible = ANSWER_DECISIONS if is_text else WITHOUT_ARGUMENTS
    return await _Point(invocation, {}, lambda _: (subject, ""), possible).rule(policy)


@dataclass(frozen=True, slots=True)
class _Point:
    """What a policy is applied to: a call, a handoff or an answer.

    Attributes:
        invocation: the invocation that it belongs to.
        raw: the call; empty for an answer.
        subject: returns what a policy's predicate judges.
        possible: how a person can decide about it.
        effect: the tool's effect.
        schema: JSON Schema of the arguments, if it has some.
        title: what people call the tool; empty for its name.
        labels: what people call its arguments, by their names.
    """

    invocation: Invocation
    raw: JsonObject
    subject: Callable[[ApprovalPolicy], Subject]
    possible: Sequence[DecisionType]
    effect: str | None = None
    schema: JsonObject | None = None
    title: str = ""
    labels: JsonObject | None = None

    async def rule(
        self, policy: ApprovalPolicy, decided: Checker | None = None
    ) -> RequiredApproval | None:
        """Return what the first tier that applies asks for, or the policy itself."""
        if decided is not None and not policy.tiers:
            rule = await self.gated(policy)
            if await decided(rule) is None:
                return None  # the predicate need not be called again
        for one in (*policy.tiers, policy):
            needed, problem = await self._judge(one)
            if needed:
                rule = _because(await self.gated(one), problem)
                missing = "" if decided is None else await decided(rule)
                return None if missing is None else _because(rule, missing)
        return None

    async def gated(self, policy: ApprovalPolicy) -> RequiredApproval:
        """Return under which terms people decide, and why."""
        terms, bound = (
            policy.terms(self.effect, possible=self.possible, title=self.title, labels=self.labels),
            "",
        )
        if policy.binds is not None:
            values, bound = await _bound(policy.binds, policy.redact, self.invocation.wrapper)
            terms = replace(terms, bound=digest_of(values))
        if terms.hours is not None:
            terms = counted_now(policy, terms, self.invocation.worker)
        customer = customer_of(self.invocation.settings)
        is_unnamed = terms.audience.exclude_requester and not customer.id
        rule = RequiredApproval(
            reason=policy.reason,
            terms=terms,
            schema=self.schema if "edit" in terms.allow else None,
        )
        return _because(_because(rule, bound), NO_CUSTOMER if is_unnamed else "")

    async def _judge(self, policy: ApprovalPolicy) -> tuple[bool, str]:
        if policy.when is None:
            return True, ""
        try:
            subject, problem = self.subject(policy)
            if problem:
                return True, f"{problem}, so a person decides."
            wrapper, call_id = self.invocation.wrapper, call_id_of(self.raw)
            return bool(await call(policy.when, wrapper, subject, call_id)), ""
        except Exception as error:  # noqa: BLE001  user code
            kind = type(error).__name__
            return True, f"The approval rule failed ({kind}), so a person decides."


def counted_now(policy: ApprovalPolicy, terms: ApprovalTerms, worker: WorkerDeps) -> ApprovalTerms:
    """Return terms with their times from now on, as the calendar of the policy has its hours.

    Terms that this worker cannot count stay as they are: the run then asks for their times.
    """
    hours, now_ms = terms.hours, clock.now_ms()
    assert hours is not None  # noqa: S101  the caller checks it
    from outlast.agents.approvals.hours import clock_durations

    own = {hours.within: policy.within} if isinstance(policy.within, Calendar) else {}
    try:
        calendar = worker.calendar(hours.within, own)
        durations = clock_durations(calendar, hours.open, now_ms, now_ms)
    except UserError:
        return terms
    return counted_terms(terms, durations, now_ms)


async def _bound(
    binds: Callable[..., Any], redact: Sequence[str], wrapper: RunContextWrapper[Any]
) -> tuple[JsonObject | None, str]:
    """Return the values of the context that a decision is for, and as people read them.

    None if they cannot be read, which people are told: then they decide without.
    """
    try:
        given: object = await call(binds, wrapper)
        values: JsonObject = json.loads(json.dumps(given, allow_nan=False))
        shown = {name: REDACTED if name in redact else value for name, value in values.items()}
    except Exception as error:  # noqa: BLE001  user code
        kind = type(error).__name__
        return None, f"What the decision is for could not be read from the context ({kind})."
    words = (f"{named(name)} {excerpt(json_text(value))}" for name, value in shown.items())
    return values, f"The decision is for {', '.join(words)}." if shown else ""


def _because(rule: RequiredApproval, problem: str) -> RequiredApproval:
    sentences = [one for one in (rule.reason, problem) if one]
    return replace(rule, reason=" ".join(sentences) or None)


async def _ask(
    name: str, callback: Callable[..., Any], rule: RequiredApproval, *arguments: object
) -> Ruling:
    """Ask a callback of the program; the same rule if it leaves the decision to a person."""
    try:
        verdict: object = await call(callback, *arguments)
    except Exception as error:  # noqa: BLE001  user code
        return _because(rule, f"{name} failed ({type(error).__name__}), so a person decides.")
    decided: Mapping[str, Any] = {}
    if isinstance(verdict, Mapping):
        decided = cast("Mapping[str, Any]", verdict)
    if decided.get("approve") is True:
        return None
    if decided.get("approve") is False:
        reason = decided.get("reason")
        return Refusal(str(reason) if reason else None)
    return rule


def _seen(
    tool: FunctionTool,
    raw: JsonObject,
    invocation: Invocation,
    altered: Callable[[], str] | None,
    policy: ApprovalPolicy,
) -> Subject:
    arguments = arguments_of(raw)
    if isinstance(tool, LocalTool):
        return tool.approval_subject(invocation.wrapper, arguments), ""
    # A server's tool has no function here that would add defaults.
    schema = {} if isinstance(tool, MCPFunctionTool) else tool.params_json_schema
    fields, problem = _fields(schema, raw, policy, tool.defaults)
    names = ""
    if not problem and altered is not None:
        names = altered()
    elif not problem and tool.altered is not None:
        names = tool.altered(arguments)
    differing = ", ".join(one for one in names.split(", ") if one and _reads(policy, one))
    if differing:  # the rule and the function would differ
        problem = f"The function parses {differing} differently"
    return fields, problem


def _reads(policy: ApprovalPolicy, name: str) -> bool:
    return not isinstance(policy.when, Condition) or name in policy.when.names


def _fields(
    schema: JsonObject,
    raw: JsonObject,
    policy: ApprovalPolicy,
    defaults: Mapping[str, Any] | None = None,
) -> Subject:
    """Return a call's arguments with the defaults, and a problem if it leaves others out."""
    given: Json = json.loads(arguments_of(raw) or "{}", parse_constant=no_number)
    properties = cast("JsonObject", schema.get("properties", {}))
    fields = {**(defaults or {}), **cast("JsonObject", given)}
    missing = sorted(properties.keys() - fields.keys())
    left_out = ", ".join(name for name in missing if _reads(policy, name))
    return fields, f"The call leaves {left_out} out" if left_out else ""
