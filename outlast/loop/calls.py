"""The calls in a model's reply: what was planned for each, and how far each has come.

Owns: the plan that the model activity makes (`PlannedCall`, `Policy`), what comes back from
effects (`ModelReply`, `ToolResult`, `Briefing`), and a call's progress (`Call`). Must not know: when what happens;
that is `machine.py`.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from outlast.loop.changes import Change
from outlast.loop.values import NO_USAGE, Failure, Json, JsonObject, Usage

CallKind: TypeAlias = Literal["tool", "handoff", "unknown"]
CallStatus: TypeAlias = Literal["planned", "waiting", "running", "held", "settled"]
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
class PlannedCall:
    """What one call in a reply is, decided once by the model activity and recorded.

    Attributes:
        item: which of the reply's items it is.
        kind: a tool, a handoff, or a name that nobody offers.
        problem: why it cannot run, in words for the model; it is then the call's output.
        needs_approval: a person decides before it runs.
        reason: why a person decides.
        fatal: a failure ends the run instead of being told to the model.
        target: the agent that a handoff leads to.
        target_model: the model of that agent, for people to read.
        callback: the handoff has a callback to run.
        policy: how it is run.
    """

    item: int
    kind: CallKind
    problem: str | None = None
    needs_approval: bool = False
    reason: str | None = None
    fatal: bool = False
    target: str = ""
    target_model: str = ""
    callback: bool = False
    policy: Policy = DEFAULT_POLICY


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

    def __post_init__(self) -> None:
        """Refuse a plan that does not fit the reply, so that no call can go unanswered.

        Raises:
            ValueError: a plan points nowhere, or twice to one item, or a call has no plan.
        """
        calls = [at for at, raw in enumerate(self.items) if raw.get("type") == "function_call"]
        if sorted(plan.item for plan in self.calls) != calls:
            raise ValueError("the plan does not have exactly one entry for each call of the reply")
        for plan in self.calls:
            if plan.kind == "unknown" and plan.problem is None:
                raise ValueError("a call that nobody offers needs a problem to tell the model")
            if plan.kind != "tool" and plan.needs_approval:
                raise ValueError("only tools can wait for an approval")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a tool call came to: the output for the model, and the context changes.

    `failed` marks an output that describes a failure, for people to see.
    """

    output: Json
    changes: tuple[Change, ...] = ()
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffResult:
    """What a handoff callback came to."""

    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Briefing:
    """What the worker knows of the starting agent: that it exists, and its model's name.

    `context` is the empty context of its type, for a run that was started without one: so that
    two tools that run side by side change parts of one context and not the whole of it.
    """

    model: str = ""
    context: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of the current reply and how far it has come.

    `planned` only while the reply is taken in; then `waiting` for a person, `running`, `held` back (a handoff, until the others are settled), or
    `settled` with an output.
    """

    plan: PlannedCall
    call_id: str
    name: str
    arguments: str
    status: CallStatus
    effect: int | None = None
    approval: str | None = None
    output: Json = None
    changes: tuple[Change, ...] = ()
