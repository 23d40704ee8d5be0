"""A desk whose provider refuses what is marked, in a worker process that is killed.

The provider knows nothing but the request, so any process answers as any other. A mark says how the
refusal names it, such as `BAD-index 7`. `Look: index 7` makes the model call a tool that returns it,
and `Say: index 7` makes the model say it, which is refused from the next request on.
"""

import asyncio
import json
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any, Final

from outlast import Agent, function_tool
from outlast.agents.items.tool_output import ToolOutputText
from outlast.agents.json_values import as_objects
from outlast.client import connect
from outlast.loop.values import JsonObject
from outlast.models.failures import Target, reported_failure
from outlast.ports.model import ModelError, ModelRequest
from outlast.testing import ScriptedModel, call, say
from outlast.worker import AgentWorker
from tests.crash.desk_worker import READY, DeskSettings

MARK: Final = "BAD-"
DEPLOY: Final = "Deploy."
"""A question for which the request has a schema that the provider refuses."""

_TARGET: Final = Target(base_url="https://api.example", path="/responses", model="gpt")


@function_tool
async def look(what: str) -> list[ToolOutputText]:
    """Look at something."""
    return [ToolOutputText(text="Seen."), ToolOutputText(text=f"{MARK}{what}")]


desk: Agent[Any] = Agent(name="Desk", tools=[look])


def answer(request: ModelRequest) -> Any:
    """Answer a request, or refuse it."""
    error = _refusal(request.input)
    if error is not None:
        raise error
    last = request.input[-1]
    text = _text(last)
    if text.startswith("Look: "):
        number = sum("call_id" in one for one in request.input)
        thought: JsonObject = {"type": "reasoning", "id": f"rs_{number}", "summary": []}
        return [thought, call("look", f"c{number}", what=text.removeprefix("Look: "))]
    return say(f"{MARK}{text.removeprefix('Say: ')}" if text.startswith("Say: ") else "Fine.")


def _text(item: JsonObject) -> str:
    content = item.get("content")
    parts = as_objects(content)
    return str(content) if parts is None else str(next((one.get("text") for one in parts), ""))


def _refusal(items: Any) -> ModelError | None:
    if DEPLOY in _text(items[-1]):
        return _error("Invalid schema for function 'look': schema must be of type object.")
    places = [
        (at, part, json.dumps(one))
        for at, item in enumerate(items)
        for part, one in enumerate(_parts(item))
        if MARK in json.dumps(one)
    ]
    if not places:
        return None
    at, part, text = places[0]
    how = text.partition(MARK)[2]
    if how.startswith("index"):
        return _error("Invalid value.", param=f"input[{at}].content[{part}]")
    if how.startswith("media"):
        return _error("The image data you provided does not represent a valid image.")
    if how.startswith("flagged"):
        return _error("Flagged.", code="content_policy_violation")
    return _error("Bad Request")


def _parts(item: JsonObject) -> list[Any]:
    content = item.get("content", item.get("output", item.get("arguments")))
    return as_objects(content) or [content]


def _error(message: str, **fields: Any) -> ModelError:
    return reported_failure({"message": message, **fields}, _TARGET, status=400)


async def serve_refusing_desk(settings: DeskSettings, line: Connection) -> None:
    """Carry the runs of the desk."""
    client = await connect(settings.address, "default")
    async with AgentWorker(
        client,
        agents=[desk],
        sessions=[settings.database],
        task_queue=settings.task_queue,
        model_provider=ScriptedModel(always=answer),
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
    ):
        line.send(READY)
        await asyncio.Event().wait()
