"""Updates that do not prove who sends them, where workers have an identity key."""

from dataclasses import replace
from typing import Any

import pytest

from outlast.contract import failures, names, records, refusals
from outlast.contract.identity import (
    IdentityKey,
    IdentityKeys,
    Place,
    Signable,
    proof_problem,
    shared_key,
    signed,
)
from outlast.contract.refusals import proof_refusal
from outlast.loop.actions import ClaimAction, DeliverRecord, HoldAction, ReleaseAction, SayAction
from outlast.loop.approvals import ApprovalRequest, Decision
from outlast.loop.events import ValueDelivered
from outlast.loop.start import Start
from outlast.loop.state import LoopState, Phase, Receipt

KEY, OTHER = shared_key(bytes(range(32))), shared_key(bytes(range(100, 132)))
PLACE = Place(namespace="default", chain_id="first-execution", run_id="support-42")
NOW_MS = 1_700_000_000_000
STATE = LoopState(
    run_id="support-42",
    start=Start(chain_id="first-execution"),
    approvals=(
        ApprovalRequest(
            id="a1",
            call_id="c1",
            name="refund",
            agent="Billing",
            arguments="{}",
            args_digest="d",
            requested_at_ms=NOW_MS,
        ),
    ),
)
UPDATES: list[tuple[str, Any]] = [
    ("decide", Decision(request_id="a1", type="approve", by="ann")),
    ("claim", ClaimAction(request_id="a1", by="ann")),
    ("hold", HoldAction(by="ann", groups=("billing",))),
    ("say", SayAction(by="ann", text="Hello")),
    ("release", ReleaseAction(by="ann", note="done")),
]
NAMES = [name for name, _ in UPDATES]


def refusal_of(name: str, record: Signable, *keys: IdentityKey, checks: bool = True) -> str | None:
    """Return the message of a refusal by a worker with these keys."""

    def problem(action: str, one: Signable, place: Place) -> str | None:
        return proof_problem(one, place, IdentityKeys(keys), now_ms=NOW_MS, action=action)

    refused = proof_refusal(
        STATE, name, records.write(record), "default", problem if checks else None
    )
    return None if refused is None else refused.message


@pytest.mark.parametrize(("name", "record"), UPDATES, ids=NAMES)
def test_what_has_no_proof_is_left_to_the_terms(name: str, record: Any) -> None:
    assert refusal_of(name, record) is None
    assert refusal_of(name, record, KEY) is None


@pytest.mark.parametrize(("name", "record"), UPDATES, ids=NAMES)
def test_what_has_a_proof_has_to_have_one_that_counts(name: str, record: Any) -> None:
    good = signed(record, PLACE, KEY, action=name, at_ms=NOW_MS)
    assert refusal_of(name, good, KEY) is None
    assert refusal_of(name, good, OTHER, KEY) is None
    bad = [
        replace(good, by="mallory"),
        signed(record, PLACE, OTHER, action=name, at_ms=NOW_MS),
        signed(record, replace(PLACE, run_id="support-43"), KEY, action=name, at_ms=NOW_MS),
        signed(record, replace(PLACE, chain_id="earlier"), KEY, action=name, at_ms=NOW_MS),
        signed(record, replace(PLACE, namespace="other"), KEY, action=name, at_ms=NOW_MS),
        signed(record, PLACE, KEY, action="other", at_ms=NOW_MS),
        signed(record, PLACE, KEY, action=name, at_ms=NOW_MS - 3_600_000),
        signed(record, PLACE, KEY, action=name, at_ms=NOW_MS + 3_600_000),
        replace(good, proof="v2.x"),
    ]
    assert None not in [refusal_of(name, one, KEY) for one in bad]


def test_a_proof_that_nothing_can_check_is_refused() -> None:
    """A run counts what it has accepted with a proof as verified."""
    name, record = UPDATES[0]
    good = signed(record, PLACE, KEY, action=name, at_ms=NOW_MS)
    assert "this worker has no identity key" in str(refusal_of(name, good))
    assert "this worker checks no proofs" in str(refusal_of(name, good, checks=False))


def test_messages_need_no_signature() -> None:
    record = records.SendRecord(input="Hi", message_id="m1")
    assert proof_refusal(STATE, names.UPDATE_SEND, records.write(record), "default", None) is None


def test_deliveries_need_no_signature() -> None:
    """Whoever may reach the run may deliver; who else may is checked where it comes in."""
    record = DeliverRecord(question=0, turn=1, call_id="c1", name="courier", delivery_id="d1")
    written = records.write(record)
    assert proof_refusal(STATE, names.DELIVER, written, "default", None) is None


def test_a_delivery_with_a_proof_has_to_have_one_that_counts() -> None:
    record = DeliverRecord(
        question=0, turn=1, call_id="c1", name="courier", delivery_id="d1", proof="v2.x"
    )

    def forged(_action: str, _record: Signable, _place: Place) -> str | None:
        return "it is forged"

    refused = proof_refusal(STATE, names.DELIVER, records.write(record), "default", forged)
    assert refused is not None
    assert (refused.code, refused.message) == (
        failures.DELIVERY_REFUSED,
        "The delivery 'd1' is refused: it is forged.",
    )


def test_a_delivery_is_refused_with_a_code_of_its_own() -> None:
    event = ValueDelivered(
        at_ms=NOW_MS,
        question=0,
        turn=1,
        call_id="c1",
        name="courier",
        value=None,
        delivery_id="d1",
    )
    refused = refusals.refusal_of(STATE, event)
    assert refused is not None
    assert refused.code == failures.DELIVERY_REFUSED
    assert refused.message == "No call waits for 'courier': the call has ended, or was never made."
    known = Receipt(
        question=0,
        turn=1,
        call_id="c1",
        tool="book",
        name="courier",
        delivery_id="d1",
        at_ms=NOW_MS,
    )
    state = replace(STATE, receipts=(known,))
    assert refusals.refusal_of(state, event) is None, "it gets the first one's receipt"
    other = refusals.refusal_of(state, replace(event, delivery_id="d2"))
    assert other is not None
    assert "came first" in other.message


@pytest.mark.parametrize("phase", ["closing", "closed"])
def test_a_run_that_has_ended_refuses_even_a_repeated_delivery(phase: Phase) -> None:
    event = ValueDelivered(
        at_ms=1, question=0, turn=1, call_id="c1", name="x", value=1, delivery_id="d1"
    )
    refused = refusals.refusal_of(replace(STATE, phase=phase), event)
    assert refused is not None
    assert refused.code == failures.RUN_CLOSED


def test_the_refusal_names_the_action_and_the_reason() -> None:
    good = signed(UPDATES[0][1], PLACE, OTHER, at_ms=NOW_MS)
    assert refusal_of("decide", good, KEY) == (
        f"The decide of 'ann' is refused: it is signed with the key {OTHER.id}, which this worker "
        "does not trust."
    )
