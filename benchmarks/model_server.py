"""A cheap model server that calls one tool a set number of times, then answers.

    python benchmarks/model_server.py [KEY_FILE CERTIFICATE_FILE]

Serves the Responses API on loopback, over HTTP and WebSocket, in a process of its own, so that only
the worker is measured. The first line on standard output is the base URL. Each line on standard
input is answered with the bytes of all requests so far and the seconds spent on them, as JSON; the
server ends with its input.

The question is the script: how many turns there are, in which of them the conversation is handed
over, and how much the model says, at what pace. So the server keeps nothing between two requests.
"""

import asyncio
import json
import os
import re
import secrets
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Message: TypeAlias = MutableMapping[str, Any]

_WANTED = re.compile(rb"take (\d+) turns")
_HANDED_OVER = re.compile(rb"hand over in every (\d+)th")
_SPOKEN = re.compile(rb"say (\d+) words in each, (\d+) a second")
_OUTPUT = b'"function_call_output"'
_STREAMED = re.compile(rb'"stream": ?true')
_CONTINUED = b'"previous_response_id"'
_HEADERS = [(b"content-type", b"application/json")]
_STREAM_HEADERS = [(b"content-type", b"text/event-stream")]

AGENTS = ("Front", "Back")
"""Who hands over to whom: each of the two to the other."""

received: dict[str, float] = {"http": 0, "websocket": 0, "http_seconds": 0.0, "http_requests": 0}
"""The bytes of all requests, with the headers of HTTP and of frames; over HTTP, also the seconds
from the end of each request to the end of its response, and the number of requests."""


@dataclass(frozen=True, slots=True)
class Script:
    """The course of a conversation.

    Attributes:
        turns: the number of turns; the last is the answer.
        handoff_every: every such turn hands over to the other agent; 0: none does.
        words: what the model says in a turn before it calls a tool.
        words_per_second: the pace at which it says them when it streams.
    """

    turns: int
    handoff_every: int = 0
    words: int = 0
    words_per_second: int = 0


def question(
    turns: int, *, handoff_every: int = 0, words: int = 0, words_per_second: int = 50
) -> str:
    """Return the question that this model answers in its given turn, 1 or later."""
    parts = [f"Please take {turns} turns and keep a note in each but the last."]
    if handoff_every:
        parts.append(f"Please hand over in every {handoff_every}th turn.")
    if words:
        parts.append(f"Please say {words} words in each, {words_per_second} a second.")
    return " ".join(parts)


def script_of(body: bytes) -> Script:
    """Return the script in a request."""
    wanted, handed, spoken = (one.search(body) for one in (_WANTED, _HANDED_OVER, _SPOKEN))
    return Script(
        turns=int(wanted[1]) if wanted else 0,
        handoff_every=int(handed[1]) if handed else 0,
        words=int(spoken[1]) if spoken else 0,
        words_per_second=int(spoken[2]) if spoken else 0,
    )


async def app(
    scope: Message,
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    """Answer one request, or all requests of one WebSocket."""
    if scope["type"] == "websocket":
        await _answer_socket(receive, send)
        return
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            break
    body = b"".join(parts)
    head = sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    received["http"] += len(f"POST {scope['path']} HTTP/1.1\r\n\r\n") + head + len(body)
    begun = time.perf_counter()
    await _respond(body, send)
    received["http_seconds"] += time.perf_counter() - begun
    received["http_requests"] += 1


async def _respond(body: bytes, send: Callable[[Message], Awaitable[None]]) -> None:
    script = script_of(body)
    answer = _answer(script, body.count(_OUTPUT))
    if _STREAMED.search(body):
        await send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})
        async for event in _paced(answer, script.words_per_second):
            data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
            await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": json.dumps(answer).encode()})


