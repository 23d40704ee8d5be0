"""The computers of runs on a worker: creation, exclusive use, and disposal."""

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
"""How long an unused computer of a run is kept."""


@dataclass
class ComputerProvider(Generic[ComputerT]):
    """A pair of functions that create and dispose of a run's computer.

    Attributes:
        create: called with `run_context=`; returns the computer; sync or async.
        dispose: called with `run_context=` and `computer=` after a run's computer was unused for
            half an hour; sync or async.
    """

    create: Callable[..., Any]
    dispose: Callable[..., Any] | None = None


ComputerSource: TypeAlias = (
    ComputerT | Callable[..., Any] | ComputerProvider[ComputerT] | ComputerProvider[Any]
)


def _lock() -> Any:
    import asyncio  # imported here because it is slow, and defining tools does not need it

    return asyncio.Lock()


@dataclass
class _Kept:
    """One computer. Its calls run one at a time, because there is one mouse."""

    context: Any
    computer: Any = None
    free: Any = field(default_factory=_lock)
    used_at: float = 0.0


_EVERY: "WeakSet[KeptComputers]" = WeakSet()


async def dispose_resolved_computers(*, run_context: RunContextWrapper[Any]) -> None:
    """Dispose of the computers that were made for a run in this process.

    Args:
        run_context: the run's context, as passed to hooks and other callables.
    """
    for computers in list(_EVERY):
        await computers.give_up(run_context.run_id)


class KeptComputers:
    """The computers of one tool: one shared by all runs, or one per run."""

    def __init__(self, source: ComputerSource[Any], *, clock: Callable[[], float] = time.monotonic):
        """Create a store of computers without making any.

        Args:
            source: the computer, or a callable or provider that makes one.
            clock: returns the time in seconds.
        """
        self._source = source
        self._clock = clock
        self._kept: dict[str, _Kept] = {}
        _EVERY.add(self)

    @asynccontextmanager
    async def lent(self, context: RunContextWrapper[Any]) -> AsyncGenerator[ComputerLike]:
        """Yield the computer of a run for the exclusive use of one call.

        Raises:
            UserError: the callable or provider returned no computer.
            Exception: any error of the callable or provider.
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
        """Dispose of the computer of one run, after the current call has ended."""
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
