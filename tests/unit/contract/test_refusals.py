"""Updates that do not prove who sends them, where workers have an identity key."""

from dataclasses import replace
from typing import Any

import pytest

from outlast.contract import failures, names, records
from outlast.contract.identity import Signable, signed
from outlast.contract.records import ClaimRecord, HoldRecord, ReleaseRecord, SayRecord
from outlast.contract.refusals import CLOCK_DIFFERENCE_MS, proof_refusal
from outlast.loop.approvals import ApprovalRequest, Decision
from outlast.loop.state import LoopState, Start

KEY, OTHER = bytes(range(32)), bytes(range(100, 132))
STARTED_MS, REQUESTED_MS = 10_000_000, 20_000_000
STATE = LoopState(
    run_id="support-42",
    start=Start(started_at_ms=STARTED_MS),
    approvals=(
        ApprovalRequest(
            id="a1",
            call_id="c1",
            name="refund",
            agent="Billing",
            arguments="{}",
            args_digest="d",
            requested_at_ms=REQUESTED_MS,
        ),
    ),
)
UPDATES: list[tuple[str, Any]] = [
    (names.UPDATE_DECIDE, Decision(request_id="a1", type="approve", by="ann")),
    (names.CLAIM, ClaimRecord(request_id="a1", by="ann")),
    (names.HOLD, HoldRecord(by="ann", groups=("billing",))),
    (names.SAY, SayRecord(by="ann", text="Hello")),
    (names.RELEASE, ReleaseRecord(by="ann", note="done")),
]
NAMES = [name for name, _ in UPDATES]


def code_of(name: str, record: Signable, *keys: bytes, state: LoopState = STATE) -> str | None:
    refused = proof_refusal(state, name, records.write(record), keys)
    return None if refused is None else refused.code


@pytest.mark.parametrize(("name", "record"), UPDATES, ids=NAMES)
def test_without_a_key_nothing_has_to_be_signed(name: str, record: Any) -> None:
    assert code_of(name, record) is None


@pytest.mark.parametrize(("name", "record"), UPDATES, ids=NAMES)
def test_with_a_key_everything_that_people_do_has_to_be_signed(name: str, record: Any) -> None:
    good = signed(record, "support-42", KEY, action=name, at_ms=REQUESTED_MS)
    assert code_of(name, good, KEY) is None
    assert code_of(name, good, OTHER, KEY) is None
    refused = failures.DECISION_REFUSED if name in {"decide", "claim"} else failures.USER_ERROR
    bad = [
        record,
        replace(good, by="mallory"),
        signed(record, "support-42", OTHER, action=name, at_ms=REQUESTED_MS),
        signed(record, "support-43", KEY, action=name, at_ms=REQUESTED_MS),
        signed(record, "support-42", KEY, action="other", at_ms=REQUESTED_MS),
        signed(record, "support-42", KEY, action=name),
    ]
    assert [code_of(name, one, KEY) for one in bad] == [refused] * len(bad)


@pytest.mark.parametrize(
    ("name", "record", "made_ms"),
    [(*UPDATES[0], REQUESTED_MS), (*UPDATES[1], REQUESTED_MS), (*UPDATES[2], STARTED_MS)],
    ids=NAMES[:3],
)
def test_a_copy_from_before_is_refused(name: str, record: Any, made_ms: int) -> None:
    """As from an earlier run with this id, whose request had the same id and arguments."""
    at_ms = made_ms - CLOCK_DIFFERENCE_MS
    assert code_of(name, signed(record, "support-42", KEY, action=name, at_ms=at_ms), KEY) is None
    old = signed(record, "support-42", KEY, action=name, at_ms=at_ms - 1)
    assert code_of(name, old, KEY) is not None


def test_messages_need_no_signature() -> None:
    record = records.SendRecord(input="Hi", message_id="m1")
    assert proof_refusal(STATE, names.UPDATE_SEND, records.write(record), [KEY]) is None


def test_the_refusal_says_what_to_set() -> None:
    refused = proof_refusal(STATE, "decide", records.write(UPDATES[0][1]), [KEY])
    assert refused is not None
    assert refused.message == (
        "Nothing proves who sends this (decide): it needs a signature, made with a key of the run's "
        "workers. Set OUTLAST_IDENTITY_KEY where it is sent."
    )
