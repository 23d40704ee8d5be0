"""`outlast dev`: a Temporal server with its web UI, and optionally a worker."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import typer

from outlast.agents.errors import ServerUnavailable
from outlast.agents.hosts import LARGEST_PORT, problem_of_port
from outlast.cli import options, terminal
from outlast.cli.described import described
from outlast.cli.desk_options import AsName, Groups, person_arguments
from outlast.cli.dev_desk import DevDesk
from outlast.cli.dev_worker import DevWorker
from outlast.cli.serve import DEFAULT_PORT as DESK_PORT
from outlast.cli.serve import has_desk_packages
from outlast.cli.server import answers
from outlast.cli.signals import stop_requested
from outlast.cli.target import Location, locate
from outlast.contract import names
from outlast.dev.data_dir import default_data_dir
from outlast.edges.rendering import command
from outlast.views.records import JsonObject

if TYPE_CHECKING:
    from outlast.dev import EmbeddedServer

DEFAULT_PORT = 7233  # Temporal's own
DEFAULT_UI_PORT = 8233  # likewise

_LIFE_CHECK_SECONDS = 2.0

_Found = TypeVar("_Found")


def _port_option(name: str, default: int) -> Any:
    words = f"Default: {default}, or a free one. 0: free."
    return typer.Option(name, min=0, max=LARGEST_PORT, help=words)


Port: TypeAlias = Annotated[int | None, _port_option("--port", DEFAULT_PORT)]
UIPort: TypeAlias = Annotated[int | None, _port_option("--ui-port", DEFAULT_UI_PORT)]


@described
def dev(
    target: Annotated[str | None, typer.Argument(show_default=False)] = None,
    app_dir: options.AppDir = Path(),
    port: Port = None,
    ui_port: UIPort = None,
    data_dir: Path | None = None,
    in_memory: bool = False,
    no_desk: bool = False,
    as_name: AsName = None,
    groups: Groups = None,
    as_json: options.AsJson = False,
) -> None:
    """Run a Temporal server on this machine, and with TARGET a worker and a desk in the browser.

    Ctrl-C stops them. Runs are kept in the data directory and continue when it starts again. Other
    commands find the server by themselves.

    Command line:
        target (TARGET): A file such as travel.py, or a module: also run a worker that reloads on
            save.
        data_dir: The database. Default: in the project, or your home.
        in_memory: Keep no data after the end.
        no_desk: Do not start a desk for the agents of TARGET.
    """
    if in_memory and data_dir is not None:
        raise typer.BadParameter("--in-memory keeps nothing, so leave out --data-dir.")
    person = _person(as_name, groups, has_desk=target is not None and not no_desk)
    location = None if target is None else locate(target, app_dir)
    home = None if in_memory else data_dir or default_data_dir()

    async def serve() -> None:
        stop = stop_requested()
        server = _server(home, port, ui_port)
        async with terminal.waiting(terminal.err(), "starting a Temporal server"):
            await server.start()
        try:
            is_default = data_dir is None and home is not None
            if target is None or location is None:
                _show_server(server, home, as_json=as_json)
                if not as_json:
                    _show_next(server, is_default=is_default)
                await _until_stopped(stop, server)
            else:
                if as_json:
                    _show_server(server, home, as_json=True)
                address = "" if is_default else f"--address {server.address}"
                given = [target, "--app-dir", str(app_dir)]
                agents = _Agents(given, location, server, None if no_desk else person)
                await _work(agents, stop, home=home, address=address, as_json=as_json)
            left = "leaving the server running for others" if server.joined else "stopping"
            terminal.say(terminal.err(), left)
        finally:
            await server.stop()

    asyncio.run(serve())


def _person(name: str | None, groups: str | None, *, has_desk: bool) -> list[str]:
    person = person_arguments(name, groups)
    if person and not has_desk:
        raise typer.BadParameter("--as and --groups are for the desk, which needs TARGET.")
    return person


def _server(home: Path | None, port: int | None, ui_port: int | None) -> "EmbeddedServer":
    from outlast.dev import EmbeddedServer, running_server

    if home is not None and port is None and running_server(home) is not None:
        port, ui_port = 0, 0  # the running server is joined, whatever ports it has
    return EmbeddedServer(
        data_dir=home,
        port=_port(port, DEFAULT_PORT),
        ui_port=_port(ui_port, DEFAULT_UI_PORT),
        search_attributes=names.SEARCH_ATTRIBUTES,
    )


class _Agents:
    """The agents of a target: their worker, and their desk.

    Args:
        given: the arguments that name the target.
        location: where it is.
        server: the server.
        person: the arguments that name the person of the desk; None for no desk.
    """

    def __init__(
        self,
        given: Sequence[str],
        location: Location,
        server: "EmbeddedServer",
        person: Sequence[str] | None,
    ) -> None:
        arguments = [*given, "--address", server.address, "--namespace", server.info.namespace]
        with_desk = person is not None
        self.location = location
        self.server = server
        self.has_desk = with_desk and has_desk_packages()
        self.lacks_packages = with_desk and not self.has_desk
        self._desk = DevDesk([*arguments, *(person or ())], _port(None, DESK_PORT))
        self.worker = DevWorker(arguments, location, self._on_reload)

    async def start(self) -> tuple[JsonObject | str, str | None]:
        """Start both; return the worker's record or why it did not start, and the desk's address.

        The desk needs the same code, so it does not start where the worker cannot.
        """
        found = await self.worker.replace()
        is_working = self.has_desk and not isinstance(found, str)
        return found, await self._desk.start() if is_working else None

    async def stop(self) -> None:
        """Stop both."""
        await asyncio.gather(self._desk.stop(), self.worker.stop())

    async def _on_reload(self) -> None:
        if self.has_desk:
            await self._desk.restart()


async def _work(
    agents: _Agents, stop: asyncio.Event, *, home: Path | None, address: str, as_json: bool
) -> None:
    console, reloading = terminal.err(), None
    try:
        async with terminal.waiting(console, f"starting {agents.location.shown}"):
            started = await _unless_stopped(agents.start(), stop)
        if started is None:
            return
        found, desk = started
        if reloads := find_spec("watchfiles") is not None:
            reloading = asyncio.create_task(agents.worker.reload_on_save())
            await asyncio.sleep(0)  # from here on, every save counts
        if as_json:
            failed = {"status": "failed", "error": str(found)}
            record = failed if isinstance(found, str) else found
            terminal.print_json_line({**record, "desk": desk})
        else:
            _show_started(agents, found, desk, home=home, address=address)
        if not reloads:
            terminal.say(console, 'Saving does not reload: pip install "outlast[dev]" first.')
        await _until_stopped(stop, agents.server, reloading)
    finally:
        if reloading is not None:
            reloading.cancel()
        await agents.stop()


async def _unless_stopped(
    starting: Coroutine[Any, Any, _Found], stop: asyncio.Event
) -> _Found | None:
    """Return the result of a coroutine, or None if the stop comes first: an import may hang."""
    task, stopping = asyncio.create_task(starting), asyncio.create_task(stop.wait())
    await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if task.done():
        return task.result()
    task.cancel()
    return None


async def _until_stopped(
    stop: asyncio.Event,
    server: "EmbeddedServer",
    reloading: "asyncio.Task[None] | None" = None,
) -> None:
    while not stop.is_set():
        if reloading is not None and reloading.done():
            await reloading  # raises its error
        with suppress(TimeoutError):
            async with asyncio.timeout(_LIFE_CHECK_SECONDS):
                await stop.wait()
        if not stop.is_set() and not await asyncio.to_thread(answers, server.address):
            problem = server.problem_of_writing()
            because = f", because {problem}" if problem else ""
            raise ServerUnavailable(
                f"The Temporal server at {server.address} has ended{because}. Runs continue when "
                "`outlast dev` starts it again."
            )


def _show_server(server: "EmbeddedServer", home: Path | None, *, as_json: bool) -> None:
    if as_json:
        info = server.info
        terminal.print_json_line(
            {
                "address": info.address,
                "ui": info.ui_url,
                "namespace": info.namespace,
                "pid": info.pid,
                "data_dir": str(home) if home else None,
                "joined": server.joined,
            }
        )
        return
    first = "Joined the Temporal server that already runs here, and keeps it running."
    terminal.say(
        terminal.out(), (first if server.joined else "A Temporal server is ready.", "bold green")
    )
    _say_rows(
        ("address", server.address),
        ("UI", server.ui_url or "none"),
        ("data", str(home) if home else "in memory: gone when it stops"),
    )


def _show_next(server: "EmbeddedServer", *, is_default: bool) -> None:
    console = terminal.out()
    terminal.say(console, "Next, in another terminal:")
    if not is_default:
        terminal.say(console, f"  export TEMPORAL_ADDRESS={server.address}")
    terminal.say(console, "  outlast worker TARGET            runs your agents")
    terminal.say(console, '  outlast run AGENT "Hello"        asks one of them')
    terminal.say(console, "Ctrl-C stops it.")


def _show_started(
    agents: _Agents, found: JsonObject | str, desk: str | None, *, home: Path | None, address: str
) -> None:
    console = terminal.out()
    if desk is not None:
        terminal.say(console, ("Open ", "bold"), (desk, "bold green"), " in a browser: the desk.")
    elif agents.lacks_packages:
        terminal.say(console, 'For a desk in the browser: pip install "outlast[serve]"')
    _show_server(agents.server, home, as_json=False)
    if isinstance(found, str):
        terminal.report(f"{found} Correct it and save: the worker then starts.")
    else:
        _show_worker(agents.location, found, agents.server, address)


def _show_worker(
    location: Location, found: JsonObject, server: "EmbeddedServer", address: str
) -> None:
    console = terminal.out()
    problem = found.get("model_problem")
    terminal.say(console, (f"{location.shown} runs, and reloads on save.", "bold green"))
    _say_rows(
        ("agents", ", ".join(found["agents"])),
        ("tools", ", ".join(found["tools"]) or "none"),
        ("model", ", ".join(found["models"]) or ("none" if problem else "your own")),
    )
    if problem:
        terminal.say(console, ("No question can be answered yet: ", "bold yellow"), str(problem))
    terminal.say(console, "Next, in another terminal:")
    terminal.say(console, "  ", command("run", found["starts_with"], "Hello", options=address))
    if server.ui_url:
        terminal.say(console, f"and open {server.ui_url} to see the run.")
    terminal.say(console, "Ctrl-C stops everything; runs are kept.")


def _say_rows(*rows: tuple[str, str]) -> None:
    for name, value in rows:
        terminal.say(terminal.out(), (f"  {name:<8} ", "dim"), value)


def _port(port: int | None, default: int) -> int:
    if port is not None:
        return port
    return default if problem_of_port(default) is None else 0
