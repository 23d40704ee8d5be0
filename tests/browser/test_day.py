"""A day of two leads and three customers in a real browser, while everything is killed in between.

A team, a return timer that fires while no worker runs, a snooze over hours in which nobody is there,
a decision, a promise that is found in the archive, a rating that becomes a data set, and a word after
the end.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect
from temporalio.api.enums.v1 import EventType

from outlast import Customer
from outlast.archive import Archive, use_archive
from outlast.client.identity import person
from outlast.client.runs import RunFilter
from outlast.client.search import search_conversations
from outlast.client.teams import Team
from outlast.contract import names
from outlast.edges.clock import now_ms
from outlast.evals import collect_bad_ratings
from outlast.evals.datasets import load_dataset
from outlast.search import open_index
from outlast.temporal.payloads.readable import values_of
from outlast.testing.demo.proof import ledger
from tests.browser.people import come_as_customer, say, take_over, write
from tests.browser.stage import ANN, LEE, Person, Stage
from tests.browser.window import PHONE, Windows, accessibility_faults
from tests.workflow.test_archive import PATIENCE_SECONDS, swept, taken_by_retention, until

TIMER_ENDS = (EventType.EVENT_TYPE_TIMER_FIRED, EventType.EVENT_TYPE_TIMER_CANCELED)
RETURN_AFTER = timedelta(seconds=5)
PROMISE = "I promise that a wombat brings the money on Friday."
MIA, TOM, ZOE = (Customer(f"c-{one}", one) for one in ("Mia", "Tom", "Zoe"))


def calendar(opens: datetime) -> str:
    """Return the operators' file with a calendar that is closed until a time, which is near noon there."""
    behind = opens.hour - 12  # Etc/GMT+1 is an hour behind UTC
    zone = f"Etc/GMT{behind:+d}" if behind else "Etc/GMT"
    local = opens - timedelta(hours=behind)
    hours = f'{{ {local:%a} = "{local:%H:%M}-23:00" }}'.lower()
    return f'[calendar.support-hours]\nzone = "{zone}"\nhours = {hours}\n'


async def customer_of(stage: Stage, windows: Windows, run_id: str, who: Customer) -> Page:
    """Begin a conversation, and open the chat of its customer."""
    handle = await stage.start_run("Writer", "say Hello!", run_id, customer=who)
    await handle.wait_for_answer("start")
    window = await windows.open(PHONE)
    await come_as_customer(window, stage, run_id)
    return window


async def go_on_duty(windows: Windows, stage: Stage, who: Person) -> Page:
    """Go on duty at the desk."""
    window = await windows.open()
    await window.goto(f"{stage.url(who)}/teams/billing")
    await window.click("#go > summary")
    await window.select_option("#until", "8h")
    await window.click("#go-button")
    await expect(window.locator("#duty")).to_contain_text("On duty in billing until ")
    return window


async def assignments(stage: Stage, run_id: str) -> list[dict[str, Any]]:
    """Return what the team has answered a run, as its history has it."""
    found = list[dict[str, Any]]()
    async for event in stage.client.get_workflow_handle(run_id).fetch_history_events():
        signal = event.workflow_execution_signaled_event_attributes
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED and (
            signal.signal_name == names.SIGNAL_ASSIGNED
        ):
            values: Any = await values_of(stage.client.data_converter, signal.input.payloads)
            found += values
    return found


async def waits_for_a_timer(stage: Stage) -> bool:
    """Whether a timer of the team has started: a run may know whose it is a moment before."""
    runs = 0
    history = stage.client.get_workflow_handle("outlast-team/billing").fetch_history_events()
    async for event in history:
        runs += event.event_type == EventType.EVENT_TYPE_TIMER_STARTED
        runs -= event.event_type in TIMER_ENDS
    return runs > 0


async def timer_has_fired(stage: Stage) -> bool:
    """Whether a timer of the team has fired that no worker has seen yet."""
    fired = False
    history = stage.client.get_workflow_handle("outlast-team/billing").fetch_history_events()
    async for event in history:
        fired |= event.event_type == EventType.EVENT_TYPE_TIMER_FIRED
        fired &= event.event_type != EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    return fired


async def is_with(stage: Stage, run_id: str) -> str:
    """Return whose a conversation is by the team, and by itself; empty while they differ."""
    by_team = [one.to for one in (await Team(stage.client, "billing").view()).conversations]
    by_run = (await stage.handle(run_id).state()).case.to
    return by_run if by_team == [by_run] else ""


