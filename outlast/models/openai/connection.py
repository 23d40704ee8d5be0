"""HTTP to an OpenAI-compatible server, through the `openai` client.

The client is created on the first call. Its typed methods are not used: they build and validate a
model object for every item of a conversation, which costs a hundred times the CPU of the call.
`ModelConnection` is the interface that the model adapters use.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import SplitResult, urlsplit

from outlast.agents.config.settings import ModelSettings
from outlast.loop.values import JsonObject
from outlast.models.defaults import defaults
from outlast.models.failures import (
    Target,
    bad_address,
    bad_response,
    connection_failure,
    missing_key,
    reported_failure,
    request_failure,
    status_failure,
    timeout_failure,
    unsendable_key,
)
from outlast.models.json_values import as_object
from outlast.models.loop_values import LoopValues
from outlast.models.openai.pools import split_pools

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream, RequestOptions


DEFAULT_BASE_URL = "https://api.openai.com/v1"

_CONNECT_SECONDS = 5.0
"""The limit for opening a connection, as in the client's own default."""

_DRAIN_SECONDS = 0.5
"""How long to wait for the end of a stream after its last event, to reuse the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A whole response: its JSON and the provider's id of the request."""

    body: JsonObject
    request_id: str | None


class ModelConnection(Protocol):
    """A connection to a model server that sends and receives JSON and never retries."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Access:
    base_url: str
    api_key: str | None = field(repr=False)
    organization: str | None = None
    project: str | None = None


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
    ) -> None:
        """Create the connection; nothing is opened or checked yet.

        Args:
            api_key: None means the process's default, else OPENAI_API_KEY, read at each call.
            base_url: None means OPENAI_BASE_URL, else OpenAI.
            client: a client to use unchanged, for proxies, Azure or other transports. Only its
                connection pools are split by event loop. The caller closes it; `aclose` does not.
            organization: the OpenAI organization that is billed; None means OPENAI_ORG_ID.
            project: the OpenAI project that is billed; None means OPENAI_PROJECT_ID.
        """
        self._api_key = api_key
        self._base_url = base_url
        self._given = client
        self._counted_for = (organization, project)
        # One client per key used so far: earlier calls may still be in progress.
        self._opened: LoopValues[dict[_Access, asyncio.Task[AsyncOpenAI]]] = LoopValues()

    def target(self, path: str, model: str) -> Target:
        """Return the destination of a call to this path, for error messages."""
        access = self._access()
        return Target(base_url=_public(access.base_url), path=path, model=model, key=access.api_key)

    async def post(self, target: Target, body: JsonObject, settings: ModelSettings) -> Reply:
        """Send a body to the target's path and return the JSON object in the response.

        Raises:
            ModelError: the call failed, or the response is not a JSON object or reports an error.
        """
        client = await self._client(target)
        from httpx2 import Response
        from pydantic_core import from_json

        with _failures(target):
            async with asyncio.timeout(call_seconds(settings)):
                response = await client.post(
                    target.path, cast_to=Response, body=body, options=_options(settings)
                )
        status = response.status_code
        try:
            value = from_json(response.content, allow_inf_nan=False)
        except ValueError:
            kind = response.headers.get("content-type", "something else")
            raise bad_response(target, f"expected JSON, got {kind}", status=status) from None
        reply = as_object(value)
        if reply is None:
            raise bad_response(target, "expected a JSON object", status=status)
        if reply.get("error"):
            raise reported_failure(reply["error"], target, headers=response.headers)
        return Reply(body=reply, request_id=response.headers.get("x-request-id"))

    async def stream(
        self,
        target: Target,
        body: JsonObject,
        settings: ModelSettings,
        *,
        is_last: Callable[[JsonObject], bool],
    ) -> AsyncGenerator[JsonObject]:
        """Send a body to the target's path and yield the events in the response.

        Args:
            target: the destination of the call.
            body: the JSON to send.
            settings: time-out and extra headers and query. The time-out covers the whole stream.
            is_last: whether an event is the last one that matters.

        Raises:
            ModelError: the call failed, also midway, or an event is not a JSON object.
        """
        client = await self._client(target)
        from openai import AsyncStream

        seconds = call_seconds(settings)
        deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds
        with _failures(target):
            async with asyncio.timeout_at(deadline):
                # With a cast to `object`, events stay the parsed dicts.
                events = await client.post(
                    target.path,
                    cast_to=object,
                    body=body,
                    options=_options(settings),
                    stream=True,
                    stream_cls=AsyncStream[object],
                )
        empty, request_id = True, events.response.headers.get("x-request-id")
        async with events:
            while (event := await _next_event(events, target, deadline)) is not None:
                yield {**event, REQUEST_ID: request_id} if empty and request_id else event
                empty = False
                if is_last(event):
                    await _drain(events)
                    return
        if empty:
            kind = events.response.headers.get("content-type", "nothing")
            raise bad_response(target, f"expected a stream of events, got {kind}")

    async def aclose(self) -> None:
        """Close the connections of the running loop. A later call opens new ones."""
        for one in (self._opened.pop() or {}).values():
            await asyncio.wait([one])
            if not has_failed(one):
                await one.result().close()

    async def _client(self, target: Target) -> "AsyncOpenAI":
        if self._given is not None:
            split_pools(self._given)
            return self._given
        access = self._access()
        of_loop = self._opened.get()
        if of_loop is None:
            self._opened.set(of_loop := dict[_Access, asyncio.Task["AsyncOpenAI"]]())
        opened = of_loop.get(access)
        if opened is None or has_failed(opened):
            _check(access, target)
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
        if self._given is not None:
            return _Access(base_url=str(self._given.base_url), api_key=self._given.api_key)
        base_url = self._base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL
        api_key = (
            self._api_key or defaults.api_key or os.environ.get("OPENAI_API_KEY") or ""
        ).strip()
        organization, project = self._counted_for
        return _Access(
            base_url=base_url.strip(),
            api_key=api_key or None,
            organization=organization,
            project=project,
        )


def _open(access: _Access, target: Target) -> "AsyncOpenAI":
    from httpx2 import InvalidURL
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    try:
        return AsyncOpenAI(
            # The client requires a key, but local servers ignore it.
            api_key=access.api_key or "no-key-needed",
            base_url=access.base_url,
            organization=access.organization,
            project=access.project,
            max_retries=0,
            # An environment's proxy cannot reach a server on this machine.
            http_client=DefaultAsyncHttpxClient(trust_env=not _is_loopback(access.base_url)),
        )
    except InvalidURL:
        raise bad_address(target) from None


def has_failed(opened: asyncio.Task[Any]) -> bool:
    """Whether opening has failed."""
    return opened.done() and (opened.cancelled() or opened.exception() is not None)


def _check(access: _Access, target: Target) -> None:
    parts = _parts(access.base_url)
    if parts is None:
        raise bad_address(target)
    if access.api_key is None:
        if not _is_loopback(access.base_url):
            raise missing_key(target)
    elif not (access.api_key.isascii() and access.api_key.isprintable()):
        raise unsendable_key(target)


def _parts(base_url: str) -> SplitResult | None:
    """Split a base URL; return None if it is not an HTTP URL."""
    try:
        parts = urlsplit(base_url)
        host = parts.hostname or ""
        usable = parts.scheme in {"http", "https"} and host.split() == [host] and parts.port != 0
    except ValueError:
        return None
    return parts if usable else None


def _public(base_url: str) -> str:
    """Return a URL without the parts that may be secret: user, password and query."""
    parts = _parts(base_url)
    if parts is None:
        return "an address that is none"
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}".rstrip("/")


def _is_loopback(base_url: str) -> bool:
    parts = _parts(base_url)
    host = (parts.hostname if parts else None) or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def call_seconds(settings: ModelSettings) -> float | None:
    """Return the time limit of a call, or None if there is none."""
    return None if settings.timeout is None else settings.timeout.total_seconds()


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
        options["timeout"] = Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS))
    return options


async def _next_event(
    events: "AsyncStream[object]", target: Target, deadline: float | None
) -> JsonObject | None:
    """Return the next event, or None at the end of the stream."""
    with _failures(target):
        # Only around one event, so that the time-out never cancels the consumer's code.
        async with asyncio.timeout_at(deadline):
            try:
                event = as_object(await anext(events))
            except StopAsyncIteration:
                return None
            except ValueError:
                event = None
    if event is None:
        raise bad_response(target, "expected events of JSON objects")
    return event


async def _drain(events: "AsyncStream[object]") -> None:
    """Read a stream to its end, so that its connection can be reused."""
    from openai import OpenAIError

    with suppress(OpenAIError, TimeoutError, ValueError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in events:
                pass


@contextmanager
def _failures(target: Target) -> Generator[None]:
    """Convert the client's exceptions to `ModelError`.

    The cause is dropped, because the client's exceptions contain the request and so the key.
    """
    import httpx2
    import openai

    try:
        yield
    except openai.APIStatusError as error:
        raise status_failure(error, target) from None
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
    except (openai.OpenAIError, TypeError, ValueError) as error:
        raise request_failure(error, target) from None
