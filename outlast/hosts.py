"""Internal. Tells this machine from others by the name of a host, and ports from other numbers."""

import socket
from ipaddress import ip_address
from typing import Final

from outlast.agents.errors import UserError

LOOPBACK: Final = "127.0.0.1"
LARGEST_PORT: Final = 65_535


def is_this_machine(host: str) -> bool:
    """Whether a host's name or IP address is that of this machine's loopback interface."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


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
