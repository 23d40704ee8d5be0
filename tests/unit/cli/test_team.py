"""Teams from the command line, on a real server with a worker."""

import json
from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client

from outlast.client.identity import os_user
from outlast.client.teams import Team
from outlast.testing import ScriptedModel
from tests.hostile_text import assert_visible
from tests.unit.cli.conftest import Invoke, Open

HOSTILE = "eve \x1b[2J\u202e **b** <b>"


@pytest.fixture
async def team(client: Client, run_id: str, open_desk: Open) -> AsyncIterator[list[str]]:
    """The name of a team with its task queue, as arguments of a command; the team ends at the end."""
    queue = await open_desk(ScriptedModel("Yes."))
    yield [f"t-{run_id}", "--task-queue", queue]
    await client.get_workflow_handle(Team(client, f"t-{run_id}")._id).terminate()


async def test_people_go_on_duty_and_leave_it(cli: Invoke, team: list[str]) -> None:
    name, *queue = team
    went = await cli("team", "on", name, *queue, "--capacity", "2", "--until", "8h")
    you = os_user().subject
    assert f"{you} is on duty in {name}, with 0 conversations." in went.stdout
    await cli("team", "on", name, HOSTILE, *queue)
    shown = await cli("team", "show", name)
    assert_visible(shown.stdout, layout="\n")
    assert "takes turns, at most 5 for each" in shown.stdout
    assert "No conversation waits for the team." in shown.stderr
    left = await cli("team", "off", name)
    assert f"{you} is off duty in {name}, with 0 conversations." in left.stdout
    found = json.loads((await cli("team", "show", name, "--json")).stdout)
    assert [(one["on_duty"], one["capacity"]) for one in found["members"]] == [
        (False, 2),
        (True, 5),
    ]
    assert found["members"][0]["until"] is None


async def test_a_team_assigns_otherwise(cli: Invoke, team: list[str]) -> None:
    name, *queue = team
    options = ("--capacity", "3", "--return-after", "15min")
    said = await cli("team", "rule", name, "least_busy", *queue, *options)
    assert "looks who has the fewest, at most 3 for each, back after 15 min" in said.stdout
    found = json.loads((await cli("team", "show", name, "--json")).stdout)
    assert (found["rule"], found["return_after_seconds"]) == ("least_busy", 900)


async def test_a_team_that_nobody_has_begun_is_empty(cli: Invoke, run_id: str) -> None:
    shown = await cli("team", "show", f"none-{run_id}")
    assert f"Nobody was ever on duty: `outlast team on none-{run_id}`." in shown.stderr
