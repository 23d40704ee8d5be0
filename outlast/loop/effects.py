"""What a run asks the shell to do: effects, and three further commands.

The shell answers an effect with exactly one event, which carries the effect's number. Effects stay
in the state, unchanged, until they are answered. `contract/effects.py` has a row for each kind:
which activity carries it out, and what answers it.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from outlast.loop.approvals import ApprovalRequest
from outlast.loop.call_forms import FUNCTION
from outlast.loop.calls import (
    DEFAULT_NESTED,
    DEFAULT_POLICY,
    AgentResult,
    HandoffResult,
    ModelReply,
    NestedPlan,
    Policy,
    PreparedRun,
    ToolResult,
)
from outlast.loop.checks import Candidate, CheckResult, CheckStage, FinalizedAnswer, RequiredStep
from outlast.loop.items import Item
from outlast.loop.stored import Offload
from outlast.loop.trace_mark import TraceMark
from outlast.loop.values import NO_USAGE, Failure, Json, JsonObject, Usage


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class AgentEffect:
    """What all effects have that run an agent's code.

    Attributes:
        effect: the number of the effect; the event that answers it has the same.
        agent: the agent whose code runs.
        context: the application's context as JSON.
        context_type: the registered name of the context's type.
        settings: the run's settings, opaque.
        run_id: the workflow id.
        trace: where the effect belongs in the trace of the run, if it is traced.
    """

    effect: int
    agent: str
    context: Json = None
    context_type: str | None = None
    settings: JsonObject | None = None
    run_id: str = ""
    trace: TraceMark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEffect(AgentEffect):
    """An effect that is part of a turn.

    Attributes:
        turn: model calls made for the current answer, this one included.
        usage: tokens spent so far.
    """

    turn: int
    usage: Usage = NO_USAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareRun(AgentEffect):
    """Look the starting agent up. Answered by `RunPrepared`.

    `input` is the user's message, where a session or a tool makes the model's input of it.
    """

    input: tuple[JsonObject, ...] | None = None
    kind: Literal["prepare_run"] = "prepare_run"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPrepared:
    """The worker knows the starting agent."""

    at_ms: int
    effect: int
    result: PreparedRun


@dataclass(frozen=True, slots=True, kw_only=True)
class CallModel(TurnEffect):
    """Call the agent's model. Answered by `ModelReplied`.

    The input is what the state's view shows of its first `input_length` items. Items are only
    ever appended, and the view only changes between model calls, so the activity can fetch the
    same items later, and the state holds them once.

    Attributes:
        input_length: how many items of the transcript the call is about.
        known: how many of them the provider's server has already.
        conversation_id: the conversation on the provider's server.
        previous_response_id: the response on the provider's server that this one follows.
        chained: each response follows the one before on the provider's server.
        tools_used: the agent has called tools for the current question.
        starts: the agent begins to work, or works again after people decided.
        history: where it starts with more than the question began with: how much that was.
        decided: the agent's tools about which people have decided for all calls.
        required_steps: in the first turn of a question, the kinds of input guardrails that run
            for it; a worker whose agent has others answers with `ModelReply.unchecked`.
    """

    input_length: int
    known: int = 0
    conversation_id: str | None = None
    previous_response_id: str | None = None
    chained: bool = False
    tools_used: bool = False
    starts: bool = False
    history: int | None = None
    decided: tuple[str, ...] = ()
    required_steps: tuple[RequiredStep, ...] = ()
    kind: Literal["call_model"] = "call_model"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReplied:
    """A model call came back with a reply and the plan for it."""

    at_ms: int
    effect: int
    result: ModelReply


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckInput(TurnEffect):
    """Run input guardrails. Answered by `InputChecked`."""

    stage: CheckStage
    items: tuple[Item, ...]
    kind: Literal["check_input"] = "check_input"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputChecked:
    """Input guardrails have run."""

    at_ms: int
    effect: int
    result: CheckResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTool(TurnEffect):
    """Run a tool call. Answered by `ToolFinished`.

    Attributes:
        name: the tool's name.
        call_id: the id of the model's call.
        arguments: the model's arguments, as it wrote them.
        form: the form of the call, one of those in `call_forms`.
        final: the result is needed as the answer of the run, too.
        approved: a person had to decide, and approved.
        policy: bounds and retries of the call.
    """

    name: str
    call_id: str
    arguments: str
    form: str = FUNCTION
    final: bool = False
    approved: bool = False
    policy: Policy = DEFAULT_POLICY
    kind: Literal["run_tool"] = "run_tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished:
    """A tool call came back with an output."""

    at_ms: int
    effect: int
    result: ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAgent(AgentEffect):
    """Run an agent as a tool: a run of its own. Answered by `AgentFinished`.

    Attributes:
        target: the agent to run; `agent` is the one whose tool it is.
        name: the tool's name.
        call_id: the id of the model's call.
        arguments: the model's arguments, as it wrote them.
        nested_id: the id of the nested run.
        nested: how it is run.
        prefix: begins the ids of this run's approvals, and so those of the nested run's.
    """

    target: str
    name: str
    call_id: str
    arguments: str
    nested_id: str
    nested: NestedPlan = DEFAULT_NESTED
    prefix: str = ""
    kind: Literal["run_agent"] = "run_agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFinished:
    """An agent that works as a tool came to an end."""

    at_ms: int
    effect: int
    result: AgentResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHandoff(TurnEffect):
    """Run a handoff's callback, hooks and filter. Answered by `HandoffFinished`.

    Attributes:
        name: the name of the handoff's tool.
        target: the agent that takes over.
        call_id: the id of the model's call.
        arguments: the model's arguments, as it wrote them.
        input_length: for a filter: how much of the transcript it sees, as for `CallModel`.
        history: how many entries of that are the input of the question.
        fresh: how many of the newest items are this turn's.
        policy: bounds and retries of the callback.
        rivals: the agents of the reply's other handoffs, which are ignored; where it is traced.
    """

    name: str
    target: str
    call_id: str
    arguments: str
    input_length: int | None = None
    history: int = 0
    fresh: int = 0
    policy: Policy = DEFAULT_POLICY
    rivals: tuple[str, ...] = ()
    kind: Literal["run_handoff"] = "run_handoff"


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffFinished:
    """A handoff's callback, hooks and filter have run."""

    at_ms: int
    effect: int
    result: HandoffResult


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizeAnswer(TurnEffect):
    """Check and settle a possible answer. Answered by `AnswerFinalized`.

    The transcript is the first `input_length` items, as for `CallModel`.
    """

    candidate: Candidate
    input_length: int
    history: int = 0
    kind: Literal["finalize_answer"] = "finalize_answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFinalized:
    """It is decided what becomes of an answer."""

    at_ms: int
    effect: int
    result: FinalizedAnswer


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class SaveSession:
    """Write items into the run's session. Answered by `SessionSaved`.

    The items are those of the transcript from `start` up to `stop`, without those that a filter
    has `dropped` by then.

    Attributes:
        withheld: stands in for the output of a tool that a guardrail blocked.
        chain_id: tells the run from others that had its id; the same after a reset.
        number: how many items of the run come before; the same after a reset, which may find
            more items in the session.
        follows: the session had items of the run, or before it.
    """

    effect: int
    start: int
    stop: int
    dropped: tuple[int, ...] = ()
    withheld: str | None = None
    settings: JsonObject | None = None
    run_id: str
    chain_id: str = ""
    number: int = 0
    follows: bool = False
    kind: Literal["save_session"] = "save_session"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSaved:
    """Items were written into the session."""

    at_ms: int
    effect: int


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class OffloadItems:
    """Store the content of items outside of the run. Answered by `ItemsOffloaded`.

    The items are those of the transcript from `start` up to `stop`.
    """

    effect: int
    start: int
    stop: int
    run_id: str
    kind: Literal["offload_items"] = "offload_items"


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemsOffloaded:
    """Content of items is stored outside of the run now."""

    at_ms: int
    effect: int
    result: Offload


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectFailed:
    """An effect failed for good: its last retry, its time-out, its cancellation."""

    at_ms: int
    effect: int
    failure: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelEffect:
    """Stop an effect; whatever it still answers is ignored."""

    effect: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyParent:
    """Tell the run that this one works for what people have to decide here, as it is now."""

    parent: str
    requests: tuple[ApprovalRequest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """End the run.

    Attributes:
        status: how it ended.
        final_output: the answer of a completed run.
        failure: why, for a failed run.
    """

    status: Literal["completed", "failed", "cancelled"]
    final_output: Json = None
    failure: Failure | None = None


Effect: TypeAlias = (
    PrepareRun
    | CheckInput
    | CallModel
    | RunTool
    | RunAgent
    | RunHandoff
    | FinalizeAnswer
    | SaveSession
    | OffloadItems
)
EffectEvent: TypeAlias = (
    RunPrepared
    | InputChecked
    | ModelReplied
    | ToolFinished
    | AgentFinished
    | HandoffFinished
    | AnswerFinalized
    | SessionSaved
    | ItemsOffloaded
    | EffectFailed
)
"""The events that answer effects."""

BACKGROUND: Final = frozenset({"save_session", "offload_items"})
"""Kinds of effects that run beside any phase, and that nothing but the end of the run waits for."""

Command: TypeAlias = Effect | CancelEffect | NotifyParent | Finish
