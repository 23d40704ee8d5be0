"""Calls that wait for something outside of the run: what arrives, what does not, and who may say."""

import json
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from outlast.contract import failures, records
from outlast.contract.refusals import refusal_of
from outlast.loop import outside, phrases
from outlast.loop.approvals import ApprovalTerms, Audience, EscalationStep
from outlast.loop.calls import Arrival, Parked, RequiredApproval
from outlast.loop.canonical import LONGEST_NAME
from outlast.loop.changes import Change
from outlast.loop.effects import (
    CallModel,
    CleanUp,
    EffectAnswered,
    EffectFailed,
    RunAgent,
    RunTool,
)
from outlast.loop.events import RunEnded, ValueDelivered
from outlast.loop.invariants import violations
from outlast.loop.machine import advance
from outlast.loop.outside import LARGEST_ARRIVALS, MOST_ARRIVALS, RECEIPTS_KEPT
from outlast.loop.revision import revised
from outlast.loop.start import Budget
from outlast.loop.state import stands_still
from outlast.loop.values import BLOB, Failure, Json, JsonObject
from tests.laws.driver import Play, gated, hosted, nested, said, tool, transfer
from tests.unit.loop.test_laws import carried

DAY_MS = 86_400_000
PICKUP: JsonObject = {
    "type": "object",
    "properties": {"weight": {"type": "integer"}},
    "required": ["weight"],
}


def put(key: str, value: Json, before: Json = None) -> Change:
    return Change("set", (key,), value, before)


def parked(*others: Any, reply: dict[str, Any] | None = None, **wait: Any) -> Play:
    """Return a run whose call c1 waits for the courier."""
    play = Play.ready(keep_open=True)
    play.replies(tool("book", "c1"), *others, **(reply or {}))
    play.parks("c1", **wait)
    return play


def status_of(play: Play, call_id: str = "c1") -> str:
    (status,) = [one.status for one in play.state.calls if one.call_id == call_id]
    return status


def delivery(play: Play, value: Json = "picked up", **fields: Any) -> ValueDelivered:
    """Return what comes for the call c1 of the present turn."""
    given: dict[str, Any] = {
        "at_ms": play.now_ms,
        "question": len(play.state.answers),
        "turn": play.state.question.turn,
        "call_id": "c1",
        "name": "courier",
        "delivery_id": "d1",
    }
    return ValueDelivered(**{**given, **fields}, value=value)


def refused(play: Play, event: ValueDelivered) -> str:
    """Return why a delivery is refused; it changes nothing but what people see of it."""
    problem = refusal_of(play.state, event)
    assert problem is not None
    assert problem.code == failures.DELIVERY_REFUSED
    before = play.state
    assert play.take(event) == ()
    note = play.state.ignored[-1]
    assert (note.at_ms, note.why) == (event.at_ms, problem.message)
    assert note.what == f"delivery {event.delivery_id:.80}"
    assert replace(play.state, ignored=before.ignored, at_ms=before.at_ms) == before
    return problem.message


# --- A call that waits -----------------------------------------------------------------------------


def test_a_parked_call_has_no_effect_and_the_run_waits_for_nothing_else() -> None:
    play = parked(timeout_ms=DAY_MS)
    (call,) = play.state.calls
    assert (call.status, call.effect, play.outstanding) == ("parked", None, {})
    assert call.parked is not None
    assert (call.parked.since_ms, call.parked.due_ms) == (
        play.events[-1].at_ms,
        play.events[-1].at_ms + DAY_MS,
    )
    assert (play.state.phase, play.state.status) == ("acting", "parked")
    assert play.outputs == {}


def test_a_wait_without_a_timeout_never_ends_by_itself() -> None:
    play = parked()
    for _ in range(3):
        play.passes(10_000 * DAY_MS)
    assert (status_of(play), play.state.receipts) == ("parked", ())


def test_what_is_delivered_reaches_the_tool_that_runs_again() -> None:
    play = parked(timeout_ms=DAY_MS, done={"booking": "b7"})
    at_ms = play.now_ms
    (command,) = play.delivered("c1", {"weight": 9}, source="courier.example")
    again = play.running("c1")
    assert command == again
    assert again.arrived == (
        Arrival(
            name="courier",
            at_ms=at_ms,
            value={"weight": 9},
            delivery_id="d1",
            source="courier.example",
        ),
    )
    assert (again.output_of, again.done) == ("", {"booking": "b7"})
    (call,) = play.state.calls
    assert (call.status, call.parked, call.effect) == ("running", None, again.effect)
    play.returns("c1", "weighs 9 g")
    assert play.outputs == {"c1": "weighs 9 g"}
    assert play.state.phase == "thinking"


def test_a_returned_wait_says_that_the_value_is_the_output() -> None:
    play = parked(is_output=True)
    play.delivered("c1")
    assert play.running("c1").output_of == "courier"


# --- Signed deliveries -----------------------------------------------------------------------------


def test_a_signed_wait_takes_what_a_worker_has_verified() -> None:
    play = parked(timeout_ms=DAY_MS, signed=True)
    assert "takes signed deliveries only" in refused(play, delivery(play))
    play.take(delivery(play, proof="p", verified=True))
    assert play.running("c1").arrived[0].proof == "p"
    assert play.state.receipts[0].verified is True


def test_a_process_that_believes_itself_needs_no_proof() -> None:
    play = parked(signed=True)
    play.take(delivery(play, verified=True))
    assert play.running("c1").arrived[0].value == "picked up"


def test_what_the_worker_does_not_count_is_dropped_and_the_wait_has_no_more_time() -> None:
    play = parked(timeout_ms=DAY_MS, signed=True)
    (call,) = play.state.calls
    play.passes(3_600_000)
    play.take(delivery(play, proof="forged", verified=None))
    assert play.state.receipts[0].verified is None
    play.parks("c1", timeout_ms=DAY_MS, signed=True, unproven="It is forged.")
    (again,) = play.state.calls
    assert (again.status, again.parked, again.arrived) == ("parked", call.parked, ())
    assert (play.state.receipts, play.state.ignored[-1].why) == ((), "It is forged.")
    play.take(delivery(play, proof="good", verified=True, delivery_id="d2"))
    play.returns("c1", "weighs 9 g")
    assert play.outputs == {"c1": "weighs 9 g"}


def test_a_wait_whose_time_passes_while_a_forged_delivery_is_checked_ends() -> None:
    play = parked(timeout_ms=DAY_MS, signed=True)
    play.take(delivery(play, proof="forged", verified=None))
    play.passes(DAY_MS + 1)
    play.parks("c1", timeout_ms=DAY_MS, signed=True, unproven="It is forged.")
    assert play.running("c1").arrived[0].timed_out


def test_what_came_too_early_without_a_proof_is_dropped_when_the_wait_begins() -> None:
    play = Play.ready(keep_open=True)
    play.replies(tool("book", "c1"))
    play.take(delivery(play))
    play.parks("c1", signed=True)
    assert "takes signed deliveries only" in play.state.ignored[-1].why
    assert (status_of(play), play.state.receipts) == ("parked", ())


