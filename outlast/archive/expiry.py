"""Removes runs from the archive that it has kept long enough."""

import json
from datetime import timedelta
from typing import Final

from temporalio.client import Client

from outlast.archive.archive import Archive, digest_of_run, folder_of
from outlast.archive.entries import ArchivedHistory
from outlast.archive.sweep import server_has, times_in
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
    looked_ms = (await times_in(archive, name)).get("looked_ms", 0)
    if 0 <= now - looked_ms < every:
        return ()
    await archive.write(name, json.dumps({"looked_ms": now}).encode())
    before = now - archive.keep // timedelta(milliseconds=1)
    runs: dict[str, list[ArchivedHistory]] = {}
    async for entry in archive.entries():
        if entry.namespace == client.namespace:
            runs.setdefault(entry.run_id, []).append(entry)
    expired: list[str] = []
    for run_id, histories in runs.items():
        last = histories[-1]
        if last.closed_ms >= before or await server_has(client, run_id):
            continue  # it may be open
        if not await server_has(client, run_id, last.execution_id):
            await archive.delete(await archive.names(folder_of(client.namespace, run_id)))
            expired.append(run_id)
    return tuple(expired)
