"""Times of teams that count the hours of a calendar, on workers that come and go with their calendars."""

import asyncio
import secrets
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.calendars import Calendar
from outlast.agents.errors import UserError
from outlast.client.teams import Team, TeamConversation
from outlast.edges.clock import now
from outlast.loop.approvals import ApprovalRequest
from outlast.serve.access import RoleRules
from outlast.testing import ScriptedModel, call, say
from tests.workflow.desk import Desk
from tests.workflow.test_desk_api import app_of
from tests.workflow.test_desk_api import opened as opened_desk
from tests.workflow.test_hours import open_in, refund, the_request
from tests.workflow.test_long_runs import true_in_the_end
from tests.workflow.test_team import ended, is_with, resting, team_of, whose

CLERK = Agent[Any](name="Clerk")
HOUR = timedelta(hours=1)
ALWAYS = Calendar("support-hours", zone="UTC", hours={"mon-sun": "0:00-24:00"})


async def opened(desk: Desk, *calendars: Calendar) -> None:
    model = ScriptedModel(always=lambda _: say("Hello."))
    await desk.open(CLERK, model=model, calendars=[*calendars])


async def counted(team: Team) -> TeamConversation:
    """Wait until a worker has counted when the only conversation goes on, and return it."""

    async def is_due() -> bool:
        return [one.due is not None for one in (await team.view()).conversations] == [True]

    await true_in_the_end(is_due)
    [one] = (await team.view()).conversations
    return one


def is_near(at: datetime | None, other: datetime) -> bool:
    return at is not None and abs(at - other) < timedelta(minutes=2)


async def test_a_conversation_goes_on_in_the_hours_of_the_team(desk: Desk) -> None:
    calendar = open_in(2)
    await opened(desk, calendar)
    team = team_of(desk)
    view = await team.assign_by(by="lead", return_after=2 * HOUR, within=calendar)
    assert (view.within, view.record()["within"]) == ("support-hours", "support-hours")
    await team.on_duty("ann")
    handle = await resting(desk)
    await handle.assign(team=team.name, by="lead")
    await is_with(desk, handle, "ann")
    one = await counted(team)
    assert is_near(one.due, calendar.after(one.since, 2 * HOUR))
    # The run hears of it, too: lists find it by this time.
    await desk.until(handle, lambda state: state.case.due_ms is not None)
    await ended(team, desk)


async def test_it_goes_on_by_itself_when_the_hours_are_over(desk: Desk) -> None:
    await opened(desk, ALWAYS)
    team = team_of(desk)
    await team.on_duty("ann")
    await team.on_duty("bob")
    await team.assign_by(by="lead", return_after=timedelta(seconds=2), within="support-hours")
    handle = await resting(desk)
    await handle.assign(team=team.name, by="lead")
    assert await is_with(desk, handle, "ann") == "ann"
    assert await is_with(desk, handle, "bob") == "bob"
    await ended(team, desk)


async def test_without_a_worker_that_has_the_calendar_it_stays_until_one_comes_or_the_terms_change(
    desk: Desk,
) -> None:
    await opened(desk)
    team = team_of(desk)
    await team.on_duty("ann")
    await team.assign_by(by="lead", return_after=HOUR, within="support-hours")
    handle = await resting(desk)
    await handle.assign(team=team.name, by="lead")
    await is_with(desk, handle, "ann")
    assert await whose(team) == {handle.id: "ann"}
    [one] = (await team.view()).conversations
    assert one.due is None
    await desk.close_all()
    await opened(desk, ALWAYS)
    one = await counted(team)
    assert is_near(one.due, one.since + HOUR)
    # Another calendar, which nobody has, and then none: what waits to be counted is counted anew.
    other = await resting(desk)
    await team.assign_by(by="lead", return_after=HOUR, within="nights")
    await other.assign(team=team.name, by="lead")
    await is_with(desk, other, "ann")
    await team.assign_by(by="lead", return_after=2 * HOUR)

    async def both_are_due() -> bool:
        return all(one.due is not None for one in (await team.view()).conversations)

    await true_in_the_end(both_are_due)
    due = {one.run_id: one.due for one in (await team.view()).conversations}
    assert is_near(due[other.id], now() + 2 * HOUR)
    await ended(team, desk)


async def test_a_duty_ends_in_the_hours_of_a_calendar_of_the_operators_file(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await opened(desk)
    team = team_of(desk)
    with pytest.raises(UserError, match="There is no calendar 'support-hours' here"):
        await team.on_duty("ann", until=8 * HOUR, within="support-hours")
    file = tmp_path / "approvals.toml"
    file.write_text('[calendar.support-hours]\nzone = "UTC"\nhours = { mon-sun = "0:00-12:00" }\n')
    monkeypatch.setenv("OUTLAST_APPROVALS", str(file))
    view = await team.on_duty("ann", until=24 * HOUR, within="support-hours")
    half = Calendar("support-hours", zone="UTC", hours={"mon-sun": "0:00-12:00"})
    assert is_near(view.members[0].until, half.after(now(), 24 * HOUR))
    with pytest.raises(UserError, match=r"on_duty\(within=...\) counts the hours of a timedelta"):
        await team.on_duty("ann", until=now() + HOUR, within="support-hours")
    with pytest.raises(UserError, match=r"counts the hours of return_after=, which is not there"):
        await team.assign_by(by="lead", within="support-hours")
    with pytest.raises(UserError, match="must be the name of a calendar"):
        await team.assign_by(by="lead", return_after=HOUR, within="<b>")
    await ended(team, desk)


def _expires(request: ApprovalRequest) -> bool:
    return request.expires_at_ms is not None


async def test_a_lead_lets_the_open_requests_of_their_tenant_be_counted_anew_and_no_other(
    desk: Desk,
) -> None:
    agent = Agent[Any](name="Clerk", tools=[refund()])
    model = ScriptedModel(always=lambda _: [call("refund", secrets.token_hex(4))])
    await desk.open(agent, model=model, calendars=[open_in(1)])
    runs = [await desk.start(agent, tenant=one, keep_open=True) for one in ("acme", "globex")]
    for one in runs:
        await the_request(desk, one, _expires)
    rules = RoleRules({"staff": ["operator@tenant:acme"]})
    async with opened_desk(app_of(desk, agent, roles=rules, groups=("staff",))) as http:

        async def is_listed() -> bool:
            answer = await http.post("/recount", data={"why": ""})
            assert answer.status_code == 200
            return "1 request of 1 run counted anew." in answer.text

        await true_in_the_end(is_listed)
    mine, theirs = [(await one.state()).case.recounted_ms for one in runs]
    assert mine is not None
    assert theirs is None
    await asyncio.gather(*(one.cancel(mode="immediate") for one in runs))