async def _answer_socket(
    receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    script, done = Script(0), 0
    while (message := await receive())["type"] == "websocket.receive":
        body = message["text"].encode()
        received["websocket"] += len(body) + (6 if len(body) < 126 else 8)
        outputs = body.count(_OUTPUT)
        is_continued = _CONTINUED in body
        script, done = (script, done + outputs) if is_continued else (script_of(body), outputs)
        async for event in _paced(_answer(script, done), script.words_per_second):
            await send({"type": "websocket.send", "text": json.dumps(event)})


def _answer(script: Script, done: int) -> dict[str, Any]:
    """Return the response to a request with the outputs of so many calls."""
    turn = done + 1
    if turn >= script.turns:
        return _response(_text(_speech(script.words) or "All notes are kept."))
    every = script.handoff_every
    if every and turn % every == 0:
        name = f"transfer_to_{AGENTS[turn // every % 2].lower()}"
        call = _call(name, {})
    else:
        call = _call("note", {"number": done})
    said = [_text(_speech(script.words))] if script.words else []
    return _response(*said, call)


def _speech(words: int) -> str:
    return " ".join(f"word{number:03d}" for number in range(words))


async def _paced(response: dict[str, Any], per_second: int) -> AsyncIterator[dict[str, Any]]:
    """Yield a response as the events of a stream, with the words of its text at a pace."""
    for event in _events(response):
        if per_second and event["type"] == "response.output_text.delta":
            await asyncio.sleep(1 / per_second)
        yield event


def _events(response: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a response as the events of a stream, which say its text in words."""
    for number, event in enumerate(_plain_events(response)):
        yield {**event, "sequence_number": number}


def _plain_events(response: dict[str, Any]) -> Iterator[dict[str, Any]]:
    begun: dict[str, Any] = {**response, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(response["output"]):
        yield from _item_events(index, item)
    yield {"type": "response.completed", "response": response}


def _item_events(index: int, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    is_call = item["type"] == "function_call"
    kind = "function_call_arguments" if is_call else "output_text"
    text = item["arguments"] if is_call else item["content"][0]["text"]
    place: dict[str, Any] = {"item_id": item["id"], "output_index": index}
    empty: dict[str, Any] = {"arguments": ""} if is_call else {"content": []}
    yield {
        "type": "response.output_item.added",
        "output_index": index,
        "item": {**item, **empty, "status": "in_progress"},
    }
    part: dict[str, Any] = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    if not is_call:
        place |= {"content_index": 0}
        yield {"type": "response.content_part.added", **place, "part": part}
    more: dict[str, Any] = {} if is_call else {"logprobs": []}
    for word in re.findall(r"\S+\s*", text):
        yield {"type": f"response.{kind}.delta", **place, "delta": word, **more}
    whole: dict[str, Any]
    whole = {"arguments": text, "name": item["name"]} if is_call else {"text": text, "logprobs": []}
    yield {"type": f"response.{kind}.done", **place, **whole}
    if not is_call:
        part = {**part, "text": text}
        yield {"type": "response.content_part.done", **place, "part": part}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{secrets.token_hex(25)}",
        "call_id": f"call_{secrets.token_hex(12)}",
        "name": name,
        "arguments": json.dumps(arguments),
        "status": "completed",
    }


def _text(said: str) -> dict[str, Any]:
    text: dict[str, Any] = {
        "type": "output_text",
        "text": said,
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


def _response(*items: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": f"resp_{secrets.token_hex(25)}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": "benchmark",
        "output": list(items),
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


def _count_when_asked() -> None:
    for _ in sys.stdin:
        print(json.dumps(received), flush=True)
    os._exit(0)


async def main(key_file: str | None = None, certificate_file: str | None = None) -> None:
    """Serve until standard input ends."""
    import uvicorn  # here, since other environments read the script without it

    threading.Thread(target=_count_when_asked, daemon=True).start()
    config = uvicorn.Config(
        app,
        port=0,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ssl_keyfile=key_file,
        ssl_certfile=certificate_file,
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  uvicorn has no event for it
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    origin = f"http://127.0.0.1:{port}" if key_file is None else f"https://localhost:{port}"
    sys.stdout.write(f"{origin}/v1\n")
    sys.stdout.flush()
    await serving


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
