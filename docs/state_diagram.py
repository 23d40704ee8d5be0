"""Draws docs/concepts/state-diagram.md from the loop, by trying every event in every kind of state.

python docs/state_diagram.py            writes the page
python docs/state_diagram.py --print    print the page instead of writing it
"""

import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import get_args, get_origin

from outlast.loop.actions import (
    CaseAction,
    ClaimAction,
    HoldAction,
    ReleaseAction,
    SayAction,
    fields_of,
)
from outlast.loop.approvals import ApprovalRequest, ApprovalTerms, Decision, Person
from outlast.loop.calls import (
    AgentResult,
    HandoffResult,
    ModelReply,
    OutsideWait,
    PlannedCall,
    PreparedRun,
    RequiredApproval,
    ToolResult,
    ViewSummary,
)
from outlast.loop.checks import CheckResult, FinalizedAnswer, RequiredStep
from outlast.loop.effects import (
    CallModel,
    CancelResponse,
    CheckInput,
    CleanUp,
    CompactView,
    CountHours,
    Effect,
    EffectAnswered,
    EffectFailed,
    FinalizeAnswer,
    KeepLineOpen,
    NotifyPeople,
    OffloadItems,
    PrepareRun,
    RunAgent,
    RunHandoff,
    RunTool,
    SaveSession,
)
from outlast.loop.events import (
    BudgetLent,
    CancelRequested,
    ConversationRated,
    EffectBlocked,
    Event,
    LineAttached,
    LineReplied,
    MessageReceived,
    MessageWithdrawn,
    NestedReported,
    PersonActed,
    RetryRequested,
    RunEnded,
    RunStarted,
    SignalUnreadable,
    TeamAnswered,
    TimePassed,
    ValueDelivered,
)
from outlast.loop.human_actions import ACTION_NAMED, row_of
from outlast.loop.items import Message
from outlast.loop.machine import advance
from outlast.loop.notices import ALL_DELIVERED
from outlast.loop.open_hours import Durations, Hours, HoursCounted
from outlast.loop.start import Budget, Customer, Parent, ReplyTimes, Start
from outlast.loop.state import LoopState
from outlast.loop.stored import OFFLOAD_ABOVE, Offload
from outlast.loop.values import Failure, JsonObject

PAGE = Path(__file__).parent / "concepts" / "state-diagram.md"
LONGEST = 9
"""How many events deep runs are tried in which nothing goes wrong."""

LONGEST_WITH_FAULTS = 7
"""The same with failures and people who stop the run: three times as many states, and the page is
complete a level earlier. Trying two more levels takes twice as long and finds nothing.
"""

ANN = Person(subject="ann")
ONE_DAY_MS = 86_400_000
SHORT = ApprovalTerms(expires_in_ms=ONE_DAY_MS)
WITHIN = ApprovalTerms(hours=Hours(within="support-hours", open=Durations()))
FATAL = replace(SHORT, on_expiry="fail")

LARGE = "x" * 2 * OFFLOAD_ABOVE
FAILURE = Failure(code="user_error", message="failed")

INTRODUCTION = """# What a run goes through

Drawn from the loop by `make docs`: every event was tried in every kind of state that a run can get into. An event that is not shown
changes nothing, or not the phase. An effect, such as `CallModel`, stands for its result, and a name in lower case, such as `decide`,
for what a person does. Some phases go on by themselves; an arrow ends where the run rests.

This is a run in which nothing fails or expires, and that nobody stops or interrupts. Three phases are one in
the picture: with its last answer, a run is `idle`, `closing` or `closed`. Two are left out: a person may take the conversation over between
any two steps (`held`), and input guardrails may still run beside what is over already (`turned`).

"""

LEFT_OUT = {"held", "turned"}
"""Phases that the picture leaves out, because nearly every other phase leads to them."""

ANSWERED = {"idle", "closing", "closed"}
"""Phases that the picture shows as one."""

EVERYTHING = """
And this is everything, with failures, tripwires and people who stop it:

| from | to | when |
|---|---|---|
"""

