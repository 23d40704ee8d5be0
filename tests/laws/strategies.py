"""Random runs for the laws of the loop: replies, moves, and how a move becomes an event.

Owns: the hypothesis strategies. The moves are small numbers, read against the run as it stands, so
that a failing run shrinks to the few moves that matter.
"""

import builtins
import os
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, is_dataclass, replace
from dataclasses import fields as dataclass_fields
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from outlast.contract import history
from outlast.contract.effects import EffectRequest
from outlast.contract.names import SCHEMA_VERSION
from outlast.contract.refusals import refusal_of
from outlast.loop.approvals import ApprovalRequest, ApprovalTerms, Decision
from outlast.loop.aside import RefusedEntry
from outlast.loop.calls import (
    AgentResult,
    BegunResponse,
    Call,
    ExecutionOptions,
    HandoffResult,
    ModelReply,
    OnWaitEnd,
    OutsideWait,
    PreparedRun,
    ToolResult,
    ViewSummary,
)
from outlast.loop.changes import Change
from outlast.loop.checks import CheckResult, FinalizedAnswer, GuardrailRecord, RequiredStep
from outlast.loop.effect_results import RESPONSE_NOT_FOUND
from outlast.loop.effects import (
    CallModel,
    CancelResponse,
    CheckInput,
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
    CancelRequested,
    Event,
    LineAttached,
    LineReplied,
    NestedReported,
    PersonActed,
    RetryRequested,
    TimePassed,
    ValueDelivered,
)
from outlast.loop.fallback import NEXT_MODEL
from outlast.loop.items import Item
from outlast.loop.notices import ALL_DELIVERED
from outlast.loop.start import Parent
from outlast.loop.state import LoopState
from outlast.loop.values import Failure, Json, JsonObject, ServerThread, Usage
from outlast.loop.view import ViewEdit
from tests.laws import people
from tests.laws.driver import (
    Part,
    Play,
    clock_of,
    everything_stored,
    hosted,
    nested,
    patch,
    refused,
    reply_of,
    said,
    searched,
    thought,
    tool,
    transfer,
    unknown,
)
from tests.laws.tally import TALLY

Law = TypeVar("Law", bound=Callable[..., object])


def examples(count: int) -> Callable[[Law], Law]:
    """Say how often a law is tried: `make test` tries a fifth, `make check` then all.

    `OUTLAST_LAWS=50 pytest ...` tries fifty times as often.
    """
    often = float(os.environ.get("OUTLAST_LAWS", "0.2"))
    tried = settings(max_examples=max(4, round(count * often)))
    return lambda law: pytest.mark.law(tried(law))


# --- JSON ----------------------------------------------------------------------------------------

_leaves = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from([0.0, 1.0, 0.5])
    | st.text("ab.é", max_size=2)
)
json_values: st.SearchStrategy[Any] = st.recursive(
    _leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "a.b", ""]), inner, max_size=3)
    ),
    max_leaves=6,
)


