import pytest

from outlast.demo import story
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.state import Answer, LoopState


def request(request_id: str, status: str = "pending") -> ApprovalRequest:
    return ApprovalRequest(
        id=request_id,
        call_id=f"c-{request_id}",
        name="refund_order",
        agent="Billing",
        arguments="{}",
        args_digest="d",
        requested_at_ms=1,
        status=status,  # pyright: ignore[reportArgumentType]
    )


def test_a_message_is_answered_once_an_answer_is_to_it() -> None:
    state = LoopState(answers=(Answer(("start",), None, "Orders"),))

    assert story._is_answered(state, "start")
    assert not story._is_answered(state, "m-1")


@pytest.mark.parametrize(
    ("now", "decided"),
    [
        ((request("a1"), request("a2")), False),
        ((request("a1", "approved"), request("a2")), False),
        ((request("a1", "approved"), request("a2", "rejected")), True),
        ((request("a1", "approved"), request("a2", "rejected"), request("a3")), True),
    ],
)
def test_requests_are_decided_when_none_of_them_waits(
    now: tuple[ApprovalRequest, ...], decided: bool
) -> None:
    are_decided = story._are_decided([request("a1"), request("a2")])

    assert are_decided(LoopState(approvals=now)) is decided
