"""A model behind both of OpenAI's APIs over HTTP, which knows one refund: the programs need no key."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.wire_rules.watch import WATCH

ARGUMENTS = json.dumps({"order": "A-1", "amount": 20})
PAID = "20 EUR for A-1 are on their way."
THANKED = "You are welcome."
USAGE = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}


def reply_to(messages: list[dict[str, Any]]) -> str | None:
    """Return the answer, or None for a call of `refund`."""
    last = messages[-1]
    if last.get("role") == "tool" or last.get("type") == "function_call_output":
        return str(last.get("content", last.get("output")))
    if "Thank you" not in json.dumps(last):
        return None
    assert PAID in json.dumps(messages), "the conversation was forgotten"
    return THANKED


async def responses(request: Request) -> JSONResponse:
    """Answer by the Responses API."""
    body = await request.json()
    WATCH.sent("/responses", body)
    given = body["input"]
    text = reply_to([{"content": given}] if isinstance(given, str) else given)
    if text is None:
        output = {
            "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "refund",
            "arguments": ARGUMENTS, "status": "completed",
        }  # fmt: skip
    else:
        part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
        output = {
            "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [part],
        }  # fmt: skip
    details = {
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return JSONResponse({
        "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed",
        "output": [output], "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        "usage": {**USAGE, **details},
    })  # fmt: skip


async def completions(request: Request) -> JSONResponse:
    """Answer by the API of Chat Completions."""
    body = await request.json()
    WATCH.sent("/chat/completions", body)
    text = reply_to(body["messages"])
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if text is None:
        function = {"name": "refund", "arguments": ARGUMENTS}
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
    reason = "stop" if text else "tool_calls"
    return JSONResponse({
        "id": "c_1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    })  # fmt: skip


APP = Starlette(
    routes=[
        Route("/v1/responses", responses, methods=["POST"]),
        Route("/v1/chat/completions", completions, methods=["POST"]),
    ]
)


@asynccontextmanager
async def model_server() -> AsyncGenerator[str]:
    """Serve the model; yield its address."""
    server = uvicorn.Server(uvicorn.Config(APP, port=0, log_level="warning"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        assert not task.done(), task.result()
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        await task
