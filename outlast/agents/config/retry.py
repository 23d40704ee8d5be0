"""Settings and policies for the retries of failed model calls, which the engine carries out."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from outlast.agents.callables import call, called_with
from outlast.agents.checks import Rule, check_count, check_fields, optional
from outlast.agents.config.settings_field import as_settings
from outlast.agents.errors import UserError
from outlast.agents.installed_sdk import as_ours
from outlast.loop.values import JsonObject


def _check_wait(place: str, value: Any) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < float("inf"):
        raise UserError(f"{place} must be a number from 0, not {value!r}.")


_WAIT: Final = optional(_check_wait)


@dataclass(frozen=True, slots=True)
class ModelRetryBackoffSettings:
    """The waits between the attempts of a model call.

    They apply where neither the provider nor a policy sets a delay.

    Attributes:
        initial_delay: the wait before the first retry, in seconds; default 0.25.
        max_delay: the longest wait, in seconds; default 2.
        multiplier: the factor by which each further wait grows; default 2.
        jitter: whether each wait is shortened at random; default true.
    """

    initial_delay: float | None = None
    max_delay: float | None = None
    multiplier: float | None = None
    jitter: bool | None = None

    def __post_init__(self) -> None:
        check_fields(self, dict.fromkeys(("initial_delay", "max_delay", "multiplier"), _WAIT))

    def delay_seconds(self, attempt: int, random: float) -> float:
        """Return the wait after attempt number `attempt`, from 1; `random` is from 0 to 1."""
        first = 0.25 if self.initial_delay is None else self.initial_delay
        longest = 2.0 if self.max_delay is None else self.max_delay
        factor = 2.0 if self.multiplier is None else self.multiplier
        wait = min(first * factor ** (attempt - 1), longest)
        return wait if self.jitter is False else wait * (0.5 + random / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRetryNormalizedError:
    """A failure of a model call, in the same form for every provider.

    Attributes:
        error_code: the reason, as in `ModelError.code`.
        retry_after: the delay that the provider asked for, in seconds.
        is_abort: always false, because no cancelled call is retried.
        is_network_error: the server could not be reached.
    """

    status_code: int | None = None
    error_code: str | None = None
    message: str | None = None
    request_id: str | None = None
    retry_after: float | None = None
    is_abort: bool = False
    is_network_error: bool = False
    is_timeout: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRetryAdvice:
    """The provider's advice about a retry, from its error.

    Attributes:
        suggested: whether the same request may work later.
        retry_after: the delay that the provider asked for, in seconds.
        replay_safety: whether a second request repeats effects at the provider: `safe` if not,
            `unsafe` if so, None if that is unknown.
    """

    suggested: bool | None = None
    retry_after: float | None = None
    reason: str | None = None
    normalized: ModelRetryNormalizedError | None = None
    replay_safety: Literal["safe", "unsafe"] | None = None
    response_started: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRetryAdviceRequest:
    """A failed call, about which a program's own model is asked for advice.

    It is the argument of the model's method `get_retry_advice`. The first attempt is number 1.
    """

    error: Exception
    attempt: int
    stream: bool
    previous_response_id: str | None = None
    conversation_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicyContext(ModelRetryAdviceRequest):
    """The argument of a retry policy: a failed attempt, counted from 1.

    Attributes:
        normalized: the failure in the same form for every provider.
        provider_advice: what the provider's error says about a retry.
    """

    max_retries: int
    normalized: ModelRetryNormalizedError
    provider_advice: ModelRetryAdvice | None = None

    @property
    def stateful_request(self) -> bool:
        """Whether the provider's server keeps the conversation."""
        return bool(self.previous_response_id or self.conversation_id)

    @property
    def replay_safety(self) -> Literal["safe", "unsafe", "unknown"]:
        """Whether a second request repeats effects at the provider, by the advice."""
        said = self.provider_advice.replay_safety if self.provider_advice is not None else None
        return said if said in {"safe", "unsafe"} else "unknown"

    @property
    def response_started(self) -> bool:
        """Whether the response had begun, by the advice."""
        return self.provider_advice is not None and self.provider_advice.response_started


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """The decision of a retry policy.

    Attributes:
        retry: whether the call is retried.
        delay: the wait before the retry, in seconds; None for the default.
        reason: why; for your own logs.
        approve_unsafe_replay: has no effect: every model call may be repeated here.
    """

    retry: bool
    delay: float | None = None
    reason: str | None = None
    approve_unsafe_replay: bool = False
    is_final: bool = field(default=False, kw_only=True, repr=False, compare=False)


