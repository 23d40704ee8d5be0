"""HTTP to an OpenAI-compatible server, with the `openai` client and its headers.

The client's typed methods are not used: they build and validate a model object for every item of a
conversation, which costs a hundred times the CPU of the call. Where the connection creates the
client itself, model calls go through `HttpSession`.
"""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeAlias
from urllib.parse import SplitResult, urlsplit
from weakref import WeakKeyDictionary

from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.hosts import is_this_machine
from outlast.agents.json_values import as_object, as_objects, no_number
from outlast.edges.bodies import DOORS, BodyRefused
from outlast.loop.values import JsonObject
from outlast.models.defaults import defaults
from outlast.models.failures import (
    CLIENT_ADDRESS,
    CLIENT_KEY,
    SOCKET_ADDRESS,
    FailureBlock,
    Target,
    bad_address,
    bad_response,
    connection_failure,
    missing_key,
    reported_failure,
    request_failure,
    shared_client,
    timeout_failure,
    unsendable_key,
)
from outlast.models.loop_values import LoopValues
from outlast.models.openai.body_encoding import encode
from outlast.models.openai.http_session import (
    CONNECT_SECONDS,
    HttpResponse,
    HttpSession,
    is_direct,
    read_whole,
)
from outlast.models.openai.server_events import EventData, WholeText
from outlast.ports.model import ModelError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from aiohttp import ClientResponse
    from openai import AsyncOpenAI, AsyncStream, RequestOptions


DEFAULT_BASE_URL = "https://api.openai.com/v1"

_SOCKET_SCHEMES = {"http": "ws", "https": "wss"}


def is_official_openai_base_url(base_url: object, *, websocket: bool = False) -> bool:
    """Whether a URL is that of OpenAI itself, over TLS."""
    url = urlsplit(str(base_url))
    return (url.scheme, url.hostname) == ("wss" if websocket else "https", "api.openai.com")


_DONE = b"[DONE]"
"""The data of a last event that says nothing else, as Chat Completions have it."""

_DRAIN_SECONDS = 0.5
"""How long to wait for the end of a stream after its last event, to reuse the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A whole response: its JSON and the provider's id of the request."""

    body: JsonObject
    request_id: str | None


