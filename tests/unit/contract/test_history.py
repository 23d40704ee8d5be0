"""From what happened to a workflow to events of the loop, and in which order."""

import dataclasses
from itertools import permutations
from typing import Any

import pytest

from outlast.contract import failures, history
from outlast.contract.failures import INTERNAL, EngineFailure
from outlast.contract.history import (
    CancelAsked,
    HistoryEntry,
    Resolved,
    Signalled,
    Started,
    TimerFired,
    Updated,
    WorkflowTask,
    fold,
    opening,
    rank,
)
from outlast.contract.records import (
    RunInput,
    RunResultRecord,
    UnreadableRecordError,
    write,
    write_state,
)
from outlast.loop.actions import ClaimAction, HoldAction, ReleaseAction, SayAction, fields_of
from outlast.loop.approvals import ApprovalTerms, Audience, Decision, Person
from outlast.loop.calls import AgentResult, HandoffResult, PreparedRun, ToolResult
from outlast.loop.checks import CheckResult, FinalizedAnswer, GuardrailRecord
from outlast.loop.effects import (
    CallModel,
    CheckInput,
    EffectAnswered,
    EffectFailed,
    FinalizeAnswer,
    PrepareRun,
    RunAgent,
    RunHandoff,
    SaveSession,
)
from outlast.loop.events import (
    BudgetLent,
    CancelRequested,
    EffectBlocked,
    Event,
    MessageReceived,
    MessageWithdrawn,
    NestedReported,
    PersonActed,
    RunStarted,
    SignalUnreadable,
    TimePassed,
    ValueDelivered,
)
from outlast.loop.items import Message
from outlast.loop.start import Budget, Customer, Parent, Start
from outlast.loop.state import LoopState
from outlast.loop.values import Failure, Json, JsonObject, ServerThread, Usage
from tests.laws.driver import Play, play_in, reply_of, said, tool

INPUT = {"agent": "Triage", "input": "Hello"}
SUPPORT = ApprovalTerms(audience=Audience(groups=("support",)))
LIMIT = Budget(of="tokens", limit=5)
APPROVE = {"request_id": "a1", "type": "approve"}

# --- One event -----------------------------------------------------------------------------------


def test_the_input_becomes_the_start() -> None:
    settings: JsonObject = {
        "a": 1,
        "customer": {"id": "ann"},
        "takeover": {"audience": {"groups": ["support"]}},
        "budgets": [{"of": "tokens", "limit": 5}],
    }
    record = RunInput(
        agent="Triage",
        input="Hello",
        message_id="m0",
        context={"n": 1},
        context_type="Desk",
        max_turns=3,
        keep_open=True,
        settings=settings,
        session=True,
        thread=ServerThread(chained=True),
        handled=("*",),
        parent=Parent(run_id="root", prefix="e1."),
    )
    assert history.started("support-42", record, 7) == RunStarted(
        at_ms=7,
        run_id="support-42",
        agent="Triage",
        message=Message("m0", ({"role": "user", "content": "Hello"},), 7),
        context={"n": 1},
        thread=ServerThread(chained=True),
        start=Start(
            context_type="Desk",
            max_turns=3,
            keep_open=True,
            settings=settings,
            started_at_ms=7,
            session=True,
            handled=("*",),
            parent=Parent(run_id="root", prefix="e1."),
            customer=Customer("ann"),
            takeover=SUPPORT,
            budgets=(LIMIT,),
        ),
    )


DECISION = PersonActed(at_ms=7, action=Decision(request_id="a1", type="approve"))


def test_a_sender_whom_the_caller_only_names_has_proved_nothing() -> None:
    named = {**APPROVE, "by": "ann", "method": "named", "proof": PROOF}
    known = {**APPROVE, "by": "ann", "method": "os_user", "proof": PROOF}
    events = [history.updated("decide", [one], 7) for one in (named, known)]
    assert [isinstance(one, PersonActed) and one.verified for one in events] == [False, True]


SIGNALS: list[tuple[str, list[Any], Event]] = [
    ("decide", [APPROVE], DECISION),
    ("decide", [APPROVE, "more"], DECISION),
    ("decide", [{**APPROVE, "added_later": 1}], DECISION),
    ("cancel", [{}], CancelRequested(at_ms=7)),
    ("cancel", [{"mode": "immediate"}], CancelRequested(at_ms=7)),
    ("cancel", [{"mode": "after_turn"}], CancelRequested(at_ms=7, mode="after_turn")),
    ("lend", [{"index": 1, "share": 9}], BudgetLent(at_ms=7, index=1, share=9)),
    ("nested", [{"nested_id": "r/f-3"}], NestedReported(at_ms=7, nested_id="r/f-3", requests=())),
]


