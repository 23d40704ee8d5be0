"""The inbox: what it lists, filters and decides, and what it does not read."""

import re
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from html import unescape
from time import process_time
from typing import Any

import pytest

from outlast.client.inbox import InboxEntry
from outlast.loop.approvals import Audience
from outlast.serve.inbox_feed import InboxFilter
from outlast.serve.pages.inbox import SHOWN, inbox_row
from outlast.views.words import KEPT
from tests.unit.serve.hostile_pages import HOSTILE, active_content
from tests.unit.serve.page_desk import ANN, OWN, Entries, app, asking, client_of, run_of

NOW = datetime.fromtimestamp(1_900_000_000, UTC)


def entry(run_id: str = "r", **fields: Any) -> InboxEntry:
    values: dict[str, Any] = {
        "agent": "Clerk",
        "status": "waiting",
        "tools": ("refund",),
        "pending": 1,
        "started": NOW,
        "client": None,
    }
    return InboxEntry(run_id=run_id, **(values | fields))


def live_address(text: str) -> str:
    """Return the address of a page's live list."""
    return text.partition('sse-connect="')[2].partition('"')[0].replace("&amp;", "&")


async def test_the_inbox_lists_what_visibility_knows_and_reads_no_history() -> None:
    entries = [
        entry("a/b", risk="high", due=NOW, people=("billing", "ann"), pending=3),
        entry("held", status="held", held_by="bob", pending=0, tools=()),
        entry("odd", tools=(), status="", for_anybody=True),
    ]
    desk = app(entries=entries)  # without runs: reading one would fail
    async with client_of(desk) as http:
        text = (await http.get("/inbox")).text
    for one in (
        "(5) Inbox",
        "high risk",
        "3 requests",
        "billing",
        "held by bob",
        "anybody",
        "/conversations/a%2Fb",
        'data-details="/inbox/requests/a%2Fb"',
    ):
        assert one in text, one
    assert active_content(text) == []


async def test_filters_are_in_the_address() -> None:
    desk = app(entries=[entry("soon", due=datetime.now(UTC)), entry("later", due=NOW)])  # noqa: TID251
    async with client_of(desk) as http:
        await http.get("/inbox?show=all&group=leads&risk=high")
        await http.get("/inbox?risk=deadly&limit=x&due=now&group=")
        due = (await http.get("/inbox?due=1h")).text
    wanted = desk.state.desk.inboxes.wanted
    assert wanted[0] == InboxFilter(mine=None, group="leads", risk="high")
    assert wanted[1] == wanted[2] == InboxFilter(mine=ANN)
    assert "soon" in due
    assert "later" not in due
    assert "due=1h" in due.partition("sse-connect")[2][:200]


async def test_an_empty_inbox_says_so() -> None:
    async with client_of(app()) as http:
        assert "Nothing waits for you" in (await http.get("/inbox")).text
        assert (await http.get("/")).headers["Location"] == "/inbox"


async def test_hostile_entries_are_text() -> None:
    for text in HOSTILE:
        one = entry(text, agent=text, tools=(text,), people=(text,), held_by=text, status="held")
        async with client_of(app(entries=[one])) as http:
            answer = await http.get("/inbox", params={"show": "all"})
        assert answer.status_code == 200
        assert (text[:80], active_content(answer.text)) == (text[:80], [])


async def test_the_page_with_1000_runs_costs_as_much_as_its_rows() -> None:
    seconds = dict[int, float]()
    for count in (SHOWN, 1_000):
        entries = [entry(f"r{at}", due=NOW, people=("billing",)) for at in range(count)]
        async with client_of(app(entries=entries)) as http:
            texts = list[str]()
            took = list[float]()
            for _ in range(4):
                began = process_time()
                texts.append((await http.get("/inbox")).text)
                took.append(process_time() - began)
        seconds[count] = min(took)
        assert {text.count("data-row ") for text in texts} == {SHOWN}
        left = f"{1_000 - SHOWN} further conversations"
        assert (left in texts[-1], f"({count:,}) Inbox" in texts[-1]) == (count == 1_000, True)
    assert seconds[1_000] < 3 * seconds[SHOWN]


