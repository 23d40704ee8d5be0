"""How members of the team log in."""

from collections.abc import Sequence

from starlette.requests import HTTPConnection
from starlette.routing import Route

from outlast.agents.errors import IdentityRefused, UserError
from outlast.client.identity import (
    Network,
    from_proxy_headers,
    has_header,
    proxy_networks,
)
from outlast.hosts import is_this_machine
from outlast.loop.approvals import Person


class ThisMachine:
    """Everybody on this machine is one person: for a desk at a loopback address.

    Args:
        person: the person, such as `outlast.client.identity.os_user()`.
    """

    def __init__(self, person: Person) -> None:
        self._person = person

    @property
    def routes(self) -> Sequence[Route]:
        """None: there is nothing to log in to."""
        return ()

    @property
    def path(self) -> str | None:
        """None: there is no page to log in at."""
        return None

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


class TrustedProxy:
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

    @property
    def routes(self) -> Sequence[Route]:
        """None: the proxy has the pages."""
        return ()

    @property
    def path(self) -> str | None:
        """None: people who are not logged in do not pass the proxy."""
        return None

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
        return from_proxy_headers(
            headers,
            tuple(connection.client or ()) or None,
            self._trusted,
            user_header=self._user_header,
            groups_header=self._groups_header,
            groups_separator=self._separator,
        )


def _check_header(name: str) -> None:
    if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
        raise UserError(f"{name!r:.80} is no name of a header, such as X-Forwarded-User.")