@pytest.mark.parametrize(("name", "arguments", "event"), SIGNALS)
def test_a_signal_becomes_an_event(name: str, arguments: list[Any], event: Event) -> None:
    assert history.signalled(name, arguments, 7) == event


NONCE = "0123456789abcdef" * 2
PROOF = f"v2.00c0ffee.5.{NONCE}.{'A' * 43}"
ANN = {"by": "ann", "display": "Ann", "groups": ["support"], "method": "token", "proof": "x"}
PERSON = Person(subject="ann", display="Ann", groups=("support",), method="token", proof="x")
OF_PEOPLE: list[tuple[str, dict[str, Any], Event]] = [
    ("decide", APPROVE, DECISION),
    (
        "claim",
        {**ANN, "request_id": "a1", "minutes": 5, "force": True},
        PersonActed(
            at_ms=7, action=ClaimAction(request_id="a1", **fields_of(PERSON), minutes=5, force=True)
        ),
    ),
    (
        "claim",
        {"request_id": "a1"},
        PersonActed(at_ms=7, action=ClaimAction(request_id="a1", minutes=30)),
    ),
    (
        "hold",
        {**ANN, "mode": "after_turn"},
        PersonActed(at_ms=7, action=HoldAction(**fields_of(PERSON), mode="after_turn")),
    ),
    ("hold", {}, PersonActed(at_ms=7, action=HoldAction())),
    (
        "say",
        {**ANN, "text": "Hello", "message_id": "s1"},
        PersonActed(at_ms=7, action=SayAction(**fields_of(PERSON), message_id="s1", text="Hello")),
    ),
    (
        "say",
        {"text": "Hello"},
        PersonActed(at_ms=7, action=SayAction(text="Hello")),
    ),
    (
        "release",
        {**ANN, "note": "Refunded.", "to": "Billing"},
        PersonActed(
            at_ms=7, action=ReleaseAction(**fields_of(PERSON), note="Refunded.", to="Billing")
        ),
    ),
    ("release", {}, PersonActed(at_ms=7, action=ReleaseAction())),
]


@pytest.mark.parametrize(("name", "payload", "event"), OF_PEOPLE)
def test_what_people_do_is_verified_with_a_proof_and_as_an_update(
    name: str, payload: dict[str, Any], event: Any
) -> None:
    """A worker has checked the proof of an accepted update; nobody refuses a signal."""
    assert history.signalled(name, [payload], 7) == event
    assert history.updated(name, [payload], 7) == event
    signal = history.signalled(name, [{**payload, "proof": PROOF}], 7)
    update = history.updated(name, [{**payload, "proof": PROOF}], 7)
    assert isinstance(signal, PersonActed)
    assert isinstance(update, PersonActed)
    for one, verified in ((signal, False), (update, True)):
        assert (one.verified, one.nonce, one.made_at_ms) == (verified, NONCE, 5)


def test_a_message_is_withdrawn_by_its_id() -> None:
    withdrawn = MessageWithdrawn(at_ms=7, message_id="m2")
    assert history.signalled("withdraw", [{"message_id": "m2"}], 7) == withdrawn
    assert history.updated("withdraw", [{"message_id": "m2"}], 7) == withdrawn


def test_a_timer_that_fires_says_only_that_time_passed() -> None:
    play = play_in("waiting")
    assert states(task(200, TimerFired()), state=play.state) == [
        (TimePassed(at_ms=200), play.state)
    ]


UNREADABLE: list[tuple[str, list[Any], str]] = [
    ("decide", [], "This is not a Decision"),
    ("decide", [None], "This is not a Decision"),
    ("decide", ["approve"], "This is not a Decision"),
    ("decide", [{"type": "approve"}], "request_id"),
    ("decide", [{**APPROVE, "schema_version": 99}], "newer version"),
    ("cancel", [{"mode": "softly"}], "mode"),
    ("cancel", ["now"], "This is not a CancelRecord"),
    ("claim", [{"by": "ann"}], "request_id"),
    ("hold", [{"mode": "rudely"}], "mode"),
    ("say", [{"text": " "}], "text must say something"),
    ("release", [{"to": 3}], "to"),
    ("withdraw", [{}], "message_id"),
    ("nested", [{"requests": []}], "nested_id"),
    ("nested", [{"nested_id": "x", "requests": [1]}], "requests.0"),
    (
        "send",
        [{"input": "x", "message_id": "m"}],
        "There is no such signal. Signals: decide, claim, hold, say, release, set_aside, withdraw, cancel.",
    ),
    ("", [], "There is no such signal"),
]


