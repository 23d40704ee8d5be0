"""A conversation for `trial.py` whose calls wait for something outside of the run.

Owns: what arrives when, `STEPS`, the moments after each, and what must come out the same.
Must not know: who is killed.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from temporalio.client import Client

from outlast import Agent, RunConfig, RunHandle, Runner, ToolContext, WaitTimeout, function_tool
from outlast.client import connect, finish
from outlast.client.handle import progress_of
from outlast.contract.names import run_key
from outlast.loop.items import text_of
from outlast.loop.state import LoopState
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, after, call, say
from outlast.worker import AgentWorker
from tests.crash.conversation import Talk
from tests.crash.desk_worker import READY, DeskSettings
from tests.crash.team import Ledger
from tests.crash.trial import Moment, Trial
from tests.loop_states import of_loop

_MODEL_DELAY = timedelta(milliseconds=50)
_VOUCHER_WAIT = timedelta(seconds=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What must come out the same, whatever is killed on the way."""

    status: str
    answers: tuple[str, ...]
    outputs: tuple[tuple[str, str], ...]
    receipts: tuple[tuple[str, str, str, bool], ...]
    ignored: int
    model_calls: int
    done: tuple[str, ...]


# --- What happens --------------------------------------------------------------------------------


async def begin(client: Client, run_id: str, task_queue: str, _database: Path) -> RunHandle:
    """Ask for a courier and a voucher."""
    return await Runner.start(
        "Dispatch",
        "Send a courier for A-17, and a voucher.",
        id=run_id,
        run_config=RunConfig(heartbeat_timeout=timedelta(seconds=2)),
        client=client,
        task_queue=task_queue,
    )


async def carry_on(client: Client, handle: RunHandle) -> None:
    """Deliver what the courier reports, each report twice, and nothing for the voucher."""
    for name, value in (("accepted", "by Mia"), ("picked up", "at noon")):
        await handle.wait(of_loop(STEPS[name]))
        [wait] = await handle.pending_waits()
        for _ in range(2):
            await finish(
                wait.token, value, client=client, delivery_id=f"webhook-{name}", source="courier"
            )
    await handle.result()


def _waits_for(name: str) -> Callable[[LoopState], bool]:
    return lambda state: any(
        one.parked is not None and one.parked.wait.name == name for one in state.calls
    )


def _receipts(count: int) -> Callable[[LoopState], bool]:
    return lambda state: len(state.receipts) >= count


STEPS: Final[dict[str, Callable[[LoopState], bool]]] = {
    "booking": lambda state: any(one.status == "running" for one in state.calls),
    "accepted": _waits_for("accepted"),
    "accepted came": _receipts(1),
    "picked up": _waits_for("picked up"),
    "picked up came": _receipts(2),
    "voucher": _waits_for("voucher"),
    "voucher did not come": _receipts(3),
}
"""The steps in their order: each with what holds after it."""


def after_step(name: str) -> Moment:
    """Return the moment after a step."""

    async def has_come(trial: Trial) -> bool:
        async for progress in progress_of(RunHandle(trial.client, trial.run_id)):
            if STEPS[name](progress.state):
                return True
        return False

    return has_come


# --- What came out -------------------------------------------------------------------------------


async def outcome_of(state: LoopState, database: Path) -> Outcome:
    """Return what came out."""
    return Outcome(
        status=state.status,
        answers=tuple(
            "" if one.item is None else text_of(state.items[one.item].raw) for one in state.answers
        ),
        outputs=tuple(
            (str(item.raw["call_id"]), str(item.raw["output"]))
            for item in state.items
            if item.kind == "tool_output"
        ),
        receipts=tuple(
            (one.name, one.delivery_id, one.source, one.timed_out) for one in state.receipts
        ),
        ignored=len(state.ignored),
        model_calls=len(state.responses),
        done=tuple(what for _, what in Ledger(database).entries()),
    )


def keys_of(states: list[LoopState]) -> list[str]:
    """Return the keys of what was begun outside, in the order of the calls."""
    return [
        f"{run_key(state.run_id, state.chain_id)}:{item.raw['call_id']}"
        for state in states
        for item in state.items
        if item.kind == "tool_call"
    ]


def ledger_keys(database: Path) -> list[str]:
    """Return the keys of what was begun, in order."""
    return [key for key, _ in Ledger(database).entries()]


# --- Who works -----------------------------------------------------------------------------------


def dispatch(ledger: Ledger, tool_delay: timedelta) -> Agent[Any]:
    """Return an agent whose courier reports twice, and whose voucher nobody prints."""
    half_seconds = tool_delay.total_seconds() / 2

    @function_tool
    async def courier(ctx: ToolContext[Any], order: str) -> str:
        async def book() -> str:
            await asyncio.sleep(half_seconds)
            ledger.enter(ctx.idempotency_key, f"courier for {order}")
            await asyncio.sleep(half_seconds)
            return order

        order = await ctx.once("book", book)
        who = await ctx.wait_for("accepted", timeout=None, schema=str)
        when = await ctx.wait_for("picked up", timeout=timedelta(days=2), schema=str)
        return f"{order} was picked up {who} {when}"

    @function_tool
    async def voucher(ctx: ToolContext[Any]) -> str:
        ledger.enter(ctx.idempotency_key, "voucher")
        try:
            return await ctx.wait_for("voucher", timeout=_VOUCHER_WAIT)
        except WaitTimeout:
            return "not printed"

    return Agent[Any](name="Dispatch", tools=[courier, voucher])


def _reply(request: ModelRequest) -> Any:
    """Say what follows from what was done so far, whichever process is asked."""
    done = {item["call_id"] for item in request.input if "output" in item}
    if "c1" not in done:
        return [call("courier", "c1", order="A-17")]
    if "c2" not in done:
        return [call("voucher", "c2")]
    return say("It is on its way.")


async def serve(settings: DeskSettings, line: Connection) -> None:
    """Carry the runs until the process ends."""
    client = await connect(settings.address, "default")
    async with AgentWorker(
        client,
        agents=[dispatch(Ledger(settings.database), settings.tool_delay)],
        task_queue=settings.task_queue,
        model_provider=ScriptedModel(always=after(_MODEL_DELAY, _reply)),
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
    ):
        line.send(READY)
        await asyncio.Event().wait()


OUTSIDE = Talk(
    begin=begin,
    carry_on=carry_on,
    outcome_of=outcome_of,
    keys_of=keys_of,
    ledger_keys=ledger_keys,
    serve=serve,
)
"""The conversation, as trials hold it."""
