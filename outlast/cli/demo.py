"""`outlast demo`: a support desk that survives kill -9, and the proof of it.

Owns: the command; setting the stage and clearing it away, whatever happens in between. The story
is in `demo_story.py`.
"""

import asyncio
import os
import secrets
import shutil
import signal
import sys
import tempfile
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outlast.cli import options, terminal
from outlast.cli.exit_codes import ExitCode
from outlast.cli.server import run_link
from outlast.contract import names

if TYPE_CHECKING:
    from outlast.cli.demo_cast import Child
    from outlast.cli.demo_narration import Narrator
    from outlast.cli.demo_people import Person
    from outlast.dev import EmbeddedServer

_PATIENCE = timedelta(seconds=60)
_PATIENCE_WITH_A_REAL_MODEL = timedelta(minutes=5)


def demo(
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Ask nothing: approve, and end after the story.")
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Use the offline model even with OPENAI_API_KEY.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the databases and logs, and say where.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Watch a support desk survive kill -9, twice, and see the proof.

    Starts a Temporal server, a model and workers of its own and clears them away at the end. With
    OPENAI_API_KEY it talks to OpenAI, without to a model that works offline.
    """
    asks = not yes and not as_json and sys.stdin.isatty() and sys.stdout.isatty()
    try:
        asyncio.run(_play(asks=asks, offline=offline, keep=keep, as_json=as_json))
    except (asyncio.CancelledError, EOFError) as ending:
        raise typer.Exit(ExitCode.INTERRUPTED) from ending


async def _play(*, asks: bool, offline: bool, keep: bool, as_json: bool) -> None:
    from outlast.cli.demo_narration import Narrator
    from outlast.cli.demo_people import Script, TerminalPerson

    _cancel_on_sigterm()
    console = terminal.out()
    narrator = Narrator(console, as_json=as_json)
    person = TerminalPerson(console) if asks else Script()
    async with AsyncExitStack() as stack:
        home = Path(tempfile.mkdtemp(prefix="outlast-demo-"))
        stack.callback(_clear, home, narrator, keep=keep)
        await _set_and_play(stack, home, narrator, person, offline=offline)
        await person.leave()


async def _set_and_play(
    stack: AsyncExitStack, home: Path, narrator: "Narrator", person: "Person", *, offline: bool
) -> None:
    from temporalio.client import Client

    from outlast.cli.demo_cast import WorkerSettings, start_worker
    from outlast.cli.demo_story import Story
    from outlast.dev import EmbeddedServer

    narrator.scene("Setting the stage")
    narrator.note(
        "Three agents look after the customers of a shop. Their worker is going to be killed, "
        "twice, at the worst moments. Watch what is lost."
    )
    server = EmbeddedServer(data_dir=home / "temporal", search_attributes=names.SEARCH_ATTRIBUTES)
    children: list[Child] = []
    stack.push_async_callback(server.stop)
    stack.push_async_callback(_stop_all, children)
    environment = await _start_server_and_model(server, home, children, narrator, offline=offline)
    client = await Client.connect(server.address, namespace=server.info.namespace)
    database = home / "shop.db"
    settings = WorkerSettings(
        address=server.address,
        namespace=server.info.namespace,
        home=home,
        environment={**environment, "SUPPORT_DESK_DB": str(database)},
    )

    async def hire(delay: timedelta) -> "Child":
        number = sum(child.name.startswith("worker") for child in children) + 1
        return await start_worker(number, settings, children, delay=delay)

    run_id = f"demo-{secrets.token_hex(3)}"
    await Story(
        client=client,
        run_id=run_id,
        database=database,
        narrator=narrator,
        person=person,
        hire=hire,
        link=run_link(server.ui_url or "", server.info.namespace, run_id),
        patience=_PATIENCE if environment else _PATIENCE_WITH_A_REAL_MODEL,
    ).tell()


async def _start_server_and_model(
    server: "EmbeddedServer",
    home: Path,
    children: "list[Child]",
    narrator: "Narrator",
    *,
    offline: bool,
) -> dict[str, str]:
    """Start both at once, and return the variables by which workers find the model."""
    from outlast.cli.demo_cast import start_offline_model

    real = bool(os.environ.get("OPENAI_API_KEY")) and not offline
    try:
        async with asyncio.TaskGroup() as group, narrator.waiting("starting a Temporal server"):
            group.create_task(server.start())
            model = None if real else group.create_task(start_offline_model(home, children))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from failed  # one is enough to say what is wrong
    rows = [
        ("server", f"{server.address}, process {server.info.pid}"),
        ("UI", f"{server.ui_url}"),
    ]
    if model is None:
        service = os.environ.get("OPENAI_BASE_URL") or "OpenAI"
        narrator.facts([*rows, ("model", f"{service}; --offline uses one that needs no key")])
        return {}
    narrator.facts([*rows, ("model", f"offline, {model.result()}, process {children[0].pid}")])
    return {"OPENAI_BASE_URL": model.result(), "OPENAI_API_KEY": "offline"}


async def _stop_all(children: "list[Child]") -> None:
    await asyncio.gather(*(child.stop() for child in children))


def _clear(home: Path, narrator: "Narrator", *, keep: bool) -> None:
    if keep:
        narrator.facts(
            [("kept", f"{home}"), ("look again", f"outlast dev --data-dir {home}/temporal")]
        )
    else:
        shutil.rmtree(home, ignore_errors=True)


def _cancel_on_sigterm() -> None:
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
