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
    CLOCK_DIFFERENCE_MS,
    LONGEST_AGE_MS,
    IdentityKey,
    IdentityKeyError,
    IdentityKeys,
    Place,
    is_genuine,
    keys_from_environment,
    new_key_pair,
    new_shared_key,
    parse_proof,
    proof_problem,
    read_keys,
    shared_key,
    signed,
)
from outlast.loop.actions import HoldAction, SayAction
from outlast.loop.approvals import Decision, Seen

NOW_MS = 1_700_000_000_000
SECRET, OTHER_SECRET = bytes(range(32)), bytes(range(100, 132))
KEY, OTHER_KEY = shared_key(SECRET), shared_key(OTHER_SECRET)
KEYS = IdentityKeys((KEY,))
PLACE = Place(namespace="default", chain_id="first-execution", run_id="support-42")

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
    seen=Seen(call_id="c1", arguments="d" * 64, shown="e" * 64, tool="t" * 64, policy="p" * 64),
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
    "seen": Seen(call_id="c1", arguments="d" * 64, shown="e" * 64, tool="t" * 64, policy="q" * 64),
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
    seen=st.none() | st.builds(Seen, call_id=TEXT, arguments=TEXT, policy=TEXT),
    edited_arguments=st.none() | OBJECTS,
    response=JSON,
    remember=st.booleans(),
)


def received(decision: Decision) -> Decision:
    """Return a decision after its way through JSON, with the keys in another order."""
    written = json.dumps(records.write(decision), sort_keys=True)
    return records.read(Decision, json.loads(written))


def counts(record: Any, keys: IdentityKeys = KEYS, place: Place = PLACE, **more: Any) -> bool:
    return is_genuine(record, place, keys, now_ms=NOW_MS, **more)


def signed_now(record: Any, key: IdentityKey = KEY, action: str = "decide") -> Any:
    return signed(record, PLACE, key, action=action, at_ms=NOW_MS)


@given(DECISIONS, TEXT, st.integers(CLOCK_DIFFERENCE_MS, 10**13))
def test_a_signed_decision_is_genuine_after_its_way_through_json(
    decision: Decision, run_id: str, at_ms: int
) -> None:
    place = Place(namespace="default", chain_id="first", run_id=run_id)
    sent = signed(decision, place, KEY, at_ms=at_ms)
    assert replace(sent, proof=None) == decision
    assert is_genuine(received(sent), place, KEYS, now_ms=at_ms)
    assert not is_genuine(received(sent), place, IdentityKeys((OTHER_KEY,)), now_ms=at_ms)


@pytest.mark.parametrize("part", ["namespace", "chain_id", "run_id"])
def test_a_signature_is_for_one_execution_of_one_run(part: str) -> None:
    changes: dict[str, Any] = {part: "another"}
    assert counts(signed_now(EDIT))
    assert not counts(signed_now(EDIT), place=replace(PLACE, **changes))


@given(DECISIONS, DECISIONS)
def test_two_records_share_a_signature_only_if_they_are_the_same(
    one: Decision, other: Decision
) -> None:
    # 1 and 1.0, True and 1 are different values.
    same = repr(records.write(one)) == repr(records.write(other))
    assert counts(replace(other, proof=signed_now(one).proof)) is same


@pytest.mark.parametrize("name", [one.name for one in fields(Decision) if one.name != "proof"])
def test_each_field_is_covered(name: str) -> None:
    changes: dict[str, Any] = {name: OTHER_VALUES[name]}
    assert not counts(replace(signed_now(EDIT), **changes))


def test_a_text_cannot_pass_for_another_structure() -> None:
    proof = signed_now(SayAction(by="ann", text="yes"), action="say").proof
    for record in (
        SayAction(by="anns3:yes", text="x"),
        SayAction(by="yes", text="ann"),
        SayAction(by="ann", text="yes", message_id="m1"),
    ):
        assert not counts(replace(record, proof=proof), action="say")


def test_a_signature_of_one_action_is_none_of_another() -> None:
    sent = signed_now(HoldAction(by="ann"), action="hold")
    assert counts(sent, action="hold")
    assert not counts(sent, action="release")


def test_each_signature_has_a_nonce_of_its_own() -> None:
    proofs = {signed_now(EDIT).proof for _ in range(3)}
    assert len({parse_proof(one).nonce for one in proofs if parse_proof(one)}) == 3  # pyright: ignore[reportOptionalMemberAccess]


