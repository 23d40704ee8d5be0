"""The page of a conversation."""

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from html import unescape
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request

from outlast.agents.saved_replies import SavedReply
from outlast.client.identity import person
from outlast.client.results.pending_waits import pending_waits
from outlast.client.timeline import Timeline
from outlast.loop.actions import SetAsideAction
from outlast.loop.approvals import ApprovalTerms
from outlast.loop.aside import Aside
from outlast.loop.events import PersonActed, RunForked
from outlast.loop.fork import Fork
from outlast.loop.machine import advance
from outlast.loop.start import Budget, Customer
from outlast.loop.state import LoopState
from outlast.loop.values import Usage
from outlast.serve.access import CASE_DEEDS, ROLES, Role, Staff
from outlast.serve.pages import conversation
from outlast.serve.pages.conversation import _follow, _screen
from outlast.serve.pages.conversation_view import Conversation, payloads
from outlast.serve.pages.conversation_view import conversation as view_of
from outlast.serve.pages.parts import SHOWN
from outlast.serve.routing import DeskRequest
from outlast.serve.sse import ServerSentEvent
from outlast.views.run import snapshot_of
from tests.laws.driver import (
    SITUATIONS,
    Play,
    gated,
    message,
    play_in,
    play_with_everything,
    said,
    tool,
    transfer,
)
from tests.unit.client.parked import parked_play
from tests.unit.loop.test_compaction import summarised, talk
from tests.unit.loop.test_fallback import fail, failure_of
from tests.unit.serve.hostile_pages import HOSTILE, active_content
from tests.unit.serve.played import SIGNING, PlayedRuns, browser_of, desk_of
from tests.unit.serve.scripted_source import RESTART, delta

PATH = "/conversations/run"


async def shown(play: Play, path: str = PATH, **fields: Any) -> str:
    """Return the page of a run."""
    app = desk_of(PlayedRuns({"run": play}), conversation.ROUTES, **fields)
    async with app.state.desk.feed, browser_of(app) as http:
        answer = await http.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text


async def whole(http: Any) -> str:
    """Return the page of a run, and all that its links to earlier entries add."""
    page = (await http.get(PATH)).text
    links = re.findall('hx-get="([^"]*/more-[^"]*)"', page)
    while links:
        part = (await http.get(unescape(links.pop()))).text
        links += re.findall('hx-get="([^"]*/more-[^"]*)"', part)
        page += part
    return page


def words(page: str) -> str:
    """Return a page without its tags."""
    return " ".join(unescape(re.sub("<[^>]*>", " ", page)).split())


@pytest.mark.parametrize("situation", SITUATIONS)
async def test_every_situation_has_a_page(situation: str) -> None:
    page = await shown(play_in(situation, keep_open=situation == "idle"))
    assert active_content(page) == []
    assert "Customer writes" in words(page)


async def test_a_run_with_everything_has_a_page() -> None:
    page = words(await shown(play_with_everything()))
    for title in ("takes the conversation over", "Triage asks Orders", "On the line: phone call"):
        assert title in page


async def test_a_fork_and_its_source_link_to_each_other() -> None:
    source = Play.ready()
    fork = RunForked(
        at_ms=source.state.at_ms,
        run_id="forked~<b>brief</b>",
        chain_id="c",
        fork=Fork(run_id="forked", event=3),
    )
    copy = Play.ready()
    copy.events.append(fork)
    app = desk_of(PlayedRuns({"forked": source, fork.run_id: copy}), conversation.ROUTES)
    async with app.state.desk.feed, browser_of(app) as http:
        of_source = (await http.get("/conversations/forked")).text
        link = "/conversations/forked~%3Cb%3Ebrief%3C%2Fb%3E"
        assert f'Forks: <a href="{link}">' in of_source
        of_fork = (await http.get(link)).text
        assert '<a href="/conversations/forked">fork of forked after event 3</a>' in of_fork
        assert "<b>brief</b>" not in of_source + of_fork


async def test_a_run_that_does_not_exist_is_a_page_that_says_so() -> None:
    app = desk_of(PlayedRuns({}), conversation.ROUTES)
    async with app.state.desk.feed, browser_of(app) as http:
        answer = await http.get(PATH)
    assert answer.status_code == 404
    assert "There is no run" in unescape(answer.text)


# --- Hostile texts -------------------------------------------------------------------------------


