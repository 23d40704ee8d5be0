"""Showing what the package logs."""

import logging
from collections.abc import Iterator

import pytest

from outlast.agents.logs import enable_verbose_stdout_logging


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
