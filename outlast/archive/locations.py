"""Finds the archive that a client or the environment uses."""

import os
from typing import Any
from weakref import WeakKeyDictionary

from temporalio.client import Client

from outlast.archive.archive import Archive
from outlast.contract.policies import ARCHIVE_VARIABLE
from outlast.ports.engine import check_client

_of_clients: WeakKeyDictionary[Client, Archive] = WeakKeyDictionary()


def use_archive(client: Client, archive: Archive) -> None:
    """Read what the server has deleted from an archive, for all runs that use a client."""
    check_client(client, what="use_archive(client)")
    _of_clients[client] = archive


def archive_of(client: Any) -> Archive | None:
    """Return a client's archive, or else the one of `OUTLAST_ARCHIVE`, if any.

    Raises:
        UserError: the environment variable names no archive.
    """
    found = _of_clients.get(client) if isinstance(client, Client) else None
    if found is None:
        found = archive_from_environment()
        if found is not None and isinstance(client, Client):
            _of_clients[client] = found
    return found


def archive_from_environment() -> Archive | None:
    """Return the archive that `OUTLAST_ARCHIVE` names, or None.

    Raises:
        UserError: there is no such archive.
    """
    place = os.environ.get(ARCHIVE_VARIABLE)
    return Archive(place) if place else None
