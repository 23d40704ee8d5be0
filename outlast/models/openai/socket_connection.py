"""The Responses API over WebSocket, through the `openai` package's own connection.

A request continues the response that its socket holds if its items begin with the items of that
response and its request: then only the new items are sent. In every other case it is sent whole.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Callable, Generator, Hashable, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.json_values import as_count, as_object, as_objects, as_text
from outlast.agents.logs import get_logger
from outlast.edges.bodies import DOORS
from outlast.loop.values import JsonObject
from outlast.models.failures import (
    Target,
    bad_address,
    bad_response,
    closed_socket,
    connection_failure,
    foreign_event,
    oversized_frame,
    refused_request,
    reported_failure,
    request_failure,
    timeout_failure,
    unread_handshake,
    wrong_redirect,
)
from outlast.models.loop_values import LoopValues
from outlast.models.openai.connection import (
    OpenAIConnection,
    Reply,
    call_deadline,
    is_loopback,
    listed_error,
    only_refused_keys,
    read_json,
)
from outlast.models.openai.responses import ends_response, supported_items
from outlast.models.openai.server_events import WholeText
from outlast.models.openai.sockets import (
    DEFAULT_LIMITS,
    HeldResponse,
    PoolLimits,
    Socket,
    SocketPool,
    response_id_of,
)
from outlast.ports.model import ModelError

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.resources.responses.responses import AsyncResponses, AsyncResponsesConnection
    from websockets.exceptions import ConnectionClosed, InvalidStatus

logger: Final = get_logger(__name__)

_OPEN_SECONDS = 10.0
"""The limit for opening a connection, with the handshakes of TLS and WebSocket."""

_LOST_RESPONSE = "previous_response_not_found"
_LIMIT_REACHED = "websocket_connection_limit_reached"
"""Error codes which prove that nothing was generated."""

_REFUSALS: Final = frozenset({"invalid_request", "not_found"})
"""Codes of failures where the provider refused the request, so that nothing was generated."""

_TOO_BIG = 1009
"""The close code for a frame that is too large."""

_SAID_AT_OPENING: Final = ("base_url", "websocket_base_url", "default_headers", "default_query")
"""What a client says when it opens a connection, besides its key."""

_DELTA = b'.delta"'
_TYPE_BYTES = 80
"""OpenAI writes the type of an event within these first bytes of a frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketConnection:
    """A `ModelConnection` over WebSockets. Any number of concurrent calls can use it.

    Sockets belong to the event loop that opened them. A call never retries, but for one case: if
    the first event proves that nothing was generated, the whole request goes out on a new socket.
    The client, key and address are those of `http`, which the caller closes.
    """

    http: OpenAIConnection
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    limits: PoolLimits = DEFAULT_LIMITS
    _pools: LoopValues[SocketPool] = field(default_factory=LoopValues[SocketPool])

    def over_http(self) -> OpenAIConnection:
        """Return the connection with the same client, key and address over HTTP."""
        return self.http

    def target(self, path: str, model: str) -> Target:
        """Return the destination of a call to this path, for error messages."""
        return self.http.socket_target(path, model)

    async def post(self, target: Target, body: JsonObject, settings: ModelSettings) -> Reply:
        """Send a body and return the response."""
        done: list[object] = []
        last: JsonObject = {}
        async with aclosing(self._events(target, body, settings, has_deltas=False)) as events:
            async for event in events:
                last = event
                if event.get("type") == "response.output_item.done":
                    done.append(event.get("item"))
        response = as_object(last.get("response"))
        if response is None:
            raise bad_response(target, "expected a JSON object as the response")
        if response.get("output") == []:
            response = {**response, "output": done}  # some servers send items only on the way
        return Reply(body=response, request_id=None)

    def stream(
        self,
        target: Target,
        body: JsonObject,
        settings: ModelSettings,
        *,
        is_last: Callable[[JsonObject], bool],
    ) -> AsyncGenerator[JsonObject]:
        """Send a body and yield the events of the response; may raise a `ModelError`."""
        del is_last  # the same events end every response here
        return self._events(target, body, settings, has_deltas=True)

    async def check_key(self, target: Target) -> None:
        """Open a connection, which stays in the pool for the first call.

        Only a refused key counts: a server that does not answer may do so later.
        """
        client = await self.http.socket_client(target)
        if target.key is None:
            return
        call = _Call(target, ModelSettings(), client)
        pool = self._pool()
        with only_refused_keys():
            pool.release(await self._acquire(pool, call, lambda _: False))

    async def aclose(self) -> None:
        """Close the sockets of all event loops. A later call opens new ones."""
        own = self._pools.pop()
        for loop, pool in self._pools.pop_others():
            if loop.is_running():
                asyncio.run_coroutine_threadsafe(pool.aclose(), loop)
        if own is not None:
            await own.aclose()

    async def _events(
        self, target: Target, body: JsonObject, settings: ModelSettings, *, has_deltas: bool
    ) -> AsyncGenerator[JsonObject]:
        """Send a body and yield the events of the response; the last one holds all of it.

        A response that is not read to its end loses its socket, which tells the provider to stop.
        """
        client = await self.http.socket_client(target)
        request = _RequestText(body, target)
        call = _Call(target, settings, client, has_deltas=has_deltas)
        pool = self._pool()
        socket = await self._acquire(pool, call, request.fits, only_with=request.only_with)
        complete = False
        try:
            held = socket.held
            continued = pool.continues and held is not None and request.continues(held)
            text = request.after(held) if continued and held is not None else request.whole()
            event = await call.ask(socket, text)
            if (reason := _reason_to_resend(event, target, continued=continued)) is not None:
                pool.drop(socket)
                socket = await self._acquire(pool, call, None)
                event = await call.ask(socket, request.whole())
                if reason == _UNSUPPORTED and event.get("type") != "error":
                    pool.continues = False
                    logger.warning(
                        "%s does not continue responses; requests are sent whole", target.base_url
                    )
            while not ends_response(event):
                if event.get("type") == "error":
                    raise _reported(event, target, continued=continued)
                yield event
                event = await call.receive(socket)
            socket.held = request.held_with(event)
            complete = True
            pool.release(socket)
            yield event
        finally:
            if not complete:
                pool.drop(socket)

    async def _acquire(
        self,
        pool: SocketPool,
        call: "_Call",
        fits: Callable[[HeldResponse], bool] | None,
        *,
        only_with: str | None = None,
    ) -> Socket:
        """Return a socket for a call; without `fits`, a new one."""
        with socket_failures(call.target):
            async with asyncio.timeout_at(call.deadline):
                key = await _made_key(call.client)
                route = call.route(key)
                socket = await pool.acquire(
                    route,
                    fits=fits,
                    connect=lambda: self._connect(pool, call),
                    only_with=only_with,
                )
        # The program may have changed its client while the connection was opened.
        socket.is_reusable = call.route(key) == route and socket.was_opened_with(key)
        return socket

    async def _connect(self, pool: SocketPool, call: "_Call") -> "AsyncResponsesConnection":
        options: dict[str, Any] = {"max_size": DOORS["model event"].size, "compression": None}
        options |= self.options
        options["open_timeout"] = None  # the limit is below
        if is_loopback(call.target.base_url):
            options["proxy"] = None  # an environment's proxy cannot reach this machine
        if call.target.base_url.startswith("wss:"):
            if pool.ssl is None:  # reading the system's certificates takes a while
                pool.ssl = await asyncio.to_thread(ssl.create_default_context)
            options["ssl"] = pool.ssl
        _check_headers(call.headers)
        # The first use imports the packages, which takes a while, too.
        responses = await asyncio.to_thread(_resource, call.client)
        connecting: Any = {"websocket_connection_options": options, "max_retries": 0}
        with socket_failures(call.target):
            async with asyncio.timeout(_OPEN_SECONDS):
                return await responses.connect(
                    extra_headers=call.headers, extra_query=call.query, **connecting
                ).enter()

    def _pool(self) -> SocketPool:
        pool = self._pools.get()
        if pool is None:
            self._pools.set(pool := SocketPool(self.limits))
        return pool