@dataclass
class Server:
    """Stands for an inbox that nobody follows yet."""

    entries: list[InboxEntry]
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def urgent(self, *, limit: int, **criteria: Any) -> tuple[InboxEntry, ...]:
        self.asked.append({"limit": limit, **criteria})
        return tuple(self.entries[:limit])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server([entry(f"r{at}") for at in range(150)])

    def inbox(_client: Any) -> Server:
        return server

    def known(*_: Any) -> None:
        pass

    monkeypatch.setattr("outlast.serve.pages.inbox.Inbox", inbox)
    monkeypatch.setattr(Entries, "known", known)
    return server


async def test_a_page_of_an_inbox_that_nobody_follows_has_the_most_urgent_runs(
    server: Server,
) -> None:
    async with client_of(app(entries=server.entries)) as http:
        text = (await http.get("/inbox")).text
        live = (await http.get(live_address(text))).text
        most = (await http.get("/inbox?limit=1000")).text
        del server.entries[SHOWN:]
        all_shown = (await http.get("/inbox")).text
    assert f"({SHOWN}+) Inbox" in text
    assert f"The most urgent {SHOWN} conversations" in text
    assert "Show more" in text
    assert text.count("data-row ") == SHOWN
    assert "(150) Inbox" in live
    assert f"{150 - SHOWN} further conversations" in live
    assert "(150) Inbox" in most
    assert f"({SHOWN}) Inbox" in all_shown
    assert "in a moment" not in all_shown
    assert [one["limit"] for one in server.asked] == [SHOWN + 1, 1_000, SHOWN + 1]


async def test_an_inbox_that_nobody_follows_is_searched_by_all_filters(server: Server) -> None:
    async with client_of(app()) as http:
        await http.get("/inbox?due=1h&risk=high&group=leads")
    [asked] = server.asked
    due_before = asked.pop("due_before")
    assert timedelta(minutes=59) < due_before - datetime.now(UTC) < timedelta(hours=1)  # noqa: TID251
    assert asked == {
        "limit": SHOWN + 1,
        "mine": ANN,
        "group": "leads",
        "risk": "high",
        "held": True,
        "scopes": (),
    }


async def test_the_live_list_sends_what_the_page_does_not_have() -> None:
    desk = app(entries=[entry()])
    async with client_of(desk) as http:
        text = (await http.get("/inbox")).text
        address = live_address(text)
        assert "event: inbox" not in (await http.get(address)).text
        desk.state.desk.inboxes.entries = (entry(), entry("other"))
        assert "other" in (await http.get(address)).text


async def test_a_live_list_is_rendered_once_for_all_who_see_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rendered: list[str] = []

    def fragment(*_: Any, **values: Any) -> str:
        rendered.append(values["window_title"])
        return f"{values['window_title']} {values['wanted'].query}"

    monkeypatch.setattr("outlast.serve.pages.inbox.fragment", fragment)
    monkeypatch.setattr("outlast.serve.pages.inbox._RENDERED", OrderedDict[object, str]())
    ann, bob = app(entries=[entry()]), app(entries=[entry()])
    async with client_of(ann) as one, client_of(bob) as other:
        lists = [(await http.get("/inbox/live")).text for http in (one, other, one)]
        assert lists[0] == lists[1] == lists[2]
        assert rendered == ["(1) Inbox"]
        assert "'show': 'all'" in (await other.get("/inbox/live?show=all")).text
        bob.state.desk.inboxes.entries = (entry(pending=2),)
        assert "(2) Inbox" in (await other.get("/inbox/live")).text
        assert "(1) Inbox" in (await one.get("/inbox/live")).text
    assert len(rendered) == 3


async def test_the_requests_of_a_run_are_read_when_they_are_seen() -> None:
    desk = app({"r": asking(quorum=2)})
    async with client_of(desk) as http:
        text = (await http.get("/inbox/requests/r")).text
        gone = (await http.get("/inbox/requests/x")).text
    shown = " ".join(re.sub("<[^>]*>", " ", text).split())
    assert shown.startswith("r Refund 0 of 2 votes Approve Reject… Claim Iban DE42 Amount 5 refund")
    assert "0 of 2 votes" in text
    assert "Approve</button>" in text
    assert "cannot be read" in gone
    assert active_content(text) == []


