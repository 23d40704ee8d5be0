"""What colleagues share, at the page of a conversation and in the lists."""

import re
from dataclasses import replace
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from starlette.requests import Request

from outlast.client.identity import person
from outlast.loop.case import Case, Comment
from outlast.loop.start import Customer
from outlast.loop.state import Hold
from outlast.loop.values import Failure
from outlast.serve.access import Staff
from outlast.serve.pages import case, conversation, conversations
from outlast.serve.pages.conversation_view import run_badge
from outlast.serve.pages.filters import mentioning
from outlast.serve.pages.page import Form
from outlast.serve.routing import DeskRequest
from outlast.serve.team_api import TEAMS
from tests.laws.driver import play_in, said
from tests.unit.serve.hostile_pages import HOSTILE, active_content
from tests.unit.serve.played import PlayedRuns, Shared, browser_of, desk_of
from tests.unit.serve.test_case_feed import RUNS, run
from tests.unit.serve.test_conversation import Play, message, seen_of, shown, words
from tests.unit.serve.test_conversations import Server, shown_list


def shared(**fields: Any) -> Play:
    """Return a conversation at rest, whose case is this one."""
    play = play_in("idle", keep_open=True)
    play.state = replace(play.state, case=Case(**fields))
    return play


def case_html(view: Any, roles: Any = ()) -> str:
    """Return what the page shows of the case of a view."""
    asked = _asked(roles)
    return "".join(conversation._regions(asked, view, is_unjudged=False).values())


def _asked(roles: Any) -> Any:
    app = desk_of(PlayedRuns({}), conversation.ROUTES)
    scope: dict[str, Any] = {
        "type": "http",
        "path": "/",
        "headers": [],
        "query_string": b"",
        "app": app,
    }
    return DeskRequest(
        Request(scope), app.state.desk, Staff(person("ann"), frozenset(roles)), "run"
    )


@pytest.mark.parametrize("first", range(0, len(HOSTILE), 20))
def test_hostile_words_of_colleagues_do_nothing(first: int) -> None:
    for text in HOSTILE[first : first + 20]:
        comment = Comment(id=text[:90], by=text, text=f"@ann {text} @ann", at_ms=1)
        fields: dict[str, Any] = {"to": text, "team": text, "tags": (text,), "links": (text,)}
        view = seen_of(shared(comments=(comment,), **fields))
        html = case_html(view, ["operator"])
        html += "".join(str(mentioning(one.text, "ann")) for one in view.comments.values())
        assert active_content(html) == []
        assert 'class="mention is-me">@ann</b>' in html


def test_the_panel_says_whose_it_is_and_takes_tags_and_links_away() -> None:
    view = seen_of(shared(to="bob", team="billing", tags=("vip", "@ann"), links=("other run",)))
    html = case_html(view, ["operator"])
    seen = words(html)
    assert "bob of billing" in seen
    assert "mentions you" in seen
    assert 'href="/conversations/other%20run"' in html
    assert 'aria-label="Take the tag vip away"' in html
    assert 'name="me" value="yes"' in html


def test_whoever_may_not_take_over_reads_why_at_each_button() -> None:
    view = seen_of(shared(tags=("vip",)), ["viewer"])
    html = case_html(view)
    for deed in ("assign", "comment", "snooze", "tag", "link", "resolve"):
        at = re.search(rf'id="{deed}-button"[^>]*aria-disabled="true"', html)
        assert at is not None, deed
    assert "You cannot comment on a conversation: that needs the role operator." in words(html)
    assert "<form" not in html.partition('id="hold-button"')[2].partition("</dl>")[0]


def test_what_still_waits_is_not_resolved() -> None:
    html = case_html(seen_of(play_in("waiting")), ["operator"])
    assert "Something still waits for an answer, so you cannot resolve" in unescape(html)
    open_again = words(case_html(seen_of(shared(resolved_ms=1, resolved_by="bob")), ["operator"]))
    assert "Reopen" in open_again
    assert "by bob" in open_again
    assert "Bring back" in words(case_html(seen_of(shared(snoozed_until_ms=2)), ["operator"]))


