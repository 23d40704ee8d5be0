"""What a reader with keys calls proven, and what one without keys says instead."""

from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from outlast.contract import identity
from outlast.contract.identity import (
    LONGEST_AGE_MS,
    NO_KEYS,
    IdentityKeys,
    Place,
    new_key_pair,
    new_shared_key,
    read_keys,
)
from outlast.loop.actions import HoldAction, ReleaseAction, SayAction
from outlast.loop.approvals import (
    REDACTED,
    ApprovalRequest,
    ApprovalTerms,
    Decision,
    Remembered,
    Vote,
    reviewed,
)
from outlast.loop.canonical import digest
from outlast.loop.start import Parent, Start
from outlast.loop.state import LoopState
from outlast.loop.votes import Sender, voted
from outlast.views.proofs import NO_PROOFS, PROOF_WORDS, Proof, ProofReader

NOW = 1_700_000_000_000
HERE = Place(namespace="default", chain_id="first", run_id="run")
KEYS = IdentityKeys(read_keys(new_shared_key()))
OTHERS = IdentityKeys(read_keys(new_shared_key()))
READER = ProofReader(KEYS, "default")
ARGUMENTS = '{"euros": 500}'
REQUEST = ApprovalRequest(
    id="a1",
    call_id="c1",
    name="refund",
    agent="Bank",
    arguments=ARGUMENTS,
    args_digest=digest(ARGUMENTS),
    tool_digest="tool",
    requested_at_ms=NOW - 1_000,
)
STATE = LoopState(run_id="run", start=Start(chain_id="first"))
ANN = Decision(request_id="a1", type="approve", by="ann", seen=REQUEST.seen)


def signed(decision: Any = ANN, place: Place = HERE, keys: IdentityKeys = KEYS, **more: Any) -> Any:
    key = keys.signing
    assert key is not None
    return identity.signed(decision, place, key, at_ms=more.pop("at_ms", NOW), **more)


def vote(decision: Decision, *, verified: bool = True, at: ApprovalRequest = REQUEST) -> Vote:
    return Vote(decision=decision, at_ms=NOW, verified=verified, args_digest=at.args_digest)


@dataclass(frozen=True)
class Case:
    """A vote, and what the reader with keys has to say of it."""

    wanted: Proof
    vote: Vote
    request: ApprovalRequest = REQUEST
    state: LoopState = STATE
    reader: ProofReader = field(default=READER)


def other(**changes: Any) -> ApprovalRequest:
    return replace(REQUEST, **changes)


def edited(change: Any, *, shown: str | None = None, terms: ApprovalTerms | None = None) -> Case:
    """A case where Ann has edited; `shown` is what somebody put in the place of her arguments."""
    request = REQUEST if terms is None else other(terms=terms)
    request = replace(request, arguments=reviewed(ARGUMENTS, request.terms.redact))
    decision = signed(
        Decision(request_id="a1", type="edit", by="ann", seen=request.seen, edited_arguments=change)
    )
    after = voted(request, decision, Sender(at_ms=NOW, verified=True), ARGUMENTS)
    if shown is not None:
        after = replace(after, arguments=shown)
    return Case("proven" if shown is None else "unproven", after.votes[0], after)


REMEMBERED = Decision(request_id="a1", type="approve", by="ann", seen=REQUEST.seen, remember=True)
LATER = other(id="a2", call_id="c2", arguments='{"euros": 7}', args_digest=digest('{"euros": 7}'))
NESTED = replace(
    STATE,
    run_id="run/clerk-1",
    start=Start(chain_id="own", parent=Parent(run_id="run", prefix="e1.", chain_id="first")),
)
IN_NESTED = replace(HERE, run_id="run/clerk-1")
PAIR = new_key_pair()
PRIVATE, PUBLIC = (
    IdentityKeys(read_keys(text, variable))
    for text, variable in zip(PAIR, (identity.KEY_VARIABLE, identity.PUBLIC_KEYS_VARIABLE))  # noqa: B905
)


def _remembers(decision: Decision, run_id: str) -> LoopState:
    kept = Remembered(agent="Bank", name="refund", decision=decision, run_id=run_id)
    return replace(STATE, remembered=(kept,))


