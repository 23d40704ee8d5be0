"""One question to the team of `team.py`, and all that can be told of it afterwards.

Owns: what is asked and decided, and what must come out the same whatever happens on the way. Must
not know: who is killed.
"""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from temporalio.client import Client

from outlast import RunConfig, RunHandle, Runner, SQLiteSession
from outlast.loop.items import text_of
from outlast.loop.state import LoopState
from outlast.loop.values import Json, JsonObject, Usage
from tests.crash.conversation import Talk
from tests.crash.team import HOOKS, Ledger, serve

QUESTION = "My espresso machine leaks. I want my money back."
_HEARTBEAT_TIMEOUT = timedelta(seconds=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What must come out the same, whatever is killed on the way."""

    status: str
    answer: Json
    agents: tuple[str, ...]
    transcript: tuple[tuple[str, str, str], ...]
    view: tuple[str, ...]
    context: Json
    usage: Usage
    verdicts: tuple[str, ...]
    session: tuple[str, ...]
    done: tuple[str, ...]


async def begin(client: Client, run_id: str, task_queue: str, database: Path) -> RunHandle:
    """Ask the question."""
    return await Runner.start(
        "Front",
        QUESTION,
        id=run_id,
        context={"customer": "Ann"},
        hooks=HOOKS,
        session=_session(run_id, database),
        run_config=RunConfig(heartbeat_timeout=_HEARTBEAT_TIMEOUT),
        client=client,
        task_queue=task_queue,
    )


async def carry_on(client: Client, handle: RunHandle) -> None:
    """Decide what the clerk may not decide, where it waits, and wait for the answer."""
    waiting = await handle.wait(lambda state: bool(state.pending_approvals))
    [request] = waiting.snapshot.pending_approvals
    decision = {"request_id": request.id, "type": "approve", "by": "ann"}
    await client.get_workflow_handle(request.run_id).signal("decide", decision)
    await handle.result()


async def outcome_of(state: LoopState, database: Path) -> Settled:
    """Return what came out."""
    return Settled(
        status=state.status,
        answer=state.final_output,
        agents=state.handoff_path,
        transcript=tuple((item.kind, item.agent, _words(item.raw)) for item in state.items),
        view=tuple(str(part) for part in (state.view,)),
        context=state.context,
        usage=state.usage,
        verdicts=tuple(sorted(str(one.info) for one in state.question.guardrails)),
        session=tuple(_words(item) for item in await _session(state.run_id, database).get_items()),
        done=tuple(what for _, what in Ledger(database).entries()),
    )


def keys_of(states: list[LoopState]) -> list[str]:
    """Return the keys of the calls with side effects, in the order of the calls."""
    return [
        f"{state.run_id}:{item.raw['call_id']}"
        for state in states
        for item in state.items
        if item.kind == "tool_call" and item.raw["name"] in {"note", "refund"}
    ]


def ledger_keys(database: Path) -> list[str]:
    """Return the keys of what was done, in order."""
    return [key for key, _ in Ledger(database).entries()]


def _session(run_id: str, database: Path) -> SQLiteSession:
    return SQLiteSession(run_id, database.with_suffix(".session"))


def _words(item: JsonObject) -> str:
    return str(item.get("output") or item.get("name") or text_of(item))


ASKED = Talk(
    begin=begin,
    carry_on=carry_on,
    outcome_of=outcome_of,
    keys_of=keys_of,
    ledger_keys=ledger_keys,
    serve=serve,
)
"""The question, as trials hold it."""