@pytest.mark.parametrize(("name", "arguments", "problem"), UNREADABLE)
def test_a_signal_that_nobody_can_read_is_an_event_too(
    name: str, arguments: list[Any], problem: str
) -> None:
    event = history.signalled(name, arguments, 7)
    assert isinstance(event, SignalUnreadable)
    assert (event.at_ms, event.name) == (7, f"signal {name}")
    assert problem in event.problem


def test_an_update_becomes_an_event() -> None:
    assert history.updated("decide", [APPROVE], 7) == DECISION
    sent = history.updated("send", [{"input": "And?", "message_id": "m2"}], 7)
    message = Message("m2", ({"role": "user", "content": "And?"},), 7)
    assert sent == MessageReceived(at_ms=7, message=message)


DELIVERY: JsonObject = {
    "question": 0,
    "turn": 2,
    "call_id": "c1",
    "name": "courier",
    "value": {"weight": 9},
    "delivery_id": "d1",
    "source": "courier.example",
}
OPTIONAL = {"value", "source"}


def without(fields: JsonObject, name: str) -> JsonObject:
    return {key: value for key, value in fields.items() if key != name}


def test_a_delivery_becomes_an_event() -> None:
    assert history.updated("deliver", [DELIVERY], 7) == ValueDelivered(at_ms=7, **DELIVERY)
    short = without(without(DELIVERY, "value"), "source")
    assert history.updated("deliver", [short], 7) == ValueDelivered(
        at_ms=7, **short, value=None, source=""
    )


@pytest.mark.parametrize("value", [None, 0, False, "", [], {}, {"a": [{"b": None}]}])
def test_a_delivery_has_any_json_value(value: Json) -> None:
    event = history.updated("deliver", [{**DELIVERY, "value": value}], 7)
    assert isinstance(event, ValueDelivered)
    assert event.value == value


def test_a_delivery_may_be_a_signal() -> None:
    """The server keeps it where no worker runs."""
    assert history.signalled("deliver", [DELIVERY], 7) == ValueDelivered(at_ms=7, **DELIVERY)
    event = history.signalled("deliver", [without(DELIVERY, "delivery_id")], 7)
    assert isinstance(event, SignalUnreadable)
    assert "delivery_id" in event.problem


REFUSED: list[tuple[str, list[Any], str]] = [
    ("decide", [], "This is not a Decision"),
    ("send", [], "This is not a SendRecord"),
    ("send", ["Hello"], "This is not a SendRecord"),
    ("send", [{"input": "x"}], "message_id"),
    ("cancel", [{}], "No update 'cancel'. Updates: send, retry, decide, .*withdraw, deliver."),
    ("deliver", [], "This is not a DeliverRecord"),
    ("deliver", [[DELIVERY]], "This is not a DeliverRecord"),
    ("deliver", ["token"], "This is not a DeliverRecord"),
    *(("deliver", [without(DELIVERY, name)], name) for name in DELIVERY if name not in OPTIONAL),
    ("deliver", [{**DELIVERY, "delivery_id": ""}], "delivery_id must tell this delivery"),
    ("deliver", [{**DELIVERY, "delivery_id": None}], "delivery_id"),
    ("deliver", [{**DELIVERY, "delivery_id": 7}], "delivery_id"),
    ("deliver", [{**DELIVERY, "question": "zero"}], "question"),
    ("deliver", [{**DELIVERY, "question": 0.5}], "question"),
    ("deliver", [{**DELIVERY, "turn": "two"}], "turn"),
    ("deliver", [{**DELIVERY, "turn": None}], "turn"),
    ("deliver", [{**DELIVERY, "call_id": 1}], "call_id"),
    ("deliver", [{**DELIVERY, "name": ["courier"]}], "name"),
    ("deliver", [{**DELIVERY, "source": {"by": "x"}}], "source"),
]


@pytest.mark.parametrize(("name", "arguments", "problem"), REFUSED)
def test_an_update_that_nobody_can_read_is_refused(
    name: str, arguments: list[Any], problem: str
) -> None:
    with pytest.raises(UnreadableRecordError, match=problem):
        history.updated(name, arguments, 7)