@pytest.mark.parametrize(
    ("terms", "button"), [({"risk": "high"}, "Look and decide"), ({}, "Approve</button>")]
)
async def test_what_can_do_harm_or_is_cut_is_looked_at_first(terms: Any, button: str) -> None:
    async with client_of(app({"r": asking(**terms)})) as http:
        assert button in (await http.get("/inbox/requests/r")).text
    long = '{"text": "' + "x" * 300 + '"}'
    async with client_of(app({"r": asking(long, **terms)})) as http:
        assert "Look and decide" in (await http.get("/inbox/requests/r")).text


async def test_a_decision_in_the_list_shows_what_waits_then() -> None:
    state = asking()
    data = {"deed": "approve", "digest": state.approvals[0].digest}
    desk = app({"r": state})
    part = {**OWN, "HX-Request": "true"}
    async with client_of(desk) as http:
        answer = await http.post("/inbox/requests/r/a1", data=data, headers=part)
        assert "Approved by somebody. The call runs." in answer.text
        plain = await http.post("/inbox/requests/r/a1", data=data, headers=OWN)
        assert (plain.status_code, plain.headers["Location"]) == (303, "/inbox")
        run_of(desk).refused = "Approval a1 is already approved by bob."
        late = await http.post("/inbox/requests/r/a1", data=data, headers=part)
        assert (late.status_code, "already approved by bob" in late.text) == (200, True)
        stale = await http.post("/inbox/requests/r/a1", data=data | {"digest": "x"}, headers=part)
        assert "is no longer what you have seen" in stale.text
    assert len(run_of(desk).made) == 2


@pytest.mark.parametrize(
    "form",
    [{"deed": "approve"}, {"deed": "ask_back", "question": "Why?"}, {"deed": "withdraw"}],
    ids=lambda form: form["deed"],
)
async def test_a_decision_without_a_worker_is_said_to_be_kept(form: dict[str, str]) -> None:
    state = asking()
    desk = app({"r": state})
    run_of(desk).has_worker = False
    data = {**form, "digest": state.approvals[0].digest}
    async with client_of(desk) as http:
        answer = await http.post(
            "/inbox/requests/r/a1", data=data, headers={**OWN, "HX-Request": "true"}
        )
    assert KEPT in unescape(answer.text)


async def test_a_button_that_cannot_be_used_says_why() -> None:
    state = asking(audience=Audience(groups=("leads",)))
    async with client_of(app({"r": state})) as http:
        text = (await http.get("/inbox/requests/r")).text
    assert "<button" not in text
    assert "It is for the group leads" in text


async def test_nothing_chosen_and_too_much_are_refused() -> None:
    async with client_of(app()) as http:
        none = await http.post("/inbox/plan", headers=OWN, data={"a": "b"})
        chosen = {"run": [f"r{at}" for at in range(201)]}
        many = await http.post("/inbox/plan", headers=OWN, data=chosen)
        odd = await http.post("/inbox/decide", headers=OWN, data={"decision": "fly", "run": "r"})
    assert "Choose requests in the inbox first" in none.text
    assert "at most 200 runs" in many.text
    assert odd.status_code == 400


async def test_who_only_watches_decides_nothing() -> None:
    state = asking()
    desk = app({"r": state}, roles=["viewer"])
    data = {"deed": "approve", "digest": state.approvals[0].digest}
    async with client_of(desk) as http:
        text = (await http.get("/inbox/requests/r")).text
        await http.post("/inbox/requests/r/a1", data=data, headers=OWN)
        plan = await http.post("/inbox/plan", data={"run": "r"}, headers=OWN)
    assert "DE42" not in text
    assert "<button" not in text
    assert (plan.status_code, run_of(desk).made) == (403, [])


def test_a_row_is_new_when_its_entry_is() -> None:
    one = entry()
    assert inbox_row(one) == inbox_row(replace(one))
    other = inbox_row(replace(one, due=NOW + timedelta(seconds=1)))
    assert (other.id, other.version != inbox_row(one).version) == (inbox_row(one).id, True)


async def test_the_button_of_the_filters_says_how_many_are_active() -> None:
    async with client_of(app()) as http:
        for query, count in (("", ""), ("?risk=high", "1"), ("?risk=high&due=4h&group=leads", "3")):
            text = (await http.get(f"/inbox{query}")).text
            button = text.partition("data-folds>")[2].partition("</button>")[0]
            assert re.sub("[^0-9]", "", re.sub("<[^>]*>", "", button)) == count, query
            assert 'aria-controls="filters"' in text
