"""Retry settings decide whether and when the engine retries a model call."""

from datetime import timedelta
from typing import Any

import pytest

from outlast import (
    Agent,
    AgentsException,
    ModelError,
    ModelRetrySettings,
    ModelSettings,
    RetryDecision,
    RunConfig,
    retry_policies,
)
from outlast.activities.errors import EffectError, of_model
from outlast.activities.model.retry import FailedAttempt, apply_retry_settings
from outlast.agents.config.retry import (
    ModelRetryAdvice,
    ModelRetryAdviceRequest,
    ModelRetryNormalizedError,
    RetryPolicyContext,
)
from outlast.agents.config.settings import references_in, write_run_config
from outlast.agents.errors import ModelTimeoutError
from outlast.agents.references import RunReferences
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, run_in_memory


def overloaded(**fields: Any) -> ModelError:
    return ModelError("busy", code="overloaded", retryable=True, status=503, **fields)


def refused() -> ModelError:
    words = "Unsupported parameter: wrong"
    return ModelError(words, code="invalid_request", retryable=False, status=400)


async def applied(
    error: EffectError, retry: ModelRetrySettings | None, *, number: int = 1
) -> EffectError:
    request = ModelRequest(instructions=None, input=[], settings=ModelSettings(retry=retry))
    policy: Any = retry.policy if retry is not None else None
    attempt = FailedAttempt(number=number, request=request, stream=True)
    await apply_retry_settings(error, attempt, policy)
    return error


async def test_without_settings_the_engines_rule_applies() -> None:
    error = await applied(of_model(overloaded()), None)
    assert (error.retryable, error.attempts, error.retry_after) == (True, None, None)


@pytest.mark.parametrize(
    ("retries", "number", "retried"),
    [(0, 1, False), (1, 1, True), (1, 2, False), (None, 9, True), (99, 10, False)],
)
async def test_the_number_of_retries_is_bounded(
    retries: int | None, number: int, *, retried: bool
) -> None:
    error = await applied(of_model(overloaded()), ModelRetrySettings(retries), number=number)
    assert error.retryable is retried


async def test_a_policy_decides_and_knows_the_failure() -> None:
    seen: list[RetryPolicyContext] = []

    async def policy(context: RetryPolicyContext) -> RetryDecision:
        seen.append(context)
        return RetryDecision(context.attempt == 1, delay=3)

    retry = ModelRetrySettings(4, None, policy)
    first = await applied(of_model(refused()), retry)
    assert (first.retryable, first.retry_after, first.attempts) == (True, timedelta(seconds=3), 5)
    second = await applied(of_model(overloaded(retry_after=timedelta(seconds=9))), retry, number=2)
    assert second.retryable is False
    wrong, busy = seen
    assert (wrong.normalized.status_code, wrong.normalized.error_code) == (400, "invalid_request")
    assert wrong.provider_advice is not None
    assert (wrong.provider_advice.suggested, wrong.max_retries, wrong.stream) == (False, 4, True)
    assert (busy.normalized.retry_after, busy.stateful_request) == (9.0, False)


async def test_a_time_out_of_the_call_is_one_for_the_policy() -> None:
    error = EffectError(ModelTimeoutError.code, "slow", retryable=True)
    retry = ModelRetrySettings(policy=retry_policies.network_error())
    assert (await applied(error, retry)).retryable


async def test_a_policy_that_fails_is_logged_and_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def policy(context: RetryPolicyContext) -> bool:
        raise OSError("no network")

    error = await applied(of_model(overloaded()), ModelRetrySettings(policy=policy))
    assert error.retryable
    assert "a retry policy failed" in caplog.text


async def test_a_backoff_applies_where_nobody_else_says_when() -> None:
    retry = ModelRetrySettings(backoff={"initial_delay": 4, "max_delay": 9, "jitter": False})  # pyright: ignore[reportArgumentType]
    own = await applied(of_model(overloaded(retry_after=timedelta(seconds=1))), retry)
    assert own.retry_after == timedelta(seconds=1)
    other = await applied(of_model(overloaded()), retry, number=2)
    assert other.retry_after == timedelta(seconds=8)