def test_what_came_early_with_a_proof_is_kept() -> None:
    play = Play.ready(keep_open=True)
    play.replies(tool("book", "c1"))
    play.take(delivery(play, proof="p", verified=True))
    play.parks("c1", signed=True)
    assert play.running("c1").arrived[0].proof == "p"


def test_while_a_delivery_is_checked_another_one_comes_again_later() -> None:
    """The first one may not count, and the second may be the genuine one."""
    play = parked(timeout_ms=DAY_MS, signed=True)
    play.take(delivery(play, proof="forged", verified=None))
    second = delivery(play, proof="good", verified=True, delivery_id="d2")
    problem = refusal_of(play.state, second)
    assert problem is not None
    assert problem.code == failures.RUN_BUSY
    assert refusal_of(play.state, delivery(play, proof="again", verified=True)) is None
    play.returns("c1")
    problem = refusal_of(play.state, second)
    assert problem is not None
    assert problem.code == failures.DELIVERY_REFUSED


def test_a_wait_for_something_else_is_not_kept_from_unsigned_values() -> None:
    play = parked(signed=True)
    play.take(delivery(play, name="office"))
    assert (status_of(play), play.state.calls[0].arrived[0].name) == ("parked", "office")


def test_a_receipt_says_what_came_of_a_wait() -> None:
    play = parked()
    at_ms = play.now_ms
    play.delivered("c1", source="courier.example")
    (receipt,) = play.state.receipts
    assert (receipt.question, receipt.turn, receipt.call_id) == (0, 1, "c1")
    assert (receipt.tool, receipt.name, receipt.at_ms) == ("book", "courier", at_ms)
    assert (receipt.delivery_id, receipt.source) == ("d1", "courier.example")
    assert not receipt.timed_out
    assert outside.receipt_for(play.state, delivery(play)) == receipt
    assert outside.receipt_for(play.state, delivery(play, name="invoice")) is None


def test_a_call_waits_several_times_and_keeps_its_notes() -> None:
    play = parked(done={"booking": "b7"})
    play.delivered("c1", 1)
    play.parks("c1", "invoice", done={"booking": "b7", "paid": True})
    assert play.state.status == "parked"
    play.delivered("c1", 2, "invoice", "d2")
    again = play.running("c1")
    assert [(one.name, one.value) for one in again.arrived] == [("courier", 1), ("invoice", 2)]
    assert again.done == {"booking": "b7", "paid": True}


@pytest.mark.parametrize("value", [None, False, 0, "", [], {"a": [1]}])
def test_a_value_without_a_schema_may_be_any_json(value: Json) -> None:
    play = parked()
    play.delivered("c1", value)
    assert play.running("c1").arrived[0].value == value


# --- Deliveries that do not count ------------------------------------------------------------------


def test_the_same_delivery_counts_once_and_is_answered_again() -> None:
    play = parked()
    event = delivery(play)
    play.take(event)
    state = play.state
    for again in (event, delivery(play), delivery(play, "something else")):
        assert refusal_of(play.state, again) is None, "a client that asks again gets its receipt"
        assert outside.is_repeated(play.state, again)
        assert play.take(again) == ()
        assert play.state is state
    play.returns("c1")
    assert outside.is_repeated(play.state, event), "also when the call is over"


def test_another_delivery_for_the_same_wait_is_refused() -> None:
    play = parked()
    play.delivered("c1")
    assert refused(play, delivery(play, "other", delivery_id="d2")) == (
        "Another delivery came first: 'courier' has its value already."
    )
    assert play.running("c1").arrived[0].value == "picked up"


def test_a_delivery_after_the_deadline_is_refused() -> None:
    play = parked(timeout_ms=DAY_MS)
    play.passes(DAY_MS)
    assert refused(play, delivery(play)) == (
        "This comes too late: the wait for 'courier' ended without a value."
    )


@pytest.mark.parametrize("early_ms", [0, 1])
def test_what_is_due_at_the_time_of_a_delivery_happens_first(early_ms: int) -> None:
    play = parked(timeout_ms=DAY_MS)
    (call,) = play.state.calls
    assert call.parked is not None
    assert call.parked.due_ms is not None
    play.passed_ms += call.parked.due_ms - early_ms - play.now_ms
    play.delivered("c1")
    (arrival,) = play.running("c1").arrived
    assert arrival.timed_out is (early_ms == 0)
    assert [one.what for one in play.state.ignored] == ["delivery d1"] * (early_ms == 0)


def test_deliveries_of_one_step_come_before_its_deadline_or_after_it_and_count_once() -> None:
    play = parked(timeout_ms=DAY_MS)
    for number in range(50):
        play.delivered("c1", number, delivery_id=f"d{number}")
    (arrival,) = play.running("c1").arrived
    assert (arrival.value, len(play.state.receipts)) == (0, 1)


@pytest.mark.parametrize(
    "wrong",
    [{"question": 1}, {"turn": 2}, {"turn": 0}, {"call_id": "c9"}, {"call_id": ""}],
    ids=str,
)
def test_a_delivery_for_a_call_that_is_not_there_is_refused(wrong: dict[str, Any]) -> None:
    play = parked()
    assert refused(play, delivery(play, **wrong)) == (
        "No call waits for 'courier': the call has ended, or was never made."
    )
    assert status_of(play) == "parked"


def test_a_delivery_for_an_earlier_call_with_the_same_id_is_refused() -> None:
    play = parked()
    late = delivery(play)
    play.delivered("c1")
    play.returns("c1")
    play.replies(tool("book", "c1"))
    play.parks("c1")
    assert "Another delivery came first" in refused(play, replace(late, delivery_id="d2"))
    assert play.take(late) == (), "the first delivery again"
    assert status_of(play) == "parked"
    play.delivered("c1", delivery_id="d3")
    assert status_of(play) == "running"


def test_the_same_call_id_in_the_next_question_is_another_call() -> None:
    play = parked()
    first = delivery(play)
    play.delivered("c1")
    play.returns("c1")
    play.replies(said("Done."))
    play.hears("m2")
    play.replies(tool("book", "c1"))
    play.parks("c1")
    assert play.take(replace(first, at_ms=play.now_ms)) == ()
    assert status_of(play) == "parked"
    play.delivered("c1", delivery_id="d1")
    assert status_of(play) == "running", "the id is of this wait alone"


def test_only_tools_take_values() -> None:
    play = Play.ready()
    play.replies(nested("Billing", "n1"), transfer("Orders", "h1"))
    for call_id in ("n1", "h1"):
        refused(play, delivery(play, call_id=call_id))


