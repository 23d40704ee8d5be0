"""The support desk of the stage, for `outlast worker` and `outlast serve`, and its scripted model.

The tools do something that counts: they write to a ledger, under the idempotency key of the call.
"""

import asyncio
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from outlast import Agent, ToolContext, function_tool
from outlast.loop.values import JsonObject
from outlast.testing.demo.responses_server import ResponsesServer, function_call, message
from tests.faults.ledger import Ledger

QUEUE: Final = "faults"
LEDGER_VARIABLE: Final = "FAULTS_LEDGER"
TOOL_SECONDS: Final = 0.2
"""Half of it before the effect, and half of it before its record."""

MODEL_PORT: Final = 8089
MODEL_DELAY: Final = timedelta(milliseconds=100)
WORD_PACE: Final = timedelta(milliseconds=20)

LARGE: Final = "It is booked and noted. " * 3_500
"""84 kB: what a tool returns that belongs into the blob store."""


def words_for(question: str) -> str:
    """Return the answer to a question: long enough to be read along."""
    return f"What you asked for, {question}, is done, and it is done once: nothing was lost on the way."


async def _enter(ctx: ToolContext[Any], what: str) -> None:
    await asyncio.sleep(TOOL_SECONDS / 2)
    Ledger(Path(os.environ[LEDGER_VARIABLE])).enter(ctx.idempotency_key, ctx.run_id, what)
    await asyncio.sleep(TOOL_SECONDS / 2)


@function_tool
async def note(ctx: ToolContext[Any]) -> str:
    """Keep a note, and return a large one."""
    await _enter(ctx, "note")
    return f"Paid under {ctx.idempotency_key}. {LARGE}"


@function_tool(needs_approval=True)
async def refund(ctx: ToolContext[Any], amount: int) -> str:
    """Pay money back, once somebody has agreed."""
    await _enter(ctx, "refund")
    return f"{amount} EUR are on their way."


@function_tool
async def courier(ctx: ToolContext[Any]) -> str:
    """Book a courier, who reports when it is done."""

    async def book() -> str:
        await _enter(ctx, "courier")
        return "booked"

    await ctx.once("book", book)
    return await ctx.wait_for("collected", timeout=None, schema=str)


agents = [Agent[Any](name="Desk", instructions="You help.", tools=[note, refund, courier])]

ARGUMENTS: Final[dict[str, JsonObject]] = {"note": {}, "refund": {"amount": 20}, "courier": {}}


def reply(body: JsonObject) -> list[JsonObject]:
    """Call the tool that the newest message names, then answer."""
    items: Any = body["input"]
    asked = max(place for place, item in enumerate(items) if item.get("role") == "user")
    question = text_in(items[asked]["content"])
    if any("output" in item for item in items[asked:]):
        return [message(words_for(question))]
    return [function_call(question, ARGUMENTS[question])]


def text_in(content: Any) -> str:
    """Return the text of a message, however its content is written."""
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def main() -> None:
    """Answer as the model until SIGTERM."""
    with ResponsesServer(
        reply, host=sys.argv[1], port=MODEL_PORT, delay=MODEL_DELAY, pace=WORD_PACE
    ):
        signal.sigwait({signal.SIGTERM})


if __name__ == "__main__":
    main()
