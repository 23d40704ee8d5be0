"""The commands of the loop: effects, and five further commands.

The shell answers an effect with exactly one event, which carries the effect's number. Effects stay
in the state, unchanged, until they are answered. `contract/effects.py` has a row for each kind:
which activity carries it out, and what answers it.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, Literal, TypeAlias, TypeVar, get_args

from outlast.loop.actions import LendRecord, NestedRecord, TeamReport
from outlast.loop.approvals import Evidence, Remembered
from outlast.loop.aside import Aside
from outlast.loop.call_forms import FUNCTION
from outlast.loop.calls import (
    DEFAULT_NESTED,
    DEFAULT_OPTIONS,
    AgentResult,
    Arrival,
    BegunResponse,
    ExecutionOptions,
    HandoffResult,
    ModelReply,
    NestedPlan,
    PreparedRun,
    ToolResult,
    TriedModel,
    ViewSummary,
)
from outlast.loop.checks import Candidate, CheckResult, CheckStage, FinalizedAnswer, RequiredStep
from outlast.loop.fork import Fork, ForkedCall
from outlast.loop.items import Item
from outlast.loop.notices import Notice, NoticeReceipt
from outlast.loop.open_hours import HoursCounted, HoursOfReply, HoursOfRequest
from outlast.loop.redacted import Redacted
from outlast.loop.start import Budget
from outlast.loop.stored import Offload
from outlast.loop.values import NO_USAGE, Failure, Json, JsonObject, Usage


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class AnyEffect:
    """What every effect has; a kind of effect says in its class how it goes with the run.

    Attributes:
        effect: the number of the effect; its answering event has the same number.
        result: the record that answers it; None if it has no result.
        beside: it runs beside any phase.
        outlives_failure: it goes on after the question has failed.
        ends_with_run: the end of the run stops it, and waits for all others.
        of_source: in a fork, it is for the source of the fork to carry out.
    """

    effect: int
    result: ClassVar[type[Any] | None] = None
    beside: ClassVar[bool] = False
    outlives_failure: ClassVar[bool] = False
    ends_with_run: ClassVar[bool] = False
    of_source: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEffect(AnyEffect):
    """The fields of every effect that runs an agent's code.

    Attributes:
        agent: the agent whose code runs.
        context: the application's context as JSON.
        context_type: the registered name of the context's type.
        settings: the run's settings, opaque.
        run_id: the workflow id.
        started_at_ms: when the run began: tells it from others that had its id.
        question: how many questions of the run were settled before.
        handovers: how often the run had changed hands.
    """

    agent: str
    context: Json = None
    context_type: str | None = None
    settings: JsonObject | None = None
    run_id: str = ""
    started_at_ms: int = 0
    question: int = 0
    handovers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEffect(AgentEffect):
    """An effect that is part of a turn.

    Attributes:
        turn: the number of model calls for the current answer, including this turn's.
        usage: tokens used so far.
    """

    turn: int
    usage: Usage = NO_USAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareRun(AgentEffect):
    """Look the starting agent up. Its result is a `PreparedRun`.

    `input` is the user's message, if a session or a tool makes the model's input from it.
    """

    input: tuple[JsonObject, ...] | None = None
    kind: Literal["prepare_run"] = "prepare_run"
    result = PreparedRun


@dataclass(frozen=True, slots=True, kw_only=True)
class CallModel(TurnEffect):
    """Call the agent's model. Its result is a `ModelReply`.

    The input is what the state's view shows of its first `input_length` items. Items are only
    ever appended, and the view only changes between model calls, so the activity can fetch the
    same items later, and the state holds them once.

    Attributes:
        input_length: the number of transcript items that the call covers.
        on_server: the number of those items that the provider's server already has.
        conversation_id: the conversation on the provider's server.
        previous_response_id: the previous response on the provider's server.
        chained: each response continues the previous one on the provider's server.
        tools_used: the agent has called tools for the current question.
        starts: the agent starts, or resumes after a person decided.
        history: the number of entries that are input of the question, if the agent starts with
            more.
        decided: the agent's tools with a remembered decision.
        required_steps: in the first turn of a question, the kinds of input guardrails that run for
            it; a worker whose agent has others answers with `ModelReply.unchecked`.
        line: the id of the realtime line that makes the call; empty for a worker.
        streams: a message of the question asks for a streamed call; the run's settings may, too.
        begun: the response that the provider makes in the background; None before one is begun.
        aside: what the model does not read of these items.
        model_at: which of the agent's models is called, if it has several.
        tried: the models that did not answer the question before it.
    """

    input_length: int
    on_server: int = 0
    conversation_id: str | None = None
    previous_response_id: str | None = None
    chained: bool = False
    tools_used: bool = False
    starts: bool = False
    history: int | None = None
    decided: tuple[str, ...] = ()
    required_steps: tuple[RequiredStep, ...] = ()
    line: str = ""
    streams: bool = False
    begun: BegunResponse | None = None
    aside: tuple[Aside, ...] = ()
    model_at: int = 0
    tried: tuple[TriedModel, ...] = ()
    kind: Literal["call_model"] = "call_model"
    result = ModelReply


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelResponse(AgentEffect):
    """Let the provider stop a response in the background that nobody waits for any more.

    It has no result. `model_at` is that of the model call.
    """

    response_id: str
    model_at: int = 0
    kind: Literal["cancel_response"] = "cancel_response"
    beside = True
    of_source = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactView(TurnEffect):
    """Summarize the older part of what the model reads. Its result is a `ViewSummary`.

    Attributes:
        input_length: the number of transcript items at the time.
        entries: how many entries of their view become a summary.
        place: the index of the last of them in the transcript.
        first: the next model call waits for it.
        aside: what the model does not read of these items.
        model_at: which of the agent's models answers the question, if it has several.
    """

    input_length: int
    entries: int
    place: int
    first: bool = False
    aside: tuple[Aside, ...] = ()
    model_at: int = 0
    kind: Literal["compact_view"] = "compact_view"
    result = ViewSummary
    beside = True
    outlives_failure = True
    ends_with_run = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckInput(TurnEffect):
    """Run input guardrails. Its result is a `CheckResult`."""

    stage: CheckStage
    items: tuple[Item, ...]
    kind: Literal["check_input"] = "check_input"
    result = CheckResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTool(TurnEffect):
    """Run a tool call. Its result is a `ToolResult`.

    Attributes:
        name: the tool's name.
        call_id: the id of the model's call.
        arguments: the model's arguments, unchanged.
        form: the item type of the call, one of `call_forms`.
        final: the result is also needed as the answer of the run.
        approved: a person approved the call.
        evidence: what people decided about the call.
        source: the MCP server that has to carry the call out; empty for others.
        policy: bounds and retries of the call.
        arrived: what came of the call's waits for something outside of the run.
        output_of: the wait whose value takes the place of what the tool returns; empty for none.
        done: what the tool has noted as done, by name.
        done_proof: the proof of these notes, which the worker checks before the tool reads them.
        forked: how a fork makes the call; None for a run that is no fork.
    """

    name: str
    call_id: str
    arguments: str
    form: str = FUNCTION
    final: bool = False
    approved: bool = False
    evidence: Evidence | None = None
    source: str = ""
    policy: ExecutionOptions = DEFAULT_OPTIONS
    arrived: tuple[Arrival, ...] = ()
    output_of: str = ""
    done: JsonObject | None = None
    done_proof: str | None = None
    forked: ForkedCall | None = None
    kind: Literal["run_tool"] = "run_tool"
    result = ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanUp(RunTool):
    """Let a tool end what it began outside of the run, since its call is dropped.

    The tool runs once more, and what it returns goes nowhere.
    """

    kind: Literal["clean_up"] = "clean_up"  # pyright: ignore[reportIncompatibleVariableOverride]
    beside = True
    of_source = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAgent(AgentEffect):
    """Run an agent that is used as a tool, as a nested run. Its result is an `AgentResult`.

    Attributes:
        target: the agent to run; `agent` is the agent that called the tool.
        name: the tool's name.
        call_id: the id of the model's call.
        arguments: the model's arguments, unchanged.
        nested_id: the id of the nested run.
        nested: how to run the agent.
        prefix: the beginning of this run's approval ids, and so of the nested run's.
        remembered: the decisions of the conversation that apply to further calls.
        redacted: the values that the run hides from people.
        evidence: what people decided about the call.
        authors: the members of the team who wrote what the run works for.
        chain_id: the first execution of the run that all others are nested in.
        root_question: the question of that run which the nested run works on, by its number.
        budgets: the shares of the run's budgets that the nested run may spend.
        fork: what the run was forked from; None if it is no fork.
    """

    target: str
    name: str
    call_id: str
    arguments: str
    nested_id: str
    nested: NestedPlan = DEFAULT_NESTED
    prefix: str = ""
    remembered: tuple[Remembered, ...] = ()
    redacted: tuple[Redacted, ...] = ()
    evidence: Evidence | None = None
    authors: tuple[str, ...] = ()
    chain_id: str = ""
    root_question: int = 0
    budgets: tuple[Budget, ...] = ()
    fork: Fork | None = None
    kind: Literal["run_agent"] = "run_agent"
    result = AgentResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHandoff(TurnEffect):
    """Run a handoff's callback, hooks and filter. Its result is a `HandoffResult`.

    Attributes:
        name: the name of the handoff's tool.
        target: the agent that takes over.
        variant: which handoff of this name and target the model was offered; empty if there is one.
        call_id: the id of the model's call.
        arguments: the model's arguments, unchanged.
        input_length: the number of transcript items that a filter sees, as for `CallModel`.
        history: the number of those entries that are input of the question.
        fresh: the number of newest items that belong to this turn.
        evidence: what people decided about the handoff.
        policy: time-outs and retries of the callback.
    """

    name: str
    target: str
    call_id: str
    arguments: str
    variant: str = ""
    input_length: int | None = None
    history: int = 0
    fresh: int = 0
    evidence: Evidence | None = None
    policy: ExecutionOptions = DEFAULT_OPTIONS
    kind: Literal["run_handoff"] = "run_handoff"
    result = HandoffResult


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizeAnswer(TurnEffect):
    """Check and settle a possible answer. Its result is a `FinalizedAnswer`.

    The transcript is the first `input_length` items, as for `CallModel`.
    """

    candidate: Candidate
    input_length: int
    history: int = 0
    kind: Literal["finalize_answer"] = "finalize_answer"
    result = FinalizedAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveSession(AnyEffect):
    """Write items into the run's session.

    The items are those of the transcript from `start` up to `stop`, except those that a filter
    `dropped` before the save.

    Attributes:
        order: the indices of those items, if a filter gave them another order.
        withheld: replaces the output of a tool that a guardrail blocked.
        chain_id: distinguishes the run from others with the same id; unchanged by a reset.
        number: how many items of the run come before; unchanged by a reset, which may find more
            items in the session.
        follows: the session already has items, of the run or from before it.
    """

    start: int
    stop: int
    dropped: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    withheld: str | None = None
    settings: JsonObject | None = None
    run_id: str
    chain_id: str = ""
    number: int = 0
    follows: bool = False
    kind: Literal["save_session"] = "save_session"
    beside = True
    outlives_failure = True
    of_source = True


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadItems(AnyEffect):
    """Move the content of items to the blob store. Its result is an `Offload`.

    The items are those of the transcript from `start` up to `stop`.
    """

    start: int
    stop: int
    run_id: str
    kind: Literal["offload_items"] = "offload_items"
    result = Offload
    beside = True
    ends_with_run = True


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepLineOpen(AnyEffect):
    """Keep a realtime line open, which makes the model calls meanwhile.

    Attributes:
        line: the id of the line, which is a process with a socket to the provider.
        label: what people read, such as `phone call`.
    """

    line: str
    label: str = ""
    kind: Literal["keep_line_open"] = "keep_line_open"
    beside = True
    outlives_failure = True
    ends_with_run = True
    of_source = True


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyPeople(AnyEffect):
    """Let the worker's notifiers deliver notices. Its result is a `NoticeReceipt`."""

    run_id: str
    notices: tuple[Notice, ...]
    kind: Literal["notify_people"] = "notify_people"
    result = NoticeReceipt
    beside = True
    outlives_failure = True
    ends_with_run = True
    of_source = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CountHours(AnyEffect):
    """Count the times of requests, and of a reply, by calendars. Its result is an `HoursCounted`."""

    run_id: str
    requests: tuple[HoursOfRequest, ...] = ()
    reply: HoursOfReply | None = None
    kind: Literal["count_hours"] = "count_hours"
    result = HoursCounted
    beside = True
    ends_with_run = True


