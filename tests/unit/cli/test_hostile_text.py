"""Commands that show what a model and a customer have written, on recorded runs."""

import json
import re
from typing import Any

import pytest
from temporalio.client import Client

from outlast.client.runner import Runner
from outlast.loop.approvals import digest
from outlast.testing import ScriptedModel, call
from tests.hostile_text import assert_visible
from tests.unit.cli.conftest import Invoke, Open

HOSTILE = "A-42\x1b[2K\x1b[1A\x9b2K\u202e\u200b\x7f\U000e0041 [bold]x[/bold]\nerror: all is well"
SHOWN = (
    "A-42\\u001b[2K\\u001b[1A\\u009b2K\\u202e\\u200b\\u007f"
    "{tag} [bold]x[/bold]{newline}error: all is well"
)
IN_LINE = SHOWN.format(tag="\\U000e0041", newline="\\u000a")
IN_JSON = SHOWN.format(tag="\\udb40\\udc41", newline="\\n")
COLOURS = re.compile(r"\x1b\[(?:[0-9;]*m|\?25[lh]|1A|2K)|\r")
"""And the way in which a text grows in place; of the hostile text, some would be left."""


@pytest.fixture(params=["pipe", "terminal"], autouse=True)
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Print into a pipe, and as on a terminal with colours."""
    if request.param == "terminal":
        monkeypatch.setenv("FORCE_COLOR", "1")
    return request.param


def text_of(done: Any) -> str:
    """Return all that a command has printed but for the colours; nothing else may be hidden."""
    shown = COLOURS.sub("", f"{done.stdout}{done.stderr}")
    assert_visible(shown, layout="\n")
    assert "\nerror: all is well" not in shown
    return shown


def unwrapped(shown: str) -> str:
    return re.sub(r"\s*\n\s*", "", shown)


@pytest.mark.smoke
async def test_nothing_hidden_reaches_who_decides(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    odd_id = f"{run_id}\x1b[2K\u202e"
    queue = await open_desk(
        ScriptedModel([call("refund", "c1", order_id=HOSTILE)], f"Done: {HOSTILE}")
    )
    handle = await Runner.start("Helper", HOSTILE, id=odd_id, client=client, task_queue=queue)
    await handle.wait(lambda state: state.status == "waiting")
    (request,) = await handle.approvals()

    listed = text_of(await cli("list"))
    shown = text_of(await cli("show", odd_id))
    approved = text_of(await cli("approve", odd_id, "--by", HOSTILE))
    await handle.result()
    tailed = text_of(await cli("tail", odd_id))
    again = text_of(await cli("approve", odd_id, "a1"))

    assert f"{run_id}\\u001b[2K\\u202e" in listed
    assert f"outlast approve $'{run_id}\\u001b[2K\\u202e' a1" in unwrapped(shown)
    for screen in (shown, approved):
        (arguments,) = re.findall(r"│ (\{.*\})", screen)
        assert IN_JSON in arguments
        assert digest(arguments) == request.args_digest
    assert f"by {IN_LINE}" in approved
    assert f'→ refund(order_id="{IN_JSON}")' in tailed
    assert "already approved by A-42\\u001b[2K" in again


async def test_json_is_exact_and_visible(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel(HOSTILE))
    await Runner.run("Helper", HOSTILE, id=run_id, client=client, task_queue=queue)

    done = await cli("show", run_id, "--json")

    assert_visible(done.stdout, layout="\n")
    record = json.loads(done.stdout)
    assert [one["text"] for one in record["transcript"]] == [HOSTILE, HOSTILE]
    assert record["final_output"] == HOSTILE


async def test_an_answer_keeps_its_lines_and_steers_no_terminal(
    cli: Invoke, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel("first\nsecond \x1b[2K C:\\Users \\d+"))

    done = await cli("run", "Helper", "Hi", "--id", run_id, "--task-queue", queue)

    assert COLOURS.sub("", done.stdout) == "first\nsecond \\u001b[2K C:\\Users \\d+\n"


async def test_an_error_is_said_in_words_that_can_be_seen(cli: Invoke) -> None:
    unknown = text_of(await cli("show", HOSTILE))
    traced = text_of(await cli("show", HOSTILE, "--debug"))

    assert "error: There is no run 'A-42\\x1b[2K" in unknown
    assert "  | Traceback" in traced
