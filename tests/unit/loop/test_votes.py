"""Which decisions a request accepts, what they do to it, and what time does."""

import json
from dataclasses import replace
from typing import Any

import pytest

from outlast.loop.approvals import (
    REDACTED,
    ApprovalRequest,
    ApprovalStatus,
    ApprovalTerms,
    Audience,
    Claim,
    Decision,
    DecisionType,
    EscalationStep,
    Person,
    VoteType,
    digest,
    reviewed,
)
from outlast.loop.values import JsonObject
from outlast.loop.votes import (
    LONGEST_CLAIM_MINUTES,
    LONGEST_MESSAGE,
    SHORTEST_REMINDER_MS,
    Sender,
    aged,
    audience_text,
    claim_refusal,
    claimed,
    is_repeated,
    next_due_ms,
    refusal,
    voted,
)

ARGUMENTS = '{"order": "A-17", "cents": 500}'
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "cents": {"type": "integer", "maximum": 900}},
    "required": ["order", "cents"],
    "additionalProperties": False,
}
NOW = 1_000_000
MINUTE = 60_000
ANYWAY = Sender(at_ms=NOW)
VERIFIED = Sender(at_ms=NOW, verified=True, requesters=("rob",))
TYPES: tuple[DecisionType, ...] = ("approve", "edit", "reject", "respond")


def asked(**fields: Any) -> ApprovalRequest:
    """A request with terms of its own."""
    own = {name: fields.pop(name) for name in list(fields) if name not in REQUEST}
    terms = ApprovalTerms(**own)
    record: dict[str, Any] = {
        "id": "a1",
        "call_id": "c1",
        "name": "refund",
        "agent": "Billing",
        "arguments": reviewed(ARGUMENTS, terms.redact),
        "args_digest": digest(ARGUMENTS),
        "schema": SCHEMA,
        "requested_at_ms": NOW,
        "terms": terms,
    }
    return ApprovalRequest(**{**record, **fields})


REQUEST = set(ApprovalRequest.__dataclass_fields__)
ASKED = asked()
SECOND = replace(ASKED, id="a2")


def decision(kind: VoteType = "approve", by: str | None = None, **fields: Any) -> Decision:
    """A decision that fits the request."""
    if kind == "edit":
        fields.setdefault("edited_arguments", {"order": "A-17", "cents": 400})
    if kind == "respond":
        fields.setdefault("response", "Refunded by hand.")
    fields.setdefault("request_id", "a1")
    return Decision(type=kind, by=by, **fields)


def after(request: ApprovalRequest, *decisions: Decision, at_ms: int = NOW) -> ApprovalRequest:
    """The request after some decisions, each of which it accepts."""
    sender = Sender(at_ms=at_ms, verified=True)
    for one in decisions:
        assert refusal([request], one, sender) is None
        request = voted(request, one, sender, ARGUMENTS)
    return request


# --- Which decisions count -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("seen", [None, ASKED.args_digest])
def test_a_decision_about_a_pending_request_counts(kind: DecisionType, seen: str | None) -> None:
    assert refusal([ASKED], decision(kind, args_digest=seen), ANYWAY) is None
    assert refusal([SECOND, ASKED], decision(kind, args_digest=seen), ANYWAY) is None


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("seen", ["", "0" * 64, ASKED.args_digest.upper()])
def test_a_decision_about_other_arguments_is_refused(kind: DecisionType, seen: str) -> None:
    problem = refusal([ASKED], decision(kind, args_digest=seen), ANYWAY)
    assert problem is not None
    assert "Approval a1" in problem
    assert "Look at it again" in problem


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(
    "status",
    ["approved", "edited", "rejected", "responded", "expired", "cancelled", "superseded"],
)
def test_a_settled_request_takes_no_further_decision(
    kind: DecisionType, status: ApprovalStatus
) -> None:
    settled = replace(ASKED, status=status)
    word = {"edited": "approved with changes", "responded": "answered"}.get(status, status)
    expected = f"Approval a1 is already {word}."
    assert refusal([settled], decision(kind), ANYWAY) == expected
    assert claim_refusal([settled], "a1", Person(subject="ann"), ANYWAY) == expected


