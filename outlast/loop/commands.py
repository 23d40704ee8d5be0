"""Everything a run can ask of the shell. Imperatives.

Owns: the commands. An *effect* is a command that is answered by exactly one event, which carries
its number; effects are kept in the state until they are answered, and never change. Must not
know: how a command is carried out.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from outlast.loop.calls import DEFAULT_POLICY, Policy
from outlast.loop.values import NO_USAGE, Failure, Json, JsonObject, Usage


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class PrepareRun:
    """Look the starting agent up. Answered by `RunPrepared`."""

    effect: int
    agent: str
    context: Json = None
    context_type: str | None = None
    settings: JsonObject | None = None
    kind: Literal["prepare_run"] = "prepare_run"


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class CallModel:
    """Ask the agent's model. Answered by `ModelReplied`.

    The input is the first `input_length` items of the state: items are only ever appended, so
    they are still the same when the activity asks for them, and the state holds them once.
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
    kind: Literal["call_model"] = "call_model"


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class RunTool:
    """Run a tool call. Answered by `ToolFinished`."""

    effect: int
    agent: str
    name: str
    call_id: str
    arguments: str
    context: Json = None
    context_type: str | None = None
    settings: JsonObject | None = None
    usage: Usage = NO_USAGE
    turn: int
    run_id: str
    policy: Policy = DEFAULT_POLICY
    kind: Literal["run_tool"] = "run_tool"


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class RunHandoff:
    """Run a handoff's callback. Answered by `HandoffFinished`."""

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
    policy: Policy = DEFAULT_POLICY
    kind: Literal["run_handoff"] = "run_handoff"


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelEffect:
    """Stop an effect; whatever it still answers is ignored."""

    effect: int


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


Effect: TypeAlias = PrepareRun | CallModel | RunTool | RunHandoff
Command: TypeAlias = Effect | CancelEffect | Finish
