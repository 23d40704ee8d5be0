"""Carrying an effect out: the same for an activity of Temporal and for a run in memory."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache, partial
from pkgutil import resolve_name
from typing import Any

from outlast.activities.tracing import traced
from outlast.activities.worker_deps import WorkerDeps
from outlast.contract.effects import EffectRequest, kind_of
from outlast.loop.effects import Effect
from outlast.loop.values import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try of an effect.

    Attributes:
        number: 1 for the first.
        on_event: gets what a model says meanwhile.
    """

    number: int = 1
    on_event: Callable[[JsonObject], None] | None = None


FIRST = Attempt()


async def carry_out(worker: WorkerDeps, request: EffectRequest[Effect], attempt: Attempt) -> Any:
    """Carry one attempt of an effect out.

    Args:
        worker: the definitions.
        request: the effect, and the items that it is about.
        attempt: which try it is.

    Returns:
        The record that the effect's row in `contract/effects.py` names.

    Raises:
        EffectError: it failed; the error says whether it may be tried again.
    """
    work = partial(_function(kind_of(request.effect).function), worker, request, attempt)
    return await traced(worker, request, work, attempt=attempt.number)


@cache
def _function(name: str) -> Callable[..., Awaitable[Any]]:
    function: Callable[..., Awaitable[Any]] = resolve_name(name)
    return function