def same_json(one: Json, other: Json) -> bool:
    """Whether two values are the same JSON: to Python, true is 1 and 1 is 1.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        left, right = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        return left.keys() == right.keys() and all(same_json(left[key], right[key]) for key in left)
    if isinstance(one, list):
        mine, theirs = cast("list[Any]", one), cast("list[Any]", other)
        return len(mine) == len(theirs) and all(
            same_json(a, b) for a, b in zip(mine, theirs, strict=True)
        )
    return one == other


# --- Records -------------------------------------------------------------------------------------


def anything_like(hint: Any) -> st.SearchStrategy[Any]:  # noqa: PLR0911  one of each form
    """Any value of an annotated type: the dataclasses of the loop and of the contract."""
    if hint is ModelReply:
        return replies()
    if hint is Any:
        return json_values
    if get_origin(hint) is EffectRequest:
        (effect,) = map(anything_like, get_args(hint))
        return st.builds(EffectRequest, effect=effect, items=anything_like(tuple[Item, ...]))
    if isinstance(hint, type) and is_dataclass(hint):
        hints = get_type_hints(hint)
        fields = {field.name: anything_like(hints[field.name]) for field in dataclass_fields(hint)}
        if "schema_version" in fields:
            fields["schema_version"] = st.just(SCHEMA_VERSION)
        return st.builds(hint, **fields)
    arguments = get_args(hint)
    match get_origin(hint):
        case typing.Union | types.UnionType:
            return st.one_of([anything_like(one) for one in arguments])
        case typing.Literal:
            return st.sampled_from(arguments)
        case builtins.tuple if Ellipsis not in arguments:
            return st.tuples(*(anything_like(one) for one in arguments))
        case builtins.tuple:
            return st.lists(anything_like(arguments[0]), max_size=2).map(tuple)
        case builtins.list:
            return st.lists(anything_like(arguments[0]), max_size=2)
        case builtins.dict:
            return st.dictionaries(st.text("abé", max_size=2), json_values, max_size=2)
        case _:
            return PLAIN[hint]


PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text('ab"\\é\U0001f600\n', max_size=4),
    int: st.integers(0, 2**53),
    bool: st.booleans(),
    float: st.sampled_from([0.5, 1.0, 2.0, 3.25]),
    type(None): st.none(),
}


# --- Replies -------------------------------------------------------------------------------------

CHANGES: tuple[tuple[Change, ...], ...] = (
    (),
    (Change("set", ("n",), 1),),
    (Change("set", ("deep", "k"), None),),
    (Change("append", ("log",), ["x"]),),
    (Change("remove", ("n",)),),
    (Change("remove", ("deep",)), Change("append", ("log",), ["y", "z"])),
    (Change("set", (), {"log": []}),),
)

AGENTS = ("Triage", "Billing", "Orders")
DUTIES: tuple[tuple[RequiredStep, ...], ...] = (
    (),
    (),
    ("check", "check_said"),
    ("check_first", "finalize_answer"),
    ("finalize_answer",),
    ("check_first", "check", "finalize_answer"),
)
KINDS = [
    "text",
    "tool",
    "tool",
    "brief",
    "gated",
    "gated",
    "fatal",
    "patch",
    "problem",
    "unknown",
    "agent",
    "final",
    "handoff",
    "callback",
    "filter",
    "thought",
    "search",
    *["asked"] * 5,
    "asked agent",
    "asked handoff",
    "hosted",
]


def _part(kind: str, at: int, which: int, terms: ApprovalTerms) -> Part:
    call_id = f"c{at}" if which % 7 else "c0"
    even, third, fifth = which % 2 == 0, which % 3 == 0, which % 5 == 0
    target, required_steps = AGENTS[which % len(AGENTS)], DUTIES[which % len(DUTIES)]
    parts: dict[str, Part] = {
        "text": said(f"text {which}"),
        "tool": tool(f"tool{which % 3}", call_id),
        "brief": tool("look_up", call_id, policy=ExecutionOptions(fast=True, defers=True)),
        "gated": tool("refund", call_id, f'{{"n": {which}}}', needs_approval=True),
        "fatal": tool("careful", call_id, fatal=True, needs_approval=even),
        "patch": patch(
            call_id, needs_approval=third, problem="No." if fifth and not third else None
        ),
        "problem": tool("look_up", call_id, problem="The arguments do not fit."),
        "unknown": unknown("nobody", call_id),
        "agent": nested("Billing", call_id, needs_approval=third, fatal=fifth),
        "final": tool("look_up", call_id, final=True, needs_approval=fifth),
        "handoff": transfer(target, call_id, target_steps=required_steps),
        "callback": transfer(target, call_id, callback=True, target_steps=required_steps),
        "filter": transfer(
            target, call_id, callback=True, filters=True, target_steps=required_steps
        ),
        "thought": thought(),
        "search": searched(),
        "asked": tool(
            f"pay{which % 2}",
            call_id,
            f'{{"n": {which}, "secret": "s{which}"}}' if fifth else f'{{"n": {which % 3}}}',
            needs_approval=True,
            terms=terms,
            schema=people.SCHEMA,
            reason="It costs money.",
            policy=ExecutionOptions(fast=even, defers=even),
        ),
        "asked agent": nested("Orders", call_id, needs_approval=True, terms=terms),
        "asked handoff": transfer(
            target, call_id, needs_approval=True, terms=terms, callback=even, filters=even and third
        ),
        "hosted": hosted("delete", call_id, needs_approval=not third, terms=terms),
    }
    return parts[kind]


@st.composite
def replies(draw: st.DrawFn) -> ModelReply:
    """A reply with no, one or many calls, text, thoughts, or a failure."""
    kinds = st.tuples(st.sampled_from(KINDS), st.integers(0, 9))
    drawn = draw(st.lists(kinds, max_size=1) | st.lists(kinds, min_size=2, max_size=5))
    terms = draw(people.terms())
    parts = [_part(kind, at, which, terms) for at, (kind, which) in enumerate(drawn)]
    ending = draw(st.sampled_from(["text", "text", "text", "value", "again", "refusal", "failure"]))
    failure = Failure(code="model_behavior", message="Nonsense.") if ending == "failure" else None
    if ending == "refusal":
        parts.append(refused("I will not."))
    return reply_of(
        *parts,
        usage=Usage(requests=1, total_tokens=len(parts), cost_micros=1_000 * len(parts), priced=1),
        compaction=draw(st.sampled_from(("", "", "beside", "first"))),
        final=ending if ending in {"value", "again"} else "text",
        value={"n": len(parts)} if ending == "value" else None,
        failure=failure,
        changes=draw(st.sampled_from(CHANGES)),
        response_id=draw(st.sampled_from([None, "r1", "r2"])),
        required_steps=draw(st.sampled_from(DUTIES)),
        judged=draw(st.sampled_from([False, False, True])),
        parallel=draw(st.sampled_from([None, None, 1, 2])),
        answer_terms=draw(st.sampled_from([None, None, None, terms, replace(terms, quorum=1)])),
    )


# --- Moves ---------------------------------------------------------------------------------------

MOVES = (
    *["answer"] * 12,
    *people.PEOPLE_MOVES,
    *["deliver"] * 4,
    "decide",
    "report",
    "attach",
    *["speak"] * 3,
    "retry",
    "fail",
    "wrong",
    "stray",
    "repeat",
    "noise",
    "after_turn",
    "immediate",
)
PRODUCTIVE = tuple(one for one in MOVES if one not in {"immediate", "after_turn", "fail"})

Move = tuple[str, int, int]


@dataclass(frozen=True)
class Script:
    """A run to play: how it starts, what the model says, what happens.

    Attributes:
        start: the arguments of `Play`.
        replies: what the model says, over and over.
        moves: what happens.
    """

    start: dict[str, Any]
    replies: tuple[ModelReply, ...]
    moves: tuple[Move, ...]


def scripts(max_moves: int = 40, moves: Sequence[str] = MOVES) -> st.SearchStrategy[Script]:
    """Any run: realistic and hostile, open or not, bounded or not.

    Runs are long enough to get somewhere; hypothesis would mostly try short ones.
    """
    return st.builds(
        Script,
        start=st.builds(_with_people, STARTS, people.settings_of_people()),
        replies=st.lists(replies(), min_size=2, max_size=5).map(tuple),
        moves=st.lists(
            st.tuples(st.sampled_from(moves), st.integers(0, 99), st.integers(0, 99)),
            min_size=max_moves // 2,
            max_size=max_moves,
        ).map(tuple),
    )


def _with_people(start: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    return {**start, **settings}


STARTS = st.fixed_dictionaries(
    {
        "keep_open": st.sampled_from([True, True, True, False]),
        "max_turns": st.sampled_from([10, None, 3, 2, 1, 0]),
        "context": st.sampled_from([None, {}, {"n": 0, "log": ["0"], "deep": {"k": 1}}]),
        "session": st.booleans(),
        "handled": st.sampled_from(
            [(), ("max_turns_exceeded",), ("model_refusal", "model_behavior"), ("*",)]
        ),
        "thread": st.sampled_from([None, None, ServerThread(chained=True)]),
        "parent": st.sampled_from([None, None, Parent(run_id="root", prefix="e3.")]),
    }
)


def play_script(script: Script) -> Play:
    """Play a whole script."""
    play = Play(**script.start)
    for move in moves_of(play, script):
        make_move(play, script, move)
    return play


def moves_of(play: Play, script: Script) -> Iterator[Move]:
    """Yield the moves of a script while the run is open, and three more after its end."""
    left = 3
    for move in script.moves:
        left -= play.state.phase == "closed"
        if left < 0:
            return
        yield move


def make_move(play: Play, script: Script, move: Move) -> Event:
    """Let a move happen, and count whether it had an effect."""
    event = event_of(play, script, move)
    play.take(event)
    TALLY.count(play, event)
    return event


def event_of(play: Play, script: Script, move: Move) -> Event:
    """Return what a move comes to, as the run stands; it may set the clock.

    A move that means nothing now is an answer instead, so that runs get somewhere.
    """
    kind, a, b = move
    is_hostile = a % 8 == 7
    ends_most_runs = kind in {"after_turn", "immediate"} or play.state.phase == "preparing"
    if (ends_most_runs and a % 4) or not (is_hostile or _means_something(play, kind)):
        kind = "answer"
    out = list(play.outstanding.values())
    if kind == "answer" and not out:
        is_parked = any(one.status == "parked" for one in play.state.calls)
        kind = "deliver" if is_parked and a % 3 else people.next_move(play)
    if kind in {*people.PEOPLE_MOVES, "deliver"}:
        is_delivery = kind == "deliver"
        done = delivery_of(play, a, b) if is_delivery else people.deed(play, kind, a, b)
        if done is not None:
            return done
        kind = "answer"
    if kind in {"answer", "fail", "wrong"} and out:
        return _answer_of_kind(kind, out[a % len(out)], script, b, play.state, play.now_ms)
    if kind == "speak":
        return _spoken(play, script, a, b)
    return _said_by_others(play, kind, a, b)


def _means_something(play: Play, kind: str) -> bool:
    """Whether a move can have an effect now; most others are left out."""
    effects = play.outstanding.values()
    match kind:
        case "report":
            return any(isinstance(one, RunAgent) for one in effects)
        case "speak":
            return any(isinstance(one, KeepLineOpen) for one in effects)
        case "retry":
            return play.state.phase == "idle" and play.state.failure is not None
        case "decide":
            return bool(play.state.approvals)
        case "deliver":
            return any(one.plan.kind == "tool" for one in play.state.calls)
        case _:
            return True


def _spoken(play: Play, script: Script, a: int, b: int) -> LineReplied:
    """Return a random reply on a line: mostly the run's; new, repeated, or unprompted."""
    lines = [one.line for one in play.outstanding.values() if isinstance(one, KeepLineOpen)]
    line = lines[0] if lines and b % 8 else "l9"
    reply_id = f"spoken-{len(play.events) if a % 6 else 0}"
    heard: list[JsonObject] = [{"role": "user", "content": f"heard {b}"}] if a % 3 else []
    reply = replace(script.replies[b % len(script.replies)], response_id=reply_id)
    return LineReplied(at_ms=play.now_ms, line=line, said=heard, reply=reply)