def test_a_call_that_waits_for_its_approval_takes_a_value() -> None:
    """A worker may find only when the call runs again that people have to approve it."""
    play = parked()
    play.delivered("c1")
    play.returns("c1", None, required=RequiredApproval())
    assert status_of(play) == "waiting"
    play.delivered("c1", "paid", "invoice", "d2")
    assert status_of(play) == "waiting"
    play.decided("a1", by="ann")
    assert [one.name for one in play.running("c1").arrived] == ["courier", "invoice"]


def test_a_call_keeps_a_hundred_values() -> None:
    play = Play.ready()
    play.replies(tool("book", "c1"))
    for number in range(MOST_ARRIVALS):
        play.delivered("c1", number, f"w{number}", f"d{number}")
    assert refused(play, delivery(play, name="w", delivery_id="d")) == (
        "The call has 100 values already, and keeps no more."
    )
    play.parks("c1", "w7")
    assert len(play.running("c1").arrived) == MOST_ARRIVALS


def test_the_values_of_a_call_have_a_size_together() -> None:
    play = Play.ready()
    play.replies(tool("book", "c1"), tool("book", "c2"))
    play.delivered("c1", "x" * (LARGEST_ARRIVALS - 10))
    why = refused(play, delivery(play, "x" * 20, name="invoice", delivery_id="d2"))
    assert why == (
        "The values of the call would have 500,014 characters as JSON, of at most 500,000. Deliver "
        "an id, and keep the data elsewhere."
    )
    play.delivered("c2", "x" * 20)


@pytest.mark.parametrize("field", ["name", "delivery_id", "source"])
def test_the_texts_of_a_delivery_are_short(field: str) -> None:
    play = Play.ready()
    play.replies(tool("book", "c1"))
    play.take(delivery(play, **{field: "x" * LONGEST_NAME}))
    long: dict[str, Any] = {"name": "other", "delivery_id": "d2", field: "x" * (LONGEST_NAME + 1)}
    assert f"at most {LONGEST_NAME} characters" in refused(play, delivery(play, **long))


def test_receipts_of_the_present_turn_are_never_forgotten() -> None:
    """Otherwise a delivery that comes again could be taken again."""
    play = Play.ready()
    play.replies(*(tool("book", f"c{at}") for at in range(3)))
    for at in range(3):
        for number in range(MOST_ARRIVALS):
            play.delivered(f"c{at}", number, f"w{number}", f"d{number}")
    assert len(play.state.receipts) == 3 * MOST_ARRIVALS > RECEIPTS_KEPT
    for at in range(3):
        assert play.take(delivery(play, 0, call_id=f"c{at}", name="w0", delivery_id="d0")) == ()
        refused(play, delivery(play, 1, call_id=f"c{at}", name="w0", delivery_id="other"))
        play.returns(f"c{at}")
    play.replies(tool("book", "c1"))
    play.delivered("c1")
    assert len(play.state.receipts) == 3 * MOST_ARRIVALS, "the oldest makes room"
    assert play.state.receipts[-1].turn == 2


# --- A value before the wait -----------------------------------------------------------------------


def test_a_value_that_comes_before_the_call_waits_is_kept() -> None:
    play = Play.ready()
    play.replies(tool("book", "c1"))
    assert play.delivered("c1", 7) == ()
    assert (status_of(play), play.running("c1").arrived) == ("running", ())
    (command,) = play.parks("c1", timeout_ms=DAY_MS)
    assert isinstance(command, RunTool)
    assert [one.value for one in command.arrived] == [7]
    assert play.delivered("c1", 7) == ()
    assert "came first" in refused(play, delivery(play, 8, delivery_id="d2"))


def test_a_value_for_a_call_that_has_not_begun_is_kept() -> None:
    play = Play.ready()
    play.replies(tool("f", "c1"), tool("book", "c2"), parallel=1)
    assert status_of(play, "c2") == "planned"
    assert play.delivered("c2", 7) == ()
    play.returns("c1")
    assert [one.value for one in play.running("c2").arrived] == [7]


def test_a_value_for_another_wait_of_the_call_waits_for_its_turn() -> None:
    play = parked()
    assert play.delivered("c1", 2, "invoice", "d2") == ()
    assert status_of(play) == "parked"
    play.delivered("c1", 1)
    (command,) = play.parks("c1", "invoice")
    assert isinstance(command, RunTool)
    assert [(one.name, one.value) for one in command.arrived] == [("invoice", 2), ("courier", 1)]


def test_an_early_value_that_does_not_fit_is_dropped_and_may_come_again() -> None:
    play = Play.ready()
    play.replies(tool("book", "c1"))
    play.delivered("c1", {"weight": "heavy"})
    play.delivered("c1", 2, "invoice", "d2")
    play.parks("c1", schema=PICKUP)
    assert status_of(play) == "parked"
    (note,) = play.state.ignored
    assert (note.what, note.at_ms) == ("delivery d1", play.events[-1].at_ms)
    assert note.why == "The value for 'courier' does not fit: weight must be of type integer."
    assert [one.name for one in play.state.calls[0].arrived] == ["invoice"]
    assert [one.name for one in play.state.receipts] == ["invoice"]
    play.delivered("c1", {"weight": 9}, delivery_id="d1")
    assert [one.value for one in play.running("c1").arrived] == [2, {"weight": 9}]


def test_an_early_value_is_lost_with_a_call_that_never_waits() -> None:
    play = Play.ready()
    play.replies(tool("book", "c1"))
    play.delivered("c1")
    play.returns("c1", "no courier needed")
    assert play.outputs == {"c1": "no courier needed"}
    assert [one.delivery_id for one in play.state.receipts] == ["d1"], "people can see it"


# --- A value that does not fit ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"weight": "heavy"}, "weight must be of type integer."),
        ({}, "weight is missing."),
        ("9 g", "The value must be of type object."),
        (None, "The value must be of type object."),
    ],
)
def test_a_value_that_does_not_fit_is_refused_and_the_call_waits_on(
    value: Json, problem: str
) -> None:
    play = parked(schema=PICKUP, timeout_ms=DAY_MS)
    assert refused(play, delivery(play, value)) == (
        f"The value for 'courier' does not fit: {problem}"
    )
    assert status_of(play) == "parked"
    play.delivered("c1", {"weight": 9}, delivery_id="d1")
    assert status_of(play) == "running"


def test_a_text_in_the_blob_store_is_a_text_for_the_schema() -> None:
    stored: JsonObject = {BLOB: "sha256:" + "0" * 64, "bytes": 300_000}
    pages: JsonObject = {"type": "object", "properties": {"pages": {"items": {"type": "string"}}}}
    play = parked(schema=pages)
    why = "The value for 'courier' does not fit: pages[0] must be of type string."
    assert refused(play, delivery(play, {"pages": [7, stored]})) == why
    play.delivered("c1", {"pages": [stored, "two"]})
    assert play.running("c1").arrived[0].value == {"pages": [stored, "two"]}


def test_a_schema_is_of_one_wait() -> None:
    play = parked(schema=PICKUP)
    play.delivered("c1", "any text", "invoice", "d2")
    assert status_of(play) == "parked"
    assert play.state.ignored == ()


