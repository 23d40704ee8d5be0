"""Notices reach every notifier once, whatever fails in between."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from outlast.activities.attempt import Attempt
from outlast.activities.boundary import _report_progress
from outlast.activities.effects.notify_people import notify_people
from outlast.activities.errors import EffectError
from outlast.activities.heartbeats.heartbeats import Beat
from outlast.activities.worker_deps import WorkerDeps
from outlast.activities.worker_memory import WorkerMemory
from outlast.agents.agent import Agent
from outlast.agents.registry import Registry
from outlast.contract import policies
from outlast.contract.effects import EffectRequest
from outlast.loop.approvals import (
    ApprovalRequest,
    ApprovalTerms,
    Audience,
    Decision,
    EscalationStep,
    Vote,
)
from outlast.loop.notices import Notice, NoticeEvent, NoticeReceipt
from outlast.loop.values import Json
from outlast.ports.notifier import (
    Notification,
    Notifier,
    NotifierRejected,
    NotifierUnavailable,
    notification,
)
from outlast.testing import ScriptedModel

REFUND = ApprovalRequest(
    id="a1",
    call_id="c1",
    name="refund",
    agent="Billing",
    handoff_path=("Triage", "Billing"),
    arguments='{"card": "[redacted]", "order": "A-17"}',
    args_digest="d1",
    reason="over 100 €",
    terms=ApprovalTerms(
        risk="high",
        audience=Audience(subjects=("ann",), groups=("billing",)),
        quorum=2,
        allow=("approve", "reject"),
        escalations=(EscalationStep(after_ms=5, audience=Audience(groups=("leads", "billing"))),),
    ),
    requested_at_ms=1_000,
    expires_at_ms=9_000,
)
CREATED = Notice(event="created", request=REFUND, at_ms=1_000)
REMINDER = Notice(event="reminder", number=2, request=REFUND, at_ms=2_000)
LAST = policies.NOTIFY.attempts


class Recorder(Notifier):
    """A notifier that does what a test says for each call, and records what it delivered."""

    def __init__(self, name: str, *outcomes: Exception | float | None) -> None:
        self.name = name
        self._outcomes = list(outcomes)
        self.delivered: list[str] = []
        self.attempts: list[int] = []
        self.called = asyncio.Event()

    async def notify(self, notice: Notification) -> None:
        outcome = self._outcomes.pop(0) if self._outcomes else None
        self.attempts.append(notice.attempt)
        self.called.set()
        if isinstance(outcome, Exception):
            raise outcome
        if outcome is not None:
            await asyncio.sleep(outcome)
        self.delivered.append(f"{notice.event} {notice.number}")


@dataclass(frozen=True, kw_only=True)
class Effect:
    run_id: str = "support-42"
    notices: tuple[Notice, ...] = (CREATED, REMINDER)


async def deliver(
    *notifiers: Notifier,
    number: int = 1,
    progress: Json = None,
    effect: Effect | None = None,
    memory: WorkerMemory | None = None,
) -> Json:
    """Make one attempt, and return the progress that the next attempt gets."""
    worker = WorkerDeps(
        registry=Registry([Agent[Any](name="A")]),
        models=ScriptedModel(),
        notifiers=notifiers,
        memory=memory or WorkerMemory(),
    )
    reported: list[Json] = [progress]
    attempt = Attempt(number=number, progress=progress, report=reported.append)
    try:
        receipt = await notify_people(worker, EffectRequest(effect=effect or Effect()), attempt)  # pyright: ignore[reportArgumentType]  of this effect
        receipts.append(receipt)
    except EffectError as error:
        deliver_errors.append(error)
    return reported[-1]


deliver_errors: list[EffectError] = []
receipts: list[NoticeReceipt] = []


@pytest.fixture(autouse=True)
def no_errors_from_before() -> None:
    deliver_errors.clear()


async def test_every_notifier_gets_every_notice_in_order() -> None:
    chat, mail = Recorder("chat"), Recorder("mail")
    await deliver(chat, mail)
    assert chat.delivered == mail.delivered == ["created 1", "reminder 2"]
    assert deliver_errors == []


async def test_a_worker_without_notifiers_does_nothing() -> None:
    await deliver()
    assert deliver_errors == []


async def test_a_notifier_only_gets_the_events_it_wants() -> None:
    mail = Recorder("mail")
    mail.events = frozenset({"reminder"})
    assert await deliver(mail) == {"done": {"mail": 2}}
    assert mail.delivered == ["reminder 2"]
    assert [one.event for one in receipts[-1].delivered] == ["reminder"]


async def test_a_retry_does_not_repeat_what_was_delivered() -> None:
    chat, mail = Recorder("chat"), Recorder("mail", None, ConnectionError("mail is down"))
    progress = await deliver(chat, mail)
    assert progress == {"done": {"chat": 2, "mail": 1}}
    [error] = deliver_errors
    assert error.retryable
    assert error.message == (
        "Notification support-42/a1/reminder/2@1000 was not delivered by mail: mail is down"
    )
    await deliver(chat, mail, number=2, progress=progress)
    assert chat.delivered == mail.delivered == ["created 1", "reminder 2"]
    assert mail.attempts == [1, 1, 2]
    assert len(deliver_errors) == 1


async def test_a_hanging_notifier_does_not_hold_up_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Notifier, "timeout", timedelta(seconds=0.05))
    chat, slow = Recorder("chat"), Recorder("slow", 30)
    async with asyncio.timeout(5):
        assert await deliver(slow, chat) == {"done": {"chat": 2}}
    assert "was not delivered by slow: no answer within 0.05 s" in deliver_errors[0].message


async def test_a_rejected_notification_is_not_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    chat = Recorder("chat", NotifierRejected("no such channel"))
    progress = await deliver(chat)
    assert deliver_errors == []
    assert chat.delivered == ["reminder 2"]
    assert "created/1@1000 was refused by chat: no such channel" in caplog.text
    (lost,) = receipts[-1].undelivered
    assert (lost.event, lost.request_id, lost.notifier) == ("created", "a1", "chat")
    assert lost.why.endswith("was refused by chat: no such channel")
    await deliver(chat, number=2, progress=progress)
    assert receipts[-1].undelivered == (lost,), "the attempts after it know of it"
    (taken,) = receipts[-1].delivered
    assert (taken.event, taken.request_id, taken.notifier) == ("reminder", "a1", "chat")


async def test_a_worker_without_notifiers_says_what_it_did_not_deliver() -> None:
    await deliver()
    assert [one.event for one in receipts[-1].undelivered] == ["created", "reminder"]


async def test_what_is_being_delivered_is_not_delivered_a_second_time() -> None:
    """The end of a run stops the attempt that delivers its notices, and another one begins."""
    chat, memory = Recorder("chat", 0.2), WorkerMemory()
    first = asyncio.create_task(deliver(chat, memory=memory))
    async with asyncio.timeout(10):
        await chat.called.wait()
    first.cancel()
    await deliver(chat, memory=memory)
    assert chat.delivered == ["created 1", "reminder 2"]
    await deliver(chat, memory=memory)
    assert len(chat.attempts) == 2


async def test_a_delivery_that_failed_is_made_again() -> None:
    chat, memory = Recorder("chat", RuntimeError("down")), WorkerMemory()
    await deliver(chat, number=2, memory=memory)
    await deliver(chat, number=3, memory=memory)
    assert (chat.attempts, chat.delivered) == ([2, 3, 3], ["created 1", "reminder 2"])


async def test_the_last_attempt_logs_what_it_cannot_deliver_and_never_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    chat = Recorder("chat", RuntimeError())
    with caplog.at_level(logging.WARNING):
        await deliver(chat, number=LAST)
    assert deliver_errors == []
    assert chat.delivered == ["reminder 2"]
    assert "by chat: RuntimeError; this was the last attempt" in caplog.text


@pytest.mark.parametrize(
    ("wanted", "waits"),
    [
        (timedelta(seconds=90), timedelta(seconds=90)),
        (timedelta(hours=5), policies.LONGEST_RETRY_AFTER),
        (timedelta(seconds=-5), timedelta()),
        (None, None),
    ],
)
async def test_a_receiver_may_say_when_to_try_again(
    wanted: timedelta | None, waits: timedelta | None
) -> None:
    await deliver(Recorder("chat", NotifierUnavailable("busy", retry_after=wanted)))
    assert deliver_errors[0].retry_after == waits


@pytest.mark.parametrize("progress", [None, 5, "x", [], {}, {"done": 3}, {"done": {"chat": "x"}}])
async def test_unreadable_progress_counts_as_none(progress: Json) -> None:
    chat = Recorder("chat")
    await deliver(chat, number=2, progress=progress)
    assert chat.delivered == ["created 1", "reminder 2"]


async def test_progress_travels_with_the_heartbeats_of_an_attempt() -> None:
    sent: list[object] = []
    environment = ActivityEnvironment()
    environment.on_heartbeat = lambda *details: sent.append(details)

    async def work() -> None:
        beat = Beat("notify", asyncio.get_running_loop(), lambda: None)
        _report_progress(beat, {"done": {"chat": 1}})
        assert beat.send is not None
        beat.send()  # what the thread of heartbeats does later
        await asyncio.sleep(0)

    await environment.run(work)
    assert sent == [({"done": {"chat": 1}},)] * 2


def test_a_notification_shows_the_reviewers_view_of_a_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OUTLAST_UI_URL", "https://temporal.example/")
    vote = Vote(
        decision=Decision(request_id="a1", type="approve", by="ann"), at_ms=3, args_digest="d1"
    )
    void = replace(vote, args_digest="d0")
    request = replace(REFUND, votes=(void, vote), escalated=1)
    made = notification(replace(CREATED, request=request), "run / 1", namespace="desk")
    assert made.id == "run / 1/a1/created/1@1000"
    assert (made.subjects, made.groups) == (("ann",), ("billing", "leads"))
    assert (made.votes, made.quorum, made.risk, made.due_at_ms) == (1, 2, "high", 9_000)
    assert made.arguments == '{"card": "[redacted]", "order": "A-17"}'
    assert made.url == "https://temporal.example/namespaces/desk/workflows/run%20%2F%201"
    seen = f"--digest {request.digest[:16]}"
    assert made.commands == tuple(
        f"outlast {verb} 'run / 1' a1 {seen}" for verb in ("approve", "reject")
    )
    assert "attempt" not in made.as_json()
    assert made.as_json()["handoff_path"] == ("Triage", "Billing")


def test_a_settled_request_has_no_commands_and_no_link_without_an_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OUTLAST_UI_URL", raising=False)
    decision = Decision(request_id="a1", type="reject", by="ann", message="Too much.")
    request = replace(REFUND, status="rejected", decision=decision)
    made = notification(Notice(event="decided", request=request, by="ann", at_ms=5), "r")
    assert (made.commands, made.url) == ((), None)
    assert (made.by, made.message, made.status) == ("ann", "Too much.", "rejected")


@pytest.mark.parametrize("event", ["held", "released"])
def test_an_event_of_the_run_needs_no_request(event: NoticeEvent) -> None:
    made = notification(Notice(event=event, number=2, by="ann", at_ms=5), "r")
    assert (made.id, made.request_id, made.by) == (f"r/{event}/2@5", "", "ann")


def test_ids_differ_for_everything_that_is_not_a_retry() -> None:
    changes: list[Callable[[], Notification]] = [
        lambda: notification(CREATED, "r"),
        lambda: notification(CREATED, "r2"),
        lambda: notification(REMINDER, "r"),
        lambda: notification(replace(REMINDER, number=3), "r"),
        lambda: notification(replace(CREATED, request=replace(REFUND, id="a2")), "r"),
        lambda: notification(replace(CREATED, request=replace(REFUND, requested_at_ms=5)), "r"),
    ]
    assert len({one().id for one in changes}) == len(changes)
