"""The tool with which an agent lets time pass."""

import json
from datetime import timedelta
from typing import Any

import pytest

from outlast import Agent, RunContextWrapper, ToolContext, UserError, sleep_tool
from outlast.agents.context.waits import Wait
from outlast.agents.tools import sleep as module

NOW_MS = 1_795_000_000_000
"""2026-11-18T11:06:40 in UTC."""


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "now_ms", lambda: NOW_MS)


async def slept(tool: Any = None, **arguments: Any) -> Any:
    """Call the tool as a model does."""
    tool = tool or sleep_tool()
    context = ToolContext[Any].from_agent_context(
        RunContextWrapper[Any](None),
        "c1",
        agent=Agent[Any](name="A"),
        tool_name=tool.name,
        tool_arguments="{}",
    )
    return await tool.on_invoke_tool(context, json.dumps(arguments))


@pytest.mark.parametrize(
    ("arguments", "seconds"),
    [
        ({"minutes": 90}, 5_400),
        ({"minutes": 0.5}, 30),
        ({"until": "2026-11-18T12:06:40+00:00"}, 3_600),
        ({"until": "2026-11-18T13:06:40+01:00"}, 3_600),
        ({"until": "2026-11-19T11:06:40Z"}, 86_400),
    ],
)
async def test_an_agent_sleeps_for_a_time_or_until_one(
    arguments: dict[str, Any], seconds: int
) -> None:
    found = await slept(**arguments)
    assert isinstance(found, Wait)
    wait = found.begun(is_output=True)
    assert wait.timeout_ms == seconds * 1_000
    assert wait.until_message
    assert str(wait.value).startswith("You slept until 2026-11-")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "give either minutes or until"),
        ({"minutes": 5, "until": "2026-11-19T12:26:40Z"}, "give either minutes or until"),
        ({"minutes": -5}, "has come already"),
        ({"until": "2026-11-18T11:06:40+01:00"}, "has come already"),
        ({"minutes": 1e300}, "must be a number of minutes"),
        (
            {"minutes": 60 * 24 * 8},
            "192.0 hours is longer than you may sleep, which is 168.0 hours",
        ),
        ({"until": "tomorrow"}, "must be a time in ISO 8601"),
        ({"until": "2026-11-19T12:26:40"}, "needs its offset from UTC"),
    ],
)
async def test_what_a_model_asks_for_wrongly_is_said_to_it(
    arguments: dict[str, Any], told: str
) -> None:
    found = await slept(**arguments)
    assert isinstance(found, str)
    assert told in found


async def test_the_program_bounds_the_sleep() -> None:
    tool = sleep_tool(longest=timedelta(minutes=30), name="wait")
    assert tool.name == "wait"
    assert "30 minutes" in await slept(tool, minutes=31)


@pytest.mark.parametrize("longest", [timedelta(), timedelta(days=-1), 5])
def test_a_bound_that_is_none_is_refused(longest: Any) -> None:
    with pytest.raises((UserError, TypeError), match="longest"):
        sleep_tool(longest=longest)
