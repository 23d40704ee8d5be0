"""Notifications on a server: retries, and answers that reach real runs."""

import asyncio
import json
import secrets
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from outlast.activities.boundary import _report_progress, _Scope
from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.errors import RunCancelled, RunNotFound
from outlast.agents.tools.function_tool import function_tool
from outlast.client.audit import audit_run
from outlast.client.handle import RunHandle
from outlast.contract import identity, names
from outlast.loop.approvals import ApprovalRequest, Decision
from outlast.loop.notices import Notice
from outlast.notifications import (
    Digest,
    RunRequests,
    SlackApp,
    SlackNotifier,
    Webhook,
)
from outlast.notifications.slack_blocks import APPROVE, REJECT
from outlast.ports.notifier import (
    Notification,
    Notifier,
    NotifierRejected,
    NotifierUnavailable,
    notification,
)
from outlast.testing import ScriptedModel, call
from outlast.views.run import loop_state
from tests.unit.notifications.receiver import receiving
from tests.unit.notifications.slack_server import (
    BOT,
    CHANNEL,
    SIGNING_SECRET,
    Slack,
    click,
    signed_request,
    slack_server,
)
from tests.workflow.desk import Desk, waits_for
from tests.workflow.people import clerk
from tests.workflow.replies import outputs
from tests.workflow.test_long_runs import true_in_the_end

# --- Progress ------------------------------------------------------------------------------------


@activity.defn
async def deliver(beats: int) -> list[Any]:
    """Fail two attempts after a heartbeat each; return the details that the third one gets."""
    info = activity.info()
    if info.attempt == 3:
        return list(info.heartbeat_details)
    with _Scope(info, {}, None, 0.0) as scope:
        _report_progress(scope.beat, {"done": {"chat": info.attempt}})
        for _ in range(beats):
            assert scope.beat.send is not None
            scope.beat.send()  # as the thread of heartbeats does
            await asyncio.sleep(0.05)
        raise ApplicationError("not delivered")


@workflow.defn(sandboxed=False)
class Delivery:
    """Calls `deliver` with retries."""

    @workflow.run
    async def run(self, beats: int) -> list[Any]:
        return await workflow.execute_activity(
            deliver,
            beats,
            start_to_close_timeout=timedelta(seconds=20),
            heartbeat_timeout=timedelta(seconds=5),
            retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=10)),
        )


@pytest.mark.parametrize("beats", [3])
async def test_the_next_attempt_gets_the_progress_of_the_last_one(
    client: Client, beats: int
) -> None:
    queue = f"notify-{secrets.token_hex(6)}"
    async with Worker(client, task_queue=queue, workflows=[Delivery], activities=[deliver]):
        got = await client.execute_workflow(
            Delivery.run, beats, id=queue, task_queue=queue, run_timeout=timedelta(seconds=30)
        )
    assert got == [{"done": {"chat": 2}}]


# --- Answers -------------------------------------------------------------------------------------


@function_tool(needs_approval=True)
async def refund(order: str) -> str:
    """Pay money back."""
    return f"refunded {order}"


async def _pay(order: str) -> str:
    return f"paid {order}"


async def waiting(desk: Desk, count: int = 1) -> tuple[RunHandle, ScriptedModel]:
    """Start a run that waits for approvals."""
    calls = [call("refund", f"c{at}", order=f"A-{at}") for at in range(1, count + 1)]
    model = ScriptedModel(calls, "Done.")
    agent = Agent[Any](name="Clerk", tools=[refund])
    await desk.open(agent, model=model)
    handle = await desk.start(agent)
    await desk.until(handle, waits_for(count))
    return handle, model


def app_of(slack: Slack, desk: Desk) -> SlackApp:
    return SlackApp(
        RunRequests(desk.client),
        BOT,
        subject={"U1": "ann"},
        signing_secret=SIGNING_SECRET,
        api_url=slack.url,
    )


async def press(app: SlackApp, payload: dict[str, Any]) -> None:
    body, headers = signed_request(payload)
    status, _, _ = await app.handle("POST", "/", "", body, headers)
    assert status == 200
    await app.aclose()


@pytest.mark.smoke
async def test_clicks_in_slack_decide_the_calls_of_a_run(desk: Desk) -> None:
    handle, model = await waiting(desk, 2)
    requests = RunRequests(desk.client)
    async with slack_server() as slack:
        for name in ("a1", "a2"):
            request = await requests.find(handle.id, name)
            assert request is not None
            execution = await requests.execution(handle.id)
            await SlackNotifier(BOT, CHANNEL, api_url=slack.url).notify(
                notification(created(request), handle.id, execution=execution)
            )
        app = app_of(slack, desk)
        for message, action in zip(slack.messages, (APPROVE, REJECT), strict=True):
            value = next(
                one["value"]
                for one in message["blocks"][-1]["elements"]
                if one["action_id"] == action
            )
            await press(app, click(action, value))
        assert [one["text"] for one in slack.ephemeral] == [
            "Your decision (approve) has arrived.",
            "Your decision (reject) has arrived.",
        ]
        await desk.result(handle)
        last = slack.messages[-1]["blocks"][-1]["elements"][0]["value"]
        stale = json.dumps({**json.loads(last), "digest": "x"})
        await press(app, click(APPROVE, stale))
        assert slack.ephemeral[-1]["text"].startswith("Not decided: ")
    told = outputs(model.requests[1])
    assert told["c1"] == "refunded A-1"
    assert "refunded" not in told["c2"]
    decided = (await handle.state()).approvals
    assert [one.decision and one.decision.by for one in decided] == ["ann", "ann"]
    assert [one.decision and one.decision.method for one in decided] == ["slack", "slack"]


