"""Applies an agent's retry settings to a failed model call; the engine retries."""

import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, cast

from outlast.activities.errors import EffectError
from outlast.agents.callables import call
from outlast.agents.config.retry import (
    ModelRetryAdvice,
    ModelRetryAdviceRequest,
    ModelRetryNormalizedError,
    RetryPolicy,
    RetryPolicyContext,
    decision_of,
)
from outlast.agents.errors import ModelTimeoutError
from outlast.agents.logs import get_logger
from outlast.contract import failures
from outlast.contract.policies import MODEL
from outlast.loop.values import JsonObject
from outlast.ports.model import ModelRequest

logger: Final = get_logger(__name__)

OF_THE_MODEL = frozenset({failures.MODEL_CALL_FAILED, ModelTimeoutError.code})
"""The codes of failures of the model, rather than of user code around its call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """A failed attempt of a model call.

    Attributes:
        model: the model; one of the program's own may have `get_retry_advice`.
    """

    number: int
    request: ModelRequest
    stream: bool
    model: object = None


async def apply_retry_settings(
    error: EffectError, attempt: FailedAttempt, policy: RetryPolicy | None
) -> None:
    """Set whether and when the engine retries, from the settings of the call.

    Failures of other code than the model keep the engine's rule. A policy that raises an exception
    is logged, and the engine's rule applies.
    """
    if error.code not in OF_THE_MODEL:
        return
    advice = await _own_advice(error, attempt)
    settings = attempt.request.settings.retry
    if settings is None:
        return
    most = MODEL.attempts
    if settings.max_retries is not None:
        most = min(most, settings.max_retries + 1)
    error.attempts = most
    if policy is not None:
        await _ask_policy(error, attempt, policy, most - 1, advice)
    if attempt.number >= most:
        error.retryable = False
    if settings.backoff is not None and error.retry_after is None:
        seconds = settings.backoff.delay_seconds(attempt.number, random.random())  # noqa: S311  no secret
        error.retry_after = timedelta(seconds=seconds)


async def _own_advice(error: EffectError, attempt: FailedAttempt) -> ModelRetryAdvice | None:
    ask = getattr(attempt.model, "get_retry_advice", None)
    if ask is None:
        return None
    request = ModelRetryAdviceRequest(
        error=_cause(error),
        attempt=attempt.number,
        stream=attempt.stream,
        previous_response_id=attempt.request.previous_response_id,
        conversation_id=attempt.request.conversation_id,
    )
    try:
        advice: object = await call(ask, request)
    except Exception:  # the failure of the call counts, not that of the advice
        logger.exception("get_retry_advice of a model failed; the engine's rule applies")
        return None
    if not isinstance(advice, ModelRetryAdvice):
        return None
    if advice.suggested is not None:
        error.retryable = advice.suggested
    if advice.retry_after is not None:
        error.retry_after = timedelta(seconds=max(advice.retry_after, 0.0))
    return advice


async def _ask_policy(
    error: EffectError,
    attempt: FailedAttempt,
    policy: RetryPolicy,
    max_retries: int,
    advice: ModelRetryAdvice | None,
) -> None:
    normalized = _normalized(error) if advice is None else advice.normalized or _normalized(error)
    context = RetryPolicyContext(
        error=_cause(error),
        attempt=attempt.number,
        max_retries=max_retries,
        stream=attempt.stream,
        normalized=normalized,
        provider_advice=advice
        or ModelRetryAdvice(
            suggested=error.retryable,
            retry_after=normalized.retry_after,
            reason=normalized.error_code,
            normalized=normalized,
        ),
        previous_response_id=attempt.request.previous_response_id,
        conversation_id=attempt.request.conversation_id,
    )
    try:
        decision = await decision_of(policy, context)
    except Exception:  # likewise
        logger.exception("a retry policy failed; the engine's rule applies")
        return
    error.retryable = decision.retry
    if decision.delay is not None:
        error.retry_after = timedelta(seconds=max(decision.delay, 0.0))


def _cause(error: EffectError) -> Exception:
    return cast("Exception", error.__cause__ or error)


def _normalized(error: EffectError) -> ModelRetryNormalizedError:
    details: JsonObject = error.details or {}
    reason = details.get("reason")
    is_timeout = reason == "timeout" or error.code == ModelTimeoutError.code
    return ModelRetryNormalizedError(
        status_code=details.get("status"),
        error_code="timeout" if is_timeout else reason,
        message=error.message,
        retry_after=None if error.retry_after is None else error.retry_after.total_seconds(),
        is_network_error=reason == "unreachable",
        is_timeout=is_timeout,
    )