Result: TypeAlias = (
    PreparedRun
    | CheckResult
    | ModelReply
    | ToolResult
    | AgentResult
    | HandoffResult
    | FinalizedAnswer
    | Offload
    | NoticeReceipt
    | HoursCounted
    | ViewSummary
    | None
)
R_co = TypeVar("R_co", bound=Result, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectAnswered(Generic[R_co]):
    """An effect was carried out; `result` is None for effects that have none."""

    at_ms: int
    effect: int
    result: R_co


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectFailed:
    """An effect failed for good: after its last attempt, a time-out or a cancellation."""

    at_ms: int
    effect: int
    failure: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelEffect:
    """Stop an effect; a later result of the effect is ignored."""

    effect: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyParent:
    """Report to the run's parent, a workflow id, what the run waits for, and its spending."""

    parent: str
    record: NestedRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class LendBudget:
    """Lend a nested run more of a budget of this run."""

    nested_id: str
    record: LendRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportToTeam:
    """Report to a team, by its name, how the run stands with it."""

    team: str
    record: TeamReport


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyAfterEnd:
    """Deliver notices that the end of the run leaves, without the run waiting for it."""

    notices: tuple[Notice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """End the run.

    Attributes:
        status: how the run ended.
        final_output: the answer of a completed run.
        failure: the reason of a failed run.
    """

    status: Literal["completed", "failed", "cancelled"]
    final_output: Json = None
    failure: Failure | None = None


Effect: TypeAlias = (
    PrepareRun
    | CheckInput
    | CallModel
    | CancelResponse
    | CompactView
    | RunTool
    | CleanUp
    | RunAgent
    | RunHandoff
    | FinalizeAnswer
    | SaveSession
    | OffloadItems
    | KeepLineOpen
    | NotifyPeople
    | CountHours
)
EffectEvent: TypeAlias = EffectAnswered[Result] | EffectFailed
"""The events that answer effects."""


def _kinds(column: str) -> frozenset[str]:
    chosen = (one for one in get_args(Effect) if getattr(one, column))
    return frozenset(one.__dataclass_fields__["kind"].default for one in chosen)


BACKGROUND: Final = _kinds("beside")
OUTLIVING_FAILURE: Final = _kinds("outlives_failure")
"""The kinds of effects that have these columns of `AnyEffect`."""

Command: TypeAlias = (
    Effect | CancelEffect | NotifyParent | LendBudget | ReportToTeam | NotifyAfterEnd | Finish
)
