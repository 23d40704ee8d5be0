"""What an operators' file would have meant for the calls of past runs."""

import json
from typing import Any

import pytest

from outlast.agents.approvals.dry_run import DryRun, Tally
from outlast.agents.approvals.policy_file import ApprovalFile
from outlast.loop.approvals import ApprovalRequest, RequestKind
from outlast.loop.items import Item
from outlast.loop.state import Answer, LoopState
from outlast.loop.values import Failure
from outlast.testing import call, say

FILE = """\
[tool.refund]
when = "amount > 100"

[agent.Desk.tool.look_up]
needs_approval = false

[handoff.transfer_to_billing]

[answer.Desk]
when = "answer == 'Sorry.'"
"""


def request(call_id: str, kind: RequestKind = "tool", run_id: str = "") -> ApprovalRequest:
    return ApprovalRequest(
        id=f"a-{call_id}",
        kind=kind,
        call_id=call_id,
        name="x",
        agent="Desk",
        arguments="{}",
        args_digest="",
        requested_at_ms=1,
        run_id=run_id,
    )


def called(name: str, call_id: str, **arguments: Any) -> Item:
    kind = "handoff_call" if name.startswith("transfer_to_") else "tool_call"
    return Item(kind, call(name, call_id, **arguments), agent="Desk", turn=1)


def said(text: str) -> Item:
    return Item("message", say(text)[0], agent="Desk", turn=1)


def tried(*states: LoopState, file: str = FILE) -> list[Tally]:
    run = DryRun(ApprovalFile("approvals.toml", file))
    for state in states:
        run.add(state)
    assert run.runs == len(states)
    return run.tallies


def test_calls_are_counted_by_agent_and_tool() -> None:
    first = LoopState(
        items=(
            Item("input", {"role": "user", "content": "Hi"}),
            called("refund", "c1", amount=500),
            called("refund", "c2", amount=5),
            called("refund", "c3"),
            called("look_up", "c4"),
            called("transfer_to_billing", "c5"),
            called("other", "c6"),
        ),
        approvals=(request("c2"), request("c6"), request("c4", run_id="nested")),
    )
    second = LoopState(items=(called("refund", "c1", amount=101), called("other", "c2")))
    assert tried(first, second) == [
        Tally(
            kind="tool",
            agent="Desk",
            name="refund",
            table="[tool.refund]",
            calls=4,
            asked=3,
            unclear=1,
            were_asked=1,
        ),
        Tally(
            kind="handoff",
            agent="Desk",
            name="transfer_to_billing",
            table="[handoff.transfer_to_billing]",
            calls=1,
            asked=1,
            at_most=True,
        ),
        Tally(
            kind="tool",
            agent="Desk",
            name="look_up",
            table="[agent.Desk.tool.look_up]",
            calls=1,
        ),
        Tally(kind="tool", agent="Desk", name="other", calls=2, were_asked=1),
    ]


def test_a_call_of_a_tier_waits_though_the_condition_of_its_table_does_not_hold() -> None:
    tier = "[[tool.refund.tiers]]\nwhen = 'currency == \"USD\"'\n"
    calls = [called("refund", "c1", amount=5, currency=one) for one in ("USD", "EUR")]
    (tally,) = tried(LoopState(items=tuple(calls)), file=f"{FILE}\n{tier}")
    assert (tally.calls, tally.asked, tally.at_most) == (2, 1, False)
    (tally,) = tried(LoopState(items=tuple(calls)), file=tier)  # the code's rule may ask, too
    assert (tally.asked, tally.at_most) == (2, True)


def test_answers_are_counted_unless_they_failed() -> None:
    state = LoopState(
        items=(said("Hi"), said("Sorry."), said('{"answer": "Sorry."}'), said("[1]")),
        answers=(
            *(Answer((), at, "Desk") for at in range(4)),
            Answer((), None, "Desk", Failure(code="x", message="x")),
        ),
        approvals=(request("", kind="output"),),
    )
    assert tried(state) == [
        Tally(
            kind="answer",
            agent="Desk",
            name="",
            table="[answer.Desk]",
            calls=4,
            asked=2,
            were_asked=1,
        )
    ]


@pytest.mark.parametrize(
    "arguments", ["{", '{"amount": NaN}', "[5]", '{"amount": "5"}', "[" * 9999]
)
def test_a_call_that_the_condition_cannot_judge_would_wait(arguments: str) -> None:
    raw = {**call("refund", "c1"), "arguments": arguments}
    (tally,) = tried(LoopState(items=(Item("tool_call", raw, agent="Desk"),)))
    assert (tally.calls, tally.asked, tally.unclear) == (1, 1, 1)


def test_a_dry_run_reads_arguments_as_a_worker_does() -> None:
    arguments = json.dumps({"amount": 100.5})
    raw = {**call("refund", "c1"), "arguments": arguments}
    (tally,) = tried(LoopState(items=(Item("tool_call", raw, agent="Desk"),)))
    assert (tally.asked, tally.unclear) == (1, 0)