def play_hostile(play: Play, text: str, number: int) -> None:
    """Let everybody write a text, and let everything be called by it."""
    name, call = (text[:200] if text.strip() else "x"), f"c{number}"
    play.hears(f"m{number}", text or "x")
    play.replies(
        said(text),
        tool(name, call, '{"a": "x"}'),
        gated(name, f"g{number}", reason=text, terms=ApprovalTerms(policy=name)),
        model=text,
    )
    play.returns(call, text)
    request = play.state.pending_approvals[0].id
    play.claimed(request, by=name)
    play.decided(request, "reject", by=name, message=text[:1_000])
    play.replies(said(text))
    if text.strip():
        play.holds(name)
        play.says(text, by=name)
        play.releases(name, note=text)


@pytest.mark.parametrize("first", range(0, len(HOSTILE), 12))
async def test_hostile_texts_do_nothing_wherever_they_come_from(first: int) -> None:
    texts = HOSTILE[first : first + 12]
    play = Play(keep_open=True, agent=texts[0][:200] or "x")
    play.prepared()
    play.replies(said("Hello."))
    for number, text in enumerate(texts):
        play_hostile(play, text, number)
    app = desk_of(PlayedRuns({"run": play}), conversation.ROUTES)
    async with app.state.desk.feed, browser_of(app) as http:
        page = await whole(http)
        assert active_content(page) == []
        addresses = re.findall('hx-get="([^"]*/steps/[0-9]+)"', page)
        assert len(addresses) >= 2 * len(texts)
        for address in addresses:
            assert active_content((await http.get(address)).text) == []


async def test_a_hostile_id_of_a_run_does_nothing() -> None:
    for text in HOSTILE[:40]:
        app = desk_of(PlayedRuns({}), conversation.ROUTES)
        escaped = "".join(f"%{byte:02X}" for byte in text.encode(errors="replace")[:300])
        async with app.state.desk.feed, browser_of(app) as http:
            answer = await http.get(f"/conversations/{escaped}")
        assert answer.status_code == 404
        assert active_content(answer.text) == []


# --- Long conversations --------------------------------------------------------------------------


def long_play(count: int) -> Play:
    """Return a run with so many questions and as many answers."""
    play = Play(said=message("m0", "Question 0"), keep_open=True)
    play.prepared()
    play.replies(said("Answer 0"))
    for number in range(1, count):
        play.hears(f"m{number}", f"Question {number}")
        play.replies(said(f"Answer {number}"))
    return play


def told(page: str) -> list[str]:
    """Return the messages that a page or a part of it has, in order."""
    return re.findall(r"(?:Question|Answer) \d+(?=</)", page.partition('class="run-side"')[0])


WHOLE = [f"{who} {number}" for number in range(120) for who in ("Question", "Answer")]


async def test_a_long_conversation_shows_its_newest_messages_and_earlier_ones_on_demand() -> None:
    app = desk_of(PlayedRuns({"run": long_play(120)}), conversation.ROUTES)
    async with app.state.desk.feed, browser_of(app) as http:
        part = (await http.get(PATH)).text
        found = told(part)
        assert found == WHOLE[-SHOWN:]
        while links := re.findall('hx-get="([^"]*/more-messages[^"]*)"', part):
            [address] = links
            part = (await http.get(unescape(address))).text
            assert len(told(part)) <= SHOWN
            found = told(part) + found
    assert found == WHOLE


async def test_earlier_messages_and_steps_come_by_plain_links() -> None:
    app = desk_of(PlayedRuns({"run": long_play(120)}), conversation.ROUTES)
    async with app.state.desk.feed, browser_of(app) as http:
        for noun in ("message", "step"):
            page, seen = (await http.get(PATH)).text, set[str]()
            for _ in range(30):
                seen |= set(
                    re.findall(f'id="{"m-i" if noun == "message" else "step-"}(\\d+)"', page)
                )
                links = re.findall(rf'href="([^"]*\?{noun}=\d+)"[^>]*>[0-9,]+ earlier', page)
                if not links:
                    break
                page = (await http.get(unescape(links[0]))).text
                assert active_content(page) == []
            assert "between" in page
            numbers = sorted(map(int, seen))
            assert numbers == list(range(numbers[-1] + 1))
            assert numbers[-1] >= 239


