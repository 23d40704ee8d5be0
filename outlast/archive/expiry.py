"""Removes runs from the archive that it has kept long enough."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.archive.archive import Archive, digest_of_run, folder_of
from outlast.archive.entries import ArchivedHistory
from outlast.edges.bodies import DOORS
from outlast.edges.clock import now_ms

EXPIRES_EVERY: Final = timedelta(hours=1)
"""How often the workers of a namespace look for what has expired; it reads every entry."""


async def expire(client: Client, archive: Archive) -> tuple[str, ...]:
    """Remove the runs that ended longer ago than `Archive.keep`; return their ids.

    An open run is kept whole, however old its first histories are. A run whose server still has a
    history of it is kept, too: it would be archived again.

    Raises:
        ContentUnavailable: the archive cannot be read or written.
        RPCError: the server refused, or does not answer.
    """
    if archive.keep is None:
        return ()
    name = f"sweeps/{digest_of_run(client.namespace, '')}-expiry.json"
    now, every = now_ms(), min(EXPIRES_EVERY, archive.keep) // timedelta(milliseconds=1)
    if 0 <= now - _time_in(await archive.read(name)) < every:
        return ()
    await archive.write(name, json.dumps({"looked_ms": now}).encode())
    before = now - archive.keep // timedelta(milliseconds=1)
    runs: dict[str, list[ArchivedHistory]] = {}
    async for entry in archive.entries():
        if entry.namespace == client.namespace:
            runs.setdefault(entry.run_id, []).append(entry)
    expired: list[str] = []
    for run_id, histories in runs.items():
        if histories[-1].closed_ms < before and not await _server_has(client, run_id, histories):
            await archive.delete(await archive.names(folder_of(client.namespace, run_id)))
            expired.append(run_id)
    return tuple(expired)


async def _server_has(client: Client, run_id: str, histories: Sequence[ArchivedHistory]) -> bool:
    """Whether the run is open, or the server still has its last history."""
    for execution_id in (None, histories[-1].execution_id):
        try:
            await client.get_workflow_handle(run_id, run_id=execution_id).describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
        else:
            return True
    return False


def _time_in(data: bytes | None) -> int:
    try:
        record: Any = DOORS["archive"].parse(data or b"{}")
        return int(record.get("looked_ms", 0))
    except (ValueError, TypeError, AttributeError):
        return 0
