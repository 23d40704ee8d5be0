"""Showing what the package logs."""

import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import outlast
from outlast import Agent, ToolRetry, function_tool
from outlast.agents.errors import UserError
from outlast.agents.logs import enable_verbose_stdout_logging, get_logger
from outlast.testing import ScriptedModel, call, run_in_memory


@pytest.fixture(autouse=True)
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("outlast")
    level, handlers = logger.level, list(logger.handlers)
    yield logger
    logger.setLevel(level)
    logger.handlers[:] = handlers


def test_what_is_logged_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    enable_verbose_stdout_logging()
    enable_verbose_stdout_logging()
    logging.getLogger("outlast.somewhere").debug("a detail")
    assert capsys.readouterr().out == "a detail\n"


def test_a_programs_own_handler_stays(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    own = logging.NullHandler()
    logger.addHandler(own)
    enable_verbose_stdout_logging()
    assert own in logger.handlers
    logging.getLogger("outlast").warning("both hear it")
    assert capsys.readouterr().out == "both hear it\n"


def _log_a_failure() -> None:
    try:
        _fail()
    except ValueError as error:
        get_logger("outlast.tests.of_texts").exception("it failed: %r", error)


def _fail() -> None:
    raise ValueError("CARD-4111")


def test_texts_of_exceptions_are_logged_by_default(caplog: pytest.LogCaptureFixture) -> None:
    _log_a_failure()
    assert "it failed: ValueError('CARD-4111')" in caplog.text
    assert "Traceback" in caplog.text


@pytest.mark.parametrize("value", ["0", "false", "No", " off "])
def test_texts_of_exceptions_can_be_kept_out(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("OUTLAST_LOG_EXCEPTION_TEXTS", value)
    _log_a_failure()
    get_logger("outlast.tests.of_texts").warning("%s", UserError("no such tool"))
    assert caplog.messages == ["it failed: 'ValueError' [ValueError]", "no such tool"]
    assert "CARD-4111" not in caplog.text


def test_every_module_that_logs_obeys_the_switch() -> None:
    package = Path(outlast.__file__).parent
    bare = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if "getLogger(__name__)" in path.read_text()
    }
    # It stands below this module, and logs the types of errors only.
    assert bare == {"temporal/payloads/readable.py"}


def test_what_others_have_written_stays_in_its_line(caplog: pytest.LogCaptureFixture) -> None:
    text = "x\nWARNING all is well\x1b[2K\u202e"
    get_logger("outlast.hostile").warning("%s and %s, %d", text, ValueError(text), 5)
    shown = "x\\u000aWARNING all is well\\u001b[2K\\u202e"
    assert caplog.messages == [f"{shown} and {shown}, 5"]


def test_what_is_printed_stays_in_its_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    enable_verbose_stdout_logging()
    logging.getLogger("outlast.somewhere").debug("a\nb\x1b")
    assert capsys.readouterr().out == "a\\u000ab\\u001b\n"


async def test_calls_of_models_and_tools_are_logged_without_their_texts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @function_tool(retry=ToolRetry(attempts=2, initial_interval=timedelta(milliseconds=1)))
    def divide(number: int) -> float:
        return 1 / number

    enable_verbose_stdout_logging()
    model = ScriptedModel(
        [call("divide", "c1", number=1)], [call("divide", "c2", number=0)], "A secret"
    )
    await run_in_memory(Agent(name="Clerk", tools=[divide]), "A question", model=model)
    logged = capsys.readouterr().out.splitlines()
    assert [line for line in logged if not line.startswith("attempt")] == [
        "The start of Clerk begins",
        "The start of Clerk is done",
        "The model call of Clerk, turn 1 begins",
        "The model call of Clerk is done: function_call",
        "The tool divide begins",
        "The tool divide is done",
        "The model call of Clerk, turn 2 begins",
        "The model call of Clerk is done: function_call",
        "The tool divide begins",
        "The tool divide failed: tool_failed",
        "The tool divide, attempt 2 begins",
        "The tool divide failed",
        "The model call of Clerk, turn 3 begins",
        "The model call of Clerk is done: message",
    ]