def test_a_refused_decision_says_who_decided_before() -> None:
    settled = replace(ASKED, status="approved", decision=decision(by="ann"))
    again = decision("reject", by="bob")
    assert refusal([settled], again, ANYWAY) == "Approval a1 is already approved by ann."
    settled = replace(ASKED, status="approved", decision=decision())
    assert refusal([settled], again, ANYWAY) == "Approval a1 is already approved."


@pytest.mark.parametrize("unknown", ["", "a0", "a3", "A1", " a1", "a1 "])
def test_a_decision_about_an_unknown_request_names_those_that_wait(unknown: str) -> None:
    expected = f"The run has no approval {unknown!r}. Pending: a1, a2."
    assert refusal([ASKED, SECOND], decision(request_id=unknown), ANYWAY) == expected
    person = Person(subject="ann")
    assert claim_refusal([ASKED, SECOND], unknown, person, ANYWAY) == expected


def test_where_nothing_waits_the_refusal_says_so() -> None:
    expected = "The run has no approval 'a7'. Pending: none."
    assert refusal([], decision(request_id="a7"), ANYWAY) == expected
    cancelled = replace(ASKED, status="cancelled")
    assert refusal([cancelled], decision(request_id="a7"), ANYWAY) == expected


REFUSED: list[tuple[ApprovalRequest, Decision, Sender, str]] = [
    (
        asked(allow=("approve", "reject")),
        decision("respond"),
        ANYWAY,
        " cannot be decided with 'respond', only with approve, reject.",
    ),
    (
        ASKED,
        decision("edit", remember=True),
        ANYWAY,
        ": a decision of type edit cannot be remembered for further calls.",
    ),
    (
        replace(ASKED, kind="handoff"),
        decision(remember=True),
        ANYWAY,
        ": a decision of type approve cannot be remembered for further calls.",
    ),
    (
        asked(quorum=2),
        decision(by="ann", remember=True),
        ANYWAY,
        ": a decision cannot be remembered where several people have to agree.",
    ),
    (
        asked(unverified=False),
        decision(by="ann"),
        ANYWAY,
        (
            " needs proof of who decides. Use the `outlast` command, or a program "
            "with an identity key that the workers trust: what the Temporal UI sends carries a "
            "name without proof."
        ),
    ),
    (asked(quorum=2), decision(), VERIFIED, " needs the name of the person who decides (by=)."),
    (
        asked(audience=Audience(subjects=("ann",))),
        decision(),
        VERIFIED,
        " needs the name of the person who decides (by=).",
    ),
    (
        asked(audience=Audience(exclude_requester=True)),
        decision(),
        VERIFIED,
        " needs the name of the person who decides (by=).",
    ),
    (
        asked(audience=Audience(exclude_requester=True)),
        decision(by="rob"),
        VERIFIED,
        ": rob asked for this, so somebody else has to decide.",
    ),
    (
        asked(audience=Audience(subjects=("ann",), groups=("leads",))),
        decision(by="bob", groups=("team",)),
        VERIFIED,
        ": bob may not do this. It is for ann or the group leads.",
    ),
    (
        after(asked(quorum=2), decision(by="ann")),
        decision(by="ann"),
        VERIFIED,
        ": ann has decided already; a different person has to agree.",
    ),
    (
        replace(ASKED, claim=Claim(by="ann", until_ms=NOW + 1)),
        decision(by="bob"),
        VERIFIED,
        ": ann is working on it. Claim it with force to take it over.",
    ),
    (
        ASKED,
        decision("reject", message="x" * (LONGEST_MESSAGE + 1)),
        ANYWAY,
        ": the decision has 100,001 characters, of at most 100,000.",
    ),
    (
        ASKED,
        decision("respond", response="x" * LONGEST_MESSAGE),
        ANYWAY,
        ": the decision has 100,002 characters, of at most 100,000.",
    ),
    (
        ASKED,
        decision("edit", edited_arguments=None),
        ANYWAY,
        ": an edit needs edited_arguments, all arguments as a JSON object.",
    ),
    (
        ASKED,
        decision("edit", edited_arguments={"order": "A-17", "cents": 1_000}),
        ANYWAY,
        ": the edited arguments do not fit. cents must be at most 900.",
    ),
    (
        ASKED,
        decision("edit", edited_arguments={"order": "A-17", "cents": REDACTED}),
        ANYWAY,
        ": the edited arguments do not fit. cents must be of type integer.",
    ),
    (
        ASKED,
        decision("respond", response=None),
        ANYWAY,
        ": the response does not fit. The value must be of type string.",
    ),
    (
        ASKED,
        decision("respond", response=""),
        ANYWAY,
        ": the response does not fit. The value must have at least 1 characters.",
    ),
    (
        asked(response_schema={"type": "object", "required": ["ok"]}),
        decision("respond", response={}),
        ANYWAY,
        ": the response does not fit. ok is missing.",
    ),
]


