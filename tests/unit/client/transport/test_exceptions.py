"""The exception that stands for a failure."""

import sys
from typing import Any

import pytest

from outlast.agents.errors import (
    AgentsException,
    MaxTurnsExceeded,
    ModelBehaviorError,
    ModelTimeoutError,
    ToolFailed,
    ToolTimeoutError,
    UserError,
)
from outlast.client.transport.exceptions import STAGES_OF_TRIPWIRES, exception_of
from outlast.contract import failures
from outlast.loop.values import Failure, JsonObject


class TillError(Exception):
    """One of the program's own."""


class Picky(Exception):
    """One that cannot be made of a text."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)


def failure(details: JsonObject | None = None, code: str = failures.TOOL_FAILED) -> Failure:
    return Failure(code=code, message="The tool pay failed: no money", details=details)


def raised(name: str) -> JsonObject:
    return {"exception": name, "text": "no money"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [("builtins:ValueError", ValueError), (f"{__name__}:TillError", TillError)],
)
def test_what_users_code_raised_is_raised_again(name: str, kind: type[Exception]) -> None:
    error = exception_of(failure(raised(name), failures.USER_ERROR), run_data="the run")
    assert type(error) is kind
    assert str(error) == "no money"
    cause: Any = error.__cause__
    assert isinstance(cause, UserError)
    assert (cause.run_data, cause.message) == ("the run", "The tool pay failed: no money")


def test_what_a_tool_raised_is_the_cause_of_its_failure() -> None:
    error: Any = exception_of(failure(raised(f"{__name__}:TillError")), run_data="the run")
    assert (type(error), error.run_data) == (ToolFailed, "the run")
    assert isinstance(error.__cause__, TillError)
    assert str(error.__cause__) == "no money"


@pytest.mark.parametrize(
    "name",
    [
        "builtins:SystemExit",
        "builtins:print",
        "builtins:NoSuchThing",
        "no_such_module:Error",
        f"{__name__}:Picky",
        f"{__name__}:failure",
        "ValueError",
        "",
        5,
        None,
    ],
)
def test_what_cannot_be_made_again_is_an_error_of_ours(name: Any) -> None:
    error = exception_of(failure(raised(name)))
    assert (type(error), error.__cause__) == (ToolFailed, None)
    assert str(error) == "The tool pay failed: no money"


def test_no_module_is_imported_for_an_exception() -> None:
    sys.modules.pop("antigravity", None)
    assert type(exception_of(failure(raised("antigravity:Error")))) is ToolFailed
    assert "antigravity" not in sys.modules


def test_details_come_along() -> None:
    error: Any = exception_of(failure({"status": 503}, failures.MODEL_CALL_FAILED))
    assert error.details == {"status": 503}
    late: Any = exception_of(
        failure({"tool_name": "pay", "timeout_seconds": 2.5}, failures.TOOL_TIMEOUT)
    )
    assert isinstance(late, ToolTimeoutError)
    assert (late.tool_name, late.timeout_seconds) == ("pay", 2.5)
    slow: Any = exception_of(failure({"timeout_seconds": 2.5}, ModelTimeoutError.code))
    assert isinstance(slow, ModelTimeoutError)
    assert slow.timeout_seconds == 2.5


def test_an_error_of_a_run_that_a_tool_started_is_raised_again() -> None:
    error: Any = exception_of(failure({"code": "max_turns_exceeded"}), run_data="the run")
    assert (type(error), error.run_data) == (MaxTurnsExceeded, "the run")
    assert str(error) == "The tool pay failed: no money"
    assert type(error.__cause__) is ToolFailed


@pytest.mark.parametrize("code", ["user_error", "agents_error", "unheard_of", "", None])
def test_any_other_error_of_a_tool_is_its_failure(code: str | None) -> None:
    assert type(exception_of(failure({"code": code}))) is ToolFailed


def test_an_answer_of_the_wrong_type_is_the_models_doing() -> None:
    assert type(exception_of(failure(code=failures.INVALID_OUTPUT))) is ModelBehaviorError


def test_an_error_of_ours_that_users_code_raised_has_the_run() -> None:
    name = f"{ToolFailed.__module__}:ToolFailed"
    error: Any = exception_of(failure(raised(name), "user_error"), run_data="the run")
    assert isinstance(error, AgentsException)
    assert error.run_data == "the run"


def test_the_codes_of_tripwires_name_their_guardrails() -> None:
    codes = [
        failures.INPUT_GUARDRAIL,
        failures.OUTPUT_GUARDRAIL,
        failures.TOOL_INPUT_GUARDRAIL,
        failures.TOOL_OUTPUT_GUARDRAIL,
        failures.TOOL_FAILED,
    ]
    stages = ["input", "output", "tool_input", "tool_output", None]
    assert [STAGES_OF_TRIPWIRES.get(code) for code in codes] == stages
