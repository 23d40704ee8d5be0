"""HTTP requests of notifiers: no redirects, short answers, no private hosts if so configured."""

import asyncio
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from outlast.agents.errors import UserError
from outlast.models.failures import retry_after
from outlast.ports.notifier import NotifierRejected, NotifierUnavailable

LONGEST_ANSWER: Final = 1_000_000
"""How much of an answer is read, in bytes."""

_AGAIN: Final = frozenset({408, 425, 429})
"""Statuses below 500 after which a retry may help."""

_NOT_PUBLIC: Final = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",  # the host of virtual machines in Azure
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",
    )
)
"""The networks of IANA's registry of special addresses, which versions of Python read otherwise."""

_PUBLIC_6: Final = IPv6Network("2000::/3")
"""The only block of IPv6 that IANA gives out; all else is local, or a form of an IPv4 address."""

_NOT_PUBLIC_6: Final = tuple(
    IPv6Network(network) for network in ("2001::/23", "2001:db8::/32", "3ffe::/16", "3fff::/20")
)
_NAT64: Final = IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The answer to a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class PrivateAddress(OSError):
    """A connection would lead into a private network."""


def check_url(url: object, name: str) -> str:
    """Return an HTTP address."""
    try:
        parts = URL(url) if isinstance(url, str) else URL()
    except ValueError:  # a port above 65,535, or half a pair of brackets
        parts = URL()
    if parts.scheme not in {"http", "https"} or not parts.host or parts.explicit_port == 0:
        raise UserError(
            f"{name}= must be an address such as https://example.com/hook, not {url!r}."
        )
    if parts.user or parts.password:
        raise UserError(f"{name}= must not hold a user or password. Send them as a header.")
    return str(url)


async def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    within: timedelta,
    allow_private: bool = True,
) -> HttpAnswer:
    """Send a body, and return the response with any status."""
    host = urlsplit(url).hostname or ""
    sockets = _Sockets(allow_private=allow_private)
    try:
        async with (
            asyncio.timeout(within.total_seconds()),
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(socket_factory=sockets.open, force_close=True),
                cookie_jar=aiohttp.DummyCookieJar(),
            ) as session,
            session.post(url, data=body, headers=headers, allow_redirects=False) as response,
        ):
            content = await response.content.read(LONGEST_ANSWER)
            while len(content) < LONGEST_ANSWER and (
                more := await response.content.read(LONGEST_ANSWER - len(content))
            ):
                content += more
            return HttpAnswer(response.status, response.headers, content)
    except TimeoutError:
        raise NotifierUnavailable(
            f"{host} did not answer within {within.total_seconds():g} s"
        ) from None
    except aiohttp.InvalidURL as error:
        raise NotifierRejected(f"{host} cannot be a host: {error}") from error
    except (aiohttp.ClientError, OSError) as error:
        if sockets.refused:
            raise NotifierRejected(f"{host} is in a private network") from None
        raise NotifierUnavailable(
            f"{host} cannot be reached: {str(error) or type(error).__name__}"
        ) from error


def check_status(answer: HttpAnswer, what: str) -> None:
    """Check that a request was accepted."""
    if 200 <= answer.status < 300:
        return
    text = f"{what} answered with status {answer.status}"
    if answer.status >= 500 or answer.status in _AGAIN:
        raise NotifierUnavailable(text, retry_after=retry_after(answer.headers))
    if 300 <= answer.status < 400:
        raise NotifierRejected(f"{text}: it redirects, which is not followed. Use the new address.")
    raise NotifierRejected(text)


def is_private(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address, or the IPv4 address inside of it, is not on the public internet."""
    if isinstance(address, IPv4Address):
        return any(address in network for network in _NOT_PUBLIC)
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and address in _NAT64:
        inner = IPv4Address(int(address) & 0xFFFFFFFF)
    if inner is not None:
        return is_private(inner)
    return address not in _PUBLIC_6 or any(address in network for network in _NOT_PUBLIC_6)


class _Sockets:
    """Opens the sockets of a request, each for one address.

    The check is here because this is the address that the connection is made to, however the host
    was written, whoever resolved it, and however often its name has changed in between.
    """

    def __init__(self, *, allow_private: bool) -> None:
        self._allow_private = allow_private
        self.refused = False

    def open(self, target: tuple[int, int, int, str, tuple[Any, ...]]) -> socket.socket:
        """Return a socket for an address."""
        family, kind, protocol, _, place = target
        if not self._allow_private and is_private(ip_address(str(place[0]).partition("%")[0])):
            self.refused = True
            raise PrivateAddress("the address is in a private network")
        return socket.socket(family=family, type=kind, proto=protocol)
