"""The port to the engine in the process: a server and a worker for unconfigured scripts.

The implementation is found by name, because it starts a worker, which a client must not import.
"""

import inspect
import sys
from typing import TYPE_CHECKING, Any, Protocol, cast

from outlast import lazy
from outlast.agents.errors import UserError

if TYPE_CHECKING:
    from outlast.agents.agent import Agent

IMPLEMENTATION = "outlast.local.engine:LocalEngine"


class Serving(Protocol):
    """A run that this process hosts, or would host if no other process did."""

    @property
    def queue(self) -> str:
        """The task queue that the run is on."""
        ...

    def leave(self) -> None:
        """Stop waiting for a run that goes on."""
        ...

    def withdraw(self) -> None:
        """Undo the request: the run keeps the definitions that it had."""
        ...

    def let_go(self, *, ended: bool) -> None:
        """Stop waiting for a run that is settled.

        Args:
            ended: whether it has ended; otherwise it waits for people.
        """
        ...


class Engine(Protocol):
    """A reachable server, and a worker for the agents of this process."""

    @classmethod
    async def shared(cls) -> "Engine":
        """Return the engine of the running event loop, created on the first call.

        Raises:
            ServerUnavailable: no server answers and none can be started.
        """
        ...

    @property
    def client(self) -> Any:
        """The connected Temporal client."""
        ...

    async def serve(
        self,
        agent: "Agent[Any]",
        run_id: str,
        *,
        context_type: type[Any] | None = None,
        queue: str | None = None,
    ) -> Serving:
        """Host a run in this process, at least while it is awaited.

        Args:
            agent: the run's agent, whatever agents other runs have under its name.
            run_id: the id of the run.
            context_type: the type of its context.
            queue: the task queue of a run that was started before; None for a new run.

        Raises:
            UserError: the agent is invalid.
        """
        ...

    @classmethod
    async def close_shared(cls) -> None:
        """Stop the engine of the running event loop, if there is one."""
        ...

    @classmethod
    async def rest_shared(cls) -> None:
        """Stop the workers in the running event loop, which will pause.

        A server that the process has started stays.
        """
        ...


def local_engine() -> type[Engine]:
    """Return the implementation."""
    return cast("type[Engine]", lazy.load(IMPLEMENTATION))


async def rest_engine() -> None:
    """Pause the running event loop's engine, if there is one."""
    if IMPLEMENTATION.partition(":")[0] in sys.modules:
        await local_engine().rest_shared()


def check_client(given: object, *, what: str) -> None:
    """Refuse a value that is no connected Temporal client, such as an address.

    Args:
        given: the value.
        what: the place, as in "Runner: client=".

    Raises:
        UserError: the value is no connected client.
    """
    if inspect.iscoroutine(given):
        given.close()  # avoids the warning about a coroutine that was never awaited
    if given is None or isinstance(given, str | type) or inspect.isawaitable(given):
        shown = repr(given) if isinstance(given, str) or given is None else type(given).__name__
        raise UserError(
            f"{what} must be a connected Temporal client, not {shown}: "
            "await Client.connect('localhost:7233')."
        )
