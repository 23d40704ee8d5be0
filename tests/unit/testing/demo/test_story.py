import json
from typing import Any

import pytest

from outlast.loop.approvals import (
    ApprovalRequest,
    ApprovalTerms,
    Audience,
    Decision,
    EscalationStep,
    Vote,
)
from outlast.loop.state import Answer, LoopState
from outlast.loop.values import JsonObject
from outlast.testing.demo import story
from outlast.testing.demo.processes import DemoFailed
from outlast.testing.demo.story import Choice
from outlast.views.run import snapshot_of


def request(request_id: str, status: Any = "pending", **fields: Any) -> ApprovalRequest:
    values: dict[str, Any] = {"name": "refund_order", "arguments": "{}", **fields}
    return ApprovalRequest(
        id=request_id,
        call_id=f"c-{request_id}",
        agent="Billing",
        args_digest="d",
        requested_at_ms=1,
        status=status,
        **values,
    )


def test_a_message_is_answered_once_an_answer_is_to_it() -> None:
    state = LoopState(answers=(Answer(("start",), None, "Orders"),))

    assert story._is_answered(snapshot_of(state), "start")
    assert not story._is_answered(snapshot_of(state), "m-1")


def vote(by: str) -> Vote:
    return Vote(decision=Decision(request_id="a1", type="approve", by=by), at_ms=2)


@pytest.mark.parametrize(
    ("now", "have"),
    [
        ((request("a1"), request("a2")), False),
        ((request("a1", "approved"), request("a2")), False),
        ((request("a1", "approved"), request("a2", "rejected")), True),
        ((request("a1", votes=(vote("ann"),)), request("a2", "rejected")), True),
        ((request("a1", "approved"), request("a2", "rejected"), request("a3")), True),
    ],
)
def test_people_have_decided_when_each_request_is_over_or_has_a_vote_more(
    now: tuple[ApprovalRequest, ...], have: bool
) -> None:
    have_votes = story._have_votes([request("a1"), request("a2")])

    assert have_votes(snapshot_of(LoopState(approvals=now))) is have


def test_a_second_person_decides_where_two_have_to_agree() -> None:
    terms = ApprovalTerms(audience=Audience(groups=("billing",)), quorum=2)

    assert story._person_for(request("a1", terms=terms)).subject == "ann"
    assert story._person_for(request("a1", terms=terms, votes=(vote("ann"),))).subject == "bob"
    with pytest.raises(DemoFailed, match="Nobody here may decide a1: the group billing"):
        story._person_for(request("a1", terms=terms, votes=(vote("ann"), vote("bob"))))


@pytest.mark.parametrize(
    ("name", "arguments", "suggested"),
    [
        ("refund_order", {"amount": 389.0}, Choice(type="edit", arguments={"amount": 350.0})),
        ("refund_order", {"amount": 120.0}, Choice(type="approve")),
        ("refund_order", {"amount": "all"}, Choice(type="approve")),
        ("refund_large_order", {"amount": 1480.0}, Choice(type="approve")),
    ],
)
def test_the_demo_suggests_to_pay_less_of_a_refund(
    name: str, arguments: JsonObject, suggested: Choice
) -> None:
    asked = request("a1", name=name, arguments=json.dumps(arguments))

    assert story._suggested(asked) == suggested


def test_who_decides_and_when_is_said_in_words() -> None:
    leads = Audience(groups=("leads",))
    asked = request(
        "a1",
        terms=ApprovalTerms(
            audience=Audience(groups=("billing",), exclude_requester=True),
            quorum=2,
            remind_every_ms=300_000,
            escalations=(EscalationStep(after_ms=4 * 3_600_000, audience=leads),),
            expires_in_ms=24 * 3_600_000,
        ),
    )

    assert story._people_for(asked) == (
        "waits for 2 different people of the group billing, but not the customer"
    )
    assert story._time_for(asked) == (
        "a reminder every 5 min; after 4 h the group leads may decide, too; after 24 h it is rejected"
    )
    assert story._time_for(request("a1")) == ""
