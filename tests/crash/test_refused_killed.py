"""Workers are killed with SIGKILL while a provider refuses what is said: every conversation goes on.

`OUTLAST_LAWS=25` holds 200 conversations.
"""

import asyncio
import json
import os
import random
import secrets
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
from temporalio.client import Client

from outlast import ModelCallFailed, RunConfig, RunHandle, Runner
from outlast.client.handle import progress_of
from outlast.client.timeline import Timeline
from outlast.loop.values import JsonObject
from outlast.sessions.sqlite import SQLiteSession
from outlast.views.run import loop_state
from tests.crash.desk_worker import DeskSettings, DeskWorker
from tests.crash.refusing_desk import DEPLOY, MARK, serve_refusing_desk
from tests.servers import TemporalServer

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

CONVERSATIONS: Final = round(8 * max(1.0, float(os.environ.get("OUTLAST_LAWS", "1"))))
AT_ONCE: Final = 20
QUICK: Final = RunConfig(heartbeat_timeout=timedelta(seconds=2))
HOW: Final = ("index", "media", "flagged", "bare")


def marked(chance: random.Random, number: int) -> JsonObject:
    """Return a part that the provider refuses."""
    mark = f"{MARK}{chance.choice(HOW)} {number}"
    if chance.random() < 0.5:
        address = f"https://shop.example/{mark.replace(' ', '/')}.png"
        return {"type": "input_image", "image_url": address, "detail": "auto"}
    return text_of(f"Read this. {mark}")


def question(chance: random.Random, number: int) -> list[JsonObject]:
    """Return a message with something that is refused: at once, by a tool, or as a reply later."""
    fine = text_of("What is this?")
    kind = chance.choice(["message", "message", "two", "Look", "Say", "deploy"])
    match kind:
        case "message":
            content = [fine, marked(chance, number)]
        case "two":
            content = [marked(chance, number), fine, marked(chance, number + 1_000)]
        case "deploy":
            content = [text_of(DEPLOY)]
        case _:
            content = [text_of(f"{kind}: {chance.choice(HOW)} {number}")]
    return [{"role": "user", "content": content}]


def text_of(text: str) -> JsonObject:
    return {"type": "input_text", "text": text}


async def hold(
    client: Client, settings: DeskSettings, seed: int, answers: asyncio.Queue[bool]
) -> RunHandle:
    """Hold a conversation, whose last question is answered, and put each answer in a queue."""
    chance = random.Random(seed)
    session = SQLiteSession(f"s{seed}", settings.database / f"{seed}.db")
    if chance.random() < 0.5:  # what another model took, or another program put there
        await session.add_items([
            {"role": "user", "content": [text_of("Hello"), marked(chance, 9_000)]},
            {"role": "assistant", "content": "Good morning."},
        ])  # fmt: skip
    handle = await Runner.start(
        "Desk",
        question(chance, 1),
        id=f"refused-{secrets.token_hex(4)}",
        session=session,
        keep_open=True,
        run_config=QUICK,
        client=client,
        task_queue=settings.task_queue,
    )
    for number in range(2, 2 + chance.randrange(3)):
        sent = await handle.send(question(chance, number))
        with suppress(ModelCallFailed):  # of a bad deploy
            await sent.answer()
        answers.put_nowait(True)
    last = await handle.send("And now?")
    assert (await last.answer()).final_output == "Fine."
    answers.put_nowait(True)
    session.close()
    await handle.cancel("after_turn")
    return handle


async def kill_workers(
    settings: DeskSettings, answers: asyncio.Queue[bool], chance: random.Random
) -> int:
    """Kill a worker after each few answers, while others are made; return how many at the end."""
    killed = 0
    while True:
        async with DeskWorker(settings, serve_refusing_desk) as worker:
            for _ in range(chance.randrange(2, 6)):
                if not await answers.get():
                    return killed
            await worker.kill()
            assert worker.was_killed
            killed += 1


async def test_every_conversation_goes_on_and_only_what_is_refused_is_set_aside(
    server: TemporalServer, tmp_path: Path
) -> None:
    settings = DeskSettings(
        address=server.address,
        task_queue=f"refused-{secrets.token_hex(4)}",
        database=tmp_path,
        log=tmp_path / "log",
    )
    client = await server.connect()
    answers, at_once = asyncio.Queue[bool](), asyncio.Semaphore(AT_ONCE)

    async def one(seed: int) -> RunHandle:
        async with at_once:
            return await hold(client, settings, seed, answers)

    killing = asyncio.create_task(kill_workers(settings, answers, random.Random(7)))
    try:
        handles = await asyncio.gather(*map(one, range(CONVERSATIONS)))
    finally:
        answers.put_nowait(False)  # they are over
        killed = await killing
    assert killed >= 2
    async with DeskWorker(settings, serve_refusing_desk):
        for handle in handles:
            await check(client, handle)


async def check(client: Client, handle: RunHandle) -> None:
    """Everything that is set aside was refused, and is named."""
    state = await handle.state()
    for aside in loop_state(state).aside:
        assert aside.item is not None
        raw = state.items[aside.item].raw
        assert MARK in json.dumps(raw), "what is not refused stays"
    shown = await client.get_workflow_handle(handle.id).query("state")
    assert len(shown["set_aside"]) == len(loop_state(state).aside)
    timeline = Timeline()
    async for progress in progress_of(handle):
        timeline.take(progress.event, progress.state)
    told = [step for step in timeline.steps if step.kind == "set_aside"]
    assert len(told) == len(loop_state(state).aside)
