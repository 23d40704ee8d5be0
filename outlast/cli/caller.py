"""Who runs a command: the options that commands share, and the form of their output."""

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from operator import methodcaller
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import typer

from outlast.agents.errors import DecisionRefused, UserError
from outlast.cli import options, server, terminal
from outlast.cli.described import described
from outlast.cli.exit_codes import ExitCode
from outlast.contract.names import METHOD_NAMED
from outlast.edges.rendering import command
from outlast.views.records import JsonObject

if TYPE_CHECKING:
    from outlast.client.handle import RunHandle
    from outlast.views.records import Person

T = TypeVar("T")
Main: TypeAlias = Callable[..., Coroutine[Any, Any, ExitCode | None]]

_OfServer: TypeAlias = Annotated[str | None, typer.Option(rich_help_panel="Server")]

By: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--by", help="Another name, which proves nothing. Default: you, with your groups."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The options of all commands: the server, and whether to print JSON.

    Command line:
        address: Host and port of the Temporal server. Default: TEMPORAL_ADDRESS, the profile file,
            the server of `outlast dev`, or localhost:7233.
        namespace: Default: TEMPORAL_NAMESPACE, the profile file, or `default`.
        codec (MODULE:NAME): The payload codec that encrypts the runs. Default: OUTLAST_CODEC, or
            none.
    """

    address: _OfServer = None
    namespace: _OfServer = None
    codec: _OfServer = None
    as_json: options.AsJson = False

    def __post_init__(self) -> None:
        use_codec(self.codec)

    async def connect(self) -> server.Connection:
        """Connect to the server."""
        return await server.connect(self.address, self.namespace)

    def show(self, record: JsonObject, *sentence: terminal.Part) -> None:
        """Print a result: as JSON if the options say so, else as a sentence."""
        if not self.printed_json(record):
            terminal.say(terminal.out(), *sentence)

    def printed_json(self, record: Any) -> bool:
        """Print a result as JSON if the options say so, and return whether they do."""
        if self.as_json:
            terminal.print_json(record)
        return self.as_json

    def show_list(
        self,
        columns: Sequence[terminal.Column[T]],
        found: Sequence[T],
        nothing: str,
        *,
        record: Callable[[T], Any] = methodcaller("record"),
        limit: int | None = None,
    ) -> None:
        """Print what was found: as JSON if the options say so, else as a table.

        Args:
            columns: the columns of the table.
            found: what was found.
            nothing: what to say if nothing was.
            record: makes the JSON of an item.
            limit: the most that are searched for.
        """
        if self.as_json:
            terminal.print_json([record(one) for one in found])
        elif found:
            terminal.say_table(terminal.out(), columns, found)
        else:
            terminal.say(terminal.err(), nothing)
        if limit is not None and len(found) >= limit:
            say_limit(limit)


def say_limit(limit: int, what: str = "", *, is_sure: bool = False) -> None:
    """Say that a list ends at its limit."""
    there = "there are more" if is_sure else "there may be more"
    terminal.say(terminal.err(), f"Limited to {limit:,}{what}: {there}, see --limit.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonCaller(Caller):
    """The person who runs a command, and the run that the command is about."""

    run_id: options.RunId
    by: By = None
    person: "Person" = field(init=False)

    def __post_init__(self) -> None:
        use_codec(self.codec)
        object.__setattr__(self, "person", sender(self.by))

    async def handle(self) -> "RunHandle":
        """Connect to the run."""
        from outlast.client.handle import RunHandle

        return RunHandle((await self.connect()).client, self.run_id)

    async def act(self, act: "Callable[[RunHandle], Awaitable[T]]") -> T:
        """Connect to the run, send what the person does, and return the receipt of the run."""
        handle = await self.handle()
        return await self.send(handle, lambda: act(handle))

    async def send(self, handle: "RunHandle", act: Callable[[], Awaitable[T]]) -> T:
        """Send what the person does, and return the receipt of the run."""
        from temporalio.client import WorkflowUpdateFailedError

        async with server.waiting_for_worker(handle, f"waiting for {self.run_id}"):
            try:
                return await act()
            except UserError as error:
                if isinstance(error.__cause__, WorkflowUpdateFailedError):
                    raise DecisionRefused(error.message) from error
                raise

    def show(self, record: JsonObject, *sentence: terminal.Part) -> None:
        """Print a receipt."""
        Caller.show(self, {"run_id": self.run_id, **record}, *sentence)
        if not self.as_json:
            terminal.say(terminal.err(), "See the run: `", command("show", self.run_id), "`.")


def sender(by: str | None) -> "Person":
    """Return the user of the operating system, or the name in `--by`: without groups or proof."""
    from outlast.client.identity import os_user, person

    user = os_user()
    return user if by in {None, user.subject} else person(by or "", method=METHOD_NAMED)


def use_codec(codec: str | None) -> None:
    """Let the option `--codec` outrank the environment."""
    if codec:
        os.environ["OUTLAST_CODEC"] = codec


def on_server(main: Main) -> Callable[..., None]:
    """Make an async function, whose first argument is a `Caller`, a command that uses a server."""

    @functools.wraps(main)
    def run(**given: Any) -> None:
        if code := asyncio.run(main(**given)):
            raise typer.Exit(code)

    return described(run)
