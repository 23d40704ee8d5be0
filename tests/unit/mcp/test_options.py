"""The options of MCP servers."""

from datetime import timedelta
from typing import Any

import pytest

from outlast.agents.checks import check_seconds
from outlast.agents.errors import UserError
from outlast.agents.tools.definition import ToolRetry
from outlast.mcp.options import SHORTEST_WAIT
from outlast.mcp.servers import MCPServerStreamableHttp


@pytest.mark.parametrize(
    ("options", "retry"),
    [
        ({}, ToolRetry(errors=False)),
        ({"max_retry_attempts": 0}, ToolRetry(attempts=1)),
        ({"max_retry_attempts": 4}, ToolRetry(attempts=5)),
        ({"max_retry_attempts": -1}, ToolRetry(attempts=100)),
        (
            {"retry_backoff_seconds_base": 0.5, "max_retry_attempts": 2},
            ToolRetry(initial_interval=timedelta(seconds=0.5)),
        ),
        (
            {"retry_backoff_seconds_base": 0},
            ToolRetry(errors=False, initial_interval=SHORTEST_WAIT),
        ),
        (
            {"retry_backoff_seconds_base": 60, "max_retry_attempts": 2},
            ToolRetry(initial_interval=timedelta(minutes=1), maximum_interval=timedelta(minutes=1)),
        ),
        (
            {"retry_backoff_seconds_base": 8, "retry_backoff_seconds_max": 4},
            ToolRetry(
                errors=False,
                initial_interval=timedelta(seconds=4),
                maximum_interval=timedelta(seconds=4),
            ),
        ),
        ({"retry_backoff_seconds_max": None}, ToolRetry(errors=False)),
    ],
)
def test_how_failed_calls_are_tried_again(options: Any, retry: ToolRetry) -> None:
    assert MCPServerStreamableHttp({"url": "http://s"}, **options).tool_retry == retry


@pytest.mark.parametrize("given", [None, 0.0, 5, 0.5])
def test_a_time_out_is_seconds(given: float | None) -> None:
    check_seconds("S", given)


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), 1e20, 10**400, 5e-7])
def test_seconds_that_are_no_duration_are_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="S must be a non-negative finite number") as caught:
        check_seconds("S", wrong)
    assert isinstance(caught.value, UserError)


@pytest.mark.parametrize("wrong", [True, "5", timedelta(seconds=5)])
def test_a_time_out_that_is_no_number_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="S must be a number of seconds or None"):
        check_seconds("S", wrong)


def test_a_time_out_that_may_not_be_zero() -> None:
    check_seconds("S", 0.5, positive=True)
    with pytest.raises(ValueError, match="S must be positive and finite, not 0"):
        check_seconds("S", 0, positive=True)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_retry_attempts": -2}, "The MCP server 'S': max_retry_attempts must be"),
        ({"max_retry_attempts": True}, "The MCP server 'S': max_retry_attempts must be"),
        (
            {"retry_backoff_seconds_base": -1},
            "The MCP server 'S': retry_backoff_seconds_base must be",
        ),
        (
            {"retry_backoff_seconds_max": -1},
            "The MCP server 'S': retry_backoff_seconds_max must be",
        ),
    ],
)
def test_numbers_that_make_no_sense_are_refused(options: Any, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        MCPServerStreamableHttp({"url": "http://s"}, name="S", **options)
