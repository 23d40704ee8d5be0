"""Every page, in both themes and at both widths: it fits, nothing is refused, everybody can use it."""

import asyncio
import re
from datetime import timedelta
from typing import Final
from urllib.parse import quote

import httpx2
import pytest

from outlast.client.identity import person
from outlast.client.schedules import Schedules, Times
from outlast.client.teams import Team
from tests.browser.routes import filled, is_page, page_routes
from tests.browser.stage import Stage
from tests.browser.window import (
    DESKTOP,
    PHONE,
    Theme,
    Windows,
    accessibility_faults,
    overflow,
    picture,
)

LONG: Final = "Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen" * 5
"""A word that has no place to break at."""


async def test_the_desk_answers(stage: Stage, windows: Windows) -> None:
    window = await windows.open()
    for desk in stage.desks.values():
        answer = await window.request.get(f"{desk.url}/health")
        assert await answer.json() == {"status": "ok"}


@pytest.fixture(scope="session")
async def pages(stage: Stage) -> list[str]:
    """The paths of all pages, of conversations in different states."""
    refund, talk, ended = await asyncio.gather(
        stage.start_run("Triage", "Please refund order A-42, it arrived broken.", "a refund"),
        stage.start_run("Writer", "say **Hello**, `dear`\n\n- Ann\n- Lee", "a talk"),
        stage.start_run("Writer", f"count to 80 {LONG}", "ended", keep_open=False),
    )
    request = (await refund.wait_for_people()).interruptions[0].request
    await ended.result()
    await talk.wait_for_answer("start")
    await talk.hold(by=person("lee", groups=["leads"]))
    await talk.set_aside(0, by=person("lee", groups=["leads"]), reason=LONG)
    team = Team(stage.client, LONG)
    await team.assign_by(by="lee", return_after=timedelta(minutes=15))
    await team.on_duty("ann", until=timedelta(hours=8))
    await team.on_duty(LONG)
    await refund.assign(LONG, by=person("lee", groups=["leads"]), team=LONG)
    await Schedules(stage.client).create(
        "report", LONG, Times(cron="0 9 * * MON"), agent="Writer", note=LONG
    )
    async with httpx2.AsyncClient(trust_env=False, base_url=stage.url()) as http:
        found: dict[str, None] = dict.fromkeys(
            ("/schedules?id=report", "/audit?run=a%20refund", "/conversations?view=nobody&sort=age")
        )
        for run in (refund, talk, ended):
            values = {"run_id": run.id, "request_id": request.id, "agent": "Triage", "number": "1"}
            values["team"] = LONG
            for path in page_routes():
                if run is refund or ("{run_id}" in path and "{request_id}" not in path):
                    found[filled(path, values)] = None
        return [path for path in found if await is_page(http, path)]


@pytest.mark.parametrize(
    ("width", "theme"),
    [
        (DESKTOP, "light"),
        (PHONE, "dark"),
        pytest.param(DESKTOP, "dark", marks=pytest.mark.nightly),
        pytest.param(PHONE, "light", marks=pytest.mark.nightly),
    ],
)
async def test_every_page_fits_and_has_no_serious_fault(
    stage: Stage, windows: Windows, pages: list[str], width: int, theme: Theme
) -> None:
    faults: dict[str, list[str]] = {}
    window = await windows.open(width, theme)
    for path in pages:
        await window.goto(stage.url() + path)
        found = await accessibility_faults(window)
        if (wide := await overflow(window)) > 0:
            found.append(f"it is {wide} pixels wider than the window")
        if found:
            faults[path] = found
        name = path.replace(LONG, "long").replace(quote(LONG), "long").strip("/")
        await picture(window, f"{re.sub('[^a-z0-9]+', '-', name)}-{width}-{theme}")
    assert faults == {}


PLANTED = """<!doctype html><html lang="en"><title>Planted</title><main><h1>Planted</h1>
<button></button><p style="width: 900px">wide</p><script>document.title = "ran"</script></main>"""


async def test_the_checks_find_what_they_look_for(stage: Stage, windows: Windows) -> None:
    window = await windows.open(PHONE)
    headers = (await window.request.get(f"{stage.url()}/health")).headers
    policy = {"Content-Security-Policy": headers["content-security-policy"]}
    await window.route(
        "**/planted",
        lambda route: route.fulfill(body=PLANTED, content_type="text/html", headers=policy),
    )
    await window.goto(f"{stage.url()}/planted")
    assert await window.title() == "Planted"
    refused = [one for one in windows.problems if "Content Security Policy" in one]
    assert len(refused) == len(windows.problems) == 2, "an inline style and an inline script"
    windows.problems.clear()
    [fault] = await accessibility_faults(window)
    assert fault.startswith("button-name (critical)")
    await window.evaluate("() => { document.querySelector('p').style.width = '900px' }")
    assert await overflow(window) > 500
