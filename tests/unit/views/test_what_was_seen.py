"""A decision is for what its person was shown: one digest, by whichever way it comes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from outlast.loop.approvals import ApprovalRequest, ApprovalTerms
from outlast.loop.notices import Notice
from outlast.notifications.requests import ref_of
from outlast.ports.notifier import notification
from outlast.serve.wires.ag_ui_input import interrupt_id
from outlast.serve.wires.ids import RequestId

REQUEST = ApprovalRequest(
    id="a1",
    call_id="c1",
    name="refund",
    agent="Billing",
    arguments="{}",
    args_digest="d",
    tool_digest="t",
    requested_at_ms=1,
)


def button(request: ApprovalRequest) -> str:
    return ref_of(notification(Notice(event="created", request=request, at_ms=1), "run")).digest


def command(request: ApprovalRequest) -> str:
    return notification(Notice(event="created", request=request, at_ms=1), "run").commands[0]


WAYS: dict[str, Callable[[ApprovalRequest], str]] = {
    "the API and the pages": lambda request: request.digest,
    "Responses, Vercel and A2A": lambda request: str(RequestId.of(request)),
    "AG-UI": interrupt_id,
    "Slack": button,
    "the command line": command,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "change",
    [
        {"args_digest": "other"},
        {"tool_digest": "other"},
        {"call_id": "c2"},
        {"requested_at_ms": 2},
        {"terms": ApprovalTerms(risk="high")},
        {"terms": ApprovalTerms(quorum=2)},
    ],
    ids=str,
)
def test_what_changes_the_request_changes_what_a_decision_names(
    way: str, change: dict[str, Any]
) -> None:
    named = WAYS[way]
    assert named(REQUEST) == named(replace(REQUEST))
    assert named(REQUEST) != named(replace(REQUEST, **change))


@pytest.mark.parametrize("way", WAYS)
def test_what_does_not_change_the_call_leaves_it(way: str) -> None:
    named = WAYS[way]
    for change in ({"reminders": 2}, {"escalated": 1}, {"reason": "later"}):
        assert named(REQUEST) == named(replace(REQUEST, **change))