async def test_the_customer_is_the_headline_and_a_comment_has_a_box_of_its_own() -> None:
    play = Play(
        said=message("m1", "Hello"),
        keep_open=True,
        customer=Customer(id="c-1", name=f"Anna {HOSTILE[0]}"),
    )
    play.prepared()
    play.replies(said("Hello."))
    page = await shown(play)
    assert active_content(page) == []
    head = page.partition("<h1")[2].partition("</h1>")[0]
    assert "Anna &lt;script&gt;" in head
    assert "The customer never sees it." in page
    assert 'hx-get="/conversations/run/earlier"' in page
    assert "customer=c-1" in page
    nobodys = await shown(play_in("idle", keep_open=True))
    assert "earlier" not in nobodys


def test_a_question_without_an_answer_is_said_to_be_unanswered() -> None:
    play = play_in("idle", keep_open=True)
    assert seen_of(play).badge.word == "waits for the customer"
    failure = Failure(code="max_turns", message="Too many turns.")
    play.state = replace(play.state, failure=failure)
    assert seen_of(play).badge.word == "unanswered"


def test_what_was_given_to_a_team_waits_for_it_and_anybody_takes_it() -> None:
    play = shared(team="billing")
    play.state = replace(play.state, hold=Hold(by="", at_ms=1), phase="held")
    view = seen_of(play)
    assert (view.badge.word, view.holder, view.problems["hold"]) == ("waits for its team", "", None)
    assert 'name="force"' not in case_html(view, ["operator"])
    taken = run("r", status="held", team="billing", waits_for="person: ann")
    assert run_badge(taken).word == "a person has it"
    assert run_badge(replace(taken, waits_for="person: ")).word == "waits for its team"


def test_a_time_is_that_of_a_field_of_a_browser_with_or_without_scripts() -> None:
    def end(**fields: str) -> Any:
        return case.time_of_form(Form([*fields.items()]))

    assert end(until="4h", at="2040-01-02T03:04").total_seconds() == 14_400
    assert end(until="", instant="2040-01-02T01:04:00.000Z", at="2040-01-02T03:04").hour == 1
    assert (
        end(until="", instant="", at="2040-01-02T03:04").isoformat() == "2040-01-02T03:04:00+00:00"
    )


# --- Lists ---------------------------------------------------------------------------------------


async def lists(monkeypatch: pytest.MonkeyPatch, path: str, *runs: Any, **fields: Any) -> str:
    Server(monkeypatch)
    shared_runs = Shared(*(runs or RUNS), counts={"snoozed": 3, "resolved": 4})
    answer = await shown_list(path, cases=shared_runs, **fields)
    assert answer.status_code == 200, answer.text
    return answer.text


async def test_a_list_of_the_navigation_has_its_count_and_keeps_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = await lists(monkeypatch, "/conversations?view=mine")
    nav = words(page.partition('id="views"')[2].partition("</nav>")[0])
    assert "Mine 1 My team's 2" in nav
    for one in ("Nobody's 6", "Needs attention 4", "Mentions me 1", "Snoozed 3", "Resolved 4"):
        assert one in nav
    assert re.findall(r'href="/conversations/([^"]*)"', page) == ["mine"]
    assert '<input type="hidden" name="view" value="mine">' in page
    assert 'hx-get="/conversations-list?view=mine"' in page
    choices = words(page.partition('name="team"')[2].partition("</select>")[0])
    assert "billing (2)" in choices


async def test_a_list_is_filtered_further_and_comes_in_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = await lists(monkeypatch, "/conversations?view=mentions&tag=vip&assignee=bob")
    assert re.findall(r'href="/conversations/([^"]*)"', page) == ["bobs"]
    many = [run(f"m{number:03}", assignee="ann") for number in range(120)]
    page = await lists(monkeypatch, "/conversations?view=mine", *many)
    for count in (50, 50, 20):
        assert len(re.findall(r'href="/conversations/m\d+"', page)) == count
        older = re.search(r'data-key="n" href="([^"]*)"', page)
        if older is not None:
            page = await lists(monkeypatch, unescape(older[1]), *many)
    assert older is None
    for odd in ("x", "-5", "99999999999", "MQ==" * 9):
        Server(monkeypatch)
        found = await shown_list(f"/conversations?view=mine&page={odd}", cases=Shared(*many))
        assert found.status_code in {200, 400}


