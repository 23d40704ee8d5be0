"""The port to an engine in the process: a server and a worker for scripts that configure nothing.

Owns: what a client needs of it. The implementation is found by name, because it stands above the
client: it starts a worker, and a client must not know one.
"""

import pkgutil
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from outlast.agents.agent import Agent

IMPLEMENTATION = "outlast.local.engine:LocalEngine"


class Engine(Protocol):
    """A server that can be reached, and a worker for the agents of this process."""

    @classmethod
    async def shared(cls) -> "Engine":
        """Return the engine of the running event loop, made on the first call.

        Raises:
            ServerUnavailable: no server answers and none can be started.
        """
        ...

    @property
    def client(self) -> Any:
        """The connected Temporal client."""
        ...

    async def serve(self, agent: "Agent[Any]", context_type: type[Any] | None = None) -> str:
        """Carry runs of an agent in this process, and return the task queue to start them on.

        Args:
            agent: the agent.
            context_type: a type of context that runs are started with.
        """
        ...

    @classmethod
    async def close_shared(cls) -> None:
        """Stop the engine of the running event loop, if there is one."""
        ...


def local_engine() -> type[Engine]:
    """Return the implementation."""
    return cast("type[Engine]", pkgutil.resolve_name(IMPLEMENTATION))
