"""One customer's conversation with the support desk, and all that can be told of it afterwards.

Owns: what the customer and the approver say and when, and `Outcome`: what must come out the same
whatever happens on the way. Must not know: who is killed.
"""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from support_desk.shop import Shop
from temporalio.client import (
    Client,
    Interceptor,
    OutboundInterceptor,
    StartWorkflowInput,
    WorkflowHandle,
)

from outlast import RunConfig, RunHandle, Runner
from outlast.contract.names import run_key
from outlast.loop.items import text_of
from outlast.loop.state import LoopState
from outlast.loop.values import Json, Usage
from tests.crash.desk_worker import Serve, serve_desk

AGENT = "Triage"
QUESTION = "Hello! Where is my order A-17?"
MOVE = "Please send order A-18 to Neue Gasse 5, 01067 Dresden instead."
COMPLAINT = "My espresso machine, order A-42, leaks. I want my money back."

# Short, so that a test need not wait long until the loss of a worker is noticed.
_HEARTBEAT_TIMEOUT = timedelta(seconds=2)
_TASK_TIMEOUT = timedelta(seconds=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class SideEffect:
    """A ledger entry without what differs from run to run: its key and its time."""

    effect: str
    arguments: dict[str, Any]
    result: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """An item of the transcript without what differs from run to run: the provider's ids."""

    kind: str
    agent: str
    turn: int
    name: str | None
    arguments: str | None
    output: Json
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What must come out the same, whatever is killed on the way."""

    status: str
    answers: tuple[str, ...]
    agents: tuple[str, ...]
    transcript: tuple[Line, ...]
    context: Json
    turns: int
    usage: Usage
    approvals: tuple[tuple[str, str, str | None], ...]
    ignored: int
    ledger: tuple[SideEffect, ...]


class ShortTasks(Interceptor):
    """Makes a client's workflow tasks short: how long one may take before its worker is lost."""

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002  the SDK's name
        """Wrap the client's calls."""
        return _ShortTasks(next)


class _ShortTasks(OutboundInterceptor):
    async def start_workflow(self, input: StartWorkflowInput) -> WorkflowHandle[Any, Any]:  # noqa: A002  the SDK's name
        input.task_timeout = _TASK_TIMEOUT
        return await super().start_workflow(input)


async def begin(client: Client, run_id: str, task_queue: str, _database: Path) -> RunHandle:
    """Start the conversation with its first question."""
    return await Runner.start(
        AGENT,
        QUESTION,
        id=run_id,
        keep_open=True,
        run_config=RunConfig(heartbeat_timeout=_HEARTBEAT_TIMEOUT),
        client=client,
        task_queue=task_queue,
    )


async def carry_on(client: Client, handle: RunHandle) -> None:
    """Say everything else, each thing when the one before has been answered, up to the end."""
    await _answered(handle, 1)
    await handle.send(MOVE, message_id="move")
    await _answered(handle, 2)
    await handle.send(COMPLAINT, message_id="complaint")
    waiting = await handle.wait(lambda state: bool(state.pending_approvals))
    decision = {"request_id": waiting.interruptions[0].id, "type": "approve", "by": "ann"}
    await client.get_workflow_handle(handle.id).signal("decide", decision)
    await _answered(handle, 3)
    await handle.cancel("after_turn")
    await handle.result()


async def _answered(handle: RunHandle, count: int) -> None:
    await handle.wait(lambda state: len(state.answers) == count)


async def outcome_of(state: LoopState, database: Path) -> Outcome:
    """Return what came out."""
    return Outcome(
        status=state.status,
        answers=tuple(
            text_of(state.items[answer.item].raw) if answer.item is not None else "(none)"
            for answer in state.answers
        ),
        agents=state.handoff_path,
        transcript=tuple(
            Line(
                kind=item.kind,
                agent=item.agent,
                turn=item.turn,
                name=item.raw.get("name"),
                arguments=item.raw.get("arguments"),
                output=item.raw.get("output"),
                text=text_of(item.raw),
            )
            for item in state.items
        ),
        context=state.context,
        turns=state.turns,
        usage=state.usage,
        approvals=tuple(
            (one.name, one.status, one.decision.by if one.decision else None)
            for one in state.approvals
        ),
        ignored=len(state.ignored),
        ledger=tuple(
            SideEffect(effect=entry.effect, arguments=entry.arguments, result=entry.result)
            for entry in Shop.open(database).ledger()
        ),
    )


def keys_of(states: list[LoopState]) -> list[str]:
    """Return the idempotency keys of the calls with side effects, in the order of the calls."""
    return [
        f"{run_key(state.run_id, state.chain_id)}:{item.raw['call_id']}"
        for state in states
        for item in state.items
        if item.kind == "tool_call" and item.raw["name"] in {"change_address", "refund_order"}
    ]


def ledger_keys(database: Path) -> list[str]:
    """Return the idempotency keys in the shop's ledger, in order."""
    return [entry.key for entry in Shop.open(database).ledger()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """What is said in a trial, who serves it, and what is told of it afterwards.

    Attributes:
        begin: starts the run.
        carry_on: says everything else, up to the end.
        outcome_of: what must come out the same, from the run's state and its database.
        keys_of: the keys that the side effects of a run, and of those nested in it, should have.
        ledger_keys: the keys that they have.
        serve: carries the runs, in a process of its own.
    """

    begin: Callable[[Client, str, str, Path], Awaitable[RunHandle]]
    carry_on: Callable[[Client, RunHandle], Coroutine[Any, Any, None]]
    outcome_of: Callable[[LoopState, Path], Awaitable[Any]]
    keys_of: Callable[[list[LoopState]], list[str]]
    ledger_keys: Callable[[Path], list[str]]
    serve: Serve


DESK = Talk(
    begin=begin,
    carry_on=carry_on,
    outcome_of=outcome_of,
    keys_of=keys_of,
    ledger_keys=ledger_keys,
    serve=serve_desk,
)
"""The conversation, as trials hold it."""
