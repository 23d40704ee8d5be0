"""A phone call whose line or worker is killed, and what is left of it.

The provider and the caller live in the test's process; the line and the worker in their own. The
caller is told of nothing: the call has a `call_id`, so its sound does not pass through the line.
"""

import asyncio
import secrets
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, TypeAlias

from support_desk.shop import Shop
from temporalio.client import Client

from outlast.client.handle import RunHandle
from outlast.loop.approvals import Person
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject
from outlast.realtime.port.model import RealtimeModelConfig
from outlast.realtime.scripted_server.call import RealtimeCall
from outlast.realtime.scripted_server.server import RealtimeReply, ScriptedRealtimeServer
from outlast.testing import call
from outlast.views.run import loop_state
from tests.crash.desk_worker import READY, DeskSettings, DeskWorker

CALL_SECONDS = 120
LOOK_SECONDS = 0.002

HEARTBEAT_TIMEOUT = timedelta(seconds=10)
"""Longer than a new line takes to start: after that, a worker would answer in text."""

Victim: TypeAlias = Literal["line", "worker"]

Kills: TypeAlias = list[tuple[Victim, int]]
"""Which process is killed, after how many frames, in order."""

FIRST = "I want my money back for A-17."
SECOND = "And for A-42, please."
DONE = ("A-17 is refunded.", "A-42 is refunded.")


def reply(items: list[JsonObject]) -> RealtimeReply:
    """What the model says, from what is in the conversation only: it may be asked twice."""
    calls = {item["call_id"] for item in items if item["type"] == "function_call"}
    outputs = {item["call_id"] for item in items if item["type"] == "function_call_output"}
    if "h1" not in calls:
        return [call("transfer_to_billing", "h1")]
    if calls - outputs:
        return "One moment."
    if "c1" not in calls:
        return [call("refund_order", "c1", order_id="A-17", amount=49.9, reason="Broken")]
    said = [item for item in items if item.get("role") == "user"]
    if len(said) == 1:
        return DONE[0]
    if "c2" not in calls:
        return [call("refund_order", "c2", order_id="A-42", amount=389, reason="Broken")]
    return DONE[1]


async def serve_worker(settings: DeskSettings, line: Connection) -> None:
    """Run the tools of the phone desk."""
    from phone_desk.app import agents, context_type

    from outlast.client import connect
    from outlast.testing import ScriptedModel
    from outlast.worker import AgentWorker

    client = await connect(settings.address, "default")
    async with AgentWorker(
        client,
        agents=agents,
        context_types=[context_type],
        task_queue=settings.task_queue,
        model_provider=ScriptedModel(),
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
    ):
        line.send(READY)
        await asyncio.Event().wait()


async def serve_line(settings: DeskSettings, line: Connection) -> None:
    """Keep the line of the call."""
    from phone_desk.agents import reception
    from support_desk.context import Customer

    from outlast import RunConfig
    from outlast.client import connect
    from outlast.realtime import RealtimeRunner

    client = await connect(settings.address, "default")
    bound = RealtimeRunner.using(client=client, task_queue=settings.task_queue)
    runner = bound(reception, notice_after=None)
    config = RealtimeModelConfig(
        url=settings.model_url, api_key="none", call_id=settings.task_queue
    )
    async with await runner.run(
        id=settings.task_queue,
        context=Customer(),
        model_config=config,
        run_config=RunConfig(heartbeat_timeout=HEARTBEAT_TIMEOUT),
    ) as session:
        line.send(READY)
        async for _ in session:
            pass


@dataclass(kw_only=True)
class PhoneCall:
    """A call that has not been held yet.

    Attributes:
        client: connected to the server.
        address: the server.
        folder: where its shop and its logs are.
        kills: which process is killed, after how many frames.
        killed: how many were.
    """

    client: Client
    address: str
    folder: Path
    kills: Kills = field(default_factory=list[tuple[Victim, int]])
    id: str = field(default_factory=lambda: f"rtc-{secrets.token_hex(4)}")
    killed: int = 0
    server: ScriptedRealtimeServer = field(
        default_factory=lambda: ScriptedRealtimeServer(always=reply)
    )
    _processes: dict[Victim, DeskWorker] = field(default_factory=dict[Victim, DeskWorker])

    @property
    def shop(self) -> Path:
        return self.folder / f"{self.id}.db"

    @property
    def handle(self) -> RunHandle:
        return RunHandle(self.client, self.id)

    async def hold(self) -> LoopState:
        """Hold the call, and return its run."""
        async with asyncio.timeout(CALL_SECONDS), self.server:
            phone = self.server.start_call(self.id)
            killing = None
            try:
                await self._start("worker")
                await self._start("line")
                killing = asyncio.create_task(self._kill())
                await phone.user_says(FIRST)
                await heard(phone, DONE[0])
                await phone.user_says(SECOND)
                await self._decide()
                await heard(phone, DONE[1])
                await killing
                return await self._recorded()
            finally:
                if killing is not None:
                    killing.cancel()
                for process in self._processes.values():
                    await process.__aexit__()

    async def _recorded(self) -> LoopState:
        """Return the run once it has the last words, and nothing is pending."""
        while True:
            state = await self.handle.state()
            if loop_state(state).phase == "idle" and str(DONE[1]) in str(state.items[-1].raw):
                return loop_state(state)
            await asyncio.sleep(0.05)

    async def _decide(self) -> None:
        while not (requests := await self.handle.approvals()):  # noqa: ASYNC110  other processes
            await asyncio.sleep(0.05)
        await self.handle.approve(requests[0], by=Person(subject="ann", groups=("billing",)))

    async def _start(self, victim: Victim) -> None:
        settings = DeskSettings(
            address=self.address,
            task_queue=self.id,
            model_url=self.server.url,
            database=self.shop,
            tool_delay=timedelta(milliseconds=100),
            log=self.folder / f"{self.id}.log",
        )
        process = DeskWorker(settings, serve_line if victim == "line" else serve_worker)
        await process.__aenter__()
        self._processes[victim] = process

    async def _kill(self) -> None:
        for victim, frames in self.kills:
            while len(self.server.frames) < frames:  # noqa: ASYNC110  other processes
                await asyncio.sleep(LOOK_SECONDS)
            await self._processes[victim].kill()
            self.killed += 1
            await self._processes.pop(victim).__aexit__()
            await self._start(victim)


async def heard(phone: RealtimeCall, words: str) -> None:
    """Wait until the caller has heard some words."""
    while True:
        if words in str(phone.conversation.items):
            return
        await asyncio.sleep(0.02)


def check(call: PhoneCall, state: LoopState) -> None:
    """Check what has to be the same whoever was killed: each effect once, and no item lost.

    Raises:
        AssertionError: it is not.
    """
    kinds: dict[str, list[Any]] = {}
    for item in state.items:
        if item.kind.endswith(("call", "output")):
            kinds.setdefault(item.raw["call_id"], []).append(item.kind)
    assert kinds == {
        "h1": ["handoff_call", "handoff_output"],
        "c1": ["tool_call", "tool_output"],
        "c2": ["tool_call", "tool_output"],
    }
    shop = Shop.open(call.shop)
    assert shop.look_up_order("A-17").refunded_cents == 4_990
    assert shop.look_up_order("A-42").refunded_cents == 38_900
    assert state.agent == "Billing"
    assert call.killed == len(call.kills)
