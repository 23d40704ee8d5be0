"""The inbox on the command line."""

import asyncio
import json
import os
import re
import signal
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import pytest
from temporalio.client import Client
from typer.testing import CliRunner

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy, Audience
from outlast.agents.tools.function_tool import function_tool
from outlast.cli import inbox, terminal
from outlast.cli.app import app
from outlast.client.handle import RunHandle
from outlast.client.identity import os_user
from outlast.client.inbox import InboxChange, InboxEntry
from outlast.client.people.nested_requests import FoundRequest
from outlast.client.start.runner import Runner
from outlast.edges.rendering import shown_time
from outlast.loop.approvals import ApprovalRequest, ApprovalTerms, Claim
from outlast.loop.approvals import Audience as Terms
from outlast.loop.state import LoopState
from outlast.testing import ScriptedModel, call
from outlast.testing import say as said
from outlast.views.run import snapshot_of
from tests.hostile_text import assert_visible
from tests.unit.cli.conftest import Invoke, Open

Started: TypeAlias = asyncio.subprocess.Process
HOSTILE = "A-42\x1b[2K\u202e\u200b\nerror: all is well"
COLOURS = re.compile(r"\x1b\[(?:[0-9;]*m|\?25[lh]|1A|2K)|\r")


def desk(group: str = "billing") -> Agent[Any]:
    """Return an agent whose refunds are decided by a group, and whose other tool by anybody."""
    policy = ApprovalPolicy(
        audience=Audience(groups=[group]),
        expires_in=timedelta(hours=3),
        quorum=2,
        reason="above 100 EUR",
    )

    @function_tool(effect="external_reversible", needs_approval=policy)
    def refund(order_id: str) -> str:
        """Refund an order."""
        return f"{order_id} is refunded"

    @function_tool(needs_approval=True)
    def note(text: str) -> str:
        """Write a note."""
        return text

    return Agent[Any](name="Desk", instructions="Help.", tools=[refund, note])


async def listed_run(
    cli: Invoke, client: Client, open_desk: Open, run_id: str, *script: Any, **options: Any
) -> RunHandle:
    """Start a run that waits, and wait until visibility has it."""
    script = script or ([call("refund", "c1", order_id="A-42")], "Refunded.")
    queue = await open_desk(ScriptedModel(*script), desk(**options))
    handle = await Runner.start("Desk", "Refund", id=run_id, client=client, task_queue=queue)
    await handle.wait(lambda state: state.status == "waiting")

    async def is_listed() -> bool:
        entries = json.loads((await cli("inbox", "--json", "--limit", "1000")).stdout)
        return any(entry["run_id"] == run_id for entry in entries)

    async with asyncio.timeout(30):  # visibility is a moment behind
        while not await is_listed():  # noqa: ASYNC110  nothing announces it
            await asyncio.sleep(0.1)
    return handle