MEANING = """
| phase | what the run is doing | it rests there |
|---|---|---|
| `new` | nothing yet | until it is started |
| `preparing` | looking its first agent up; reading its session | until that is known |
| `turned` | between two turns | only while input guardrails still run beside what is over already |
| `checking` | input guardrails look at what was said, before any model does | until they let it pass |
| `thinking` | a model call is under way, perhaps with input guardrails beside it | until the reply |
| `acting` | tools and agents as tools run, wait for something outside, or people have to decide | until every call is settled |
| `transferring` | a handoff's callback, hooks and filter run | until they are done |
| `finalizing` | an answer, or a failure that may become one, is judged: rules, handlers, end hooks, output guardrails | until that is decided |
| `asking` | a person has to approve the answer | until the person does, or the model answers anew |
| `held` | a person has the conversation | until it is released |
| `idle` | a conversation waits for its next message | for as long as it takes |
| `closing` | it is known how the run ends | only while its session is being written |
| `closed` | completed, failed or cancelled | for ever |

The code is in `outlast/loop`: every transition in `machine.py`, the rules of people's decisions in `votes.py`. What is asked of the shell
is made in `effect_factory.py`.
"""


def main() -> int:
    """Write the page, or print it."""
    check_starts()
    going_well = transitions(smooth=True)
    everything = going_well | transitions()
    page = INTRODUCTION + draw(going_well) + MEANING + EVERYTHING + tell(everything)
    if "--print" in sys.argv:
        sys.stdout.write(page)
    else:
        PAGE.write_text(page)
    return 0


def draw(found: set[tuple[str, str, str]]) -> str:
    """Return the diagram in Mermaid."""
    shown = {
        tuple("answered" if part in ANSWERED else part for part in one)
        for one in found
        if not LEFT_OUT & {one[0], one[2]}
    }
    edges = _edges({(a, when, b) for a, when, b in shown if a != b})
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f'    state "{", ".join(sorted(ANSWERED))}" as answered', "    [*] --> new"]
    lines += [f"    {before} --> {after}: {', '.join(when)}" for before, after, when in edges]
    return "\n".join([*lines, "    answered --> [*]", "```", ""])


def tell(found: set[tuple[str, str, str]]) -> str:
    """Return the rows of the table."""
    return "".join(
        f"| `{before}` | `{after}` | {', '.join(f'`{event}`' for event in when)} |\n"
        for before, after, when in _edges(found)
    )


def _edges(found: set[tuple[str, str, str]]) -> list[tuple[str, str, list[str]]]:
    edges: dict[tuple[str, str], list[str]] = defaultdict(list)
    for before, event, after in sorted(found):
        edges[before, after].append(event)
    return sorted((before, after, when) for (before, after), when in edges.items())


def transitions(*, smooth: bool = False) -> set[tuple[str, str, str]]:
    """Return every change of phase that was found: (before, event, after).

    Args:
        smooth: nothing fails, and nobody stops the run.
    """
    found: set[tuple[str, str, str]] = set()
    tried = set[str]()
    level = [LoopState()]
    seen: set[str] = set()
    for depth in range(LONGEST if smooth else LONGEST_WITH_FAULTS):
        following: list[LoopState] = []
        for state in level:
            events = _starts() if state.phase == "new" else _events(state, depth)
            for event in events:
                tried.add(_name(state, event))
                if smooth and _goes_wrong(event):
                    continue
                for before, taken, after in _steps(state, event):
                    if smooth and after.failure is not None:
                        continue
                    if after.phase != before.phase:
                        found.add((before.phase, _name(before, taken), after.phase))
                    if _kind(after) not in seen:
                        seen.add(_kind(after))
                        following.append(after)
        level = following
    events = {one.__name__ for one in (*get_args(Event), *get_args(Effect)) if not get_origin(one)}
    # They change no phase: a turn may only wait for the first, nothing waits for the second, and a
    # fork begins in the phase of its source. What is set aside changes the next model call.
    events -= {"CompactView", "CancelResponse", "RunForked"}
    if smooth:  # no call is dropped
        events.remove("CleanUp")
    if missed := (events | ACTION_NAMED.keys()) - tried - {"set_aside"}:
        raise SystemExit(f"the page would say nothing of {', '.join(sorted(missed))}")
    return found