RetryPolicy: TypeAlias = Callable[
    [RetryPolicyContext], bool | RetryDecision | Awaitable[bool | RetryDecision]
]
"""A function called with (context) that decides whether a call is retried."""


@dataclass(frozen=True, slots=True)
class ModelRetrySettings:
    """The retry settings of model calls.

    Without them, the engine retries failures that may pass, at most nine times, and follows the
    provider's retry delay.

    Attributes:
        max_retries: the number of attempts after the first; 0 for none, at most 9.
        backoff: the waits between attempts, also as a dict; default: the engine's, which grow to a
            minute.
        policy: decides about each failure, instead of the engine: a callable, or in the settings of
            a run also its registered name at the worker.
    """

    max_retries: int | None = None
    backoff: ModelRetryBackoffSettings | None = None
    policy: RetryPolicy | str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "backoff", as_settings(ModelRetryBackoffSettings, self.backoff))
        check_fields(self, _RULES)

    def to_json_dict(self) -> JsonObject:
        """Return the settings as JSON, without the policy."""
        backoff = None if self.backoff is None else asdict(self.backoff)
        return {"max_retries": self.max_retries, "backoff": backoff}


_RULES: Final[dict[str, Rule]] = {
    "max_retries": optional(partial(check_count, least=0)),
    "policy": called_with("context", or_a=(str, type(None))),
}


async def decision_of(policy: RetryPolicy, context: RetryPolicyContext) -> RetryDecision:
    """Call a policy and return its decision."""
    verdict = as_ours(await call(policy, context), RetryDecision)
    return verdict if isinstance(verdict, RetryDecision) else RetryDecision(bool(verdict))


class RetryPolicies:
    """Ready-made retry policies, and combinations of policies."""

    def never(self) -> RetryPolicy:
        """Return a policy that retries nothing."""
        return lambda context: False

    def provider_suggested(self) -> RetryPolicy:
        """Return a policy that follows the provider; no other policy can overrule its no."""

        def policy(context: RetryPolicyContext) -> RetryDecision:
            advice = context.provider_advice or ModelRetryAdvice()
            return RetryDecision(
                advice.suggested is True,
                delay=advice.retry_after,
                reason=advice.reason,
                is_final=advice.suggested is False,
            )

        return policy

    def network_error(self) -> RetryPolicy:
        """Return a policy that retries where the server was not reached, or took too long."""
        return lambda context: context.normalized.is_network_error or context.normalized.is_timeout

    def retry_after(self) -> RetryPolicy:
        """Return a policy that retries where the provider says when."""

        def policy(context: RetryPolicyContext) -> RetryDecision:
            delay = context.normalized.retry_after
            return RetryDecision(delay is not None, delay=delay)

        return policy

    def http_status(self, statuses: Iterable[int]) -> RetryPolicy:
        """Return a policy that retries these HTTP statuses."""
        allowed = frozenset(statuses)
        return lambda context: context.normalized.status_code in allowed

    def all(self, *policies: RetryPolicy) -> RetryPolicy:
        """Return a policy that retries if all of these do."""

        async def policy(context: RetryPolicyContext) -> RetryDecision:
            decisions = [await decision_of(policy, context) for policy in policies]
            no = next((decision for decision in decisions if not decision.retry), None)
            return no or _together(decisions)

        return policy

    def any(self, *policies: RetryPolicy) -> RetryPolicy:
        """Return a policy that retries if one of these does."""

        async def policy(context: RetryPolicyContext) -> RetryDecision:
            decisions = [await decision_of(policy, context) for policy in policies]
            final = next((decision for decision in decisions if decision.is_final), None)
            return final or _together([decision for decision in decisions if decision.retry])

        return policy


retry_policies: Final = RetryPolicies()
"""The ready-made retry policies, and combinations: `retry_policies.any(...)`."""


def _together(decisions: list[RetryDecision]) -> RetryDecision:
    delays = [decision.delay for decision in decisions if decision.delay is not None]
    reasons = [decision.reason for decision in decisions if decision.reason is not None]
    return RetryDecision(
        bool(decisions), delays[-1] if delays else None, reasons[-1] if reasons else None
    )
