"""Hostile texts in every field that somebody else writes change no page."""

import html
import json
from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import quote, urlencode

import pytest
from playwright.async_api import Page, Route

from outlast import Customer
from outlast.client.identity import person
from outlast.client.teams import Team
from tests.browser.hostile import HOSTILE, marks_on, watch
from tests.browser.hostile_agents import GROUP
from tests.browser.people import path
from tests.browser.stage import Person, Stage
from tests.browser.window import Windows

ALL: Final = "\n\n".join(HOSTILE)
RUN: Final = "<img src=x onerror=planted() data-planted=1>/\"'&?#%2e"
RUNS: Final = (RUN, "hostile shelf", "hostile answer", "hostile tool")
WANTED: Final = 60
SOMEBODY: Final = Person(HOSTILE[10], (GROUP, "billing"))
WHO: Final = Customer(HOSTILE[12], HOSTILE[13])
FILTERS: Final = ("agent", "starts", "status", "tenant", "who", "show", "tool", "q", "page", "run")


@pytest.fixture(scope="module")
async def hostile_stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """Processes of agents whose definitions attack the desk; so does the name of its person."""
    home = tmp_path_factory.mktemp("hostile")
    agents = "tests.browser.hostile_agents"
    async with Stage(home, people=(SOMEBODY,), agents=agents) as stage:
        yield stage


def test_there_are_as_many_texts_as_the_desk_promises() -> None:
    assert len(set(HOSTILE)) == len(HOSTILE) >= WANTED


@pytest.fixture(scope="module")
async def pages(hostile_stage: Stage) -> list[str]:
    """The pages of runs in which everybody has written hostile texts."""
    stage = hostile_stage
    arguments = {text: text for text in HOSTILE[:40]} | {
        "choice": HOSTILE[3],
        "several": [HOSTILE[1]],
    }
    book = {"book": {text: text for text in HOSTILE[:30]}}
    form, shelf, talk, _ = [
        await stage.start_run("Hostile", said, run, tenant=HOSTILE[10], customer=WHO)
        for run, said in zip(
            RUNS,
            (
                f"call form {json.dumps(arguments)}",
                f"call find {json.dumps(book)}",
                f"say {ALL}",
                f"call {HOSTILE[10].replace(' ', '/')} {{}}",
            ),
            strict=True,
        )
    ]
    waiting = [await form.wait_for_people(), await shelf.wait_for_people()]
    requests = [one.interruptions[0].request for one in waiting]
    named = person(HOSTILE[10], display=HOSTILE[12], groups=["leads", GROUP, "billing"])
    await form.claim(requests[0], by=named)
    await talk.wait_for_answer("start")
    await talk.hold(by=named)
    await talk.say(ALL, by=named)
    await talk.release(by=named, note=ALL)
    await talk.rate(1, ALL[:2_000])
    photo = {
        "type": "input_file",
        "filename": HOSTILE[10],
        "file_data": "data:text/plain;base64,QQ==",
    }
    await talk.send([{"role": "user", "content": [{"type": "input_text", "text": ALL}, photo]}])
    await talk.hold(by=named)
    teams = [text for text in HOSTILE if text.isprintable() and text.strip()][:3]
    for name in teams:
        team = Team(stage.client, name)
        await team.assign_by(by=named)
        for text in HOSTILE[:20]:
            if text.strip():
                await team.on_duty(text)
    await form.assign(HOSTILE[12], by=named, team=teams[0])
    asked = urlencode(dict.fromkeys(FILTERS, ALL[:900]))
    found = [f"/{one}?{asked}" for one in ("inbox", "conversations", "agents", "chat", "login")]
    found += [f"/figures?{asked}&team={quote(ALL[:500])}", f"/quality?{asked}"]
    found += ["/inbox?show=all", "/conversations", "/agents", f"/agents?{urlencode({'run': RUN})}"]
    found += [
        path("conversations", run.id, "requests", request.id)
        for run, request in zip((form, shelf), requests, strict=True)
    ]
    found += [path("conversations", run) for run in RUNS]
    found += ["/teams", *(path("teams", name) for name in teams)]
    found += [path("chat", HOSTILE[10]), *(path("chat", "c", run) for run in RUNS)]
    return found


async def test_hostile_texts_change_no_page(
    hostile_stage: Stage, windows: Windows, pages: list[str]
) -> None:
    window = await windows.open()
    asked_elsewhere = await watch(window)
    found: dict[str, list[str]] = {}
    for one in pages:
        await window.goto(hostile_stage.url(SOMEBODY) + one)
        await _open_all(window)
        if marks := await marks_on(window):
            found[one] = marks
        if "/requests/" in one:
            for button in ("Show the difference", "Show the answer"):
                if await window.get_by_role("button", name=button).count():
                    await window.get_by_role("button", name=button).first.click()
                    await window.wait_for_load_state()
                    await _open_all(window)
                    found |= {f"{button} {one}": it for it in [await marks_on(window)] if it}
    assert found == {}
    assert asked_elsewhere == []
    # A filter that has no such value is refused in words; the Content-Security-Policy reports nothing.
    problems = await windows.take_problems()
    assert [one for one in problems if not _is_refused_filter(one)] == []


async def test_a_page_that_escaped_nothing_would_be_found(
    hostile_stage: Stage, windows: Windows, pages: list[str]
) -> None:
    """Serve the pages as they would be if the desk forgot to escape."""

    async def unescaped(route: Route) -> None:
        answer = await route.fetch()
        await route.fulfill(response=answer, body=html.unescape(await answer.text()))

    window = await windows.open()
    elsewhere = await watch(window)
    for one in pages:
        if not one.startswith("/conversations/"):
            continue
        address = hostile_stage.url(SOMEBODY) + one
        await window.route(address, unescaped)
        await window.goto(address)
        kinds = {mark.partition(":")[0] for mark in await marks_on(window)}
        assert "marks" in kinds, one
    assert elsewhere, "a link or a picture asked another host"
    problems = await windows.take_problems()
    assert len([one for one in problems if "Content Security Policy" in one]) > len(RUNS)


async def test_the_marks_are_found_where_a_text_is_no_text(stage: Stage, windows: Windows) -> None:
    window = await windows.open()
    await watch(window)
    await window.goto(f"{stage.url()}/conversations")
    await window.evaluate(
        "text => { document.querySelector('main').insertAdjacentHTML('beforeend', text) }",
        HOSTILE[10],
    )
    marks = await marks_on(window)
    assert [one.partition(":")[0] for one in marks] == ["marks", "handlers"]
    # The picture that does not exist, and the handler that is refused.
    assert await windows.take_problems()


async def _open_all(window: Page) -> None:
    for details in await window.locator("main details").all():
        await details.evaluate("one => { one.open = true }")
    await window.wait_for_timeout(300)  # what streams and payloads bring


def _is_refused_filter(problem: str) -> bool:
    return problem.startswith(("400 from", "404 from")) or "status of 40" in problem
