"""Ready-made retry policies, and the waits between attempts."""

from typing import Any

import pytest

from outlast.agents.config.retry import (
    ModelRetryAdvice,
    ModelRetryBackoffSettings,
    ModelRetryNormalizedError,
    RetryDecision,
    RetryPolicyContext,
    decision_of,
    retry_policies,
)


def failure(*, suggested: bool | None = None, **fields: Any) -> RetryPolicyContext:
    normalized = ModelRetryNormalizedError(**fields)
    advice = ModelRetryAdvice(
        suggested=suggested, retry_after=normalized.retry_after, reason=normalized.error_code
    )
    return RetryPolicyContext(
        error=OSError("x"),
        attempt=1,
        max_retries=3,
        stream=False,
        normalized=normalized,
        provider_advice=advice,
    )


RATE = failure(status_code=429, error_code="rate_limited", retry_after=7.0, suggested=True)
AWAY = failure(error_code="unreachable", is_network_error=True, suggested=True)
SLOW = failure(error_code="timeout", is_timeout=True, suggested=True)
WRONG = failure(status_code=400, error_code="invalid_request", suggested=False)

one_of, every = retry_policies.any, retry_policies.all


@pytest.mark.parametrize(
    ("policy", "retried"),
    [
        (retry_policies.never(), []),
        (retry_policies.provider_suggested(), [RATE, AWAY, SLOW]),
        (retry_policies.network_error(), [AWAY, SLOW]),
        (retry_policies.retry_after(), [RATE]),
        (retry_policies.http_status([400, 429]), [RATE, WRONG]),
        (one_of(), []),
        (every(), []),
        (one_of(retry_policies.network_error(), retry_policies.retry_after()), [RATE, AWAY, SLOW]),
        (every(retry_policies.http_status([400, 429]), retry_policies.retry_after()), [RATE]),
        # The provider's no stands.
        (
            one_of(retry_policies.http_status([400]), retry_policies.provider_suggested()),
            [RATE, AWAY, SLOW],
        ),
    ],
)
async def test_a_policy_retries_what_it_says(policy: Any, retried: list[Any]) -> None:
    for context in (RATE, AWAY, SLOW, WRONG):
        decision = await decision_of(policy, context)
        assert decision.retry is (context in retried), context.normalized


async def test_the_last_delay_and_reason_count() -> None:
    def late(context: RetryPolicyContext) -> RetryDecision:
        return RetryDecision(True, delay=1.5, reason="mine")

    async def soon(context: RetryPolicyContext) -> bool:
        return True

    both = await decision_of(every(retry_policies.provider_suggested(), late, soon), RATE)
    assert both == RetryDecision(retry=True, delay=1.5, reason="mine")
    first = await decision_of(one_of(late, retry_policies.retry_after()), RATE)
    assert (first.delay, first.reason) == (7.0, "mine")


def test_waits_grow_to_a_limit_and_are_shortened_at_random() -> None:
    backoff = ModelRetryBackoffSettings(initial_delay=1, max_delay=5, multiplier=3, jitter=False)
    assert [backoff.delay_seconds(attempt, 0.0) for attempt in (1, 2, 3)] == [1, 3, 5]
    default = ModelRetryBackoffSettings()
    assert [default.delay_seconds(attempt, 1.0) for attempt in (1, 2, 9)] == [0.25, 0.5, 2.0]
    assert default.delay_seconds(9, 0.0) == 1.0
