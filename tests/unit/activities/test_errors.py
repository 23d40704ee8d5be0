"""How an effect fails, and whether another try can help."""

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.activities.errors import (
    LONGEST_MESSAGE,
    USER_CODE_ATTEMPTS,
    EffectError,
    cut,
    failure_of,
    fitting,
    is_retryable,
    of_model,
    of_model_code,
    of_user_code,
)
from outlast.agents.errors import ModelRefusalError, ToolFailed, UserError
from outlast.loop.values import Failure
from outlast.ports.model import ModelError


@pytest.mark.parametrize(
    "error",
    [
        TypeError(),
        AttributeError(),
        NameError(),
        UnboundLocalError(),
        ImportError(),
        ModuleNotFoundError(),
        NotImplementedError(),
        AssertionError(),
        SyntaxError(),
        UserError(),
        ToolFailed(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_another_try_would_repeat_is_not_tried_again(error: Exception) -> None:
    assert not is_retryable(error)


@pytest.mark.parametrize(
    "error",
    [
        ValueError(),
        KeyError(),
        RuntimeError(),
        OSError(),
        TimeoutError(),
        ConnectionResetError(),
        ExceptionGroup("several", [ValueError()]),
        json.JSONDecodeError("bad", "", 0),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_may_pass_is_tried_again(error: Exception) -> None:
    assert is_retryable(error)


def test_a_providers_failure_keeps_what_programs_want_to_know() -> None:
    wait = timedelta(seconds=7)
    error = of_model(
        ModelError("Slow down.", code="rate_limited", retryable=True, retry_after=wait, status=429)
    )
    assert (error.code, error.message) == ("model_call_failed", "Slow down.")
    assert (error.retryable, error.retry_after) == (True, wait)
    assert error.details == {
        "reason": "rate_limited",
        "status": 429,
        "retry_after_seconds": 7.0,
    }


def test_a_failure_without_an_answer_has_no_status() -> None:
    error = of_model(ModelError("No key.", code="no_api_key", retryable=False))
    assert (error.retryable, error.retry_after) == (False, None)
    assert error.details == {"reason": "no_api_key"}


@pytest.mark.parametrize(
    ("raised", "exception", "retryable"),
    [
        (ValueError("no"), "builtins:ValueError", True),
        (TypeError("no"), "builtins:TypeError", False),
        (json.JSONDecodeError("no", "", 0), "json.decoder:JSONDecodeError", True),
    ],
)
def test_users_code_is_named_with_what_it_raised(
    raised: Exception, exception: str, *, retryable: bool
) -> None:
    error = of_user_code("The rule", raised)
    assert error.message == f"The rule raised {type(raised).__name__}: {raised}"
    assert (error.code, error.retryable) == ("user_error", retryable)
    assert error.details == {"exception": exception, "text": str(raised)}
    assert (error.retry_after, error.attempts) == (None, USER_CODE_ATTEMPTS)


@pytest.mark.parametrize(
    ("raised", "code"),
    [(UserError("no"), "user_error"), (ModelRefusalError("no"), "model_refusal")],
)
def test_an_error_of_ours_speaks_for_itself(raised: Exception, code: str) -> None:
    error = of_user_code("The rule", raised)
    assert (error.code, error.message, error.retryable) == (code, "no", False)
    assert failure_of("The rule", raised) == Failure(code=code, message="no")


def test_the_failure_of_a_run_names_what_was_raised_so_that_it_can_be_raised_again() -> None:
    assert failure_of("The rule", KeyError("k")) == Failure(
        code="user_error",
        message="The rule raised KeyError: 'k'",
        details={"exception": "builtins:KeyError", "text": "k"},  # of which str() makes 'k' again
    )


def test_a_failure_of_a_run_is_cut_as_a_whole() -> None:
    failure = failure_of("The rule", ValueError("x" * 10_000_000))
    assert len(json.dumps(failure.details)) < 2 * LONGEST_MESSAGE
    assert len(failure.message) == LONGEST_MESSAGE


def test_a_message_is_cut_before_it_fills_the_history() -> None:
    error = of_user_code("The rule", ValueError("x" * 10_000_000))
    assert len(error.message) == LONGEST_MESSAGE
    assert error.message.startswith("The rule raised ValueError: xxx")
    assert str(error) == error.message


def test_half_a_character_in_a_message_does_not_stop_it_from_travelling() -> None:
    error = EffectError("user_error", "name: \ud800!", retryable=False)
    assert error.message == "name: ?!"
    assert error.message.encode()


@given(text=st.text(), most=st.integers(2, 60))
def test_a_text_is_cut_to_the_json_that_travels(text: str, most: int) -> None:
    kept = fitting(text, most)
    assert len(json.dumps(kept)) <= most
    assert text.startswith(kept)
    longer = text[: len(kept) + 1]
    assert kept == text or len(json.dumps(longer)) > most, "no more would have fitted"


def test_control_characters_count_as_what_they_are_in_json():
    assert len(json.dumps(fitting("\x01" * 500_000, 100_000))) <= 100_000
    assert len(json.dumps(cut("\x01" * 500_000))) <= 12_000


def test_large_details_lose_what_is_large():
    error = EffectError("c", "m", retryable=False, details={"a": "x" * 90_000, "b": [1] * 9_000})
    assert error.details is not None
    assert error.details.keys() == {"a"}
    assert len(error.details["a"]) == 4_000


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (ValueError("x"), False),
        (KeyError("x"), False),
        (ZeroDivisionError(), False),
        (TypeError(), False),
        (RuntimeError(), True),
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (json.JSONDecodeError("cut off", "{", 1), True),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "cut off"), True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_mistake_in_a_model_of_the_program_ends_its_call(
    error: Exception, *, retryable: bool
) -> None:
    failed = of_model_code("The model Own", error)
    assert (failed.retryable, failed.attempts) == (retryable, USER_CODE_ATTEMPTS)
    assert failed.message.startswith(f"The model Own raised {type(error).__name__}")
