"""Each problem of repeated work is said once, and so is its end."""

import asyncio
import logging

import pytest
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.errors import UserError
from outlast.temporal.repeated import RepeatedWork

AWAY = RPCError("The server is away.", RPCStatusCode.UNAVAILABLE, b"")


def said_of(caplog: pytest.LogCaptureFixture, *outcomes: BaseException | None) -> list[str]:
    """Return what is logged about work with these outcomes, in order."""
    work = RepeatedWork(fails="It fails", works="It works again.", crashes="It crashed")
    for one in outcomes:
        with work.attempt():
            if one is not None:
                raise one
    return caplog.messages


def test_a_problem_is_said_once_and_then_that_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    other = UserError("No archive.")
    assert said_of(caplog, None, AWAY, AWAY, other, AWAY, None, None) == [
        "It fails: The server is away. It is tried again.",
        "It fails: No archive. It is tried again.",
        "It fails: The server is away. It is tried again.",
        "It works again.",
    ]


def test_what_nobody_expects_is_said_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    assert said_of(caplog, KeyError("x"), None) == ["It crashed", "It works again."]
    assert caplog.records[0].levelno == logging.ERROR
    assert caplog.records[0].exc_info is not None


def test_a_problem_may_be_said_without_an_error(caplog: pytest.LogCaptureFixture) -> None:
    work = RepeatedWork(fails="It fails", works="It works again.", then="Wait.")
    for problem in ("2 failed.", "2 failed.", ""):
        with work.attempt():
            work.problem = problem
    assert caplog.messages == ["It fails: 2 failed. Wait.", "It works again."]


def test_a_cancellation_leaves_the_block(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(asyncio.CancelledError):
        said_of(caplog, asyncio.CancelledError())
    assert caplog.messages == []