def check_starts() -> None:
    """Refuse to draw a page that leaves out a parameter of a run's start."""
    plain, *others = (advance(LoopState(), one)[0].start for one in _starts())
    left = {
        one.name
        for one in fields(Start)
        # The clock, what is in each of them, and how long something takes.
        if one.name not in {"started_at_ms", "max_turns", "resolved_stays_ms"}
        and all(getattr(other, one.name) == getattr(plain, one.name) for other in others)
    }
    if left:
        raise SystemExit(f"no run is started with {', '.join(sorted(left))}")


def _name(state: LoopState, event: Event) -> str:
    """Return the name of an event on the page: that of the action or of the effect, if it has one."""
    if isinstance(event, PersonActed):
        return row_of(event.action).name
    if isinstance(event, EffectAnswered):
        return next(type(one).__name__ for one in state.pending if one.effect == event.effect)
    return type(event).__name__


def _steps(state: LoopState, event: Event) -> Iterator[tuple[LoopState, Event, LoopState]]:
    """Yield what an event does; and if it blocks an effect, what a person can do about that."""
    after, _ = advance(state, event)
    yield state, event, after
    if isinstance(event, EffectBlocked):
        for request in (block.request for block in after.blocked):
            if request is not None:
                rejected = _decision(Decision(request_id=request.id, type="reject"))
                yield after, rejected, advance(after, rejected)[0]


def _goes_wrong(event: Event) -> bool:
    match event:
        case EffectFailed() | EffectBlocked() | CancelRequested() | TimePassed() | RunEnded():
            return True
        case MessageReceived(message=message):
            return message.mode == "interrupt"
        case EffectAnswered(result=result):
            return getattr(result, "failure", None) is not None
        case _:
            return False


def _starts() -> Iterator[RunStarted]:
    """Yield the kinds of runs: plain, kept open, with a session, with budgets, nested and so on."""
    start = Start(max_turns=2)
    run = RunStarted(at_ms=0, run_id="r", agent="A", message=_message("m0"), start=start)
    large = Message("m0", ({"role": "user", "content": LARGE},))
    yield replace(run, run_id="large", message=large)
    asking = (Budget(of="model_calls", limit=1, terms=SHORT),)
    for one in (
        start,
        replace(start, keep_open=True),
        replace(start, session=True),
        replace(start, previous_response_id="resp_0"),
        replace(start, handled=("*",)),
        replace(start, keep_open=True, budgets=asking),
        replace(start, reply_times=ReplyTimes(first_ms=ONE_DAY_MS, next_ms=ONE_DAY_MS)),
        replace(start, budgets=(Budget(of="model_calls", limit=1),)),
        replace(
            start,
            parent=Parent(run_id="p", prefix="e1."),
            budgets=(Budget(of="model_calls", limit=1, lent=0),),
            settings={},
            context_type="dict",
            chain_id="c",
            customer=Customer("rob"),
            takeover=SHORT,
        ),
    ):
        yield replace(run, start=one)


def _events(state: LoopState, depth: int) -> Iterator[Event]:
    for effect in state.pending:
        yield EffectFailed(at_ms=0, effect=effect.effect, failure=FAILURE)
        yield EffectBlocked(at_ms=0, effect=effect.effect, lacks="tool t")
        yield from _answers(effect)
        if isinstance(effect, PrepareRun) and state.run_id == "large":
            ready = PreparedRun(stores=True, notifies=True)
            yield EffectAnswered(at_ms=0, effect=effect.effect, result=ready)
        if isinstance(effect, KeepLineOpen):
            reply = ModelReply(
                items=({"type": "message", "role": "assistant", "content": "hi"},),
                response_id=f"l{depth}",
            )
            said: list[JsonObject] = [{"role": "user", "content": "hello"}]
            token = state.line_token
            yield LineReplied(at_ms=0, line=effect.line, token=token, said=said, reply=reply)
    if state.run_id == "large" or state.start.parent is not None:  # people do the same with these
        yield BudgetLent(at_ms=0, index=0, share=2)
        yield TeamAnswered(at_ms=0, team="billing", chain_id="", report=1)
        yield ConversationRated(at_ms=0, score=5)
        return
    yield from _of_people(state, depth)
    yield from _of_the_outside(state)
    yield MessageReceived(at_ms=0, message=_message(f"m{depth}"))
    yield MessageReceived(at_ms=0, message=replace(_message(f"m{depth}"), mode="interrupt"))
    for message in state.inbox:
        yield MessageWithdrawn(at_ms=0, message_id=message.id)
    yield LineAttached(at_ms=0, line="phone")
    yield SignalUnreadable(at_ms=0, name="signal x", problem="no JSON")
    yield RunEnded(at_ms=0, outcome="terminated")
    yield RetryRequested(at_ms=0, answers=len(state.answers))
    yield CancelRequested(at_ms=0)
    yield CancelRequested(at_ms=0, mode="after_turn")


