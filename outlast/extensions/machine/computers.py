"""The computers of runs on a worker: creation, exclusive use, and disposal."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias
from weakref import WeakSet

from outlast.agents.callables import call
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.logs import get_logger
from outlast.extensions.machine.computer import AsyncComputer, Computer, ComputerLike

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    ComputerT = TypeVar("ComputerT", bound=ComputerLike, default=Any)
else:  # the default is for type checkers only, and its package takes 25 ms to import
    from typing import TypeVar

    ComputerT = TypeVar("ComputerT")

logger: Final = get_logger(__name__)

KEPT_FOR = timedelta(minutes=30)
"""How long an unused computer of a run is kept."""


@dataclass
class ComputerProvider(Generic[ComputerT]):
    """A pair of functions that create and dispose of a run's computer.

    Attributes:
        create: called with `run_context=`; returns the computer; sync or async.
        dispose: called with `run_context=` and `computer=` when a run's computer was unused for
            half an hour, and when the worker stops; sync or async.
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
    uses: int = 0
    timer: Any = None


_EVERY: "WeakSet[RunComputers]" = WeakSet()


async def dispose_resolved_computers(*, run_context: RunContextWrapper[Any]) -> None:
    """Dispose of the computers that were made for a run in this process.

    Args:
        run_context: the run's context, as passed to hooks and other callables.
    """
    for computers in list(_EVERY):
        await computers.dispose(run_context.run_key or run_context.run_id)


class RunComputers:
    """The computers of one tool: one shared by all runs, or one per run."""

    def __init__(self, source: ComputerSource[Any], *, kept_for: timedelta = KEPT_FOR):
        """Create a store of computers, each kept for a while unused, without making any."""
        self._source = source
        self._kept_for = kept_for
        self._kept: dict[str, _Kept] = {}
        self._disposals: set[Any] = set()
        _EVERY.add(self)

    @asynccontextmanager
    async def borrow(self, context: RunContextWrapper[Any]) -> AsyncGenerator[ComputerLike]:
        """Yield the computer of a run for the exclusive use of one call.

        Raises:
            UserError: the callable or provider returned no computer.
            Exception: any error of the callable or provider.
        """
        is_shared = isinstance(self._source, Computer | AsyncComputer)
        run_key = "" if is_shared else context.run_key or context.run_id
        while True:
            kept = self._kept.setdefault(run_key, _Kept(context))
            async with kept.free:
                if self._kept.get(run_key) is not kept:  # disposed of while this call waited
                    continue
                kept.uses += 1
                try:
                    if kept.computer is None:
                        kept.computer = await self._create(context)
                    yield kept.computer
                finally:
                    if not is_shared:
                        self._start_timer(run_key, kept)
                return

    async def dispose(self, run_key: str) -> None:
        """Dispose of the computer of one run, after the current call has ended."""
        if (kept := self._kept.get(run_key)) is not None:
            await self._dispose(run_key, kept)

    async def dispose_all(self) -> None:
        """Dispose of the computers of all runs, each after its current call has ended."""
        for run_key in list(self._kept):
            await self.dispose(run_key)

    async def _create(self, context: RunContextWrapper[Any]) -> ComputerLike:
        source = self._source
        if isinstance(source, Computer | AsyncComputer):
            return source
        create = source.create if isinstance(source, ComputerProvider) else source
        made: object = await call(create, run_context=context)
        if not isinstance(made, Computer | AsyncComputer):
            raise UserError(
                f"ComputerTool(computer=...) returned {made!r}, not a Computer or an AsyncComputer."
            )
        return made

    def _start_timer(self, run_key: str, kept: _Kept) -> None:
        import asyncio

        if kept.timer is not None:
            kept.timer.cancel()
        seconds = self._kept_for.total_seconds()
        loop = asyncio.get_running_loop()
        kept.timer = loop.call_later(seconds, self._expire, run_key, kept, kept.uses)

    def _expire(self, run_key: str, kept: _Kept, uses: int) -> None:
        import asyncio

        disposal = asyncio.ensure_future(self._dispose(run_key, kept, uses))
        self._disposals.add(disposal)  # the event loop holds tasks weakly
        disposal.add_done_callback(self._disposals.discard)

    async def _dispose(self, run_key: str, kept: _Kept, uses: int | None = None) -> None:
        """Dispose of a computer, unless it was used again after a number of uses."""
        async with kept.free:
            if self._kept.get(run_key) is not kept or uses not in {None, kept.uses}:
                return
            del self._kept[run_key]
            if kept.timer is not None:
                kept.timer.cancel()
            await self._call_dispose(kept)

    async def _call_dispose(self, kept: _Kept) -> None:
        source = self._source
        if kept.computer is None or not isinstance(source, ComputerProvider):
            return
        if source.dispose is None:
            return
        try:
            await call(source.dispose, run_context=kept.context, computer=kept.computer)
        except Exception:  # user code, which nobody awaits
            logger.exception(
                "the computer of the run %r could not be disposed of", kept.context.run_id
            )
