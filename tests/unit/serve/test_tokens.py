"""Customers' tokens under attack: each that was not minted for this conversation is refused."""

import base64
import string
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.agents.errors import IdentityRefused, UserError
from outlast.client.run_facts import RunFacts
from outlast.contract.identity import (
    CLOCK_DIFFERENCE_MS,
    IdentityKeys,
    Place,
    new_key_pair,
    new_shared_key,
    parse_proof,
    proof_problem,
    read_keys,
    shared_key,
    signed,
)
from outlast.edges.clock import now_ms
from outlast.loop.actions import HoldAction
from outlast.loop.approvals import Decision
from outlast.loop.human_actions import HUMAN_ACTIONS
from outlast.serve import tokens as module
from outlast.serve.access import NOT_OPENED, Customer
from outlast.serve.tokens import (
    LONGEST_TOKEN,
    ConversationTokens,
    TokenRefused,
    bearer_of,
    tokens_from_environment,
)

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
AUDIENCE, RUN = "desk.example.com/default", "support-42"
KEY, OTHER_KEY = shared_key(bytes(range(32))), shared_key(bytes(range(100, 132)))
PRIVATE, PUBLIC = new_key_pair()
(SIGNING,), (CHECKING,) = read_keys(PRIVATE), read_keys(PUBLIC, "OUTLAST_IDENTITY_PUBLIC_KEYS")
KINDS = {"shared": KEY, "ed25519": SIGNING}


def tokens(*keys: Any, audience: str = AUDIENCE) -> ConversationTokens:
    return ConversationTokens(IdentityKeys(keys or (KEY,)), audience=audience)


def mint(
    keys: ConversationTokens, run_id: str = RUN, *, at_ms: int = NOW_MS, **lifetime: float
) -> str:
    return keys.mint(run_id, timedelta(**(lifetime or {"hours": 1})), now_ms=at_ms)


def reason(
    keys: ConversationTokens, token: Any, *, run_id: str | None = None, now_ms: int = NOW_MS
) -> str | None:
    """Return why a token is refused; None if it counts. The customer always reads the same."""
    try:
        keys.customer(token, run_id=run_id, now_ms=now_ms)
    except TokenRefused as error:
        refused = error
    else:
        return None
    assert (str(refused), refused.message) == (NOT_OPENED, NOT_OPENED)
    return refused.reason


# --- What counts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_opens_its_conversation_until_it_expires(kind: str) -> None:
    keys = tokens(KINDS[kind])
    token = mint(keys)
    customer = Customer(RUN, NOW_MS + HOUR_MS)
    assert keys.customer(token, run_id=RUN, now_ms=NOW_MS) == customer
    assert keys.customer(token, now_ms=NOW_MS + HOUR_MS - 1) == customer
    assert reason(keys, token, now_ms=NOW_MS + HOUR_MS) == "expired"


def test_a_token_counts_now_and_for_a_day_unless_the_program_says_otherwise() -> None:
    keys = tokens()
    customer = keys.customer(keys.mint(RUN))
    assert 86_000_000 < customer.expires_at_ms - now_ms() <= 86_400_000


def test_who_has_the_public_key_only_checks_tokens() -> None:
    checking = tokens(CHECKING)
    assert reason(checking, mint(tokens(SIGNING))) is None
    with pytest.raises(UserError, match="private key"):
        checking.mint(RUN)


def test_keys_rotate() -> None:
    old, both, new = tokens(KEY), tokens(OTHER_KEY, KEY), tokens(OTHER_KEY)
    before, after = mint(old), mint(both)
    assert (reason(both, before), reason(both, after)) == (None, None)
    assert reason(old, after) == "unknown_key"
    assert (reason(new, before), reason(new, after)) == ("unknown_key", None)


def test_no_two_tokens_are_the_same() -> None:
    assert mint(tokens()) != mint(tokens())


@given(run_id=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=100))
def test_every_id_of_a_run_can_have_a_token(run_id: str) -> None:
    keys = tokens()
    token = mint(keys, run_id)
    assert keys.customer(token, now_ms=NOW_MS).run_id == run_id
    assert set(token) <= set(string.ascii_letters + string.digits + "-_.")


def test_the_longest_token_is_read() -> None:
    keys = tokens(SIGNING, audience="a" * 255)
    assert reason(keys, mint(keys, "r" * 1_000)) is None


def test_a_token_shows_no_key() -> None:
    keys = tokens()
    assert base64.b64encode(bytes(range(32))).decode() not in f"{keys!r}{keys}"


# --- What does not ---------------------------------------------------------------------------------


def test_a_token_opens_no_other_conversation() -> None:
    keys = tokens()
    assert reason(keys, mint(keys), run_id="support-43") == "other_run"
    assert reason(keys, mint(keys), run_id="") == "other_run"


