"""The calls in a model's reply: what was planned for each, and how far each has come.

Owns: the plan that the model activity makes (`PlannedCall`, `Policy`), what comes back from
effects (`ModelReply`, `ToolResult`, `PreparedRun` …), and a call's progress (`Call`). Must not know: when what happens;
that is `machine.py`.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from outlast.loop.call_forms import FUNCTION, is_call
from outlast.loop.changes import Change
from outlast.loop.checks import GuardrailRecord, RequiredStep
from outlast.loop.values import NO_USAGE, Failure, Json, JsonObject, ServerThread, Usage
from outlast.loop.view import ViewEdit

CallKind: TypeAlias = Literal["tool", "agent", "handoff", "unknown"]
CallStatus: TypeAlias = Literal["planned", "waiting", "running", "held", "settled", "recorded"]
FinalKind: TypeAlias = Literal["text", "value", "again"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How an effect is run: bounds, retries, and where.

    The defaults are those of a tool, so that a plan only writes down what differs.

    Attributes:
        timeout_ms: how long one attempt may take.
        attempts: how many tries in all.
        initial_interval_ms: the wait before the second try.
        backoff: each further wait is this many times the one before.
        maximum_interval_ms: no wait is longer than this.
        fast: run as a local activity.
        queue: the task queue to use instead of the run's own.
    """

    timeout_ms: int = 120_000
    attempts: int = 3
    initial_interval_ms: int = 1_000
    backoff: float = 2.0
    maximum_interval_ms: int = 30_000
    fast: bool = False
    queue: str | None = None


DEFAULT_POLICY = Policy()


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedPlan:
    """How an agent that works as a tool is run.

    Attributes:
        max_turns: how many model calls it may make.
        settings: the settings of its run; None for those of the run that asks.
        session: its run has a session; the settings say which.
        thread: how the provider's server keeps its conversation.
    """

    max_turns: int | None = None
    settings: JsonObject | None = None
    session: bool = False
    thread: ServerThread | None = None


