"""A person says from the command line what the model does not read any more."""

import json
import re

import pytest
from temporalio.client import Client

from outlast.client.handle import RunHandle
from outlast.client.identity import os_user
from outlast.client.start.runner import Runner
from outlast.loop.values import JsonObject
from outlast.testing import ScriptedModel
from outlast.views.run import loop_state
from tests.pictures import PNG, url_of
from tests.unit.cli.conftest import Invoke, Open

ASKED: list[JsonObject] = [
    {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "What is this?"},
            {
                "type": "input_image",
                "image_url": url_of("image/png", PNG),
                "detail": "auto",
            },
        ],
    }
]


@pytest.fixture
async def handle(client: Client, open_desk: Open, run_id: str) -> RunHandle:
    """A conversation with a photo, which waits for its next message."""
    queue = await open_desk(ScriptedModel("A cup.", "Well.", "Well."))
    handle = await Runner.start(
        "Helper", ASKED, id=run_id, keep_open=True, client=client, task_queue=queue
    )
    await handle.wait_for_answer("start")
    return handle


async def test_what_the_report_numbers_is_set_aside_and_taken_back(
    cli: Invoke, handle: RunHandle
) -> None:
    me = os_user().subject
    shown = (await cli("show", handle.id)).stdout
    assert re.search(r" 0    user       What is this\? \[part 1: an image\]\n", shown)
    assert re.search(r" 1    Helper     A cup\.\n", shown)

    why = ("--reason", "She asked \x1b[2Kfor it.")
    done = await cli("set-aside", handle.id, "0", "--part", "1", *why)

    assert done.stdout == "The model does not read part 1 of item 0 any more.\n"
    assert done.stderr == f"See the run: `outlast show {handle.id}`.\n"
    [one] = (loop_state(await handle.state())).aside
    assert (one.item, one.part, one.by) == (0, 1, me)
    again = await cli("set-aside", handle.id, "0", "--part", "1", *why, "--json")
    receipt = {"run_id": handle.id, "item": 0, "set_aside": True, "parts": [1]}
    assert json.loads(again.stdout) == receipt, "the receipt of the first time"
    whole = await cli("set-aside", handle.id, "0")
    assert whole.stdout == "The model does not read item 0 any more.\n"
    shown = (await cli("show", handle.id)).stdout
    assert f"Item 0, part 1, is not read by the model any more: {me} set it aside" in shown
    assert "She asked \\u001b[2Kfor it." in shown

    part = await cli("take-back", handle.id, "0", "--part", "1")
    assert part.stdout == "All of item 0 is still set aside.\n"
    await cli("set-aside", handle.id, "0", "--part", "0")
    for _ in "12":
        back = await cli("take-back", handle.id, "0")
        assert back.stdout == "The model reads item 0 again. Still set aside: part 0 of item 0.\n"
    last = await cli("take-back", handle.id, "0", "--part", "0", "--json")
    assert json.loads(last.stdout) == {
        "run_id": handle.id,
        "item": 0,
        "set_aside": False,
        "parts": [],
    }
    assert (loop_state(await handle.state())).aside == ()
    await handle.cancel()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("99",), 5, "The transcript has no item 99: it has 2."),
        (("9" * 30,), 5, f"The transcript has no item {'9' * 30}: it has 2."),
        (("0", "--part", "7"), 5, "Item 0 has no part 7: it has 2."),
        (("0", "--part", "-1"), 2, "Invalid value for '--part'"),
        (("--", "-1"), 2, "Invalid value for 'ITEM'"),
        (("photo",), 2, "Invalid value for 'ITEM'"),
        (("0", "--by", "eve"), 5, "needs proof of who decides"),
    ],
)
async def test_what_cannot_be_set_aside_or_taken_back_is_refused(
    cli: Invoke, handle: RunHandle, arguments: tuple[str, ...], code: int, words: str
) -> None:
    for name in ("set-aside", "take-back"):
        refused = await cli(name, handle.id, *arguments)
        assert (refused.exit_code, words in refused.stderr) == (code, True), refused.stderr
    assert (loop_state(await handle.state())).aside == ()
    await handle.cancel()


async def test_a_run_that_is_not_there_or_has_ended_sets_nothing_aside(
    cli: Invoke, handle: RunHandle
) -> None:
    assert (await cli("set-aside", "never-was", "0")).exit_code == 4
    await handle.cancel()
    await handle.wait(lambda state: loop_state(state).phase == "closed")
    for name in ("set-aside", "take-back"):
        refused = await cli(name, handle.id, "0")
        assert refused.exit_code != 0
        assert "has ended" in refused.stderr