def _answer_of_kind(
    kind: str, effect: Effect, script: Script, b: int, state: LoopState, at_ms: int
) -> Event:
    if kind == "answer" and isinstance(effect, OffloadItems):
        return everything_stored(effect, state, at_ms)
    if kind == "answer":
        return answer_to(effect, script.replies, b, at_ms)
    if kind == "wrong":
        return wrong_answer_to(effect, b, at_ms)
    code = ("tool_timeout", "tool_failed", "model_call_failed")[b % 3]
    at = getattr(effect, "model_at", 0) + b % 2  # at times, another model may follow
    details = {NEXT_MODEL: {"at": at, "model": "next", "tried": "before"}} if b % 5 < 2 else None
    if b % 7 == 6:
        details = {"reason": RESPONSE_NOT_FOUND}
    failure = Failure(code=code, message="It broke.", details=details)
    return EffectFailed(at_ms=at_ms, effect=effect.effect, failure=failure)


def _said_by_others(play: Play, kind: str, a: int, b: int) -> Event:
    at_ms = play.now_ms
    match kind:
        case "stray":
            return _stray(play, a, b)
        case "repeat":
            return play.events[a % len(play.events)]
        case "decide":
            return PersonActed(at_ms=at_ms, action=_decision(play, a, b))
        case "attach":
            return LineAttached(at_ms=at_ms, line=f"l{a % 3}")
        case "retry":
            return RetryRequested(at_ms=at_ms, answers=len(play.state.answers) - (b % 5 == 4))
        case "report":
            return _report(play, a, b)
        case "after_turn":
            return CancelRequested(at_ms=at_ms, mode="after_turn")
        case "immediate":
            return CancelRequested(at_ms=at_ms)
        case "noise":
            return history.signalled(f"{a}", [], at_ms)
        case _:
            return TimePassed(at_ms=at_ms)


