"""Schedules from the command line."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.client import Client

from outlast.agents.checks import duration_of
from outlast.agents.errors import UserError
from outlast.cli.durations import coming_time
from outlast.cli.schedule import When
from outlast.client.handle import RunHandle
from outlast.client.identity import os_user
from outlast.client.schedules import Schedules
from outlast.client.start import options as start_options
from outlast.testing import ScriptedModel
from tests.hostile_text import assert_visible
from tests.unit.cli.conftest import Invoke, Open

NOON = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)


@pytest.fixture
async def name(client: Client, run_id: str) -> AsyncIterator[str]:
    """The id of a schedule, which is deleted at the end."""
    yield f"s-{run_id}"
    for one in await Schedules(client).list():
        if one.id.startswith(f"s-{run_id}"):
            await Schedules(client).delete(one.id)


async def shown(cli: Invoke, name: str) -> dict[str, Any]:
    return json.loads((await cli("schedule", "show", name, "--json")).stdout)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("3d", "2026-11-29T12:00:00+00:00"),
        ("1h 30m", "2026-11-26T13:30:00+00:00"),
        ("2026-11-30T09:00+01:00", "2026-11-30T09:00:00+01:00"),
        ("2026-11-30 09:00", "2026-11-30T09:00:00"),
    ],
)
def test_a_time_that_is_to_come_is_named(text: str, time: str) -> None:
    assert coming_time(text, "--at", NOON).isoformat() == time


@pytest.mark.parametrize("text", ["monday", "", "9999999999w", "2026-13-01", "\x1b[2J"])
def test_what_is_no_time_is_refused_in_words(text: str) -> None:
    with pytest.raises(UserError) as refused:
        coming_time(text, "--at", NOON)
    assert str(refused.value) == (
        f"--at {text!r} is no time. Write a length from now, such as 90min or 3d, or a time, such as "
        "2026-11-30T09:00 or 2026-11-30T09:00+01:00."
    )
    with pytest.raises(UserError, match=r"--every .* is no length of time. Write such as 30min"):
        duration_of(text, "--every")
    with pytest.raises(UserError) as refused:
        duration_of(text)
    assert str(refused.value).startswith(f"{text!r} is no length of time.")


def test_a_time_without_a_zone_is_one_of_this_machine() -> None:
    times = When(at="2099-11-30T09:00").times()
    here = datetime.fromisoformat("2099-11-30T09:00").astimezone(UTC)
    assert times.once() == here
    berlin = When(at="2099-11-30T09:00", time_zone="Europe/Berlin").times()
    assert berlin.once() == datetime(2099, 11, 30, 8, tzinfo=UTC)


def test_options_are_times() -> None:
    times = When(
        cron=["0 9 * * *"], every="2h", offset="30min", time_zone="Europe/Berlin", jitter="5min"
    ).times()
    assert (times.expressions, times.every, times.offset, times.jitter) == (
        ("0 9 * * *",),
        timedelta(hours=2),
        timedelta(minutes=30),
        timedelta(minutes=5),
    )


@pytest.mark.smoke
async def test_a_schedule_is_created_fired_and_deleted(
    cli: Invoke, client: Client, open_desk: Open, name: str
) -> None:
    queue = await open_desk(ScriptedModel("A quiet week."))
    options = ("--agent", "Helper", "--task-queue", queue, "--tenant", "acme")
    times = ("--cron", "0 9 * * MON", "--time-zone", "Europe/Berlin")
    made = await cli("schedule", "create", name, "Sum up the week.", *options, *times)
    assert made.exit_code == 0, made.stderr
    assert made.stdout.startswith(
        f'Created {name}: starts Helper "Sum up the week.", 0 9 * * MON in Europe/Berlin. First at 20'
    )
    assert made.stderr == f"See it: `outlast schedule show {name}`.\n"
    again = await cli("schedule", "create", name, "Sum up the week.", *options, *times, "--json")
    assert json.loads(again.stdout) == await shown(cli, name)

    paused = await cli("schedule", "pause", name)
    assert paused.stdout == f"Paused {name}. Its times pass until it is resumed.\n"
    record = await shown(cli, name)
    assert (record["status"], record["note"]) == ("paused", f"paused by {os_user().subject}")
    triggered = await cli("schedule", "trigger", name)
    assert triggered.stdout == f"Fired {name}.\n"
    async with asyncio.timeout(30):
        while not record["recent"] or record["recent"][0]["status"] == "open":
            record = await shown(cli, name)
    [firing] = record["recent"]
    assert firing["status"] == "completed"
    result = await RunHandle(client, firing["run_id"]).result()
    assert result.final_output == "A quiet week."

    text = (await cli("schedule", "show", name)).stdout
    first = text.splitlines()[0]
    assert first == f'{name} paused starts Helper "Sum up the week."'
    assert "1 times, 0 skipped, 0 missed" in text
    assert f"{firing['run_id']} completed" in text

    resumed = await cli("schedule", "resume", name, "--note", "back from holiday")
    assert resumed.stdout == f"Resumed {name}.\n"
    record = await shown(cli, name)
    assert (record["status"], record["note"]) == ("active", "back from holiday")
    listed: list[dict[str, Any]] = []
    async with asyncio.timeout(30):
        while name not in [one["id"] for one in listed]:  # lists are a moment behind
            listed = json.loads((await cli("schedule", "list", "--json")).stdout)
    table = (await cli("schedule", "list")).stdout
    assert table.split()[:4] == ["ID", "STATUS", "WHEN", "NEXT"]
    [row] = [line for line in table.splitlines() if line.startswith(name)]
    assert "0 9 * * MON in Europe/Berlin" in row

    assert (await cli("schedule", "delete", name)).stdout == f"Deleted {name}.\n"
    gone = await cli("schedule", "show", name)
    assert gone.exit_code == 4
    assert f"There is no schedule '{name}' in the namespace 'default'." in gone.stderr


async def test_one_time_messages_a_conversation(
    cli: Invoke, client: Client, open_desk: Open, name: str, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel("Nothing new."))
    options = ("--to", run_id, "--agent", "Helper", "--task-queue", queue, "--at", "3s")
    made = await cli("schedule", "create", name, "Any news?", *options)
    assert made.exit_code == 0, made.stderr
    assert f'Created {name}: sends {run_id} "Any news?", once, at ' in made.stdout
    record = await shown(cli, name)
    async with asyncio.timeout(30):
        while not record["recent"] or record["recent"][0]["status"] == "open":
            record = await shown(cli, name)
    assert (record["status"], record["next"]) == ("done", [])
    handle = RunHandle(client, run_id)
    answer = await handle.wait_for_answer(record["recent"][0]["run_id"])
    assert answer.final_output == "Nothing new."
    await handle.cancel("after_turn")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--every", "soon", "--agent", "A"), "--every 'soon' is no length of time"),
        (("--cron", "mondays", "--agent", "A"), "CronString does not have 5-7 fields"),
        (("--every", "2h", "--agent", "A", "--context", "{"), "--context is not JSON"),
    ],
)
async def test_a_schedule_that_does_not_fit_is_refused_in_words(
    cli: Invoke, client: Client, name: str, options: tuple[str, ...], problem: str
) -> None:
    done = await cli("schedule", "create", name, "Hello", *options)
    assert (done.exit_code, done.stdout) == (2, "")
    assert problem in done.stderr


async def test_a_conversation_that_is_not_there(cli: Invoke, client: Client, name: str) -> None:
    done = await cli("schedule", "create", name, "Hello", "--every", "2h", "--to", "no-one")
    assert done.exit_code == 4
    assert "There is no run 'no-one'" in done.stderr
    assert "With an agent, the first message starts the conversation." in done.stderr


async def test_nothing_hidden_reaches_who_reads(
    cli: Invoke, client: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model may have written the text of a schedule, and anybody its note."""

    def anything(_id: object) -> None:
        """The command refuses such an id; who reaches the server makes schedules without it."""

    monkeypatch.setattr(start_options, "_check_new_id", anything)
    hostile = "x\x1b[2K\u202e\u200b\x7f [bold]y[/bold]\nerror: all is well"
    odd = f"{name}\x1b[2K\u202e"
    options = ("--agent", hostile, "--every", "2h", "--note", hostile)
    made = await cli("schedule", "create", odd, hostile, *options)
    assert made.exit_code == 0, made.stderr
    async with asyncio.timeout(30):
        while f"s-{name[2:]}" not in (listed := (await cli("schedule", "list")).stdout):  # noqa: ASYNC110  a moment behind
            await asyncio.sleep(0.05)
    outputs = [
        made.stdout + made.stderr,
        (await cli("schedule", "show", odd)).stdout,
        listed,
        (await cli("schedule", "pause", odd, "--note", hostile)).stdout,
        (await cli("schedule", "delete", odd)).stdout,
        (await cli("schedule", "show", odd)).stderr,
    ]
    for output in outputs:
        assert output
        assert_visible(output, layout="\n")
        assert "\nerror: all is well" not in output
