"""The floor: the same conversation as a minimal hand-written workflow.

It has no agents, plans, approvals, handoffs, messages, retries by kind of error, summaries or
queries for people: only a loop of two activities a turn. The model's activity gets a claim, a
reference to the conversation in the worker's memory, instead of the conversation itself. The
difference to `outlast` is the cost of the framework.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from temporalio import activity, workflow

if TYPE_CHECKING:
    from openai import AsyncOpenAI

WORKFLOW = "Floor"

_TIMEOUT = timedelta(minutes=10)
TOOL: dict[str, Any] = {
    "type": "function",
    "name": "note",
    "description": "Keep a note.",
    "parameters": {
        "type": "object",
        "properties": {"number": {"type": "integer", "description": "The number of the note."}},
        "required": ["number"],
        "additionalProperties": False,
    },
    "strict": True,
}


class _Request:
    """The request of a model call: the workflow holds it, the process refers to it weakly."""

    __slots__ = ("__weakref__", "items")

    def __init__(self, items: Sequence[dict[str, Any]]) -> None:
        self.items = items


_requests: WeakValueDictionary[tuple[str, int], _Request] = WeakValueDictionary()


@workflow.defn(name=WORKFLOW, sandboxed=False)
class Floor:
    """Model, tool, model, tool, answer."""

    def __init__(self) -> None:
        self._request = _Request(())

    @workflow.run
    async def run(self, question: str) -> str:
        """Return the answer."""
        items: list[dict[str, Any]] = [{"role": "user", "content": question}]
        turn = 0
        while True:
            turn += 1
            self._request = _Request(tuple(items))
            _requests[workflow.info().run_id, turn] = self._request
            reply: dict[str, Any] = await workflow.execute_activity(
                "ask_model", {"claim": turn}, start_to_close_timeout=_TIMEOUT
            )
            items.extend(reply["items"])
            calls = [item for item in reply["items"] if item["type"] == "function_call"]
            if not calls:
                return reply["items"][-1]["content"][0]["text"]
            for call in calls:
                output: str = await workflow.execute_activity(
                    "note", call["arguments"], start_to_close_timeout=_TIMEOUT
                )
                answer = {"call_id": call["call_id"], "output": output}
                items.append({"type": "function_call_output", **answer})

    @workflow.query
    def request(self) -> Sequence[dict[str, Any]]:
        """Return the input of the model call, for a worker that does not hold it."""
        return self._request.items


class FloorActivities:
    """The model call and the tool."""

    def __init__(self, client: "AsyncOpenAI", note: str) -> None:
        self._client = client
        self._note = note

    @activity.defn
    async def ask_model(self, claim: dict[str, int]) -> dict[str, Any]:
        """Call the model with the input that the claim refers to."""
        from httpx2 import Response
        from pydantic_core import from_json

        info = activity.info()
        held = _requests.get((info.workflow_run_id or "", claim["claim"]))
        items = held.items if held is not None else await self._ask_workflow()
        body = {
            "model": "benchmark",
            "instructions": "You keep notes.",
            "input": items,
            "tools": [TOOL],
            "tool_choice": "auto",
        }
        response = await self._client.post("/responses", cast_to=Response, body=body)
        reply = from_json(response.content)
        return {"items": reply["output"], "usage": reply["usage"], "id": reply["id"]}

    @activity.defn
    async def note(self, _arguments: str) -> str:
        """Return a note."""
        return self._note

    async def _ask_workflow(self) -> list[dict[str, Any]]:
        info = activity.info()
        handle = activity.client().get_workflow_handle(
            info.workflow_id or "", run_id=info.workflow_run_id
        )
        return await handle.query("request")