def test_any_of_several_keys_may_have_signed() -> None:
    sent = signed_now(EDIT, OTHER_KEY)
    assert counts(sent, IdentityKeys((KEY, OTHER_KEY)))
    assert not counts(sent, IdentityKeys())


@pytest.mark.parametrize(
    ("later_ms", "problem"),
    [
        (LONGEST_AGE_MS + CLOCK_DIFFERENCE_MS, None),
        (LONGEST_AGE_MS + CLOCK_DIFFERENCE_MS + 1, "its signature is too old"),
        (-CLOCK_DIFFERENCE_MS, None),
        (-CLOCK_DIFFERENCE_MS - 1, "it is signed in the future (compare the clocks)"),
    ],
)
def test_a_signature_ages_and_is_not_from_the_future(later_ms: int, problem: str | None) -> None:
    found = proof_problem(signed_now(EDIT), PLACE, KEYS, now_ms=NOW_MS + later_ms)
    assert found == problem


def test_the_time_and_the_nonce_of_a_signature_cannot_be_changed() -> None:
    parts = str(signed_now(EDIT).proof).split(".")
    for at, other in ((2, str(NOW_MS + 1)), (3, "0" * 32)):
        changed = [other if index == at else part for index, part in enumerate(parts)]
        assert not counts(replace(EDIT, proof=".".join(changed)))


@pytest.mark.parametrize(
    "proof",
    [
        "", "v2", "v2....", "v1.0." + "0" * 64, "v2.00000000.0." + "0" * 32 + "." + "A" * 42,
        "v2.00000000.-1." + "0" * 32 + "." + "A" * 43, "v2.00000000.00." + "0" * 32 + "." + "A" * 43,
        "v2.00000000.0." + "0" * 32 + "." + "é" * 43, "v2.00000000.0." + "0" * 32 + "." + "A" * 43 + "\n",
        "v2.00000000." + "9" * 9_999 + "." + "0" * 32 + "." + "A" * 43,
        "v2.0000000\u0663.0." + "0" * 32 + "." + "A" * 43, 7, b"v2",
    ],
    ids=range(13),
)  # fmt: skip
def test_something_else_is_no_signature(proof: Any) -> None:
    sent = replace(EDIT, proof=proof)
    assert proof_problem(sent, PLACE, KEYS, now_ms=NOW_MS) == "its proof cannot be read"


def test_the_reason_says_what_to_mend() -> None:
    assert proof_problem(EDIT, PLACE, KEYS, now_ms=NOW_MS) == "it has no proof of who sends it"
    assert proof_problem(signed_now(EDIT), PLACE, IdentityKeys(), now_ms=NOW_MS) == (
        "this worker has no identity key to check its proof with (set OUTLAST_IDENTITY_PUBLIC_KEYS "
        "or OUTLAST_IDENTITY_KEY)"
    )
    found = proof_problem(signed_now(EDIT, OTHER_KEY), PLACE, KEYS, now_ms=NOW_MS)
    assert found == (f"it is signed with the key {OTHER_KEY.id}, which this worker does not trust")


def test_a_record_that_nobody_could_have_signed_is_not_signed() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    proof = signed_now(EDIT).proof
    for value in (float("nan"), "\ud800", deep, object(), {1: 2}):
        assert not counts(replace(EDIT, response=value, proof=proof))


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
        signed_now(replace(EDIT, response=value))


# --- Keys ----------------------------------------------------------------------------------------


def test_keys_are_base64_or_text() -> None:
    random = secrets.token_bytes(32)
    assert read_keys(base64.b64encode(random).decode()) == (shared_key(random),)
    text = "correct horse battery staple; not"
    assert read_keys(text) == (shared_key(text.encode()),)
    assert read_keys("") == ()
    assert read_keys(" \n") == ()
    assert read_keys(new_shared_key())[0].can_sign


def test_keys_are_separated_by_commas() -> None:
    one, other = (base64.b64encode(key).decode() for key in (SECRET, OTHER_SECRET))
    assert read_keys(f"{one},\n{other}\n") == (KEY, OTHER_KEY)


def test_keys_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    text = base64.b64encode(SECRET).decode()
    assert keys_from_environment({"OUTLAST_IDENTITY_KEY": text}).trusted == (KEY,)
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", text)
    assert keys_from_environment().signing == KEY
    monkeypatch.delenv("OUTLAST_IDENTITY_KEY")
    assert not keys_from_environment()