def test_a_result_becomes_the_event_of_its_effect() -> None:
    play = Play()
    effect = play.only(PrepareRun)
    event = history.answered(effect, {"model": "gpt-5"}, 7)
    assert event == EffectAnswered(at_ms=7, effect=1, result=PreparedRun(model="gpt-5"))
    play.prepared()
    reply = reply_of(said("Hi."), tool("f", "c1"))
    event = history.answered(play.only(CallModel), write(reply), 7)
    assert event == EffectAnswered(at_ms=7, effect=2, result=reply)
    play.take(event)
    event = history.answered(play.running("c1"), {"output": [1]}, 7)
    assert event == EffectAnswered(at_ms=7, effect=3, result=ToolResult(output=[1]))
    handoff = play_in("transferring").only(RunHandoff)
    event = history.answered(handoff, {}, 7)
    assert event == EffectAnswered(at_ms=7, effect=3, result=HandoffResult())


def test_what_guardrails_handlers_and_sessions_came_to_are_events_too() -> None:
    check = play_in("checking").only(CheckInput)
    found = {"results": [{"stage": "input", "name": "g"}]}
    records = (GuardrailRecord(stage="input", name="g"),)
    assert history.answered(check, found, 7) == EffectAnswered(
        at_ms=7, effect=2, result=CheckResult(results=records)
    )
    conclude = play_in("finalizing").only(FinalizeAnswer)
    assert history.answered(conclude, {"final": False}, 7) == EffectAnswered(
        at_ms=7, effect=3, result=FinalizedAnswer(final=False)
    )
    save = play_in("saving").only(SaveSession)
    assert history.answered(save, None, 7) == EffectAnswered(at_ms=7, effect=3, result=None)


def test_the_result_of_a_nested_run_is_read_as_what_its_tool_came_to() -> None:
    run = play_in("nested").only(RunAgent)
    result = RunResultRecord(status="completed", agent="Billing", final_output="x", turns=2)
    event = history.answered(run, write(result), 7)
    assert event == EffectAnswered(at_ms=7, effect=3, result=AgentResult(final_output="x"))


@pytest.mark.parametrize("number", [1, 3, 1_042])
@pytest.mark.parametrize("run_id", ["support-42", "a/b-7", ""])
def test_a_nested_run_is_known_by_its_id(run_id: str, number: int) -> None:
    assert history.effect_of_nested(f"{run_id}/ask_billing-{number}") == number


@pytest.mark.parametrize("nested_id", ["", "support", "support-", "a-b", "1-x", "-"])
def test_any_other_workflow_answers_no_effect(nested_id: str) -> None:
    assert history.effect_of_nested(nested_id) == 0


def test_the_loop_and_the_history_agree_on_the_ids_of_nested_runs() -> None:
    run = play_in("nested").only(RunAgent)
    assert history.effect_of_nested(run.nested_id) == run.effect


@pytest.mark.parametrize("payload", [None, "text", 3, [], {"schema_version": 99, "output": 1}])
@pytest.mark.parametrize(
    "situation",
    ["preparing", "thinking", "running", "transferring", "checking", "finalizing", "nested"],
)
def test_a_result_that_nobody_can_read_is_the_effects_failure(situation: str, payload: Any) -> None:
    effect = play_in(situation).state.pending[0]
    event = history.answered(effect, payload, 7)
    assert isinstance(event, EffectFailed)
    assert (event.at_ms, event.effect, event.failure.code) == (7, effect.effect, INTERNAL)


def test_a_plan_that_does_not_fit_its_reply_is_the_calls_failure() -> None:
    effect = Play.ready().only(CallModel)
    event = history.answered(effect, {"items": [{"type": "function_call"}]}, 7)
    assert isinstance(event, EffectFailed)
    assert "exactly one entry" in event.failure.message


def test_a_failed_activity_becomes_a_failed_effect() -> None:
    effect = Play.ready().only(CallModel)
    engine = EngineFailure(kind="application", code="quota", message="No money.")
    assert history.failed(effect, engine, 7) == EffectFailed(
        at_ms=7, effect=2, failure=Failure(code="quota", message="No money.")
    )


def test_what_a_failed_nested_run_has_spent_counts() -> None:
    effect = play_in("nested").only(RunAgent)
    engine = EngineFailure(kind="application", code="quota", message="No.", spent={"requests": 2})
    event = history.failed(effect, engine, 7)
    assert event == EffectAnswered(
        at_ms=7,
        effect=effect.effect,
        result=AgentResult(
            status="failed",
            failure=Failure(code="quota", message="No."),
            usage=Usage(requests=2),
        ),
    )