class ModelConnection(Protocol):
    """A connection to a model server that sends and receives JSON and never retries."""

    def over_http(self) -> "ModelConnection":
        """Return the connection for calls that the API has over HTTP only."""
        ...

    def target(self, path: str, model: str) -> Target:
        """Return the destination of a call to this path, for error messages."""
        ...

    async def post(self, target: Target, body: JsonObject, settings: ModelSettings) -> Reply:
        """Send a body and return the JSON object in the response, or raise a `ModelError`."""
        ...

    def stream(
        self,
        target: Target,
        body: JsonObject,
        settings: ModelSettings,
        *,
        is_last: Callable[[JsonObject], bool],
    ) -> AsyncGenerator[JsonObject]:
        """Send a body and yield the events in the response; may raise a `ModelError`.

        The first event has the provider's id of the request under `REQUEST_ID`, if there is one.
        """
        ...

    async def check_key(self, target: Target) -> None:
        """Raise a `ModelError` if there is no key, or the server refuses it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Access:
    base_url: str
    api_key: str | None = field(repr=False)
    organization: str | None = None
    project: str | None = None
    websocket_base_url: str | None = None

    @property
    def socket_url(self) -> str:
        return self.websocket_base_url or self.base_url


@dataclass(frozen=True, slots=True)
class _Opened:
    client: "AsyncOpenAI"
    session: HttpSession | None

    def session_for(self, settings: ModelSettings) -> HttpSession | None:
        """Return the session, unless the client has to encode a query."""
        return None if settings.extra_query else self.session

    async def aclose(self) -> None:
        if self.session is not None:
            await self.session.aclose()
        await self.client.close()


_Opening: TypeAlias = asyncio.Task[_Opened]

REQUEST_ID = "request_id"
"""The key of the request's id in events; the provider's events never use this key."""


class OpenAIConnection:
    """A connection pool for one server. Any number of concurrent calls can use it.

    A client is created on the first call in an event loop and belongs to that loop; a call with
    a different key creates another client. The connection never retries.
    """

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        client: "AsyncOpenAI | None" = None,
        organization: str | None = None,
        project: str | None = None,
        websocket_base_url: str | None = None,
    ) -> None:
        """Create the connection; nothing is opened or checked yet.

        Args:
            api_key: None means the process's default, else OPENAI_API_KEY, read at each call.
            base_url: None means OPENAI_BASE_URL, else OpenAI.
            client: a client to use unchanged, for proxies, Azure or other transports, in one event
                loop at a time. The caller closes it; `aclose` does not.
            organization: the OpenAI organization that is billed; None means OPENAI_ORG_ID.
            project: the OpenAI project that is billed; None means OPENAI_PROJECT_ID.
            websocket_base_url: the URL of WebSockets that its client opens; None means
                OPENAI_WEBSOCKET_BASE_URL, else the base URL.
        """
        self._api_key = api_key
        self._base_url = base_url
        self._websocket_base_url = websocket_base_url
        self._own_client = client
        self._counted_for = (organization, project)
        self._is_plain = api_key is None and base_url is None
        # One client per key used so far: earlier calls may still be in progress.
        self._opened: LoopValues[dict[_Access, _Opening]] = LoopValues()

    def target(self, path: str, model: str) -> Target:
        """Return the destination of a call to this path, for error messages."""
        access = self._access()
        target = Target(
            base_url=_public(access.base_url), path=path, model=model, key=access.api_key
        )
        if self._own_client is None:
            return target
        return replace(target, key_from=CLIENT_KEY, address_from=CLIENT_ADDRESS)

    def socket_target(self, path: str, model: str) -> Target:
        """Return the destination of a WebSocket to this path, for error messages."""
        access = self._access()
        target = replace(self.target(path, model), base_url=_public(_as_socket(access.socket_url)))
        if access.websocket_base_url is None:
            return target
        return replace(target, address_from=SOCKET_ADDRESS)

    def over_http(self) -> Self:
        """Return this connection."""
        return self

    async def post(self, target: Target, body: JsonObject, settings: ModelSettings) -> Reply:
        """Send a body to the target's path and return the JSON object in the response."""
        opened = await self._open(target)
        if (session := opened.session_for(settings)) is not None:
            with _translated(target), _translated_session(target):
                async with asyncio.timeout(call_seconds(settings)):
                    direct = await session.post(target.path, encode(body), settings)
            if direct is not None:
                if direct.status >= HTTPStatus.MULTIPLE_CHOICES:
                    raise _direct_failure(direct, target)
                return _read_reply(target, direct.status, direct.headers, direct.content)
        from httpx2 import Response

        with _translated(target):
            async with asyncio.timeout(call_seconds(settings)):
                response = await opened.client.post(
                    target.path,
                    cast_to=Response,
                    options=_options(settings),
                    **_payload(opened.client, body),
                )
        return _read_reply(target, response.status_code, response.headers, response.content)

    async def request(
        self,
        method: str,
        target: Target,
        settings: ModelSettings,
        *,
        query: "Mapping[str, object] | None" = None,
    ) -> Reply:
        """Send a request without a body, and return the JSON object in the response.

        An `error` in the object is the caller's to read.

        Args:
            method: `get` or `post`.
            target: where to send it.
            settings: has headers, a query and a time-out.
            query: further parameters of the query.
        """
        opened = await self._open(target)
        from httpx2 import Response

        options = _options(settings)
        if query:
            options["params"] = {**options.get("params", {}), **query}
        send = opened.client.get if method == "get" else opened.client.post
        with _translated(target):
            async with asyncio.timeout(call_seconds(settings)):
                response = await send(target.path, cast_to=Response, options=options)
        return _read_object(target, response.status_code, response.headers, response.content)

    async def stream(
        self,
        target: Target,
        body: JsonObject,
        settings: ModelSettings,
        *,
        is_last: Callable[[JsonObject], bool],
    ) -> AsyncGenerator[JsonObject]:
        """Send a body and yield the events in the response, all within the settings' time-out."""
        opened = await self._open(target)
        deadline = call_deadline(settings)
        stream: _DirectStream | _ClientStream | None = None
        if (session := opened.session_for(settings)) is not None:
            stream = await _open_direct(session, target, body, settings, deadline)
        if stream is None:
            stream = await _open_by_client(opened.client, target, body, settings, deadline)
        empty, request_id = True, stream.headers.get("x-request-id")
        try:
            while (event := await stream.next_event(target, deadline)) is not None:
                yield {**event, REQUEST_ID: request_id} if empty and request_id else event
                empty = False
                if is_last(event):
                    await stream.drain()
                    return
        finally:
            await stream.aclose()
        if empty:
            kind = stream.headers.get("content-type", "nothing")
            raise bad_response(target, f"expected a stream of events, got {kind}")

    async def check_key(self, target: Target) -> None:
        """Ask the server for its models, which every valid key may.

        Only a refused key counts: a server that does not answer may do so later, and some have no
        list of models.

        Raises:
            ModelError: there is no key, the server refuses it, or its address is invalid.
        """
        if target.key is None:  # there is nothing to ask: creating a client takes most of a second
            if self._own_client is None:
                _check(self._access().base_url, None, target)
            return
        client = await self._client(target)
        from httpx2 import Response

        with only_refused_keys(), _translated(target):
            await client.get(
                "/models", cast_to=Response, options={"max_retries": 0, "timeout": CONNECT_SECONDS}
            )

    async def socket_client(self, target: Target) -> "AsyncOpenAI":
        """Return the client of the running loop, to open a WebSocket."""
        if self._own_client is not None:
            return self._own_client
        access = self._access()
        _check(access.socket_url, access.api_key, target, socket=True)
        return (await self._open_once(access, target)).client

    async def client(self, path: str) -> "AsyncOpenAI":
        """Return the client of the running loop, for calls of other APIs than the model's.

        A connection without a key, URL or client of its own uses the process's default client.

        Raises:
            ModelError: the key is missing, or the URL is invalid.
        """
        if self._own_client is None and self._is_plain and defaults.client is not None:
            return _in_its_loop(defaults.client, self.target(path, ""))
        return await self._client(self.target(path, ""))

    async def aclose(self) -> None:
        """Close the connections of the running loop. A later call opens new ones."""
        for task in (self._opened.pop() or {}).values():
            await asyncio.wait([task])
            if not has_failed(task):
                await task.result().aclose()

    async def _client(self, target: Target) -> "AsyncOpenAI":
        return (await self._open(target)).client

    async def _open(self, target: Target) -> _Opened:
        if self._own_client is not None:
            return _Opened(_in_its_loop(self._own_client, target), None)
        access = self._access()
        _check(access.base_url, access.api_key, target)
        return await self._open_once(access, target)

    async def _open_once(self, access: _Access, target: Target) -> _Opened:
        of_loop = self._opened.get()
        if of_loop is None:
            self._opened.set(of_loop := dict[_Access, _Opening]())
        opened = of_loop.get(access)
        if opened is None or has_failed(opened):
            # Importing the package and reading the system's certificates take half a second of
            # CPU. A thread keeps the worker's loop responsive; all waiting calls share one task.
            opened = asyncio.create_task(asyncio.to_thread(_open, access, target))
            of_loop[access] = opened
        try:
            return await asyncio.shield(opened)
        except (OSError, ImportError) as error:
            # For example a missing certificate file, or a proxy whose package is not installed.
            raise connection_failure(error, target) from None

    def _access(self) -> _Access:
        if self._own_client is not None:
            # Tests pass stand-ins, which have no more than their calls use.
            socket_url = getattr(self._own_client, "websocket_base_url", None)
            return _Access(
                base_url=str(getattr(self._own_client, "base_url", None) or DEFAULT_BASE_URL),
                api_key=getattr(self._own_client, "api_key", None),
                websocket_base_url=None if socket_url is None else str(socket_url),
            )
        from outlast.agents.secrets import secret

        base_url = self._base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL
        api_key = (self._api_key or defaults.api_key or secret("OPENAI_API_KEY")).strip()
        organization, project = self._counted_for
        socket_url = self._websocket_base_url or os.environ.get("OPENAI_WEBSOCKET_BASE_URL")
        return _Access(
            base_url=base_url.strip(),
            api_key=api_key or None,
            organization=organization,
            project=project,
            websocket_base_url=(socket_url or "").strip() or None,
        )


