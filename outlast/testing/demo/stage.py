"""Sets up the demo's server, model and workers, and always cleans them up."""

import asyncio
import os
import secrets
import shutil
import tempfile
from contextlib import AsyncExitStack
from datetime import timedelta
from itertools import count
from pathlib import Path

from temporalio.client import Client

from outlast.contract import names
from outlast.dev import EmbeddedServer
from outlast.dev.data_dir import run_link
from outlast.testing.demo.desk_model import answer
from outlast.testing.demo.feed import Narrator
from outlast.testing.demo.processes import (
    Child,
    Desk,
    WorkerSettings,
    desk_settings,
    kill_server,
    start_worker,
)
from outlast.testing.demo.responses_server import ResponsesServer
from outlast.testing.demo.story import Staff, Story

_PATIENCE = timedelta(seconds=60)
_PACE = timedelta(milliseconds=100)
"""How long the script takes for a word, so that a page shows how an answer grows."""

_PATIENCE_WITH_A_REAL_MODEL = timedelta(minutes=5)


async def play(
    narrator: Narrator, staff: Staff, *, offline: bool, keep: bool, desk: bool = False
) -> None:
    """Play the demo from beginning to end.

    Args:
        narrator: shows it.
        staff: decides and writes.
        offline: whether the scripted model answers even with a key for OpenAI.
        keep: whether databases and logs are kept.
        desk: whether an `outlast serve` shows it, too.
    """
    async with AsyncExitStack() as stack:
        home = Path(tempfile.mkdtemp(prefix="outlast-demo-"))
        stack.callback(_clear, home, narrator, keep=keep)
        await _set_and_play(stack, home, narrator, staff, offline=offline, with_desk=desk)
        await staff.leave()


async def _set_and_play(
    stack: AsyncExitStack,
    home: Path,
    narrator: Narrator,
    staff: Staff,
    *,
    offline: bool,
    with_desk: bool,
) -> None:
    narrator.scene("Setting the stage")
    narrator.note(
        "Three agents look after the customers of a shop. Refunds above 100 EUR wait for a person, "
        "and customers who want a human get one. The agents' worker is going to be killed, three "
        "times, at the worst moments. Watch what is lost."
    )
    temporal = _Temporal(home / "temporal")
    children: list[Child] = []
    stack.push_async_callback(temporal.stop)
    stack.push_async_callback(_stop_all, children)
    async with narrator.waiting("starting a Temporal server"):
        await temporal.server.start()
    server = temporal.server
    narrator.facts(
        [("server", f"{server.address}, process {server.info.pid}"), ("UI", f"{server.ui_url}")]
    )
    environment = _model(stack, narrator, offline=offline, pace=_PACE if with_desk else timedelta())
    client = await Client.connect(server.address, namespace=server.info.namespace)
    database = home / "shop.db"
    settings = WorkerSettings(
        address=server.address,
        namespace=server.info.namespace,
        home=home,
        environment={**environment, "SUPPORT_DESK_DB": str(database)},
    )
    workers = count(1)

    async def hire(delay: timedelta) -> Child:
        return await start_worker(next(workers), settings, children, delay=delay)

    desk = await _open_desk(narrator, settings, children) if with_desk else None
    run_id = f"demo-{secrets.token_hex(3)}"
    await Story(
        client=client,
        run_id=run_id,
        database=database,
        narrator=narrator,
        staff=staff,
        settings=desk_settings(),
        hire=hire,
        link=run_link(server.ui_url or "", server.info.namespace, run_id),
        patience=_PATIENCE if environment else _PATIENCE_WITH_A_REAL_MODEL,
        desk=desk,
        restart_server=temporal.kill_and_start_again,
    ).tell()
    if desk is not None:
        narrator.facts([("desk", f"{desk.url}/conversations"), ("chat", f"{desk.url}/chat/Triage")])


class _Temporal:
    """The demo's Temporal server, which can be killed."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self.server = EmbeddedServer(data_dir=data_dir, search_attributes=names.SEARCH_ATTRIBUTES)

    async def kill_and_start_again(self) -> None:
        self.server = await kill_server(self.server, self._data_dir)
        await self.server.start()

    async def stop(self) -> None:
        await self.server.stop()


async def _open_desk(narrator: Narrator, settings: WorkerSettings, children: list[Child]) -> Desk:
    async with narrator.waiting("the desk starts"):
        desk = await Desk.start(settings, children)
    narrator.facts([("desk", f"{desk.url}, process {desk.pid}. Open it in a browser")])
    return desk


def _model(
    stack: AsyncExitStack, narrator: Narrator, *, offline: bool, pace: timedelta = timedelta()
) -> dict[str, str]:
    if os.environ.get("OPENAI_API_KEY") and not offline:
        service = os.environ.get("OPENAI_BASE_URL") or "OpenAI"
        narrator.facts([("model", f"{service}; --offline uses a script that needs no key")])
        return {}
    model = stack.enter_context(ResponsesServer(answer, pace=pace))
    narrator.facts(
        [("model", f"none: a script for this desk, {model.base_url}. OPENAI_API_KEY uses OpenAI")]
    )
    return {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "scripted"}


async def _stop_all(children: list[Child]) -> None:
    await asyncio.gather(*(child.stop() for child in children))


def _clear(home: Path, narrator: Narrator, *, keep: bool) -> None:
    if keep:
        narrator.facts(
            [("kept", f"{home}"), ("look again", f"outlast dev --data-dir {home}/temporal")]
        )
    else:
        shutil.rmtree(home, ignore_errors=True)