class _Call:
    def __init__(
        self,
        target: Target,
        settings: ModelSettings,
        client: "AsyncOpenAI",
        *,
        has_deltas: bool = True,
    ) -> None:
        self.target = target
        self.client = client
        self.deadline = call_deadline(settings)
        self.headers = dict(settings.extra_headers or {})
        self.query = dict(settings.extra_query or {})
        self._has_deltas = has_deltas
        self._whole_text = WholeText()
        # Without a time-out in the settings, the client's limits the wait for each frame.
        limit: Any = client.timeout
        self._frame_s: float | None = getattr(limit, "read", limit)

    def route(self, key: str | None) -> Hashable:
        """Return a value that is equal for requests which can share a connection.

        It holds all that the opening of a connection says about its owner: a program may change
        its client at any time.
        """
        of_key = ("auth_headers", "api_key") if key is None else ()
        said = [getattr(self.client, name, None) for name in (*of_key, *_SAID_AT_OPENING)]
        extra = json.dumps([self.headers, self.query, said], sort_keys=True, default=_text_of)
        return self.client, key, self.target.base_url, extra

    async def ask(self, socket: Socket, text: str) -> JsonObject:
        with socket_failures(self.target):
            async with asyncio.timeout_at(self._limit()):
                await socket.send(text)
        return await self.receive(socket)

    async def receive(self, socket: Socket) -> JsonObject:
        """Return the next event, also if it is an error."""
        with socket_failures(self.target):
            # Only around this event, so that the time-out never cancels the consumer's code.
            async with asyncio.timeout_at(self._limit()) as limit:
                data = await socket.receive()
                while not self._has_deltas and _DELTA in data[:_TYPE_BYTES]:
                    limit.reschedule(self._limit())
                    data = await socket.receive()
        try:
            value = read_json(data, self._whole_text)
            event = listed_error(value) or as_object(value)
        except ValueError:
            event = None
        if event is None:
            raise bad_response(self.target, "expected events of JSON objects")
        if not socket.belongs(event):
            raise foreign_event(self.target, as_text(event.get("type")))
        return event

    def _limit(self) -> float | None:
        if self.deadline is not None or self._frame_s is None:
            return self.deadline
        return asyncio.get_running_loop().time() + self._frame_s