def _open(access: _Access, target: Target) -> _Opened:
    from httpx2 import InvalidURL, create_ssl_context
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    # An environment's proxy cannot reach a server on this machine.
    trust_env = not is_loopback(access.base_url)
    certificates = create_ssl_context()
    try:
        client = AsyncOpenAI(
            # The client requires a key, but local servers ignore it.
            api_key=access.api_key or "no-key-needed",
            base_url=access.base_url,
            organization=access.organization,
            project=access.project,
            websocket_base_url=_as_socket(access.websocket_base_url or "") or None,
            max_retries=0,
            http_client=DefaultAsyncHttpxClient(verify=certificates, trust_env=trust_env),
        )
    except InvalidURL:
        raise bad_address(target) from None
    if not is_direct(access.base_url, trust_env=trust_env):
        return _Opened(client, None)
    return _Opened(client, HttpSession(client, certificates))


_loop_of_client: WeakKeyDictionary[object, asyncio.AbstractEventLoop] = WeakKeyDictionary()
"""The event loop in which each of the program's clients is used."""


def _in_its_loop(client: "AsyncOpenAI", target: Target) -> "AsyncOpenAI":
    """Return a program's client, unless it is used in another event loop that is still open.

    A pooled connection belongs to the loop that opened it. Another loop can still send a request
    on it, but never gets the response: the call would hang, be billed and then be repeated.
    """
    loop = asyncio.get_running_loop()
    used_in = _loop_of_client.setdefault(client, loop)
    if used_in is not loop:
        if not used_in.is_closed():
            raise shared_client(target)
        _loop_of_client[client] = loop
    return client