# --- Calls that have ended -------------------------------------------------------------------------


def test_a_message_that_interrupts_ends_the_wait() -> None:
    play = parked(timeout_ms=DAY_MS)
    late = delivery(play)
    play.hears("m2", mode="interrupt")
    assert play.outputs == {"c1": phrases.STOPPED_WAITING}, "the courier may come all the same"
    assert play.state.phase == "thinking"
    assert "the call has ended" in refused(play, replace(late, at_ms=play.now_ms))
    play.passes(2 * DAY_MS)
    assert play.state.receipts == ()


def test_a_message_that_steers_waits_for_the_turn() -> None:
    play = parked()
    play.hears("m2")
    assert status_of(play) == "parked"
    play.delivered("c1")
    play.returns("c1")
    assert play.kinds[-2:] == ["tool_output", "input"]


def test_a_wait_that_is_interrupted_beside_a_running_call_is_over() -> None:
    play = parked(tool("f", "c2"))
    play.hears("m2", mode="interrupt")
    assert (status_of(play), play.state.phase) == ("settled", "acting")
    assert "the call has ended" in refused(play, delivery(play))
    play.returns("c2")
    assert play.outputs == {"c1": phrases.STOPPED_WAITING, "c2": "ok"}


def test_an_interrupted_call_whose_value_has_come_was_not_unrun() -> None:
    play = parked(tool("f", "c2"), tool("f", "c3"), reply={"parallel": 1})
    play.delivered("c1")
    assert status_of(play) == "planned"
    play.hears("m2", mode="interrupt")
    play.returns("c2")
    assert play.outputs == {
        "c1": phrases.STOPPED_WAITING,
        "c2": "ok",
        "c3": phrases.SUPERSEDED,
    }


def test_a_parked_call_of_a_run_that_is_stopped_has_an_output() -> None:
    play = parked(tool("f", "c2"), timeout_ms=DAY_MS)
    play.cancelled()
    assert play.outputs == {"c1": phrases.CANCELLED, "c2": phrases.CANCELLED}
    assert play.state.phase == "closed"


def test_a_run_that_only_waits_stops_at_once_when_it_is_to_end_after_the_turn() -> None:
    play = parked()
    play.cancelled("after_turn")
    assert play.finish.status == "cancelled"
    assert play.outputs == {"c1": phrases.CANCELLED}


def test_a_run_that_is_to_end_after_the_turn_stops_waiting_when_the_rest_is_done() -> None:
    play = parked(tool("f", "c2"))
    play.cancelled("after_turn")
    assert status_of(play) == "parked"
    play.returns("c2")
    assert play.outputs == {"c1": phrases.CANCELLED, "c2": "ok"}
    assert play.state.phase == "closed"


def test_a_delivery_to_a_run_that_ends_after_the_turn_still_counts() -> None:
    play = parked(tool("f", "c2"))
    play.cancelled("after_turn")
    play.delivered("c1")
    play.returns("c2")
    play.returns("c1")
    assert play.outputs == {"c1": "ok", "c2": "ok"}
    assert play.state.phase == "closed"


def test_a_run_that_has_ended_takes_no_deliveries() -> None:
    play = parked()
    event = delivery(play)
    play.cancelled()
    refusal = refusal_of(play.state, event)
    assert refusal is not None
    assert refusal.code == failures.RUN_CLOSED
    assert refusal.message == "The run support-42 has ended. Start a new one."
    before = play.state
    assert play.take(event) == ()
    assert play.state is before


def test_a_run_that_closes_takes_no_deliveries() -> None:
    play = Play(session=True)
    play.prepared()
    play.replies(tool("book", "c1"))
    play.parks("c1")
    event = delivery(play)
    play.cancelled("after_turn")
    assert play.state.phase == "closing"
    refusal = refusal_of(play.state, event)
    assert refusal is not None
    assert refusal.code == failures.RUN_CLOSED
    assert play.take(event) == ()
    assert [one.what for one in play.state.ignored] == ["delivery d1"]


def test_a_failure_of_another_call_ends_the_wait() -> None:
    play = parked(tool("careful", "c2", fatal=True))
    play.fails(play.running("c2"))
    assert play.outputs["c1"] == phrases.CANCELLED
    assert play.state.phase == "idle"


def test_a_failed_attempt_after_the_wait_is_told_to_the_model() -> None:
    play = parked()
    play.delivered("c1")
    play.fails(play.running("c1"), "tool_failed")
    assert play.outputs == {"c1": phrases.tool_failed("book", "tool_failed")}


# --- When nothing comes in time --------------------------------------------------------------------


def test_a_tool_learns_that_nothing_came() -> None:
    play = parked(timeout_ms=DAY_MS)
    play.passes(DAY_MS - 2_000)
    assert status_of(play) == "parked"
    play.passes(DAY_MS)
    at_ms = play.events[-1].at_ms
    assert play.running("c1").arrived == (Arrival(name="courier", at_ms=at_ms, timed_out=True),)
    (receipt,) = play.state.receipts
    assert (receipt.delivery_id, receipt.at_ms, receipt.timed_out) == ("", at_ms, True)


@pytest.mark.parametrize("value", [None, "nobody came", {"weight": 0}])
def test_a_value_takes_the_place_of_what_did_not_come(value: Json) -> None:
    play = parked(timeout_ms=DAY_MS, on_timeout="value", value=value)
    play.passes(DAY_MS)
    at_ms = play.events[-1].at_ms
    default = Arrival(name="courier", at_ms=at_ms, value=value, is_default=True)
    assert play.running("c1").arrived == (default,)
    assert play.state.receipts[0].timed_out, "a later delivery comes too late"
    assert "too late" in refused(play, delivery(play))


def test_any_event_tells_the_time() -> None:
    play = parked(timeout_ms=5_000)
    play.passed_ms += 10_000
    play.hears("m2")
    assert play.running("c1").arrived[0].timed_out


def test_several_waits_end_at_once_each_as_its_tool_has_chosen() -> None:
    play = Play.ready()
    play.replies(*(tool("book", f"c{at}") for at in range(3)))
    for at, choice in enumerate(("tool", "value", "ask")):
        play.parks(f"c{at}", timeout_ms=DAY_MS, on_timeout=choice, value=7)
    play.passes(2 * DAY_MS)
    assert play.running("c0").arrived[0].timed_out
    assert play.running("c1").arrived[0].value == 7
    assert [status_of(play, f"c{at}") for at in range(3)] == ["running", "running", "waiting"]


def test_the_next_wait_of_a_call_has_its_own_time() -> None:
    play = parked(timeout_ms=DAY_MS)
    play.delivered("c1")
    play.parks("c1", "invoice", timeout_ms=DAY_MS)
    play.passes(DAY_MS)
    assert [(one.name, one.timed_out) for one in play.running("c1").arrived] == [
        ("courier", False),
        ("invoice", True),
    ]


