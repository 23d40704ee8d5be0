"""Commands with which a person acts on a run: the options they share, and how they are sent."""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import typer

from outlast.agents.errors import DecisionRefused, UserError
from outlast.cli import options, server, terminal
from outlast.contract.names import METHOD_NAMED
from outlast.loop.values import JsonObject
from outlast.rendering import command

if TYPE_CHECKING:
    from outlast.client.handle import RunHandle
    from outlast.loop.approvals import Person

T = TypeVar("T")

By: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--by", help="Another name, which proves nothing. Default: you, with your groups."
    ),
]


def sender(by: str | None) -> "Person":
    """Return the user of the operating system, or the name in `--by`.

    Another name has no groups and counts as unproved: nothing but the command line says that it is
    that person.
    """
    from outlast.client.identity import os_user, person

    user = os_user()
    return user if by in {None, user.subject} else person(by or "", method=METHOD_NAMED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The person who runs a command, and the run that the command is about.

    Attributes:
        run_id: the run.
        person: the person.
        address: host and port of the server, from the command line.
        namespace: the namespace, from the command line.
        as_json: print JSON.
    """

    run_id: str
    person: "Person"
    address: str | None = None
    namespace: str | None = None
    as_json: bool = False

    async def connect(self) -> "RunHandle":
        """Connect to the server of the run."""
        from outlast.client.handle import RunHandle

        connection = await server.connect(self.address, self.namespace)
        return RunHandle(connection.client, self.run_id)

    async def send(self, handle: "RunHandle", act: Callable[[], Awaitable[T]]) -> T:
        """Send what the person does, and return the receipt of the run.

        Raises:
            DecisionRefused: the run refused it.
            RunNotFound: there is no such run.
        """
        from temporalio.client import WorkflowUpdateFailedError

        queue, console = await server.task_queue_of(handle), terminal.err()
        async with (
            terminal.waiting(console, f"waiting for {self.run_id}"),
            server.hint_without_worker(handle.client, queue, console),
        ):
            try:
                return await act()
            except UserError as error:
                if isinstance(error.__cause__, WorkflowUpdateFailedError):
                    raise DecisionRefused(error.message) from error
                raise

    def show(self, record: JsonObject, *sentence: terminal.Part) -> None:
        """Print the receipt: as JSON if the options say so, else as a sentence."""
        if self.as_json:
            terminal.print_json(record)
        else:
            terminal.say(terminal.out(), *sentence)
            terminal.say(terminal.err(), "See the run: `", command("show", self.run_id), "`.")


def _caller(
    run_id: options.RunId,
    by: By = None,
    address: options.Address = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> Caller:
    return Caller(
        run_id=run_id, person=sender(by), address=address, namespace=namespace, as_json=as_json
    )


def by_person(act: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Return a command with the options of `Caller`, which it gets as its first argument.

    The run's id comes before the command's own arguments, the options come after them.
    """

    @functools.wraps(act)
    def run(**given: Any) -> None:
        caller = _caller(**{name: given.pop(name) for name in shared})

        async def send() -> None:
            await act(caller, **given)

        asyncio.run(send())

    shared = inspect.signature(_caller).parameters
    run_id, *common = shared.values()
    own = list(inspect.signature(act).parameters.values())[1:]
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [one.replace(kind=kind) for one in (run_id, *own, *common)]
    vars(run)["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run