def test_who_has_a_public_key_checks_and_cannot_sign() -> None:
    private, public = new_key_pair()
    client = keys_from_environment({"OUTLAST_IDENTITY_KEY": private})
    worker = keys_from_environment({"OUTLAST_IDENTITY_PUBLIC_KEYS": public})
    assert worker.signing is None
    assert client.signing is not None
    sent = signed_now(EDIT, client.signing)
    assert counts(received(sent), worker)
    assert not counts(replace(sent, message="another"), worker)
    with pytest.raises(IdentityKeyError, match="public identity key cannot sign"):
        signed_now(EDIT, worker.trusted[0])
    other = keys_from_environment({"OUTLAST_IDENTITY_PUBLIC_KEYS": new_key_pair()[1]})
    assert not counts(sent, other)


def test_a_key_does_not_show_itself() -> None:
    private, public = new_key_pair()
    shown = repr(
        [*read_keys(private), KEY, keys_from_environment({"OUTLAST_IDENTITY_KEY": private})]
    )
    for text in (private, public):
        assert base64.b64decode(text.removeprefix("ed25519:")).hex() not in shown
        assert text.removeprefix("ed25519:") not in shown
    assert SECRET.hex() not in shown


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("hunter2-secret", "Key 1 of 1 in OUTLAST_IDENTITY_KEY has 14 bytes, but needs 32"),
        (f"{base64.b64encode(SECRET).decode()},hunter2-secret", "Key 2 of 2"),
        (f"{base64.b64encode(SECRET).decode()},", "Key 2 of 2 in OUTLAST_IDENTITY_KEY has 0 bytes"),
        ("hunter" * 8, "repeats a few characters"),
        ("ed25519:aHVudGVy", "Key 1 of 1 in OUTLAST_IDENTITY_KEY is no Ed25519 key"),
        ("ed25519:hunter!", "Key 1 of 1 in OUTLAST_IDENTITY_KEY is no Ed25519 key"),
    ],
)
def test_a_weak_key_is_refused_without_being_shown(text: str, problem: str) -> None:
    with pytest.raises(IdentityKeyError, match=problem) as raised:
        read_keys(text)
    assert "hunter" not in str(raised.value)
    assert base64.b64encode(SECRET).decode() not in str(raised.value)


SMALL_ORDER = [
    "00" * 32,
    "01" + "00" * 31,
    "ec" + "ff" * 30 + "7f",
    "ed" + "ff" * 31,
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
]
"""Public keys for which a signature of zeros counts, some of them placeholders."""


@pytest.mark.parametrize("content", SMALL_ORDER)
def test_a_key_for_which_anybody_can_sign_is_refused(content: str) -> None:
    text = "ed25519:" + base64.b64encode(bytes.fromhex(content)).decode()
    with pytest.raises(IdentityKeyError, match="is a placeholder, for which anybody could sign"):
        keys_from_environment({"OUTLAST_IDENTITY_PUBLIC_KEYS": text})


def test_a_public_key_in_the_place_of_the_private_one_is_refused() -> None:
    """Everything would work, and whoever knows the public key could decide as anybody."""
    private, public = new_key_pair()
    for key, known in ((public, public), (private, f"{public},{private}")):
        with pytest.raises(IdentityKeyError, match="have the same key"):
            keys_from_environment(
                {"OUTLAST_IDENTITY_KEY": key, "OUTLAST_IDENTITY_PUBLIC_KEYS": known}
            )


def test_a_key_with_the_id_of_another_one_takes_nothing_from_it() -> None:
    """An id has 32 bits, so that somebody can make a key with the id of ours."""
    ours, theirs = read_keys(new_key_pair()[0])[0], read_keys(new_key_pair()[0])[0]
    vars(theirs)["id"] = ours.id
    sent = signed_now(EDIT, ours)
    assert counts(sent, IdentityKeys((theirs, ours)))
    assert not counts(sent, IdentityKeys((theirs,)))


def test_a_shared_secret_is_no_public_key() -> None:
    with pytest.raises(IdentityKeyError, match="is no public key, which begins with ed25519:"):
        keys_from_environment({"OUTLAST_IDENTITY_PUBLIC_KEYS": new_shared_key()})


def test_a_signature_is_the_same_in_every_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients and workers are deployed apart, so this value never changes."""

    def nonce(size: int) -> str:
        return "ab" * size

    monkeypatch.setattr(secrets, "token_hex", nonce)
    assert signed_now(EDIT).proof == (
        "v2.b79fcbc3.1700000000000.abababababababababababababababab."
        "wYXa5ROccyS8BMD43HAuZGVjstecGDIMiI7NpDvuxuA"
    )