def has_failed(opened: asyncio.Task[Any]) -> bool:
    """Whether opening has failed."""
    return opened.done() and (opened.cancelled() or opened.exception() is not None)


def _check(base_url: str, api_key: str | None, target: Target, *, socket: bool = False) -> None:
    parts = _parts(base_url)
    if parts is None or (parts.scheme in _SOCKET_SCHEMES.values() and not socket):
        raise bad_address(target)
    if api_key is None:
        if not is_loopback(base_url):
            raise missing_key(target)
    elif not (api_key.isascii() and api_key.isprintable()):
        raise unsendable_key(target)


def _as_socket(base_url: str) -> str:
    scheme, colon, rest = base_url.partition(":")
    return f"{_SOCKET_SCHEMES.get(scheme, scheme)}{colon}{rest}"


@lru_cache(64)
def _parts(base_url: str) -> SplitResult | None:
    """Split a base URL; return None if it is neither an HTTP URL nor one of a WebSocket."""
    try:
        parts = urlsplit(base_url)
        host = parts.hostname or ""
        schemes = {*_SOCKET_SCHEMES, *_SOCKET_SCHEMES.values()}
        usable = parts.scheme in schemes and host.split() == [host] and parts.port != 0
    except ValueError:
        return None
    return parts if usable else None


@lru_cache(64)
def _public(base_url: str) -> str:
    parts = _parts(base_url)
    if parts is None:
        return "an invalid address"
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}".rstrip("/")


def is_loopback(base_url: str) -> bool:
    """Whether a base URL is that of a server on this machine."""
    parts = _parts(base_url)
    return is_this_machine((parts.hostname if parts else None) or "")


def call_seconds(settings: ModelSettings) -> float | None:
    """Return the time limit of a call, or None if there is none."""
    return None if settings.timeout is None else settings.timeout.total_seconds()


def call_deadline(settings: ModelSettings) -> float | None:
    """Return when a call that starts now must end, in the event loop's time, or None."""
    seconds = call_seconds(settings)
    return None if seconds is None else asyncio.get_running_loop().time() + seconds


