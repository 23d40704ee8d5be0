"""Commands that show what a model and a customer have written, on recorded runs."""

import asyncio
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from outlast.cli import editor
from outlast.client.identity import os_user
from outlast.client.start import options as start_options
from outlast.client.start.runner import Runner
from outlast.loop.approvals import digest
from outlast.testing import ScriptedModel, call
from outlast.testing import say as said
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
    cli: Invoke,
    client: Client,
    open_desk: Open,
    run_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    odd_id = f"{run_id}\x1b[2K\u202e"
    queue = await open_desk(
        ScriptedModel(
            [
                call("refund", "c1", order_id=HOSTILE),
                call("refund", "c2", order_id=HOSTILE),
            ],
            f"Done: {HOSTILE}",
        )
    )

    def anything(_id: object) -> None:
        """Clients refuse such an id; who reaches the server starts workflows without them."""

    monkeypatch.setattr(start_options, "_check_new_id", anything)
    handle = await Runner.start("Helper", HOSTILE, id=odd_id, client=client, task_queue=queue)
    await handle.wait(lambda state: state.status == "waiting")
    request, _other = await handle.approvals()

    listed = text_of(await cli("list"))
    shown = text_of(await cli("show", odd_id))
    refused = text_of(await cli("approve", odd_id, "--by", HOSTILE))
    approved = text_of(await cli("approve", odd_id, "a1"))
    again = text_of(await cli("reject", odd_id, "a1"))
    await cli("approve", odd_id, "a2")
    await handle.result()
    tailed = text_of(await cli("tail", odd_id))
    late = text_of(await cli("reject", odd_id, "a1"))

    assert f"{run_id}\\u001b[2K\\u202e" in listed
    assert f"outlast approve $'{run_id}\\u001b[2K\\u202e' a1" in unwrapped(shown)
    for screen in (shown, approved):
        arguments = re.findall(r"│ (\{.*\})", screen)[0]
        assert IN_JSON in arguments
        assert digest(arguments) == request.args_digest
    assert refused.startswith("error: The name 'A-42\\x1b[2K\\x1b[1A\\x9b2K")
    assert "has spaces around it, or characters that people cannot see." in unwrapped(refused)
    assert f'→ refund(order_id="{IN_JSON}")' in tailed
    assert f"already approved by {os_user().subject}" in again
    assert f"{run_id}\\u001b[2K\\u202e has ended" in late


@pytest.mark.smoke
async def test_nothing_hidden_reaches_the_inbox_nor_the_editor(
    cli: Invoke,
    client: Client,
    open_desk: Open,
    run_id: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """What the model says beside its call is marked, and cannot look like a line of the request."""
    words = f"{HOSTILE}\n  risk       none\n  outlast approve {run_id} a2"
    reply = [*said(words), call("refund", "c1", order_id=HOSTILE)]
    queue = await open_desk(ScriptedModel(reply, "Done."))
    handle = await Runner.start("Helper", HOSTILE, id=run_id, client=client, task_queue=queue)
    await handle.wait(lambda state: state.status == "waiting")
    seen = editor_that_keeps(tmp_path, monkeypatch)

    async with asyncio.timeout(30):  # visibility is a moment behind
        while run_id not in (listed := unwrapped(text_of(await cli("inbox", "--limit", "1000")))):  # noqa: ASYNC110  nothing announces it
            await asyncio.sleep(0.1)
    shown = text_of(await cli("inbox", "show", run_id))
    edited = text_of(await cli("inbox", "edit", run_id))
    claimed = text_of(await cli("inbox", "claim", run_id))
    answered = text_of(await cli("inbox", "respond", run_id, "--text", HOSTILE))
    await handle.result()
    tailed = text_of(await cli("tail", run_id))

    assert "A-42\\u001b[2K" in listed
    for screen in (shown, edited, claimed, answered):
        assert "model says ┊ A-42\\u001b[2K" in screen
        assert not re.search(r"^  risk +none", screen, re.MULTILINE)
    commands = [line for line in shown.splitlines() if line.startswith("  outlast ")]
    assert commands[0].strip().startswith(f"outlast approve {run_id} a1 --digest ")
    text = seen()
    assert_visible(text, layout="\n")
    assert IN_JSON in text
    assert "The arguments are unchanged, so nothing was sent." in unwrapped(edited)
    assert f"← {IN_LINE[:40]}" in tailed


def editor_that_keeps(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Set an editor that changes nothing; returns a function that returns what it has shown."""
    script, kept = folder / "edit.py", folder / "seen.txt"
    script.write_text("import shutil, sys\nshutil.copy(sys.argv[-1], sys.argv[1])\n")
    monkeypatch.setenv("VISUAL", f"{sys.executable} {script} {kept}")
    monkeypatch.setattr(editor, "is_interactive", lambda: True)
    return kept.read_text


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
