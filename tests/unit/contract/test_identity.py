"""Signatures of decisions and other actions: what they cover, and what is refused."""

import base64
import json
import secrets
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.contract import records
from outlast.contract.identity import (
    IdentityKeyError,
    is_genuine,
    is_signed,
    keys_from_environment,
    read_keys,
    sign,
    signed,
)
from outlast.loop.approvals import Decision

KEY = bytes(range(32))
OTHER_KEY = bytes(range(100, 132))

EDIT = Decision(
    request_id="a1",
    type="edit",
    message="the smaller amount",
    by="ann",
    display="Ann",
    groups=("billing", "leads"),
    method="token",
    channel="cli",
    args_digest="d" * 64,
    edited_arguments={"order_id": "A-17", "amount": 12.5, "lines": [1, None, True]},
    response={"ok": False},
    remember=True,
    remember_scope="tool_with_args",
    remember_until="run",
    idempotency_key="k1",
)

OTHER_VALUES: dict[str, Any] = {
    "request_id": "a2",
    "type": "approve",
    "message": "the larger amount",
    "by": "bob",
    "display": "Bob",
    "groups": ("billing",),
    "method": "os_user",
    "channel": "mail",
    "args_digest": "e" * 64,
    "edited_arguments": {"order_id": "A-18", "amount": 12.5, "lines": [1, None, True]},
    "response": {"ok": True},
    "remember": False,
    "remember_scope": "tool",
    "remember_until": "conversation",
    "idempotency_key": "k2",
}

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=4)
DECISIONS = st.builds(
    Decision,
    request_id=TEXT,
    type=st.sampled_from(["approve", "edit", "reject", "respond"]),
    message=st.none() | TEXT,
    by=st.none() | TEXT,
    groups=st.lists(TEXT, max_size=3).map(tuple),
    args_digest=st.none() | TEXT,
    edited_arguments=st.none() | OBJECTS,
    response=JSON,
    remember=st.booleans(),
)


def received(decision: Decision) -> Decision:
    """Return a decision after its way through JSON, with the keys in another order."""
    written = json.dumps(records.write(decision), sort_keys=True)
    return records.read(Decision, json.loads(written))


def canonical(value: Any) -> str:
    """Return JSON that differs where two values do: 1 and 1.0, True and 1 are different ones."""
    return json.dumps(value, sort_keys=True)


@given(DECISIONS, TEXT, st.integers(0, 10**13))
def test_a_signed_decision_is_genuine_after_its_way_through_json(
    decision: Decision, run_id: str, at_ms: int
) -> None:
    sent = signed(decision, run_id, KEY, at_ms=at_ms)
    assert replace(sent, proof=None) == decision
    assert is_genuine(received(sent), run_id, [KEY])
    assert not is_genuine(received(sent), run_id, [OTHER_KEY])
    assert not is_genuine(received(sent), run_id + "x", [KEY])


@given(OBJECTS, OBJECTS, TEXT, TEXT)
def test_two_records_share_a_signature_only_if_they_are_the_same(
    one: dict[str, Any], other: dict[str, Any], run_id: str, other_run: str
) -> None:
    same = canonical([one, run_id]) == canonical([other, other_run])
    proof = sign("hold", run_id, one, KEY)
    assert is_signed("hold", other_run, other, proof, [KEY]) is same


@pytest.mark.parametrize("name", [one.name for one in fields(Decision) if one.name != "proof"])
def test_each_field_is_covered(name: str) -> None:
    sent = signed(EDIT, "support-42", KEY)
    changes: dict[str, Any] = {name: OTHER_VALUES[name]}
    assert not is_genuine(replace(sent, **changes), "support-42", [KEY])


def test_a_text_cannot_pass_for_another_structure() -> None:
    proof = sign("say", "r", {"by": "ann", "text": "yes"}, KEY)
    for record in (
        {"by": "ann", "text": ["yes"]},
        {"by": "anns3:yes", "text": ""},
        {"by": "ann", "text": "yes", "note": None},
        {"text": "ann", "by": "yes"},
    ):
        assert not is_signed("say", "r", record, proof, [KEY])


def test_a_signature_of_one_action_is_none_of_another() -> None:
    proof = sign("hold", "support-42", {"by": "ann"}, KEY)
    assert is_signed("hold", "support-42", {"by": "ann"}, proof, [KEY])
    assert not is_signed("release", "support-42", {"by": "ann"}, proof, [KEY])


def test_any_of_several_keys_may_have_signed() -> None:
    sent = signed(EDIT, "support-42", OTHER_KEY)
    assert is_genuine(sent, "support-42", [KEY, OTHER_KEY])
    assert not is_genuine(sent, "support-42", [])


