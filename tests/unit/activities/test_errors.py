"""How an effect fails, and whether another try can help."""

import json
from datetime import timedelta

import pytest

from outlast.activities.errors import (
    LONGEST_MESSAGE,
    EffectError,
    is_retryable,
    of_model,
    of_user_code,
)
from outlast.agents.errors import ModelRefusalError, ToolFailed, UserError
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
    assert error.details == {"reason": "rate_limited", "status": 429}


def test_a_failure_without_an_answer_has_no_status() -> None:
    error = of_model(ModelError("No key.", code="no_api_key", retryable=False))
    assert (error.retryable, error.retry_after) == (False, None)
    assert error.details == {"reason": "no_api_key"}


@pytest.mark.parametrize(
    ("raised", "code", "retryable"),
    [
        (ValueError("no"), "user_error", True),
        (TypeError("no"), "user_error", False),
        (UserError("no"), "user_error", False),
        (ModelRefusalError("no"), "model_refusal", False),
    ],
)
def test_users_code_is_named_with_what_it_raised(
    raised: Exception, code: str, *, retryable: bool
) -> None:
    error = of_user_code("The rule", raised)
    assert error.message == f"The rule raised {type(raised).__name__}: no"
    assert (error.code, error.retryable) == (code, retryable)
    assert (error.details, error.retry_after) == (None, None)


def test_a_message_is_cut_before_it_fills_the_history() -> None:
    error = of_user_code("The rule", ValueError("x" * 10_000_000))
    assert len(error.message) == LONGEST_MESSAGE
    assert error.message.startswith("The rule raised ValueError: xxx")
    assert str(error) == error.message


def test_half_a_character_in_a_message_does_not_stop_it_from_travelling() -> None:
    error = EffectError("user_error", "name: \ud800!", retryable=False)
    assert error.message == "name: ?!"
    assert error.message.encode()
