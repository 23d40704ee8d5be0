"""Hostile texts in every field that somebody else writes change no page."""

import json
from typing import Final

from outlast.client.identity import person
from tests.browser.hostile import HOSTILE, marks_on, watch
from tests.browser.people import path
from tests.browser.stage import Stage
from tests.browser.window import Windows

ALL: Final = "\n\n".join(HOSTILE)
RUN: Final = "<img src=x onerror=planted() data-planted=1>/\"'&?#%2e"
WANTED: Final = 60


def test_there_are_as_many_texts_as_the_desk_promises() -> None:
    assert len(set(HOSTILE)) == len(HOSTILE) >= WANTED


async def test_hostile_texts_change_no_page(stage: Stage, windows: Windows) -> None:
    runs = [RUN, "hostile answer", "hostile tool"]
    arguments = json.dumps({"address": "".join(HOSTILE[:20]), "text": ALL})
    call = await stage.start_run("Writer", f"call write_letter {arguments}", runs[0])
    talk = await stage.start_run("Writer", f"say {ALL}", runs[1])
    await stage.start_run("Writer", f"call {HOSTILE[10].replace(' ', '/')} {{}}", runs[2])
    [item] = (await call.wait_for_people()).interruptions
    await talk.wait_for_answer("start")
    named = person(HOSTILE[10], display=HOSTILE[12], groups=["leads", HOSTILE[0]])
    await talk.hold(by=named)
    await talk.say(ALL, by=named)
    await talk.send(ALL)
    pages = [
        "/inbox?show=all",
        "/conversations",
        path("conversations", RUN, "requests", item.request.id),
    ]
    pages += [path("conversations", run) for run in runs]
    pages += [path("chat", "c", run) for run in runs]
    window = await windows.open()
    asked_elsewhere = await watch(window)
    found: dict[str, list[str]] = {}
    for one in pages:
        await window.goto(stage.url() + one)
        for details in await window.locator("main details").all():
            await details.evaluate("one => { one.open = true }")
        await window.wait_for_timeout(700)  # what streams and payloads bring
        if marks := await marks_on(window):
            found[one] = marks
    assert found == {}
    assert asked_elsewhere == []


async def test_the_marks_are_found_where_a_text_is_no_text(stage: Stage, windows: Windows) -> None:
    window = await windows.open()
    await watch(window)
    await window.goto(f"{stage.url()}/conversations")
    await window.evaluate(
        "text => { document.querySelector('main').insertAdjacentHTML('beforeend', text) }",
        HOSTILE[10],
    )
    marks = await marks_on(window)
    windows.problems.clear()  # the picture that does not exist, and the handler that is refused
    assert [one.partition(":")[0] for one in marks] == ["marks", "handlers"]
