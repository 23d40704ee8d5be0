"""Measures the worker's CPU for one model call and one tool call, outside the provider and Temporal.

    python benchmarks/effects.py [--calls 2000] [--profile]

One process carries out the effects that a turn of a conversation asks for. The model answers at
once with a call of a tool, which returns 1 KB.
"""

import argparse
import asyncio
import cProfile
import pstats
import time
from collections.abc import AsyncIterator
from typing import Any

from outlast import Agent, function_tool
from outlast.activities.attempt import FIRST, attempt_effect
from outlast.activities.content import recorded_result, whole_request
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.registry import Registry
from outlast.contract import records
from outlast.contract.effects import EffectRequest
from outlast.loop.effects import CallModel, RunTool
from outlast.loop.items import Item
from outlast.loop.values import JsonObject, Usage
from outlast.ports.model import ModelRequest, ModelResponse

CONVERSATIONS = (16, 100, 200)
"""The numbers of items in the measured model calls."""

ROUNDS = 20
"""The rounds of calls; the fastest counts, because other processes slow the others down."""

NOTE = "x" * 1024


class InstantModel:
    """A model and its provider: calls the tool `note` at once, with another call id each time."""

    def __init__(self) -> None:
        self._calls = 0

    def get_model(self, model_name: str | None) -> "InstantModel":
        """Return this model for every name."""
        del model_name
        return self

    async def aclose(self) -> None:
        """Do nothing."""

    def stream_response(self, request: ModelRequest) -> AsyncIterator[JsonObject]:
        """Refuse to stream."""
        raise NotImplementedError

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        """Return a call of the tool."""
        del request
        self._calls += 1
        call = _call(f"new_{self._calls}")
        return ModelResponse([call], Usage(requests=1, input_tokens=9, total_tokens=9), "resp_1")


def main() -> None:
    """Print the CPU of each effect in microseconds, or a profile."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    asyncio.run(_measure(arguments.calls, is_profiled=arguments.profile))


async def _measure(calls: int, *, is_profiled: bool) -> None:
    @function_tool(effect="read")
    async def note(number: int) -> str:
        """Keep a note.

        Args:
            number: The number of the note.
        """
        return f"{number:04d} {NOTE}"[:1024]

    agent = Agent(name="Notes", instructions="You keep notes.", tools=[note])
    worker = WorkerDeps(registry=Registry([agent]), models=InstantModel())
    effects = {"run_tool": _tool_call()} | {
        f"call_model, {items} items": _model_call(items) for items in CONVERSATIONS
    }
    for name, request in effects.items():
        await _repeat(worker, request, calls // 10)
        profile = cProfile.Profile() if is_profiled else None
        if profile is not None:
            profile.enable()
        least = min([await _spent(worker, request, calls // ROUNDS) for _ in range(ROUNDS)])
        print(f"{name:24} {least * 1e6:8.1f} us")
        if profile is not None:
            profile.disable()
            pstats.Stats(profile).sort_stats("tottime").print_stats(30)


async def _spent(worker: WorkerDeps, request: EffectRequest[Any], calls: int) -> float:
    """Return the CPU seconds of one call."""
    started = time.process_time()
    await _repeat(worker, request, calls)
    return (time.process_time() - started) / calls


async def _repeat(worker: WorkerDeps, request: EffectRequest[Any], calls: int) -> None:
    for _ in range(calls):
        whole = await whole_request(worker, request)
        result = await attempt_effect(worker, whole, FIRST)
        records.write(await recorded_result(worker.content, whole, result))


def _model_call(items: int) -> EffectRequest[CallModel]:
    """Return the model call of a conversation with this many items: a question, then calls."""
    said = [Item("input", {"role": "user", "content": "Keep notes."})]
    for at in range((items - 1) // 2):
        output = {"type": "function_call_output", "call_id": f"call_{at}", "output": NOTE}
        said += [
            Item("tool_call", _call(f"call_{at}"), "Notes", at + 1),
            Item("tool_output", output, "Notes", at + 1),
        ]
    turn = len(said) // 2 + 1
    effect = CallModel(
        effect=turn * 2,
        agent="Notes",
        turn=turn,
        history=0,
        input_length=len(said),
        run_id="bench",
    )
    return EffectRequest(effect=effect, items=tuple(said))


def _tool_call() -> EffectRequest[RunTool]:
    effect = RunTool(
        effect=3,
        agent="Notes",
        name="note",
        call_id="call_1",
        arguments='{"number": 7}',
        turn=2,
        run_id="bench",
    )
    return EffectRequest(effect=effect)


def _call(call_id: str) -> JsonObject:
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": "note",
        "arguments": '{"number": 7}',
        "status": "completed",
    }


if __name__ == "__main__":
    main()