# --- People who are asked for the value ------------------------------------------------------------

TERMS = ApprovalTerms(
    quorum=1,
    expires_in_ms=5_000,
    on_expiry="fail",
    remind_every_ms=100_000,
    escalations=(EscalationStep(after_ms=10**9, audience=Audience(groups=("leads",))),),
    bulk=True,
    allow=("approve", "edit"),
    response_schema={"type": "boolean"},
)


def asked(*others: Any, terms: ApprovalTerms | None = None, **wait: Any) -> Play:
    """Return a run whose people are asked for what the courier did not bring."""
    play = Play.ready(keep_open=True)
    if terms is None:
        play.replies(tool("book", "c1", '{"order": 7}'), *others)
    else:
        play.replies(gated("book", "c1", '{"order": 7}', terms=terms), *others)
        for one in ("ann", "bob")[: terms.quorum]:
            play.decided("a1", by=one)
    play.parks("c1", timeout_ms=DAY_MS, on_timeout="ask", **wait)
    play.passes(DAY_MS)
    return play


def test_people_are_asked_for_the_value() -> None:
    play = asked(schema=PICKUP)
    (request,) = play.state.pending_approvals
    assert (request.id, request.kind, request.name) == ("a1", "tool", "book: courier")
    assert (request.call_id, request.arguments) == ("c1", '{"order": 7}')
    assert request.reason == "Nothing came for 'courier' in time."
    assert request.terms.allow == ("respond", "approve", "reject")
    assert request.terms.response_schema == PICKUP
    assert request.requested_at_ms == play.events[-1].at_ms
    assert (play.state.status, status_of(play)) == ("waiting", "waiting")
    (call,) = play.state.calls
    assert (call.request_id, call.approval) == ("a1", None)
    assert isinstance(call.parked, Parked)
    assert call.parked.due_ms is None


def test_people_are_asked_in_the_words_of_the_wait() -> None:
    play = asked(schema=PICKUP, question="The server asks: how heavy?")
    (request,) = play.state.pending_approvals
    assert request.reason == "The server asks: how heavy?"
    assert request.terms.allow == ("respond", "reject")  # there is nothing else to wait for
    play.decided("a1", by="ann")
    assert "only with respond, reject" in play.state.ignored[-1].why
    play.decided("a1", "reject", by="ann")
    (arrival,) = play.running("c1").arrived
    assert arrival.timed_out


def test_the_request_has_the_terms_of_the_tool_and_does_not_expire() -> None:
    play = asked(terms=TERMS)
    (request,) = play.state.pending_approvals
    assert (request.expires_at_ms, request.terms.expires_in_ms) == (None, None)
    assert request.terms.escalations == TERMS.escalations
    assert not request.terms.bulk
    assert request.terms.response_schema is None
    play.passes(500 * DAY_MS)
    (request,) = play.state.pending_approvals
    assert (request.reminders, request.escalated) == (1, 1)


def test_a_person_gives_the_value() -> None:
    play = asked(schema=PICKUP)
    play.decided("a1", "respond", response={"weight": "heavy"}, by="ann")
    assert "does not fit" in play.state.ignored[-1].why
    at_ms = play.now_ms
    play.decided("a1", "respond", response={"weight": 9}, by="ann")
    assert play.running("c1").arrived == (
        Arrival(name="courier", at_ms=at_ms, value={"weight": 9}, source="ann"),
    )
    assert play.state.approvals[0].status == "responded"
    (receipt,) = play.state.receipts
    assert (receipt.source, receipt.delivery_id, receipt.timed_out) == ("ann", "", False)
    assert "came first" in refused(play, delivery(play, {"weight": 9}))
    play.returns("c1", "weighs 9 g")
    assert play.outputs == {"c1": "weighs 9 g"}


def test_a_person_without_a_name_gives_the_value() -> None:
    play = asked()
    play.decided("a1", "respond", response="at noon")
    assert [(one.value, one.source) for one in play.running("c1").arrived] == [("at noon", "")]


def test_a_person_lets_the_call_wait_as_long_again() -> None:
    play = asked(schema=PICKUP)
    at_ms = play.now_ms
    assert play.decided("a1", by="ann") == ()
    (call,) = play.state.calls
    assert call.parked is not None
    assert (call.status, call.parked.since_ms, call.parked.due_ms) == (
        "parked",
        at_ms,
        at_ms + DAY_MS,
    )
    assert (play.state.status, call.request_id) == ("parked", None)
    play.passes(DAY_MS)
    assert [one.status for one in play.state.approvals] == ["approved", "pending"]
    assert status_of(play) == "waiting"
    play.decided("a2", by="ann")
    play.delivered("c1", {"weight": 9})
    assert play.running("c1").arrived[0].value == {"weight": 9}


def test_a_person_ends_the_wait_without_a_value() -> None:
    play = asked()
    at_ms = play.now_ms
    play.decided("a1", "reject", by="ann")
    assert play.running("c1").arrived == (
        Arrival(name="courier", at_ms=at_ms, source="ann", timed_out=True),
    )
    assert play.state.receipts[0].source == "ann"
    assert "too late" in refused(play, delivery(play))


def test_a_value_that_comes_while_people_are_asked_counts() -> None:
    play = asked(schema=PICKUP)
    assert "does not fit" in refused(play, delivery(play, "?"))
    play.delivered("c1", {"weight": 9})
    (request,) = play.state.approvals
    assert (request.status, request.decision) == ("superseded", None)
    assert play.running("c1").arrived[0].value == {"weight": 9}
    play.decided("a1", "respond", response={"weight": 1}, by="ann")
    assert "is already superseded" in play.state.ignored[-1].why


def test_a_value_supersedes_its_own_request_only() -> None:
    play = asked(gated("refund", "c2"), tool("book", "c3"))
    play.parks("c3", timeout_ms=1_000, on_timeout="ask")
    play.passes(5_000)
    assert [one.name for one in play.state.pending_approvals] == [
        "refund",
        "book: courier",
        "book: courier",
    ]
    play.delivered("c1")
    assert [one.status for one in play.state.approvals] == ["pending", "superseded", "pending"]


def test_a_decision_about_the_value_is_none_about_the_tool() -> None:
    play = asked()
    play.decided("a1", "approve", by="ann", remember=True)
    play.delivered("c1")
    play.returns("c1")
    play.replies(gated("book", "c2", '{"order": 7}'))
    assert status_of(play, "c2") == "waiting"


def test_an_interrupting_message_ends_the_question_to_people() -> None:
    play = asked()
    play.hears("m2", mode="interrupt")
    assert [one.status for one in play.state.approvals] == ["superseded"]
    assert play.outputs == {"c1": phrases.STOPPED_WAITING}