@pytest.mark.smoke
async def test_the_inbox_lists_each_request_with_what_is_asked_and_why(
    cli: Invoke,
    client: Client,
    open_desk: Open,
    run_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")  # requests of other tests may be long
    handle = await listed_run(cli, client, open_desk, run_id)

    shown = await cli("inbox", "--limit", "1000")
    entries = json.loads((await cli("inbox", "--json", "--limit", "1000")).stdout)

    assert shown.stdout.splitlines()[0].split("  ")[0] == "DUE IN"
    (line,) = [one for one in shown.stdout.splitlines() if run_id in one]
    assert re.split(r"\s{2,}", line.strip()) == [
        "2 h",
        "medium",
        "the group billing",
        run_id,
        "a1",
        'refund(order_id="A-42")',
        "external_reversible; above 100 EUR; 0 of 2 votes",
    ]
    assert re.search("Look, and decide: `outlast (inbox )?show ", shown.stderr), (
        "another may be first"
    )
    (entry,) = [one for one in entries if one["run_id"] == run_id]
    assert (entry["what"], entry["pending"], entry["risk"]) == (["refund"], 1, "medium")
    assert (entry["people"], entry["for_anybody"]) == (["billing"], False)
    (request,) = entry["requests"]
    assert (request["run_id"], request["id"], request["effect"]) == (
        run_id,
        "a1",
        "external_reversible",
    )
    await handle.cancel()


async def test_of_a_run_only_the_requests_that_fit_are_listed(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    both = [call("refund", "c1", order_id="A-42"), call("note", "c2", text="x")]
    handle = await listed_run(cli, client, open_desk, run_id, both, group="nobody-is-in-it")

    async def found(*options: str) -> list[str]:
        entries = json.loads((await cli("inbox", "--json", "--limit", "1000", *options)).stdout)
        return [
            request["id"]
            for entry in entries
            if entry["run_id"] == run_id
            for request in entry["requests"]
        ]

    assert await found() == ["a1", "a2"]
    assert await found("--mine") == ["a2"]
    assert await found("--group", "nobody-is-in-it") == ["a1"]
    await handle.cancel()


async def test_a_group_for_which_nothing_waits(
    cli: Invoke, client: Client, open_desk: Open
) -> None:
    await open_desk(ScriptedModel())
    shown = await cli("inbox", "--group", "nobody-else-is-in-it", "--risk", "high", "--due", "2h")
    assert (shown.exit_code, shown.stdout) == (0, "")
    assert "Nothing waits for people." in shown.stderr


async def test_a_length_that_is_none(cli: Invoke, client: Client, open_desk: Open) -> None:
    await open_desk(ScriptedModel())
    shown = await cli("inbox", "--due", "soon")
    assert shown.exit_code == 2
    assert "'soon' is no length of time" in shown.stderr


@pytest.mark.parametrize(
    "options", [["--group", "billing"], ["--mine"], ["--address", "127.0.0.1:1"], ["-w"]]
)
def test_an_option_before_a_command_of_the_inbox_is_refused(options: list[str]) -> None:
    done = CliRunner().invoke(app, ["inbox", *options, "show", "r1"])
    assert done.exit_code == 2
    assert "stands before show, where it has no effect." in done.stderr


# --- One run --------------------------------------------------------------------------------------


async def test_the_requests_of_a_run_are_shown_in_full(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    reply = [*said("The boss agreed.\n  risk       none"), call("refund", "c1", order_id="A-42")]
    queue = await open_desk(ScriptedModel(reply, "Done."), desk(group=os_user().groups[0]))
    handle = await Runner.start("Desk", "Refund", id=run_id, client=client, task_queue=queue)
    await handle.wait(lambda state: state.status == "waiting")

    shown = (await cli("inbox", "show", run_id)).stdout
    (record,) = json.loads((await cli("inbox", "show", run_id, "--json")).stdout)
    unknown = await cli("inbox", "show", run_id, "a9")

    assert shown.startswith(f"{run_id} waits for a person:\n  call       refund (a1)\n")
    assert "  effect     external_reversible\n  risk       medium\n" in shown
    assert "  votes      0 of 2, each by another person\n" in shown
    assert "  model says ┊ The boss agreed.\n             ┊   risk       none\n" in shown
    assert shown.index("arguments") < shown.index("model says")
    assert f"  outlast approve {run_id} a1 --digest " in shown
    assert record["model_words"] == "The boss agreed.\n  risk       none"
    assert (record["status"], record["votes"], record["votes_needed"]) == ("pending", [], 2)
    assert unknown.exit_code == 5
    assert "has no approval 'a9'. Pending: a1." in unknown.stderr

    await cli("reject", run_id, "-m", "No.")
    await handle.result()
    settled = await cli("inbox", "show", run_id, "a1")
    assert f"  status     rejected by {os_user().subject}\n" in settled.stdout
    assert "outlast approve" not in settled.stdout
    assert (await cli("inbox", "show", run_id)).exit_code == 5
    assert (await cli("inbox", "show", "never-was")).exit_code == 4


# --- Following ------------------------------------------------------------------------------------


@pytest.fixture
async def start(home: Any) -> AsyncIterator[Callable[..., Awaitable[Started]]]:
    """Return a function that starts `outlast`; what still runs at the end is killed."""
    processes: list[Started] = []

    async def run(*arguments: str, **environment: str) -> Started:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "outlast.cli.entry", *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "COLUMNS": "200", **environment},
            # A shell starts its background jobs with SIGINT ignored, and so its tests' children.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        processes.append(process)
        return process

    yield run
    for process in processes:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def until(process: Started, words: str) -> str:
    assert process.stdout is not None
    read = process.stdout.readuntil(words.encode())
    return (await asyncio.wait_for(read, 60)).decode()


@pytest.mark.parametrize(
    "where", ["pipe", pytest.param("terminal", marks=pytest.mark.smoke), "json"]
)
async def test_the_inbox_is_followed_until_ctrl_c(
    cli: Invoke,
    client: Client,
    open_desk: Open,
    run_id: str,
    start: Callable[..., Awaitable[Started]],
    where: str,
) -> None:
    script = ([call("refund", "c1", order_id=HOSTILE)], "Done.")
    handle = await listed_run(cli, client, open_desk, run_id, *script, group=f"group-{run_id}")
    process = await start(
        *("inbox", "--watch", "--group", f"group-{run_id}"),
        *(["--json"] if where == "json" else []),
        **({"FORCE_COLOR": "1"} if where == "terminal" else {}),
    )

    shown = await until(process, run_id)
    if where != "terminal":
        shown += await until(process, "\n")
        await handle.cancel()
        shown += await until(process, "removed")
    process.send_signal(signal.SIGINT)
    rest, complaint = await asyncio.wait_for(process.communicate(), 60)

    assert process.returncode == 130, complaint
    assert b"Traceback" not in complaint
    shown = COLOURS.sub("", shown + rest.decode())
    assert_visible(shown, layout="\n")
    assert "\nerror: all is well" not in shown
    if where == "json":
        added, removed = map(json.loads, shown.splitlines())
        assert (added["change"], removed["change"]) == ("added", "removed")
        assert json.loads(added["requests"][0]["arguments"]) == {"order_id": HOSTILE}
    elif where == "pipe":
        first, last = shown.splitlines()
        assert re.match(
            rf"added +2 h +medium +the group group-{run_id} +{run_id} a1 +refund", first
        )
        assert last.startswith("removed")
    else:
        assert "DUE IN" in shown
        await handle.cancel()


def entry(run_id: str, **fields: Any) -> InboxEntry:
    started = datetime(2026, 11, 23, tzinfo=UTC)
    client: Any = None
    return InboxEntry(run_id=run_id, started=started, client=client, **fields)


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> list[InboxChange]:
    """What there is to follow on no server, until Ctrl-C."""
    changes: list[InboxChange] = []

    class Connection:
        client = None

    class Inbox:
        def __init__(self, _client: Any) -> None:
            pass

        async def watch(self, **_criteria: Any) -> AsyncGenerator[InboxChange]:
            for change in changes:
                yield change
            raise KeyboardInterrupt

    async def connect(*_arguments: Any) -> Any:
        return Connection

    async def found(entry: InboxEntry) -> tuple[FoundRequest, ...]:
        if entry.run_id == "r2":
            raise TimeoutError
        return (FoundRequest(REQUEST, snapshot_of(LoopState())),)

    monkeypatch.setattr("outlast.cli.server.connect", connect)
    monkeypatch.setattr("outlast.client.inbox.Inbox", Inbox)
    monkeypatch.setattr(InboxEntry, "found", found)
    return changes


REQUEST = ApprovalRequest(
    id="a1",
    call_id="c1",
    name="refund",
    agent="Desk",
    arguments='{"order_id": "A-42"}',
    args_digest="d",
    reason="above 100 EUR",
    requested_at_ms=1,
    expires_at_ms=2,
    claim=Claim(by="bob", until_ms=2**52),
    terms=ApprovalTerms(risk="high", audience=Terms(subjects=("ann",))),
)


def test_a_pipe_gets_a_line_for_each_change(changes: list[InboxChange]) -> None:
    unread = entry("r2", tools=("pay",), people=("billing",), for_anybody=True, pending=1)
    changes += [
        InboxChange("added", entry("r1")),
        InboxChange("changed", unread),
        InboxChange("removed", entry("r1")),
    ]

    done = CliRunner().invoke(app, ["inbox", "--watch"])

    assert done.exit_code == 130
    call_and_why = 'refund(order_id="A-42") above 100 EUR; bob works on it'
    assert done.stdout.splitlines() == [
        f"added   now    high   ann r1 a1 {call_and_why}",
        "changed -      low    billing, anybody r2 pay its history cannot be read",
        f"removed now    high   ann r1 a1 {call_and_why}",
    ]


def test_a_terminal_keeps_the_newest_table_after_ctrl_c(
    changes: list[InboxChange], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("LINES", "25")
    changes += [InboxChange("added", entry(f"r{number}")) for number in range(3, 60)]
    changes += [InboxChange("removed", entry("r3")), InboxChange("added", entry("r2"))]

    done = CliRunner().invoke(app, ["inbox", "--watch"])

    assert done.exit_code == 130
    assert done.stdout.count("\x1b[?25l") == done.stdout.count("\x1b[?25h") == 1
    last = COLOURS.sub("", done.stdout).split("DUE IN")[-1]
    assert "and 36 more" in last
    assert " r3 " not in last
    assert " r4 " in last


def test_a_live_table_of_nothing_says_so(
    changes: list[InboxChange], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = CliRunner().invoke(app, ["inbox", "--watch"])
    assert "Nothing waits for people." in COLOURS.sub("", done.stdout)


def test_what_is_due_first_or_does_more_harm_is_first() -> None:
    def line(due_ms: int | None, risk: str) -> Any:
        return inbox.InboxRow(due_ms=due_ms, risk=risk, whom="", run_id="", what="")

    lines = [line(None, "low"), line(5, "low"), line(None, "high"), line(5, "high"), line(4, "low")]
    ordered = sorted(lines, key=inbox.InboxRow.urgency)
    assert [(one.due_ms, one.risk) for one in ordered] == [
        (4, "low"),
        (5, "high"),
        (5, "low"),
        (None, "high"),
        (None, "low"),
    ]


def test_a_live_table_prints_nothing_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.LiveTable[str](terminal.out(), [], list, "Nothing.") as table:
        table.update()
    assert capsys.readouterr().out == ""


# --- Many at once ---------------------------------------------------------------------------------


async def test_many_are_decided_after_a_list_of_what_will_happen(
    cli: Invoke,
    client: Client,
    open_desk: Open,
    run_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = os_user().groups[0]
    together = ApprovalPolicy(
        audience=Audience(groups=[group]), risk="low", bulk=True, unverified="allow"
    )
    alone = ApprovalPolicy(audience=Audience(groups=[group]), unverified="allow")

    @function_tool(needs_approval=together)
    def tidy(text: str) -> str:
        """Tidy up."""
        return text

    @function_tool(needs_approval=alone)
    def pay(amount: int) -> str:
        """Pay."""
        return str(amount)

    calls = [
        call("tidy", "c1", text="x"),
        call("pay", "c2", amount=3),
        call("tidy", "c3", text="y"),
    ]
    agent = Agent[Any](name="Desk", instructions="Help.", tools=[tidy, pay])
    queue = await open_desk(ScriptedModel(calls, "Done."), agent)
    handle = await Runner.start("Desk", "Go", id=run_id, client=client, task_queue=queue)
    await handle.wait(lambda state: state.status == "waiting")
    monkeypatch.setenv("COLUMNS", "200")

    async def list_of_run(*options: str, answer: str = "n\n") -> Any:
        async with asyncio.timeout(30):  # visibility is a moment behind
            while True:
                done = await cli("inbox", "approve-all", "--limit", "1000", *options, input=answer)
                if run_id in done.stderr or done.exit_code == 0:
                    return done
                await asyncio.sleep(0.1)

    listed = await list_of_run()
    lines = [one for one in listed.stderr.splitlines() if run_id in one]
    assert [re.split(r"\s{2,}", one)[1:3] for one in lines] == [
        ["a1", 'tidy(text="x")'],
        ["a2", "pay(amount=3)"],
        ["a3", 'tidy(text="y")'],
    ]
    assert [("is approved" in one, "stays: Its policy allows" in one) for one in lines] == [
        (True, False),
        (False, True),
        (True, False),
    ]
    assert listed.stderr.endswith("Nothing was decided.\n")
    assert all(one.votes == () for one in (await handle.state()).approvals)

    blind = await cli("inbox", "approve-all", "--yes")
    other = await list_of_run("--yes", "--digest", "0" * 16)
    assert (blind.exit_code, other.exit_code) == (2, 5)
    assert "another one than you have seen" in other.stderr
    done = await list_of_run(answer="y\n")
    assert done.exit_code == 0, done.stderr
    state = await handle.state()
    assert [one.status for one in state.approvals] == ["approved", "pending", "approved"]
    await handle.cancel()


async def test_where_there_is_little_room_the_reason_stands_below_the_call(
    cli: Invoke, client: Client, open_desk: Open, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = await listed_run(cli, client, open_desk, run_id)
    monkeypatch.setenv("COLUMNS", "90")
    shown = await cli("inbox", "--limit", "1000")
    assert "WHY" not in shown.stdout.splitlines()[0]
    text = re.sub(r"\s+", " ", shown.stdout)
    assert "for: the group billing" in text
    assert "why: external_reversible; above 100 EUR; 0 of 2 votes" in text
    await handle.cancel()


async def test_a_held_conversation_is_in_the_list(
    cli: Invoke, client: Client, open_desk: Open, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    queue = await open_desk(ScriptedModel("Hello."), desk())
    handle = await Runner.start(
        "Desk", "Hi", id=run_id, client=client, task_queue=queue, keep_open=True
    )
    await handle.wait(lambda state: state.status == "idle")
    await handle.hold(by="ann")
    await handle.send("Are you there?")

    async def entry_of_run() -> Any:
        found = json.loads((await cli("inbox", "--json", "--limit", "1000")).stdout)
        return next((one for one in found if one["run_id"] == run_id), None)

    async with asyncio.timeout(30):  # visibility is a moment behind
        while await entry_of_run() is None:  # noqa: ASYNC110  nothing announces it
            await asyncio.sleep(0.1)
    held = (await entry_of_run())["held"]
    assert (held["by"], held["messages"]) == ("ann", 1)
    shown = await cli("inbox", "--limit", "1000")
    (line,) = [one for one in shown.stdout.splitlines() if run_id in one]
    assert re.split(r"\s{2,}", line.strip())[:4] == ["now", "ann", run_id, "held"]
    assert "1 message of the user waits for" in line
    await handle.cancel()


def test_times_are_shown_in_utc_and_in_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        assert shown_time(0) == "1970-01-01T00:00:00.000+00:00 (1970-01-01 01:00 CET)"
        monkeypatch.setenv("TZ", "UTC")
        time.tzset()
        assert shown_time(0) == "1970-01-01T00:00:00.000+00:00"
    finally:
        monkeypatch.undo()
        time.tzset()
