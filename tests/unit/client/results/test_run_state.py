"""A run where it waits: what is decided about it, and its JSON."""

from typing import Any, cast, get_args

import pytest

from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.items.run_items import ToolApprovalItem
from outlast.client.results.run_result import result_of
from outlast.client.results.run_state import RunState
from outlast.contract.names import SCHEMA_VERSION
from outlast.loop.approvals import ApprovalRequest
from outlast.views.run import snapshot_of
from tests.laws.driver import Play, gated, nested


def waiting(*calls: Any) -> RunState:
    play = Play.ready()
    play.replies(*(calls or (gated("refund", "c1"), gated("refund", "c2"), gated("ban", "c3"))))
    return result_of(play.state, client="a client").to_state()


def staged(state: RunState) -> list[tuple[str, str, bool]]:
    return [
        (one.decision.request_id, one.decision.type, one.decision.remember)
        for one in state.staged_decisions()
    ]


def test_a_state_says_what_the_run_waits_for() -> None:
    state = waiting()
    assert (state.run_id, state.agent, state.client) == ("support-42", "Triage", "a client")
    assert [one.id for one in state.get_interruptions()] == ["a1", "a2", "a3"]
    assert repr(state) == "RunState('support-42', waiting=[a1, a2, a3])"
    assert state.snapshot is None
    assert state.staged_decisions() == ()


def test_the_newest_decision_about_a_request_counts() -> None:
    state = waiting()
    first, second, _ = state.get_interruptions()
    state.approve(first)
    state.approve(second)
    state.reject(first, rejection_message="Too much.")
    assert staged(state) == [("a2", "approve", False), ("a1", "reject", False)]
    assert state.staged_decisions()[1].decision.message == "Too much."


def test_a_decision_about_one_call_is_sent_before_one_about_all() -> None:
    state = waiting()
    first, second, third = state.get_interruptions()
    state.approve(first, always_approve=True)
    state.reject(third, always_reject=True)
    state.reject(second)
    assert staged(state) == [
        ("a2", "reject", False),
        ("a1", "approve", True),
        ("a3", "reject", True),
    ]


def test_of_two_decisions_about_all_calls_of_a_tool_the_newest_goes_for_the_further_ones() -> None:
    state = waiting()
    first, second, _ = state.get_interruptions()
    state.approve(first, always_approve=True)
    state.reject(second, always_reject=True)
    assert staged(state) == [("a1", "approve", False), ("a2", "reject", True)]


def test_a_request_is_known_by_its_id_and_by_its_call() -> None:
    state = waiting()
    (again, *_) = waiting().get_interruptions()
    state.approve(again)
    raw = {"type": "function_call", "call_id": "c3", "name": "ban", "arguments": "{}"}
    state.approve(ToolApprovalItem(agent=None, raw_item=raw))
    assert staged(state) == [("a1", "approve", False), ("a3", "approve", False)]


def test_what_the_run_does_not_wait_for_cannot_be_decided() -> None:
    state = waiting(gated("refund", "c1"))
    raw = {"type": "function_call", "call_id": "c9", "name": "ban", "arguments": "{}"}
    with pytest.raises(UserError, match=r"pending request for 'ban' \(c9\).*refund \(a1\)"):
        state.approve(ToolApprovalItem(agent=None, raw_item=raw))
    with pytest.raises(UserError, match=r"Pass one of state\.get_interruptions"):
        state.reject(cast("ToolApprovalItem", "a1"))


def test_what_is_said_is_kept_until_it_is_sent() -> None:
    state = waiting()
    state.add_input("And by card?")
    state.add_input([{"role": "user", "content": "Hurry."}])
    assert state.pending_input == [
        {"role": "user", "content": "And by card?"},
        {"role": "user", "content": "Hurry."},
    ]
    assert len({one.message_id for one in state.staged_input()}) == 2
    state.clear_pending_input()
    assert state.staged_input() == ()
    with pytest.raises(UserError, match="string or a list of items"):
        state.add_input(cast("str", 5))


async def test_a_state_survives_as_text() -> None:
    triage = Agent[Any](name="Triage")
    state = waiting()
    first, _, third = state.get_interruptions()
    state.approve(first, always_approve=True)
    state.reject(third, rejection_message="No.")
    state.add_input("And by card?")
    back = await RunState.from_string(triage, state.to_string())
    assert back.to_json() == state.to_json()
    assert back.staged_decisions() == state.staged_decisions()
    assert back.staged_input() == state.staged_input()
    again = back.get_interruptions()
    assert [one.request for one in again] == [one.request for one in state.get_interruptions()]
    assert (again[0].agent, again[0].call_id) == (triage, "c1")
    back.approve(again[2])
    assert staged(back) == [("a3", "approve", False), ("a1", "approve", True)]


async def test_a_decision_about_a_nested_run_keeps_its_address() -> None:
    play = Play.ready()
    play.replies(nested("Refunds", "c1"))
    request = ApprovalRequest(
        id="e3.a1",
        call_id="n1",
        name="refund",
        agent="Refunds",
        arguments="{}",
        args_digest="d",
        requested_at_ms=1,
        run_id="support-42/ask_refunds-3",
    )
    play.reported(request)
    state = result_of(play.state, client="a client").to_state()
    state.approve(state.get_interruptions()[0])
    back = await RunState.from_json("Triage", state.to_json())
    (decision,) = back.staged_decisions()
    assert (decision.run_id, decision.decision.request_id) == ("support-42/ask_refunds-3", "e3.a1")


async def test_a_program_may_say_what_a_context_is() -> None:
    state = waiting()
    text = state.to_string()
    given = {"n": 1}
    wrapped = RunContextWrapper[Any](context=given)
    for context in (given, wrapped):
        back = await RunState.from_string("Triage", text, context_override=context)
        assert back.context_override is given
    back = await RunState.from_json(
        "Triage",
        state.to_json(),
        context_deserializer=lambda fields: ("made", *fields),
    )
    assert back.context_override is None
    assert back.definitions.context({"n": 1}) == ("made", "n")


async def test_a_run_without_a_server_is_in_its_state() -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1"))
    back = await RunState.from_json("Triage", result_of(play.state).to_state().to_json())
    assert back.snapshot == snapshot_of(play.state)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it is not JSON"),
        ("[]", "Input should be a dictionary"),
        ("{}", "run_id"),
        ('{"run_id": 5, "agent": "A"}', "run_id: Input should be a valid string"),
        (
            '{"run_id": "r", "agent": "A", "waiting": [1]}',
            "waiting.0: Input should be a dictionary",
        ),
        (
            '{"run_id": "r", "agent": "A", "waiting": [{"request": {}}]}',
            "waiting.0.request.id: Field required",
        ),
        ('{"run_id": "r", "agent": "A", "decisions": [{}]}', "decisions.0.run_id: Field required"),
        ('{"run_id": "r", "agent": "A", "snapshot": {"phase": 5}}', "not a RunState"),
        (f'{{"schema_version": {SCHEMA_VERSION + 1}}}', "newer version"),
    ],
)
async def test_what_is_no_state_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UserError, match=f"not the JSON of a RunState.*{problem}"):
        await RunState.from_string("A", text)


def test_an_annotation_that_is_evaluated_may_say_of_which_context_a_state_is() -> None:
    def keep(one: RunState[int], both: RunState[int, Agent[int]] | None = None) -> None: ...

    one, both = (keep.__annotations__[name] for name in ("one", "both"))
    assert get_args(one) == (int,)
    assert get_args(get_args(both)[0]) == (int, Agent[int])