@pytest.mark.parametrize(("request_", "made", "sender", "problem"), REFUSED)
def test_a_decision_that_does_not_count_is_refused_with_a_reason(
    request_: ApprovalRequest, made: Decision, sender: Sender, problem: str
) -> None:
    assert refusal([request_], made, sender) == f"Approval a1{problem}"


ACCEPTED: list[tuple[ApprovalRequest, Decision, Sender]] = [
    (asked(unverified=False), decision(), VERIFIED),
    (replace(ASKED, schema=None), decision("edit"), ANYWAY),
    (asked(audience=Audience(exclude_requester=True)), decision(by="ann"), VERIFIED),
    (asked(audience=Audience(subjects=("ann",))), decision(by="ann"), ANYWAY),
    (asked(audience=Audience(groups=("leads",))), decision(by="x", groups=("leads",)), ANYWAY),
    (asked(quorum=2), decision(by="ann"), ANYWAY),
    (ASKED, decision(remember=True), ANYWAY),
    (ASKED, decision("reject", remember=True, remember_scope="tool_with_args"), ANYWAY),
    (replace(ASKED, claim=Claim(by="ann", until_ms=NOW)), decision(by="bob"), ANYWAY),
    (replace(ASKED, claim=Claim(by="ann", until_ms=NOW + 1)), decision(by="ann"), ANYWAY),
    (asked(response_schema={"type": "integer"}), decision("respond", response=3), ANYWAY),
    (
        asked(redact=("cents",)),
        decision("edit", edited_arguments={"order": "A-18", "cents": REDACTED}),
        ANYWAY,
    ),
    (
        asked(redact=("cents",), schema={"type": "object"}),
        decision("edit", edited_arguments={"order": "A-18", "cents": REDACTED}),
        ANYWAY,
    ),
]


@pytest.mark.parametrize(("request_", "made", "sender"), ACCEPTED)
def test_a_decision_that_fits_its_terms_counts(
    request_: ApprovalRequest, made: Decision, sender: Sender
) -> None:
    assert refusal([request_], made, sender) is None


def test_an_escalation_lets_further_people_decide_and_keeps_the_first() -> None:
    team, boss = Audience(groups=("team",)), Audience(subjects=("boss",), groups=("team",))
    step = EscalationStep(after_ms=10, audience=boss)
    request = asked(audience=team, escalations=(step,))
    by_boss, by_team = decision(by="boss"), decision(by="ann", groups=("team",))
    assert refusal([request], by_boss, ANYWAY) is not None
    escalated = aged(request, NOW + 10)
    assert refusal([escalated], by_boss, ANYWAY) is None
    assert refusal([escalated], by_team, ANYWAY) is None
    assert audience_text(escalated.audiences) == "boss or the group team"
    assert audience_text(ASKED.audiences) == ""