async def test_a_click_that_another_process_gets_again_is_no_second_vote(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ann withdraws her vote, and somebody sends her click once more, to another process."""
    monkeypatch.setenv(identity.KEY_VARIABLE, secrets.token_hex(32))
    tool = function_tool(_pay, needs_approval=ApprovalPolicy(quorum=2))
    agent = Agent[Any](name="Clerk", tools=[tool])
    await desk.open(agent, model=ScriptedModel([call("_pay", "c1", order="A-1")], "Done."))
    handle = await desk.start(agent)
    await desk.until(handle, waits_for(1))
    (request,) = await handle.approvals()
    requests = RunRequests(desk.client)
    value = json.dumps(
        {
            "run_id": handle.id,
            "execution": await requests.execution(handle.id),
            "request_id": request.id,
            "digest": request.digest,
        }
    )
    async with slack_server() as slack:
        body, headers = signed_request(click(APPROVE, value, trigger_id="13345224609.738474920"))
        for takes_back in (True, False):
            app = app_of(slack, desk)
            assert (await app.handle("POST", "/", "", body, headers))[0] == 200
            await app.aclose()
            if takes_back:
                back = Decision(request_id=request.id, type="withdraw", by="ann", seen=request.seen)
                await requests.decide(handle.id, back)
    (kept,) = (await handle.state()).approvals
    assert ([one.decision.type for one in kept.votes], kept.standing_votes) == (
        ["approve", "withdraw"],
        (),
    )
    await handle.cancel()


def created(request: ApprovalRequest) -> Notice:
    return Notice(event="created", request=request, at_ms=request.requested_at_ms)


async def test_decisions_are_signed_where_there_is_a_key(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = secrets.token_hex(32)
    monkeypatch.setenv(identity.KEY_VARIABLE, key)
    handle, _ = await waiting(desk)
    decision = Decision(request_id="a1", type="approve", by="ann", channel="slack")
    await RunRequests(desk.client).decide(handle.id, decision)
    await desk.result(handle)
    taken = (await handle.state()).approvals[0].decision
    assert taken is not None
    keys = identity.keys_from_environment({identity.KEY_VARIABLE: key})
    chain_id = (loop_state(await handle.state())).start.chain_id
    place = identity.Place(namespace=desk.client.namespace, chain_id=chain_id, run_id=handle.id)
    now_ms = time.time_ns() // 1_000_000
    assert identity.is_genuine(taken, place, keys, now_ms=now_ms)
    assert not identity.is_genuine(replace(taken, by="eve"), place, keys, now_ms=now_ms)


async def test_a_digest_lists_what_waits_at_the_server(desk: Desk) -> None:
    handle, _ = await waiting(desk, 2)
    requests = RunRequests(desk.client)

    async def mine() -> list[str]:
        return [one.id for run_id, one in await requests.pending() if run_id == handle.id]

    async with asyncio.timeout(30):
        while await mine() != ["a1", "a2"]:  # noqa: ASYNC110  visibility is late
            await asyncio.sleep(0.1)
    async with receiving() as receiver:
        webhook = Webhook(receiver.url, "a secret of the desk")
        sent = await Digest(webhook, requests, every=timedelta(hours=1)).send(1)
    assert sent is not None
    assert {one.request_id for one in sent.pending if one.run_id == handle.id} == {"a1", "a2"}
    assert len(receiver.bodies) == 1


async def test_a_request_of_no_run_is_an_error_and_of_a_run_is_none(desk: Desk) -> None:
    handle, _ = await waiting(desk)
    requests = RunRequests(desk.client)
    assert await requests.find(handle.id, "a9") is None
    with pytest.raises(RunNotFound):
        await requests.find("no-such-run", "a1")


# --- The end of a run ----------------------------------------------------------------------------


class Ear(Notifier):
    """Hears of everything, once somebody lets it."""

    name = "ear"

    def __init__(self, *, deaf: bool = False) -> None:
        self.heard: list[str] = []
        self.asked: list[str] = []
        self.refuses = False
        self._open = asyncio.Event()
        if not deaf:
            self._open.set()

    def listen(self) -> None:
        self._open.set()

    async def notify(self, notice: Notification) -> None:
        self.asked.append(notice.event)
        if self.refuses:
            raise NotifierRejected("nobody is here")
        await self._open.wait()
        self.heard.append(notice.event)


async def told(desk: Desk, ear: Ear, *script: Any) -> RunHandle:
    """Start a run that waits for an approval of which people have heard."""
    agent = Agent[Any](name="Clerk", tools=[refund])
    model = ScriptedModel([call("refund", "c1", order="A-1")], *(script or ("Done.",)))
    await desk.open(agent, model=model, notifiers=[ear])
    handle = await desk.start(agent)
    await desk.until(handle, waits_for(1))
    return handle


async def result_of_notices(desk: Desk, handle: RunHandle) -> Any:
    """Wait for the delivery of what the end of a run left."""
    execution = (await desk.workflow(handle).describe()).run_id
    return await desk.client.get_workflow_handle(names.notices_id(execution)).result()


async def assert_delivered(desk: Desk, handle: RunHandle) -> None:
    """A run's last notices were taken, none was lost, and the audit says so."""
    receipt = await result_of_notices(desk, handle)
    assert "undelivered" not in receipt
    taken = [(one["event"], one["notifier"]) for one in receipt["delivered"]]
    assert taken
    rows = (await audit_run(desk.client, handle.id)).records
    notified = [(one.note, one.channel) for one in rows if one.event == "notified"]
    assert set(taken) <= set(notified)


@pytest.mark.smoke
async def test_a_run_ends_before_people_have_heard_and_they_hear_of_its_end(desk: Desk) -> None:
    ear = Ear(deaf=True)
    handle = await told(desk, ear)
    await handle.approve("a1", by="ann")
    result = await asyncio.wait_for(handle.result(), 30)
    assert (result.final_output, ear.heard) == ("Done.", [])
    ear.listen()
    await assert_delivered(desk, handle)
    assert ear.heard == ["created", "decided"], "each once, although the run's end stopped them"


async def test_people_hear_that_the_end_of_a_run_cancels_their_request(desk: Desk) -> None:
    ear = Ear()
    handle = await told(desk, ear)
    await handle.cancel()
    with pytest.raises(RunCancelled):
        await handle.result()
    await assert_delivered(desk, handle)
    assert ear.heard == ["created", "cancelled"]


async def test_what_nobody_hears_after_the_end_is_recorded(desk: Desk) -> None:
    ear = Ear()
    handle = await told(desk, ear)
    await desk.until(handle, lambda one: not one.pending)
    ear.refuses = True
    await handle.cancel()
    with pytest.raises(RunCancelled):
        await handle.result()
    (lost,) = (await result_of_notices(desk, handle))["undelivered"]
    assert (lost["event"], lost["request_id"], lost["notifier"]) == ("cancelled", "a1", "ear")
    found = await handle.undelivered()
    assert [(one.event, one.why) for one in found] == [("cancelled", lost["why"])]
    rows = (await audit_run(desk.client, handle.id)).records
    assert [one.note for one in rows if one.event == "undelivered"] == [f"cancelled: {lost['why']}"]


async def test_what_nobody_hears_is_recorded_while_the_run_goes_on(desk: Desk) -> None:
    ear = Ear()
    ear.refuses = True
    handle = await told(desk, ear)
    state = await desk.until(handle, lambda one: one.undelivered != ())
    assert [one.event for one in state.undelivered] == ["created"]
    assert await handle.undelivered() == state.undelivered
    await handle.approve("a1", by="ann")
    await desk.result(handle)


# --- Mentions --------------------------------------------------------------------------------------


class Mentions(Notifier):
    """Keeps what it hears of mentions, and fails at first."""

    name = "mentions"
    events = frozenset({"mentioned"})

    def __init__(self) -> None:
        self.heard: list[Notification] = []

    async def notify(self, notice: Notification) -> None:
        if notice.attempt == 1:
            raise NotifierUnavailable("the receiver is down")
        self.heard.append(notice)


async def test_a_mention_is_told_once_with_what_policies_hide_left_out(desk: Desk) -> None:
    ear, policy = Mentions(), ApprovalPolicy(redact=["order"], unverified="allow")
    agent, hidden = clerk(policy), call("refund", "c1", order="ORDER-77231-XY", euros=5)
    await desk.open(agent, model=ScriptedModel([hidden], "Done."), notifiers=[ear])
    handle = await desk.start(agent, keep_open=True)
    await desk.until(handle, waits_for(1))
    await handle.comment("It is ORDER-77231-XY, @Cid, @ann!", by="ann", comment_id="c1")
    await handle.comment("It is ORDER-77231-XY, @Cid, @ann!", by="ann", comment_id="c1")
    await handle.comment("Nobody is called here: ann@example.com", by="ann")

    async def is_heard() -> bool:
        return len(ear.heard) > 0

    await true_in_the_end(is_heard)
    await handle.comment("@cid, again", by="bob")

    async def is_heard_again() -> bool:
        return len(ear.heard) > 1

    await true_in_the_end(is_heard_again)
    assert [(one.subjects, one.by) for one in ear.heard] == [(("cid",), "ann"), (("cid",), "bob")]
    assert "@Cid" in (ear.heard[0].message or "")
    assert "77231" not in (ear.heard[0].message or "")
    assert len({one.id for one in ear.heard}) == 2
    rows = (await audit_run(desk.client, handle.id)).records
    assert [one.note for one in rows if one.event == "notified"] == ["mentioned", "mentioned"]
    await handle.cancel()