async def test_a_list_that_is_known_whole_is_sorted_by_its_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = [
        replace(run(name, assignee="ann"), agent=agent, started=run(name).started + later)
        for name, agent, later in (
            ("b", "Zoe", timedelta()),
            ("a", "amy", timedelta(hours=2)),
            ("c", "Bob", timedelta(hours=1)),
        )
    ]

    async def order(sort: str) -> str:
        page = await lists(monkeypatch, f"/conversations?view=mine&sort={sort}", *many)
        assert f"sort={sort}" in page.partition('id="runs"')[2].partition(">")[0]  # live, too
        return "".join(re.findall(r'href="/conversations/([abc])"', page))

    assert [await order(one) for one in ("customer", "-customer")] == ["abc", "cba"]
    assert [await order(one) for one in ("agent", "-agent")] == ["acb", "bca"]
    assert [await order(one) for one in ("age", "-age")] == ["acb", "bca"]
    page = await lists(monkeypatch, "/conversations?view=mine&sort=age", *many)
    assert re.findall(r'aria-sort="(\w+)"', page) == ["none", "none", "none", "ascending"]
    assert "view=mine&amp;sort=-age" in page
    assert (await shown_list("/conversations?view=mine&sort=cost")).status_code == 200


async def test_a_list_of_the_server_has_the_order_of_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Server(monkeypatch, run("b"), run("a"))
    for path in ("/conversations?sort=customer", "/conversations?view=resolved&sort=customer"):
        page = (await shown_list(path)).text
        assert re.findall(r'href="/conversations/([ab])"', page) == ["b", "a"]
        assert "aria-sort" not in page


async def test_lists_of_what_was_put_off_are_searched_by_their_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server(monkeypatch, run("off", status="snoozed"))
    for view in ("snoozed", "resolved"):
        await shown_list(f"/conversations?view={view}&tag=vip")
        criteria, _ = server.asked[-1]
        assert (criteria.status, criteria.tag) == (view, "vip")
    assert (await shown_list("/conversations?view=everything")).status_code == 200


async def test_many_desks_ask_for_a_list_once(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch, RUNS[0])
    app = desk_of(PlayedRuns({}), conversations.ROUTES)
    async with browser_of(app) as http:
        for _ in range(10):
            await http.get("/conversations-list")
    assert len(server.asked) == 1


async def test_counts_are_sent_where_they_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = Shared(*RUNS, counts={"snoozed": 3})
    feed.recent.put(TEAMS, ())
    app = desk_of(PlayedRuns({}), conversations.ROUTES, cases=feed)
    async with browser_of(app) as http:
        part = (await http.get("/views?view=mine")).text
        assert "<html" not in part
        assert active_content(part) == []
        [seen] = re.findall('name="views" value="([^"]+)"', part)
        assert (await http.get(f"/views?view=mine&views={seen}")).status_code == 204
        feed.counts = {"snoozed": 9}
        assert (await http.get(f"/views?view=mine&views={seen}")).status_code == 200
        assert (await http.get("/views?views=%22%3E%3Cscript%3E")).status_code == 200
    assert feed.looked == 1


async def test_hostile_names_in_lists_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [
        run(f"r{at}", assignee=text, team=text, tags=(text, "@ann"), customer=text)
        for at, text in enumerate(HOSTILE)
    ]
    page = await lists(monkeypatch, "/conversations?view=mentions", *runs)
    assert active_content(page) == []
    server = Server(monkeypatch)
    for text in HOSTILE[:30]:
        sent = text[:300].encode(errors="replace").decode()
        query = {"assignee": sent, "team": sent, "tag": sent, "customer": sent, "view": sent}
        app = desk_of(PlayedRuns({}), conversations.ROUTES, cases=Shared(*runs))
        async with browser_of(app) as http:
            answer = await http.get("/conversations", params=query)
        assert answer.status_code == 200
        assert active_content(answer.text) == []
    assert server.asked


async def test_a_viewer_sees_lists_and_nobody_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Mine" in await lists(monkeypatch, "/conversations", roles=["viewer"])
    Server(monkeypatch)
    for path in ("/views", "/conversations"):
        assert (await shown_list(path, roles=[])).status_code == 403
