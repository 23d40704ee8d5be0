"""How members of the team log in."""

import time
from abc import abstractmethod
from collections.abc import MutableMapping, Sequence
from typing import Any, Final, Protocol

from starlette.requests import HTTPConnection
from starlette.routing import Route

from outlast.agents.errors import IdentityRefused, UserError
from outlast.agents.hosts import is_this_machine
from outlast.client.identity import (
    Network,
    from_proxy_headers,
    has_header,
    proxy_networks,
)
from outlast.views.records import Person

STREAM_SECONDS: Final = 600
"""How long a live stream lasts behind a proxy: then its reader comes back through the proxy."""

_SET_COOKIES: Final = "outlast.set_cookies"
_ENDS_AT: Final = "outlast.ends_at"


def note_session(
    scope: MutableMapping[str, Any], *, ends_at: float, set_cookies: Sequence[str] = ()
) -> None:
    """Note in the scope of a request what its answer has to do for the session of the login.

    Args:
        scope: of the request.
        ends_at: when live streams end, in seconds since the epoch: their readers come back, and
            are checked again.
        set_cookies: the headers that renew or delete the session.
    """
    scope[_ENDS_AT] = ends_at
    scope[_SET_COOKIES] = [*set_cookies]


def forget_session(scope: MutableMapping[str, Any]) -> None:
    """Take back what was noted: the answer ends the session."""
    scope.pop(_SET_COOKIES, None)


def cookies_to_set(scope: MutableMapping[str, Any]) -> Sequence[str]:
    """Return the headers `Set-Cookie` that the login wants in the answer to a request."""
    return scope.get(_SET_COOKIES, ())


def session_end(scope: MutableMapping[str, Any]) -> float | None:
    """Return when the session of a request has to be checked again, in seconds since the epoch."""
    return scope.get(_ENDS_AT)


class Login(Protocol):
    """Says which member of the team sends a request."""

    @property
    def routes(self) -> Sequence[Route]:
        """The routes of the login itself, which anybody may use; none where it has no pages."""
        return ()

    @property
    def path(self) -> str | None:
        """Where a page sends people who are not logged in; None if they cannot log in there."""
        return None

    @abstractmethod
    async def person(self, connection: HTTPConnection) -> Person | None:
        """Return who sends a request; None for nobody.

        Raises:
            IdentityRefused: the request claims to be somebody's, and is not.
        """


class TeamLogin(Login):
    """A login for people who are not at this machine."""

    @abstractmethod
    def check_address(self, url: str) -> None:
        """Check the address of the desk.

        Raises:
            UserError: people cannot log in at a desk with this address.
        """


class ThisMachine(Login):
    """Everybody on this machine is one person: for a desk at a loopback address.

    Args:
        person: the person, such as `outlast.client.identity.os_user()`.
    """

    def __init__(self, person: Person) -> None:
        self._person = person

    async def person(self, connection: HTTPConnection) -> Person | None:
        """Return the person, for every request from this machine.

        Raises:
            IdentityRefused: the request comes from elsewhere.
        """
        host = connection.client.host if connection.client is not None else ""
        if not is_this_machine(host):
            raise IdentityRefused(
                "Without a login, this desk answers requests of its machine only."
            )
        return self._person


class TrustedProxy(TeamLogin):
    """A proxy in front of the desk logs people in, and names each of them in headers.

    The proxy has to remove these headers from what its clients send, and nothing but the proxy may
    be able to connect to the desk from its network.

    Args:
        trusted: the proxy's addresses or networks, such as `["10.0.0.7"]`. They are compared with
            the address of the connection, never with one in a header.
        user_header: the header with the person's name.
        groups_header: the header with the person's groups; None for no groups.
        groups_separator: what is between two groups.

    Raises:
        UserError: `trusted` is no list of networks, or trusts every address.
    """

    def __init__(
        self,
        trusted: Sequence[Network],
        *,
        user_header: str = "X-Forwarded-User",
        groups_header: str | None = "X-Forwarded-Groups",
        groups_separator: str = ",",
    ) -> None:
        self._trusted = proxy_networks(trusted)
        for name in filter(None, (user_header, groups_header)):
            _check_header(name)
        if not groups_separator:
            raise UserError("groups_separator= is empty. Pass what is between two groups: ','.")
        self._user_header = user_header
        self._groups_header = groups_header
        self._separator = groups_separator

    def check_address(self, url: str) -> None:
        """Check that the desk knows its address, to tell its own pages from others."""
        if not url:
            raise UserError(
                "A desk behind a proxy needs its own address: pass url='https://desk.example.com', "
                "as browsers have it."
            )

    async def person(self, connection: HTTPConnection) -> Person | None:
        """Return whom the proxy names; None for a request in which nobody is named.

        Load balancers ask whether the desk serves, and customers send tokens: both without a name.

        Raises:
            IdentityRefused: the request names somebody and does not come from the proxy, or its
                headers are not exactly one user and at most one list of groups.
        """
        headers: list[tuple[bytes, bytes]] = connection.scope["headers"]
        if not has_header(headers, self._user_header):
            return None
        person = from_proxy_headers(
            headers,
            tuple(connection.client or ()) or None,
            self._trusted,
            user_header=self._user_header,
            groups_header=self._groups_header,
            groups_separator=self._separator,
        )
        note_session(connection.scope, ends_at=time.time() + STREAM_SECONDS)
        return person


def _check_header(name: str) -> None:
    if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
        raise UserError(f"{name!r:.80} is no name of a header, such as X-Forwarded-User.")