DEFAULT_NESTED = NestedPlan()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCall:
    """What one call in a reply is, decided once by the model activity and recorded.

    Attributes:
        item: which of the reply's items it is.
        kind: a tool, an agent that works as a tool, a handoff, or a name that nobody offers.
        problem: why it cannot run, in words for the model; it is then the call's output.
        needs_approval: a person decides before it runs.
        reason: why a person decides.
        fatal: a failure ends the run instead of being told to the model.
        target: the agent that a handoff leads to, or that works as the tool.
        target_model: the model of that agent, for people to read.
        target_duties: what has to be done for that agent.
        callback: the handoff has something to run: a callback, a filter, a hook.
        filters: it changes what the next agent sees, so it needs the transcript.
        final: the call's output ends the run.
        rejection: what the model reads when a person rejects the call without a word.
        nested: how an agent that works as a tool is run.
        policy: how it is run.
        rivals: the agents of the reply's other handoffs, for the trace.
    """

    item: int
    kind: CallKind
    problem: str | None = None
    needs_approval: bool = False
    reason: str | None = None
    fatal: bool = False
    target: str = ""
    target_model: str = ""
    target_duties: tuple[RequiredStep, ...] = ()
    callback: bool = False
    filters: bool = False
    final: bool = False
    rejection: str | None = None
    nested: NestedPlan | None = None
    policy: Policy = DEFAULT_POLICY
    rivals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """What the model activity returns: the reply, and the plan for it.

    Attributes:
        items: the provider's output items, as they came.
        usage: what the call cost.
        calls: the plan; it points into `items` and repeats none of their text.
        final: what a reply without calls means: its text is the answer, `value` is the answer,
            or the model is asked again.
        value: the answer where `final` is `value`.
        failure: why the run cannot go on although the model was paid.
        changes: what callables changed in the context on the way.
        model: the model's name, for people to read.
        response_id: the provider's id of the response.
        request_id: the provider's id of the request.
        required_steps: what has to be done for the agent, as it is defined now.
        judged: a rule of the agent decides whether the tools' outputs are the answer.
        parallel: how many tool calls may run at once; None for no bound.
        raw_usage: the usage in the provider's words, where that was asked for.
        checks: what tools' guardrails said before people are asked.
        unchecked: the model was not called, because the agent has input guardrails that were not
            run for the question; `required_steps` says which.
        stores: the worker can store content outside of the run, and the run holds much of it.
    """

    items: tuple[JsonObject, ...]
    usage: Usage = NO_USAGE
    calls: tuple[PlannedCall, ...] = ()
    final: FinalKind = "text"
    value: Json = None
    failure: Failure | None = None
    changes: tuple[Change, ...] = ()
    model: str = ""
    response_id: str | None = None
    request_id: str | None = None
    required_steps: tuple[RequiredStep, ...] = ()
    judged: bool = False
    parallel: int | None = None
    raw_usage: JsonObject | None = None
    checks: tuple[GuardrailRecord, ...] = ()
    unchecked: bool = False
    stores: bool = False

    def __post_init__(self) -> None:
        """Refuse a plan that does not fit the reply, so that no call can go unanswered.

        Raises:
            ValueError: a plan points nowhere, or twice to one item, or a call has no plan.
        """
        planned = sorted(plan.item for plan in self.calls)
        calls = {at for at, raw in enumerate(self.items) if is_call(raw)}
        ours = {at for at in calls if self.items[at]["type"] == FUNCTION}
        if len(planned) != len(set(planned)) or not ours <= set(planned) <= calls:
            raise ValueError("the plan does not have exactly one entry for each call of the reply")
        for plan in self.calls:
            if plan.kind == "unknown" and plan.problem is None:
                raise ValueError("a call that nobody offers needs a problem to tell the model")
            if plan.kind not in {"tool", "agent"} and plan.needs_approval:
                raise ValueError("only tools can wait for an approval")
        if self.parallel is not None and self.parallel < 1:
            raise ValueError("at least one call has to run at a time")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a tool call came to: the output for the model, and the context changes.

    Attributes:
        output: what the model reads.
        changes: what the call changed in the context.
        failed: marks an output that describes a failure, for people to see.
        value: the result as the answer of the run, where that was asked for.
        checks: what the tool's guardrails said.
        failure: why the run cannot go on, whatever the tool's own rule for failures is.
    """

    output: Json
    changes: tuple[Change, ...] = ()
    failed: bool = False
    value: Json = None
    checks: tuple[GuardrailRecord, ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffResult:
    """What a handoff came to.

    Attributes:
        changes: what its callback changed in the context.
        target: the agent that takes over, where the handoff chose it when it was called.
        target_model: that agent's model.
        required_steps: what has to be done for that agent.
        edit: what the next agent sees, where a filter changed it.
    """

    changes: tuple[Change, ...] = ()
    target: str | None = None
    target_model: str = ""
    required_steps: tuple[RequiredStep, ...] = ()
    edit: ViewEdit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult:
    """What an agent that worked as a tool came to: its run's result."""

    status: Literal["completed", "failed", "cancelled"] = "completed"
    final_output: Json = None
    failure: Failure | None = None
    usage: Usage = NO_USAGE
    context: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """What the worker knows of the starting agent: that it exists, and what the run begins with.

    Attributes:
        model: the name of its model.
        context: the empty context of its type, for a run that was started without one: so that
            two tools that run side by side change parts of one context and not the whole of it.
        required_steps: what has to be done for the agent.
        changes: what callables changed in the context.
        input: what the model is shown instead of the first message alone: a session's items
            with it, or what an agent that works as a tool is asked. None: the message as it is.
        old: the positions of those that the session has already.
        traced: somebody is told of the run's steps.
        stores: the worker can store content outside of the run.
    """

    model: str = ""
    context: Json = None
    required_steps: tuple[RequiredStep, ...] = ()
    changes: tuple[Change, ...] = ()
    input: tuple[JsonObject, ...] | None = None
    old: tuple[int, ...] = ()
    traced: bool = False
    stores: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of the current reply and how far it has come.

    `planned` while the reply is taken in, or until there is room for it; then `waiting` for a
    person, `running`, `held` back (a handoff, until the others are settled), or `settled` with an
    output, which is `told` once it is in the transcript. `value` is the output as the answer of the run, where it may become one.
    """

    plan: PlannedCall
    call_id: str
    name: str
    arguments: str
    form: str = FUNCTION
    status: CallStatus
    effect: int | None = None
    approval: str | None = None
    output: Json = None
    value: Json = None
    changes: tuple[Change, ...] = ()
