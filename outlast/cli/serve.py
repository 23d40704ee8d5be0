"""`outlast serve`: the desk, where people decide, answer and watch."""

import asyncio
import os
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outlast.agents.errors import UserError
from outlast.cli import options, server, terminal
from outlast.cli.caller import use_codec
from outlast.cli.signals import EndOfInput, stop_requested
from outlast.hosts import LARGEST_PORT, LOOPBACK, is_this_machine

if TYPE_CHECKING:
    from starlette.applications import Starlette

DEFAULT_PORT = 8090
_LONGEST_END = timedelta(seconds=10)
"""How long the desk may live after the program that started it."""


def serve(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="Where the agents are that customers may start, as for `outlast worker`.",
            show_default=False,
        ),
    ] = None,
    app_dir: options.AppDir = Path(),
    host: Annotated[str, typer.Option("--host", help="The address to listen at.")] = LOOPBACK,
    port: Annotated[
        int, typer.Option("--port", min=0, max=LARGEST_PORT, help="The port; 0 for a free one.")
    ] = DEFAULT_PORT,
    as_name: Annotated[
        str | None,
        typer.Option(
            "--as", help="Your name on this machine's desk. Default: you, with your groups."
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option("--groups", help="The groups that you belong to, separated by commas."),
    ] = None,
    until_eof: Annotated[
        bool, typer.Option("--until-eof", help="Also stop when standard input ends.", hidden=True)
    ] = False,
    address: options.Address = None,
    namespace: options.Namespace = None,
    codec: options.Codec = None,
    as_json: options.AsJson = False,
) -> None:
    """Serve the desk until Ctrl-C: an inbox, conversations, a chat, and an HTTP API.

    Without a login, it serves you alone, on this machine.
    """
    use_codec(codec)
    check_desk_installed()
    _check_host(host)

    def on_ready(bound: int) -> None:
        url = f"http://[{host}]:{bound}" if ":" in host else f"http://{host}:{bound}"
        if as_json:
            terminal.print_json_line({"url": url})
        else:
            terminal.say(terminal.out(), "The desk is at ", url)

    async def work() -> None:
        from outlast.serve.http_server import serve_desk

        stop = stop_requested()
        if until_eof:
            EndOfInput(stop, within=_LONGEST_END)
        connection = await server.connect(address, namespace)
        application = _application(connection, target, app_dir, as_name, _names(groups))
        await serve_desk(application, host, port, stop, on_ready)

    asyncio.run(work())


def check_desk_installed() -> None:
    """Check that the packages of the extra `serve` are there.

    Raises:
        UserError: they are not.
    """
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise UserError('The desk needs more packages: pip install "outlast[serve]".')


def _check_host(host: str) -> None:
    if not is_this_machine(host):
        raise UserError(
            f"A desk at {host} needs a login. Leave --host out to serve yourself on this machine."
        )


def _names(text: str | None) -> list[str]:
    return [one.strip() for one in (text or "").split(",") if one.strip()]


def _application(
    connection: server.Connection,
    target: str | None,
    app_dir: Path,
    as_name: str | None,
    groups: list[str],
) -> "Starlette":
    from outlast.cli.application import load_config
    from outlast.client.identity import os_user, person
    from outlast.serve.app import desk
    from outlast.serve.login import ThisMachine

    if groups and as_name is None:
        raise UserError("--groups belongs to --as: without a name, your own groups count.")
    config: Any = {} if target is None else load_config(target, app_dir)
    somebody = os_user() if as_name is None else person(as_name, groups=groups, method="desk")
    return desk(
        connection.client,
        agents=config.get("agents", ()),
        task_queue=config.get("task_queue"),
        login=ThisMachine(somebody),
        temporal_ui=os.environ.get("OUTLAST_UI_URL") or connection.ui_url or "",
    )
