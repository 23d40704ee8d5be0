"""Everything a run can ask of the shell. Imperatives.

Owns: the commands. An *effect* is a command that is answered by exactly one event, which carries
its number; effects are kept in the state until they are answered, and never change. Their `trace`
says where they belong in the trace of the run, if it is traced. Must not know: how a command is
carried out.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from outlast.loop.approvals import ApprovalRequest
from outlast.loop.call_forms import FUNCTION
from outlast.loop.calls import DEFAULT_NESTED, DEFAULT_POLICY, NestedPlan, Policy
from outlast.loop.checks import Candidate, CheckStage, RequiredStep
from outlast.loop.items import Item
from outlast.loop.trace_mark import TraceMark
from outlast.loop.values import NO_USAGE, Failure, Json, JsonObject, Usage


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class PrepareRun:
    """Look the starting agent up. Answered by `RunPrepared`.

    `input` is what was asked, where a session or a tool makes the model's input of it.
    """

    effect: int
    agent: str
    context: Json = None
    context_type: str | None = None
    settings: JsonObject | None = None
    input: tuple[JsonObject, ...] | None = None
    run_id: str = ""
    kind: Literal["prepare_run"] = "prepare_run"


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class CallModel:
    """Ask the agent's model. Answered by `ModelReplied`.

    The input is what the state's view shows of its first `input_length` items: items are only
    ever appended, and the view only changes between model calls, so they are still the same when
    the activity asks for them, and the state holds them once.

    Attributes:
        known: how many of them the provider's server has already.
        conversation_id: the conversation on the provider's server.
        previous_response_id: the response on the provider's server that this one follows.
        chained: each response follows the one before on the provider's server.
        tools_used: the agent has called tools for the current question.
        starts: the agent begins to work, or works again after people decided.
        history: where it starts with more than the question began with: how much that was.
        decided: the agent's tools about which people have decided for all calls.
        required_steps: in the first turn of a question, the kinds of input guardrails that are run for
            it; a worker whose agent has others answers with `ModelReply.unchecked`.
    """

    effect: int
    agent: str
    turn: int
    input_length: int
    context: Json = None
    context_type: str | None = None
    settings: JsonObject | None = None
    usage: Usage = NO_USAGE
    run_id: str
    known: int = 0
    conversation_id: str | None = None
    previous_response_id: str | None = None
    chained: bool = False
    tools_used: bool = False
    starts: bool = False
    history: int | None = None
    decided: tuple[str, ...] = ()
    required_steps: tuple[RequiredStep, ...] = ()
    trace: TraceMark | None = None
    kind: Literal["call_model"] = "call_model"


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class CheckInput:
    """Run input guardrails. Answered by `InputChecked`."""

    effect: int
    agent: str
    stage: CheckStage
    items: tuple[Item, ...]
    context: Json = None
    context_type: str | None = None
    settings: JsonObject | None = None
    usage: Usage = NO_USAGE
    turn: int
    run_id: str
    trace: TraceMark | None = None
    kind: Literal["check_input"] = "check_input"


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class RunTool:
    """Run a tool call. Answered by `ToolFinished`.

    `final` asks for the result as the answer of the run, too. `form` is the call's, one of those
    in `call_forms`. `approved` says that a person had to decide, and did.
    """

    effect: int
    agent: str
    name: str
    call_id: str
    arguments: str
    form: str = FUNCTION
    context: Json = None
    context_type: str | None = None
    settings: JsonObject | None = None
    usage: Usage = NO_USAGE
    turn: int
    run_id: str
    final: bool = False
    approved: bool = False
    policy: Policy = DEFAULT_POLICY
    trace: TraceMark | None = None
    kind: Literal["run_tool"] = "run_tool"


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class RunAgent:
    """Run an agent as a tool: a run of its own. Answered by `AgentFinished`.

    Attributes:
        agent: the agent whose tool it is.
        target: the agent to run.
        name: the tool's name.
        nested_id: the id of the nested run.
        nested: how it is run.
        run_id: the run that asks.
        prefix: begins the ids of that run's approvals, and so those of the nested run's.
    """

    effect: int
    agent: str
    target: str
    name: str
    call_id: str
    arguments: str
    nested_id: str
    nested: NestedPlan = DEFAULT_NESTED
    context: Json = None
    context_type: str | None = None
    settings: JsonObject | None = None
    run_id: str
    prefix: str = ""
    trace: TraceMark | None = None
    kind: Literal["run_agent"] = "run_agent"


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class RunHandoff:
    """Run a handoff's callback, hooks and filter. Answered by `HandoffFinished`.

    Attributes:
        input_length: for a filter: how much of the transcript it sees, as for `CallModel`.
        history: how many entries of that are the input of the question.
        fresh: how many of the newest items are this turn's.
        rivals: the agents of the reply's other handoffs, which are ignored; where it is traced.
    """

    effect: int
    agent: str
    name: str
    target: str
    call_id: str
    arguments: str
    context: Json = None
    context_type: str | None = None
    settings: JsonObject | None = None
    usage: Usage = NO_USAGE
    turn: int
    run_id: str
    input_length: int | None = None
    history: int = 0
    fresh: int = 0
    policy: Policy = DEFAULT_POLICY
    rivals: tuple[str, ...] = ()
    trace: TraceMark | None = None
    kind: Literal["run_handoff"] = "run_handoff"


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class FinalizeAnswer:
    """Decide what becomes of an answer. Answered by `AnswerFinalized`.

    The transcript is the first `input_length` items, as for `CallModel`.
    """

    effect: int
    agent: str
    candidate: Candidate
    input_length: int
    history: int = 0
    context: Json = None
    context_type: str | None = None
    settings: JsonObject | None = None
    usage: Usage = NO_USAGE
    turn: int
    run_id: str
    trace: TraceMark | None = None
    kind: Literal["finalize_answer"] = "finalize_answer"


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class SaveSession:
    """Write items into the run's session. Answered by `SessionSaved`.

    The items are those of the transcript from `start` up to `stop`, without those that a filter
    has `dropped` by then. `withheld` stands in for the output of a tool. `chain_id` tells the run
    from others that had its id, and `number` is how many items of the run come before: both are
    the same after a reset, which may find more items in the session. `follows` says that the
    session had items of the run, or before it.
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
Command: TypeAlias = Effect | CancelEffect | NotifyParent | Finish
