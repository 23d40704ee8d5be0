"""`outlast serve`: the desk, where people decide, answer and watch."""

import asyncio
import logging
import os
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outlast.agents.errors import UserError
from outlast.agents.hosts import LARGEST_PORT, LOOPBACK, is_this_machine
from outlast.cli import event_loop, options, server, terminal
from outlast.cli.caller import Caller
from outlast.cli.described import described
from outlast.cli.desk_options import TeamOptions, api_keys
from outlast.cli.keys import key_file
from outlast.cli.process_log import log_to_standard_error, say_ready
from outlast.cli.search_index import index_at
from outlast.cli.signals import EndOfInput, stop_requested

if TYPE_CHECKING:
    from outlast.deliveries import Webhooks
    from outlast.serve.app import DeskOptions
    from outlast.serve.routing import Desk

DEFAULT_PORT = 8090
DEFAULT_CONNECTIONS = 2_000
_LONGEST_END = timedelta(seconds=10)
"""How long the desk may live after the program that started it."""

_UNSIGNED = (
    "Decisions are not signed, so runs take the names in them for claims. Set OUTLAST_IDENTITY_KEY "
    "to a key whose public part your workers have: `outlast identity new` makes one."
)


@described
def serve(
    team: TeamOptions,
    target: Annotated[str | None, typer.Argument(show_default=False)] = None,
    app_dir: options.AppDir = Path(),
    webhooks: Annotated[str | None, typer.Option(show_default=False)] = None,
    host: str = LOOPBACK,
    port: Annotated[int, typer.Option(min=0, max=LARGEST_PORT)] = DEFAULT_PORT,
    connections: Annotated[int, typer.Option(min=1)] = DEFAULT_CONNECTIONS,
    until_eof: Annotated[bool, typer.Option(hidden=True)] = False,
    *,
    caller: Caller,
) -> None:
    """Serve the desk until Ctrl-C: an inbox, conversations, a chat, and an HTTP API.

    Without a login, it serves you alone, on this machine. A login is --oidc-issuer or --proxy.

    Command line:
        target (TARGET): Where the agents are that customers may start, as for `outlast worker`.
        webhooks (TARGET): Where the webhooks are that it takes: MODULE[:NAME] or FILE[:NAME].
        host: The address to listen at.
        port: The port; 0 for a free one.
        connections: How many connections it takes at once.
        until_eof: Also stop when standard input ends.
    """
    log_to_standard_error(logging.WARNING)
    check_desk_installed()
    _check_host(host, team)
    login, roles = team.login(), team.roles()

    def on_ready(bound: int) -> None:
        _say_where(host, bound, team.url, as_json=caller.as_json)
        event_loop.keep_loaded()

    async def work() -> None:
        from outlast.serve.app import desk
        from outlast.serve.connections import ConnectionLimits
        from outlast.serve.http_server import serve_desk

        stop = stop_requested()
        if until_eof:
            EndOfInput(stop, within=_LONGEST_END)
        connection = await caller.connect()
        given = _options(connection, target, app_dir, team)
        given |= {"login": login, "roles": roles, "webhooks": _webhooks(webhooks, app_dir)}
        application = desk(connection.client, **given)
        shared: Desk = application.state.desk
        if team.has_login and not await shared.signs():
            terminal.say(terminal.err(), _UNSIGNED)
        limits = ConnectionLimits(connections=connections)
        await serve_desk(application, host, port, stop, on_ready, limits)

    asyncio.run(work())


def _say_where(host: str, port: int, url: str | None, *, as_json: bool) -> None:
    own = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    url = url or own
    elsewhere = "" if url == own else f", and listens at {own}"
    say_ready(f"The desk is at {url}{elsewhere}", as_json=as_json, url=url, listens_at=own)


def has_desk_packages() -> bool:
    """Whether the packages of the extra `serve` are there."""
    needed = ("starlette", "uvicorn", "jinja2", "nh3", "PIL")
    return all(find_spec(name) is not None for name in needed)


def check_desk_installed() -> None:
    """Check that the packages of the extra `serve` are there.

    Raises:
        UserError: they are not.
    """
    if not has_desk_packages():
        raise UserError('The desk needs more packages: pip install "outlast[serve]".')


def _check_host(host: str, team: TeamOptions) -> None:
    if not team.has_login and not is_this_machine(host):
        raise UserError(
            f"A desk at {host} needs a login. Leave --host out to serve yourself on this machine, "
            "or add --oidc-issuer or --proxy."
        )


def _options(
    connection: server.Connection, target: str | None, app_dir: Path, team: TeamOptions
) -> "DeskOptions":
    from outlast.cli.application import load_config
    from outlast.serve.look import Look

    config: Any = {} if target is None else load_config(target, app_dir)
    return {
        "agents": config.get("agents", ()),
        "task_queue": config.get("task_queue"),
        "api_keys": api_keys(),
        "api_keys_file": key_file(),
        "url": team.url or "",
        "origins": team.origin or (),
        "search_index": index_at(team.search_index),
        "look": Look() if team.look is None else Look.load(team.look),
        "temporal_ui": os.environ.get("OUTLAST_UI_URL") or connection.ui_url or "",
    }


def _webhooks(target: str | None, app_dir: Path) -> "Webhooks | None":
    from outlast.cli.application import load_webhooks

    return None if target is None else load_webhooks(target, app_dir)
