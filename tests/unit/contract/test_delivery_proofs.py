"""What the proof of a delivery covers, and how old it may be."""

import json
from dataclasses import replace
from typing import Any

import pytest

from outlast.contract.delivery_proofs import (
    CLOCK_DIFFERENCE_MS,
    LONGEST_AGE_MS,
    delivery_proof_problem,
    signed_form,
)
from outlast.contract.identity import IdentityKeys, Place, shared_key, signed
from outlast.contract.names import DELIVER
from outlast.loop.actions import DeliverRecord

KEY, OTHER = shared_key(bytes(range(32))), shared_key(bytes(range(100, 132)))
PLACE = Place(namespace="default", chain_id="first-execution", run_id="support-42")
NOW_MS = 1_700_000_000_000
RECORD = DeliverRecord(
    question=0,
    turn=1,
    call_id="c1",
    name="courier",
    value={"weight": 900, "note": "caf\u00e9"},
    delivery_id="d1",
    source="courier.example",
)


def proven(
    record: DeliverRecord = RECORD, place: Place = PLACE, at_ms: int = NOW_MS, key: Any = KEY
) -> DeliverRecord:
    form = signed(signed_form(record), place, key, action=DELIVER, at_ms=at_ms)
    return replace(record, proof=form.proof)


def problem(record: DeliverRecord, at_ms: int = NOW_MS) -> str | None:
    return delivery_proof_problem(record, PLACE, IdentityKeys((KEY,)), at_ms=at_ms)


@pytest.mark.parametrize(
    "changes",
    [
        {"question": 1},
        {"turn": 2},
        {"call_id": "c2"},
        {"name": "office"},
        {"value": {"weight": 901, "note": "caf\u00e9"}},
        {"value": None},
        {"delivery_id": "d2"},
        {"source": "another"},
    ],
    ids=str,
)
def test_a_proof_is_for_every_field(changes: dict[str, Any]) -> None:
    good = proven()
    assert problem(good) is None
    assert "for something else" in str(problem(replace(good, **changes)))


@pytest.mark.parametrize("field", ["namespace", "chain_id", "run_id"])
def test_a_proof_is_for_one_run(field: str) -> None:
    elsewhere = replace(PLACE, **{field: "another"})
    assert "for something else" in str(problem(proven(place=elsewhere)))


def test_a_proof_is_of_a_key_that_the_worker_trusts_and_of_a_delivery() -> None:
    assert "does not trust" in str(problem(proven(key=OTHER)))
    decision = signed(signed_form(RECORD), PLACE, KEY, action="decide", at_ms=NOW_MS)
    assert "for something else" in str(problem(replace(RECORD, proof=decision.proof)))
    assert "no proof" in str(problem(RECORD))


def test_a_proof_holds_for_a_week_and_clocks_may_differ() -> None:
    longest = LONGEST_AGE_MS + CLOCK_DIFFERENCE_MS
    assert problem(proven(), NOW_MS + longest) is None
    assert "too old" in str(problem(proven(), NOW_MS + longest + 1))
    assert problem(proven(), NOW_MS - CLOCK_DIFFERENCE_MS) is None
    assert "in the future" in str(problem(proven(), NOW_MS - CLOCK_DIFFERENCE_MS - 1))


@pytest.mark.parametrize(
    "value", ["\ud800", "\ud83d\ude00", ["\udfff", 1.5, 10**20, True], {"\ud800": {"": None}}]
)
def test_a_proof_holds_for_what_arrives_also_with_half_a_character(value: Any) -> None:
    sent = proven(replace(RECORD, value=value))
    assert problem(replace(sent, value=json.loads(json.dumps(value)))) is None


def test_a_value_that_is_no_json_has_no_proof() -> None:
    deep: Any = None
    for _ in range(100_000):
        deep = [deep]
    for value in (float("nan"), deep):
        assert "cannot be read" in str(problem(replace(proven(), value=value)))
