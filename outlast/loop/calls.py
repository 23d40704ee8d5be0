"""The calls in a model's reply: the plan for each call, and its progress.

The model activity makes the plans (`PlannedCall`); `machine.py` decides when each call runs.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from outlast.loop.approvals import DEFAULT_TERMS, ApprovalTerms, Evidence, Remembered
from outlast.loop.aside import RefusedEntry
from outlast.loop.call_forms import FUNCTION, is_call
from outlast.loop.changes import Change
from outlast.loop.checks import GuardrailRecord, RequiredStep
from outlast.loop.redacted import Redacted
from outlast.loop.values import NO_USAGE, Failure, Json, JsonObject, ModelUse, ServerThread, Usage
from outlast.loop.view import ViewEdit

CallKind: TypeAlias = Literal["tool", "agent", "handoff", "unknown"]
CallStatus: TypeAlias = Literal[
    "planned", "waiting", "running", "parked", "held", "settled", "recorded"
]
FinalKind: TypeAlias = Literal["text", "value", "again"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionOptions:
    """Time-outs, retries and place of an effect.

    The defaults are those of a tool, so a recorded plan only holds what differs.

    Attributes:
        timeout_ms: the time-out of one attempt.
        attempts: the maximum number of attempts.
        initial_interval_ms: the wait before the second attempt.
        backoff: the factor by which each further wait grows.
        maximum_interval_ms: the longest wait.
        fast: run as a local activity.
        defers: a fast attempt that is slow, fails or returns much is repeated as an activity.
        queue: the task queue to use instead of the run's own.
    """

    timeout_ms: int = 120_000
    attempts: int = 3
    initial_interval_ms: int = 1_000
    backoff: float = 2.0
    maximum_interval_ms: int = 30_000
    fast: bool = False
    defers: bool = False
    queue: str | None = None

    @property
    def timeout_seconds(self) -> float:
        """The time-out of one attempt, in seconds."""
        return self.timeout_ms / 1_000


DEFAULT_OPTIONS = ExecutionOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedPlan:
    """How to run an agent that is used as a tool.

    Attributes:
        max_turns: the maximum number of model calls.
        settings: the settings of the nested run; None for those of the parent.
        session: the nested run has a session, named in its settings.
        thread: how the provider's server keeps its conversation.
    """

    max_turns: int | None = None
    settings: JsonObject | None = None
    session: bool = False
    thread: ServerThread | None = None


DEFAULT_NESTED = NestedPlan()


CompactionNeed: TypeAlias = Literal["", "beside", "first"]
"""Whether the view should become shorter: not, beside the run, or before the next model call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredApproval:
    """The approval that a call needs: as the model activity planned it, or as its worker finds.

    The worker judges the call that it is about to run by its own definitions. Where the approval is
    missing, people are asked, whatever the run has recorded.

    Attributes:
        reason: why people have to decide, or why the recorded decisions do not count.
        terms: who may decide, and until when.
        schema: JSON Schema of the arguments, if they can be edited.
        source: the MCP server of the tool; empty for others.
        tool_digest: the digest of the tool, as `Seen.tool`.
        arguments: all arguments with the tool's defaults: what is approved is what runs. Empty if
            the model left none out.
    """

    reason: str | None = None
    terms: ApprovalTerms = DEFAULT_TERMS
    schema: JsonObject | None = None
    source: str = ""
    tool_digest: str = ""
    arguments: str = ""