@pytest.mark.parametrize("spent", [None, {"requests": "many"}])
def test_a_failed_nested_run_that_says_nothing_of_it_has_failed_all_the_same(spent: Any) -> None:
    effect = play_in("nested").only(RunAgent)
    engine = EngineFailure(kind="application", code="quota", message="No.", spent=spent)
    event = history.failed(effect, engine, 7)
    assert isinstance(event, EffectFailed)
    assert event.failure.code == "quota"


# --- Order and time ------------------------------------------------------------------------------

PREPARED = Resolved(effect=1, payload={}, local_end_ms=105)


def ended(effect: int, *parts: Any) -> Resolved:
    return Resolved(effect=effect, payload=write(reply_of(*parts)))


def states(*tasks: WorkflowTask, state: LoopState | None = None) -> list[tuple[Event, LoopState]]:
    return list(fold(state or LoopState(), "support-42", tasks))


def task(at_ms: int, *entries: HistoryEntry) -> WorkflowTask:
    return WorkflowTask(at_ms=at_ms, entries=entries)


def test_a_history_folds_to_the_run_it_records() -> None:
    folded = states(
        task(100, Started(payload=INPUT), PREPARED),
        task(200, ended(2, tool("refund", "c1", needs_approval=True))),
        task(300, Signalled(name="decide", arguments=({"request_id": "a9", "type": "approve"},))),
        task(400, Updated(name="decide", arguments=(APPROVE,))),
        task(500, Resolved(effect=3, payload={"output": "refunded"})),
        task(600, ended(4, said("Done."))),
    )
    assert [event.at_ms for event, _ in folded] == [100, 105, 200, 300, 400, 500, 600]
    final = folded[-1][1]
    assert (final.outcome, final.final_output) == ("completed", "Done.")
    assert final.approvals[0].requested_at_ms == 200
    assert final.approvals[0].decided_at_ms == 400
    assert [note.at_ms for note in final.ignored] == [300]
    assert [state.phase for _, state in folded] == [
        "preparing", "thinking", "acting", "acting", "acting", "thinking", "closed",
    ]  # fmt: skip


def test_within_a_task_what_comes_from_outside_comes_first() -> None:
    ranked: list[HistoryEntry] = [
        Started(payload=INPUT),
        Signalled(name="x", arguments=()),
        Updated(name="x", arguments=()),
        TimerFired(),
        Resolved(effect=1),
        CancelAsked(),
        Resolved(effect=1, local_end_ms=5),
    ]
    assert [rank(one) for one in ranked] == [0, 1, 2, 3, 4, 5, 6]


def test_a_task_comes_to_the_same_however_its_happenings_are_listed() -> None:
    play = play_in("running", keep_open=True)
    entries: list[HistoryEntry] = [
        Signalled(name="other", arguments=()),
        Updated(name="send", arguments=({"input": "And?", "message_id": "m2"},)),
        Resolved(effect=3, payload={"output": "one"}),
        CancelAsked(),
        Resolved(effect=4, payload={"output": "two"}, local_end_ms=250),
    ]
    expected = states(task(200, *entries), state=play.state)
    assert [type(event) for event, _ in expected] == [
        SignalUnreadable, MessageReceived, EffectAnswered, CancelRequested,
    ]  # fmt: skip
    for order in permutations(entries):
        assert states(task(200, *order), state=play.state) == expected


def test_happenings_of_one_rank_stay_in_their_order() -> None:
    play = play_in("waiting")
    yes, no = APPROVE, {**APPROVE, "type": "reject"}
    for first, second, status in ((yes, no, "approved"), (no, yes, "rejected")):
        two = [Signalled(name="decide", arguments=(one,)) for one in (first, second)]
        ((_, after), _) = states(task(200, *two), state=play.state)
        assert after.approvals[0].status == status


def test_a_local_result_moves_time_on_for_what_comes_after_it_in_its_task() -> None:
    play = play_in("running")
    folded = states(
        task(
            200,
            Resolved(effect=4, payload={"output": "b"}, local_end_ms=260),
            Resolved(effect=3, payload={"output": "a"}, local_end_ms=230),
            Signalled(name="x", arguments=()),
        ),
        task(300, Signalled(name="y", arguments=())),
        state=play.state,
    )
    assert [event.at_ms for event, _ in folded] == [200, 260, 230, 300]


