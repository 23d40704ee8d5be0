"""Whether a port of this machine can be had.

Owns: asking the operating system. Must not know: who wants the port.
"""

import socket

LOOPBACK = "127.0.0.1"


def is_free(port: int) -> bool:
    """Whether nobody listens on a loopback port."""
    with socket.socket() as probe:
        # A port that is only cooling down after a restart is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def answers(address: str) -> bool:
    """Whether somebody accepts connections at `host:port`, within a second."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=1):
            return True
    except (OSError, ValueError):
        return False
