"""Measures realtime calls: what durability adds to a tool call, and the size of a call's history.

    python benchmarks/realtime.py [--turns 60] [--json]

One caller asks a question per turn; in every second turn the model calls a tool, which takes no
time. The provider is the scripted realtime server, in this process; so are the line and the worker,
the Temporal server is the embedded one. The delay is from the end of the model's function call at
the provider's socket to the arrival of its output there. If the OpenAI Agents SDK can be imported,
its sessions are measured with the same provider.
"""

import argparse
import asyncio
import json
import secrets
import sys
from importlib import import_module
from statistics import median, quantiles
from typing import Any, cast

from outlast import RunConfig, function_tool
from outlast.client import connect
from outlast.contract import names
from outlast.dev import EmbeddedServer
from outlast.loop.values import JsonObject
from outlast.realtime import RealtimeAgent, RealtimeModelConfig, RealtimeRunner
from outlast.realtime.scripted_server.server import RealtimeReply, ScriptedRealtimeServer
from outlast.testing import ScriptedModel, call
from outlast.worker import AgentWorker

MOST_ADDED_MS = 60
MOST_HISTORY_BYTES = 300_000
ANSWER = "Your order has left our house and will be with you on Monday morning, before ten."


def reply(items: list[JsonObject]) -> RealtimeReply:
    """Call the tool for every second question; answer all others."""
    questions = [item for item in items if item.get("role") == "user"]
    asks = len(questions) % 2 == 1 and items[-1].get("role") == "user"
    return [call("track", f"c{len(questions)}", order="A-17")] if asks else ANSWER


def delays_ms(server: ScriptedRealtimeServer) -> list[float]:
    """Return the delays from each function call to its output at the provider's socket."""
    called: dict[str, float] = {}
    found: list[float] = []
    for frame in server.frames:
        body: Any = frame.body
        item: JsonObject = body.get("item") or {}
        if frame.sender == "server" and body["type"] == "response.done":
            for one in body["response"]["output"]:
                if one["type"] == "function_call":
                    called[one["call_id"]] = frame.at_s
        if frame.sender == "client" and item.get("type") == "function_call_output":
            found.append((frame.at_s - called[item["call_id"]]) * 1000)
    return found


async def talk(session: Any, turns: int) -> None:
    """Ask the questions, one after the other."""
    ends = 0
    await session.send_message("Where is my order A-17, please? It is the second week now.")
    async for event in session:
        if event.type == "agent_end" and "Monday" in str(last_of(session)):
            ends += 1
            if ends == turns:
                return
            await session.send_message("Where is my order A-17, please? It is the second week now.")


def last_of(session: Any) -> Any:
    """Return the last item of a session's history."""
    held = cast("dict[str, Any]", vars(session))
    return held["_history"][-1] if "_history" in held else session.history[-1]


async def ours(turns: int) -> dict[str, Any]:
    """Measure outlast."""

    @function_tool
    async def track(order: str) -> str:
        """Track an order."""
        return f"{order} is on its way"

    agent = RealtimeAgent[Any]("Desk", instructions="Be brief.", tools=[track])
    async with (
        EmbeddedServer(ui_port=None, search_attributes=names.SEARCH_ATTRIBUTES) as temporal,
        ScriptedRealtimeServer(always=reply) as server,
    ):
        client = await connect(temporal.address, temporal.info.namespace)
        async with AgentWorker(client, agents=[agent], model_provider=ScriptedModel()):
            runner = RealtimeRunner.using(client=client, task_queue=names.TASK_QUEUE)(agent)
            run_id = f"call-{secrets.token_hex(4)}"
            config = RealtimeModelConfig(url=server.url, api_key="none")
            async with await runner.run(
                id=run_id, model_config=config, run_config=RunConfig(tracing_disabled=True)
            ) as session:
                await talk(session, turns)
            history = await client.get_workflow_handle(run_id).fetch_history()
            size = sum(event.ByteSize() for event in history.events)
        delays = delays_ms(server)
    return {"delays": delays, "bytes": size, "events": len(history.events)}


async def theirs(turns: int) -> dict[str, Any] | None:
    """Measure the SDK, if it is installed."""
    try:
        agents: Any = import_module("agents")
        realtime: Any = import_module("agents.realtime")
    except ImportError:
        return None

    @agents.function_tool
    async def track(order: str) -> str:
        """Track an order."""
        return f"{order} is on its way"

    agent: Any = realtime.RealtimeAgent(name="Desk", instructions="Be brief.", tools=[track])
    async with ScriptedRealtimeServer(always=reply) as server:
        runner: Any = realtime.RealtimeRunner(agent)
        config = {"url": server.url, "api_key": "none"}
        async with await runner.run(model_config=config) as session:
            await talk(session, turns)
        return {"delays": delays_ms(server)}


def main() -> int:
    """Measure, print, and return 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    mine = asyncio.run(ours(arguments.turns))
    other = asyncio.run(theirs(arguments.turns))
    base = median(other["delays"]) if other is not None else 0.0
    result = {
        "delay_ms": round(median(mine["delays"]), 1),
        "delay_95_ms": round(quantiles(mine["delays"], n=20)[-1], 1),
        "sdk_delay_ms": round(base, 1),
        "added_ms": round(median(mine["delays"]) - base, 1),
        "history_bytes": mine["bytes"],
        "history_events": mine["events"],
        "turns": arguments.turns,
    }
    if arguments.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:16} {value:>10,}")
    missed = result["added_ms"] > MOST_ADDED_MS or (
        arguments.turns <= 60 and mine["bytes"] > MOST_HISTORY_BYTES
    )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
