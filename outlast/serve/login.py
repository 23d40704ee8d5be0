"""How members of the team log in."""

from collections.abc import Sequence

from starlette.requests import HTTPConnection
from starlette.routing import Route

from outlast.agents.errors import IdentityRefused
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