async def test_an_address_of_a_step_shows_the_part_that_has_it() -> None:
    app = desk_of(PlayedRuns({"run": long_play(120)}), conversation.ROUTES)
    async with app.state.desk.feed, browser_of(app) as http:
        page = (await http.get(f"{PATH}?step=100")).text
        assert 'id="step-100"' in page
        assert page.count('<li id="step-') == 2 * SHOWN
        assert "earlier steps" in page
        assert "steps between" in page
        for odd in (
            "?step=-1",
            "?step=x",
            "?step=999999999",
            "?message=1e3&step=",
            "?step=" + "9" * 99,
        ):
            answer = await http.get(PATH + odd)
            assert (answer.status_code, answer.text.count('<li id="step-')) == (200, SHOWN)
        for odd in ("", "?after=9&before=3", "?before=99999999", "?after=x&before=-1"):
            for side in ("more-messages", "more-steps"):
                answer = await http.get(f"{PATH}/{side}{odd}")
                assert answer.status_code == 200
                assert answer.text.count("<li") <= SHOWN + 1


async def test_a_step_that_may_still_change_is_among_the_newest() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("Hello."))
    play.holds("ann")
    for number in range(2 * SHOWN):
        play.says(f"Word {number}", by="ann")
    page = await shown(play)
    assert 'is-takeover was-running"' in page
    assert page.count('<li id="step-') > SHOWN


# --- What who sees -------------------------------------------------------------------------------


async def test_payloads_come_on_demand_and_for_some_only() -> None:
    play = Play.ready()
    play.replies(tool("look_up", "c1", '{"order": "A-17"}'))
    play.returns("c1", "out of stock")
    page = await shown(play)
    assert "A-17" not in page
    assert "out of stock" not in page
    at = re.search(r'hx-get="(/conversations/run/steps/\d+)"[^>]*>\s*<summary[^>]*>(?:(?!</summary>).)*title">look_up<', page, re.DOTALL)  # fmt: skip
    assert at is not None
    payload = words(await shown(play, at[1]))
    assert '{"order": "A-17"}' in payload
    assert "out of stock" in payload
    viewer = await shown(play, roles=["viewer"])
    assert "hx-get" not in viewer.partition("<main")[2]
    app = desk_of(PlayedRuns({"run": play}), conversation.ROUTES, roles=["viewer"])
    async with app.state.desk.feed, browser_of(app) as http:
        refused = await http.get(at[1], headers={"HX-Request": "true"})
        assert refused.status_code == 403
        assert "A-17" not in refused.text
        assert (await http.get(f"{PATH}/steps/99999999999")).status_code == 403


async def test_an_answer_that_a_limit_cut_off_says_so() -> None:
    play = Play.ready()
    raw, _ = said("Half a sen")
    play.replies(({**raw, "status": "incomplete"}, None))
    [*_, at] = re.findall(r'hx-get="(/conversations/run/steps/\d+)"', await shown(play))
    assert "Words, cut off by a limit of tokens Half a sen" in words(await shown(play, at))


async def test_a_model_that_did_not_answer_is_a_step_and_the_next_one_says_why() -> None:
    play = Play.ready(keep_open=True)
    hostile = f"first {HOSTILE[0]}"
    fail(play, failure_of(tried=hostile))
    play.replies(said("Here."), model="second")
    page = await shown(play)
    assert active_content(page) == []
    assert "is-model was-failed" in page
    assert "The model provider is too busy." in words(page)
    assert "In place of first" in words(page)
    assert "overloaded" in words(page)


async def test_a_summary_is_a_step_whose_text_is_for_some_only() -> None:
    play = talk()
    used = Usage(
        requests=1, total_tokens=7, input_tokens=4, output_tokens=3, cost_micros=35, priced=1
    )
    summarised(play, items=({"role": "user", "content": HOSTILE[0]},), usage=used, model="gpt-5")
    count = play.state.compaction.made[0].entries
    page = await shown(play)
    assert f"Triage summarises {count} items" in words(page)
    assert "gpt-5 7 tokens $0.000035" in words(page)
    assert active_content(page) == []
    at = re.findall(r'class="did is-summary.*?hx-get="([^"]*)"', page, re.DOTALL)
    payload = await shown(play, at[-1])
    assert active_content(payload) == []
    assert "What the model reads instead" in payload
    viewer = await shown(play, roles=["viewer"])
    assert f"Triage summarises {count} items" in words(viewer)
    assert "is-summary was-done" in viewer
    assert "hx-get" not in viewer.partition("is-summary")[2].partition("</li>")[0]