def _stray(play: Play, a: int, b: int) -> Event:
    number = (0, -1, 999, *(one.effect for one in play.issued))[a % (len(play.issued) + 3)]
    if number in play.outstanding:
        number = 999
    kind = ("prepared", "model", "tool", "handoff", "failed")[b % 5]
    return _answer(kind, number, play.now_ms)


def _report(play: Play, a: int, b: int) -> Event:
    """What a nested run waits for: people, a delivery, or nothing any more."""
    names = [one.nested_id for one in play.outstanding.values() if isinstance(one, RunAgent)]
    name = names[b % len(names)] if names else "x"
    asked = (APPROVALS, APPROVALS[:1], ())[a % 3]
    waits = ("courier",) if not asked and a % 2 else ()
    return NestedReported(at_ms=play.now_ms, nested_id=name, requests=asked, waits=waits)


def answer_to(effect: Effect, script: Sequence[ModelReply], b: int, at_ms: int) -> Event:
    """Return an answer of the right type."""
    number, changes = effect.effect, CHANGES[b % len(CHANGES)]
    match effect:
        case PrepareRun():
            briefing = briefing_of(effect, b)
            return EffectAnswered(at_ms=at_ms, effect=number, result=briefing)
        case CallModel():
            reply = script[(effect.effect + b) % len(script)]
            if b % 9 == 4 and not effect.line:
                begun = BegunResponse(response_id=f"response {number}", number=1)
                reply = ModelReply(items=(), begun=begun, changes=changes)
            if b % 9 == 5 and effect.turn > 1 and not effect.line:
                reply = ModelReply(items=(), withheld=True)
            elif b % 7 == 3:
                part = b % 3 or None
                reply = replace(
                    reply, refused=(RefusedEntry(entry=b % 5, part=part, reason="No."),)
                )
            return EffectAnswered(at_ms=at_ms, effect=number, result=reply)
        case RunTool():
            broken = Failure(code="tripwire", message="No.") if b % 9 == 8 else None
            wait = wait_of(effect, b)
            if effect.policy.fast and b % 4 == 3:
                result = ToolResult(output=None, deferred=True)
            elif wait is not None:
                kept = changes if wait.is_output else ()
                came = any(one.name == wait.name for one in effect.arrived)
                unproven = "The delivery does not count." if came else ""
                result = ToolResult(output=None, wait=wait, changes=kept, unproven=unproven)
            else:
                team = "leads" if b % 16 == 15 else ""
                result = ToolResult(
                    output=f"output {b}", changes=changes, failure=broken, team=team
                )
            return EffectAnswered(at_ms=at_ms, effect=number, result=result)
        case RunHandoff():
            chosen = "Orders" if b % 6 == 0 else None
            result = HandoffResult(changes=changes, target=chosen, edit=edit_of(effect, b))
            return EffectAnswered(at_ms=at_ms, effect=number, result=result)
        case _:
            return answer_to_side_effect(effect, b, at_ms)


