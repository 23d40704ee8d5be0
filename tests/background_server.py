"""A server of the Responses API that makes responses in the background, as OpenAI's does.

It answers over HTTP, in threads of its own, so that the real client and real workers talk to it.
"""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from outlast.loop.values import JsonObject

USAGE: JsonObject = {"input_tokens": 30, "output_tokens": 7, "total_tokens": 37}


class BackgroundServer:
    """Keeps what it was asked, and makes each response when the test says so.

    Attributes:
        begun: the bodies of the requests that began a response, by its id, oldest first.
        looks: how often each response was asked for.
        cancelled: the ids of responses that were cancelled.
        broken: the number of further requests that get status 500.
    """

    def __init__(self) -> None:
        self.begun: dict[str, JsonObject] = {}
        self.looks: dict[str, int] = {}
        self.cancelled: list[str] = []
        self.broken = 0
        self._made: dict[str, JsonObject] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def newest(self) -> str:
        """The id of the newest response."""
        return list(self.begun)[-1]

    def finish(self, response_id: str, *output: JsonObject, **fields: Any) -> None:
        """Make a response."""
        made = {"status": "completed", "output": list(output), "usage": USAGE, **fields}
        with self._lock:
            self._made[response_id] = made

    def fail(self, response_id: str, code: str = "server_error") -> None:
        """Let a response fail."""
        self.finish(response_id, status="failed", error={"code": code, "message": "It broke."})

    def forget(self, response_id: str) -> None:
        """Forget a response, as after its time."""
        with self._lock:
            self.begun[response_id]["forgotten"] = True

    def answer(self, method: str, path: str, body: JsonObject) -> tuple[int, JsonObject]:
        """Answer a request."""
        with self._lock:
            if self.broken > 0:
                self.broken -= 1
                return 500, _error("It is down.")
            parts = path.partition("?")[0].removeprefix("/v1/responses").strip("/").split("/")
            if method == "POST" and parts == [""]:
                return self._begin(body)
            known = self.begun.get(parts[0])
            if known is None or known.get("forgotten"):
                return 404, _error(f"Response with id {parts[0]!r} not found.")
            if method == "POST" and parts[1:] == ["cancel"]:
                return self._cancel(parts[0])
            self.looks[parts[0]] = self.looks.get(parts[0], 0) + 1
            return 200, self._response(parts[0])

    def _begin(self, body: JsonObject) -> tuple[int, JsonObject]:
        if body.get("background") is not True or body.get("store") is not True:
            return 400, _error("This server only makes stored responses in the background.")
        response_id = f"resp_{len(self.begun) + 1}"
        self.begun[response_id] = body
        return 200, {**self._response(response_id), "status": "queued"}

    def _cancel(self, response_id: str) -> tuple[int, JsonObject]:
        if response_id in self._made:
            return 400, _error("Cannot cancel a completed response.")
        self.cancelled.append(response_id)
        self._made[response_id] = {"status": "cancelled"}
        return 200, self._response(response_id)

    def _response(self, response_id: str) -> JsonObject:
        made = self._made.get(response_id, {"status": "in_progress"})
        return {
            "id": response_id,
            "object": "response",
            "created_at": 1_700_000_000,
            "model": "gpt-5-pro",
            "error": None,
            "output": [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "background": True,
            "metadata": self.begun[response_id].get("metadata") or {},
            **made,
        }


def said(text: str) -> JsonObject:
    """Return a message of the model."""
    part: JsonObject = {"type": "output_text", "text": text, "annotations": []}
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def called(name: str, call_id: str, **arguments: Any) -> JsonObject:
    """Return a call of a function."""
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": name,
        "arguments": json.dumps(arguments),
        "status": "completed",
    }


def _error(message: str) -> JsonObject:
    return {"error": {"message": message, "type": "invalid_request_error", "code": None}}


def _handler(server: BackgroundServer) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            self._answer("POST", json.loads(self.rfile.read(length) or b"{}"))

        def do_GET(self) -> None:
            self._answer("GET", {})

        def _answer(self, method: str, body: JsonObject) -> None:
            status, value = server.answer(method, self.path, body)
            content = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  its name
            """Stay silent."""

    return Handler
