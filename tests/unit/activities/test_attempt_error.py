"""A failed attempt is told in full words and a stack trace of bounded size."""

import traceback
from collections.abc import Callable
from types import CodeType
from typing import Any

import pytest
from temporalio.api.failure.v1 import Failure
from temporalio.converter import DataConverter, DefaultFailureConverter
from temporalio.testing import ActivityEnvironment

from outlast.activities.attempt_error import AttemptError


def raised(act: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011  whatever it is
        act()
    return caught.value


def told(of: Exception, message: str = "It failed.", *details: Any, **options: Any) -> Failure:
    """Return what is sent of an attempt that fails because of an exception."""

    def attempt() -> None:
        raise AttemptError(message, *details, of=of, **options) from of

    failed = ActivityEnvironment().run(raised, attempt)
    failure = Failure()
    DefaultFailureConverter().to_failure(failed, DataConverter.default.payload_converter, failure)
    return failure


def no_stock() -> None:
    raise LookupError("the shelf is empty")


def no_order() -> None:
    try:
        no_stock()
    except LookupError as error:
        raise ConnectionError("nothing ordered") from error


def in_long_path(path: str) -> Exception:
    """Return an exception raised through many functions of a file that lies deep."""
    code: CodeType = compile(
        "def down(n):\n    if n:\n        down(n - 1)\n    else:\n        return 1 / 0",
        path,
        "exec",
    )
    scope: dict[str, Any] = {}
    exec(code, scope)
    return raised(lambda: scope["down"](50))


def test_the_trace_shows_what_raised_and_why_and_nothing_twice():
    failure = told(raised(no_order), "act raised ConnectionError: nothing ordered", type="failed")
    assert failure.message == "act raised ConnectionError: nothing ordered"
    assert not failure.HasField("cause")
    for shown in ("in no_stock", "LookupError: the shelf", "the direct cause"):
        assert failure.stack_trace.count(shown) == 1
    assert failure.stack_trace.endswith("ConnectionError: nothing ordered\n")


def test_a_short_trace_is_what_python_prints():
    error = raised(no_stock)
    assert told(error).stack_trace == "".join(traceback.format_exception(error))


def test_the_four_innermost_frames_are_shown():
    trace = told(in_long_path("/file.py")).stack_trace
    assert trace.count("in down") == 4
    assert "repeated" not in trace


def test_what_says_whether_to_try_again_travels():
    info = told(raised(no_stock), "No.", {"a": 1}, type="t", non_retryable=True)
    assert info.application_failure_info.type == "t"
    assert info.application_failure_info.non_retryable
    assert info.application_failure_info.details.payloads[0].data == b'{"a":1}'


@pytest.mark.parametrize("length", [10, 200, 2_000, 20_000])
def test_however_deep_a_file_lies_the_failure_stays_small(length: int):
    failure = told(in_long_path("/long" * (length // 5) + "/file.py"))
    assert failure.ByteSize() <= 3_003, "the field itself takes three bytes"
    assert failure.message == "It failed."
    assert failure.stack_trace.endswith("ZeroDivisionError: division by zero\n")


@pytest.mark.parametrize("length", [1_000, 1_001, 1_002])
def test_a_character_that_is_cut_is_left_out(length: int):
    trace = told(ValueError("ü" * 3_000 + "x" * length)).stack_trace
    assert set(trace) == {"ü", "x", "\n"}


def test_a_long_message_leaves_no_room_for_a_trace_and_is_whole():
    failure = told(raised(no_stock), "ü" * 4_000)
    assert (failure.message, failure.stack_trace) == ("ü" * 4_000, "")


def test_half_characters_in_an_exception_do_not_stop_the_telling():
    failure = told(ValueError("half \ud83d"))
    assert failure.stack_trace == "ValueError: half ?\n"