def cases() -> dict[str, Case]:
    from_nested = signed(REMEMBERED, IN_NESTED)
    exact = replace(REMEMBERED, remember_scope="tool_with_args")
    void = replace(REQUEST, args_digest=digest('{"euros": 1}'), arguments='{"euros": 1}')
    hidden = ApprovalTerms(redact=("euros",))
    withdrawn = signed(replace(ANN, type="withdraw"))
    nine = other(args_digest=digest('{"euros": 9}'))
    return {
        "a forged flag": Case("unproven", vote(ANN)),
        "a signature that the run did not accept": Case("unproven", vote(signed(), verified=False)),
        "genuine": Case("proven", vote(signed())),
        "genuine, by public keys": Case(
            "proven", vote(signed(keys=PRIVATE)), reader=ProofReader(PUBLIC, "default")
        ),
        "of another request": Case("unproven", vote(signed()), other(id="a2")),
        "of another run": Case("unproven", vote(signed()), state=replace(STATE, run_id="other")),
        "of another run of the same id": Case(
            "unproven", vote(signed()), state=replace(STATE, start=Start(chain_id="second"))
        ),
        "in another namespace": Case(
            "unproven", vote(signed()), reader=ProofReader(KEYS, "elsewhere")
        ),
        "for other arguments": Case("unproven", vote(signed(), at=nine), nine),
        "where other arguments are shown": Case(
            "unproven", vote(signed()), other(arguments='{"euros": 9}')
        ),
        "for another tool": Case("unproven", vote(signed()), other(tool_digest="other")),
        "for another policy": Case(
            "unproven", vote(signed()), other(terms=ApprovalTerms(quorum=2))
        ),
        "of another type": Case("unproven", vote(replace(signed(), type="reject"))),
        "in another's name": Case("unproven", vote(replace(signed(), by="bob"))),
        "that says nothing of what was seen": Case(
            "unproven", vote(signed(replace(ANN, seen=None)))
        ),
        "long before": Case("unproven", vote(signed(at_ms=NOW - 10**9))),
        "long after": Case("unproven", vote(signed(at_ms=NOW + 10**9))),
        "with a key that is not trusted": Case("unproven", vote(signed(keys=OTHERS))),
        "with a key that was replaced and still counts": Case(
            "proven",
            vote(signed(keys=OTHERS)),
            reader=ProofReader(IdentityKeys((*KEYS.trusted, *OTHERS.trusted)), "default"),
        ),
        "another action's": Case("unproven", vote(signed(action="hold"))),
        "void: for earlier arguments": Case("proven", vote(signed()), void),
        "void, and for arguments that nobody saw": Case(
            "unproven", vote(signed(replace(ANN, seen=void.seen))), void
        ),
        "void, for another tool": Case("unproven", vote(signed()), replace(void, tool_digest="x")),
        "remembered": Case("proven", vote(signed(REMEMBERED), at=LATER), LATER),
        "remembered from a nested run": Case(
            "proven", vote(from_nested, at=LATER), LATER, _remembers(from_nested, "run/clerk-1")
        ),
        "remembered, of a run that nobody names": Case(
            "unproven", vote(from_nested, at=LATER), LATER
        ),
        "remembered for other arguments": Case("unproven", vote(signed(exact), at=LATER), LATER),
        "remembered for another tool": Case(
            "unproven", vote(signed(REMEMBERED), at=LATER), replace(LATER, tool_digest="other")
        ),
        "remembered where several have to agree": Case(
            "unproven",
            vote(signed(REMEMBERED), at=LATER),
            replace(LATER, terms=ApprovalTerms(quorum=2)),
        ),
        "nested": Case("proven", vote(signed(place=IN_NESTED)), state=NESTED),
        "nested, seen from its root": Case(
            "proven", vote(signed(place=IN_NESTED)), other(run_id="run/clerk-1")
        ),
        "nested, signed for its own chain": Case(
            "unproven", vote(signed(place=replace(IN_NESTED, chain_id="own"))), state=NESTED
        ),
        "an edit": edited({"euros": 50}),
        "an edit where others are shown": edited({"euros": 50}, shown='{"euros": 900}'),
        "an edit of what is hidden": edited({"euros": REDACTED}, terms=hidden),
        "an edit whose arguments are gone": replace(
            edited({"euros": 50}, shown=ARGUMENTS),
            request=REQUEST,
            vote=replace(edited({"euros": 50}).vote, args_digest=REQUEST.args_digest),
        ),
        "a withdrawal": Case("proven", vote(withdrawn)),
        "a withdrawal of an edit": Case("proven", vote(withdrawn, at=void), void),
    }


CASES = cases()


@pytest.mark.parametrize("name", CASES)
def test_a_vote_is_proven_by_its_signature(name: str):
    case = CASES[name]
    for _ in range(2):  # as checked, and as remembered
        assert case.reader.of_vote(case.vote, case.request, case.state) == case.wanted
    assert case.reader.of_votes(replace(case.request, votes=(case.vote,)), case.state) == (
        case.wanted,
    )


@pytest.mark.parametrize("name", CASES)
def test_without_keys_nothing_is_proven(name: str):
    case = CASES[name]
    for keyless in (NO_PROOFS, ProofReader(NO_KEYS, "default")):
        found = keyless.of_vote(case.vote, case.request, case.state)
        accepted = case.vote.verified and case.vote.decision.proof is not None
        assert found == ("accepted" if accepted else "unproven")


@pytest.mark.parametrize(
    "hostile",
    [
        replace(signed(), proof="v2.half"),
        replace(signed(), proof=signed().proof[:-1]),
        replace(signed(), proof="\ud800"),
        replace(signed(), proof=cast("str", 5)),
        replace(signed(), message="\udfff"),
        replace(signed(), by=cast("str", 7)),
        replace(signed(), groups=cast("Any", 3)),
        replace(signed(), seen=cast("Any", "seen")),
        replace(signed(), seen=cast("Any", ANN)),
        replace(signed(), edited_arguments={"a": float("nan")}),
        replace(signed(), edited_arguments=cast("Any", [1])),
        replace(signed(), edited_arguments={"a": 10**5000}),
        replace(signed(), request_id=cast("str", None)),
        replace(signed(), remember=cast("bool", "yes")),
    ],
)
def test_garbage_is_not_proven(hostile: Decision):
    assert READER.of_vote(vote(hostile), REQUEST, STATE) == "unproven"


