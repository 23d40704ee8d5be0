"""What people do in a run: what is sent for it, and what the receipts say."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.client.handle import RunHandle, SentMessage
from outlast.client.people.actions import (
    DecisionReceipt,
    decision_of,
    outcome_of,
    person_of,
    update_id,
)
from outlast.client.results.interruptions import Interruption
from outlast.loop.approvals import ApprovalRequest, Decision, Person
from outlast.loop.items import Message
from outlast.loop.state import Answer, LoopState, Question
from outlast.loop.values import Failure
from tests.unit.client.recorded import FakeClient, Recording

ANN = Person(subject="ann", display="Ann B.", groups=("billing",), method="token", proof="p")
REQUEST = ApprovalRequest(
    id="a1", call_id="c1", name="refund", agent="Billing", arguments="{}", args_digest="seen",
    requested_at_ms=1_000,
)  # fmt: skip
DECIDED = {"request_id": "a1", "status": "pending", "by": None, "votes": 1, "votes_needed": 2}
LONG = "x" * 10_000_000
HELD = {"status": "held", "held_by": "ann", "agent": "Billing"}


def handle_on(client: FakeClient) -> RunHandle:
    return RunHandle(cast("Client", client), "support-42")


def sent(client: FakeClient) -> tuple[str, dict[str, Any], str]:
    """Return the newest update: its name, its payload and its id."""
    kind, name, payload, update = client.calls[-1]
    assert kind == "update"
    return name, payload, update


# --- Decisions --------------------------------------------------------------------------------


async def test_a_receipt_says_how_many_people_still_have_to_agree() -> None:
    receipt = await handle_on(FakeClient(answer=DECIDED)).approve("a1", by="ann")
    assert receipt == DecisionReceipt(
        run_id="support-42", request_id="a1", status="pending", votes=1, votes_needed=2
    )


async def test_a_person_is_sent_with_groups_and_proof() -> None:
    client = FakeClient(answer=DECIDED)
    await handle_on(client).approve("a1", by=ANN)
    assert sent(client)[1] == {
        "request_id": "a1",
        "type": "approve",
        "by": "ann",
        "display": "Ann B.",
        "groups": ["billing"],
        "method": "token",
        "proof": "p",
        "channel": "client",
    }


async def test_each_action_is_signed_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, str]] = []

    async def sign(_client: Any, record: Any, run_id: str, *, action: str) -> Any:
        made.append((run_id, action))
        return replace(record, proof=f"signed {action}")

    monkeypatch.setattr("outlast.client.people.actions.sign", sign)
    client = FakeClient(answer=DECIDED | HELD)
    handle = handle_on(client)
    for action in (handle.approve("a1", by="ann"), handle.hold(by="ann")):
        await action
        assert sent(client)[1]["proof"] == f"signed {made[-1][1]}"
    assert made == [("support-42", "decide"), ("support-42", "hold")]


async def test_with_the_request_itself_a_decision_counts_for_what_was_seen() -> None:
    client = FakeClient(answer=DECIDED)
    handle = handle_on(client)
    await handle.approve(REQUEST)
    assert sent(client)[1]["args_digest"] == "seen"
    await handle.reject(Interruption(REQUEST, None, {}))
    assert sent(client)[1]["args_digest"] == "seen"
    await handle.reject(REQUEST, args_digest="other")
    assert sent(client)[1]["args_digest"] == "other"


async def test_a_request_of_a_nested_run_goes_there_without_a_look() -> None:
    client, nested = FakeClient(), FakeClient(answer=DECIDED)
    client.nested["support-42/ask-3"] = nested
    request = replace(REQUEST, id="e3.a1", run_id="support-42/ask-3")
    receipt = await handle_on(client).approve(request)
    assert (receipt.run_id, client.calls) == ("support-42/ask-3", [])
    assert sent(nested)[1]["request_id"] == "e3.a1"


async def test_an_edit_says_why() -> None:
    client = FakeClient(answer=DECIDED)
    await handle_on(client).edit("a1", {"euros": 5}, message="One is not ours.")
    assert sent(client)[1]["message"] == "One is not ours."


async def test_an_edit_has_all_arguments_and_an_answer_has_its_response() -> None:
    client = FakeClient(answer=DECIDED)
    await handle_on(client).edit("a1", {"amount": 5}, by="ann")
    assert sent(client)[1]["edited_arguments"] == {"amount": 5}
    assert sent(client)[1]["type"] == "edit"
    await handle_on(client).respond("a1", "Repaired.", by="ann")
    assert sent(client)[1]["response"] == "Repaired."
    assert sent(client)[1]["type"] == "respond"


@pytest.mark.parametrize("arguments", [[1], "x", {"at": datetime(2026, 1, 1, tzinfo=UTC)}])
async def test_an_edit_that_is_no_json_object_is_refused_here(arguments: Any) -> None:
    client = FakeClient(answer=DECIDED)
    with pytest.raises(UserError, match=r"must be a dict with all|must be plain JSON"):
        await handle_on(client).edit("a1", arguments)
    assert client.calls == []


@pytest.mark.parametrize("response", [{1, 2}, float("nan")])
async def test_a_response_that_is_no_json_is_refused_here(response: Any) -> None:
    with pytest.raises(UserError, match="must be plain JSON"):
        await handle_on(FakeClient(answer=DECIDED)).respond("a1", response)


@pytest.mark.parametrize("by", ["", " ", 5])
def test_who_decides_is_a_name_or_a_person(by: Any) -> None:
    with pytest.raises(UserError, match="by= must be a name or a Person"):
        person_of(by)
    assert person_of(None) == Person()
    assert person_of("ann") == Person(subject="ann")


@pytest.mark.parametrize("request_id", ["", None, 7])
def test_a_request_is_named_by_its_id(request_id: Any) -> None:
    with pytest.raises(UserError, match="named by its id"):
        decision_of(request_id, "approve")


def test_a_repeated_decision_is_the_same_decision_and_another_one_is_not() -> None:
    first = Decision(request_id="a1", type="approve", by="ann", proof="p1")
    assert update_id(replace(first, proof="p2", method="token", channel="cli")) == update_id(first)
    others = [
        replace(first, by="bob"),
        replace(first, type="reject"),
        replace(first, type="edit", edited_arguments={"a": 1}),
        replace(first, type="edit", edited_arguments={"a": 2}),
        replace(first, args_digest="d"),
        replace(first, message="m"),
        replace(first, request_id="a2"),
        replace(first, idempotency_key="k"),
    ]
    assert len({update_id(one) for one in [first, *others]}) == len(others) + 1
    keyed = replace(first, idempotency_key="k")
    assert update_id(replace(keyed, message="other")) == update_id(keyed)


# --- Claims -----------------------------------------------------------------------------------


async def test_a_claim_says_until_when() -> None:
    taken = {"request_id": "a1", "status": "pending", "claimed_by": "ann", "until_ms": 60_000}
    client = FakeClient(answer=taken)
    receipt = await handle_on(client).claim("a1", by=ANN, minutes=timedelta(minutes=5), force=True)
    assert (receipt.by, receipt.until) == ("ann", datetime(1970, 1, 1, 0, 1, tzinfo=UTC))
    name, payload, _ = sent(client)
    assert name == "claim"
    assert payload == {
        "request_id": "a1",
        "minutes": 5,
        "force": True,
        "by": "ann",
        "display": "Ann B.",
        "groups": ["billing"],
        "method": "token",
        "proof": "p",
    }


async def test_a_claim_can_be_given_back() -> None:
    free = {"request_id": "a1", "status": "pending", "claimed_by": None, "until_ms": None}
    client = FakeClient(answer=free)
    receipt = await handle_on(client).unclaim("a1", by="ann")
    assert (receipt.by, receipt.until) == (None, None)
    assert sent(client)[1] == {"request_id": "a1", "minutes": 0, "by": "ann"}


@pytest.mark.parametrize("minutes", [0, -1, 1441, True, "5", timedelta(0), float("nan")])
async def test_a_claim_lasts_up_to_a_day(minutes: Any) -> None:
    with pytest.raises(UserError, match="A claim lasts up to 1440 minutes"):
        await handle_on(FakeClient()).claim("a1", by="ann", minutes=minutes)


# --- Takeovers --------------------------------------------------------------------------------


async def test_a_person_takes_the_conversation_speaks_and_gives_it_back() -> None:
    client = FakeClient(answer=HELD)
    handle = handle_on(client)
    receipt = await handle.hold(by="ann", mode="after_turn")
    assert (receipt.status, receipt.by, receipt.agent) == ("held", "ann", "Billing")
    assert sent(client)[:2] == ("hold", {"by": "ann", "mode": "after_turn"})
    await handle.say("Hello.", by="ann", message_id="p1")
    assert sent(client) == ("say", {"by": "ann", "text": "Hello.", "message_id": "p1"}, "p1")
    await handle.hand_over(by="ann", to="bob")
    assert sent(client)[:2] == ("hold", {"by": "ann", "to": "bob"})
    await handle.hold(by="bob", force=True)
    assert sent(client)[:2] == ("hold", {"by": "bob", "force": True})
    with pytest.raises(UserError, match=r"hand_over\(to=...\) must name the colleague"):
        await handle.hand_over(by="ann", to=None)
    await handle.release(by="ann", note="Be kind.", to=Agent[Any](name="Triage"))
    assert sent(client)[:2] == ("release", {"by": "ann", "note": "Be kind.", "to": "Triage"})


async def test_what_cannot_be_meant_is_refused_before_it_is_sent() -> None:
    client = FakeClient(answer=HELD)
    handle = handle_on(client)
    with pytest.raises(UserError, match=r"hold\(mode=...\) must be 'immediate' or 'after_turn'"):
        await handle.hold(by="ann", mode=cast("Any", "now"))
    with pytest.raises(UserError, match="must be a text that says something"):
        await handle.say(" ", by="ann")
    with pytest.raises(UserError, match=r"release\(to=...\) must be an agent or its name"):
        await handle.release(by="ann", to=cast("Any", 5))
    with pytest.raises(
        UserError, match=r"send\(mode=...\) must be 'queue', 'steer' or 'interrupt'"
    ):
        await handle.send("x", mode=cast("Any", "now"))
    assert client.calls == []


# --- Messages ---------------------------------------------------------------------------------


SENDS: dict[str, Callable[[RunHandle], Awaitable[Any]]] = {
    "reject": lambda handle: handle.reject("a1", message=LONG),
    "edit": lambda handle: handle.edit("a1", {"note": LONG}),
    "respond": lambda handle: handle.respond("a1", LONG),
    "say": lambda handle: handle.say(LONG, by="ann"),
    "release": lambda handle: handle.release(by="ann", note=LONG),
}


@pytest.mark.parametrize("send", SENDS.values(), ids=SENDS)
async def test_ten_megabytes_are_refused_before_they_are_sent(send: Any) -> None:
    client = FakeClient(answer=DECIDED)
    with pytest.raises(UserError, match=r"The payload has 10,000,.* bytes, of at most"):
        await send(handle_on(client))
    assert client.calls == []


async def test_a_message_says_when_it_is_taken() -> None:
    client = FakeClient(Recording().events)
    await handle_on(client).send("More", message_id="m2", mode="interrupt")
    assert sent(client)[1] == {"input": "More", "message_id": "m2", "mode": "interrupt"}


async def test_a_message_is_withdrawn_by_its_id() -> None:
    client = FakeClient(answer={"status": "running", "turns": 1})
    receipt = await SentMessage("m2", handle_on(client)).withdraw()
    assert (receipt.message_id, receipt.status) == ("m2", "withdrawn")
    assert sent(client) == ("withdraw", {"message_id": "m2"}, "withdraw-m2")


FAILED = Failure(code="model_call_failed", message="No key.")


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (LoopState(phase="thinking", inbox=(Message("m2", ()),)), "waiting"),
        (LoopState(phase="thinking", question=Question(answering=("m2",))), "taken"),
        (LoopState(phase="idle", answers=(Answer(("m2",), 1, "A"),)), "answered"),
        (LoopState(phase="idle", answers=(Answer(("m2",), None, "A", FAILED),)), "failed"),
        (LoopState(phase="idle"), "withdrawn"),
        (LoopState(phase="closed", inbox=(Message("m2", ()),)), "unanswered"),
    ],
)
def test_a_receipt_says_what_became_of_a_message(state: LoopState, status: str) -> None:
    assert outcome_of(state, "m2").status == status


async def test_the_answer_to_a_withdrawn_message_is_not_awaited() -> None:
    one = Recording()
    one.asked(keep_open=True)
    one.prepared()
    queued = {"input": "More", "message_id": "m2", "mode": "queue"}
    one.update("send", queued, before=one.last)
    one.task()
    one.update("withdraw", {"message_id": "m2"}, before=one.last)
    one.task()
    message = SentMessage("m2", handle_on(FakeClient(one.events)))
    assert (await message.outcome()).status == "withdrawn"
    with pytest.raises(UserError, match="'m2' was withdrawn, so nobody answers it"):
        await message.answer()
