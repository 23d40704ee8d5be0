"""Models that use the ids of their calls again: each wire shows each call apart, with its request."""

import asyncio
import random
from dataclasses import replace
from typing import Any

from outlast.client.identity import person
from outlast.loop.approvals import ApprovalRequest, ApprovalTerms
from outlast.serve.access import Staff
from outlast.serve.wires.ag_ui_view import Called, Returned, ids_of_calls, view_of_team
from outlast.serve.wires.call_ids import CallIds
from outlast.serve.wires.steps import GoesOn
from outlast.views.run import snapshot_of
from tests.laws.driver import Play, gated, said, tool
from tests.unit.serve import test_response_laws, test_vercel_laws
from tests.unit.serve.random_streams import RandomStreams
from tests.unit.serve.test_vercel_laws import ANN, message_of

OTTO = Staff(person("otto", groups=["g"]), frozenset({"operator"}))
"""Sees calls, and decides nothing: his answers do not end where somebody has to decide."""


def request_of(call_id: str, name: str = "pay", **fields: Any) -> ApprovalRequest:
    made = ApprovalRequest(
        id="a1",
        call_id=call_id,
        name=name,
        agent="A",
        arguments="{}",
        args_digest="d",
        requested_at_ms=1,
    )
    return replace(made, **fields)


# --- The rules -----------------------------------------------------------------------------------


def test_a_call_keeps_its_id_and_the_next_one_with_it_gets_another() -> None:
    ids = CallIds()
    assert ids.called("c", "pay", 1) == "c"
    assert ids.answered("c") == "c"
    assert ids.called("c", "pay", 2) == "c.2"
    assert ids.answered("c") == "c.2"
    assert ids.called("c.2", "pay", 3) == "c.2.2", "a model cannot take the id of another call"


def test_outputs_belong_to_the_calls_of_one_reply_in_their_order() -> None:
    ids = CallIds()
    assert [ids.called("c", name, 1) for name in ("pay", "pay", "look")] == ["c", "c.2", "c.3"]
    assert [ids.answered("c") for _ in range(3)] == ["c", "c.2", "c.3"]
    assert ids.answered("c") == "c", "an output without a call"


def test_a_call_that_a_failed_question_left_gets_no_output_of_a_later_one() -> None:
    ids = CallIds()
    ids.called("c", "pay", 1)
    assert ids.called("c", "pay", 2) == ids.answered("c") == "c.2"


def test_a_request_is_about_the_call_of_its_tool_that_has_no_output() -> None:
    ids = CallIds()
    ids.called("c", "pay", 1)
    ids.answered("c")
    ids.called("c", "look", 2)
    assert ids.called("c", "pay", 2) == "c.3"
    assert ids.asked(request_of("c")) == "c.3"
    assert ids.asked(request_of("c", status="rejected")) == "c.3", "it stays with its call"
    assert ids.answered("c") == "c.2"


def test_the_output_of_a_call_that_waits_for_people_comes_later() -> None:
    ids = CallIds()
    ids.called("c", "pay", 1)
    ids.called("c", "pay", 1)
    ids.asked(request_of("c"))
    assert ids.answered("c") == "c.2"
    ids.asked(request_of("c", status="approved"))
    assert ids.answered("c") == "c"


def test_a_request_may_come_before_its_call() -> None:
    ids = CallIds()
    assert ids.asked(request_of("c")) == "c"
    assert ids.called("c", "pay", 1) == "c"


def test_requests_about_no_call_have_no_id_of_a_call() -> None:
    ids = CallIds()
    ids.called("c", "pay", 1)
    for other in ({"wait": "courier"}, {"kind": "worker"}, {"kind": "budget"}):
        assert ids.asked(request_of("c", **other)) == ""


def test_a_call_cannot_have_the_id_of_a_request_or_none() -> None:
    ids = CallIds()
    assert ids.called("a1", "look", 1) == "a1.2"
    assert ids.called("e3.a1", "look", 1) == "e3.a1.2"
    assert ids.called("", "look", 1) == "call"


# --- The wires -----------------------------------------------------------------------------------


def rejected_and_called_again() -> Play:
    """A refund is rejected; then the model calls again with the same id, and that runs."""
    play = Play.ready(keep_open=True)
    play.replies(gated("pay", "c0", '{"euros": 900}', terms=ApprovalTerms(redact=("iban",))))
    play.decided("a1", "reject", by="ann")
    play.replies(tool("pay", "c0", '{"euros": 9}'))
    play.returns("c0", "paid")
    play.replies(said("Done."))
    return play


def streams_of(play: Play) -> RandomStreams:
    return RandomStreams.of(play, random.Random(1))


def test_a_chat_has_both_calls_and_the_rejection_at_the_first() -> None:
    streams = streams_of(rejected_and_called_again())
    everything = GoesOn(0, 1_000)  # so that no request ends it
    chunks = asyncio.run(test_vercel_laws.read(streams.late, ANN, "start", goes_on=everything))
    first, second = (
        one for one in message_of(chunks, goes_on=True).shown[1:] if one["type"] == "tool"
    )
    assert (first["input"], first["state"]) == ({"euros": 900}, "denied")
    assert (second["input"], second["state"], second["output"]) == ({"euros": 9}, "output", "paid")
    assert first["id"] != second["id"]


def test_a_response_has_the_arguments_and_the_request_of_each_call() -> None:
    streams = streams_of(rejected_and_called_again())
    events = asyncio.run(test_response_laws.read(streams.late, OTTO, "start"))
    output: Any = events[-1]["response"]
    calls = [one for one in output["output"] if one["type"] == "mcp_call"]
    assert [one["arguments"] for one in calls] == ['{"euros": 900}', '{"euros": 9}']
    assert [one["approval_request_id"] is None for one in calls] == [False, True]


def test_an_ag_ui_client_has_both_calls_and_the_request_at_its_call() -> None:
    play = Play.ready(keep_open=True)
    play.replies(tool("pay", "c0"), gated("pay", "c0", '{"euros": 900}'))
    play.returns("c0", "paid")
    parts = view_of_team(snapshot_of(play.state)).parts
    assert [one.id for one in parts if isinstance(one, Called)] == ["c0", "c0.2"]
    _, ids = ids_of_calls(snapshot_of(play.state))
    [pending] = play.state.pending_approvals
    given = ids.asked(pending)
    assert given == "c0.2"
    play.decided("a1", by="ann")
    play.returns("c0", "refunded")
    results = [
        one for one in view_of_team(snapshot_of(play.state)).parts if isinstance(one, Returned)
    ]
    assert [(one.call_id, one.text) for one in results] == [("c0", "paid"), ("c0.2", "refunded")]