class _RequestText:
    def __init__(self, body: JsonObject, target: Target) -> None:
        if body.get("background"):
            raise refused_request(target, "background responses are not supported")
        left_out = ("stream", "background", "input")
        fields = {name: value for name, value in body.items() if name not in left_out}
        self._model = fields.get("model")
        self._is_stored = fields.get("store") is not False
        self._previous = as_text(fields.get("previous_response_id"))
        is_linked = self._previous is not None or "conversation" in fields
        self._has_conversation = "conversation" in fields
        items = as_objects(body.get("input"))
        self._sent = items or []
        if items is None and "input" in body:
            fields["input"] = body["input"]
        try:
            (head,) = _json({"type": "response.create", **fields})
            self._head = head[:-1]
            self._items = None if items is None else _json(*items)
            self._digests = [_digest(item) for item in self._items or ()]
        except (TypeError, ValueError, RecursionError) as error:
            raise request_failure(Exception(str(error)), target) from None
        self._can_be_held = self._items is not None and not is_linked

    @property
    def only_with(self) -> str | None:
        """The id of the response that this request names, if no other connection has it."""
        return None if self._is_stored else self._previous

    def fits(self, held: HeldResponse) -> bool:
        """Whether a connection with this response is the best one for the request."""
        return held.response_id == self._previous or self.continues(held)

    def whole(self) -> str:
        return self._frame(0, b"")

    def continues(self, held: HeldResponse | None) -> bool:
        """Whether the items begin with those of a response and its request, and go on."""
        if held is None or held.items is None:
            return False
        if not self._can_be_held or held.model != self._model:
            return False
        count = len(held.items)
        return count < len(self._digests) and self._digests[:count] == [*held.items]

    def after(self, held: HeldResponse) -> str:
        """Return the frame with only the items after those of a response."""
        link = b',"previous_response_id":' + _json(held.response_id)[0]
        return self._frame(len(held.items or ()), link)

    def held_with(self, event: JsonObject) -> HeldResponse | None:
        """Return the server's state after the last event, if a request can continue it."""
        response = as_object(event.get("response")) or {}
        response_id = response_id_of(event)
        output = as_objects(response.get("output"))
        if self._has_conversation or not output or response_id is None:
            return None
        if event.get("type") != "response.completed" or response.get("status") != "completed":
            return None
        model = as_text(self._model)
        sent = supported_items(output, model, behind=self._sent)
        replied = [_digest(item) for item in _json(*sent)]
        return HeldResponse(
            response_id=response_id,
            model=self._model,
            items=[*self._digests, *replied] if self._can_be_held else None,
            calls_tools=output[-1].get("type") != "message",
            is_only_here=not self._is_stored,
        )

    def _frame(self, start: int, link: bytes) -> str:
        items = () if self._items is None else (b',"input":[', b",".join(self._items[start:]), b"]")
        return b"".join((self._head, link, *items, b"}")).decode()


def _json(*values: object) -> list[bytes]:
    """Return the compact JSON of each value, or raise what `json.dumps` raises."""
    from pydantic_core import to_json

    texts = [to_json(value) for value in values]
    for value, text in zip(values, texts, strict=True):
        if b"NaN" in text or b"Infinity" in text:  # perhaps in a string
            json.dumps(value, allow_nan=False)
    return texts


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


# --- Errors --------------------------------------------------------------------------------------

_UNSUPPORTED = "unsupported"
"""The reason to resend a request whose continued form the provider refused."""


def _reason_to_resend(event: JsonObject, target: Target, *, continued: bool) -> str | None:
    """Return why the whole request may go out again, if its first event is such an error."""
    codes: list[object] = [level.get("code") for level in _levels(event)]
    if _LIMIT_REACHED in codes:
        return _LIMIT_REACHED
    if not codes or not continued:
        return None
    if _LOST_RESPONSE in codes:
        return _LOST_RESPONSE
    failure = _reported(event, target, continued=False)
    return _UNSUPPORTED if failure.code in _REFUSALS else None


