"""One side of a comparison: the worker, the starter or the small measurements of one checkout.

    python benchmarks/side.py worker ADDRESS NAMESPACE MODEL_URL
    python benchmarks/side.py starter ADDRESS NAMESPACE
    python benchmarks/side.py effects|memory|imports

`against.py` runs this file with the interpreter of each checkout, so it uses only what both have. The
worker answers each line on standard input with its resource usage, the starter with what it has run.
"""

# ruff: noqa: SLF001  the functions of `effects.py`, which is in both checkouts

import asyncio
import cProfile
import gc
import importlib
import json
import sys
import time
from typing import Any, Final

AGENTS: Final = ("declared", "undeclared", "approved")
"""What a tool of the agent says of its effect: it reads; nothing; a person has to approve it."""

QUEUE: Final = "side"
NOTE: Final = " ".join(f"note {number * 7919 % 10007}" for number in range(200))[:1024]

CALLS: Final = {"run_tool": 300, "call_model": 100}
"""How many calls of an effect a round has."""

ROUNDS: Final = 20


def agents() -> list[Any]:
    """Return the agents, each with a tool that returns 1 KB."""
    from outlast import Agent, function_tool

    async def note(number: int) -> str:
        """Keep a note.

        Args:
            number: The number of the note.
        """
        return f"{number:04d} {NOTE}"[:1024]

    tools: dict[str, Any] = {
        "declared": function_tool(effect="read")(note),
        "undeclared": function_tool(note),
        "approved": function_tool(needs_approval=True)(note),
    }
    return [
        Agent(name=name, instructions="You keep notes.", tools=[tools[name]]) for name in AGENTS
    ]


async def connected(address: str, namespace: str) -> Any:
    """Return a client that the checkout's own `connect` made."""
    try:
        module: Any = importlib.import_module("outlast.client.transport.connection")
    except ImportError:
        module = importlib.import_module("outlast.client.connection")
    return await module.connect(address, namespace)


async def work(address: str, namespace: str, model_url: str) -> None:
    """Carry runs until standard input ends."""
    from benchmarks.usage import report_when_asked
    from outlast.models import OpenAIProvider
    from outlast.worker import AgentWorker

    report_when_asked()
    async with AgentWorker(
        await connected(address, namespace),
        agents=agents(),
        task_queue=QUEUE,
        model_provider=OpenAIProvider(base_url=model_url, api_key="none", transport="http"),
    ):
        print("ready", flush=True)
        await asyncio.Event().wait()


async def start(address: str, namespace: str) -> None:
    """Execute the runs that each line asks for, and answer with the seconds and the last id."""
    from benchmarks.model_server import question
    from outlast import Runner

    client = await connected(address, namespace)

    async def one(agent: str, turns: int) -> str:
        place: dict[str, Any] = {"client": client, "task_queue": QUEUE}
        result = await Runner.run(agent, question(turns), max_turns=None, **place)
        while result.interruptions:
            state = result.to_state()
            for request in result.interruptions:
                state.approve(request)
            result = await Runner.run(agent, state, **place)
        assert result.final_output
        return result.run_id

    async def lane(waiting: Any, agent: str, turns: int) -> list[str]:
        return [await one(agent, turns) for _ in waiting]

    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        asked = json.loads(line)
        waiting, began = iter(range(asked["runs"])), time.perf_counter()
        lanes = (lane(waiting, asked["agent"], asked["turns"]) for _ in range(asked["lanes"]))
        ids = [run_id for each in await asyncio.gather(*lanes) for run_id in each]
        seconds = time.perf_counter() - began
        print(json.dumps({"seconds": seconds, "last": ids[-1]}), flush=True)


# --- Without a server ------------------------------------------------------------------------------


async def effects() -> dict[str, float]:
    """Return the CPU of one attempt in microseconds, and its Python calls, for each effect."""
    own: Any = importlib.import_module("benchmarks.effects")
    from outlast import Agent
    from outlast.activities.worker_deps import WorkerDeps
    from outlast.agents.registry import Registry

    tool: Any = agents()[0].tools[0]
    agent = Agent(name="Notes", instructions="You keep notes.", tools=[tool])
    worker = WorkerDeps(registry=Registry([agent]), models=own.InstantModel())
    measured: dict[str, float] = {}
    requests = {"run_tool": own._tool_call(), "call_model": own._model_call(100)}
    for name, request in requests.items():
        count = CALLS[name]
        await own._repeat(worker, request, count)
        spent: list[float] = []
        for _ in range(ROUNDS):
            began = time.process_time()
            await own._repeat(worker, request, count)
            spent.append((time.process_time() - began) / count)
        measured[f"{name}_us"] = min(spent) * 1e6
        profile = cProfile.Profile()
        profile.enable()
        await own._repeat(worker, request, count)
        profile.disable()
        calls = sum(int(one.callcount) for one in profile.getstats())
        measured[f"{name}_calls"] = round(calls / count)
    return measured


async def memory() -> dict[str, float]:
    """Return the milliseconds of one turn of a run of 100 turns in memory; the fastest of five."""
    from outlast.testing import ScriptedModel, call, run_in_memory

    agent = agents()[0]
    spent: list[float] = []
    for _ in range(6):
        steps: list[Any] = [[call("note", f"c{at}", number=at)] for at in range(99)]
        model = ScriptedModel(*steps, "Done.")
        gc.collect()
        began = time.process_time()
        result = await run_in_memory(agent, "Keep notes.", model=model, max_turns=None)
        spent.append(time.process_time() - began)
        assert result.final_output == "Done."
    return {"in_memory_ms": min(spent[1:]) * 10}


def imports() -> dict[str, float]:
    """Return how many modules `import outlast.worker` loads: ours, and others."""
    before = set(sys.modules)
    importlib.import_module("outlast.worker")

    loaded = set(sys.modules) - before
    ours = {one for one in loaded if one.partition(".")[0] == "outlast"}
    return {"modules_ours": len(ours), "modules_others": len(loaded - ours)}


def main(what: str, *arguments: str) -> None:
    """Be one part of one side."""
    if what in {"worker", "starter"}:
        from outlast.cli import event_loop

        event_loop.run(work(*arguments) if what == "worker" else start(*arguments))
    elif what == "imports":
        print(json.dumps(imports()), flush=True)
    else:
        print(json.dumps(asyncio.run(effects() if what == "effects" else memory())), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