def test_a_failure_does_not_say_that_a_call_was_not_run_whose_value_people_are_asked_for() -> None:
    play = asked(tool("careful", "c2", fatal=True), gated("refund", "c3"))
    play.fails(play.running("c2"))
    assert (play.outputs["c1"], play.outputs["c3"]) == (phrases.CANCELLED, phrases.NOT_RUN)


@pytest.mark.parametrize("mode", ["immediate", "after_turn"])
def test_a_run_that_is_stopped_asks_nobody_any_more(mode: Any) -> None:
    play = asked()
    play.cancelled(mode)
    assert [one.status for one in play.state.approvals] == ["cancelled"]
    assert play.outputs["c1"] == phrases.CANCELLED
    assert play.state.phase == "closed"


def test_one_person_answers_also_where_two_approve_the_call() -> None:
    play = asked(terms=ApprovalTerms(quorum=2))
    play.decided("a2", by="ann")
    assert status_of(play) == "parked", "nothing is approved: the call waits as long again"


# --- A person who has the conversation -------------------------------------------------------------


def test_a_wait_ends_while_a_person_has_the_conversation() -> None:
    play = parked(timeout_ms=DAY_MS)
    play.holds()
    play.passes(DAY_MS)
    assert play.running("c1").arrived[0].timed_out
    play.returns("c1", "no courier")
    assert play.state.phase == "held"
    assert play.outputs == {"c1": "no courier"}


def test_no_time_passes_for_people_who_are_asked_during_a_takeover() -> None:
    play = Play.ready(keep_open=True)
    play.replies(gated("book", "c1", terms=TERMS))
    play.decided("a1", by="ann")
    play.parks("c1", timeout_ms=1_000, on_timeout="ask")
    play.holds()
    play.passes(5_000)
    (request,) = play.state.pending_approvals
    play.passes(DAY_MS)
    assert play.state.pending_approvals == (request,)
    play.releases()
    play.passes(100_000)
    assert play.state.pending_approvals[0].reminders == 1


def test_a_value_comes_during_a_takeover() -> None:
    play = parked()
    play.holds()
    play.delivered("c1")
    play.returns("c1")
    assert play.state.phase == "held"
    play.releases()
    assert play.state.phase == "thinking"


# --- Beside other calls ----------------------------------------------------------------------------


def test_a_parked_call_does_not_hold_up_the_others() -> None:
    play = parked(tool("f", "c2"))
    assert (play.running_ids, play.state.status) == (["c2"], "running")
    play.returns("c2", "found")
    assert play.state.status == "parked"
    assert play.outputs == {"c2": "found"}, "it is recorded before a wait of days"
    play.delivered("c1")
    play.returns("c1", "picked up")
    assert list(play.outputs) == ["c2", "c1"]
    assert play.state.phase == "thinking"


def test_a_parked_call_leaves_its_place_to_the_next() -> None:
    play = Play.ready()
    play.replies(*(tool("book", f"c{at}") for at in range(3)), parallel=1)
    play.parks("c0")
    assert play.running_ids == ["c1"]
    play.delivered("c0")
    assert (play.running_ids, status_of(play, "c0")) == (["c1"], "planned")
    play.returns("c1")
    assert play.running_ids == ["c0"], "its turn comes before later calls"
    play.returns("c0")
    play.returns("c2")
    assert list(play.outputs) == ["c0", "c1", "c2"]


@pytest.mark.parametrize("order", list(permutations(["c0", "c1", "c2"])))
def test_values_in_any_order_come_to_the_same(order: tuple[str, ...]) -> None:
    play = Play.ready()
    play.replies(*(tool("book", f"c{at}") for at in range(3)))
    for at in range(3):
        play.parks(f"c{at}")
    for call_id in order:
        play.delivered(call_id, f"value of {call_id}")
    for call_id in ("c0", "c1", "c2"):
        play.returns(call_id, play.running(call_id).arrived[0].value)
    assert list(play.outputs.items()) == [(f"c{at}", f"value of c{at}") for at in range(3)]


@pytest.mark.parametrize("first", ["decision", "delivery"])
def test_a_run_waits_for_people_and_for_a_value(first: str) -> None:
    play = parked(gated("refund", "c2"))
    assert play.state.status == "waiting", "people are named first: they can do something"
    steps = [lambda: play.decided("a1", "reject"), lambda: play.delivered("c1")]
    for step in steps if first == "decision" else reversed(steps):
        step()
    play.returns("c1")
    assert play.outputs == {"c1": "ok", "c2": phrases.REJECTED}
    assert play.state.phase == "thinking"


def test_a_handoff_waits_for_the_value() -> None:
    play = parked(transfer("Billing", "h1"))
    assert (play.state.agent, status_of(play, "h1")) == ("Triage", "held")
    play.delivered("c1")
    play.returns("c1")
    assert play.state.agent == "Billing"
    assert list(play.outputs) == ["c1", "h1"]


def test_a_call_that_was_approved_parks_and_is_not_approved_again() -> None:
    play = Play.ready()
    play.replies(gated("book", "c1"))
    play.decided("a1", by="ann")
    play.parks("c1", timeout_ms=DAY_MS, on_timeout="ask")
    assert status_of(play) == "parked"
    play.passes(DAY_MS)
    (call,) = play.state.calls
    assert (call.approval, call.request_id) == ("a1", "a2")
    play.decided("a2", "respond", response="at noon", by="bob")
    again = play.running("c1")
    assert again.approved
    assert again.evidence is not None
    assert [one.by for one in again.evidence.decisions] == ["ann"]


def test_an_edited_call_parks_and_the_model_learns_of_the_edit() -> None:
    play = Play.ready()
    play.replies(gated("book", "c1", '{"order": 7}'))
    play.decided("a1", "edit", edited_arguments={"order": 8}, by="ann", message="The other one.")
    play.parks("c1", timeout_ms=DAY_MS, on_timeout="ask")
    play.passes(DAY_MS)
    play.decided("a2", "respond", response="at noon", by="bob")
    assert play.running("c1").arguments == '{"order": 8}'
    play.returns("c1", "at noon")
    output = str(play.outputs["c1"])
    assert "at noon" in output
    assert "The other one." in output


def test_a_final_tool_that_waits_makes_the_answer() -> None:
    play = Play.ready(keep_open=True)
    play.replies(tool("book", "c1", final=True), required_steps=("finalize_answer",))
    play.parks("c1", is_output=True)
    play.delivered("c1", "at noon")
    assert play.running("c1").final
    play.returns("c1", "at noon", value="at noon")
    play.concluded(output="at noon")
    assert play.state.final_output == "at noon"


def test_a_short_call_parks() -> None:
    """It runs in the worker's workflow task, and later the same way again."""
    play = Play.ready()
    play.replies(hosted("delete", "r1"), tool("book", "c1"))
    play.parks("c1")
    play.delivered("c1")
    play.returns("c1", None, deferred=True)
    assert [one.value for one in play.running("c1").arrived] == ["picked up"]


# --- Context changes -------------------------------------------------------------------------------


