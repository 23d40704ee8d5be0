"""Sends model calls with aiohttp, under the headers of an `openai` client.

The `openai` client and its HTTP package take most of a call's CPU: they build a request, its
headers and its connection's state anew each time. Whatever is out of the ordinary is the client's.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from urllib.request import getproxies
from weakref import finalize

from outlast.agents.config.model_settings import ModelSettings
from outlast.edges.bodies import DOORS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ssl import SSLContext

    from aiohttp import ClientResponse, ClientSession, ClientTimeout
    from openai import AsyncOpenAI
    from yarl import URL

CONNECT_SECONDS: Final = 5.0
"""The limit for opening a connection, as in the client's own default."""

_READ_SECONDS: Final = 600.0
"""The longest silence of a server, as in the client's own default."""

_CONNECTIONS: Final = 1000
"""The most connections at once, as in the client's own default."""

_LONGEST_LINE: Final = 100 * 1024
"""The longest header of a response, in bytes: what the client's own HTTP package accepts."""

_MOST_HEADERS: Final = 1000  # likewise

_TIMEOUT_HEADER: Final = "x-stainless-read-timeout"

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})

_WHOLE: Final = 1 << 20
"""The size from which a body is sent in pieces, in bytes, so that it never blocks the loop."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A whole response."""

    status: int
    headers: "Mapping[str, str]"
    content: bytes


def is_direct(base_url: str, *, trust_env: bool) -> bool:
    """Whether calls to a base URL can go past the `openai` client.

    Proxies of the environment and addresses with a user, a query or other than ASCII are its own.
    """
    parts = urlsplit(base_url)
    if parts.scheme not in {"http", "https"} or not base_url.isascii():
        return False
    if parts.username or parts.password or parts.query or parts.fragment:
        return False
    return not trust_env or not {"http", "https", "all"}.intersection(getproxies())


async def read_whole(response: "ClientResponse") -> HttpResponse | None:
    """Read a response to its end, and release its connection; None if it is a redirect.

    Raises:
        BodyRefused: it would cost too much to parse.
    """
    async with response:
        if response.status in _REDIRECTS and "location" in response.headers:
            return None
        content = await DOORS["model reply"].read(response.content.iter_any())
        return HttpResponse(response.status, response.headers, content)


class HttpSession:
    """The connections of one `openai` client in one event loop. Never retries or redirects."""

    def __init__(self, client: "AsyncOpenAI", certificates: "SSLContext") -> None:
        import_module("aiohttp")  # here, because the caller is a thread: it takes 0.2 s
        client.platform_headers()  # reads files about the system, once
        self._client = client
        self._certificates = certificates
        self._session: ClientSession | None = None
        self._headers: dict[str, str] | None = None
        self._urls: dict[str, URL] = {}

    async def post(self, path: str, content: bytes, settings: ModelSettings) -> HttpResponse | None:
        """Send a body, and return the response; None if the server redirects."""
        return await read_whole(await self.open(path, content, settings))

    async def open(self, path: str, content: bytes, settings: ModelSettings) -> "ClientResponse":
        """Send a body, and return the response without its content, which the caller closes."""
        from aiohttp import BytesIOPayload

        data = content if len(content) < _WHOLE else BytesIOPayload(BytesIO(content))
        return await self._opened().post(
            self._url(path),
            data=data,
            headers=self._headers_for(settings),
            timeout=_timeout(settings),
            allow_redirects=False,
        )

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> "ClientSession":
        if self._session is None:
            import aiohttp

            connector = aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=self._certificates)
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.CookieJar(quote_cookie=False),
                max_line_size=_LONGEST_LINE,
                max_field_size=_LONGEST_LINE,
                max_headers=_MOST_HEADERS,
            )
            finalize(self, _close, self._session, asyncio.get_running_loop())
        return self._session

    def _url(self, path: str) -> "URL":
        url = self._urls.get(path)
        if url is None:
            from yarl import URL

            base = str(self._client.base_url).rstrip("/")
            url = self._urls[path] = URL(f"{base}{path}", encoded=True)
        return url

    def _headers_for(self, settings: ModelSettings) -> dict[str, str]:
        """Return the headers that the client sends with every request, and those of the call."""
        headers = self._headers
        if headers is None:
            own = {**self._client.auth_headers, **self._client.default_headers}
            headers = {name.lower(): text for name, text in own.items() if isinstance(text, str)}
            headers["x-stainless-retry-count"] = "0"
            headers[_TIMEOUT_HEADER] = f"{_READ_SECONDS:g}"
            self._headers = headers
        changed: dict[str, str] = {}
        if settings.timeout is not None:
            changed[_TIMEOUT_HEADER] = str(settings.timeout.total_seconds())
        for name, text in (settings.extra_headers or {}).items():
            changed[name.lower()] = text
        return {**headers, **changed} if changed else headers


def _close(session: "ClientSession", loop: asyncio.AbstractEventLoop) -> None:
    """Close sessions that a program left open, which aiohttp would log as errors."""
    closing = session.close()
    if not loop.is_closed():
        loop.call_soon_threadsafe(loop.create_task, closing)
        return
    with suppress(StopIteration):
        closing.send(None)  # nothing is left to wait for


def _timeout(settings: ModelSettings) -> "ClientTimeout":
    from aiohttp import ClientTimeout

    seconds = _READ_SECONDS if settings.timeout is None else settings.timeout.total_seconds()
    # The whole call's time-out is the caller's.
    return ClientTimeout(sock_connect=min(seconds, CONNECT_SECONDS), sock_read=seconds)
