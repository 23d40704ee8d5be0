"""Internal. Tells this machine from others by the name of a host, and ports from other numbers."""

import secrets
import socket
from ipaddress import ip_address
from typing import Final

from outlast.agents.errors import UserError

LOOPBACK: Final = "127.0.0.1"
LARGEST_PORT: Final = 65_535
_FREE_PORTS: Final = range(20_000, 30_000)
_MOST_LOOKED_AT: Final = 1_000


def is_this_machine(host: str) -> bool:
    """Whether a host's name or IP address is that of this machine's loopback interface."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_same_address(one: str, other: str) -> bool:
    """Whether two texts of the form `host:port` are one address; `localhost` is `127.0.0.1`."""
    return _numeric(one) == _numeric(other)


def _numeric(address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    return LOOPBACK if host == "localhost" else host, port


def check_port(port: object, name: str, *, least: int = 0) -> int:
    """Return the number of a port.

    Args:
        port: the number.
        name: the argument's name, for the error.
        least: the least number; 0 takes a free port.

    Raises:
        UserError: it is no port.
    """
    if isinstance(port, bool) or not isinstance(port, int) or not least <= port <= LARGEST_PORT:
        raise UserError(f"{name}= must be a port, from {least} to {LARGEST_PORT}, not {port!r}.")
    return port


def problem_of_port(port: int) -> str | None:
    """Return why no program could listen on a loopback port, or None."""
    with socket.socket() as probe:
        # Like a server: a port in TIME_WAIT after a restart counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            return error.strerror
    return None


def free_port() -> int:
    """Return a loopback port that no program listens on, for a server that is started next.

    Systems take the ports that they choose themselves, for connections and for port 0, from 32768
    or 49152 on. A lower one is still free when a server that was killed is started again at its
    port.

    Raises:
        OSError: no port is free.
    """
    for _ in range(_MOST_LOOKED_AT):
        port = secrets.choice(_FREE_PORTS)
        if problem_of_port(port) is None:
            return port
    raise OSError(f"No port from {_FREE_PORTS.start} to {_FREE_PORTS[-1]} is free.")
