"""A team whose one question takes every kind of step, served by a process that a test can kill.

Owns: the agents, their model, and their ledger of side effects. Must not know: who asks them, and
when their process is killed.
"""

import asyncio
import sqlite3
from contextlib import closing
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from outlast import (
    Agent,
    GuardrailFunctionOutput,
    RunContextWrapper,
    RunHooks,
    ToolContext,
    function_tool,
    handoff,
    input_guardrail,
    output_guardrail,
)
from outlast.client import connect
from outlast.extensions.handoff_filters import remove_all_tools
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, after, call, say
from outlast.worker import AgentWorker
from tests.crash.desk_worker import READY, DeskSettings

HOOKS = "endings"
"""The name under which workers know the run's hooks."""

_MODEL_DELAY = timedelta(milliseconds=50)
"""Long enough that a worker killed when its model call has started is killed during it."""


class Ledger:
    """What was done, once for each key."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def enter(self, key: str, what: str) -> None:
        """Do something, unless it was done under this key."""
        with closing(self._connect()) as connection, connection:
            connection.execute("INSERT OR IGNORE INTO done VALUES (?, ?)", (key, what))

    def entries(self) -> list[tuple[str, str]]:
        """Return the keys and what was done, in the order in which it was."""
        with closing(self._connect()) as connection:
            return list(connection.execute("SELECT key, what FROM done ORDER BY rowid"))

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=30)
        connection.execute("CREATE TABLE IF NOT EXISTS done (key TEXT UNIQUE, what TEXT)")
        return connection


class Endings(RunHooks[Any]):
    """Hooks that count in the context how often an answer was given."""

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        """Count."""
        context.context["endings"] = context.context.get("endings", 0) + 1


@input_guardrail(run_in_parallel=False)
async def polite(ctx: RunContextWrapper[Any], _agent: Any, _asked: Any) -> GuardrailFunctionOutput:
    """Let everybody pass, and count."""
    ctx.context["checked"] = ctx.context.get("checked", 0) + 1
    return GuardrailFunctionOutput(output_info="polite", tripwire_triggered=False)


@input_guardrail
async def short(_ctx: Any, _agent: Any, asked: Any) -> GuardrailFunctionOutput:
    """Let short questions pass, beside the model."""
    return GuardrailFunctionOutput(output_info="short", tripwire_triggered=len(str(asked)) > 1000)


@output_guardrail
async def discreet(_ctx: Any, _agent: Any, output: Any) -> GuardrailFunctionOutput:
    """Let every answer pass that is no secret."""
    return GuardrailFunctionOutput(
        output_info="discreet", tripwire_triggered="secret" in str(output)
    )


def team(ledger: Ledger, tool_delay: timedelta) -> Agent[Any]:
    """Return the agent that is asked: it notes something and hands over to one that has a clerk."""
    half_seconds = tool_delay.total_seconds() / 2

    async def enter(ctx: ToolContext[Any], what: str) -> str:
        await asyncio.sleep(half_seconds)
        ledger.enter(f"{ctx.run_id}:{ctx.tool_call_id}", what)
        await asyncio.sleep(half_seconds)
        return f"done: {what}"

    @function_tool
    async def note(ctx: ToolContext[Any], text: str) -> str:
        ctx.context["noted"] = text
        return await enter(ctx, text)

    @function_tool(needs_approval=True)
    async def refund(ctx: ToolContext[Any], amount: int) -> str:
        ctx.context["refunded"] = amount
        return await enter(ctx, f"refund of {amount}")

    def handed_over(ctx: RunContextWrapper[Any]) -> None:
        ctx.context["handovers"] = ctx.context.get("handovers", 0) + 1

    clerk = Agent[Any](name="Clerk", instructions="clerk", tools=[refund])
    back = Agent[Any](
        name="Back",
        instructions="back",
        tools=[clerk.as_tool("ask_clerk", "Ask the clerk.")],
        output_guardrails=[discreet],
    )
    return Agent[Any](
        name="Front",
        instructions="front",
        tools=[note],
        handoffs=[handoff(back, input_filter=remove_all_tools, on_handoff=handed_over)],
        input_guardrails=[polite, short],
    )


def _reply(request: ModelRequest) -> Any:
    """Say what follows from what was done so far, whichever process is asked."""
    done = any("output" in item for item in request.input)
    match request.instructions, done:
        case "front", False:
            return [call("note", "c1", text="a leak")]
        case "front", True:
            return [call("transfer_to_back", "h1")]
        case "back", False:
            return [call("ask_clerk", "c2", input="Refund 5.")]
        case "clerk", False:
            return [call("refund", "n1", amount=5)]
        case "clerk", True:
            return say("It is refunded.")
        case _:
            return say("Your money is on its way.")


async def serve(settings: DeskSettings, line: Connection) -> None:
    """Carry the team's runs until the process ends."""
    client = await connect(settings.address, "default")
    async with AgentWorker(
        client,
        agents=[team(Ledger(settings.database), settings.tool_delay)],
        task_queue=settings.task_queue,
        model_provider=ScriptedModel(always=after(_MODEL_DELAY, _reply)),
        references={HOOKS: Endings()},
        sessions=[Path(settings.database).parent],
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
    ):
        line.send(READY)
        await asyncio.Event().wait()