@pytest.mark.parametrize(
    "broken",
    [
        replace(vote(signed()), decision=cast("Any", None)),
        replace(vote(signed()), at_ms=cast("Any", "now")),
        replace(vote(signed()), verified=cast("Any", "true")),
    ],
)
def test_a_vote_that_is_none_is_not_proven(broken: Vote):
    assert READER.of_vote(broken, REQUEST, STATE) == "unproven"


def test_a_genuine_signature_of_something_unsignable_raises_nothing():
    """As somebody with a key of their own may sign: what it says it saw is no record."""
    mine = signed(replace(ANN, seen=cast("Any", "seen")))
    assert READER.of_vote(vote(mine), REQUEST, STATE) == "unproven"


def test_equal_records_are_checked_each_for_itself():
    """1 and True are equal in Python, and are signed differently."""
    real = signed(
        Decision(
            request_id="a1", type="edit", by="ann", seen=REQUEST.seen, edited_arguments={"euros": 1}
        )
    )
    forged = replace(real, edited_arguments={"euros": True})
    assert real == forged
    for decision, wanted in ((real, "proven"), (forged, "unproven")):
        found = READER.of_signed(decision, HERE, at_ms=NOW, verified=True)
        assert found == wanted


def test_a_signature_is_checked_once(monkeypatch: pytest.MonkeyPatch):
    checked: list[bytes] = []
    check = identity.IdentityKey.is_signature

    def counted(key: identity.IdentityKey, signature: str, content: bytes) -> bool:
        checked.append(content)
        return check(key, signature, content)

    monkeypatch.setattr(identity.IdentityKey, "is_signature", counted)
    mine = vote(signed())
    assert {READER.of_vote(mine, REQUEST, STATE) for _ in range(9)} == {"proven"}
    assert len(checked) == 1
    assert ProofReader(OTHERS, "default").of_vote(mine, REQUEST, STATE) == "unproven"


HOLD, SAY = HoldAction(by="ann"), SayAction(by="ann", text="Hello")
HANDED = HoldAction(by="ann", to="bob")


@pytest.mark.parametrize(
    ("wanted", "reader", "record", "by", "changes"),
    [
        ("proven", READER, signed(HOLD, action="hold"), "ann", {}),
        ("proven", READER, signed(HOLD, action="hold"), "Ann", {}),
        ("proven", READER, signed(SAY, action="say"), "ann", {}),
        ("proven", READER, signed(ReleaseAction(by="ann"), action="release"), "ann", {}),
        ("proven", READER, signed(HANDED, action="hold"), "bob", {}),
        ("unproven", READER, signed(HANDED, action="hold"), "eve", {}),
        ("unproven", READER, signed(HOLD, action="hold"), "eve", {}),
        ("unproven", READER, signed(HOLD, action="say"), "ann", {}),
        ("unproven", READER, replace(signed(SAY, action="say"), text="Pay!"), "ann", {}),
        ("unproven", READER, signed(HOLD, action="hold"), "ann", {"verified": False}),
        ("unproven", READER, HOLD, "ann", {}),
        ("unproven", READER, None, "ann", {}),
        ("unproven", READER, signed(HOLD, action="hold"), "ann", {"at_ms": NOW + 2 * LONGEST_AGE_MS}),
        ("unproven", READER, signed(HOLD, replace(HERE, chain_id="x"), action="hold"), "ann", {}),
        ("unproven", READER, signed(HoldAction(by=""), action="hold"), "", {}),
        ("unproven", READER, replace(HOLD, by=cast("Any", 5)), "ann", {}),
        ("accepted", NO_PROOFS, signed(HOLD, action="hold"), "ann", {}),
        ("unproven", NO_PROOFS, HOLD, "ann", {}),
        ("unproven", NO_PROOFS, signed(HOLD, action="hold"), "ann", {"verified": False}),
    ],
)  # fmt: skip
def test_an_action_is_proven_by_its_signature(
    wanted: Proof, reader: ProofReader, record: Any, by: str, changes: dict[str, Any]
):
    told: dict[str, Any] = {"at_ms": NOW, "verified": True, **changes}
    assert reader.of_action(record, by, STATE, **told) == wanted


def test_keys_that_cannot_be_used_are_no_keys(monkeypatch: pytest.MonkeyPatch):
    """Ed25519 needs a package, and a page is shown without it, too."""

    def missing(*_: object) -> bool:
        raise ImportError

    monkeypatch.setattr(identity.IdentityKey, "is_signature", missing)
    assert READER.of_vote(vote(signed()), REQUEST, STATE) == "accepted"


def test_each_proof_has_words():
    assert set(PROOF_WORDS) == set(Proof.__args__)
    assert len(set(PROOF_WORDS.values())) == len(PROOF_WORDS)
