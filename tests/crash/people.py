"""A conversation for `trial.py` with every kind of step by people and by time.

Owns: who decides what and when, `STEPS`, the moments after each, and what must come out the same.
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

from outlast import Agent, ApprovalPolicy, RunConfig, RunHandle, Runner, ToolContext, function_tool
from outlast.client import connect
from outlast.client.audit import audit_run
from outlast.client.handle import progress_of
from outlast.loop.approvals import Person
from outlast.loop.items import text_of
from outlast.loop.state import LoopState
from outlast.loop.values import Json
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, after, call, say
from outlast.views.run import loop_state
from outlast.worker import AgentWorker
from tests.crash.conversation import Talk
from tests.crash.desk_worker import READY, DeskSettings
from tests.crash.team import Ledger
from tests.crash.trial import Moment, Trial
from tests.loop_states import of_loop

ANN = Person(subject="ann", groups=("billing",))
BOB = Person(subject="bob", groups=("billing",))

_HEARTBEAT_TIMEOUT = timedelta(seconds=2)
_MODEL_DELAY = timedelta(milliseconds=50)
_EXPIRY = timedelta(seconds=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What must come out the same, whatever is killed on the way."""

    status: str
    answers: tuple[tuple[tuple[str, ...], str], ...]
    transcript: tuple[tuple[str, str, str], ...]
    approvals: tuple[tuple[str, str, tuple[tuple[str, str | None, str], ...]], ...]
    ignored: int
    model_calls: int
    done: tuple[str, ...]


# --- What happens --------------------------------------------------------------------------------


async def begin(client: Client, run_id: str, task_queue: str, _database: Path) -> RunHandle:
    """Ask for a refund."""
    return await Runner.start(
        "Clerk",
        "Refund A-17, and send a gift.",
        id=run_id,
        keep_open=True,
        run_config=RunConfig(heartbeat_timeout=_HEARTBEAT_TIMEOUT),
        client=client,
        task_queue=task_queue,
    )


async def carry_on(client: Client, handle: RunHandle) -> None:
    """Decide the refund with an edit and two votes, let the gift expire, and take over."""
    del client
    await handle.wait(of_loop(STEPS["request made"]))
    await handle.approve((await handle.approvals())[0], by=ANN)
    await handle.edit((await handle.approvals())[0], {"euros": 40}, by=BOB)
    await handle.approve((await handle.approvals())[0], by=ANN)
    await handle.wait(lambda state: len(state.answers) == 1)
    await handle.hold(by=ANN)
    await handle.wait(of_loop(STEPS["held"]))
    first = await handle.send("A human, please.", message_id="m1")
    await handle.wait(of_loop(STEPS["message"]))
    await handle.say("I am Ann.", by=ANN, message_id="p1")
    await first.answer()
    second = await handle.send("And now?", message_id="m2")
    await handle.wait(lambda state: "m2" in loop_state(state).question.answering)
    await handle.release(by=ANN, note="All is settled.")
    await second.answer()
    await handle.cancel("after_turn")
    await handle.result()


def _votes(count: int) -> Callable[[LoopState], bool]:
    return lambda state: bool(state.approvals) and len(state.approvals[0].votes) >= count


def _statuses(*statuses: str) -> Callable[[LoopState], bool]:
    return lambda state: tuple(one.status for one in state.approvals) == statuses


def _has(text: str) -> Callable[[LoopState], bool]:
    return lambda state: any(text_of(item.raw) == text for item in state.items)


STEPS: Final[dict[str, Callable[[LoopState], bool]]] = {
    "request made": _statuses("pending"),
    "first vote": _votes(1),
    "edit": _votes(2),
    "second vote": _votes(3),
    "time runs": _statuses("edited", "pending"),
    "expired": _statuses("edited", "expired"),
    "held": lambda state: state.phase == "held",
    "message": _has("A human, please."),
    "said": _has("I am Ann."),
    "released": lambda state: len(state.answers) == 2 and state.hold is None,
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
            (one.to, "" if one.item is None else text_of(state.items[one.item].raw))
            for one in state.answers
        ),
        transcript=tuple((item.kind, item.agent, _words(item.raw)) for item in state.items),
        approvals=tuple(
            (
                one.name,
                one.status,
                tuple((v.decision.type, v.decision.by, v.args_digest) for v in one.votes),
            )
            for one in state.approvals
        ),
        ignored=len(state.ignored),
        model_calls=len(state.responses),
        done=tuple(what for _, what in Ledger(database).entries()),
    )


async def audited(client: Client, run_id: str) -> list[tuple[str, str, str]]:
    """Return what the audit says, without its times."""
    log = await audit_run(client, run_id)
    return [(one.event, one.request_id, one.by) for one in log.records]


def keys_of(states: list[LoopState]) -> list[str]:
    """Return the keys of the calls with side effects, in the order of the calls."""
    return [
        f"{state.run_id}:{item.raw['call_id']}"
        for state in states
        for item in state.items
        if item.kind == "tool_call" and item.raw["name"] == "refund"
    ]


def ledger_keys(database: Path) -> list[str]:
    """Return the keys of what was done, in order."""
    return [key for key, _ in Ledger(database).entries()]


def _words(item: dict[str, Json]) -> str:
    return str(item.get("output") or item.get("name") or text_of(item))


# --- Who works -----------------------------------------------------------------------------------


def clerk(ledger: Ledger, tool_delay: timedelta) -> Agent[Any]:
    """Return an agent whose refund needs two people, and whose gift nobody approves."""
    half_seconds = tool_delay.total_seconds() / 2

    @function_tool(needs_approval=ApprovalPolicy(audience="billing", quorum=2))
    async def refund(ctx: ToolContext[Any], euros: int) -> str:
        await asyncio.sleep(half_seconds)
        ledger.enter(f"{ctx.run_id}:{ctx.tool_call_id}", f"refund of {euros}")
        await asyncio.sleep(half_seconds)
        return f"refunded {euros}"

    @function_tool(needs_approval=ApprovalPolicy(expires_in=_EXPIRY))
    async def gift(ctx: ToolContext[Any]) -> str:
        ledger.enter(f"{ctx.run_id}:{ctx.tool_call_id}", "gift")
        return "sent"

    return Agent[Any](name="Clerk", tools=[refund, gift])


def _reply(request: ModelRequest) -> Any:
    """Say what follows from what was done so far, whichever process is asked."""
    done = {item["call_id"] for item in request.input if "output" in item}
    if "c1" not in done:
        return [call("refund", "c1", euros=50)]
    if "c2" not in done:
        return [call("gift", "c2")]
    is_back = any(item.get("role") == "developer" for item in request.input)
    return say("Goodbye." if is_back else "It is refunded.")


async def serve(settings: DeskSettings, line: Connection) -> None:
    """Carry the clerk's runs until the process ends."""
    client = await connect(settings.address, "default")
    async with AgentWorker(
        client,
        agents=[clerk(Ledger(settings.database), settings.tool_delay)],
        task_queue=settings.task_queue,
        model_provider=ScriptedModel(always=after(_MODEL_DELAY, _reply)),
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
    ):
        line.send(READY)
        await asyncio.Event().wait()


PEOPLE = Talk(
    begin=begin,
    carry_on=carry_on,
    outcome_of=outcome_of,
    keys_of=keys_of,
    ledger_keys=ledger_keys,
    serve=serve,
)
"""The conversation, as trials hold it."""
