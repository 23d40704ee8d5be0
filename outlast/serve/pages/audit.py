"""The audit: who did what, when, found by person, act, time and conversation, and as a file.

It is what `outlast audit` prints, read from the runs' histories when somebody asks.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, get_args

from pydantic import Field
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute

from outlast.client.audit import AuditEvent, AuditLog, AuditRecord
from outlast.client.audit_export import AuditForm, exported, read_audit, written
from outlast.edges import clock
from outlast.edges.clock import time_of
from outlast.serve.bodies import Query
from outlast.serve.pages.page import page, query_of, show_page
from outlast.serve.routing import DeskRequest, route

MOST_RUNS: Final = 300
"""The most conversations whose histories are read for one page, or one file."""

MOST_SHOWN: Final = 300
"""The most entries of a page; a file has all that were found."""


class Wanted(Query):
    """What the address asks for; days are those of UTC."""

    run: str = ""
    person: str = ""
    act: AuditEvent | None = None
    begin: date | None = Field(default=None, alias="from")
    end: date | None = Field(default=None, alias="to")
    form: AuditForm | None = None

    @property
    def since(self) -> datetime | None:
        """From when on; a day ago for all conversations where nobody says."""
        if self.begin is not None:
            return datetime.combine(self.begin, time(), UTC)
        return None if self.run else clock.now() - timedelta(days=1)

    def fits(self, one: AuditRecord) -> bool:
        """Whether an entry is asked for."""
        if self.act not in {None, one.event}:
            return False
        if self.end is not None and time_of(one.at_ms).astimezone(UTC).date() > self.end:
            return False
        wanted = self.person.casefold()
        return not wanted or wanted in f"{one.by}\n{one.display}".casefold()

    @property
    def query(self) -> dict[str, str]:
        """The query of the address."""
        given = self.model_dump(mode="json", by_alias=True, exclude={"form"}, exclude_none=True)
        return {name: value for name, value in given.items() if value}


async def _read(asked: DeskRequest, wanted: Wanted) -> AuditLog:
    """Return what the caller may read of what they ask for, oldest first.

    Raises:
        RunNotFound: they do not see the conversation, or there is none.
    """
    if wanted.run:
        asked = await asked.at(wanted.run)
        asked.check("read_audit")
    scopes = () if wanted.run else asked.scopes("read_audit")
    async with asked.desk.audits:
        log = await read_audit(
            asked.desk.client, wanted.run or None, wanted.since, limit=MOST_RUNS, scopes=scopes
        )
    if scopes:
        roots = list(dict.fromkeys(one.root_run_id for one in log.records))
        seen = set(await asked.seen(roots, "read_audit"))
        known = tuple(one for one in log.records if one.root_run_id in seen)
        log = replace(log, records=known, unread=())
    return replace(log, records=tuple(filter(wanted.fits, log.records)))


async def _show(asked: DeskRequest) -> Response:
    wanted = query_of(asked, Wanted)
    is_asked = bool(wanted.query)
    log = await _read(asked, wanted) if is_asked else AuditLog(records=())
    return page(
        asked,
        "audit.html",
        "Audit",
        wanted=wanted,
        is_asked=is_asked,
        acts=get_args(AuditEvent),
        log=log,
        entries=log.records[::-1][:MOST_SHOWN],
        is_incomplete=any(one.lost for one in log.runs),
        most_runs=MOST_RUNS,
    )


async def _export(asked: DeskRequest) -> Response:
    """Answer with what the page shows, as a file, line by line."""
    wanted = query_of(asked, Wanted)
    log, form = await _read(asked, wanted), wanted.form or "jsonl"
    entries = await exported(asked.desk.client, log)
    kind = {"csv": "text/csv", "jsonl": "application/jsonl"}[form]
    headers = {
        "Content-Disposition": f'attachment; filename="audit.{form}"',
        "Cache-Control": "no-store",
    }
    lines: Iterator[bytes] = (one.encode("utf-8", "replace") for one in written(entries, form))
    return StreamingResponse(lines, media_type=f"{kind}; charset=utf-8", headers=headers)


ROUTES: Final[list[BaseRoute]] = [
    route("/audit", _show, action="read_audit", show=show_page, soon=True),
    route("/audit/export", _export, action="read_audit", show=show_page),
]
