"""A cheap model server that calls one tool a set number of times, then answers.

    python benchmarks/model_server.py

Serves the Responses API on loopback, in a process of its own, so that only the worker is measured.
The first line on standard output is the base URL; the server ends with its standard input.
"""

import asyncio
import json
import os
import re
import secrets
import sys
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

import uvicorn

Message: TypeAlias = MutableMapping[str, Any]

_WANTED = re.compile(rb"take (\d+) turns")
_OUTPUT = b'"function_call_output"'
_HEADERS = [(b"content-type", b"application/json")]


def question(turns: int) -> str:
    """Return the question that this model answers in its given turn, 1 or later."""
    return f"Please take {turns} turns and keep a note in each but the last."


async def app(
    _scope: Message,
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    """Answer one request."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            break
    body = b"".join(parts)
    wanted = _WANTED.search(body)
    done = body.count(_OUTPUT)
    last = wanted is None or done >= int(wanted[1]) - 1
    answer = _response(_text() if last else _call(done))
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": json.dumps(answer).encode()})


def _call(number: int) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{secrets.token_hex(25)}",
        "call_id": f"call_{secrets.token_hex(12)}",
        "name": "note",
        "arguments": json.dumps({"number": number}),
        "status": "completed",
    }


def _text() -> dict[str, Any]:
    text: dict[str, Any] = {
        "type": "output_text",
        "text": "All notes are kept.",
        "annotations": [],
        "logprobs": [],
    }
    return {
        "type": "message",
        "id": f"msg_{secrets.token_hex(25)}",
        "role": "assistant",
        "status": "completed",
        "content": [text],
    }


def _response(item: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": f"resp_{secrets.token_hex(25)}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": "benchmark",
        "output": [item],
        "parallel_tool_calls": True,
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": {
            "input_tokens": 1500,
            "input_tokens_details": {"cached_tokens": 1024},
            "output_tokens": 25,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 1525,
        },
        "user": None,
        "metadata": {},
    }


def _end_with_input() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


async def main() -> None:
    """Serve until standard input ends."""
    threading.Thread(target=_end_with_input, daemon=True).start()
    config = uvicorn.Config(app, port=0, log_level="warning", access_log=False, lifespan="off")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  uvicorn has no event for it
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    sys.stdout.write(f"http://127.0.0.1:{port}/v1\n")
    sys.stdout.flush()
    await serving


if __name__ == "__main__":
    asyncio.run(main())
