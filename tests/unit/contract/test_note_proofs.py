"""What the proof of a call's notes covers, and which keys count."""

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.contract.identity import Place
from outlast.contract.note_proofs import NotedCall, notes_problem, notes_proof
from outlast.contract.records import read, write
from outlast.loop.calls import OutsideWait

OLD, NEW = b"an old key of at least 32 bytes..", b"a new key of at least 32 bytes..."
PLACE = Place(namespace="default", chain_id="first-execution", run_id="support-42")
CALL = NotedCall(
    place=PLACE,
    question=0,
    turn=1,
    agent="Bank",
    tool="pay",
    source="",
    call_id="c1",
    arguments='{"euros": 500}',
)
NOTES: Any = {"payee": {"name": "caf\u00e9 Alice", "iban": "AT1"}, "began": 17}
PROOF = notes_proof(NOTES, CALL, [OLD])


def problem(notes: Any = NOTES, proof: object = PROOF, call: NotedCall = CALL) -> str | None:
    return notes_problem(notes, proof, call, [OLD])


def test_notes_count_as_they_were_written() -> None:
    assert problem() is None
    assert problem(dict(reversed(NOTES.items()))) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"place": replace(PLACE, namespace="another")},
        {"place": replace(PLACE, chain_id="a-later-execution")},
        {"place": replace(PLACE, run_id="support-43")},
        {"question": 1},
        {"turn": 2},
        {"agent": "Desk"},
        {"tool": "refund"},
        {"source": "kitchen"},
        {"call_id": "c2"},
        {"arguments": '{"euros": 501}'},
    ],
    ids=str,
)
def test_a_proof_is_for_one_call_of_one_run(changes: dict[str, Any]) -> None:
    assert problem(call=replace(CALL, **changes)) == "forged"


def test_every_field_of_a_call_is_part_of_its_proof() -> None:
    for one in fields(CALL):
        assert problem(call=replace(CALL, **{one.name: "another"})) == "forged"


@pytest.mark.parametrize(
    "notes",
    [
        {**NOTES, "payee": {"name": "Mallory", "iban": "AT1"}},
        {**NOTES, "more": 1},
        {"payee": NOTES["payee"]},
        {"payee": 17, "began": NOTES["payee"]},
        {**NOTES, "began": "17"},
        {**NOTES, "began": 17.0},
        {**NOTES, "began": True},
        {},
    ],
    ids=str,
)
def test_a_proof_is_for_these_notes(notes: Any) -> None:
    assert problem(notes) == "forged"


@pytest.mark.parametrize(
    "proof", ["", "x", 5, {}, PROOF + "0", PROOF + "\n", PROOF.upper(), PROOF[:-1]], ids=repr
)
def test_what_is_no_proof_is_a_forged_one(proof: object) -> None:
    assert problem(proof=proof) == "forged"


def test_notes_without_a_proof_are_told_from_forged_ones() -> None:
    assert problem(proof=None) == "no proof"


def test_the_first_key_signs_and_all_of_them_check() -> None:
    assert notes_problem(NOTES, PROOF, CALL, [NEW, OLD]) is None
    assert notes_problem(NOTES, PROOF, CALL, [NEW]) == "unknown key"
    renewed = notes_proof(NOTES, CALL, [NEW, OLD])
    assert notes_problem(NOTES, renewed, CALL, [OLD]) == "unknown key"
    assert notes_problem(NOTES, renewed, CALL, [OLD, NEW]) is None
    key_id = PROOF.split(".")[1]
    assert notes_problem(NOTES, f"n1.{key_id}.{renewed[-64:]}", CALL, [OLD, NEW]) == "forged"


numbers = st.integers() | st.floats()
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text("abc", min_size=1), values, min_size=1, max_size=3))
def test_notes_count_after_they_were_sent(notes: Any) -> None:
    """Also with what JSON in Python has and the wire has not, such as numbers that are none."""
    noted = json.loads(json.dumps(notes))
    wait = OutsideWait(name="w", done=noted, done_proof=notes_proof(noted, CALL, [OLD]))
    sent = read(OutsideWait, json.loads(json.dumps(write(wait))))
    assert sent.done is not None
    assert problem(sent.done, sent.done_proof) is None