@pytest.mark.parametrize("order", list(permutations(["c1", "c2"])))
def test_changes_of_a_returned_wait_are_kept_in_the_order_of_the_calls(
    order: tuple[str, ...],
) -> None:
    play = Play.ready(context={"log": []})
    play.replies(tool("book", "c1"), tool("f", "c2"))
    for call_id in order:
        change = Change("append", ("log",), [call_id])
        if call_id == "c1":
            play.parks("c1", "courier", change, put("n", 1), is_output=True)
        else:
            play.returns("c2", "ok", change, put("n", 2))
    assert play.state.context == {"log": ["c1", "c2"], "n": 2}, "recorded before the wait"
    play.delivered("c1")
    assert play.running("c1").context == {"log": ["c1", "c2"], "n": 2}
    play.returns("c1", "ok", Change("append", ("log",), ["hook"]))
    assert play.state.context == {"log": ["c1", "c2", "hook"], "n": 2}


def test_a_call_that_runs_again_sees_its_own_changes() -> None:
    play = Play.ready(context={"n": 0})
    play.replies(tool("book", "c1"), tool("f", "c2"))
    play.parks("c1", "courier", put("n", 1, 0), is_output=True)
    play.delivered("c1")
    assert play.running("c1").context == {"n": 1}
    play.returns("c1", "ok", put("n", 2, 1))
    play.returns("c2", "ok", put("n", 5, 0))
    assert play.state.context == {"n": 7}, "what each added"


def test_changes_of_one_worker_stay_in_its_order() -> None:
    """In one worker, each call has seen what the earlier one did."""
    play = Play.ready(context={"status": "open"})
    play.replies(tool("f", "c1"), tool("book", "c2"))
    effect = play.running("c2").effect
    result = replace(_wait_result(put("status", "booked", "open")), host="w", order=1)
    play.take(EffectAnswered(at_ms=play.now_ms, effect=effect, result=result))
    play.delivered("c2")
    play.returns("c1", "ok", put("status", "paid", "booked"), host="w", order=2)
    play.returns("c2", "ok", host="v", order=1)
    assert play.state.context == {"status": "paid"}
    assert play.state.ignored == ()


def _wait_result(*changes: Change) -> Any:
    from outlast.loop.calls import OutsideWait, ToolResult

    wait = OutsideWait(name="courier", is_output=True)
    return ToolResult(output=None, wait=wait, changes=changes)


@pytest.mark.parametrize("order", list(permutations(["c1", "c2"])))
def test_people_see_where_a_wait_and_another_call_set_the_same_field(
    order: tuple[str, ...],
) -> None:
    play = Play.ready(context={"status": "open"})
    play.replies(tool("book", "c1"), tool("f", "c2"))
    for call_id in order:
        if call_id == "c1":
            play.parks("c1", "courier", put("status", "booked", "open"), is_output=True)
        else:
            play.returns("c2", "ok", put("status", "lost", "open"))
    assert [one.what for one in play.state.ignored] == ["context"]
    assert play.state.context == {"status": "lost"}


def test_a_call_does_not_clash_with_itself() -> None:
    play = Play.ready(context={"status": "open"})
    play.replies(tool("book", "c1"), tool("f", "c2"))
    play.parks("c1", "courier", put("status", "booked", "open"), is_output=True)
    play.delivered("c1")
    play.returns("c1", "ok", put("status", "sent", "open"))
    assert play.state.ignored == ()


def test_changes_of_a_wait_that_is_stopped_are_kept() -> None:
    """The tool has done what it did."""
    play = Play.ready(context={"n": 0})
    play.replies(tool("book", "c1"), tool("f", "c2"))
    play.parks("c1", "courier", put("n", 1), is_output=True)
    play.cancelled()
    assert play.state.context == {"n": 1}


# --- Time budgets, nested runs, and a new history --------------------------------------------------


@pytest.mark.parametrize("ends", ["value", "deadline"])
def test_no_time_of_a_budget_passes_during_a_wait(ends: str) -> None:
    play = Play.ready(budgets=(Budget(of="seconds", limit=60),))
    play.replies(tool("book", "c1"))
    play.parks("c1", timeout_ms=10 * DAY_MS)
    assert play.state.pauses.since_ms == play.events[-1].at_ms
    play.passes((9 if ends == "value" else 11) * DAY_MS)
    play.delivered("c1")
    play.returns("c1")
    assert play.state.pauses.since_ms is None
    assert play.state.pauses.total_ms >= 9 * DAY_MS
    assert play.state.phase == "thinking", "the budget is not used up"


def test_a_nested_run_parks_and_its_parent_goes_on_waiting_for_it() -> None:
    play = Play.ready()
    play.replies(nested("Billing", "n1"), tool("book", "c1"))
    play.parks("c1")
    assert isinstance(play.only(RunAgent), RunAgent)
    assert not stands_still(play.state)
    play.worked(final_output="paid")
    assert play.state.status == "parked"


def test_a_run_goes_on_the_same_in_a_new_history() -> None:
    play = Play.ready(context={"n": 0}, keep_open=True)
    play.replies(*(tool("book", f"c{at}") for at in range(4)))
    play.parks(
        "c0", "courier", put("n", 1), schema=PICKUP, timeout_ms=DAY_MS, done={"booking": ["b7"]}
    )
    play.parks("c1", timeout_ms=DAY_MS, on_timeout="value", value={"a": None})
    play.parks("c2", timeout_ms=1_000, on_timeout="ask", is_output=True)
    play.delivered("c3", {"early": True}, "later", "d3", source="x")
    play.passes(5_000)
    assert [one.status for one in play.state.calls] == ["parked", "parked", "waiting", "running"]
    read = carried(play.state)
    assert read == play.state
    for event in (
        delivery(play, {"weight": 9}, call_id="c0"),
        delivery(play, "at noon", call_id="c2"),
        delivery(play, {"early": True}, call_id="c3", name="later", delivery_id="d3"),
        delivery(play, "other", call_id="c3", name="later", delivery_id="d4"),
    ):
        play.take(event)
        read = carried(advance(read, event)[0])
        assert read == play.state


# --- What holds of every state ---------------------------------------------------------------------


def test_a_state_with_a_parked_call_that_waits_for_nothing_breaks_a_law() -> None:
    play = parked()
    (call,) = play.state.calls
    came = Arrival(name="courier", at_ms=1)
    for wrong in (replace(call, parked=None), replace(call, arrived=(came,))):
        (law,) = violations(revised(play.state, calls=(wrong,)))
        assert law.startswith("I20")
    other = replace(call, arrived=(replace(came, name="invoice"),))
    assert violations(revised(play.state, calls=(other,))) == []


def test_a_parked_call_is_something_that_an_acting_run_waits_for() -> None:
    play = parked()
    (call,) = play.state.calls
    settled = replace(call, status="settled", parked=None)
    assert any(one.startswith("I12") for one in violations(revised(play.state, calls=(settled,))))
    assert violations(play.state) == []