async def test_failures_of_other_code_keep_their_rule() -> None:
    error = EffectError("user_error", "x", retryable=True)
    retry = ModelRetrySettings(0, policy=retry_policies.never())
    assert (await applied(error, retry)).retryable


class Failing(ScriptedModel):
    """A model that is refused twice."""

    async def get_response(self, *args: Any, **kwargs: Any) -> Any:
        self.tries = getattr(self, "tries", 0) + 1
        if self.tries <= 2:
            raise refused()
        return await super().get_response(*args, **kwargs)


async def test_a_run_is_retried_as_its_settings_say() -> None:
    policy = retry_policies.http_status([400])
    agent = Agent(name="A", model_settings=ModelSettings(retry=ModelRetrySettings(2, None, policy)))
    assert (await run_in_memory(agent, "hi", model=Failing("Done."))).final_output == "Done."
    config = RunConfig(model_settings=ModelSettings(retry=ModelRetrySettings(1)))
    with pytest.raises(AgentsException, match="wrong"):
        await run_in_memory(agent, "hi", model=Failing("Done."), run_config=config)
    config = RunConfig(model_settings=ModelSettings(retry=ModelRetrySettings(2, None, policy)))
    settings = write_run_config(config, RunReferences().name)
    assert settings["model_settings"]["retry"]["policy"] in references_in(settings)
    result = await run_in_memory(Agent(name="A"), "hi", model=Failing("Done."), run_config=config)
    assert result.final_output == "Done."


class Advising:
    """A program's model that knows what its errors mean."""

    def __init__(self, advice: object) -> None:
        self.advice = advice
        self.asked: list[ModelRetryAdviceRequest] = []

    def get_retry_advice(self, request: ModelRetryAdviceRequest) -> Any:
        self.asked.append(request)
        if isinstance(self.advice, Exception):
            raise self.advice
        return self.advice


async def advised(model: Advising, *, policy: Any = None) -> EffectError:
    error = of_model(overloaded())
    retry = None if policy is None else ModelRetrySettings(policy=policy)
    request = ModelRequest(
        instructions=None, input=[], settings=ModelSettings(retry=retry), previous_response_id="r"
    )
    attempt = FailedAttempt(number=2, request=request, stream=False, model=model)
    await apply_retry_settings(error, attempt, policy)
    return error


async def test_a_programs_model_says_whether_and_when_its_error_is_retried() -> None:
    model = Advising(ModelRetryAdvice(suggested=False, retry_after=7))
    error = await advised(model)
    assert (error.retryable, error.retry_after) == (False, timedelta(seconds=7))
    (asked,) = model.asked
    assert (asked.attempt, asked.stream, asked.previous_response_id) == (2, False, "r")


async def test_a_policy_reads_the_models_advice_and_decides() -> None:
    seen: list[RetryPolicyContext] = []

    def policy(context: RetryPolicyContext) -> bool:
        seen.append(context)
        return True

    mine = ModelRetryNormalizedError(is_network_error=True)
    advice = ModelRetryAdvice(
        suggested=False, replay_safety="unsafe", response_started=True, normalized=mine
    )
    error = await advised(Advising(advice), policy=policy)
    assert error.retryable
    assert (seen[0].replay_safety, seen[0].response_started) == ("unsafe", True)
    assert seen[0].normalized is mine

    await advised(Advising(None), policy=policy)
    assert (seen[1].replay_safety, seen[1].response_started) == ("unknown", False)


@pytest.mark.parametrize("advice", [None, "retry!", RuntimeError("no idea")])
async def test_no_advice_is_the_engines_rule(advice: object) -> None:
    error = await advised(Advising(advice))
    assert (error.retryable, error.retry_after) == (True, None)