NO_APPROVAL = RequiredApproval()
"""The default terms, under which people are asked for a value of a call that needs no approval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCall:
    """The plan for one call of a reply, made by the model activity and recorded.

    Attributes:
        item: the index of the call among the reply's items.
        kind: a tool, an agent used as a tool, a handoff, or an unknown name.
        problem: why the call cannot run, worded for the model; it becomes the call's output.
        approval: the approval that it needs before it runs; None if it needs none.
        source: the MCP server of the tool; empty for others.
        fatal: a failure ends the run instead of becoming the call's output.
        target: the agent that a handoff leads to, or that is used as the tool.
        variant: which handoff of this name and target the model was offered; empty if there is one.
        target_own_name: that agent's own name, for the model, where the run tells it apart from
            another agent of the name.
        target_model: the model of that agent, for people to read.
        target_steps: the required steps of that agent.
        target_compaction: whether the view should become shorter for that agent's model.
        callback: the handoff runs user code: a callback, a filter or a hook.
        filters: the handoff changes the next agent's input, so its activity needs the transcript.
        final: the call's output ends the run.
        rejection: the call's output if a person rejects the call without a message.
        nested: how to run an agent that is used as a tool.
        program: the id of the provider's program that made the call; empty if the model did.
        gives_object: the tool promised that program a JSON object.
        policy: time-outs and retries of the call.
    """

    item: int
    kind: CallKind
    problem: str | None = None
    approval: RequiredApproval | None = None
    source: str = ""
    fatal: bool = False
    target: str = ""
    variant: str = ""
    target_own_name: str = ""
    target_model: str = ""
    target_steps: tuple[RequiredStep, ...] = ()
    target_compaction: CompactionNeed = ""
    callback: bool = False
    filters: bool = False
    final: bool = False
    rejection: str | None = None
    nested: NestedPlan | None = None
    program: str = ""
    gives_object: bool = False
    policy: ExecutionOptions = DEFAULT_OPTIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewSummary:
    """The summary of a part of the view; without items, the part stays as it is.

    Attributes:
        items: what the model reads instead.
        model: the model's name, for people to read.
        usage: the tokens that it used.
        changes: context changes made by user code.
        failure: why the summary is not used, although it was paid.
    """

    items: tuple[JsonObject, ...] = ()
    model: str = ""
    usage: Usage = NO_USAGE
    changes: tuple[Change, ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunResponse:
    """A response that the provider makes in the background.

    Attributes:
        response_id: the provider's id of it.
        number: how many responses were begun for the model call; those before it have failed.
    """

    response_id: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedModel:
    """A model that did not answer, so that the next one of the agent's models is called.

    Attributes:
        model: its name, for people to read.
        reason: why, as a code such as `overloaded`.
        message: why, for people to read.
    """

    model: str
    reason: str
    message: str

    @property
    def line(self) -> str:
        """The model and the reason, for people to read."""
        return f"{self.model or 'the default model'}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """The result of a model call: the reply, and the plan for it.

    Attributes:
        items: the provider's output items, unchanged.
        usage: the tokens that the call used.
        calls: the plan; it points into `items` and repeats none of their text.
        final: what a reply without calls means: its text is the answer, `value` is the answer, or
            the model is called again.
        value: the answer, if `final` is `value`.
        failure: why the run cannot go on, although the model replied.
        changes: context changes made by user code during the call.
        model: the model's name, for people to read.
        response_id: the provider's id of the response.
        request_id: the provider's id of the request.
        required_steps: the required steps of the agent, as its definition is now.
        judged: a rule of the agent decides whether the tool outputs are the answer.
        parallel: how many tool calls may run at once; None for no limit.
        raw_usage: the usage as the provider sent it, if the run asked for it.
        checks: results of tool guardrails that ran before approval.
        unchecked: the model was not called, because the agent has input guardrails that did not run
            for the question; `required_steps` names them.
        stores: the worker has a blob store, and the run holds much content.
        answer_terms: a person decides about the answer under these terms; None if nobody has to.
        answer_reason: why a person decides about it.
        compaction: whether the view should become shorter, since the call used much of its model's
            window.
        begun: there is no reply yet: the provider makes it in the background, and the model call
            goes on until it is there.
        withheld: the model was not called, because a request to stop after the turn came before
            the turn of this call began.
        refused: what the provider refused. It took the request without it, and this is its reply.
        instructions: the beginning of the digest of what the model was told to be and do; empty for
            nothing.
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
    answer_terms: ApprovalTerms | None = None
    answer_reason: str | None = None
    compaction: CompactionNeed = ""
    begun: BegunResponse | None = None
    withheld: bool = False
    refused: tuple[RefusedEntry, ...] = ()
    instructions: str = ""

    def __post_init__(self) -> None:
        """Refuse a plan that does not fit the reply, so that no call stays unanswered.

        Raises:
            ValueError: a plan points to no item, two plans point to one item, or a call has no
            plan.
        """
        planned = sorted(plan.item for plan in self.calls)
        calls = {at for at, raw in enumerate(self.items) if is_call(raw)}
        ours = {at for at in calls if self.items[at]["type"] == FUNCTION}
        if len(planned) != len(set(planned)) or not ours <= set(planned) <= calls:
            raise ValueError("the plan does not have exactly one entry for each call of the reply")
        for plan in self.calls:
            if plan.kind == "unknown" and plan.problem is None:
                raise ValueError("a call of an unknown tool needs a problem as its output")
            if plan.kind == "unknown" and plan.approval is not None:
                raise ValueError("a call of an unknown tool cannot need approval")
        if self.parallel is not None and self.parallel < 1:
            raise ValueError("parallel must be at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitPlace:
    """Which wait of which call a value is for.

    Some models repeat the ids of their calls, so the turn counts, too.

    Attributes:
        question: how many questions of the run were settled before that of the call.
        turn: the turn of the call.
        call_id: the id of the call.
        name: the wait of the call.
    """

    question: int
    turn: int
    call_id: str
    name: str

    @property
    def place(self) -> tuple[int, int, str, str]:
        """The four fields, to compare."""
        return self.question, self.turn, self.call_id, self.name


OnWaitEnd: TypeAlias = Literal["tool", "value", "ask"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideWait:
    """What a tool call waits for outside of the run, such as a webhook.

    Attributes:
        name: tells it from other waits of the call.
        timeout_ms: how long the call waits; None for ever.
        schema: JSON Schema of the value that has to arrive; None for any value.
        is_output: the value takes the place of what the tool returns; otherwise the tool runs again
            and reads it.
        on_timeout: what happens after `timeout_ms`: the `tool` runs again and finds that nothing
            came, `value` takes the place of what did not come, or people are asked for it.
        value: that value.
        until_message: a message of the user ends the wait as its time-out does.
        every_ms: how long until the tool runs again to look for itself; None if it does not.
        cleanup: the tool cleans up what it began if the call is dropped.
        done: what the tool has noted as done, by name; it reads the notes when it runs again.
        done_proof: the proof of these notes, by the worker; None without one.
        question: what people are asked, who then give the value or reject; empty to ask for the
            value because nothing came.
        signed: only deliveries with a proof count. Workers check it, as the tool's code says.
    """

    name: str
    timeout_ms: int | None = None
    schema: JsonObject | None = None
    is_output: bool = False
    on_timeout: OnWaitEnd = "tool"
    value: Json = None
    until_message: bool = False
    every_ms: int | None = None
    cleanup: bool = False
    done: JsonObject | None = None
    done_proof: str | None = None
    question: str = ""
    signed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """What came of one wait of a call.

    Attributes:
        name: the wait.
        at_ms: when it ended, in milliseconds since the epoch.
        value: what arrived.
        is_default: nothing came in time, and the value is the wait's own.
        delivery_id: the id of the delivery; empty if nothing came, or a person gave the value.
        source: who delivered it, in the deliverer's words.
        timed_out: nothing came in time.
        proof: the proof of the delivery, for the worker that runs the tool; None without one.
        waited_from_ms: since when the call waited for it, if it needs a proof.
    """

    name: str
    at_ms: int
    value: Json = None
    delivery_id: str = ""
    source: str = ""
    timed_out: bool = False
    is_default: bool = False
    proof: str | None = None
    waited_from_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """The present wait of a call.

    Attributes:
        wait: what it waits for.
        since_ms: since when, in milliseconds since the epoch.
        due_ms: when the tool looks for itself, or the wait ends; None for never.
        request_id: the request that asks people for the value, since nothing came in time.
    """

    wait: OutsideWait
    since_ms: int
    due_ms: int | None = None
    request_id: str | None = None

    @property
    def ends_ms(self) -> int | None:
        """When the wait ends by itself; None for never."""
        lasts = self.wait.timeout_ms
        return None if lasts is None or self.due_ms is None else self.since_ms + lasts


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a tool call: its output and its context changes.

    Attributes:
        output: what the model reads.
        changes: what the call changed in the context.
        host: the worker in which the calls of a reply shared a context object, if the call has
            changed it.
        order: the place of the changes among those of the host's calls.
        failed: the output describes a failure; for people to see.
        value: the answer of the run, if that was requested and is not the output.
        checks: results of the tool's guardrails.
        failure: why the run cannot go on, regardless of the tool's failure rule.
        deferred: the call has no result yet, and runs again as an activity.
        required: the call has not run: people have to approve it first.
        custom_data: the program's own data of the output, which no model reads.
        wait: the call has no result yet: it waits for something outside of the run.
        unproven: why what came for that wait does not count, in the worker's words; empty if
            nothing came.
        team: the team of people that gets the conversation; empty for none.
    """

    output: Json
    changes: tuple[Change, ...] = ()
    host: str = ""
    order: int = 0
    failed: bool = False
    value: Json = None
    checks: tuple[GuardrailRecord, ...] = ()
    failure: Failure | None = None
    deferred: bool = False
    required: RequiredApproval | None = None
    custom_data: JsonObject | None = None
    wait: OutsideWait | None = None
    unproven: str = ""
    team: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffResult:
    """The result of a handoff's user code.

    Attributes:
        changes: context changes made by the callback.
        target: the agent that takes over, if the handoff chose it during the call.
        target_changes: how that agent differs from a registered one; None if it is registered, or
            differs in more than data.
        target_own_name: as in `PlannedCall`.
        target_model: that agent's model.
        required_steps: the required steps of that agent.
        edit: how a filter changed the next agent's input.
        output: the output of the handoff's call, if the program wrote its own.
        reported: the error that the program set in the handoff's span; only observers read it.
        required: the handoff has not happened: people have to approve it first.
    """

    changes: tuple[Change, ...] = ()
    target: str | None = None
    target_changes: JsonObject | None = None
    target_own_name: str = ""
    target_model: str = ""
    required_steps: tuple[RequiredStep, ...] = ()
    edit: ViewEdit | None = None
    output: str | None = None
    reported: JsonObject | None = None
    required: RequiredApproval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult:
    """The result of an agent that is used as a tool.

    Attributes:
        status: how its run ended.
        final_output: the answer of a completed run.
        failure: the reason of a failed run.
        usage: the tokens that it has used.
        uses: what each of its agents used of each model, with those nested in it.
        context: the context at its end.
        remembered: decisions that also apply to later runs of the agent.
        redacted: the values that it hides from people.
        spent: what the run and those nested in it have spent of each budget of the parent, by the
            budget's index.
        required: the approval without which its worker did not begin it.
    """

    status: Literal["completed", "failed", "cancelled"] = "completed"
    final_output: Json = None
    failure: Failure | None = None
    usage: Usage = NO_USAGE
    uses: tuple[ModelUse, ...] = ()
    context: Json = None
    remembered: tuple[Remembered, ...] = ()
    redacted: tuple[Redacted, ...] = ()
    spent: tuple[tuple[int, int], ...] = ()
    required: RequiredApproval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """The starting agent as the worker defines it, and the prepared input.

    Attributes:
        model: the name of its model.
        context: the empty context of its type, for a run that started without a context: two
            parallel tools then change parts of one context instead of replacing it.
        required_steps: the required steps of the agent.
        changes: context changes made by user code.
        input: the model's input instead of the first message alone: a session's items and the
            message, or the input of an agent that is used as a tool. None for the message
            unchanged.
        old: the indices of the items that the session already has.
        stores: the worker has a blob store.
        notifies: the worker has notifiers.
        notifies_later: the worker delivers notices after the end of the run, too.
        notifies_mentions: the worker delivers mentions of colleagues, too.
    """

    model: str = ""
    context: Json = None
    required_steps: tuple[RequiredStep, ...] = ()
    changes: tuple[Change, ...] = ()
    input: tuple[JsonObject, ...] | None = None
    old: tuple[int, ...] = ()
    stores: bool = False
    notifies: bool = False
    notifies_later: bool = False
    notifies_mentions: bool = False


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of the current reply, and its progress.

    `planned` until the call can start; then `waiting` for a person, `running`, `parked` (until
    something arrives from outside), `held` (a handoff, until the other calls are settled), or
    `settled` with an output; `recorded` once the output is in the transcript. `value` is the output as the answer of the run, if it may become the answer.
    `host`, `order` and `custom_data` are those of its `ToolResult`.
    `edited` calls run with a person's arguments, which the model is told with the output.
    `evidence` is what people decided about it, for the worker that runs it.
    `parked` is what it waits for outside of the run, also while people are asked for the value;
    `looking` is that wait while the tool runs again to look for itself;
    `arrived` is what came of its waits, also before the call has begun to wait; `output_of` is the
    wait whose value takes the place of what the tool returns; `done` are the tool's notes, and
    `done_proof` is their proof.
    """

    plan: PlannedCall
    call_id: str
    name: str
    arguments: str
    edited: bool = False
    form: str = FUNCTION
    status: CallStatus
    effect: int | None = None
    approval: str | None = None
    evidence: Evidence | None = None
    output: Json = None
    value: Json = None
    changes: tuple[Change, ...] = ()
    host: str = ""
    order: int = 0
    custom_data: JsonObject | None = None
    parked: Parked | None = None
    looking: Parked | None = None
    arrived: tuple[Arrival, ...] = ()
    output_of: str = ""
    done: JsonObject | None = None
    done_proof: str | None = None

    @property
    def outside(self) -> Parked | None:
        """What the call waits for outside of the run, also while its tool looks for itself."""
        if self.parked is not None or self.status in {"settled", "recorded"}:
            return self.parked
        return self.looking

    @property
    def may_have_begun(self) -> bool:
        """Whether the call may have begun something outside of the run that it waits or waited for."""
        return self.outside is not None or bool(self.arrived)

    @property
    def request_id(self) -> str | None:
        """The newest request to people about the call."""
        asked = None if self.parked is None else self.parked.request_id
        return self.approval if asked is None else asked