def _of_people(state: LoopState, depth: int) -> Iterator[Event]:
    for request in state.pending_approvals:
        if not request.run_id:
            yield PersonActed(
                at_ms=0, action=ClaimAction(request_id=request.id, **fields_of(ANN), minutes=5)
            )
            yield _decision(Decision(request_id=request.id, type="approve"))
            yield _decision(Decision(request_id=request.id, type="reject"))
            yield _decision(Decision(request_id=request.id, type="respond", response="x"))
            yield TimePassed(at_ms=ONE_DAY_MS)
    yield PersonActed(at_ms=0, action=HoldAction(**fields_of(ANN)))
    yield PersonActed(at_ms=0, action=HoldAction(**fields_of(ANN), mode="immediate"))
    if state.phase == "held":
        yield PersonActed(
            at_ms=0, action=SayAction(**fields_of(ANN), message_id=f"s{depth}", text="hello")
        )
        yield PersonActed(at_ms=0, action=ReleaseAction(**fields_of(ANN)))
        yield PersonActed(at_ms=0, action=CaseAction(do="resolve", **fields_of(ANN)))


def _of_the_outside(state: LoopState) -> Iterator[Event]:
    """Yield that a call waits, what comes for it, and that nothing comes in time."""
    if state.start.session or state.start.handled or state.start.budgets:
        return  # calls wait in the same way in these
    for effect in state.pending:
        if type(effect) is RunTool:
            wait = OutsideWait(name="w", timeout_ms=ONE_DAY_MS, on_timeout="ask", cleanup=True)
            result = ToolResult(output=None, wait=wait)
            yield EffectAnswered(at_ms=0, effect=effect.effect, result=result)
    for call in state.calls:
        if call.status == "parked":
            yield ValueDelivered(
                at_ms=0,
                question=len(state.answers),
                turn=state.question.turn,
                call_id=call.call_id,
                name="w",
                value="x",
                delivery_id="d",
            )
            yield TimePassed(at_ms=ONE_DAY_MS)


def _answers(effect: Effect) -> Iterator[Event]:  # noqa: C901, PLR0912  a table
    """Yield what an effect may come to, besides its failure."""
    number = effect.effect
    match effect:
        case CountHours():
            yield EffectAnswered(at_ms=0, effect=number, result=HoursCounted())
        case OffloadItems():
            yield EffectAnswered(at_ms=0, effect=number, result=Offload())
        case PrepareRun():
            for required_steps in _duties():
                yield EffectAnswered(
                    at_ms=0, effect=number, result=PreparedRun(required_steps=required_steps)
                )
        case CheckInput():
            yield EffectAnswered(at_ms=0, effect=number, result=CheckResult())
            yield EffectAnswered(at_ms=0, effect=number, result=CheckResult(failure=FAILURE))
        case CallModel():
            for reply in _replies():
                yield EffectAnswered(at_ms=0, effect=number, result=reply)
        case CleanUp():
            yield EffectAnswered(at_ms=0, effect=number, result=ToolResult(output=None))
        case CompactView():
            yield EffectAnswered(at_ms=0, effect=number, result=ViewSummary())
        case RunTool():
            yield EffectAnswered(at_ms=0, effect=number, result=ToolResult(output="x", value="x"))
            yield EffectAnswered(
                at_ms=0, effect=number, result=ToolResult(output="x", failure=FAILURE)
            )
        case RunAgent():
            yield from _of_nested_run(effect)
        case RunHandoff():
            yield EffectAnswered(at_ms=0, effect=number, result=HandoffResult())
        case FinalizeAnswer():
            for conclusion in _conclusions():
                yield EffectAnswered(at_ms=0, effect=number, result=conclusion)
        case SaveSession() | KeepLineOpen() | CancelResponse():
            yield EffectAnswered(at_ms=0, effect=number, result=None)
        case NotifyPeople():
            yield EffectAnswered(at_ms=0, effect=number, result=ALL_DELIVERED)