def test_a_decision_with_a_key_is_the_same_decision_again() -> None:
    keyed = decision(by="ann", idempotency_key="k1")
    request = after(asked(quorum=2), keyed)
    assert is_repeated([SECOND, request], keyed)
    assert not is_repeated([request], replace(keyed, idempotency_key="k2"))
    assert not is_repeated([request], replace(keyed, request_id="a2"))
    assert not is_repeated([after(asked(quorum=2), decision(by="ann"))], decision(by="ann"))


# --- Claims --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "by", "force", "problem"),
    [
        (ASKED, "ann", False, None),
        (ASKED, "", True, " can only be claimed by name (by=)."),
        (
            asked(audience=Audience(subjects=("ann",))),
            "bob",
            True,
            ": bob may not do this. It is for ann.",
        ),
        (after(asked(quorum=2), decision(by="ann")), "ann", False, None),
        (
            replace(ASKED, claim=Claim(by="ann", until_ms=NOW + 1)),
            "bob",
            False,
            ": ann is working on it. Claim it with force to take it over.",
        ),
        (replace(ASKED, claim=Claim(by="ann", until_ms=NOW + 1)), "bob", True, None),
        (replace(ASKED, claim=Claim(by="ann", until_ms=NOW + 1)), "ann", False, None),
        (replace(ASKED, claim=Claim(by="ann", until_ms=NOW)), "bob", False, None),
    ],
)
def test_who_could_decide_may_claim_what_nobody_else_works_on(
    request_: ApprovalRequest, by: str, force: bool, problem: str | None
) -> None:
    found = claim_refusal([request_], "a1", Person(subject=by), ANYWAY, force=force)
    assert found == (None if problem is None else f"Approval a1{problem}")


def test_a_claim_ends_by_itself_or_when_it_is_given_back() -> None:
    taken = claimed(ASKED, "ann", 5, ANYWAY.at_ms)
    assert taken.claim == Claim(by="ann", until_ms=NOW + 5 * MINUTE)
    assert claimed(taken, "ann", 0, ANYWAY.at_ms).claim is None
    assert claimed(taken, "ann", -1, ANYWAY.at_ms).claim is None
    longest = claimed(ASKED, "ann", 10**9, ANYWAY.at_ms).claim
    assert longest == Claim(by="ann", until_ms=NOW + LONGEST_CLAIM_MINUTES * MINUTE)


# --- What a decision does ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("approve", "approved"),
        ("edit", "edited"),
        ("reject", "rejected"),
        ("respond", "responded"),
    ],
)
def test_one_person_settles_a_request(kind: DecisionType, status: ApprovalStatus) -> None:
    made = decision(kind, by="ann")
    settled = after(ASKED, made, at_ms=NOW + 3)
    assert (settled.status, settled.decision, settled.decided_at_ms) == (status, made, NOW + 3)
    (vote,) = settled.votes
    assert (vote.decision, vote.at_ms, vote.verified) == (made, NOW + 3, True)
    assert vote.args_digest == settled.args_digest


def test_several_people_have_to_agree_on_what_runs() -> None:
    request = after(asked(quorum=3), decision(by="ann"))
    assert len(request.standing_votes) == 1
    request = after(request, decision(by="bob"))
    assert (request.status, request.decision) == ("pending", None)
    request = after(request, decision(by="eve"))
    assert (request.status, len(request.votes)) == ("approved", 3)


@pytest.mark.parametrize(("kind", "status"), [("reject", "rejected"), ("respond", "responded")])
def test_one_person_is_enough_for_what_does_not_run(
    kind: DecisionType, status: ApprovalStatus
) -> None:
    request = after(asked(quorum=3), decision(by="ann"), decision(kind, by="bob"))
    assert request.status == status