def _reported(event: JsonObject, target: Target, *, continued: bool) -> ModelError:
    """Return the failure in an error event; a `continued` response is not the caller's choice."""
    levels = _levels(event)
    headers: dict[str, str] = {}
    status: int | None = None
    for level in levels:
        status = as_count(level.get("status")) or status
        named = as_object(level.get("headers")) or {}
        headers |= {name.lower(): value for name, value in named.items() if isinstance(value, str)}
    if continued and any(level.get("code") == _LOST_RESPONSE for level in levels):
        headers["x-should-retry"] = "true"
    report = levels[-1].get("error") or levels[-1]  # a text, or the innermost object
    return reported_failure(report, target, status=status, headers=headers)


def _levels(event: JsonObject) -> list[JsonObject]:
    kind = event.get("type")
    level = event if kind == "error" else None
    if kind == "response.failed":
        level = as_object((as_object(event.get("response")) or {}).get("error"))
    levels: list[JsonObject] = []
    while level is not None:
        levels.append(level)
        level = as_object(level.get("error"))
    return levels


async def _made_key(client: "AsyncOpenAI") -> str | None:
    """Return the key or token that a client's callable makes now; None if it has no callable."""
    from openai import AsyncOpenAI

    if not isinstance(client, AsyncOpenAI):  # pyright: ignore[reportUnnecessaryIsInstance]  a stand-in
        return None
    if getattr(client, "_azure_ad_token_provider", None) is not None:
        return await cast("Any", client)._get_azure_ad_token()  # noqa: SLF001  it has no other name
    if getattr(client, "_api_key_provider", None) is not None:
        return await client._refresh_api_key()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return None


def _text_of(value: object) -> str:
    """Return the text of a URL, or the name of a marker such as that of a header left out."""
    has_text = type(value).__str__ is not object.__str__
    return str(value) if has_text else type(value).__name__


def _resource(client: "AsyncOpenAI") -> "AsyncResponses":
    import_module("websockets.asyncio.client")
    return client.responses


def _check_headers(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if not all(part.isascii() and part.isprintable() for part in (name, str(value))):
            raise ValueError(f"the header {name!r} holds characters that no header has")


@contextmanager
def socket_failures(target: Target) -> Generator[None]:
    """Convert the exceptions of the `openai` and `websockets` packages to `ModelError`.

    The cause is dropped, because it may contain the request's headers and so the key.
    """
    import httpx2
    import openai
    from websockets import exceptions as sockets

    try:
        yield
    except sockets.InvalidStatus as error:
        raise refused_handshake(error, target) from None
    except sockets.ConnectionClosed as error:
        raise _closed(error, target) from None
    except (sockets.InvalidURI, httpx2.InvalidURL) as error:
        if isinstance(redirect := error.__context__, sockets.InvalidStatus):
            raise redirected_handshake(redirect, target) from None
        raise bad_address(target) from None
    except sockets.ProxyError as error:
        raise connection_failure(error, target) from None
    except sockets.InvalidHandshake as error:
        if isinstance(error.__cause__, EOFError | OSError):
            raise connection_failure(error, target) from None
        if isinstance(error, sockets.InvalidMessage):
            raise unread_handshake(error, target) from None
        raise bad_response(target, f"{type(error).__name__}: {error}") from None
    except TimeoutError:
        raise timeout_failure(target) from None
    except (OSError, EOFError) as error:
        raise connection_failure(error, target) from None
    except (openai.OpenAIError, TypeError, ValueError) as error:
        raise request_failure(error, target) from None


def redirected_handshake(error: "InvalidStatus", target: Target) -> ModelError:
    """Return the failure for a redirect to what is no WebSocket."""
    response = error.response
    return wrong_redirect(target, response.headers.get("location", ""), response.status_code)


def refused_handshake(error: "InvalidStatus", target: Target) -> ModelError:
    """Return the failure for a server that answered with an HTTP status instead of a WebSocket."""
    from pydantic_core import from_json

    response = error.response
    text = (response.body or b"").decode(errors="replace")
    try:
        report: object = from_json(text)
    except ValueError:
        report = text or None
    parsed = as_object(report) or {}
    headers = {name.lower(): value for name, value in response.headers.raw_items()}
    return reported_failure(
        parsed.get("error") or report, target, status=response.status_code, headers=headers
    )


def _closed(error: "ConnectionClosed", target: Target) -> ModelError:
    by_server = error.rcvd is not None and (error.sent is None or error.rcvd_then_sent is True)
    closing = error.rcvd if by_server else error.sent
    if closing is not None and closing.code == _TOO_BIG:
        return oversized_frame(target, is_request=by_server)
    return closed_socket(target, str(error))
