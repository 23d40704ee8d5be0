"""Reading the audit for people: of one run or since a time, and as lines for files and spreadsheets."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Final, Literal, TypeAlias, cast

from temporalio.client import Client

from outlast.agents.errors import UserError
from outlast.client import audit
from outlast.client.audit import FIELDS, MOST_RUNS, AuditLog
from outlast.client.audit_chain import proofs_of
from outlast.edges.rendering import table_cell
from outlast.loop.values import JsonObject
from outlast.temporal.visibility.scopes import EVERYTHING, Scopes

AuditForm: TypeAlias = Literal["jsonl", "csv"]

COLUMNS: Final = (*FIELDS, "proof")
"""The fields of an entry for people, in order."""


async def read_audit(
    client: Client,
    run_id: str | None,
    since: datetime | None,
    *,
    limit: int = MOST_RUNS,
    scopes: Scopes = EVERYTHING,
) -> AuditLog:
    """Return the audit of a run and the runs nested in it, or of all runs since a time.

    Args:
        client: the client.
        run_id: the run; None for all.
        since: the time from which on entries count; needed without a run.
        limit: the maximum number of runs to read, without a run.
        scopes: the runs that are looked for, without a run: a wider set, which the caller narrows.

    Raises:
        UserError: neither a run nor a time is named.
        RunNotFound: there is no such run.
        AgentsException: the server refused, or the run cannot be read here.
    """
    if run_id is None:
        if since is None:
            raise UserError("Name a run, or a time.")
        return await audit.audit_since(client, since, limit=limit, scopes=scopes)
    log = await audit.audit_run(client, run_id)
    if since is None:
        return log
    since_ms = since.timestamp() * 1_000
    return replace(log, records=tuple(one for one in log.records if one.at_ms >= since_ms))


async def exported(client: Client, log: AuditLog) -> list[JsonObject]:
    """Return the entries as JSON, with what is proven to the keys of this process."""
    proofs = await proofs_of(client, log)
    return [{**one.record(), "proof": proofs.get(one)} for one in log.records]


def written(entries: Iterable[JsonObject], form: AuditForm) -> Iterator[str]:
    """Yield the lines of a file, each with its end; in CSV, no cell is a formula."""
    if form == "jsonl":
        for one in entries:
            yield json.dumps(one, separators=(",", ":")) + "\n"
        return
    yield _row(COLUMNS)
    for one in entries:
        yield _row([cell(one[name]) for name in COLUMNS])


def cell(value: object) -> object:
    """Return a value of an entry as one cell of a table."""
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return " | ".join(map(str, cast("list[object]", value))) if isinstance(value, list) else value


def _row(values: Iterable[object]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(["" if one is None else table_cell(str(one)) for one in values])
    return text.getvalue()