def _of_nested_run(effect: RunAgent) -> Iterator[Event]:
    """Yield what an agent that works as a tool tells: its end, and what it asks people."""
    yield EffectAnswered(at_ms=0, effect=effect.effect, result=AgentResult(final_output="x"))
    asked = ApprovalRequest(
        id="e1.a1",
        call_id="c",
        name="t",
        arguments="{}",
        args_digest="",
        agent="B",
        requested_at_ms=0,
        run_id=effect.nested_id,
    )
    for requests in ((), (asked,)):
        yield NestedReported(at_ms=0, nested_id=effect.nested_id, requests=requests)


def _conclusions() -> Iterator[FinalizedAnswer]:
    yield FinalizedAnswer()
    yield FinalizedAnswer(final=False)
    yield FinalizedAnswer(final=False, declined=True)
    yield FinalizedAnswer(failure=FAILURE)


def _duties() -> Iterator[tuple[RequiredStep, ...]]:
    yield ()
    yield ("check_first",)
    yield ("check",)
    yield ("finalize_answer",)
    yield ("check", "finalize_answer")


def _replies() -> Iterator[ModelReply]:
    yield ModelReply(items=({"type": "message", "role": "assistant", "content": "hello"},))
    approved = ModelReply(items=({"type": "message", "role": "assistant", "content": "hello"},))
    yield replace(approved, answer_terms=SHORT)
    yield replace(approved, answer_terms=FATAL)
    yield ModelReply(items=({"type": "web_search_call"},), final="again")
    yield ModelReply(items=(), failure=FAILURE)
    for plan in (
        PlannedCall(item=0, kind="tool"),
        PlannedCall(item=0, kind="tool", approval=RequiredApproval()),
        PlannedCall(item=0, kind="tool", approval=RequiredApproval(terms=SHORT)),
        PlannedCall(item=0, kind="tool", approval=RequiredApproval(terms=WITHIN)),
        PlannedCall(item=0, kind="tool", approval=RequiredApproval(terms=FATAL)),
        PlannedCall(item=0, kind="tool", fatal=True),
        PlannedCall(item=0, kind="tool", final=True),
        PlannedCall(item=0, kind="agent", target="B"),
        PlannedCall(item=0, kind="unknown", problem="There is no such tool."),
        PlannedCall(item=0, kind="handoff", target="B"),
        PlannedCall(item=0, kind="handoff", target="B", approval=RequiredApproval()),
        PlannedCall(item=0, kind="handoff", target="B", callback=True),
    ):
        yield ModelReply(items=(_call("c"),), calls=(plan,))
    judged = (PlannedCall(item=0, kind="tool"),)
    yield ModelReply(items=(_call("c"),), calls=judged, judged=True)
    both = (
        PlannedCall(item=0, kind="tool"),
        PlannedCall(item=1, kind="handoff", target="B", callback=True),
    )
    yield ModelReply(items=(_call("c"), _call("d")), calls=both)


def _call(call_id: str) -> JsonObject:
    return {"type": "function_call", "call_id": call_id, "name": "t", "arguments": "{}"}


def _message(name: str) -> Message:
    return Message(name, ({"role": "user", "content": "hello"},))


def _decision(decision: Decision) -> PersonActed[Decision]:
    return PersonActed(at_ms=0, action=decision)


def _kind(state: LoopState) -> str:
    """Return what tells states apart, as far as the phases go."""
    calls = [
        (call.status, call.plan.kind, call.plan.fatal, call.plan.callback, call.plan.final)
        for call in state.calls
    ]
    candidate = state.question.candidate
    return repr(
        (
            (
                state.phase,
                state.start.keep_open,
                state.question.turn,
                calls,
                state.cancel,
                bool(state.inbox),
                state.hold is not None,
            ),
            (
                [effect.kind for effect in state.pending],
                state.required_steps,
                state.question.judged,
            ),
            (state.start.session, state.start.handled, state.closing, bool(state.nested)),
            (bool(state.start.budgets), state.run_id, state.notifies),
            None if candidate is None else (bool(candidate.failure), bool(candidate.outcomes)),
        )
    )


if __name__ == "__main__":
    sys.exit(main())