# --- What is dropped -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "entry",
    [
        Updated(name="decide", arguments=()),
        Updated(name="send", arguments=("Hello",)),
        Updated(name="sing", arguments=()),
        Resolved(effect=99, payload={"output": 1}),
        Resolved(effect=1, payload={}),
        Resolved(effect=99, failure=EngineFailure(kind="timeout")),
        Started(payload=None),
        Started(payload={"agent": 3}),
        Started(payload={"carried": write_state(Play.ready().state)}),
    ],
)
def test_what_cannot_be_decoded_or_answers_nothing_is_dropped(entry: HistoryEntry) -> None:
    assert states(task(200, entry), state=play_in("waiting").state) == []


def test_a_result_of_an_effect_that_was_stopped_in_the_same_task_is_dropped() -> None:
    play = play_in("running")
    entries = (
        Signalled(name="cancel", arguments=({},)),
        Resolved(effect=3, payload={"output": "late"}),
    )
    ((event, state),) = states(task(200, *entries), state=play.state)
    assert isinstance(event, CancelRequested)
    assert state.outcome == "cancelled"


def test_an_engines_cancel_is_immediate() -> None:
    ((event, state),) = states(task(200, CancelAsked()), state=play_in("waiting").state)
    assert event == CancelRequested(at_ms=200, mode="immediate")
    assert state.outcome == "cancelled"


def test_failures_of_activities_are_folded() -> None:
    failure = EngineFailure(kind="timeout")
    ((event, state),) = states(
        task(200, Resolved(effect=2, failure=failure)), state=Play.ready().state
    )
    assert isinstance(event, EffectFailed)
    assert state.failure is not None
    assert state.failure.code == "model_call_failed"


# --- Across histories ----------------------------------------------------------------------------


def test_an_effect_that_its_worker_lacks_something_for_waits_once_and_then_fails() -> None:
    play = play_in("running")
    first, second = play.state.pending
    lacks = EngineFailure(kind="application", code=failures.WORKER_LACKS, message="No look_up.")
    ((event, state),) = states(
        task(5, Resolved(effect=first.effect, failure=lacks)), state=play.state
    )
    assert event == EffectBlocked(at_ms=5, effect=first.effect, lacks="No look_up.")
    assert history.is_blocked(state, first)
    assert not history.is_blocked(state, second)
    ((event, state),) = states(task(6, Resolved(effect=first.effect, failure=lacks)), state=state)
    failure = Failure(code=failures.USER_ERROR, message="No look_up.")
    assert event == EffectFailed(at_ms=6, effect=first.effect, failure=failure)
    assert not history.is_blocked(state, first)


def test_an_effect_that_a_worker_was_found_for_waits_no_more() -> None:
    play = play_in("running")
    effect, _ = play.state.pending
    found = EngineFailure(
        kind="application", code=failures.FAILED_ON_CAPABLE_WORKER, message="It broke."
    )
    ((event, _),) = states(task(5, Resolved(effect=effect.effect, failure=found)), state=play.state)
    assert event == EffectBlocked(at_ms=5, effect=effect.effect, lacks="")


def test_a_continued_history_starts_from_the_carried_state() -> None:
    state = play_in("waiting").state
    payload = write(RunInput(agent="Triage", carried=write_state(state)))
    assert opening(payload) == state
    start = task(900, Started(payload=payload), Signalled(name="decide", arguments=(APPROVE,)))
    ((event, after),) = states(start, state=opening(payload))
    assert isinstance(event, PersonActed)
    assert after.approvals[0].decided_at_ms == 900
    assert [one.effect for one in after.pending] == [3]


@pytest.mark.parametrize(
    "payload", [None, "x", INPUT, {"carried": {"phase": "asleep"}}, {"schema_version": 99}]
)
def test_any_other_history_starts_from_nothing(payload: Any) -> None:
    assert opening(payload) == LoopState()


def test_a_run_is_the_same_cut_in_two_histories() -> None:
    tasks = [
        task(100, Started(payload=INPUT), PREPARED),
        task(200, ended(2, tool("f", "c1"))),
        task(300, Resolved(effect=3, payload={"output": "x"})),
        task(400, ended(4, said("Done."))),
    ]
    whole = states(*tasks)
    for cut in range(1, 4):
        first = states(*tasks[:cut])
        payload = write(RunInput(carried=write_state(first[-1][1])))
        second = states(task(1, Started(payload=payload)), *tasks[cut:], state=opening(payload))
        assert [*first, *second] == whole


def test_no_happening_can_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        PREPARED.effect = 2  # type: ignore[misc]  # that is the point
