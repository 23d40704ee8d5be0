"""Names and texts that steer: each command that shows a run, as a table, for a person and as JSON."""

import csv
import io
import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer.main
from temporalio.client import Client

from outlast import Customer
from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.tools.function_tool import function_tool
from outlast.cli.app import app
from outlast.client.handle import RunHandle
from outlast.client.start.runner import Runner
from outlast.testing import ScriptedModel, call, say
from tests.hostile_text import assert_visible
from tests.unit.cli.conftest import Invoke, Open
from tests.unit.cli.test_hostile_text import COLOURS

STEERS: Final = (
    "\x1b[2J\x1b]0;x\x07\x9b2K\u202e\u2066\u200b\x7f\U000e0041\r\nerror: all is well\x00"
)
FORMULA: Final = '=HYPERLINK("http://evil.example","a")'
MARKS: Final = "Z" + "\u0336\u0489\u20dd" * 15_000
"""A letter with 45,000 combining marks."""

HOSTILE: Final = f"{FORMULA} <img src=x onerror=alert(1)> [a](http://b) *b* :smile: {STEERS}"


@function_tool
def look_up(order_id: str) -> str:
    """Look an order up."""
    return HOSTILE


@function_tool(needs_approval=ApprovalPolicy(reason=HOSTILE))
def refund(order_id: str) -> str:
    """Refund an order."""
    raise ValueError(HOSTILE)


def _agent() -> Agent[Any]:
    return Agent[Any](name=f"Helper {HOSTILE}", instructions=HOSTILE, tools=[look_up, refund])


ELSEWHERE: Final = {
    # What a command prints of others is told in a test of its own, or it prints nothing of them.
    *("approve", "reject", "hold", "say", "release", "run", "send", "retry", "finish", "cancel"),
    *("set-aside", "take-back", "fork", "record", "replay", "demo", "init", "doctor", "dev"),
    *(
        "worker",
        "serve",
        "evals collect",
        "evals dataset",
        "evals run",
        "policy check",
        "policy apply",
    ),
    *("policy try", "identity new", "identity show", "keys add", "keys list", "keys rotate"),
    *("keys revoke", "schedule create", "schedule list", "schedule show", "schedule pause"),
    *("schedule resume", "schedule trigger", "schedule delete", "archive status"),
    *("archive verify", "archive list", "archive delete", "inbox approve", "inbox edit"),
    *("inbox reject", "inbox respond", "inbox ask", "inbox withdraw", "inbox approve-all"),
    *("inbox reject-all", "inbox claim", "inbox unclaim", "monitor", "archive run"),
    *("archive compare", "team show", "team on", "team off", "team rule"),
    *("case assign", "case tag", "case link", "case resolve", "case reopen", "case snooze"),
    *("case comment", "case rate"),
    *("figures", "quality create", "quality scores"),
    *("search find", "search rebuild", "search run", "search status"),
}

SHOWS: Final = {
    # What is asked for, by the command; ID is the run.
    "list": ["list"],
    "show": ["show", "ID"],
    "waits": ["waits", "ID"],
    "inbox": ["inbox"],
    "inbox show": ["inbox", "show", "ID", "a1"],
}


@pytest.fixture
async def hostile_run(client: Client, open_desk: Open, run_id: str) -> RunHandle:
    model = ScriptedModel(
        [call("look_up", "c1", order_id=HOSTILE)],
        [*say(HOSTILE), call("refund", "c2", order_id=HOSTILE)],
        HOSTILE,
    )
    agent = _agent()
    queue = await open_desk(model, agent)
    handle = await Runner.start(
        agent,
        [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": f"{HOSTILE}{MARKS}"},
                    {
                        "type": "input_file",
                        "filename": HOSTILE,
                        "file_data": "data:text/plain;base64,QQ==",
                    },
                ],
            }
        ],
        id=run_id,
        client=client,
        task_queue=queue,
        keep_open=True,
        context={HOSTILE: HOSTILE},
        customer=Customer(id="cust-1", name=f"{FORMULA} <b> \u3164\u0336"),
    )
    await handle.wait_for_people()
    return handle


async def test_what_others_name_steers_no_command(
    cli: Invoke, hostile_run: RunHandle, tmp_path: Path
) -> None:
    async def check(name: str, *words: str) -> str:
        done = await cli(*(hostile_run.id if one == "ID" else one for one in words))
        shown = COLOURS.sub("", f"{done.stdout}{done.stderr}")
        assert done.exit_code in {0, 3}, (name, shown)
        assert_visible(shown, layout="\n")
        assert "\nerror: all is well" not in shown, name
        assert "\u0336" * 9 not in unicodedata.normalize("NFD", shown).replace("\u0489", ""), name
        return shown

    for name, words in SHOWS.items():
        await check(name, *words)
        lines = (await check(f"{name} --json", *words, "--json")).strip()
        documents = [lines] if lines[-2:] in {"\n]", "\n}", "[]"} else lines.split("\n")
        assert [json.loads(one) for one in documents], name
    table = await check("audit", "audit", "ID", "--format", "csv")
    for row in csv.reader(io.StringIO(table)):
        assert not [
            cell for cell in row if cell.lstrip(" \"'")[:1] in {"=", "+", "@"} and cell[0] != "'"
        ]
    written = tmp_path / "runs.jsonl"
    await check("export", "export", "ID", "-o", str(written))
    documents = [json.loads(one) for one in written.read_text("utf-8").splitlines()]
    assert json.dumps(HOSTILE)[1:-1] in json.dumps(documents), "it is exact"
    await hostile_run.cancel()
    await check("tail", "tail", "ID")
    await check("show", "show", "ID")


async def test_every_command_that_shows_runs_is_in_a_table() -> None:
    commands = set(_commands(typer.main.get_command(app)))
    assert commands == {*(SHOWS.keys() - {"inbox"}), "audit", "export", "tail", *ELSEWHERE}


def _commands(group: Any, before: str = "") -> Iterator[str]:
    for name, one in group.commands.items():
        if hasattr(one, "commands"):
            yield from _commands(one, f"{before}{name} ")
        else:
            yield f"{before}{name}"


async def test_what_others_name_steers_nothing_in_temporals_ui(
    client: Client, hostile_run: RunHandle
) -> None:
    workflow = client.get_workflow_handle(hostile_run.id)
    found = await workflow.describe()
    texts = [str(value) for value in (await found.static_summary(), await found.static_details())]
    texts.append(str(await workflow.query("__temporal_workflow_metadata")))
    async for event in workflow.fetch_history_events():
        texts += [
            one.data.decode() for one in (event.user_metadata.summary, event.user_metadata.details)
        ]
    assert sum(map(bool, texts)) > 3
    for text in texts:
        shown = json.loads(text) if text.startswith('"') else text
        assert_visible(shown, layout="\n")