def test_an_edit_makes_earlier_votes_void() -> None:
    request = after(asked(quorum=2), decision(by="ann"), decision("edit", by="bob"))
    assert request.status == "pending"
    assert json.loads(request.edited or "") == {"order": "A-17", "cents": 400}
    assert request.arguments == request.edited
    assert request.args_digest == digest('{"cents": 400, "order": "A-17"}')
    again = decision(by="bob", args_digest=request.args_digest)
    assert "bob has decided already" in (refusal([request], again, VERIFIED) or "")
    stale = decision(by="eve", args_digest=ASKED.args_digest)
    assert "other arguments" in (refusal([request], stale, VERIFIED) or "")
    settled = after(request, decision(by="ann", args_digest=request.args_digest))
    assert settled.status == "edited"
    assert settled.edited == request.edited


@pytest.mark.parametrize(("kind", "status"), [("reject", "rejected"), ("respond", "responded")])
def test_who_has_approved_may_still_stop_the_call(kind: VoteType, status: ApprovalStatus) -> None:
    request = after(asked(quorum=2), decision(by="ann"), decision(kind, by="ann"))
    assert (request.status, request.settled_by) == (status, "ann")


def test_an_edit_of_ones_own_approval_is_still_one_vote() -> None:
    request = after(asked(quorum=2), decision(by="ann"), decision("edit", by="ann"))
    assert (request.status, len(request.standing_votes)) == ("pending", 1)


def test_a_withdrawn_vote_does_not_count_and_may_be_cast_again() -> None:
    request = after(asked(quorum=2), decision(by="ann"), decision("withdraw", by="ann"))
    assert (request.status, request.standing_votes, len(request.votes)) == ("pending", (), 2)
    request = after(request, decision(by="bob"))
    assert request.status == "pending", "ann's vote is withdrawn"
    assert after(request, decision(by="ann")).status == "approved"


def test_a_withdrawn_edit_gives_the_call_its_own_arguments_back() -> None:
    first = asked(quorum=3, redact=("cents",))
    request = after(first, decision(by="bob"), decision("edit", by="ann"))
    request = after(request, decision(by="cid", args_digest=request.args_digest))
    request = after(request, decision("withdraw", by="ann"))
    assert request.edited is None
    assert (request.arguments, request.args_digest) == (first.arguments, first.args_digest)
    assert [one.decision.by for one in request.standing_votes] == ["bob"], "cid saw other ones"


def test_a_withdrawn_edit_of_earlier_arguments_leaves_the_newer_edit() -> None:
    newer: JsonObject = {"order": "A-17", "cents": 300}
    request = after(asked(quorum=2), decision("edit", by="ann"))
    request = after(request, decision("edit", by="bob", edited_arguments=newer))
    request = after(request, decision("withdraw", by="ann"))
    assert json.loads(request.edited or "") == newer
    assert [one.decision.by for one in request.standing_votes] == ["bob"]


def test_a_vote_withdrawn_for_other_arguments_does_not_come_back_with_them() -> None:
    request = after(asked(quorum=3), decision(by="ann"), decision("edit", by="bob"))
    request = after(request, decision("withdraw", by="ann"), decision("withdraw", by="bob"))
    assert (request.args_digest, request.standing_votes) == (ASKED.args_digest, ())


@pytest.mark.parametrize(
    ("one", "problem"),
    [
        (decision("withdraw", by="bob"), ": bob has no vote to withdraw."),
        (decision("withdraw"), ": nobody has no vote to withdraw."),
        (decision("withdraw", by="ann", remember=True), ": a withdrawn vote cannot be remembered."),
        (decision("withdraw", by="ann", args_digest="0"), ": the decision was made for other"),
    ],
)
def test_only_ones_own_votes_can_be_withdrawn(one: Decision, problem: str) -> None:
    request = after(asked(audience=Audience(subjects=("ann", "bob")), quorum=3), decision(by="ann"))
    sender = VERIFIED
    if one.by is None:
        request = asked()
    assert f"Approval a1{problem}" in (refusal([request], one, sender) or "")


