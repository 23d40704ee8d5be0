"""When the engine makes the next attempt of an activity."""

from datetime import timedelta

from temporalio import activity


def next_attempt_in(asked: timedelta | None) -> timedelta:
    """Return how long after the present attempt the next one begins."""
    info = activity.info()
    policy = info.retry_policy
    if asked is not None or policy is None:
        return asked or timedelta(0)
    longest = policy.maximum_interval or 100 * policy.initial_interval
    delay = policy.initial_interval
    for _ in range(info.attempt - 1):
        if delay >= longest:
            break
        delay *= policy.backoff_coefficient
    return min(delay, longest)
