"""The stages of a run: its questions, agents, turns, handoffs, nested runs and waits for people.

Owns: `Stage`; the stages of a state; which stages begin and end between two states. Nothing in a
run depends on its stages, so an observer of them cannot change it. Must not know: traces.

The workflow calls `advanced` for every event, also in a replay, and passes the changes to its
worker when an event is new. Stages remember what the state does not: when they began, and what the
run had spent by then. A run that continues as new carries them beside its state.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from outlast.contract import failures
from outlast.loop import phrases
from outlast.loop.call_forms import arguments_of, name_of
from outlast.loop.calls import AgentResult, Call, HandoffResult, ModelReply, PlannedCall
from outlast.loop.checks import FinalizedAnswer
from outlast.loop.effects import (
    EffectAnswered,
    EffectFailed,
    Result,
    RunAgent,
    RunHandoff,
)
from outlast.loop.events import Event, MessageReceived
from outlast.loop.items import call_id_of
from outlast.loop.state import LoopState
from outlast.loop.values import NO_USAGE, Failure, JsonObject, Usage, is_reference, placeholder

StageKind: TypeAlias = Literal[
    "question", "agent", "turn", "handoff", "nested_run", "wait", "refused_call", "rating"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A part of a run that has a beginning and an end.

    Attributes:
        kind: a question, an agent's work on it, a turn, a handoff, the run of an agent that works
            as a tool, a wait for people, a call that does not run, or a customer's rating. A wait
            begins and ends in the event that ends it, the last two in the event that tells so.
        question: how many questions of the run were settled before.
        handovers: how often the run had changed hands.
        turn: the number of the turn; 0 outside of turns.
        effect: the number of the effect; 0 for stages without one.
        request: of a wait: the id of the request, or when the takeover began; of a call: when it
            ended, its place among the calls by then and its id, with colons between; of a rating:
            when it came.
        agent: the agent at work.
        name: of a nested run or a call: the name of its tool; of a wait: what waited, such as a
            tool; of a rating: its score.
        arguments: of a nested run or a call: those of the call; of a rating: the customer's words.
        targets: of a handoff: the agents of all handoffs in the reply; the first one counts. Of a
            wait: what people were asked for, such as `tool` or `budget`, or `takeover`.
        since_ms: when it began.
        spent: what the run had spent by then.
        caller: of a question: the `traceparent` of the program that sent its message.
    """

    kind: StageKind
    question: int
    handovers: int = 0
    turn: int = 0
    effect: int = 0
    agent: str = ""
    name: str = ""
    arguments: str = ""
    targets: tuple[str, ...] = ()
    request: str = ""
    since_ms: int = 0
    spent: Usage = NO_USAGE
    caller: str = ""

    @property
    def identity(self) -> tuple[str, int, int, int, int, str]:
        """The key of the stage, which no other stage of the run has."""
        return (
            self.kind,
            self.question,
            self.handovers,
            self.turn,
            self.effect,
            self.request,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StageBegun:
    """A stage began."""

    stage: Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEnded:
    """A stage is over.

    Attributes:
        stage: which.
        at_ms: when it ended.
        usage: what was spent in it.
        output: what a nested run came to, in words; how a wait ended, such as `approved`.
        by: of a wait: who decided, in order.
        target: the agent that took over at the end of a handoff.
        failure: why it failed, if it did.
        reported: the error that the program reported of a handoff that took place.
    """

    stage: Stage
    at_ms: int
    usage: Usage = NO_USAGE
    output: str | None = None
    by: tuple[str, ...] = ()
    target: str = ""
    failure: Failure | None = None
    reported: JsonObject | None = None


StageChange: TypeAlias = StageBegun | StageEnded

StageObserver: TypeAlias = Callable[[LoopState, tuple[StageChange, ...]], None]
"""Gets the newest state of a run, and what began and ended with the newest event."""


def resumed(state: LoopState, carried: tuple[Stage, ...] | None = None) -> tuple[Stage, ...]:
    """Return the stages of a run that goes on from a state.

    Args:
        state: the state.
        carried: the stages that came with it; None for a state alone, whose stages then count
            from the start of the run.
    """
    if carried is not None:
        return carried
    return _under_way(state, state.start.started_at_ms, NO_USAGE)


def advanced(
    stages: tuple[Stage, ...], before: LoopState, event: Event, after: LoopState
) -> tuple[tuple[Stage, ...], tuple[StageChange, ...]]:
    """Return the stages after an event, outermost first, and those that began and ended.

    Args:
        stages: those before the event.
        before: the state before it.
        event: what happened.
        after: the state after it.
    """
    if after is before:
        return stages, ()
    waits = (
        *_waits(stages, before, event, after),
        *_not_run(stages, before, event, after),
        *_rated(before, event, after),
    )
    if stages and _place(after) == _place(before):
        return stages, waits
    now = (*_under_way(after, event.at_ms, after.usage), *_interrupted(stages, after))
    running = {one.identity: one for one in stages}
    kept = {one.identity for one in now}
    begun = {
        one.identity: _with_targets(_called(one, before, event, after), before, event)
        for one in now
        if one.identity not in running
    }
    changes: list[StageChange] = [
        *waits,
        *_handed_over(stages, before, event, after),
        *(
            _ended(one, event, after)
            for one in sorted(stages, key=_depth, reverse=True)
            if one.identity not in kept
        ),
        *_settled_at_once(stages, before, event, after),
        *(StageBegun(stage=one) for one in begun.values()),
    ]
    if not changes:
        return stages, ()
    return tuple(running.get(one.identity) or begun[one.identity] for one in now), tuple(changes)


def _place(state: LoopState) -> tuple[object, ...]:
    """Return the parts of a state that decide its stages; most events change none."""
    inner = [one.effect for one in state.pending if isinstance(one, RunHandoff | RunAgent)]
    is_over = not state.question.answering or state.phase in {"closing", "closed"}
    return is_over, len(state.answers), len(state.handoff_path), _turn(state), inner


def _under_way(state: LoopState, since_ms: int, spent: Usage) -> tuple[Stage, ...]:
    """Return the stages of a state, each as if it began at a time, after so much was spent."""
    if not state.question.answering or state.phase in {"closing", "closed"}:
        return ()
    number, handovers, turn = len(state.answers), len(state.handoff_path) - 1, _turn(state)
    stages = [
        Stage(kind="question", question=number, since_ms=since_ms, spent=spent),
        Stage(
            kind="agent",
            question=number,
            handovers=handovers,
            agent=state.agent,
            since_ms=since_ms,
            spent=spent,
        ),
    ]
    within = Stage(
        kind="turn",
        question=number,
        handovers=handovers,
        turn=turn,
        agent=state.agent,
        since_ms=since_ms,
        spent=spent,
    )
    if turn > 0:
        stages.append(within)
    for effect in state.pending:
        if isinstance(effect, RunHandoff):
            stages.append(replace(within, kind="handoff", targets=(effect.target,)))
        elif isinstance(effect, RunAgent):
            stages.append(
                replace(
                    within,
                    kind="nested_run",
                    effect=effect.effect,
                    name=effect.name,
                    arguments=effect.arguments,
                )
            )
    return tuple(stages)


def _interrupted(stages: tuple[Stage, ...], state: LoopState) -> tuple[Stage, ...]:
    """Return the first turn of a question that waits for a person before its model call."""
    if (
        state.phase not in {"held", "asking"}
        or not state.question.answering
        or state.question.turn > 0
    ):
        return ()
    first = len(state.answers), len(state.handoff_path) - 1, 1
    return tuple(
        one
        for one in stages
        if one.kind == "turn" and (one.question, one.handovers, one.turn) == first
    )


def _turn(state: LoopState) -> int:
    """Return the number of the current turn; 0 between turns.

    A question's first input is checked in its first turn, later input between turns.
    """
    if state.phase == "checking":
        return 1 if state.question.turn == 0 else 0
    if state.phase in {"thinking", "acting", "transferring"}:
        return state.question.turn
    candidate = state.question.candidate
    return state.question.turn if candidate is not None and candidate.failure is None else 0


def _ended(stage: Stage, event: Event, after: LoopState) -> StageEnded:
    at_ms = max(event.at_ms, stage.since_ms)
    if stage.kind == "handoff":
        return _handoff_ended(StageEnded(stage=stage, at_ms=at_ms), event)
    if stage.kind == "nested_run":
        return _nested_run_ended(StageEnded(stage=stage, at_ms=at_ms), event)
    failure = _failure_of(stage.question, after)
    if stage.kind == "turn":
        failure = None if isinstance(_result(event), FinalizedAnswer) else failure
        if failure is not None and failure.code == failures.MAX_TURNS_EXCEEDED:
            failure = None  # it is the next turn that was not to be
    elif len(after.answers) == stage.question and after.phase not in {"closing", "closed"}:
        failure = None  # the agent handed over, and a handler may still answer
    usage = after.usage.minus(stage.spent)
    return StageEnded(stage=stage, at_ms=at_ms, usage=usage, failure=failure)


def _result(event: Event) -> Result:
    """Return the result of an effect, if the event tells of one."""
    return event.result if isinstance(event, EffectAnswered) else None


def _failure_of(question: int, after: LoopState) -> Failure | None:
    """Return why a question failed, or is about to; None where it did not."""
    if question < len(after.answers):
        return after.answers[question].failure
    if after.phase in {"closing", "closed"}:
        return Failure(code=failures.CANCELLED, message=phrases.STOPPED)
    candidate = after.question.candidate
    return candidate.failure if candidate is not None else None


def _handoff_ended(over: StageEnded, event: Event) -> StageEnded:
    target = over.stage.targets[0]
    result = _result(event)
    if isinstance(result, HandoffResult):
        return replace(over, target=result.target or target, reported=result.reported)
    failure = event.failure if isinstance(event, EffectFailed) else _CUT_OFF
    return replace(over, target=target, failure=failure)


def _nested_run_ended(over: StageEnded, event: Event) -> StageEnded:
    if not isinstance(event, EffectAnswered | EffectFailed) or event.effect != over.stage.effect:
        return replace(over, failure=_CUT_OFF)
    if isinstance(event, EffectFailed):
        return replace(over, failure=event.failure)
    result = event.result
    if not isinstance(result, AgentResult):  # no answer of a nested run: time ended it meanwhile
        return replace(over, failure=_CUT_OFF)
    if result.status != "completed":
        return replace(over, failure=result.failure or _CUT_OFF)
    output = result.final_output
    return replace(
        over, output=placeholder(output) if is_reference(output) else phrases.as_text(output)
    )


_CUT_OFF = Failure(code=failures.CANCELLED, message="It was cancelled.")


def _handed_over(
    stages: tuple[Stage, ...], before: LoopState, event: Event, after: LoopState
) -> tuple[StageChange, ...]:
    """Return the changes of a handoff without user code, which takes no time."""
    turn = next((one for one in stages if one.kind == "turn"), None)
    has_stage = any(one.kind == "handoff" for one in stages)
    if turn is None or has_stage or len(after.handoff_path) == len(before.handoff_path):
        return ()
    stage = _with_targets(
        replace(turn, kind="handoff", since_ms=event.at_ms, targets=(after.handoff_path[-1],)),
        before,
        event,
    )
    ended = StageEnded(stage=stage, at_ms=event.at_ms, target=after.handoff_path[-1])
    return StageBegun(stage=stage), ended


def _with_targets(stage: Stage, before: LoopState, event: Event) -> Stage:
    """Return a handoff with the agents of the reply's other handoffs, which are ignored."""
    if stage.kind != "handoff":
        return stage
    result = _result(event)
    plans: tuple[PlannedCall, ...] = (
        result.calls
        if isinstance(result, ModelReply)
        else tuple(call.plan for call in before.calls)
    )
    _, *others = [plan.target for plan in plans if plan.kind == "handoff"] or [""]
    return replace(stage, targets=(stage.targets[0], *others))


def _called(stage: Stage, before: LoopState, event: Event, after: LoopState) -> Stage:
    """Return a question that begins with its caller: that of the first message that it answers."""
    if stage.kind != "question":
        return stage
    arrived = (event.message,) if isinstance(event, MessageReceived) else ()
    messages = (one for one in (*before.inbox, *arrived) if one.id in after.question.answering)
    caller = next((one.caller for one in messages if one.caller), "")
    return replace(stage, caller=caller) if caller else stage


def _settled_at_once(
    stages: tuple[Stage, ...], before: LoopState, event: Event, after: LoopState
) -> tuple[StageChange, ...]:
    """Return the changes of questions that began and ended with one event, without a turn."""
    running = {one.question for one in stages}
    changes: list[StageChange] = []
    for number in range(len(before.answers), len(after.answers)):
        answer = after.answers[number]
        if number in running or not answer.to:
            continue
        question = Stage(kind="question", question=number, since_ms=event.at_ms)
        handovers = len(after.handoff_path) - 1
        agent = replace(question, kind="agent", agent=answer.agent, handovers=handovers)
        changes += [StageBegun(stage=question), StageBegun(stage=agent)]
        changes += [
            StageEnded(stage=one, at_ms=event.at_ms, failure=answer.failure)
            for one in (agent, question)
        ]
    return tuple(changes)


def _waits(
    stages: tuple[Stage, ...], before: LoopState, event: Event, after: LoopState
) -> tuple[StageChange, ...]:
    """Return the waits for people that are over, of the run itself; nested runs have their own."""
    if before.approvals is after.approvals and before.hold is after.hold:
        return ()
    around = next((one for one in reversed(stages) if one.kind in {"turn", "agent"}), None)
    place = around or Stage(kind="wait", question=len(before.answers), agent=before.agent)
    over: list[tuple[Stage, str, tuple[str, ...]]] = []
    pending = {one.id: one for one in before.approvals if one.status == "pending"}
    for one in after.approvals:
        if one.id in pending and one.status != "pending":
            waited = replace(place, request=one.id, name=one.name, targets=(one.kind,))
            by = tuple(vote.decision.by for vote in one.votes if vote.decision.by)
            over.append((replace(waited, since_ms=one.requested_at_ms), one.status, by))
    hold = before.hold
    if hold is not None and (after.hold is None or after.hold.at_ms != hold.at_ms):
        taken = replace(place, request=str(hold.at_ms), name="takeover", targets=("takeover",))
        by = (hold.by,) if hold.by else ()
        over.append((replace(taken, since_ms=hold.at_ms), "released", by))
    changes: list[StageChange] = []
    for one, outcome, by in over:
        stage = replace(one, kind="wait", arguments="", spent=NO_USAGE)
        at_ms = max(event.at_ms, stage.since_ms)
        ended = StageEnded(stage=stage, at_ms=at_ms, output=outcome, by=by)
        changes += [StageBegun(stage=stage), ended]
    return tuple(changes)


def _rated(before: LoopState, event: Event, after: LoopState) -> tuple[StageChange, ...]:
    """Return a rating, which belongs to the newest question that has an answer."""
    rating = after.case.rating
    if rating is None or rating == before.case.rating:
        return ()
    stage = Stage(
        kind="rating",
        question=max(len(after.answers) - 1, 0),
        handovers=len(after.handoff_path) - 1,
        agent=after.agent,
        name=str(rating.score),
        arguments=rating.text,
        request=str(rating.at_ms),
        since_ms=event.at_ms,
    )
    return StageBegun(stage=stage), StageEnded(stage=stage, at_ms=event.at_ms)


def _not_run(
    stages: tuple[Stage, ...], before: LoopState, event: Event, after: LoopState
) -> tuple[StageChange, ...]:
    """Return the calls of tools that end without an effect: refused, rejected or dropped."""
    reply = _result(event)
    found: list[tuple[int, str, str, str, Failure]] = []
    if isinstance(reply, ModelReply):
        for place, plan in enumerate(reply.calls):
            if plan.problem is not None and plan.item < len(reply.items):
                raw, refused = reply.items[plan.item], _refused(plan)
                found.append((place, call_id_of(raw), name_of(raw), arguments_of(raw), refused))
    elif before.calls and before.calls is not after.calls:
        found += (
            (place, one.call_id, one.name, one.arguments, _dropped(one, after))
            for place, one in _ended_calls(before, after)
        )
    if not found:
        return ()
    turn = next((one for one in reversed(stages) if one.kind in {"turn", "agent"}), None)
    if turn is None:
        return ()
    changes: list[StageChange] = []
    for place, call_id, name, arguments, failure in found:
        stage = replace(
            turn,
            kind="refused_call",
            # models repeat ids, also between replies to one message, and a retried question asks again
            request=f"{event.at_ms}:{place}:{call_id}",
            name=name,
            arguments=arguments,
            since_ms=event.at_ms,
            spent=NO_USAGE,
        )
        ended = StageEnded(stage=stage, at_ms=event.at_ms, failure=failure)
        changes += [StageBegun(stage=stage), ended]
    return tuple(changes)


def _ended_calls(before: LoopState, after: LoopState) -> Iterator[tuple[int, Call]]:
    """Yield the calls that have ended, and never ran, with their places."""
    now = {(one.plan.item, one.call_id): one for one in after.calls}  # models repeat ids
    for place, one in enumerate(before.calls):
        is_tool = one.plan.kind in {"tool", "agent"} and one.plan.problem is None
        if is_tool and one.effect is None and one.status in {"planned", "waiting"}:
            newer = now.get((one.plan.item, one.call_id))
            if newer is None or (newer.effect is None and newer.status in {"settled", "recorded"}):
                yield place, one


def _refused(plan: PlannedCall) -> Failure:
    code = "unknown_tool" if plan.kind == "unknown" else "invalid_call"
    return Failure(code=code, message=plan.problem or "")


def _dropped(call: Call, after: LoopState) -> Failure:
    asked = next((one for one in after.approvals if one.id == call.approval), None)
    if asked is not None and asked.status in {"rejected", "expired"}:
        return Failure(code=asked.status, message=f"People decided: {asked.status}.")
    return _CUT_OFF


def _depth(stage: Stage) -> int:
    return {"question": 0, "agent": 1, "turn": 2}.get(stage.kind, 3)
