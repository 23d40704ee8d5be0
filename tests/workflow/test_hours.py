"""Times that count the hours of a calendar, on real workers that come and go with their calendars."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.approvals.budget import Budget
from outlast.agents.approvals.policy import ApprovalPolicy, Escalation
from outlast.agents.calendars import Calendar
from outlast.agents.config.reply_times import ReplyTimes
from outlast.agents.config.run_config import RunConfig
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import UserError
from outlast.agents.tools.function_tool import FunctionTool, function_tool
from outlast.client.audit import audit_run
from outlast.client.runs import RunFilter, list_runs
from outlast.edges.clock import now, time_of
from outlast.loop.approvals import ApprovalRequest, Person
from outlast.ports.notifier import Notification, Notifier
from outlast.testing import ScriptedModel, call
from outlast.views.customer import customer_view
from tests.workflow.desk import Desk, waits_for
from tests.workflow.test_long_runs import true_in_the_end

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
HOUR = timedelta(hours=1)


def day_in(days: int) -> str:
    return DAYS[(now() + timedelta(days=days)).weekday()]


def open_in(days: int, name: str = "support-hours") -> Calendar:
    """A calendar that is open for a day each week, which begins in some days."""
    return Calendar(name, zone="UTC", hours={day_in(days): "0:00-24:00"})


def refund(within: Any = "support-hours", **changes: Any) -> FunctionTool:
    policy = ApprovalPolicy(
        expires_in=2 * HOUR, remind_every=HOUR / 2, within=within, unverified="allow", **changes
    )

    @function_tool(needs_approval=policy)
    def refund() -> str:
        """Refund."""
        return "paid"

    return refund


def is_after(calendar: Calendar, at_ms: int | None, hours: float, request: ApprovalRequest) -> bool:
    """Whether a time is so many hours of a calendar after a request."""
    assert at_ms is not None
    due = calendar.after(time_of(request.counts_from_ms), hours * HOUR)
    return abs(time_of(at_ms) - due) < timedelta(minutes=2)


async def the_request(desk: Desk, handle: Any, is_so: Any) -> ApprovalRequest:
    """Wait until the only request is so."""
    await desk.until(handle, lambda state: len(state.approvals) == 1 and is_so(state.approvals[0]))
    return (await handle.state()).approvals[0]


async def test_a_request_expires_in_its_hours_also_after_a_takeover_of_days_without_them(
    desk: Desk,
) -> None:
    calendar = open_in(2)
    policy = {"audience": "support", "escalate": [Escalation(after=HOUR, to="leads")]}
    agent = Agent[Any](name="Clerk", tools=[refund(**policy)])
    model = ScriptedModel([call("refund", "c1")], "Done.")
    await desk.open(agent, model=model, calendars=[calendar])
    handle = await desk.start(agent, keep_open=True)
    await desk.until(handle, waits_for(1))
    (request,) = (await handle.state()).approvals
    assert is_after(calendar, request.expires_at_ms, 2, request)
    assert is_after(calendar, request.remind_at_ms, 0.5, request)
    step = request.terms.escalations[0]
    assert is_after(calendar, request.requested_at_ms + step.after_ms, 1, request)
    assert request.terms.hours is not None
    counted_from = request.terms.hours.from_ms
    await handle.hold(by="ann")
    await handle.release(by="ann")
    state = await handle.state()
    assert state.approvals[0].terms.hours is not None
    assert state.approvals[0].terms.hours.from_ms == counted_from, "a short pause needs no count"
    await handle.approve("a1", by=Person(subject="ann", groups=("support",)))
    await desk.until_status(handle, "idle")


async def test_a_changed_calendar_counts_for_open_requests_when_somebody_says_so(
    desk: Desk, tmp_path: Path
) -> None:
    file = tmp_path / "approvals.toml"

    def write(days: int) -> None:
        table = f'zone = "UTC"\nhours = {{ {day_in(days)} = "0:00-24:00" }}\n'
        file.write_text(f'[calendar.support-hours]\n{table}[tool.refund]\nexpires_in = "3h"\n')

    agent = Agent[Any](name="Clerk", tools=[refund()])
    model = ScriptedModel([call("refund", "c1")], "Done.")
    write(2)
    first = await desk.open(agent, model=model, approvals=file)
    handle = await desk.start(agent)
    await desk.until(handle, waits_for(1))
    write(4)
    await desk.close(first)
    await desk.open(agent, model=model, approvals=file)
    (request,) = (await handle.state()).approvals
    assert is_after(open_in(2), request.expires_at_ms, 3, request), "it keeps its times"
    await handle.recount(by="ann")
    newer = open_in(4)

    def is_counted_anew(one: ApprovalRequest) -> bool:
        return is_after(newer, one.expires_at_ms, 3, one)

    request = await the_request(desk, handle, is_counted_anew)
    assert is_after(newer, request.remind_at_ms, 0.5, request)
    await handle.recount(by="ann")
    rows = [one for one in (await audit_run(desk.client, handle.id)).records if one.event == "case"]
    assert [(one.by, one.note) for one in rows] == [("ann", "times counted anew")] * 2
    await handle.approve("a1", by="ann")
    await handle.result()
    with pytest.raises(UserError, match="has ended"):
        await handle.recount(by="ann")


async def test_a_request_whose_calendar_no_worker_has_waits_for_one_and_can_be_decided(
    desk: Desk,
) -> None:
    """The terms of a budget are made where the run starts; the worker lacks their calendar."""
    calendar = open_in(3, "budget-hours")
    ask = ApprovalPolicy(expires_in=2 * HOUR, within=calendar, unverified="allow")
    agent = Agent[Any](name="Clerk", tools=[function_tool(_look)])
    model = ScriptedModel([call("_look", "c1")], [call("_look", "c2")], "Done.")
    first = await desk.open(agent, model=model)
    config = RunConfig(budgets=[Budget(model_calls=1, ask=ask)])
    handle = await desk.start(agent, run_config=config)
    await desk.until(handle, waits_for(1))
    (request,) = (await handle.state()).approvals
    assert request.expires_at_ms is None, "nobody can say when"
    await desk.close(first)
    await desk.open(agent, model=model, calendars=[calendar])

    def is_counted(one: ApprovalRequest) -> bool:
        return one.expires_at_ms is not None and is_after(calendar, one.expires_at_ms, 2, one)

    await the_request(desk, handle, is_counted)
    await handle.approve("a1", by="ann")
    await desk.until(handle, lambda state: len(state.approvals) == 2)
    await handle.approve("a2", by="ann")
    assert (await handle.result()).final_output == "Done."


def _look() -> str:
    """Look."""
    return "seen"


async def test_a_wait_of_a_tool_ends_in_the_hours_of_the_workers_calendar(desk: Desk) -> None:
    calendar = open_in(2)

    @function_tool
    async def courier(ctx: ToolContext[Any]) -> str:
        """Wait for the courier."""
        wait = ctx.wait_for("courier", timeout=2 * HOUR, within="support-hours", every=HOUR)
        return str(await wait)

    agent = Agent[Any](name="Clerk", tools=[courier])
    model = ScriptedModel([call("courier", "c1")], "Done.")
    await desk.open(agent, model=model, calendars=[calendar])
    handle = await desk.start(agent)
    await desk.until_status(handle, "parked")
    (wait,) = await handle.pending_waits()
    assert wait.until is not None
    due = calendar.after(wait.since, 2 * HOUR)
    assert abs(wait.until - due) < timedelta(minutes=2)
    await handle.cancel()


async def test_a_conversation_is_snoozed_for_hours_of_a_calendar(desk: Desk) -> None:
    agent = Agent[Any](name="Clerk")
    await desk.open(agent, model=ScriptedModel("Hello."))
    handle = await desk.start(agent, keep_open=True)
    await desk.until_status(handle, "idle")
    calendar = open_in(2)
    receipt = await handle.snooze(3 * HOUR, by="ann", within=calendar)
    due = calendar.after(now(), 3 * HOUR)
    assert receipt.snoozed_until is not None
    assert abs(receipt.snoozed_until - due) < timedelta(minutes=2)


class Told(Notifier):
    """Keeps what people are told."""

    name = "told"

    def __init__(self) -> None:
        self.events: Any = frozenset({"reply_due", "reply_late"})
        self.heard: list[tuple[str, str | None]] = []

    async def notify(self, notice: Notification) -> None:
        self.heard.append((notice.event, notice.by))


async def test_a_customer_who_waits_too_long_is_heard_of_by_people(desk: Desk) -> None:
    agent, told = Agent[Any](name="Clerk"), Told()
    await desk.open(agent, model=ScriptedModel("Hello."), notifiers=[told])
    times = ReplyTimes(first=2, next=3600, warn=1)
    config = RunConfig(reply_times=times, takeover=ApprovalPolicy(unverified="allow"))
    handle = await desk.start(agent, keep_open=True, run_config=config)
    await desk.until_status(handle, "idle")
    await handle.hold(by="ann")
    await handle.send("Where is it?")
    found = RunFilter(case_due_before=now() + HOUR / 2, id_prefix=handle.id)

    async def is_listed() -> bool:
        return bool(await list_runs(desk.client, found))

    await true_in_the_end(is_listed)
    state = await desk.until(handle, lambda state: bool(state.case.reply and state.case.reply.late))
    await desk.until(handle, lambda state: len(told.heard) == 2)
    assert told.heard == [("reply_due", "ann"), ("reply_late", "ann")]
    await handle.say("It is on its way.", by="ann")
    state = await desk.until(handle, lambda state: state.case.reply is None)
    assert state.case.replied
    await handle.cancel()


async def test_a_reply_is_due_in_the_hours_of_the_workers_calendar_and_the_customer_reads_when(
    desk: Desk,
) -> None:
    calendar = open_in(2)
    agent = Agent[Any](name="Clerk")
    await desk.open(agent, model=ScriptedModel("Hello."), calendars=[calendar])
    times = ReplyTimes(
        first=2 * HOUR,
        within="support-hours",
        away="Wir sind am {day}, {date}, um {time} wieder da.",
        days=["Mo", "Di", "Mi", "Do", "Fr", "Sa", "So"],
    )
    config = RunConfig(reply_times=times, takeover=ApprovalPolicy(unverified="allow"))
    handle = await desk.start(agent, keep_open=True, run_config=config)
    await desk.until_status(handle, "idle")
    await handle.hold(by="ann")
    await handle.send("Where is it?")
    state = await desk.until(
        handle, lambda state: bool(state.case.reply and state.case.reply.due_ms)
    )
    clock = state.case.reply
    assert clock is not None
    assert clock.due_ms is not None
    assert time_of(clock.due_ms) == calendar.after(time_of(clock.since_ms), 2 * HOUR)
    day = now() + 2 * timedelta(days=1)
    name = ["Mo", "Di", "Mi", "Do", "Fr", "Sa", "So"][day.weekday()]
    said = f"Wir sind am {name}, {day:%Y-%m-%d}, um 0:00 wieder da."
    assert customer_view(await handle.state()).waits_for == said
    await handle.cancel()


@pytest.mark.parametrize(
    ("within", "length", "said"),
    [
        ("support-hours", 2 * HOUR, "There is no calendar 'support-hours' here"),
        (open_in(1), 24 * 200 * HOUR, "does not end within three years|do not end within"),
    ],
)
async def test_a_worker_whose_policy_cannot_be_counted_does_not_start(
    desk: Desk, within: Any, length: timedelta, said: str
) -> None:
    @function_tool(needs_approval=ApprovalPolicy(expires_in=length, within=within))
    def refund() -> str:
        """Refund."""
        return "paid"

    with pytest.raises(UserError, match=said):
        await desk.open(Agent[Any](name="Clerk", tools=[refund]))