@pytest.mark.parametrize(
    ("kind", "holder", "counts"),
    [
        ("approve", "", False),
        ("approve", "bob", False),
        ("approve", "ann", True),
        ("approve", None, True),
        ("edit", "", False),
        ("reject", "", True),
        ("respond", "", True),
    ],
)
def test_where_the_takeover_is_the_approval_only_the_holder_approves(
    kind: VoteType, holder: str | None, counts: bool
) -> None:
    sender = replace(VERIFIED, holder=holder)
    problem = refusal([asked(takeover=True)], decision(kind, by="ann"), sender)
    assert problem is None if counts else "takes the conversation over" in (problem or "")


CLAIMED = replace(ASKED, claim=Claim(by="ann", until_ms=NOW + 1))


@pytest.mark.parametrize(
    ("request_", "by", "to", "force", "problem"),
    [
        (CLAIMED, "ann", "bob", False, None),
        (CLAIMED, "eve", "bob", True, None),
        (CLAIMED, "eve", "bob", False, ": ann is working on it."),
        (ASKED, "ann", "bob", False, ": ann has no claim to hand over. Claim it first."),
        (
            replace(CLAIMED, terms=ApprovalTerms(audience=Audience(exclude_requester=True))),
            "ann",
            "rob",
            False,
            ": rob asked for this, so somebody else has to decide.",
        ),
        (
            replace(CLAIMED, terms=ApprovalTerms(audience=Audience(subjects=("ann", "eve")))),
            "ann",
            "bob",
            False,
            ": bob may not do this. It is for ann or eve.",
        ),
        (
            replace(CLAIMED, terms=ApprovalTerms(audience=Audience(subjects=("ann", "eve")))),
            "ann",
            "Eve",
            False,
            None,
        ),
    ],
)
def test_a_claim_is_handed_over_by_whoever_has_it(
    request_: ApprovalRequest, by: str, to: str, force: bool, problem: str | None
) -> None:
    said = claim_refusal([request_], "a1", Person(subject=by), VERIFIED, force=force, to=to)
    assert said is None if problem is None else f"Approval a1{problem}" in (said or "")


def test_an_edit_of_an_edit_keeps_what_its_author_did_not_see() -> None:
    secret: JsonObject = {"order": "A-18", "cents": REDACTED}
    request = after(
        asked(quorum=2, redact=("cents",)), decision("edit", "ann", edited_arguments=secret)
    )
    assert json.loads(request.arguments) == {"order": "A-18", "cents": REDACTED}
    assert json.loads(request.edited or "") == {"order": "A-18", "cents": 500}
    other: JsonObject = {"order": "A-19", "cents": REDACTED}
    request = after(request, decision("edit", "bob", edited_arguments=other))
    assert json.loads(request.edited or "") == {"order": "A-19", "cents": 500}
    assert request.status == "pending", "two different people have to want the same arguments"


def test_nobody_counts_twice_after_an_edit_back_to_the_same_arguments() -> None:
    one: JsonObject = {"order": "A-17", "cents": 1}
    two: JsonObject = {"order": "A-17", "cents": 2}
    request = after(
        asked(quorum=2),
        decision("edit", "ann", edited_arguments=one),
        decision("edit", "bob", edited_arguments=two),
        decision("edit", "ann", edited_arguments=one),
    )
    assert (request.status, len(request.standing_votes)) == ("pending", 1)
    assert after(request, decision(by="bob")).status == "edited"


# --- What time does ------------------------------------------------------------------------------

STEP = EscalationStep(after_ms=100, audience=Audience(subjects=("boss",)))
LATER = EscalationStep(after_ms=200, audience=Audience(subjects=("owner",)))


