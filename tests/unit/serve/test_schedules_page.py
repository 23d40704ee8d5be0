"""The page of schedules: what it shows, and who may pause, resume and fire."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, Final

import pytest

from outlast.agents.errors import ScheduleNotFound
from outlast.client.schedules import Firing, Schedule
from outlast.serve.pages import schedules
from tests.unit.serve.hostile_pages import HOSTILE, active_content
from tests.unit.serve.played import PlayedRuns, browser_of, desk_of

AT: Final = datetime(2026, 11, 20, 9, tzinfo=UTC)
REPORT: Final = Schedule(
    id="report",
    agent="Desk",
    to="",
    text="Sum up the week.",
    when="0 9 * * MON in Europe/Berlin",
    status="active",
    note="",
    next=(AT + timedelta(days=3),),
    recent=(Firing(at=AT, run_id="report-1", status="failed", problem="no agent"),),
    fired=4,
    skipped=1,
    missed=0,
    task_queue="support",
)
ORIGIN: Final = {"Origin": "http://localhost:8090"}


class Server:
    """The schedules of a server, and what was done to them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *known: Schedule) -> None:
        self.known = {one.id: one for one in known}
        self.did: list[Any] = []
        self.listed = 0
        monkeypatch.setattr(schedules, "Schedules", self._made)

    def _made(self, *_: Any, **__: Any) -> "Server":
        return self

    async def list(self, *, limit: int) -> tuple[Schedule, ...]:
        assert limit == schedules.MOST_LISTED
        self.listed += 1
        return tuple(self.known.values())

    async def get(self, schedule_id: str) -> Schedule:
        if schedule_id not in self.known:
            raise ScheduleNotFound(f"There is no schedule {schedule_id!r}.")
        return self.known[schedule_id]

    async def pause(self, schedule_id: str, *, note: str) -> None:
        await self.get(schedule_id)
        self.did.append(("pause", schedule_id, note))

    async def resume(self, schedule_id: str, *, note: str) -> None:
        await self.get(schedule_id)
        self.did.append(("resume", schedule_id, note))

    async def trigger(self, schedule_id: str) -> None:
        await self.get(schedule_id)
        self.did.append(("trigger", schedule_id))


def browser(roles: Any = ("viewer", "operator"), **headers: str) -> Any:
    client: Any = SimpleNamespace(namespace="default")
    app = desk_of(PlayedRuns({}), schedules.ROUTES, roles=roles, client=client)
    http = browser_of(app)
    http.headers.update(headers)
    return http


async def test_the_list_says_what_comes_next_and_what_came_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paused = replace(REPORT, id="nudge", status="paused", to="orders", agent="")
    server = Server(monkeypatch, paused, REPORT)
    async with browser() as http:
        text = (await http.get("/schedules")).text
        await http.get("/schedules")
    assert active_content(text) == []
    for words in ("0 9 * * MON in Europe/Berlin", "starts Desk", "sends orders", "Pause", "Resume"):
        assert words in text
    assert server.listed == 1, "many who look ask the server once"


async def test_a_schedule_says_what_has_become_of_its_firings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Server(monkeypatch, REPORT)
    async with browser() as http:
        text = (await http.get("/schedules?id=report")).text
        assert (await http.get("/schedules?id=none")).status_code == 404
    for words in ("4 times, 1 skipped, 0 missed", "failed", "no agent", "/conversations/report-1"):
        assert words in text


async def test_an_operator_pauses_resumes_and_fires_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server(monkeypatch, REPORT)
    async with browser(**ORIGIN) as http:
        for act in ("pause", "resume", "trigger"):
            done = await http.post("/schedules/act", data={"id": "report", "act": act})
            assert (done.status_code, done.headers["location"]) == (
                303,
                f"/schedules?id=report&done={act}",
            )
        wrong = await http.post("/schedules/act", data={"id": "report", "act": "delete"})
        missing = await http.post("/schedules/act", data={"id": "none", "act": "pause"})
    assert (wrong.status_code, missing.status_code) == (400, 404)
    assert server.did == [
        ("pause", "report", "paused by ann"),
        ("resume", "report", "resumed by ann"),
        ("trigger", "report"),
    ]


@pytest.mark.parametrize("roles", [["viewer"], ["decider"], ["operator@tenant:acme"], []])
async def test_nobody_else_presses_a_button(
    monkeypatch: pytest.MonkeyPatch, roles: list[str]
) -> None:
    server = Server(monkeypatch, REPORT)
    async with browser(roles, **ORIGIN) as http:
        answer = await http.post("/schedules/act", data={"id": "report", "act": "pause"})
        assert answer.status_code == 403
        text = (await http.get("/schedules")).text
    assert 'value="pause"' not in text
    assert server.did == []


async def test_somebody_of_a_tenant_sees_no_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch, REPORT)
    async with browser(["viewer@tenant:acme"]) as http:
        for path in ("/schedules", "/schedules?id=report", "/schedules?id=none"):
            answer = await http.get(path)
            assert answer.status_code == 403
            assert "Sum up" not in answer.text
    assert server.listed == 0


async def test_a_page_of_somebody_else_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch, REPORT)
    for headers in ({}, {"Origin": "https://evil.example"}):
        async with browser(**headers) as http:
            answer = await http.post("/schedules/act", data={"id": "report", "act": "trigger"})
        assert answer.status_code == 403
    assert server.did == []


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_schedules_do_nothing(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    firing = Firing(at=AT, run_id=text, status="failed", problem=text)
    one = replace(
        REPORT, id=text, text=text, note=text, agent=text, when=text, recent=(firing,), to=text
    )
    server = Server(monkeypatch, one)
    async with browser(**ORIGIN) as http:
        listed = (await http.get("/schedules")).text
        sent = text.encode(errors="replace").decode()
        server.known = {sent: one}
        shown = (await http.get("/schedules", params={"id": sent})).text
    assert active_content(listed) == active_content(shown) == []
    assert server.did == []
