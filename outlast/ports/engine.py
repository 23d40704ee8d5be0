"""The port to an engine in the process: a server and a worker for scripts that configure nothing.

Owns: what a client needs of it. The implementation is found by name, because it stands above the
client: it starts a worker, and a client must not know one.
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
    """A run that is carried in this process, or would be if no other did."""

    @property
    def queue(self) -> str:
        """The task queue that the run is on."""
        ...

    def leave(self) -> None:
        """Wait no more for a run that goes on here without anybody."""
        ...

    def withdraw(self) -> None:
        """Take back what was asked for: the run is somebody else's, and keeps what it has."""
        ...

    def let_go(self, *, ended: bool) -> None:
        """Wait no more for a run that can do nothing by itself.

        Args:
            ended: it has ended; or else it waits for people.
        """
        ...


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

    async def serve(
        self,
        agent: "Agent[Any]",
        run_id: str,
        *,
        context_type: type[Any] | None = None,
        queue: str | None = None,
    ) -> Serving:
        """Carry a run in this process, for as long as somebody waits for it at least.

        Args:
            agent: the agent that the run has, whatever other runs have under its name.
            run_id: the run.
            context_type: the type of its context.
            queue: where the run is, if it has been started before; None for a new run.

        Raises:
            UserError: the agent does not fit.
        """
        ...

    @classmethod
    async def close_shared(cls) -> None:
        """Stop the engine of the running event loop, if there is one."""
        ...

    @classmethod
    async def rest_shared(cls) -> None:
        """Stop what the engine runs in the running event loop, which will stand still.

        A server that the process has started stays.
        """
        ...


def local_engine() -> type[Engine]:
    """Return the implementation."""
    return cast("type[Engine]", lazy.load(IMPLEMENTATION))


async def rest_engine() -> None:
    """Let the running event loop's engine rest, if there is one."""
    if IMPLEMENTATION.partition(":")[0] in sys.modules:
        await local_engine().rest_shared()


def check_client(given: object, *, what: str) -> None:
    """Refuse what is no connected Temporal client, such as an address or a missing `await`.

    Args:
        given: what a program gave.
        what: names the place, as in "Runner: client=".

    Raises:
        UserError: it is none.
    """
    if inspect.iscoroutine(given):
        given.close()  # or else it is warned of, as one that nobody awaited
    if given is None or isinstance(given, str | type) or inspect.isawaitable(given):
        shown = repr(given) if isinstance(given, str) or given is None else type(given).__name__
        raise UserError(
            f"{what} must be a connected Temporal client, not {shown}: "
            "await Client.connect('localhost:7233')."
        )
