"""HTTP requests of notifiers: no redirects, short answers, no private hosts if so configured."""

import asyncio
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from email.utils import parsedate_to_datetime
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from outlast.agents.errors import UserError
from outlast.ports.notifier import NotifierRejected, NotifierUnavailable

LONGEST_ANSWER: Final = 1_000_000
"""How much of an answer is read, in bytes."""

_AGAIN: Final = frozenset({408, 425, 429})
"""Statuses below 500 after which a retry may help."""

_NAT64: Final = IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class PrivateAddress(OSError):
    """A host is in a private network."""


def check_url(url: object, name: str) -> str:
    """Return an HTTP address.

    Raises:
        UserError: it is none, or has a password, which would appear in logs.
    """
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UserError(
            f"{name}= must be an address such as https://example.com/hook, not {url!r}."
        )
    if parts.username or parts.password:
        raise UserError(f"{name}= must not hold a user or password. Send them as a header.")
    return str(url)


async def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    within: timedelta,
    allow_private: bool = True,
) -> Answer:
    """Send a body, and return the response with any status.

    Raises:
        NotifierUnavailable: there is no answer.
        NotifierRejected: the host is in a private network, and must not be.
    """
    host = urlsplit(url).hostname or ""
    if not allow_private and _is_private_literal(host):
        raise NotifierRejected(f"{host} is in a private network")
    try:
        resolver = None if allow_private else _PublicHosts()
        async with (
            asyncio.timeout(within.total_seconds()),
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(resolver=resolver, force_close=True),
                cookie_jar=aiohttp.DummyCookieJar(),
            ) as session,
            session.post(url, data=body, headers=headers, allow_redirects=False) as response,
        ):
            content = await response.content.read(LONGEST_ANSWER)
            while len(content) < LONGEST_ANSWER and (
                more := await response.content.read(LONGEST_ANSWER - len(content))
            ):
                content += more
            return Answer(response.status, response.headers, content)
    except TimeoutError:
        raise NotifierUnavailable(
            f"{host} did not answer within {within.total_seconds():g} s"
        ) from None
    except (aiohttp.ClientError, OSError) as error:
        reason: Any = getattr(error, "os_error", None)
        if isinstance(reason, PrivateAddress):
            raise NotifierRejected(str(reason)) from None
        raise NotifierUnavailable(
            f"{host} cannot be reached: {str(error) or type(error).__name__}"
        ) from error


def check_status(answer: Answer, what: str) -> None:
    """Check that a request was accepted.

    Args:
        answer: the answer.
        what: the receiver, for the error.

    Raises:
        NotifierUnavailable: a retry may help.
        NotifierRejected: it does not.
    """
    if 200 <= answer.status < 300:
        return
    text = f"{what} answered with status {answer.status}"
    if answer.status >= 500 or answer.status in _AGAIN:
        raise NotifierUnavailable(text, retry_after=retry_after(answer))
    if 300 <= answer.status < 400:
        raise NotifierRejected(f"{text}: it redirects, which is not followed. Use the new address.")
    raise NotifierRejected(text)


def retry_after(answer: Answer) -> timedelta | None:
    """Return how long a receiver wants to be left alone, if it says so."""
    text = answer.headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return timedelta(seconds=min(int(text[:9]), 86_400))
    try:
        until = parsedate_to_datetime(text)
        sent = parsedate_to_datetime(answer.headers.get("Date", ""))
        return max(until - sent, timedelta())
    except (ValueError, TypeError):
        return None


def _is_private_literal(host: str) -> bool:
    """Whether a host is written as an IP address of a private network."""
    try:
        return is_private(ip_address(host.partition("%")[0]))
    except ValueError:
        return False


def is_private(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address, or the IPv4 address inside of it, is not on the public internet."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_private(inner)
    return not address.is_global or address.is_multicast


class _PublicHosts(AbstractResolver):
    """Resolves names, and refuses those that lead to a private network.

    The connection is made to the very addresses that were checked, so that a name which changes in
    between leads nowhere else.
    """

    def __init__(self) -> None:
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        if any(is_private(ip_address(one["host"].partition("%")[0])) for one in found):
            raise PrivateAddress(f"{host} is in a private network")
        return found

    async def close(self) -> None:
        await self._resolver.close()
