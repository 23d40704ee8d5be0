"""An offline model behind the real Responses API, on loopback: no key, no network, no cost.

    python -m outlast.dev.offline_model --port 8088 --delay-ms 200

Owns: the HTTP server and its life. Must not know: how answers are found (`offline_rules`) and what
they look like (`offline_wire`).
"""

import argparse
import asyncio
import json
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from datetime import timedelta
from time import time
from typing import Self

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from outlast.agents.errors import ServerUnavailable, UserError
from outlast.dev.offline_request import InvalidRequestError, read_request
from outlast.dev.offline_rules import respond
from outlast.dev.offline_wire import error_object, response_object, stream_events
from outlast.loop.values import JsonObject

MODEL_NAME = "outlast-offline"
"""The one model in the list; a request may name any model and gets its own name back."""

_HOST = "127.0.0.1"
_POLL_SECONDS = 0.005
_STOP_SECONDS = 2


class OfflineModel:
    """The offline model as a server in this process.

        async with OfflineModel() as model:
            client = AsyncOpenAI(base_url=model.base_url, api_key="offline")

    Args:
        host: where it listens; the default can be reached from this machine only.
        port: 0 takes a free one.
        delay: how long each answer takes; a stream spreads it over its events.
    """

    def __init__(
        self, *, host: str = _HOST, port: int = 0, delay: timedelta = timedelta(0)
    ) -> None:
        self._host = host
        self._port = port
        self._delay = delay
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self._bound_port = 0

    @property
    def base_url(self) -> str:
        """What an OpenAI client takes as its base URL.

        Raises:
            UserError: it is not started.
        """
        if self._serving is None:
            raise UserError("The offline model is not running: await its start() first.")
        return f"http://{self._host}:{self._bound_port}/v1"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen, and return once requests are answered. A second call does nothing.

        Raises:
            ServerUnavailable: the port is in use.
        """
        if self._serving is not None:
            return
        listener = _listen(self._host, self._port)
        self._bound_port = listener.getsockname()[1]
        config = uvicorn.Config(
            offline_app(self._delay),
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=_STOP_SECONDS,
        )
        self._server = _GuestServer(config)
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]))
        while not (self._server.started or self._serving.done()):  # noqa: ASYNC110 (no event there)
            await asyncio.sleep(_POLL_SECONDS)

    async def stop(self) -> None:
        """Finish the requests under way, for two seconds at most, and end. Idempotent."""
        server, serving = self._server, self._serving
        self._server = self._serving = None
        if server is not None and serving is not None:
            server.should_exit = True
            await serving


class _GuestServer(uvicorn.Server):
    """A server that leaves the process's signals to the program it lives in."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def offline_app(delay: timedelta = timedelta(0)) -> Starlette:
    """Return the offline model as an ASGI application."""

    async def create_response(http_request: HttpRequest) -> Response:
        try:
            body = json.loads(await http_request.body())
        except ValueError as error:
            raise InvalidRequestError(
                f"We could not parse the JSON body of your request: {error}"
            ) from error
        request = read_request(body)
        response = response_object(
            body, request, respond(request), new_id=_new_id, created_at=int(time())
        )
        if request.stream:
            return StreamingResponse(
                _server_sent(response, delay), media_type="text/event-stream", headers=_headers()
            )
        await asyncio.sleep(delay.total_seconds())
        return JSONResponse(response, headers=_headers())

    return Starlette(
        routes=[
            Route("/v1/responses", create_response, methods=["POST"]),
            Route("/v1/models", _list_models),
            Route("/v1/models/{name}", _show_model),
        ],
        exception_handlers={InvalidRequestError: _refuse, HTTPException: _refuse_url},
    )


async def _server_sent(response: JsonObject, delay: timedelta) -> AsyncIterator[str]:
    events = list(stream_events(response))
    pause_seconds = delay.total_seconds() / len(events)
    for event in events:
        if pause_seconds:
            await asyncio.sleep(pause_seconds)
        yield f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"


async def _list_models(_request: HttpRequest) -> Response:
    return JSONResponse({"object": "list", "data": [_model(MODEL_NAME)]}, headers=_headers())


async def _show_model(request: HttpRequest) -> Response:
    return JSONResponse(_model(request.path_params["name"]), headers=_headers())


def _model(name: str) -> JsonObject:
    return {"id": name, "object": "model", "created": 1_735_689_600, "owned_by": "outlast"}


async def _refuse(_request: HttpRequest, error: Exception) -> Response:
    refusal = error if isinstance(error, InvalidRequestError) else InvalidRequestError(str(error))
    return JSONResponse(error_object(refusal), status_code=400, headers=_headers())


async def _refuse_url(request: HttpRequest, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    refusal = InvalidRequestError(
        f"Invalid URL ({request.method} {request.url.path}). The offline model knows POST "
        "/v1/responses and GET /v1/models."
    )
    return JSONResponse(error_object(refusal), status_code=status, headers=_headers())


def _new_id(prefix: str) -> str:
    return prefix + secrets.token_hex(24)


def _headers() -> dict[str, str]:
    return {"x-request-id": f"req_{secrets.token_hex(16)}"}


def _listen(host: str, port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ServerUnavailable(
            f"Port {port} on {host} cannot be used by the offline model: {error.strerror}. Choose "
            "another port; 0 takes a free one."
        ) from error
    return listener


async def _serve_until_told(model: OfflineModel, *, until_eof: bool) -> None:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    if until_eof:

        def await_end_of_input() -> None:
            # Not `sys.stdin`: a thread that waits in it makes the interpreter's end fail.
            while os.read(0, 4096):
                pass
            loop.call_soon_threadsafe(told.set)

        threading.Thread(target=await_end_of_input, daemon=True).start()
    async with model:
        sys.stdout.write(f"{model.base_url}\n")
        sys.stdout.flush()
        await told.wait()


def main(arguments: list[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM; the first line printed is the base URL, when ready."""
    parser = argparse.ArgumentParser(
        prog="python -m outlast.dev.offline_model",
        description="A rule-based model for the support desk example, behind the Responses API.",
    )
    parser.add_argument("--host", default=_HOST, help=f"default {_HOST}: this machine only")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one (default)")
    parser.add_argument("--delay-ms", type=int, default=0, help="how long each answer takes")
    parser.add_argument(
        "--until-eof",
        action="store_true",
        help="also end when standard input does, so that the model never outlives its parent",
    )
    options = parser.parse_args(arguments)
    delay = timedelta(milliseconds=options.delay_ms)
    try:
        model = OfflineModel(host=options.host, port=options.port, delay=delay)
        asyncio.run(_serve_until_told(model, until_eof=options.until_eof))
    except ServerUnavailable as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
