"""Carries out one effect, for Temporal activities and for runs in memory."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache, partial
from pkgutil import resolve_name
from typing import Any, Final

from outlast.activities.errors import EffectError, worker_lookup
from outlast.activities.tracing import traced
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.logs import get_logger
from outlast.contract.effects import EffectRequest, kind_of
from outlast.contract.names import SETTING_AS_TOOL
from outlast.contract.streams.window import ShownText
from outlast.loop.calls import Arrival, ModelReply, ToolResult
from outlast.loop.effects import AgentEffect, CallModel, Effect
from outlast.loop.values import Failure, Json, JsonObject
from outlast.ports.identity import Execution

logger: Final = get_logger(__name__)

ATTEMPTS_OF_A_PROGRAM: Final = 4
"""How often a program that hosts its runs looks for a tool that it lacks: for seven seconds."""

_function = cache(resolve_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt of an effect.

    Attributes:
        progress: what an earlier attempt has reported; None if it has reported nothing.
        report: stores the progress of this attempt for the attempts after it, if there is a way.
        execution: the execution that asks for the effect, in the server's words; None in memory.
        patient: the effect has waited for a worker that can carry it out.
        arrived: what came of the waits of a tool's call, as recorded: proofs are about that.
        has_reader_here: whether a reader in this process takes the events without a heartbeat.
        is_stopped: whether a reader in this process has stopped the run before this model call.
        shown: whether text of a model call has left, on this attempt or one before it.
    """

    number: int = 1
    on_event: Callable[[JsonObject], None] | None = None
    progress: Json = None
    report: Callable[[Json], None] | None = None
    execution: Execution | None = None
    patient: bool = False
    arrived: tuple[Arrival, ...] = ()
    has_reader_here: Callable[[], bool] | None = None
    is_stopped: Callable[[], Awaitable[bool]] | None = None
    shown: ShownText | None = None

    def is_watched(self) -> bool:
        """Whether a reader in this process follows the run; an attempt after the first ignores it."""
        return self.number == 1 and self.has_reader_here is not None and self.has_reader_here()

    def waits_in_vain(self, worker: WorkerDeps) -> bool:
        """Whether nobody has what the effect has waited for: only its program could have it.

        A program that hosts its own runs has brought its definitions. The first attempts are for
        another process of the same run that still has the old ones.
        """
        return worker.hosts_runs and self.patient and self.number >= ATTEMPTS_OF_A_PROGRAM


FIRST = Attempt()


async def attempt_effect(
    worker: WorkerDeps, request: EffectRequest[Effect], attempt: Attempt
) -> Any:
    """Carry out one attempt of an effect, and return the record that the effect's row names.

    Raises:
        EffectError: the attempt failed; the error says whether a retry may help.
    """
    effect = request.effect
    if isinstance(effect, AgentEffect):
        worker = worker.of_attempt(attempt.execution)
        with worker_lookup():
            worker = worker.with_recorded_agents(effect.settings)
            if effect.context is not None:
                worker = await worker.with_live_values(effect.context)
        if SETTING_AS_TOOL in (effect.settings or {}):
            from outlast.activities.made_tools import find_made_parent  # few agents make theirs

            await find_made_parent(worker, effect)
    work = partial(_function(kind_of(effect).function), worker, request, attempt)
    if not logger.isEnabledFor(logging.DEBUG):
        return await traced(request, work, attempt=attempt.number)
    return await _logged(effect, attempt, traced(request, work, attempt=attempt.number))


async def _logged(effect: Effect, attempt: Attempt, work: Awaitable[Any]) -> Any:
    """Log the beginning and the end of an attempt: names and types, never a text of the run."""
    label = kind_of(effect).label(effect)
    turn = f", turn {effect.turn}" if isinstance(effect, CallModel) else ""
    again = f", attempt {attempt.number}" if attempt.number > 1 else ""
    logger.debug("%s%s%s begins", label, turn, again)
    try:
        result = await work
    except EffectError as error:
        logger.debug("%s failed: %s", label, error.code)
        raise
    logger.debug("%s %s", label, _outcome(result))
    return result


def _outcome(result: object) -> str:
    match result:
        case ModelReply():
            kinds = ", ".join(str(item.get("type", "message")) for item in result.items)
            return f"is done: {kinds or 'an empty reply'}"
        case ToolResult(failed=True) | ToolResult(failure=Failure()):
            return "failed"
        case _:
            return "is done"
