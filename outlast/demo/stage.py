"""Sets up the demo's server, model and workers, and always cleans them up."""

import asyncio
import os
import secrets
import shutil
import tempfile
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

from temporalio.client import Client

from outlast.contract import names
from outlast.demo.desk_model import answer
from outlast.demo.feed import Narrator
from outlast.demo.processes import Child, WorkerSettings, desk_settings, start_worker
from outlast.demo.responses_server import ResponsesServer
from outlast.demo.story import CUSTOMER, Staff, Story
from outlast.dev import EmbeddedServer
from outlast.dev.data_dir import run_link

_PATIENCE = timedelta(seconds=60)
_PATIENCE_WITH_A_REAL_MODEL = timedelta(minutes=5)


async def play(narrator: Narrator, staff: Staff, *, offline: bool, keep: bool) -> None:
    """Play the demo from beginning to end."""
    async with AsyncExitStack() as stack:
        home = Path(tempfile.mkdtemp(prefix="outlast-demo-"))
        stack.callback(_clear, home, narrator, keep=keep)
        await _set_and_play(stack, home, narrator, staff, offline=offline)
        await staff.leave()


async def _set_and_play(
    stack: AsyncExitStack, home: Path, narrator: Narrator, staff: Staff, *, offline: bool
) -> None:
    narrator.scene("Setting the stage")
    narrator.note(
        "Three agents look after the customers of a shop. Refunds above 100 EUR wait for a person, "
        "and customers who want a human get one. The agents' worker is going to be killed, twice, "
        "at the worst moments. Watch what is lost."
    )
    server = EmbeddedServer(data_dir=home / "temporal", search_attributes=names.SEARCH_ATTRIBUTES)
    children: list[Child] = []
    stack.push_async_callback(server.stop)
    stack.push_async_callback(_stop_all, children)
    async with narrator.waiting("starting a Temporal server"):
        await server.start()
    narrator.facts(
        [("server", f"{server.address}, process {server.info.pid}"), ("UI", f"{server.ui_url}")]
    )
    environment = _model(stack, narrator, offline=offline)
    client = await Client.connect(server.address, namespace=server.info.namespace)
    database = home / "shop.db"
    settings = WorkerSettings(
        address=server.address,
        namespace=server.info.namespace,
        home=home,
        environment={**environment, "SUPPORT_DESK_DB": str(database)},
    )

    async def hire(delay: timedelta) -> Child:
        return await start_worker(len(children) + 1, settings, children, delay=delay)

    run_id = f"demo-{secrets.token_hex(3)}"
    await Story(
        client=client,
        run_id=run_id,
        database=database,
        narrator=narrator,
        staff=staff,
        settings=desk_settings(CUSTOMER),
        hire=hire,
        link=run_link(server.ui_url or "", server.info.namespace, run_id),
        patience=_PATIENCE if environment else _PATIENCE_WITH_A_REAL_MODEL,
    ).tell()


def _model(stack: AsyncExitStack, narrator: Narrator, *, offline: bool) -> dict[str, str]:
    if os.environ.get("OPENAI_API_KEY") and not offline:
        service = os.environ.get("OPENAI_BASE_URL") or "OpenAI"
        narrator.facts([("model", f"{service}; --offline uses a script that needs no key")])
        return {}
    model = stack.enter_context(ResponsesServer(answer))
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
