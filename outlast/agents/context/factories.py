"""Factories of live values, for workers that did not start the run."""

import asyncio
import inspect
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, Final, TypeAlias, cast

from outlast.agents.callables import call, check_callable
from outlast.agents.context.codec import write_parts
from outlast.agents.context.live import LiveValues, ValuePath
from outlast.agents.errors import UserError
from outlast.agents.logs import get_logger
from outlast.loop.values import Json

ContextFactory: TypeAlias = Callable[[Any], Any] | Mapping[str, Callable[[], Any]]
"""A callable that makes a context from its data, or callables by dotted path."""

PATIENCE_SECONDS: Final = 60.0
"""The time limit of one factory call."""

KEPT_RUNS: Final = 1_000
"""A worker keeps the contexts of this many runs, the most recently used."""

logger: Final = get_logger(__name__)


class ContextFactories:
    """The factories of a worker, and the live values they have made.

    Args:
        make: a callable that takes the data of a run's context as JSON and returns a context, once
            per run; or a dict of callables without arguments, by the dotted path of the field,
            each called once per worker. They may be async. A generator yields the value; the code
            after its `yield` runs when the worker stops or drops the run.

    Raises:
        UserError: a callable does not take these arguments.
    """

    def __init__(self, make: ContextFactory) -> None:
        self._fields: dict[ValuePath, Callable[[], Any]] = {}
        self._make: Callable[[Any], Any] | None = None
        if isinstance(make, Mapping):
            for name, factory in cast("Mapping[str, Callable[[], Any]]", make).items():
                check_callable(factory, (), what=f"AgentWorker(context={{{name!r}: ...}})")
                self._fields[tuple(name.split("."))] = factory
        else:
            check_callable(make, ("data",), what="AgentWorker(context=...)")
            self._make = make
        self._shared: LiveValues = {}
        self._runs: OrderedDict[Hashable, tuple[LiveValues, AsyncExitStack]] = OrderedDict()
        self._stack = AsyncExitStack()
        self._making = asyncio.Lock()

    async def values(self, run: Hashable, data: Json) -> LiveValues:
        """Return the live values for a run, and make them on the first request.

        `run` tells the run from others that use its id before or after it, or on another server.

        Raises:
            UserError: a factory failed or took too long. The message names the factory and its
                error.
        """
        async with self._making:
            if self._make is None:
                for path, make in self._fields.items():
                    if path not in self._shared:
                        place = f"context={{{'.'.join(path)!r}: ...}}"
                        self._shared[path] = await _call_factory(make, (), self._stack, place)
                return self._shared
            if run not in self._runs:
                stack = AsyncExitStack()
                made = await _call_factory(self._make, (data,), stack, "context=...")
                self._runs[run] = (write_parts(made)[1], stack)
                while len(self._runs) > KEPT_RUNS:
                    _, (_, oldest) = self._runs.popitem(last=False)
                    await _close(oldest)
            self._runs.move_to_end(run)
            return self._runs[run][0]

    async def aclose(self) -> None:
        """Run the code after the `yield` of generator factories."""
        while self._runs:
            _, (_, stack) = self._runs.popitem()
            await _close(stack)
        self._shared.clear()
        await _close(self._stack)


async def _call_factory(
    make: Callable[..., Any], arguments: tuple[Any, ...], stack: AsyncExitStack, place: str
) -> Any:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            if inspect.isasyncgenfunction(make):
                return await stack.enter_async_context(asynccontextmanager(make)(*arguments))
            if inspect.isgeneratorfunction(make):
                return stack.enter_context(contextmanager(make)(*arguments))
            return await call(make, *arguments)
    except TimeoutError:
        raise UserError(
            f"AgentWorker({place}) did not return within {PATIENCE_SECONDS:g} seconds."
        ) from None
    except Exception as error:  # a factory is user code
        kind = type(error).__name__
        raise UserError(f"AgentWorker({place}) raised {kind}: {error}") from error


async def _close(stack: AsyncExitStack) -> None:
    try:
        await stack.aclose()
    except Exception:  # the worker has to stop, and other factories to close
        logger.exception("A factory of AgentWorker(context=...) failed while it was closed")


def as_factories(factories: object) -> ContextFactories | None:
    """Return the factories of a worker, or None if it has none.

    Raises:
        UserError: the argument is neither a callable nor a dict of callables.
    """
    if factories is None:
        return None
    if not callable(factories) and not isinstance(factories, Mapping):
        raise UserError(
            "AgentWorker(context=...) must be a callable that takes the data of a context, or a "
            f"dict of callables by field, not {factories!r}."
        )
    return ContextFactories(cast("ContextFactory", factories))