def _options(settings: ModelSettings) -> "RequestOptions":
    from openai import Timeout

    # The client may be the caller's own, with its own retries.
    options: RequestOptions = {"max_retries": 0}
    if settings.extra_headers:
        options["headers"] = settings.extra_headers
    if settings.extra_query:
        options["params"] = settings.extra_query
    seconds = call_seconds(settings)
    if seconds is not None:
        options["timeout"] = Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
    return options


def _read_reply(target: Target, status: int, headers: "Mapping[str, str]", content: bytes) -> Reply:
    reply = _read_object(target, status, headers, content)
    if reply.body.get("error"):
        raise reported_failure(reply.body["error"], target, headers=headers)
    return reply


_SMALL: Final = 1_000
"""Up to how many bytes JSON is parsed uncounted: it can be neither deep nor much."""


def read_json(
    data: bytes | str, whole_text: WholeText | None = None, *, allow_inf_nan: bool = False
) -> Any:
    """Return the value of JSON as servers write it, whose texts may hold half a character.

    Raises:
        BodyRefused: it would cost too much to parse.
        ValueError: it is no JSON.
    """
    from pydantic_core import from_json

    if len(data) > _SMALL:
        DOORS["model reply"].check(data)
    try:
        value = from_json(data, allow_inf_nan=allow_inf_nan)
        if whole_text is None or not whole_text.has_half:
            return value
    except ValueError:
        value = json.loads(data, parse_constant=None if allow_inf_nan else no_number)
    return (whole_text or WholeText()).of(value)


def listed_error(value: object) -> JsonObject | None:
    """Return the object with the error if it is in a list, as Gemini's API has it."""
    listed = as_objects(value)
    return listed[0] if listed and listed[0].get("error") else None


def _event(value: object, target: Target) -> JsonObject:
    event = listed_error(value) or as_object(value)
    if event is None:
        raise bad_response(target, "expected events of JSON objects")
    if event.get("error"):
        raise reported_failure(event["error"], target)
    return event


def _read_object(
    target: Target, status: int, headers: "Mapping[str, str]", content: bytes
) -> Reply:
    try:
        value = read_json(content)
    except BodyRefused as error:
        raise bad_response(target, str(error), status=status) from None
    except ValueError:
        kind = headers.get("content-type", "something else")
        raise bad_response(target, f"expected JSON, got {kind}", status=status) from None
    reply = as_object(listed_error(value) or value)
    if reply is None:
        raise bad_response(target, "expected a JSON object", status=status)
    return Reply(body=reply, request_id=headers.get("x-request-id"))


async def _open_direct(
    session: HttpSession,
    target: Target,
    body: JsonObject,
    settings: ModelSettings,
    deadline: float | None,
) -> "_DirectStream | None":
    """Begin a stream; return None if the server redirects."""
    with _translated(target), _translated_session(target):
        async with asyncio.timeout_at(deadline):
            response = await session.open(target.path, encode(body), settings)
            if response.status < HTTPStatus.MULTIPLE_CHOICES:
                return _DirectStream(response)
            refused = await read_whole(response)
    if refused is None:
        return None
    raise _direct_failure(refused, target)


def _direct_failure(response: HttpResponse, target: Target) -> ModelError:
    report: object = None
    try:
        report = read_json(response.content, allow_inf_nan=True)
    except ValueError:
        report = response.content.decode(errors="replace").strip()
    body = as_object(report)
    report = report if body is None else body.get("error", body)
    headers = response.headers
    return reported_failure(report, target, status=response.status, headers=headers)


