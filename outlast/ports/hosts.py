"""Tells this machine from others by the name of a host."""

from ipaddress import ip_address


def is_this_machine(host: str) -> bool:
    """Whether a host's name or IP address is that of this machine's loopback interface."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