def test_a_token_says_whose_the_conversation_is() -> None:
    owner = RunFacts(root_id="x", tenant="acme", customer="ann").owner
    token = tokens().mint("case-1", owner=owner)
    assert tokens().customer(token).owner == owner
    others = [
        RunFacts(root_id="x", tenant=a, customer=b).owner for a, b in (("acme", ""), ("", ""))
    ]
    forged = [token.replace(owner, one) for one in others] + [token.replace(f".{owner}", "")]
    plain = tokens().mint("case-1")
    head, _, proof = plain.partition(".v2.")
    forged.append(f"{head}.{owner}.v2.{proof}")
    assert [reason(tokens(), one) for one in forged] == ["forged"] * 4


def test_a_token_of_another_deployment_or_namespace_does_not_count() -> None:
    token = mint(tokens(audience="desk.example.com/staging"))
    assert reason(tokens(), token) == "other_audience"


def test_a_token_of_an_unknown_key_does_not_count() -> None:
    assert reason(tokens(), mint(tokens(OTHER_KEY))) == "unknown_key"


def test_a_token_from_the_future_does_not_count() -> None:
    keys = tokens()
    near, far = (mint(keys, at_ms=NOW_MS + CLOCK_DIFFERENCE_MS + by) for by in (0, 1))
    assert (reason(keys, near), reason(keys, far)) == (None, "not_yet")


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_no_token_survives_a_flipped_bit(kind: str, data: st.DataObject) -> None:
    keys = tokens(KINDS[kind])
    token = bytearray(mint(keys).encode())
    at = data.draw(st.integers(0, len(token) - 1))
    token[at] ^= 1 << data.draw(st.integers(0, 7))
    assert reason(keys, token.decode("latin-1")) is not None


@pytest.mark.parametrize("kind", KINDS)
def test_no_token_survives_another_character_at_its_end(kind: str) -> None:
    """The last character of base64 has bits that mean nothing: only one spelling counts."""
    keys = tokens(KINDS[kind])
    token = mint(keys)
    for one in set(string.ascii_letters + string.digits + "-_=.") - {token[-1]}:
        assert reason(keys, token[:-1] + one) is not None


@pytest.mark.parametrize("kind", KINDS)
def test_no_part_of_a_token_counts(kind: str) -> None:
    keys = tokens(KINDS[kind])
    token = mint(keys)
    for at in range(len(token)):
        assert reason(keys, token[:at]) is not None
        assert reason(keys, token[at + 1 :]) is not None
    assert reason(keys, token + token) is not None
    for around in (" ", "\n", "\0", "."):
        assert reason(keys, token + around) == "unreadable"
        assert reason(keys, around + token) == "unreadable"


def test_no_part_of_a_token_fits_into_another() -> None:
    keys = tokens()
    one = mint(keys).split(".")
    others = (
        mint(keys, "support-43"),
        mint(keys, hours=2),
        mint(keys, at_ms=NOW_MS + 1),
        mint(tokens(audience="elsewhere")),
        mint(tokens(OTHER_KEY)),
    )
    for other in (token.split(".") for token in others):
        for at, part in enumerate(other):
            if part != one[at]:
                swapped = ".".join([*one[:at], part, *one[at + 1 :]])
                assert reason(keys, swapped) in {"forged", "unknown_key"}


def test_who_changes_what_a_token_says_has_no_signature_for_it() -> None:
    keys = tokens()
    head, run_id, audience, expiry, *proof = mint(keys).split(".")
    other = base64.urlsafe_b64encode(b"support-43").rstrip(b"=").decode()
    for parts in (
        (head, other, audience, expiry),
        (head, run_id, other, expiry),
        (head, audience, run_id, expiry),
        (head, run_id, audience, str(int(expiry) * 2)),
    ):
        assert reason(keys, ".".join((*parts, *proof))) == "forged"


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "........",
        "oc1",
        "oc2.QQ.QQ.1.v2",
        "oc1.QQ.QQ.1." + "v2." * 100,
        "none",
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.",
        "v2.00000000.1.00000000000000000000000000000000." + "A" * 43,
        "oc1.QQ.QQ.٣.v2.00000000.1.00000000000000000000000000000000." + "A" * 43,
        "oc1.QQ.QQ.01.v2.00000000.1.00000000000000000000000000000000." + "A" * 43,
        "oc1.QR.QQ.1.v2.00000000.1.00000000000000000000000000000000." + "A" * 43,
        "oc1._w.QQ.1.v2.00000000.1.00000000000000000000000000000000." + "A" * 43,
        "oc1.A.QQ.1.v2.00000000.1.00000000000000000000000000000000." + "A" * 43,
        "\ud800",
        None,
        b"oc1.QQ",
        7,
    ],
)
def test_what_is_no_token_is_not_read(token: Any) -> None:
    assert reason(tokens(), token) == "unreadable"


@pytest.mark.parametrize("piece", ["A", ".", "oc1.", "oc1.QQ.QQ.1.v2.", "\0", "🦊"])
def test_huge_input_is_refused_before_it_is_read(piece: str) -> None:
    assert reason(tokens(), piece * 1_000_000) == "too_long"
    assert reason(tokens(), (piece * LONGEST_TOKEN)[:LONGEST_TOKEN]) == "unreadable"