class _DirectStream:
    def __init__(self, response: "ClientResponse") -> None:
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._data = self._read()
        self._whole_text = WholeText()

    async def next_event(self, target: Target, deadline: float | None) -> JsonObject | None:
        with _translated(target), _translated_session(target):
            # Only around one event, so that the time-out never cancels the consumer's code.
            async with asyncio.timeout_at(deadline):
                data = await anext(self._data, _DONE)
        if data.startswith(_DONE):
            return None
        try:
            value = read_json(data, self._whole_text, allow_inf_nan=True)
        except BodyRefused as error:
            raise bad_response(target, str(error)) from None
        except ValueError:
            value = None
        return _event(value, target)

    async def drain(self) -> None:
        from aiohttp import ClientError

        with suppress(ClientError, TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                async for _ in self._data:
                    pass

    async def aclose(self) -> None:
        self._response.close()  # no effect on a connection whose response has ended

    async def _read(self) -> "AsyncIterator[bytes]":
        data = EventData()
        async for piece in self._response.content.iter_any():
            for one in data.feed(piece):
                yield one


async def _open_by_client(
    client: "AsyncOpenAI",
    target: Target,
    body: JsonObject,
    settings: ModelSettings,
    deadline: float | None,
) -> "_ClientStream":
    from openai import AsyncStream

    with _translated(target):
        async with asyncio.timeout_at(deadline):
            # With a cast to `object`, events stay the parsed dicts.
            events = await client.post(
                target.path,
                cast_to=object,
                options=_options(settings),
                stream=True,
                stream_cls=AsyncStream[object],
                **_payload(client, body),
            )
    return _ClientStream(events)


def _payload(client: "AsyncOpenAI", body: JsonObject) -> dict[str, Any]:
    """Return the argument of `client.post` for a body: its JSON, unless the client reads it."""
    from openai import AsyncOpenAI

    reads = type(client) is not AsyncOpenAI or getattr(client, "_provider_runtime", None)
    return {"body": body} if reads else {"content": encode(body)}


class _ClientStream:
    def __init__(self, events: "AsyncStream[object]") -> None:
        self.headers: Mapping[str, str] = events.response.headers
        self._events = events
        self._whole_text = WholeText()

    async def next_event(self, target: Target, deadline: float | None) -> JsonObject | None:
        with _translated(target):
            async with asyncio.timeout_at(deadline):
                try:
                    received = await anext(self._events, _DONE)
                except ValueError:
                    received = None
        return None if received is _DONE else _event(self._whole_text.of(received), target)

    async def drain(self) -> None:
        from openai import OpenAIError

        with suppress(OpenAIError, TimeoutError, ValueError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                async for _ in self._events:
                    pass

    async def aclose(self) -> None:
        await self._events.close()


@contextmanager
def only_refused_keys() -> Generator[None]:
    """Ignore all failures of a check of a key but a refusal of the key."""
    try:
        yield
    except ModelError as error:
        # A key with status 403 may not list the models, but perhaps call them.
        if error.code == "unauthorized" and error.status != HTTPStatus.FORBIDDEN:
            raise


def _session_failures(target: Target) -> Generator[None]:
    from aiohttp import ClientError
    from aiohttp.http_exceptions import ContentEncodingError

    try:
        yield
    except TimeoutError:  # some of the package's errors, too
        raise timeout_failure(target) from None
    except ClientError as error:
        if isinstance(error.__cause__, ContentEncodingError):
            raise bad_response(target, str(error.__cause__)) from None
        raise connection_failure(error, target) from None


def _failures(target: Target) -> Generator[None]:
    """Convert the client's exceptions to `ModelError`.

    The cause is dropped, because the client's exceptions contain the request and so the key.
    """
    import httpx2
    import openai

    try:
        yield
    except openai.APIStatusError as error:
        headers = error.response.headers
        failure = reported_failure(error.body, target, status=error.status_code, headers=headers)
        raise failure from None
    except openai.APITimeoutError:
        raise timeout_failure(target) from None
    except openai.APIConnectionError as error:
        raise connection_failure(error.__cause__ or error, target) from None
    except openai.APIError as error:
        raise reported_failure(error.body or error.message, target) from None
    except TimeoutError:
        raise timeout_failure(target) from None
    except httpx2.HTTPError as error:
        raise connection_failure(error, target) from None
    except BodyRefused as error:
        raise bad_response(target, str(error)) from None
    except (openai.OpenAIError, TypeError, ValueError) as error:
        raise request_failure(error, target) from None


def without_retries(client: "AsyncOpenAI") -> "AsyncOpenAI":
    """Return a client that sends each request once; a program's stand-in stays as it is."""
    from openai import AsyncOpenAI

    return client.with_options(max_retries=0) if isinstance(client, AsyncOpenAI) else client  # pyright: ignore[reportUnnecessaryIsInstance]


_translated = partial(FailureBlock, _failures)
_translated_session = partial(FailureBlock, _session_failures)
