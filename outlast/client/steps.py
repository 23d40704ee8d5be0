"""What a run did, step by step: model calls, tools, handoffs, checks, approvals, takeovers.

Read from the run's own history, so every reader of it sees the same steps. Needs no worker.
"""

from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from outlast.client.handle import RunHandle
from outlast.client.read.history import Progress
from outlast.contract.blobs import readable
from outlast.contract.effects import kind_of
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.calls import AgentResult, HandoffResult, ModelReply, ToolResult
from outlast.loop.checks import CheckResult, FinalizedAnswer, GuardrailRecord
from outlast.loop.effects import (
    CallModel,
    CheckInput,
    Effect,
    EffectAnswered,
    EffectEvent,
    EffectFailed,
    FinalizeAnswer,
    KeepLineOpen,
    RunAgent,
    RunHandoff,
    RunTool,
)
from outlast.loop.events import EffectBlocked, Event
from outlast.loop.items import text_of
from outlast.loop.run_changes import (
    AgentChanged,
    HoldReleased,
    HoldTaken,
    RequestUpdated,
    run_changes,
)
from outlast.loop.state import LoopState
from outlast.loop.values import NO_USAGE, Failure, Json, Usage

StepKind: TypeAlias = Literal[
    "model_call",
    "tool",
    "nested_run",
    "handoff",
    "guardrails",
    "answer",
    "approval",
    "takeover",
    "call",
    "other",
]
"""What a step is: `answer` checks and settles an answer, `call` is a call on a realtime line, and
`other` is work beside the conversation, such as saving the session."""

StepStatus: TypeAlias = Literal["running", "done", "failed", "cancelled"]

