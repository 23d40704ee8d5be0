"""Which computer serves which run on a worker.

Owns: making computers for runs, lending each to one call at a time, and giving up those that
nobody has used for long. Must not know: what is done with a computer.
"""

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeAlias
from weakref import WeakSet

from outlast.agents.callables import call
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.logs import get_logger
from outlast.agents.machine.computer import AsyncComputer, Computer, ComputerLike

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    ComputerT = TypeVar("ComputerT", bound=ComputerLike, default=Any)
else:  # the default is for type checkers only, and its package takes 25 ms to import
    from typing import TypeVar

    ComputerT = TypeVar("ComputerT")

logger = get_logger(__name__)

KEPT_FOR = timedelta(minutes=30)
"""How long a run's computer is kept without a call of it."""


@dataclass
class ComputerProvider(Generic[ComputerT]):
    """A pair of functions that create and dispose of a run's computer.

    Attributes:
        create: called with `run_context=`; returns the computer; sync or async.
        dispose: called with `run_context=` and `computer=` when a run's computer was not used for
            half an hour; sync or async.
    """

    create: Callable[..., Any]
    dispose: Callable[..., Any] | None = None


ComputerSource: TypeAlias = (
    ComputerT | Callable[..., Any] | ComputerProvider[ComputerT] | ComputerProvider[Any]
)


def _lock() -> Any:
    import asyncio  # here for the time that it takes: defining tools never needs it

    return asyncio.Lock()


@dataclass
class _Kept:
    """One computer; calls of it wait for each other, because it has one mouse."""

    context: Any
    computer: Any = None
    free: Any = field(default_factory=_lock)
    used_at: float = 0.0


_EVERY: "WeakSet[KeptComputers]" = WeakSet()


async def dispose_resolved_computers(*, run_context: RunContextWrapper[Any]) -> None:
    """Dispose of the computers that were made for a run in this process.

    Args:
        run_context: the run's, as hooks and other callables have it.
    """
    for computers in list(_EVERY):
        await computers.give_up(run_context.run_id)


class KeptComputers:
    """The computers of one tool: one for all runs, or one for each."""

    def __init__(self, source: ComputerSource[Any], *, clock: Callable[[], float] = time.monotonic):
        """Keep computers.

        Args:
            source: the computer, or what makes one.
            clock: tells seconds.
        """
        self._source = source
        self._clock = clock
        self._kept: dict[str, _Kept] = {}
        _EVERY.add(self)

    @asynccontextmanager
    async def lent(self, context: RunContextWrapper[Any]) -> AsyncGenerator[ComputerLike]:
        """Have the computer of a run for one call.

        Raises:
            UserError: what makes computers has made something else.
            Exception: it failed.
        """
        await self._give_up_unused()
        is_shared = isinstance(self._source, Computer | AsyncComputer)
        kept = self._kept.setdefault("" if is_shared else context.run_id, _Kept(context))
        async with kept.free:
            if kept.computer is None:
                kept.computer = await self._made(context)
            try:
                yield kept.computer
            finally:
                kept.used_at = self._clock()

    async def give_up(self, run_id: str) -> None:
        """Give the computer of one run up, once no call has it."""
        kept = self._kept.pop(run_id, None)
        if kept is not None:
            async with kept.free:
                await self._disposed(kept)

    async def _made(self, context: RunContextWrapper[Any]) -> ComputerLike:
        source = self._source
        if isinstance(source, Computer | AsyncComputer):
            return source
        create = source.create if isinstance(source, ComputerProvider) else source
        made: object = await call(create, run_context=context)
        if not isinstance(made, Computer | AsyncComputer):
            raise UserError(
                f"ComputerTool(computer=...) made {made!r}, not a Computer or an AsyncComputer."
            )
        return made

    async def _give_up_unused(self) -> None:
        since = self._clock() - KEPT_FOR.total_seconds()
        for run_id, kept in list(self._kept.items()):
            if not kept.free.locked() and kept.used_at <= since:
                del self._kept[run_id]
                await self._disposed(kept)

    async def _disposed(self, kept: _Kept) -> None:
        source = self._source
        if kept.computer is None or not isinstance(source, ComputerProvider):
            return
        if source.dispose is None:
            return
        try:
            await call(source.dispose, run_context=kept.context, computer=kept.computer)
        except Exception:
            logger.exception("a computer could not be disposed of")