def test_a_signature_from_before_the_request_is_refused() -> None:
    sent = signed(EDIT, "support-42", KEY, at_ms=1_000)
    assert is_genuine(sent, "support-42", [KEY], since_ms=1_000)
    assert not is_genuine(sent, "support-42", [KEY], since_ms=1_001)
    assert not is_genuine(signed(EDIT, "support-42", KEY), "support-42", [KEY], since_ms=1)


def test_the_time_of_a_signature_cannot_be_changed() -> None:
    proof = signed(EDIT, "support-42", KEY, at_ms=1_000).proof
    assert proof is not None
    later = replace(EDIT, proof=proof.replace(".1000.", ".2000."))
    assert not is_genuine(later, "support-42", [KEY])


@pytest.mark.parametrize(
    "proof",
    [
        None, "", "v1", "v1..", "v2.0." + "0" * 64, "v1.0." + "0" * 63, "v1.-1." + "0" * 64,
        "v1.00." + "0" * 64, "v1.0." + "é" * 64, "v1.0." + "0" * 64 + "\n", "v1." + "9" * 9_999 + "." + "0" * 64,
        "v1.\u0663." + "0" * 64, 7, b"v1",
    ],
    ids=range(14),
)  # fmt: skip
def test_something_else_is_no_signature(proof: Any) -> None:
    assert not is_genuine(replace(EDIT, proof=proof), "support-42", [KEY])


def test_a_record_that_nobody_could_have_signed_is_not_signed() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    proof = sign("say", "r", {}, KEY)
    for value in (float("nan"), "\ud800", deep, object(), {1: 2}):
        assert not is_signed("say", "r", {"text": value}, proof, [KEY])


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (float("nan"), "nan is no JSON number"),
        (float("inf"), "inf is no JSON number"),
        ("\ud800", "half a character"),
        ({1: "one"}, "names of an object must be texts"),
        ({"a", "b"}, "A set is no JSON"),
    ],
)
def test_a_value_that_json_changes_cannot_be_signed(value: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        signed(replace(EDIT, response=value), "support-42", KEY)


def test_keys_are_base64_or_text() -> None:
    random = secrets.token_bytes(32)
    assert read_keys(base64.b64encode(random).decode()) == (random,)
    text = "correct horse battery staple, not"
    assert read_keys(text.replace(",", ";")) == (text.replace(",", ";").encode(),)
    assert read_keys("") == ()
    assert read_keys(" \n") == ()


def test_keys_are_separated_by_commas() -> None:
    one, other = (base64.b64encode(key).decode() for key in (KEY, OTHER_KEY))
    assert read_keys(f"{one},\n{other}\n") == (KEY, OTHER_KEY)


def test_keys_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    text = base64.b64encode(KEY).decode()
    assert keys_from_environment({"OUTLAST_IDENTITY_KEY": text}) == (KEY,)
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", text)
    assert keys_from_environment() == (KEY,)
    monkeypatch.delenv("OUTLAST_IDENTITY_KEY")
    assert keys_from_environment() == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("hunter2-secret", "Key 1 of 1 in OUTLAST_IDENTITY_KEY has 14 bytes, but needs 32"),
        (f"{base64.b64encode(KEY).decode()},hunter2-secret", "Key 2 of 2"),
        (f"{base64.b64encode(KEY).decode()},", "Key 2 of 2 in OUTLAST_IDENTITY_KEY has 0 bytes"),
        ("hunter" * 8, "repeats a few characters"),
    ],
)
def test_a_weak_key_is_refused_without_being_shown(text: str, problem: str) -> None:
    with pytest.raises(IdentityKeyError, match=problem) as raised:
        read_keys(text)
    assert "hunter" not in str(raised.value)
    assert base64.b64encode(KEY).decode() not in str(raised.value)


def test_nobody_signs_with_a_weak_key() -> None:
    with pytest.raises(IdentityKeyError, match="The identity key has 5 bytes"):
        sign("hold", "r", {}, b"short")
    assert not is_signed("hold", "r", {}, "v1.0." + "0" * 64, [b""])


def test_a_signature_is_the_same_in_every_version() -> None:
    """Clients and workers are deployed apart, so this value never changes."""
    proof = signed(EDIT, "support-42", KEY, at_ms=1_700_000_000_000).proof
    assert (
        proof == "v1.1700000000000.407c5130f46ae2ebe5731e88af96289438fcfd61a4d090c2db6e4b74e7e469cc"
    )