def test_the_model_is_not_asked_before_the_value_is_there() -> None:
    play = parked()
    asked = [one for one in play.issued if isinstance(one, CallModel)]
    assert len(asked) == 1
    play.delivered("c1")
    play.returns("c1")
    assert play.only(CallModel).turn == 2


# --- Waits that a message ends ---------------------------------------------------------------------


def test_a_message_ends_a_wait_that_does_not_outlast_it() -> None:
    play = Play.ready(keep_open=True)
    play.replies(tool("book", "c1"), tool("book", "c2"))
    play.parks("c1", until_message=True, on_timeout="value", value="the user wrote")
    play.parks("c2")
    play.hears("m2")
    assert [one.status for one in play.state.calls] == ["running", "parked"]
    (arrival,) = play.running("c1").arrived
    assert (arrival.value, arrival.is_default) == ("the user wrote", True)
    assert "too late" in refused(play, delivery(play))


def test_a_message_that_is_there_already_ends_the_wait_as_it_begins() -> None:
    play = Play.ready(keep_open=True)
    play.replies(tool("book", "c1"))
    play.hears("m2")
    play.parks("c1", until_message=True)
    (arrival,) = play.running("c1").arrived
    assert arrival.timed_out


def test_a_value_that_came_first_is_not_lost_to_a_message() -> None:
    play = Play.ready(keep_open=True)
    play.replies(tool("book", "c1"))
    play.delivered("c1", "picked up")
    play.hears("m2")
    play.parks("c1", until_message=True)
    (arrival,) = play.running("c1").arrived
    assert (arrival.value, arrival.timed_out) == ("picked up", False)


# --- A tool that looks for itself ------------------------------------------------------------------


def test_a_tool_looks_for_itself_until_something_is_delivered() -> None:
    play = parked(timeout_ms=DAY_MS, every_ms=30_000, done={"job": "j1"})
    since_ms = play.state.calls[0].parked.since_ms  # type: ignore[union-attr]
    for _ in range(3):
        play.passes(30_000)
        again = play.running("c1")
        assert (again.arrived, again.done) == ((), {"job": "j1"})
        assert status_of(play) == "running"
        assert play.state.calls[0].outside is not None
        play.parks("c1", timeout_ms=DAY_MS, every_ms=30_000, done={"job": "j1"})
    waits = play.state.calls[0].parked
    assert waits is not None
    assert (waits.since_ms, waits.ends_ms) == (since_ms, since_ms + DAY_MS)
    play.delivered("c1", "ready")
    assert [one.value for one in play.running("c1").arrived] == ["ready"]
    play.returns("c1", "It is ready.")
    assert play.outputs == {"c1": "It is ready."}


def test_the_time_of_a_wait_counts_from_its_first_look() -> None:
    play = parked(timeout_ms=70_000, every_ms=30_000)
    for _ in range(2):
        play.passes(30_000)
        play.parks("c1", timeout_ms=70_000, every_ms=30_000)
    play.passes(30_000)
    (ended,) = play.running("c1").arrived
    assert ended.timed_out


def test_a_wait_whose_time_passes_while_its_tool_looks_ends_with_the_look() -> None:
    play = parked(timeout_ms=70_000, every_ms=30_000)
    play.passes(30_000)
    play.passes(60_000)  # a slow look
    play.parks("c1", timeout_ms=70_000, every_ms=30_000)
    (ended,) = play.running("c1").arrived
    assert ended.timed_out


def test_a_value_that_comes_while_the_tool_looks_has_to_fit_and_counts() -> None:
    play = parked(every_ms=30_000, schema=PICKUP)
    play.passes(30_000)
    assert "does not fit" in refused(play, delivery(play, {"weight": "heavy"}, delivery_id="d0"))
    play.delivered("c1", {"weight": 9})
    assert status_of(play) == "running"  # the look goes on
    play.parks("c1", every_ms=30_000, schema=PICKUP)
    assert [one.value for one in play.running("c1").arrived] == [{"weight": 9}]


def test_a_tool_that_looked_may_wait_for_something_else_from_now_on() -> None:
    play = parked(timeout_ms=DAY_MS, every_ms=30_000)
    play.passes(30_000)
    play.parks("c1", "receipt", timeout_ms=DAY_MS)
    waits = play.state.calls[0].parked
    assert waits is not None
    assert (waits.wait.name, waits.since_ms) == ("receipt", play.events[-1].at_ms)


# --- A call that is dropped ------------------------------------------------------------------------


@pytest.mark.parametrize("looks", [False, True], ids=["waits", "looks"])
@pytest.mark.parametrize("how", ["interrupt", "cancel", "cancel after the turn"])
def test_a_tool_whose_call_is_dropped_ends_what_it_began(how: str, looks: bool) -> None:
    play = parked(cleanup=True, every_ms=30_000, done={"job": "j1"})
    if looks:
        play.passes(30_000)
    if how == "interrupt" and looks:  # what runs is not interrupted
        return
    if how == "interrupt":
        play.hears("m2", mode="interrupt")
    else:
        play.cancelled("immediate" if how == "cancel" or looks else "after_turn")
    clean_up = play.only(CleanUp)
    assert (clean_up.name, clean_up.call_id, clean_up.done) == ("book", "c1", {"job": "j1"})
    assert play.state.outcome is None, "the run ends before its tools have cleaned up"
    play.returns("c1", "gone")
    assert "gone" not in play.outputs.values()
    assert play.state.outcome == (None if how == "interrupt" else "cancelled")


def test_a_clean_up_is_one_in_the_next_history_and_for_readers() -> None:
    play = parked(cleanup=True)
    play.hears("m2", mode="interrupt")
    read = records.read_state(json.loads(json.dumps(records.write_state(play.state))))
    assert [type(one) for one in read.pending] == [CleanUp, CallModel]
    assert read == play.state


def test_a_clean_up_that_fails_is_seen_and_stops_nothing() -> None:
    play = parked(cleanup=True)
    play.cancelled()
    failure = Failure(code=failures.TOOL_FAILED, message="The courier is away.")
    effect = play.only(CleanUp).effect
    play.take(EffectFailed(at_ms=play.now_ms, effect=effect, failure=failure))
    assert play.state.outcome == "cancelled"
    assert [(one.what, one.why) for one in play.state.ignored] == [
        ("clean-up of book", "The courier is away.")
    ]


def test_nothing_cleans_up_after_a_run_that_the_engine_ended() -> None:
    play = parked(cleanup=True)
    ended, commands = advance(play.state, RunEnded(at_ms=play.now_ms, outcome="terminated"))
    assert commands == ()
    assert (ended.phase, ended.pending) == ("closed", ())


def test_a_call_that_got_its_value_has_nothing_to_clean_up() -> None:
    play = parked(cleanup=True)
    play.delivered("c1")
    play.cancelled()
    assert play.state.outcome == "cancelled"
