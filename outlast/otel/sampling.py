"""Chooses the traces that are sent, by their ids: all workers choose the same ones."""

import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler, TraceIdRatioBased

from outlast.agents.errors import UserError
from outlast.otel.identity import trace_number
from outlast.tracing.current import Span

SAMPLER_VARIABLE: Final = "OTEL_TRACES_SAMPLER"
ARGUMENT_VARIABLE: Final = "OTEL_TRACES_SAMPLER_ARG"

MOST_REMEMBERED: Final = 4_096
"""Of how many traces the choice is remembered."""


class Sampling:
    """The choice of traces; None reads the environment variables of OpenTelemetry."""

    def __init__(self, sampler: Sampler | None) -> None:
        self._sampler = sampler or _sampler_of_environment()
        self._is_chosen: Callable[[int], bool] = lru_cache(MOST_REMEMBERED)(self._choose)

    def is_sampled(self, span: Span[Any]) -> bool:
        """Whether the trace of a span is sent."""
        return self._sampler is ALWAYS_ON or self._is_chosen(trace_number(span.trace_id))

    def _choose(self, trace_id: int) -> bool:
        # Without a context of their own, samplers look at the current span, which asks here.
        made = self._sampler.should_sample(Context(), trace_id, "invoke_workflow")
        return made.decision.is_sampled()


def _sampler_of_environment() -> Sampler:
    """Return the sampler that the environment names.

    A trace of a run has no parent, so a sampler by parents is the one that it has for roots.

    Raises:
        UserError: there is no such sampler, or its argument is no share.
    """
    name = os.environ.get(SAMPLER_VARIABLE, "").strip().lower().removeprefix("parentbased_")
    if name in {"", "always_on"}:
        return ALWAYS_ON
    if name == "always_off":
        return ALWAYS_OFF
    if name != "traceidratio":
        raise UserError(
            f"{SAMPLER_VARIABLE} must be always_on, always_off or traceidratio, or one of these after "
            f"parentbased_, not {os.environ[SAMPLER_VARIABLE]!r:.80}. Pass other samplers as "
            "OpenTelemetryProcessor(sampler=...)."
        )
    share = os.environ.get(ARGUMENT_VARIABLE, "").strip() or "1"
    try:
        return TraceIdRatioBased(float(share))
    except ValueError as error:
        raise UserError(
            f"{ARGUMENT_VARIABLE} must be a number from 0 to 1, not {share!r:.80}."
        ) from error
