"""The port to the local engine, the server and worker of unconfigured scripts.

The implementation is loaded by name: it imports worker code, which a client must not import.
"""

import inspect
import sys
from typing import TYPE_CHECKING, Any, Protocol, cast

from outlast.agents.errors import UserError
from outlast.edges import lazy

if TYPE_CHECKING:
    from outlast.agents.agent import Agent

IMPLEMENTATION = "outlast.local.engine:LocalEngine"


class Serving(Protocol):
    """A run that this process hosts, or would host if no other process did."""

    @property
    def queue(self) -> str:
        """The run's task queue."""
        ...

    @property
    def definitions(self) -> Any:
        """The `Registry` of the agent and of all agents that it can reach."""
        ...

    def leave(self) -> None:
        """Stop waiting for a run that continues."""
        ...

    def release(self) -> None:
        """Stop hosting a run that has ended, or is waiting for reviewers."""
        ...


class Engine(Protocol):
    """A reachable server, and a worker for the agents of this process."""

    @classmethod
    async def shared(cls) -> "Engine":
        """Return the engine of the running event loop, created on the first call."""
        ...

    @property
    def client(self) -> Any:
        """The connected Temporal client."""
        ...

    async def serve(self, agent: "Agent[Any]", *, queue: str | None = None) -> Serving:
        """Host a run in this process, at least while it is awaited.

        `queue` is the task queue of an existing run; None for a new run. The run gets the
        definitions by `RUN_OBJECTS`, once the server says which execution it is.
        """
        ...

    @classmethod
    async def close_shared(cls) -> None:
        """Stop the engine of the running event loop, if there is one."""
        ...

    @classmethod
    async def pause_shared(cls) -> None:
        """Stop the workers of the running event loop before the loop pauses.

        A server that this process started keeps running.
        """
        ...


def local_engine() -> type[Engine]:
    """Return the implementation of `Engine`."""
    return cast("type[Engine]", lazy.load(IMPLEMENTATION))


async def pause_engine() -> None:
    """Stop the workers of the running event loop's engine, if there is one."""
    if IMPLEMENTATION.partition(":")[0] in sys.modules:
        await local_engine().pause_shared()


def check_client(client: object, *, what: str) -> None:
    """Refuse a value that is not a connected Temporal client; `what` names the argument."""
    if inspect.iscoroutine(client):
        client.close()  # prevents the "coroutine was never awaited" warning
    if client is None or isinstance(client, str | type) or inspect.isawaitable(client):
        shown = repr(client) if isinstance(client, str) or client is None else type(client).__name__
        raise UserError(
            f"{what} must be a connected Temporal client, not {shown}: "
            "await Client.connect('localhost:7233')."
        )