@given(st.text(max_size=300))
def test_no_text_is_a_token_by_chance(text: str) -> None:
    assert reason(tokens(), text) is not None
    assert reason(tokens(), f"oc1.{text}") is not None


# --- Other signatures with the same key ------------------------------------------------------------


def with_proof(proof: str | None, *, expires_at_ms: int = NOW_MS + HOUR_MS) -> str:
    return module._written(
        Place(namespace=AUDIENCE, chain_id="", run_id=RUN),
        module._Grant(expires_at_ms=expires_at_ms, proof=proof),
    )


@pytest.mark.parametrize("chain_id", ["", "first-execution"])
@pytest.mark.parametrize("action", [*(one.name for one in HUMAN_ACTIONS), "send", "", "open"])
def test_the_proof_of_an_action_is_no_token(action: str, chain_id: str) -> None:
    place = Place(namespace=AUDIENCE, chain_id=chain_id, run_id=RUN)
    records: list[Any] = [
        HoldAction(by="ann"),
        Decision(request_id="a1", type="approve", by="ann"),
        module._Grant(expires_at_ms=NOW_MS + HOUR_MS),
    ]
    for record in records:
        made = signed(record, place, KEY, action=action, at_ms=NOW_MS)
        assert reason(tokens(), made.proof) == "unreadable"
        assert reason(tokens(), with_proof(made.proof)) == "forged"


@pytest.mark.parametrize("row", HUMAN_ACTIONS, ids=lambda row: row.name)
def test_a_token_is_no_proof_of_an_action(row: Any) -> None:
    token = mint(tokens())
    proof = token.split(".", 4)[4]
    assert parse_proof(proof) is not None
    record: Any = HoldAction(by="ann", proof=proof)
    for place in (
        Place(namespace=AUDIENCE, chain_id="", run_id=RUN),
        Place(namespace="default", chain_id="first-execution", run_id=RUN),
    ):
        for one in (record, replace(record, proof=token), module._Grant(expires_at_ms=1)):
            checked = replace(one, proof=one.proof or proof)
            problem = proof_problem(
                checked, place, IdentityKeys((KEY,)), now_ms=NOW_MS, action=row.name
            )
            assert problem is not None


# --- Minting ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("run_id", ["", "r" * 1_001, "🦊" * 251, "\ud800", None, 7])
def test_no_token_is_minted_for_what_is_no_id(run_id: Any) -> None:
    with pytest.raises(UserError, match="run_id="):
        tokens().mint(run_id)


@pytest.mark.parametrize("seconds", [0, -1, 0.5, 30 * 86_400 + 1])
def test_no_token_is_minted_for_ever_or_for_no_time(seconds: float) -> None:
    with pytest.raises(UserError, match="lifetime="):
        tokens().mint(RUN, timedelta(seconds=seconds))


def test_tokens_need_a_key_and_an_audience() -> None:
    with pytest.raises(UserError, match="need a key"):
        ConversationTokens(IdentityKeys(), audience=AUDIENCE)
    with pytest.raises(UserError, match="audience="):
        tokens(audience="")


# --- Headers ---------------------------------------------------------------------------------------


def test_a_token_comes_in_one_header() -> None:
    assert bearer_of([(b"Accept", b"*/*"), (b"authorization", b"Bearer oc1.x")]) == "oc1.x"
    assert bearer_of([(b"AUTHORIZATION", b"bearer oc1.x ")]) == "oc1.x"
    assert bearer_of([(b"cookie", b"token=oc1.x")]) is None


@pytest.mark.parametrize(
    "values",
    [[b"oc1.x"], [b"Basic YTpi"], [b"Bearer a", b"Bearer b"], [b"Bearer \xff"], [b""]],
)
def test_other_headers_are_refused(values: list[bytes]) -> None:
    with pytest.raises(IdentityRefused, match=NOT_OPENED):
        bearer_of([(b"authorization", value) for value in values])


# --- Keys of the environment -----------------------------------------------------------------------


def test_a_backend_mints_what_the_desk_of_that_address_checks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OUTLAST_CONVERSATION_KEY", raising=False)
    assert tokens_from_environment("https://desk.example.com") is None
    monkeypatch.setenv("OUTLAST_CONVERSATION_KEY", new_shared_key())
    backend = tokens_from_environment("https://desk.example.com")
    same = tokens_from_environment("https://DESK.example.com/")
    others = [tokens_from_environment(), tokens_from_environment("https://desk.example.com", "b")]
    assert backend is not None
    assert same is not None
    token = backend.mint("case-1")
    assert same.customer(token).run_id == "case-1"
    for other in others:
        assert other is not None
        with pytest.raises(TokenRefused):
            other.customer(token)
    monkeypatch.setenv("OUTLAST_CONVERSATION_KEY", "short")
    with pytest.raises(UserError, match="OUTLAST_CONVERSATION_KEY"):
        tokens_from_environment()