@pytest.mark.parametrize(
    ("request_", "due"),
    [
        (ASKED, None),
        (replace(ASKED, expires_at_ms=NOW + 5), NOW + 5),
        (replace(ASKED, expires_at_ms=NOW + 5, remind_at_ms=NOW + 2), NOW + 2),
        (replace(asked(escalations=(STEP, LATER)), expires_at_ms=NOW + 900), NOW + 100),
        (replace(asked(escalations=(STEP, LATER)), escalated=1), NOW + 200),
        (replace(asked(escalations=(STEP, LATER)), escalated=2), None),
    ],
)
def test_the_next_time_at_which_something_is_due(
    request_: ApprovalRequest, due: int | None
) -> None:
    assert next_due_ms(request_) == due
    if due is not None:
        assert aged(request_, due - 1) is request_
        assert aged(request_, due) != request_


@pytest.mark.parametrize(
    ("on_expiry", "status"), [("reject", "expired"), ("fail", "expired"), ("approve", "approved")]
)
def test_a_request_that_expires_is_settled(on_expiry: Any, status: ApprovalStatus) -> None:
    request = asked(
        expires_in_ms=50,
        on_expiry=on_expiry,
        expires_at_ms=NOW + 50,
        remind_every_ms=MINUTE,
        remind_at_ms=NOW + 40,
    )
    over = aged(request, NOW + 60)
    assert (over.status, over.decided_at_ms, over.remind_at_ms) == (status, NOW + 60, None)
    assert aged(over, NOW + 900) is over


def test_a_request_that_is_to_escalate_gets_the_same_time_again_until_no_step_is_left() -> None:
    request = asked(
        expires_in_ms=50,
        on_expiry="escalate",
        expires_at_ms=NOW + 50,
        escalations=(replace(STEP, after_ms=10**9), replace(LATER, after_ms=10**9)),
    )
    once = aged(request, NOW + 51)
    assert (once.status, once.escalated, once.expires_at_ms) == ("pending", 1, NOW + 101)
    twice = aged(once, NOW + 101)
    assert (twice.status, twice.escalated, twice.expires_at_ms) == ("pending", 2, NOW + 151)
    assert aged(twice, NOW + 151).status == "expired"
    assert aged(replace(request, terms=replace(request.terms, expires_in_ms=0)), NOW + 50) == (
        replace(
            request,
            terms=replace(request.terms, expires_in_ms=0),
            escalated=1,
            expires_at_ms=NOW + 51,
        )
    )


def test_an_escalation_without_steps_ends_as_a_rejection() -> None:
    request = asked(expires_in_ms=5, on_expiry="escalate", expires_at_ms=NOW + 5)
    assert aged(request, NOW + 5).status == "expired"
    endless = asked(on_expiry="escalate", expires_at_ms=NOW + 5, escalations=(STEP,))
    assert aged(endless, NOW + 5).status == "expired"


def test_steps_that_are_due_at_once_are_all_taken() -> None:
    request = asked(escalations=(STEP, LATER))
    assert aged(request, NOW + 100).escalated == 1
    assert aged(request, NOW + 10**6).escalated == 2


@pytest.mark.parametrize("every", [2 * MINUTE, MINUTE])
def test_reminders_that_were_missed_are_one(every: int) -> None:
    request = asked(remind_every_ms=every, remind_at_ms=NOW + every)
    once = aged(request, NOW + every)
    assert (once.reminders, once.remind_at_ms) == (1, NOW + 2 * every)
    late = aged(once, NOW + 7 * every + 5)
    assert (late.reminders, late.remind_at_ms) == (2, NOW + 8 * every)


@pytest.mark.parametrize("every", [0, -5, 1, MINUTE - 1])
def test_reminders_are_a_minute_apart_at_least(every: int) -> None:
    request = asked(remind_every_ms=every, remind_at_ms=NOW)
    assert aged(request, NOW).remind_at_ms == NOW + SHORTEST_REMINDER_MS
