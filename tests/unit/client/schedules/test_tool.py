"""The tool with which an agent sends itself a message later: what a model may not ask for."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from outlast import Agent, ToolContext, UserError, schedule_tool
from outlast.testing import ScriptedModel, call, run_in_memory

NOW = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)


async def told(**arguments: Any) -> str:
    """Call the tool as a worker does, and return what the model reads."""
    tool = schedule_tool(longest=timedelta(days=2))
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, scheduled_time=NOW)

    async def attempt() -> str:
        context = ToolContext(None, tool_name=tool.name, tool_call_id="c1", tool_arguments="{}")
        return str(await tool.on_invoke_tool(context, json.dumps(arguments)))

    return await environment.run(attempt)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "give either minutes or at."),
        ({"minutes": 5, "at": "2026-11-27T09:00:00Z"}, "give either minutes or at."),
        ({"at": "monday"}, "at must be a time in ISO 8601, such as 2026-11-30T09:00:00+01:00."),
        ({"at": "2026-11-27T09:00:00"}, "at needs its offset from UTC"),
        ({"minutes": 1e300}, "minutes must be a number of minutes."),
        ({"minutes": 0}, "that time has come already."),
        ({"at": "2026-11-26T12:00:00Z"}, "that time has come already."),
        ({"at": "2026-11-28T12:00:01Z"}, "48.0 hours is further ahead than 48.0 hours."),
        ({"at": "2026-12-26T12:00:00Z"}, "720.0 hours is further ahead than 48.0 hours."),
        ({"minutes": 5, "text": " "}, "text must have 1 to 2,000 characters."),
        ({"minutes": 5, "text": "x" * 2_001}, "text must have 1 to 2,000 characters."),
    ],
)
async def test_a_model_reads_why_nothing_is_planned(
    arguments: dict[str, Any], problem: str
) -> None:
    read = await told(**{"text": "Ask again.", **arguments})
    assert read.startswith(f"Not scheduled: {problem}")


async def test_a_run_without_a_server_plans_nothing() -> None:
    agent = Agent[Any](name="A", tools=[schedule_tool()])
    model = ScriptedModel([call("remind_me_later", "c1", text="x", minutes=5)], "Ok.")
    await run_in_memory(agent, "Hi", model=model)
    assert model.requests[1].input[-1]["output"] == (
        "Not scheduled: this run has no server that could keep the time."
    )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"longest": 5}, "must be a timedelta, not 5"),
        ({"longest": timedelta()}, "must be longer than zero"),
        ({"most": 0}, "must be longer than zero"),
    ],
)
def test_bounds_that_do_not_fit_are_refused(options: Any, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        schedule_tool(**options)


async def test_people_may_decide_first() -> None:
    agent = Agent[Any](name="A", tools=[schedule_tool(needs_approval=True)])
    model = ScriptedModel([call("remind_me_later", "c1", text="x", minutes=5)], "Ok.")
    result = await run_in_memory(agent, "Hi", model=model)
    assert [one.name for one in result.interruptions] == ["remind_me_later"]