_KINDS: Final[dict[type[Effect], StepKind]] = {
    CallModel: "model_call",
    RunTool: "tool",
    RunAgent: "nested_run",
    RunHandoff: "handoff",
    CheckInput: "guardrails",
    FinalizeAnswer: "answer",
    KeepLineOpen: "call",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStep:
    """One step of a run.

    Attributes:
        id: tells it from the other steps of the run, and stays the same.
        kind: what it is.
        name: the tool or handoff; of other steps, what they do in words.
        agent: the agent whose step it is; of a handoff, the one that gives the conversation on.
        turn: the model call of the run to which it belongs, from 1; 0 for none.
        began_ms: when it began, in milliseconds since the epoch; 0 if the history does not say.
        ended_ms: when it ended; None while it runs, or waits for a person.
        status: what became of it. An approval is `done` with a decision, whatever it was.
        arguments: the arguments of a call, as JSON text.
        output: what came of it: what a model wrote to people, or a tool's output.
        usage: the tokens of a model call, or of a nested run.
        model: the model of a model call.
        target: the agent of a handoff or of a nested run.
        nested_id: the nested run.
        request_id: the approval request.
        by: the person of an approval or a takeover; empty for nobody.
        outcome: the status of an approval request.
        guardrails: the results of guardrails.
        failure: why it failed.
        lacks: what no worker has that it needs; empty while it does not wait for a worker.
    """

    id: str
    kind: StepKind
    name: str = ""
    agent: str = ""
    turn: int = 0
    began_ms: int = 0
    ended_ms: int | None = None
    status: StepStatus = "running"
    arguments: str | None = None
    output: Json = None
    usage: Usage = NO_USAGE
    model: str = ""
    target: str = ""
    nested_id: str = ""
    request_id: str = ""
    by: str = ""
    outcome: str = ""
    guardrails: tuple[GuardrailRecord, ...] = ()
    failure: Failure | None = None
    lacks: str = ""


@dataclass
class StepLog:
    """Collects the steps of a run from its progress, in the order in which they began."""

    state: LoopState = field(default_factory=LoopState)
    _steps: dict[str, RunStep] = field(default_factory=dict[str, RunStep])
    _holds: int = 0
    _handoffs: int = 0

    @property
    def steps(self) -> tuple[RunStep, ...]:
        """The steps so far."""
        return tuple(self._steps.values())

    def take(self, progress: Progress) -> tuple[RunStep, ...]:
        """Take what happened next, and return the steps that are new or different."""
        before, event, after = self.state, progress.event, progress.state
        self.state = after
        if after is before:
            return ()
        at_ms = after.at_ms if event is None else event.at_ms
        changed = [
            *self._ended(before, event, at_ms, after),
            *self._begun(before, at_ms, after),
            *self._of_people(before, event, after, at_ms),
            *self._blocked(event),
        ]
        for step in changed:
            self._steps[step.id] = step
        return tuple({step.id: self._steps[step.id] for step in changed}.values())

    def _begun(self, before: LoopState, at_ms: int, after: LoopState) -> Iterable[RunStep]:
        if after.pending is before.pending:
            return
        earlier = {effect.effect for effect in before.pending}
        for effect in after.pending:
            if effect.effect not in earlier:
                yield _of_effect(effect, after, at_ms)

    def _ended(
        self, before: LoopState, event: Event | None, at_ms: int, after: LoopState
    ) -> Iterable[RunStep]:
        left = {effect.effect for effect in after.pending}
        for effect in before.pending:
            step = self._steps.get(_id_of(effect.effect))
            if effect.effect in left or step is None:
                continue
            if isinstance(event, EffectAnswered | EffectFailed) and event.effect == effect.effect:
                yield _with_result(step, event)
            else:
                yield replace(step, status="cancelled", ended_ms=at_ms, lacks="")

    def _of_people(
        self, before: LoopState, event: Event | None, after: LoopState, at_ms: int
    ) -> Iterable[RunStep]:
        for change in run_changes(before, event, after):
            match change:
                case RequestUpdated(request=request):
                    yield _of_request(request, after)
                case HoldTaken(by=by):
                    yield from self._released(at_ms)
                    self._holds += 1
                    yield RunStep(
                        id=f"hold-{self._holds}",
                        kind="takeover",
                        name="takeover",
                        by=by,
                        began_ms=at_ms,
                    )
                case HoldReleased():
                    yield from self._released(at_ms)
                case AgentChanged(agent=agent, before=giver) if giver:
                    yield from self._handed_over(giver, agent, at_ms, after)
                case _:
                    pass

    def _released(self, at_ms: int) -> Iterable[RunStep]:
        step = self._steps.get(f"hold-{self._holds}")
        if step is not None and step.ended_ms is None:
            yield replace(step, ended_ms=at_ms, status="done")

    def _handed_over(
        self, giver: str, agent: str, at_ms: int, after: LoopState
    ) -> Iterable[RunStep]:
        """Yield a handoff without user code, which takes no time and has no effect."""
        newest = next(reversed(self._steps.values()), None)
        is_told = newest is not None and (newest.kind, newest.ended_ms) == ("handoff", at_ms)
        if is_told:
            return
        self._handoffs += 1
        yield RunStep(
            id=f"handoff-{self._handoffs}",
            kind="handoff",
            name=f"{giver} to {agent}",
            agent=giver,
            target=agent,
            turn=after.turns,
            began_ms=at_ms,
            ended_ms=at_ms,
            status="done",
        )

    def _blocked(self, event: Event | None) -> Iterable[RunStep]:
        if isinstance(event, EffectBlocked):
            step = self._steps.get(_id_of(event.effect))
            if step is not None and step.status == "running":
                yield replace(step, lacks=event.lacks)


async def read_steps(handle: RunHandle) -> tuple[LoopState, tuple[RunStep, ...]]:
    """Return the present state of a run, and its steps from the first one on.

    Raises:
        RunNotFound: there is no such run.
    """
    log = StepLog()
    async with aclosing(handle.past()) as past:
        async for progress in past:
            log.take(progress)
    return log.state, log.steps


def _id_of(effect: int) -> str:
    return f"e{effect}"


def _of_effect(effect: Effect, state: LoopState, at_ms: int) -> RunStep:
    kind = _KINDS.get(type(effect), "other")
    step = RunStep(
        id=_id_of(effect.effect),
        kind=kind,
        name=kind_of(effect).label(effect),
        agent=getattr(effect, "agent", ""),
        turn=0 if kind == "other" else state.turns,
        began_ms=at_ms,
    )
    match effect:
        case CallModel():
            return replace(step, model=state.model, name=state.model)
        case RunTool(name=name, arguments=arguments):
            return replace(step, name=name, arguments=arguments)
        case RunAgent(name=name, arguments=arguments, target=target, nested_id=nested_id):
            return replace(step, name=name, arguments=arguments, target=target, nested_id=nested_id)
        case RunHandoff(target=target):
            return replace(step, name=f"{effect.agent} to {target}", target=target)
        case _:
            return step


def _with_result(step: RunStep, event: EffectEvent) -> RunStep:
    step = replace(step, ended_ms=event.at_ms, status="done", lacks="")
    if isinstance(event, EffectFailed):
        return replace(step, status="failed", failure=event.failure)
    match event.result:
        case ModelReply() as reply:
            said = "\n\n".join(filter(None, map(text_of, map(readable, reply.items))))
            step = replace(
                step,
                output=said or None,
                usage=reply.usage,
                model=reply.model or step.model,
                name=reply.model or step.model,
                guardrails=reply.checks,
                failure=reply.failure,
            )
        case ToolResult() as result:
            step = replace(
                step,
                output=readable(result.output),
                guardrails=result.checks,
                failure=result.failure,
                status="failed" if result.failed else "done",
            )
        case AgentResult() as result:
            step = replace(
                step,
                output=readable(result.final_output),
                usage=result.usage,
                failure=result.failure,
                status="cancelled" if result.status == "cancelled" else "done",
            )
        case CheckResult(results=results, failure=failure):
            step = replace(step, guardrails=results, failure=failure)
        case FinalizedAnswer() as answer:
            step = replace(step, guardrails=answer.results, failure=answer.failure)
        case HandoffResult(target=target):
            step = replace(step, target=target or step.target)
        case _:
            pass
    return step if step.failure is None else replace(step, status="failed")


def _of_request(request: ApprovalRequest, state: LoopState) -> RunStep:
    is_open = request.status == "pending"
    is_void = request.status in {"cancelled", "superseded"}
    ended_ms = None if is_open else request.decided_at_ms or state.at_ms
    return RunStep(
        id=request.id,
        kind="approval",
        name=request.name,
        agent=request.agent,
        turn=state.turns,
        began_ms=request.requested_at_ms,
        ended_ms=ended_ms,
        status="running" if is_open else "cancelled" if is_void else "done",
        arguments=request.arguments,
        request_id=request.id,
        by=request.settled_by or "",
        outcome=request.status,
    )
