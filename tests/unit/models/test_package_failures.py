"""What packages raise, told by names and attributes; the classes are those of no package."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from outlast.models.failures import Target
from outlast.models.package_failures import package_failure

TARGET = Target(
    base_url="anthropic (through LiteLLM)",
    path="/chat/completions",
    model="claude",
    key="sk-test-4711",
    key_from="the environment's key",
    address_from="base_url=",
)


def raised(name: str, words: str = "Sorry.", *, of: type = Exception, **has: Any) -> Exception:
    error: Any = type(name, (of,), {})(words)
    for attribute, value in has.items():
        setattr(error, attribute, value)
    return error


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        (raised("Whatever", status_code=429), "rate_limited", True),
        (raised("Whatever", status_code=401), "unauthorized", False),
        (raised("Whatever", status_code=529), "overloaded", True),
        (raised("ServerError", code=503), "overloaded", True),
        (raised("APIError", code="502"), "server_error", True),
        (raised("ClientResponseError", status=404), "not_found", False),
        (raised("Timeout", status_code=408), "timeout", True),
        (raised("ReadTimeout", of=type("TimeoutException", (Exception,), {})), "timeout", True),
        (raised("APIConnectionError", status_code=500), "unreachable", True),
        (ConnectionResetError("gone"), "unreachable", True),
        (raised("MissingApiKeyError", "Set X_API_KEY."), "no_api_key", False),
        (raised("RateLimitError"), "rate_limited", True),
        (raised("AuthenticationError"), "unauthorized", False),
        (raised("ContextLengthExceededError"), "invalid_request", False),
        (raised("ModelNotFoundError"), "not_found", False),
        (raised("InsufficientFundsError"), "quota_exceeded", False),
        (raised("UnsupportedParameterError"), "invalid_request", False),
        (ValueError("what is this?"), "invalid_request", False),
        (ImportError("pip install more"), "invalid_request", False),
        (NotImplementedError("not here"), "invalid_request", False),
        (raised("Riddle"), "server_error", True),
    ],
)
def test_an_exception_has_the_code_of_what_it_says(
    error: Exception, code: str, retryable: bool
) -> None:
    failure = package_failure(error, TARGET)
    assert (failure.code, failure.retryable) == (code, retryable)


@pytest.mark.parametrize(
    ("origin", "code"),
    [
        (raised("RateLimitError", status_code=429, body={"code": "insufficient_quota"}), "quota"),
        (raised("InternalServerError", status_code=500), "server_error"),
        (raised("APITimeoutError", of=type("APIConnectionError", (Exception,), {})), "timeout"),
        (TypeError("no such argument"), "invalid_request"),
    ],
)
def test_what_the_providers_package_raised_counts(origin: Exception, code: str) -> None:
    error = raised("AnyLLMError", original_exception=origin, status_code=None)
    assert package_failure(error, TARGET).code.startswith(code)


def test_the_words_are_the_providers_without_the_key() -> None:
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "Busy, sk-test-4711"}}
    failure = package_failure(raised("APIStatusError", status_code=500, body=body), TARGET)
    assert failure.code == "overloaded"
    assert "anthropic (through LiteLLM)" in failure.message
    assert failure.message.endswith("It says: Busy, [API key]")


def test_a_message_names_where_the_key_and_the_address_come_from() -> None:
    assert (
        "Check the environment's key,"
        in package_failure(raised("AuthenticationError"), TARGET).message
    )
    assert "Check base_url=," in package_failure(ConnectionError(), TARGET).message
    assert "OPENAI" not in package_failure(raised("ModelNotFoundError"), TARGET).message


@pytest.mark.parametrize(
    "has",
    [
        {"litellm_response_headers": {"Retry-After": "7"}},
        {"response": SimpleNamespace(headers={"retry-after-ms": "7000"})},
        {"retry_after": "7"},
        {
            "original_exception": raised(
                "RateLimitError", response=SimpleNamespace(headers={"retry-after": 7})
            )
        },
    ],
)
def test_how_long_to_wait_is_found_wherever_it_is(has: dict[str, Any]) -> None:
    failure = package_failure(raised("RateLimitError", **has), TARGET)
    assert failure.retry_after == timedelta(seconds=7)


def test_an_error_without_words_is_told_by_its_name() -> None:
    assert "It says: Riddle" in package_failure(raised("Riddle", ""), TARGET).message