@pytest.mark.timeout(300)
async def test_a_day_of_two_leads(
    tmp_path: Path, windows: Windows, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens = datetime.fromtimestamp(now_ms() // 60_000 * 60, UTC) + timedelta(minutes=2)
    (tmp_path / "operators.toml").write_text(calendar(opens), encoding="utf-8")
    index, archive = open_index(tmp_path / "search.db"), Archive(tmp_path / "archive")
    variables = {
        "OUTLAST_SEARCH_INDEX": str(tmp_path / "search.db"),
        "OUTLAST_ARCHIVE": str(tmp_path / "archive"),
        "OUTLAST_APPROVALS": str(tmp_path / "operators.toml"),
    }
    monkeypatch.setenv("OUTLAST_APPROVALS", variables["OUTLAST_APPROVALS"])
    windows.may_lose_server = True
    async with Stage(tmp_path, environment=variables) as stage:
        role = await stage.role("search", "run")
        team = Team(stage.client, "billing")
        await team.assign_by(by="lee", rule="round_robin", return_after=RETURN_AFTER)
        anns, lees = await go_on_duty(windows, stage, ANN), await go_on_duty(windows, stage, LEE)
        mias, toms, _ = [
            await customer_of(stage, windows, one.name.lower(), one) for one in (MIA, TOM, ZOE)
        ]

        # Zoe is put off until somebody is there: closed hours do not count.
        zoe = stage.handle("zoe")
        lee = person("lee", groups=["leads", "billing"])
        await zoe.snooze(timedelta(seconds=2), by=lee, within="support-hours")
        until_ms = (await zoe.state()).case.snoozed_until_ms
        assert until_ms is not None
        assert until_ms >= opens.timestamp() * 1_000

        # Mia wants a person. Ann does not take her in time, while no worker runs: she is Lee's.
        await write(mias, 'call ask_people {"team": "billing"}')
        assert await until(lambda: is_with(stage, "mia")) == "ann"
        await until(lambda: waits_for_a_timer(stage))
        await stage.worker.kill()
        await until(lambda: timer_has_fired(stage))
        await stage.kill_server()
        await stage.kill_worker()
        await until(lambda: at_lee(stage))
        await expect(anns.locator("#view-mine .view-count")).to_have_text("0")
        await expect(lees.locator("#view-mine .view-count")).to_have_text("1")

        # Lee finds her, takes her over, and promises something; their desk is killed before.
        await lees.click("#view-mine")
        await lees.locator("a.run", has_text="Mia").click()
        await stage.kill_serve(LEE)
        await lees.reload()
        await take_over(lees)
        await say(lees, PROMISE)
        await expect(mias.locator("#messages")).to_contain_text(PROMISE)
        await mias.get_by_role("button", name="Bad").click()
        await expect(mias.get_by_role("button", name="Bad")).to_have_attribute(
            "aria-pressed", "true"
        )
        await lees.get_by_role("button", name="Resolve").click()
        await expect(lees.locator("#head")).to_contain_text("resolved")
        assert (await team.view()).conversations == ()

        # Tom gets his money once, though the server dies before Ann approves it.
        await write(toms, 'call refund {"amount": 7, "customer": "Tom"}')
        await anns.goto(f"{stage.url(ANN)}/inbox")
        await anns.locator(".inbox-row", has_text="Refund 7 EUR").locator("a").first.click()
        await expect(anns.get_by_role("button", name="Approve")).to_be_visible()
        await stage.kill_server()
        await stage.kill_serve(ANN)
        await anns.reload()
        await anns.get_by_role("button", name="Approve").click()
        await stage.kill_worker()
        await expect(toms.locator("#messages")).to_contain_text("Done: refunded 7.0 to Tom")

        # The rating becomes a case of a data set, once.
        bad = tmp_path / "bad.yaml"
        for added in (("mia",), ()):
            done = await collect_bad_ratings(stage.client, bad, RunFilter())
            assert done.added == added
        [case] = load_dataset(bad).cases
        assert case.metadata == {"rating": {"score": 1, "text": ""}}

        # Each answer of the team names one person, and a report has one answer.
        answers = await assignments(stage, "mia")
        assert [one["to"] for one in answers][:2] == ["ann", "lee"]
        assert len({one["report"] for one in answers if one["to"] == "ann"}) == 1

        # Mia's conversation has ended. Her next word begins the one that follows.
        mia = stage.handle("mia")
        await mia.cancel(mode="after_turn")
        await mia.wait(lambda run: not run.is_open)
        await write(mias, "say Are you there?")
        await mias.wait_for_url("**/chat/c/mia.2")
        await expect(mias.locator("#messages")).to_contain_text("Are you there?")
        await expect(mias.get_by_role("link", name="Your earlier conversation")).to_be_visible()
        assert (await stage.handle("mia.2").state()).customer == MIA

        # The promise is found after the server has forgotten it, with a search that was killed.
        await role.kill()
        await stage.role("search", "run")
        use_archive(stage.client, archive)
        await until(lambda: search_conversations(stage.client, index, "wombat"))
        await taken_by_retention(stage.client, await swept(archive, mia))
        await anns.goto(f"{stage.url(ANN)}/search?q=wombat")
        await expect(anns.locator(".found .hit")).to_have_count(1)
        await anns.keyboard.press("j")
        await anns.keyboard.press("Enter")
        await expect(anns.locator("#talk")).to_contain_text(PROMISE)
        assert await accessibility_faults(anns) == []

        # Zoe is back once somebody is there, and not before; it may be a minute until they open.
        async with asyncio.timeout(max(until_ms - now_ms(), 0) / 1_000 + PATIENCE_SECONDS):
            await zoe.wait(lambda run: run.status == "idle")
        assert now_ms() >= until_ms
        await expect(anns.locator("#view-snoozed .view-count")).to_have_text("0")

        assert [one.effect for one in ledger(stage.database)] == ["ticket"]
        assert all("503" in one for one in await windows.take_problems()), (
            "while the server is away"
        )


async def at_lee(stage: Stage) -> bool:
    return await is_with(stage, "mia") == "lee"
