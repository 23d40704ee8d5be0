"""Carries out one effect, for an activity of Temporal and for a run in memory alike."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache, partial
from pkgutil import resolve_name
from typing import Any

from outlast.activities.errors import lacking
from outlast.activities.tracing import traced
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.errors import UserError
from outlast.contract.effects import EffectRequest, kind_of
from outlast.loop.effects import AgentEffect, Effect
from outlast.loop.values import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt of an effect.

    Attributes:
        number: the number of the attempt, from 1.
        on_event: receives the raw events of a model's stream.
    """

    number: int = 1
    on_event: Callable[[JsonObject], None] | None = None


FIRST = Attempt()


async def carry_out(worker: WorkerDeps, request: EffectRequest[Effect], attempt: Attempt) -> Any:
    """Carry out one attempt of an effect.

    Args:
        worker: the worker's definitions.
        request: the effect, and the transcript items that it covers.
        attempt: the attempt.

    Returns:
        The record that the effect's row in `contract/effects.py` names.

    Raises:
        EffectError: the attempt failed; the error says whether a retry may help.
    """
    if isinstance(request.effect, AgentEffect):
        try:
            worker = await worker.with_live_values(request.effect.context)
        except UserError as error:
            raise lacking(str(error)) from error
    work = partial(_function(kind_of(request.effect).function), worker, request, attempt)
    return await traced(request, work, attempt=attempt.number)


@cache
def _function(name: str) -> Callable[..., Awaitable[Any]]:
    function: Callable[..., Awaitable[Any]] = resolve_name(name)
    return function