async def test_the_team_sees_what_each_agent_and_model_cost() -> None:
    play = Play.ready(keep_open=True)
    paid = Usage(requests=1, total_tokens=10, cost_micros=1_200, priced=1)
    play.replies(transfer("Billing", "h1"), usage=paid, model="gpt-5")
    play.replies(said("Paid."), usage=replace(paid, cost_micros=34), model="gpt-5-mini")
    page = words(await shown(play))
    assert "Cost $0.001234" in page
    assert "Cost by agent: Triage $0.0012, Billing $0.000034" in page
    assert "Cost by model: gpt-5 $0.0012, gpt-5-mini $0.000034" in page
    play.hears("m2", "And now?")
    play.replies(said("Done."), usage=Usage(requests=1, total_tokens=5), model="<b>mine</b>\x1b[2J")
    page = await shown(play)
    assert "at least $0.001234" in words(page)
    assert "<b>mine" not in page
    assert "price unknown for model" in words(page)
    assert active_content(page) == []


async def test_what_a_policy_hides_is_hidden_everywhere() -> None:
    secret = "DE89370400440532013000"
    play = Play.ready(keep_open=True)
    play.hears("m1", f"My account is {secret}.")
    hides = ApprovalTerms(redact=("iban",))
    play.replies(gated("pay", "c1", f'{{"iban": "{secret}"}}', terms=hides))
    play.decided("a1", by="ann", message=f"to {secret}")
    play.returns("c1", f"paid to {secret}")
    play.replies(said(f"Paid to {secret}."), compaction="beside")
    summarised(play, items=({"role": "user", "content": f"Paid to {secret}."},))
    app = desk_of(PlayedRuns({"run": play}), conversation.ROUTES)
    async with app.state.desk.feed, browser_of(app) as http:
        page = (await http.get(PATH)).text
        assert secret not in page
        assert "[redacted]" in page
        for number in range(len(re.findall('id="step-', page))):
            assert secret not in (await http.get(f"{PATH}/steps/{number}")).text


async def test_buttons_that_cannot_be_used_say_why() -> None:
    held = play_in("idle", keep_open=True)
    held.holds("bob")
    page = await shown(held)
    assert "bob has the conversation." in words(page)
    assert 'name="force" value="yes"' in page
    free = words(await shown(play_in("idle", keep_open=True)))
    assert "Take the conversation over to write." in free
    viewer = await shown(play_in("idle", keep_open=True), roles=["viewer"])
    assert "You cannot take a conversation over: that needs the role operator." in unescape(viewer)
    assert "/hold" not in viewer


async def test_who_has_the_conversation_writes_and_gives_back() -> None:
    play = play_in("idle", keep_open=True)
    play.holds("ann")
    page = await shown(play)
    assert "you have it" in words(page)
    assert "You write for the team." in words(page)
    assert '<option value="Triage">' in page


async def test_a_budget_can_be_extended_where_it_waits() -> None:
    budget = Budget(of="model_calls", limit=1, terms=ApprovalTerms())
    play = Play.ready(budgets=(budget,))
    play.replies(tool("look_up", "c1"))
    play.returns("c1")
    page = await shown(play)
    assert "Extend by 1 model calls" in words(page)
    assert "Extend by another amount" in words(page)
    assert re.search('name="digest" value="[^"]+"', page) is not None
    # Its forms are there once; what waits beside it is in a region where nobody writes.
    assert page.count("Extend by 1 model calls") == 1
    assert "<input id=" not in page.partition('id="waits"')[2].partition('id="steps"')[0]
    assert "per run used" in words(page)
    refused = await shown(play, roles=["viewer"])
    assert 'action="/conversations/run/extend"' not in refused
    assert "You cannot extend a budget" in unescape(refused)


async def test_what_a_tool_waits_for_can_be_delivered_by_operators() -> None:
    play = parked_play(name=HOSTILE[0][:100], schema={"type": ["string", "array"]})
    page = await shown(play)
    assert active_content(page) == []
    assert 'action="/conversations/run/finish"' in page
    [wait] = pending_waits(play.state)
    assert f'name="token" value="{wait.token}"' in page
    assert "What fits" in page
    assert "waits for an event" in page
    refused = await shown(play, roles=["viewer", "decider"])
    assert wait.token not in refused
    assert "You cannot deliver what a tool waits for" in unescape(refused)
    play.delivers(name=wait.name)
    assert "Delivered by courier.example." in words(await shown(play))
    assert 'name="token"' not in await shown(play)


