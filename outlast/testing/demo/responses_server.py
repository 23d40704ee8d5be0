"""A server for OpenAI's Responses API whose responses come from a function.

It speaks real HTTP on this machine, with JSON or an event stream like OpenAI's, so workers use it
with their ordinary provider: set OPENAI_BASE_URL, and any OPENAI_API_KEY.
"""

import json
import re
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self, TypeAlias, cast

from outlast.agents.errors import ServerUnavailable
from outlast.agents.hosts import check_port
from outlast.contract.streams.reply_events import reply_events, response_object
from outlast.loop.values import JsonObject, Usage

Responder: TypeAlias = Callable[[JsonObject], Sequence[JsonObject]]
"""Returns the output items for a request's body, or raises `InvalidRequest`."""

LOOPBACK = "127.0.0.1"

_CHARACTERS_PER_TOKEN = 4
_WORDS = re.compile(r"\S+\s*|\s+")


class InvalidRequest(Exception):
    """A request that OpenAI would refuse with status 400; the message says why."""


def message(text: str) -> JsonObject:
    """Return an output item with a message."""
    return {
        "id": f"msg_{secrets.token_hex(12)}",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}],
    }


def function_call(name: str, arguments: JsonObject) -> JsonObject:
    """Return an output item with a tool call or a handoff."""
    return {
        "id": f"fc_{secrets.token_hex(12)}",
        "type": "function_call",
        "status": "completed",
        "call_id": f"call_{secrets.token_hex(12)}",
        "name": name,
        "arguments": json.dumps(arguments, ensure_ascii=False),
    }


class ResponsesServer:
    """Answers requests in a thread of this process.

    with ResponsesServer(lambda body: [message("Hello!")]) as server:
        client = AsyncOpenAI(base_url=server.base_url, api_key="none")

    Args:
        answer: returns the output items of a response.
        host: the address to listen at.
        port: the port; 0 for a free one.
        delay: how long each response takes.
        pace: how long each word takes besides, where the response is streamed.
    """

    def __init__(
        self,
        answer: Responder,
        *,
        host: str = LOOPBACK,
        port: int = 0,
        delay: timedelta = timedelta(0),
        pace: timedelta = timedelta(0),
    ) -> None:
        check_port(port, "port")
        try:
            self._server = _Server((host, port), _Handler)
        except OSError as error:
            raise ServerUnavailable(
                f"Port {port} on {host} is not available: {error.strerror}. Choose another port; 0 "
                "takes a free one."
            ) from error
        self._server.answer = answer
        self._server.delay_seconds = delay.total_seconds()
        self._server.pace_seconds = pace.total_seconds()
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def base_url(self) -> str:
        """The base URL for OpenAI clients."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    answer: Responder
    delay_seconds: float
    pace_seconds: float

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect, such as killed workers."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Respond to a request."""
        content = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path != "/v1/responses":
            self._refuse(404, f"Invalid URL (POST {self.path}). This server has /v1/responses.")
            return
        server = cast("_Server", self.server)
        try:
            body = json.loads(content)
            items = server.answer(body)
        except ValueError as error:
            self._refuse(400, f"We could not parse the JSON body of your request: {error}")
            return
        except InvalidRequest as error:
            self._refuse(400, str(error))
            return
        response = _response(body, items)
        if body.get("stream"):
            self._stream(response, server.delay_seconds, server.pace_seconds)
        else:
            time.sleep(server.delay_seconds)
            self._send_json(200, response)

    def log_message(self, *_arguments: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Log nothing."""

    def _stream(self, response: JsonObject, delay_seconds: float, pace_seconds: float) -> None:
        self._send_head(200, "text/event-stream")
        events = list(reply_events(response, _WORDS.findall))
        for number, event in enumerate(events):
            is_word = event["type"] == "response.output_text.delta"
            time.sleep(delay_seconds / len(events) + (pace_seconds if is_word else 0))
            data = json.dumps({**event, "sequence_number": number}, ensure_ascii=False)
            self.wfile.write(f"event: {event['type']}\ndata: {data}\n\n".encode())

    def _refuse(self, status: int, words: str) -> None:
        error = {"message": words, "type": "invalid_request_error", "param": None, "code": None}
        self._send_json(status, {"error": error})

    def _send_json(self, status: int, value: JsonObject) -> None:
        content = json.dumps(value, ensure_ascii=False).encode()
        self._send_head(status, "application/json", len(content))
        self.wfile.write(content)

    def _send_head(self, status: int, kind: str, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("x-request-id", f"req_{secrets.token_hex(16)}")
        if length is not None:
            self.send_header("content-length", str(length))
        self.send_header("connection", "close")
        self.end_headers()


def _response(body: JsonObject, items: Sequence[JsonObject]) -> JsonObject:
    input_tokens = _tokens([body.get("instructions"), body.get("input"), body.get("tools")])
    # Ids are random, so only content that a model would write is counted.
    output_tokens = _tokens([item.get("arguments") or item.get("content") for item in items])
    response = response_object(
        items,
        Usage(
            requests=1,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            total_tokens=input_tokens + output_tokens,
        ),
        response_id=f"resp_{secrets.token_hex(12)}",
        model=str(body.get("model", "")),
        created_at=int(time.time()),
    )
    response["usage"]["input_tokens_details"]["cache_write_tokens"] = 0
    settings = {name: body.get(name) for name in ("instructions", "metadata")}
    return {
        **response,
        **settings,
        "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
    }


def _tokens(value: Any) -> int:
    return -(-len(json.dumps(value, ensure_ascii=False)) // _CHARACTERS_PER_TOKEN)
