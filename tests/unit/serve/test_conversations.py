"""The list of conversations."""

import asyncio
import re
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html import unescape
from typing import Any
from urllib.parse import quote_plus

import pytest

from outlast.client.runs import ListedRun, RunFilter, RunPage
from outlast.serve.pages import conversations
from outlast.serve.pages.conversations import Usages, Used, run_row
from outlast.serve.pages.filters import shown
from tests.laws.driver import play_in
from tests.unit.serve.hostile_pages import HOSTILE, active_content
from tests.unit.serve.played import PlayedRuns, browser_of, desk_of

RUN = ListedRun(
    run_id="order 17",
    execution_id="e1",
    status="waiting",
    agent="Billing",
    approvals=2,
    started=datetime(2026, 11, 1, tzinfo=UTC),
    closed=None,
    waits_for="approval of refund, pay",
    tenant="acme",
)


class Server:
    """What the pages ask of a Temporal server: which runs there are, and their states."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *runs: ListedRun) -> None:
        self.runs: Sequence[ListedRun] = runs
        self.next: bytes | None = None
        self.asked: list[tuple[RunFilter, bytes | None]] = []
        self.read: list[str] = []
        monkeypatch.setattr(conversations, "list_runs", self._list)
        monkeypatch.setattr(conversations, "state_of", self._state)
        monkeypatch.setattr(conversations, "_USAGES", {})

    async def _list(
        self, _client: Any, criteria: RunFilter, *, limit: int, page: bytes | None
    ) -> RunPage:
        self.asked.append((criteria, page))
        return RunPage(tuple(self.runs), self.next)

    async def _state(self, _client: Any, run_id: str, _execution_id: str) -> Any:
        self.read.append(run_id)
        return play_in("waiting").state


async def shown_list(path: str = "/conversations", **fields: Any) -> Any:
    app = desk_of(PlayedRuns({}), conversations.ROUTES, **fields)
    async with browser_of(app) as http:
        return await http.get(path)


async def test_a_row_says_where_a_conversation_is(monkeypatch: pytest.MonkeyPatch) -> None:
    held = replace(RUN, run_id="b", execution_id="e2", status="held", waits_for="person: ann")
    Server(monkeypatch, RUN, held)
    page = (await shown_list()).text
    assert active_content(page) == []
    for words in ("waits for a decision", "order 17", "acme", "approval of refund, pay", "Billing"):
        assert words in page
    assert "ann has it" in page
    assert 'href="/conversations/order%2017"' in page


async def test_filters_are_kept_in_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch, RUN)
    server.next = b"\x00next"
    page = await shown_list(
        "/conversations?status=held&agent=Bil%5Cu006cing&starts=o&waiting=yes&nested=yes"
    )
    [(criteria, first)] = server.asked
    assert criteria == RunFilter(
        status="held", agent="Billing", waiting=True, id_prefix="o", nested=True
    )
    assert first is None
    after = urlsafe_b64encode(b"\x00next").decode()
    kept = "status=held&agent=Billing&starts=o&waiting=yes&nested=yes"
    addresses = re.findall('href="([^"]*)"', unescape(page.text))
    assert f"/conversations?page={quote_plus(after)}&{kept}" in addresses
    await shown_list(f"/conversations?page={after}")
    assert server.asked[-1][1] == b"\x00next"


async def test_what_waits_is_filtered_by_who_decides_until_when(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server(monkeypatch)
    server.next = b"next"
    kept = "tenant=acme&group=leads&risk=high&due=4h"
    page = await shown_list(f"/conversations?{kept}")
    [(criteria, _)] = server.asked
    due_before = criteria.due_before
    assert due_before is not None
    assert timedelta(hours=3) < due_before - datetime.now(UTC) <= timedelta(hours=4)  # noqa: TID251
    assert replace(criteria, due_before=None) == RunFilter(
        tenant="acme", group="leads", risk="high", nested=False
    )
    assert kept in unescape(page.text)
    assert "None of the 1,000 runs that were looked at fits" in page.text
    assert 'value="acme"' in page.text


async def test_what_is_no_filter_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch)
    for query in ("status='+OR+1=1&page=", "risk=deadly&due=now&tenant=+&nested=perhaps&limit=x"):
        assert (await shown_list(f"/conversations?{query}")).status_code == 200
        assert server.asked[-1] == (RunFilter(nested=False), None)
    for page in ("%C3%A4", "A"):
        refused = await shown_list(f"/conversations?page={page}")
        assert (refused.status_code, "no such page" in refused.text) == (400, True)


async def test_an_unchanged_list_is_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch, RUN)
    whole = (await shown_list()).text
    seen = whole.split('name="seen" value="')[1].split('"')[0]
    assert (await shown_list(f"/conversations-list?seen={seen}")).status_code == 204
    server.runs = [replace(RUN, status="running", waits_for="")]
    changed = await shown_list(f"/conversations-list?seen={seen}")
    assert changed.status_code == 200
    assert "working" in changed.text
    assert "<html" not in changed.text
    forged = await shown_list("/conversations-list?seen=%22%3E%3Cscript%3E")
    assert forged.status_code == 200


async def test_hostile_texts_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [
        replace(RUN, run_id=text[:300], agent=text, waits_for=text, tenant=text) for text in HOSTILE
    ]
    held = [replace(run, status="held", waits_for=f"person: {run.agent}") for run in runs]
    server = Server(monkeypatch, *runs, *held)
    assert active_content((await shown_list()).text) == []
    server.runs = []
    app = desk_of(PlayedRuns({}), conversations.ROUTES)
    async with browser_of(app) as http:
        for text in HOSTILE:
            sent = text[:500].encode(errors="replace").decode()
            query = {
                "tenant": sent,
                "group": sent,
                "agent": sent,
                "starts": rf"{sent}\ud800",
                "status": sent,
            }
            answer = await http.get("/conversations", params=query)
            assert answer.status_code == 200
            assert active_content(answer.text) == []


async def test_only_the_team_sees_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    Server(monkeypatch, RUN)
    assert (await shown_list(roles=[])).status_code == 403


async def test_histories_are_read_once_for_a_moment_and_for_ever_after_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server(monkeypatch, RUN)
    usages = Usages()
    client: Any = object()
    for _ in range(3):
        found = await usages.of(client, [RUN])
        assert found["e1"].tokens == 0
    assert server.read == ["order 17"]
    monkeypatch.setattr(conversations, "FRESH_SECONDS", 0.0)
    assert (await usages.of(client, [RUN]))["e1"].tokens == 0  # nobody waits for what is read again
    assert len(server.read) == 1
    await asyncio.gather(*usages._reading.values())
    assert len(server.read) == 2


def test_a_row_without_a_history_has_no_tokens() -> None:
    row = run_row(RUN, None)
    assert (row.used, row.waits_for) == (None, RUN.waits_for)
    used = Used(tokens=5, cost=Decimal(1), is_whole=False, is_final=True, read_at=0)
    assert run_row(RUN, used).used is used
    assert shown(row.badge.word) == "waits for a decision"