COURIER: Any = {
    "type": "object",
    "properties": {
        "weight": {"type": "number", "title": HOSTILE[0]},
        "broken": {"type": "boolean"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["weight", "broken", "note"],
}


async def test_a_value_with_a_schema_is_entered_in_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    play = parked_play(schema=COURIER)
    page = await shown(play)
    assert active_content(page) == []
    assert "as JSON" not in page
    assert 'name="wait-1.0"' in page
    [wait] = pending_waits(play.state)
    made: list[Any] = []

    async def deliver(_asked: Any, token: str, value: Any) -> Any:
        made.append((token, value))
        return SimpleNamespace(at=1, name="courier")

    async def state() -> Any:
        return snapshot_of(play.state)

    monkeypatch.setattr(conversation, "deliver", deliver)
    monkeypatch.setattr(DeskRequest, "handle", SimpleNamespace(state=state, id="run"))
    app = desk_of(PlayedRuns({"run": play}), conversation.ROUTES)
    own = {"Origin": "http://localhost:8090", "HX-Request": "true"}
    form = {"token": wait.token, "fields": "wait-1", "wait-1.0": "2.5", "wait-1.1": "true"}
    form |= {"wait-1.2.nothing": "on"}
    async with app.state.desk.feed, browser_of(app) as http:
        sent = await http.post(f"{PATH}/finish", headers=own, data=form)
        assert "Delivered courier" in sent.text
        for wrong, why in (
            ({"wait-1.0": "heavy"}, "Enter a number"),
            ({"wait-1.0": ""}, "weight is missing"),
            ({"token": "none"}, "does not wait any more"),
            ({"fields": "__class__"}, "weight is missing"),
        ):
            refused = await http.post(f"{PATH}/finish", headers=own, data=form | wrong)
            assert (refused.status_code, why in refused.text) == (400, True), (wrong, refused.text)
    assert made == [(wait.token, {"weight": 2.5, "broken": True, "note": None})]


DEEDS = (
    *("hold", "say", "release", "cancel", "retry", "extend", "finish"),
    *("set-aside", "take-back", *CASE_DEEDS),
)


async def test_deeds_need_the_role_and_a_page_of_this_desk() -> None:
    play = play_in("idle", keep_open=True)
    app = desk_of(PlayedRuns({"run": play}), conversation.ROUTES, roles=["viewer"])
    async with app.state.desk.feed, browser_of(app) as http:
        for deed in DEEDS:
            own = {"Origin": "http://localhost:8090", "HX-Request": "true"}
            refused = await http.post(f"{PATH}/{deed}", headers=own)
            assert refused.status_code == 403
            assert 'class="refusal"' in refused.text
            foreign = await http.post(f"{PATH}/{deed}", headers={"Origin": "http://evil.example"})
            assert foreign.status_code == 403


async def test_forms_are_checked_before_the_run_is_asked() -> None:
    play = play_in("idle", keep_open=True)
    app = desk_of(PlayedRuns({"run": play}), conversation.ROUTES)
    own = {"Origin": "http://localhost:8090", "HX-Request": "true"}
    wrong = {
        "say": [{"text": " \n"}, {"text": "x" * 20_001}],
        "release": [{"note": "x" * 20_001}],
        "set-aside": [{"item": ""}, {"item": "-1"}, {"item": "9" * 30}, {"item": "0", "part": "x"}],
        "take-back": [{"part": "1"}, {"item": "0x1"}, {"item": "٣"}, {"item": "0", "part": "-1"}],
        "comment": [{"text": " \n"}, {"text": "x" * 10_001}],
        "resolve": [{"why": "x" * 10_001}],
        "snooze": [{"until": ""}, {"until": "soon"}, {"at": "yesterday"}, {"instant": "9" * 40}],
        "cancel": [{"mode": ""}, {"mode": "never"}],
        "finish": [{"value": " "}, {"value": "{"}, {"value": "1", "token": "none"}],
    }
    async with app.state.desk.feed, browser_of(app) as http:
        for deed, forms in wrong.items():
            for form in forms:
                refused = await http.post(f"{PATH}/{deed}", headers=own, data=form)
                assert refused.status_code == 400, deed
                assert 'role="alert"' in refused.text


# --- What the model does not read -----------------------------------------------------------------

PHOTO = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
PAPER = {"type": "input_file", "file_data": "data:;base64,AA==", "filename": HOSTILE[0]}
TEXT = {"type": "input_text", "text": "Look"}


def play_left_out(*aside: Aside) -> Play:
    """A conversation with a photo and a file, a call with its output, and an instruction."""
    play = Play.ready(keep_open=True)
    content = [TEXT, PHOTO, PAPER]
    play.replies(said("Hello."), tool("look_up", "c1"))
    play.returns("c1", "Found.")
    play.replies(said("It is a cup."))
    items = list(play.state.items)
    items[0] = replace(items[0], raw={"role": "user", "content": content})
    play.state = replace(play.state, items=tuple(items), aside=aside)
    return play


async def test_whoever_may_take_over_leaves_out_what_the_model_may_do_without() -> None:
    refused = Aside(item=0, part=1, reason=HOSTILE[0])
    view = seen_of(play_left_out(refused, Aside(item=3, by="<b>bob</b>")))
    [asked, *answers] = view.bubbles(0)
    assert [(one.part, bool(one.mark), one.may_change) for one in asked.leavable] == [
        (1, True, True),
        (2, False, True),
        (None, False, True),
    ]
    assert [one.what for one in asked.leavable] == ["an image", HOSTILE[0], ""]
    assert asked.leavable[0].mark == f"The model provider refused it: {HOSTILE[0]}"
    assert [[one.mark for one in bubble.leavable] for bubble in answers] == [[""], [""]]
    [call] = [step for step in view.steps if step.kind == "tool"]
    assert [one.mark for one in view.left_out(call)] == ["<b>bob</b> set it aside."]
    first, second = payloads(view, call)
    assert [one.may_change for one in first.leavable] == [True], "the arguments of a call"
    assert [one.mark for one in second.leavable] == ["<b>bob</b> set it aside."]


@pytest.mark.parametrize(
    ("roles", "reason"), [(["viewer"], False), (["decider"], True), (["viewer", "decider"], True)]
)
async def test_others_see_the_mark_and_have_no_button(roles: list[Role], reason: bool) -> None:
    view = seen_of(play_left_out(Aside(item=0, part=1, reason="Flagged.")), roles)
    marks = [one.mark for bubble in view.bubbles(0) for one in bubble.leavable if one.mark]
    assert marks == [f"The model provider refused it{': Flagged.' if reason else '.'}"]
    assert not any(one.may_change for bubble in view.bubbles(0) for one in bubble.leavable)


async def test_in_a_run_that_has_ended_the_marks_stay() -> None:
    play = play_left_out(Aside(item=0, reason="Flagged."))
    play.state = replace(play.state, phase="closed", outcome="completed")
    view = seen_of(play)
    leavable = [one for bubble in view.bubbles(0) for one in bubble.leavable]
    assert [one.mark for one in leavable if one.mark] == ["The model provider refused it: Flagged."]
    assert not any(one.may_change for one in leavable)


def seen_of(play: Play, roles: Sequence[Role] = ROLES) -> Conversation:
    steps, state = Timeline(), LoopState()
    for event in play.events:
        state, _ = advance(state, event)
        steps.take(event, state)
    caller = Staff(person("ann"), frozenset(roles))
    return view_of(snapshot_of(play.state), steps.steps, caller, SIGNING, at_ms=play.now_ms)


@pytest.mark.parametrize("reason", HOSTILE)
async def test_a_reason_is_inert_and_live(reason: str) -> None:
    play = play_in("idle", keep_open=True)
    runs = PlayedRuns({"run": play})
    app = desk_of(runs, conversation.ROUTES)
    async with app.state.desk.feed, browser_of(app) as http:
        before = (await http.get(PATH)).text
        assert before.count('action="/conversations/run/set-aside"') == 2
        assert 'class="badge is-wait">Left out' not in before
    action = SetAsideAction(by="ann", item=0, reason=reason)
    play.take(PersonActed(at_ms=play.now_ms, action=action))
    page = await shown(play)
    assert active_content(page) == []
    assert page.count('class="badge is-wait">Left out for the model') == 1
    assert "ann set it aside" in words(page)
    assert page.count('action="/conversations/run/take-back"') == 1


# --- The live stream -----------------------------------------------------------------------------


class _Browser:
    """What htmx makes of the stream: regions, steps and the text in progress."""

    def __init__(self) -> None:
        self.regions: dict[str, str] = {}
        self.draft = ""
        self.sent = ""
        self.updates = 0
        self.has_ended = False

    def take(self, event: ServerSentEvent) -> None:
        self.sent += event.encoded().decode()
        match event.event:
            case "text":
                self.draft += unescape(event.data)
            case "update":
                self.updates += 1
                for part in re.split(r"(?m)^(?=<\w+ [^>]*hx-swap-oob=)", event.data):
                    found = re.match(
                        r'<(?:div|ol)(?: id="([a-z-]+)")? hx-swap-oob="(innerHTML|beforeend:#([a-z]+))">',
                        part,
                    )
                    if found is not None:
                        name = found[1] or found[3]
                        before = "" if found[1] else self.regions.get(name, "")
                        content = re.sub("</(div|ol)>$", "", part[found.end() :].rstrip())
                        self.regions[name] = before + content
                self.draft = unescape(self.regions.pop("draft-text", self.draft))
            case "end":
                self.has_ended = True
            case _:
                pass

    def said(self, name: str) -> str:
        return words(self.regions.get(name, ""))


@asynccontextmanager
async def following(
    runs: PlayedRuns, query: str = "", **fields: Any
) -> AsyncGenerator[tuple[_Browser, Any]]:
    """Follow a run as a browser does; the second value waits until nothing more comes."""
    app = desk_of(runs, conversation.ROUTES, **fields)
    desk = app.state.desk
    async with desk.feed:
        headers = [(b"host", b"localhost:8090")]
        scope: dict[str, Any] = {"type": "http", "app": app, "path": PATH, "headers": headers}
        scope["query_string"] = query.encode()
        asked = DeskRequest(Request(scope), desk, desk.roles.staff(person("ann")), "run")
        browser = _Browser()
        async with aclosing(_follow(asked, _screen(asked, SIGNING))) as events:

            async def take() -> None:
                async for event in events:
                    browser.take(event)

            task = asyncio.create_task(take())

            async def settled() -> None:
                for _ in range(30):
                    await asyncio.sleep(0)

            try:
                yield browser, settled
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


async def test_a_new_message_is_sent_alone() -> None:
    play = long_play(60)
    runs = PlayedRuns({"run": play})
    async with following(runs) as (browser, settled):
        await settled()
        assert browser.regions["talk"].count("<li ") == SHOWN
        before = len(browser.sent)
        play.hears("new", "One more.")
        runs.tell()
        await settled()
        assert browser.regions["talk"].count("<li ") == SHOWN + 1
        assert browser.said("talk").endswith("One more. Leave out for the model")
        assert len(browser.sent) - before < 3_500


async def test_a_stream_that_comes_back_begins_where_its_page_does() -> None:
    play = long_play(60)
    runs = PlayedRuns({"run": play})
    async with following(runs, query="messages=40&steps=30") as (browser, settled):
        await settled()
        assert browser.regions["talk"].count("<li ") == 120 - 40
        assert browser.said("talk").startswith("Customer 1970-01-01 00:17 UTC Question 20")
        assert 'id="step-30"' in browser.regions["steps"]
        assert 'id="step-29"' not in browser.regions["steps"]


async def test_the_text_in_progress_is_appended_and_ends_with_its_message() -> None:
    play = Play.ready(keep_open=True)
    texts: list[Any] = [delta("Hel")]
    runs = PlayedRuns({"run": play}, {"run": texts})
    async with following(runs) as (browser, settled):
        await settled()
        assert browser.draft == "Hel"
        before = browser.updates
        texts.append(delta("lo <b>"))
        runs.tell()
        await settled()
        assert (browser.draft, browser.updates) == ("Hello <b>", before)
        play.replies(said("Hello <b>"))
        runs.tell()
        await settled()
        assert browser.draft == ""
        assert browser.said("talk").count("Hello") == 2  # the customer's, and the answer


async def test_a_text_that_starts_over_is_replaced() -> None:
    texts: list[Any] = [delta("One"), RESTART, delta("Two")]
    runs = PlayedRuns({"run": Play.ready()}, {"run": texts})
    async with following(runs) as (browser, settled):
        await settled()
        assert browser.draft == "Two"
        texts.append(RESTART)
        runs.tell()
        await settled()
        assert browser.draft == ""


async def test_every_connection_begins_with_everything() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("Hello to you."))
    play.hears("m1", "And now?")
    runs = PlayedRuns({"run": play}, {"run": [delta("Let me")]})
    for _ in range(2):
        async with following(runs) as (browser, settled):
            await settled()
            assert browser.draft == "Let me"
            assert browser.said("talk").count("Hello to you.") == 1
            assert "And now?" in browser.said("talk") + browser.said("tail")


async def test_what_a_customer_writes_to_a_busy_run_is_shown_though_no_event_tells_of_it() -> None:
    play = play_in("running")
    runs = PlayedRuns({"run": play})
    async with following(runs) as (browser, settled):
        await settled()
        play.hears("m1", "Are you still there?")
        runs.tell()
        await settled()
        assert "Are you still there?" in browser.said("tail")


async def test_only_what_has_changed_is_sent() -> None:
    play = play_in("idle", keep_open=True)
    runs = PlayedRuns({"run": play})
    async with following(runs) as (browser, settled):
        await settled()
        browser.regions.clear()
        play.holds("bob")
        runs.tell()
        await settled()
        assert "talk" not in browser.regions
        assert "bob has it" in browser.said("head")
        assert "bob has the conversation." in browser.said("say-act")


async def test_a_value_that_a_policy_hides_does_not_show_while_it_is_written() -> None:
    secret = "DE89370400440532013000"
    play = Play.ready(keep_open=True)
    hides = ApprovalTerms(redact=("iban",))
    play.replies(gated("pay", "c1", f'{{"iban": "{secret}"}}', terms=hides))
    play.decided("a1", by="ann")
    play.returns("c1", "paid")
    texts: list[Any] = []
    runs = PlayedRuns({"run": play}, {"run": texts})
    async with following(runs) as (browser, settled):
        for piece in ("Paid to ", secret[:7], secret[7:], ", done."):
            texts.append(delta(piece))
            runs.tell()
            await settled()
            assert secret[:7] not in browser.draft
        # The end is kept back: it may be the beginning of E89370, a part of the value.
        assert browser.draft == "Paid to [redacted], don"


async def test_the_end_of_a_run_ends_the_stream() -> None:
    play = play_in("running")
    runs = PlayedRuns({"run": play})
    async with following(runs) as (browser, settled):
        await settled()
        play.cancelled()
        runs.tell()
        await settled()
        assert browser.has_ended
        assert "cancelled" in browser.said("head")


async def test_hostile_text_in_progress_does_nothing() -> None:
    texts: list[Any] = [delta(text[:5_000]) for text in HOSTILE]
    runs = PlayedRuns({"run": Play.ready()}, {"run": texts})
    async with following(runs) as (browser, settled):
        await settled()
        assert "alert(1)" in browser.draft
        assert active_content(browser.sent) == []


# --- Saved replies, and drafts of the agent --------------------------------------------------------


async def test_saved_replies_have_the_name_of_the_customer_and_are_text() -> None:
    for name in HOSTILE:
        play = Play.ready(customer=Customer("c-1", name=name[:400]))
        play.holds("ann")
        replies = (SavedReply("a", "Dear {customer},", title=name[:80]),)
        page = await shown(play, replies=replies)
        assert active_content(page) == [], name[:80]
        assert page.count("data-text=") == 1
    assert 'id="replies"' not in await shown(Play.ready())


async def test_a_draft_is_for_who_has_the_conversation(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    async def suggest(client: Any, run_id: str, *, by: Any) -> str:
        asked.append((run_id, by.subject))
        return "It ships <b>today</b>."

    monkeypatch.setattr(conversation, "suggest_reply", suggest)
    play = Play.ready()
    app = desk_of(PlayedRuns({"run": play}), conversation.ROUTES)
    own = {"Origin": "http://localhost:8090"}
    form: Any = {"data": {"text": ""}, "headers": own | {"HX-Request": "true"}}
    async with app.state.desk.feed, browser_of(app) as http:
        refused = await http.post(f"{PATH}/suggest", **form)
        assert refused.status_code == 400
        assert "Take the conversation over first." in refused.text
    assert asked == []
    play.holds("ann")
    app = desk_of(PlayedRuns({"run": play}), conversation.ROUTES)
    async with app.state.desk.feed, browser_of(app) as http:
        draft = (await http.post(f"{PATH}/suggest", **form)).text
        assert 'data-text="It ships &lt;b&gt;today&lt;/b&gt;."' in draft
        whole_page = (await http.post(f"{PATH}/suggest", data={"text": ""}, headers=own)).text
        assert ">It ships &lt;b&gt;today&lt;/b&gt;.</textarea>" in whole_page
    assert asked == [("run", "ann")] * 2
    app = desk_of(PlayedRuns({"run": play}), conversation.ROUTES, roles=["viewer"])
    async with app.state.desk.feed, browser_of(app) as http:
        assert (await http.post(f"{PATH}/suggest", **form)).status_code == 403