WAITS = ("courier", "invoice", "receipt")


def wait_of(effect: RunTool, b: int) -> OutsideWait | None:
    """Return what a tool may wait for next; None if it returns."""
    ended = [one.name for one in effect.arrived]
    forged = [one.name for one in effect.arrived if one.proof is not None and b % 8 == 1]
    name = next((one for one in forged or WAITS if one not in ended or forged), None)
    if effect.output_of or name is None or b % 4 != 1:
        return None
    timeout_ms = (None, 6_000, 90_000, 3_600_000)[b // 4 % 4]
    on_timeout: OnWaitEnd = ("tool", "value", "ask", "ask")[b // 3 % 4]
    if timeout_ms is None:
        on_timeout = "tool"
    return OutsideWait(
        name=name,
        timeout_ms=timeout_ms,
        schema=people.OK_SCHEMA if b % 3 == 0 else None,
        is_output=b % 5 == 0,
        on_timeout=on_timeout,
        value={"ok": False},
        until_message=on_timeout != "ask" and b % 7 == 2,
        every_ms=(None, None, 2_000, 20_000)[b // 5 % 4] if b % 5 else None,
        cleanup=b % 5 != 0 and b // 2 % 2 == 0,
        signed=bool(forged) or (b % 5 != 0 and on_timeout != "ask" and b % 16 > 8),
        done={"began": b} if b % 2 else None,
        question="How many?" if on_timeout == "ask" and b % 6 == 2 else "",
    )


def delivery_of(play: Play, a: int, b: int) -> Event | None:
    """Return what comes from outside: mostly what a call waits for; early, late, again, or wrong."""
    earlier = [one for one in play.events if isinstance(one, ValueDelivered)]
    calls = [one for one in play.state.calls if one.plan.kind == "tool"]
    if b % 7 == 6 and earlier:
        again = earlier[a % len(earlier)]
        other = replace(again, delivery_id=f"d{len(play.events)}")
        return replace(other if b % 2 else again, at_ms=play.now_ms)
    if not calls:
        return None
    parked = [one for one in calls if one.outside is not None]
    call = (parked or calls)[a % len(parked or calls)] if b % 5 else calls[a % len(calls)]
    name = WAITS[a % len(WAITS)]
    if call.outside is not None and b % 6:
        name = call.outside.wait.name
    wrong = b % 11 == 10
    verified = (False, True, None, True)[b // 2 % 4]
    return ValueDelivered(
        at_ms=play.now_ms,
        question=len(play.state.answers) + (wrong and a % 3 == 0),
        turn=play.state.question.turn - (wrong and a % 3 == 1),
        call_id="c99" if wrong and a % 3 == 2 else call.call_id,
        name=name,
        value=f"value {b}" if b % 4 == 3 else {"ok": b},
        delivery_id=f"d{len(play.events)}",
        source="courier.example" if b % 2 else "",
        proof=None if verified is False else f"proof {b}",
        verified=verified,
    )


def awaited(play: Play, call: Call) -> Event:
    """Return what a parked call waits for, or its end if another call with its id had that."""
    assert call.parked is not None
    event = ValueDelivered(
        at_ms=play.now_ms,
        question=len(play.state.answers),
        turn=play.state.question.turn,
        call_id=call.call_id,
        name=call.parked.wait.name,
        value={"ok": 1},
        delivery_id=f"d{len(play.events)}",
        verified=True,
    )
    refused = refusal_of(play.state, event) is not None
    return CancelRequested(at_ms=play.now_ms) if refused else event


def briefing_of(effect: PrepareRun, b: int) -> PreparedRun:
    """Return what the worker may know: where there is a session, also what was said in it."""
    required_steps = DUTIES[b % len(DUTIES)]
    if effect.input is None or b % 3 == 0:
        hears = b % 4 < 2
        return PreparedRun(
            model="m",
            required_steps=required_steps,
            stores=b % 2 == 0,
            notifies=hears,
            notifies_later=hears,
        )
    old: JsonObject = {"role": "assistant", "content": "said before"}
    content = ((old, *effect.input), (*effect.input, old, *effect.input), ())[b % 3 - 1 + b % 2]
    known = tuple(at for at, raw in enumerate(content) if raw is old)
    return PreparedRun(model="m", required_steps=required_steps, input=content, old=known)


HANDLED: JsonObject = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "handled"}],
}
"""The answer of a handler of failures; finalizing adds no other message."""


def answer_to_side_effect(effect: Effect, b: int, at_ms: int) -> Event:
    """Return an answer of the right type, to what is not asked in every run."""
    number, changes = effect.effect, CHANGES[b % len(CHANGES)]
    broken = Failure(code="tripwire", message="No.") if b % 5 == 4 else None
    tripped = (GuardrailRecord(stage="input", name="g", tripped=broken is not None),)
    match effect:
        case CheckInput():
            checked = CheckResult(results=tripped, failure=broken, changes=changes)
            return EffectAnswered(at_ms=at_ms, effect=number, result=checked)
        case FinalizeAnswer():
            conclusion = FinalizedAnswer(
                final=b % 4 != 0,
                output="concluded",
                replaced=b % 2 == 0 or effect.candidate.failure is not None,
                message=HANDLED if effect.candidate.failure is not None and b % 3 else None,
                declined=b % 7 == 0,
                results=tripped if b % 2 else (),
                failure=broken,
                withheld="blocked" if b % 3 == 0 else None,
                changes=changes,
            )
            return EffectAnswered(at_ms=at_ms, effect=number, result=conclusion)
        case RunAgent():
            status = ("completed", "completed", "failed", "cancelled")[b % 4]
            usage = Usage(requests=1, total_tokens=b)
            done = AgentResult(status=status, final_output="done", usage=usage, context={"n": b})
            return EffectAnswered(at_ms=at_ms, effect=number, result=done)
        case KeepLineOpen():
            return EffectAnswered(at_ms=at_ms, effect=number, result=None)
        case CountHours():
            return EffectAnswered(at_ms=at_ms, effect=number, result=clock_of(effect, 1 + b % 4))
        case NotifyPeople():
            return EffectAnswered(at_ms=at_ms, effect=number, result=ALL_DELIVERED)
        case CompactView():
            said: JsonObject = {"role": "user", "content": f"in short {b}"}
            refused = Failure(code="user_error", message="refused") if b % 8 == 4 else None
            short = ViewSummary(
                items=(said,) if b % 4 else (), usage=Usage(total_tokens=b), failure=refused
            )
            return EffectAnswered(at_ms=at_ms, effect=number, result=short)
        case _:
            assert isinstance(effect, SaveSession | CancelResponse)
            return EffectAnswered(at_ms=at_ms, effect=number, result=None)


APPROVALS = tuple(
    ApprovalRequest(
        id=name,
        call_id="c1",
        name="refund",
        agent="Billing",
        arguments="{}",
        args_digest="d",
        requested_at_ms=0,
        run_id="nested",
    )
    for name in ("e9.a1", "e9.a2")
)
"""What a nested run may ask people."""


def edit_of(effect: RunHandoff, b: int) -> ViewEdit | None:
    """Return what a filter may make of the view: nothing, less, more, or another order."""
    if effect.input_length is None:
        return None
    summary = {"role": "assistant", "content": "in short"}
    return (
        None,
        ViewEdit(segments=((0, 1), summary), history=1, dropped=(0,)),
        ViewEdit(segments=(summary,), history=1, added=(summary,)),
        ViewEdit(segments=((1, 3), (0, 1), (3, 999)), history=0, dropped=(1, 2)),
        ViewEdit(
            segments=(summary, (0, 999)),
            history=0,
            dropped=(0,),
            added=(summary, summary),
            arranged=(-1, *range(b % 7, 999), -2, -3),
        ),
    )[b % 5]


def wrong_answer_to(effect: Effect, b: int, at_ms: int) -> Event:
    """Return an answer that belongs to an effect of another type."""
    kinds = {"prepare_run": "prepared", "call_model": "model", "run_tool": "tool"}
    own = kinds.get(effect.kind, "handoff")
    others = [name for name in (*kinds.values(), "handoff") if name != own]
    return _answer(others[b % len(others)], effect.effect, at_ms)


def _answer(kind: str, number: int, at_ms: int) -> Event:
    match kind:
        case "prepared":
            return EffectAnswered(at_ms=at_ms, effect=number, result=PreparedRun(model="stray"))
        case "model":
            return EffectAnswered(at_ms=at_ms, effect=number, result=reply_of(said("stray")))
        case "tool":
            return EffectAnswered(at_ms=at_ms, effect=number, result=ToolResult(output="stray"))
        case "handoff":
            result = HandoffResult(changes=(Change("set", ("stray",), 1),))
            return EffectAnswered(at_ms=at_ms, effect=number, result=result)
        case _:
            failure = Failure(code="stray", message="stray")
            return EffectFailed(at_ms=at_ms, effect=number, failure=failure)


def _decision(play: Play, a: int, b: int) -> Decision:
    """Mostly about what waits; sometimes late, unknown or forged."""
    waiting = [one.id for one in play.state.pending_approvals]
    known = [one.id for one in play.state.approvals]
    ids = [*waiting, *waiting, *known, "a99"] if b % 5 else [*known, "", "a99"]
    digests = {one.id: one.args_digest for one in play.state.approvals}
    name = ids[a % len(ids)]
    return Decision(
        request_id=name,
        type="approve" if b % 2 else "reject",
        message="No, thank you." if b % 4 == 0 else None,
        by="ann" if a % 2 else None,
        args_digest="forged" if b % 7 == 6 else digests.get(name),
        remember=b % 6 == 5,
    )
