import json
import re
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from temporalio.client import Client
from typer.testing import CliRunner

from outlast.cli.app import app
from outlast.client.follower import Delta, Entry, TailEvent
from outlast.client.moments import RunEvent
from outlast.client.start.runner import Runner
from outlast.testing import ScriptedModel, call
from tests.unit.cli.conftest import Invoke, Open

ASKED = RunEvent(at_ms=0, type="message_input", who="user", text="Hi", data={"text": "Hi"})
ANSWERED = RunEvent(
    at_ms=1, type="message_output_created", who="Helper", text="Hello", answers=True
)
DELTA = {"type": "response.output_text.delta", "delta": "Hel"}
AGAIN = {"type": "outlast.attempt_restarted", "attempt": 2}


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[TailEvent]:
    """What there is to follow, on no server."""
    events: list[TailEvent] = [Entry(0, ASKED), Delta("Helper", DELTA), Delta("Helper", AGAIN)]
    events.append(Entry(1, ANSWERED))

    class Connection:
        client = None

    async def connect(*_arguments: Any) -> Any:
        return Connection

    async def fake(_self: Any, *, from_event: int) -> AsyncGenerator[TailEvent]:
        for event in events:
            if isinstance(event, Delta) or (event.number or 0) >= from_event:
                yield event

    monkeypatch.setattr("outlast.cli.server.connect", connect)
    monkeypatch.setattr("outlast.client.follower.Follower.tail", fake)
    return events


def test_people_see_the_entries_and_what_is_asked_again(events: list[TailEvent]) -> None:
    done = CliRunner().invoke(app, ["tail", "r1"])
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "         user       Hi",
        "attempt 2: Helper calls the model again",
        "1970-01-01",
        "00:00:00 Helper     Hello",
    ]


def test_programs_see_every_event_on_a_line_of_its_own(events: list[TailEvent]) -> None:
    done = CliRunner().invoke(app, ["tail", "r1", "--json"])
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        event.record() for event in events
    ]


def test_one_can_begin_later(events: list[TailEvent]) -> None:
    done = CliRunner().invoke(app, ["tail", "r1", "--json", "--from-event", "1"])
    ids = [json.loads(line).get("id") for line in done.stdout.splitlines()]
    assert ids == [None, None, 1]
    assert CliRunner().invoke(app, ["tail", "r1", "--from-event", "-1"]).exit_code == 2


@pytest.mark.smoke
async def test_a_run_is_followed_to_its_end(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel([call("look_up", "c1", order_id="A-17")], "It is here."))
    await Runner.start("Helper", "Where?", id=run_id, client=client, task_queue=queue)

    shown = await cli("tail", run_id)
    records = [
        json.loads(line) for line in (await cli("tail", run_id, "--json")).stdout.splitlines()
    ]

    assert shown.exit_code == 0
    day, first = shown.stdout.splitlines()[:2]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", day)
    assert re.fullmatch(r"\d\d:\d\d:\d\d user       Where\?", first)
    assert "Helper     It is here.\n" in shown.stdout
    said = [one["data"].get("delta", "") for one in records if one["type"] == "raw_response_event"]
    assert "".join(said) == "It is here."
    numbers = [one["id"] for one in records if "id" in one]
    assert numbers == list(range(len(numbers)))


async def test_a_run_that_is_not_there_is_not_found(cli: Invoke, client: Client) -> None:
    assert (await cli("tail", "never-was")).exit_code == 4
