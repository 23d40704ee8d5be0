"""Handlers of the `openai` package's exceptions, around runs."""

import pickle
import sys
from datetime import timedelta
from typing import Any, cast

import httpx2
import openai
import pytest

from outlast import Agent, ModelCallFailed, ModelTimeoutError, function_tool
from outlast.agents.errors import AgentsException, ToolFailed
from outlast.client.transport.exceptions import exception_of
from outlast.contract import failures
from outlast.loop.values import Failure, JsonObject
from outlast.ports.model import Model, ModelError, ModelRequest
from outlast.testing import ScriptedModel, call, run_in_memory

REQUEST = httpx2.Request("POST", "https://api.openai.com/v1/responses")


def raised(details: JsonObject | None, code: str = failures.MODEL_CALL_FAILED) -> Any:
    return exception_of(Failure(code=code, message="No.", details=details), run_data="the run")


@pytest.mark.parametrize(
    ("details", "kind"),
    [
        ({"reason": "invalid_request", "status": 400}, openai.BadRequestError),
        ({"reason": "unauthorized", "status": 401}, openai.AuthenticationError),
        ({"reason": "unauthorized", "status": 403}, openai.PermissionDeniedError),
        ({"reason": "not_found", "status": 404}, openai.NotFoundError),
        ({"reason": "conversation_locked", "status": 409}, openai.ConflictError),
        ({"reason": "invalid_request", "status": 422}, openai.UnprocessableEntityError),
        ({"reason": "rate_limited", "status": 429}, openai.RateLimitError),
        ({"reason": "quota_exceeded", "status": 429}, openai.RateLimitError),
        ({"reason": "rate_limited"}, openai.RateLimitError),
        ({"reason": "server_error", "status": 500}, openai.InternalServerError),
        ({"reason": "overloaded", "status": 529}, openai.InternalServerError),
        ({"reason": "overloaded"}, openai.InternalServerError),
        ({"reason": "invalid_request", "status": 418}, openai.APIStatusError),
        ({"reason": "unreachable"}, openai.APIConnectionError),
        ({"reason": "timeout"}, openai.APITimeoutError),
        ({"reason": "timeout", "status": 504}, openai.InternalServerError),
        ({"reason": "bad_response"}, openai.APIError),
        ({"reason": "something new", "status": "odd"}, openai.APIError),
        (None, openai.APIError),
    ],
)
def test_a_failed_call_is_both_ours_and_the_packages(
    details: JsonObject | None, kind: type[openai.APIError]
) -> None:
    error = raised(details)
    assert isinstance(error, ModelCallFailed)
    assert isinstance(error, kind)
    assert type(error).mro()[2:4] == [AgentsException, kind]
    assert (str(error), error.message, error.code) == ("No.", "No.", "model_call_failed")
    assert (error.run_data, error.details, error.body) == ("the run", details, None)
    assert isinstance(error.request, httpx2.Request)
    if isinstance(error, openai.APIStatusError):
        assert error.status_code == error.response.status_code
        assert details is None or error.status_code == details.get("status", error.status_code)


def test_the_time_out_of_a_call_is_the_packages_too() -> None:
    error = raised({"timeout_seconds": 2.5}, "model_timeout")
    assert isinstance(error, ModelTimeoutError)
    assert isinstance(error, openai.APITimeoutError)
    assert error.timeout_seconds == 2.5


def test_the_delay_that_the_provider_asked_for_is_in_the_response() -> None:
    error = raised({"reason": "rate_limited", "status": 429, "retry_after_seconds": 7.0})
    assert error.response.headers["retry-after"] == "7"


def test_it_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(raised({"status": 429})))
    assert isinstance(error, openai.RateLimitError)
    assert isinstance(error, ModelCallFailed)
    assert (error.message, error.details) == ("No.", {"status": 429})


def test_without_the_package_it_is_ours_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "openai")
    assert type(raised({"status": 429})) is ModelCallFailed


async def test_a_run_raises_what_a_program_catches() -> None:
    busy = ModelError(
        "Slow down.",
        code="rate_limited",
        retryable=False,
        status=429,
        retry_after=timedelta(seconds=3),
    )
    with pytest.raises(openai.RateLimitError, match="Slow down") as caught:
        await run_in_memory(Agent(name="Desk"), "Hi", model=ScriptedModel(busy))
    assert isinstance(caught.value, ModelCallFailed)
    assert caught.value.run_data.last_agent.name == "Desk"
    assert caught.value.response.headers["retry-after"] == "3"


def limited() -> openai.RateLimitError:
    return openai.RateLimitError(
        "Slow down.", response=httpx2.Response(429, request=REQUEST), body={"code": "slow"}
    )


async def test_what_a_model_of_the_program_raises_is_raised_again() -> None:
    class Own:
        async def get_response(self, request: ModelRequest) -> Any:
            raise limited()

    with pytest.raises(openai.RateLimitError, match="Slow down") as caught:
        await run_in_memory(Agent(name="Desk"), "Hi", model=cast("Model", Own()))
    assert caught.value.status_code == caught.value.response.status_code == 429
    assert caught.value.message == "Slow down."
    assert isinstance(caught.value.__cause__, AgentsException)


@pytest.mark.parametrize(
    "error",
    [
        openai.APIConnectionError(request=REQUEST),
        openai.APITimeoutError(REQUEST),
        openai.InternalServerError(
            "Odd.", response=httpx2.Response(502, request=REQUEST), body=None
        ),
    ],
)
async def test_what_a_tool_raises_is_the_cause_of_its_failure(error: openai.APIError) -> None:
    @function_tool(failure_error_function=None)
    def ask() -> str:
        raise error

    agent = Agent(name="Desk", tools=[ask])
    with pytest.raises(ToolFailed) as caught:
        await run_in_memory(agent, "Hi", model=ScriptedModel([call("ask", "c1")]))
    cause: Any = caught.value.__cause__
    assert type(cause) is type(error)
    assert cause.message == str(error)
