"""The page of a request: what it shows, and what its forms do."""

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from outlast.loop.approvals import (
    ALL_DECISIONS,
    Audience,
    Claim,
    Decision,
    Vote,
)
from outlast.loop.state import LoopState
from outlast.serve.access import Role
from tests.unit.serve.hostile_pages import HOSTILE, active_content
from tests.unit.serve.page_desk import (
    OWN,
    SCHEMA,
    Moments,
    app,
    asking,
    changed,
    client_of,
    run_of,
)
from tests.unit.serve.test_inbox_page import entry

PATH = "/conversations/r/requests/a1"


def _field(text: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', text)
    assert found is not None, name
    return found[1].replace("&#34;", '"').replace("&amp;", "&")


INBOX_AFTER = "/inbox?did=decided&after=r&of=a1"
"""Where a decision leads if nothing else waits: a receipt is there."""


def _digest(state: LoopState) -> str:
    return state.approvals[0].digest


async def _sent(state: LoopState, **fields: Any) -> tuple[Any, Any]:
    """Send a form; return the answer and the run."""
    desk = app({"r": state})
    data = {"digest": _digest(state), **fields}
    async with client_of(desk) as http:
        return await http.post(PATH, data=data, headers=OWN), run_of(desk)


@pytest.mark.parametrize("kind", ["tool", "handoff", "output", "budget", "worker", "of tomorrow"])
async def test_every_kind_of_request_is_shown(kind: Any) -> None:
    state = changed(asking(), kind=kind)
    async with client_of(app({"r": state})) as http:
        answer = await http.get(PATH)
    assert answer.status_code == 200
    if kind not in {"output", "budget"}:
        assert "refund" in answer.text
    assert "Approve" in answer.text or "Extend" in answer.text
    assert active_content(answer.text) == []


async def test_a_request_says_what_a_person_has_to_know() -> None:
    state = changed(
        asking(
            risk="high",
            quorum=2,
            audience=Audience(groups=("billing",)),
            expires_in_ms=3_600_000,
            on_expiry="fail",
            policy="refunds",
            redact=("iban",),
        ),
        reason="More than 3 euros.",
        handoff_path=("Triage", "Clerk"),
        claim=Claim(by="bob", until_ms=9_999_999_999_999),
    )
    async with client_of(app({"r": state})) as http:
        text = (await http.get(PATH)).text
    for one in (
        "high risk",
        "0 of 2",
        "the group billing",
        "then the question fails",
        "refunds",
        "More than 3 euros.",
        "Triage → Clerk",
        "Hidden from reviewers: iban",
        "bob works on it",
        "What the agent says about it",
        "The boss agreed.",
        "Nobody has checked it",
    ):
        assert one in text, one


async def test_hostile_texts_are_text_in_every_place() -> None:
    for text in HOSTILE:
        async with client_of(app({"r": _hostile(text)})) as http:
            answer = await http.get(PATH)
        assert answer.status_code == 200, text[:80]
        assert (text[:80], active_content(answer.text)) == (text[:80], [])


def _hostile(text: str) -> LoopState:
    """Return a run that has a text wherever somebody can write one."""
    state = asking(
        json.dumps({"x": text, text[:200]: text}),
        words=text.replace("\ud800", "?") or " ",
        audience=Audience(groups=(text, "billing"), subjects=(text,)),
        quorum=2,
        effect=text,
        policy=text,
        redact=(text,),
    )
    decision = Decision(request_id="a1", type="approve", by=text, message=text)
    schema: Any = {
        "properties": {
            "x": {"type": "string", "description": text},
            "y": {"enum": [text, 1]},
            text: {"items": {"type": "string", "title": text}, "type": "array"},
        }
    }
    return changed(
        state,
        name=text,
        agent=text,
        handoff_path=(text, text),
        reason=text,
        votes=(Vote(decision=decision, at_ms=1),),
        claim=Claim(by=text, until_ms=9_999_999_999_999),
        schema=schema,
    )


@pytest.mark.parametrize(("roles", "shows"), [(("viewer",), False), (("viewer", "decider"), True)])
async def test_who_only_watches_sees_no_arguments_and_no_forms(
    roles: tuple[Role, ...], *, shows: bool
) -> None:
    async with client_of(app({"r": asking()}, roles=roles)) as http:
        text = (await http.get(PATH)).text
        refused = await http.post(PATH, data={"deed": "approve"}, headers=OWN)
    assert ("DE42" in text) == ("What the agent says" in text) == shows
    assert ("needs the role decider" in text) != shows
    assert (refused.status_code, "needs the role" in refused.text) == (
        409 if shows else 403,
        not shows,
    )


async def test_a_decision_is_sent_with_what_was_seen() -> None:
    state = asking()
    answer, run = await _sent(state, deed="approve")
    assert (answer.status_code, answer.headers["Location"]) == (303, INBOX_AFTER)
    (made,) = run.made
    assert (made.type, made.by, made.groups, made.channel) == (
        "approve",
        "ann",
        ("billing",),
        "desk",
    )
    assert made.seen == state.approvals[0].seen
    assert not made.remember


async def test_what_differs_from_what_was_seen_is_not_decided() -> None:
    for digest in ("", "0" * 64):
        answer, run = await _sent(asking(), deed="approve", digest=digest)
        assert (answer.status_code, run.made) == (409, [])
        assert "is no longer what you have seen" in answer.text
        assert 'value="approve"' in answer.text  # the present state can be decided


async def test_a_refusal_of_the_run_stands_beside_the_button_with_what_was_written() -> None:
    state = asking()
    desk = app({"r": state})
    run_of(desk).refused = "Approval a1 is already approved by bob."
    data = {"deed": "reject", "digest": _digest(state), "message": "Too <b>much</b>"}
    async with client_of(desk) as http:
        answer = await http.post(PATH, data=data, headers=OWN)
    assert answer.status_code == 409
    assert "already approved by bob" in answer.text
    assert "Too &lt;b&gt;much&lt;/b&gt;" in answer.text
    assert active_content(answer.text) == []


async def test_a_late_decision_shows_what_became_of_it() -> None:
    decision = Decision(request_id="a1", type="reject", by="bob")
    settled = changed(asking(), status="rejected", decision=decision, decided_at_ms=5)
    answer, run = await _sent(settled, deed="approve")
    assert (answer.status_code, run.made) == (403, [])
    assert "already rejected by bob" in answer.text
    assert "nothing left to decide" in answer.text
    assert "<form" not in answer.text.partition('id="request-forms"')[2].partition("</aside>")[0]


@pytest.mark.parametrize(
    ("remembered", "scope", "until"),
    [
        ("same-run", "tool_with_args", "run"),
        ("same-conversation", "tool_with_args", "conversation"),
        ("all-run", "tool", "run"),
        ("all-conversation", "tool", "conversation"),
    ],
)
async def test_a_decision_is_remembered_as_far_as_somebody_says(
    remembered: str, scope: str, until: str
) -> None:
    _, run = await _sent(asking(), deed="approve", remembered=remembered)
    (made,) = run.made
    assert (made.remember, made.remember_scope, made.remember_until) == (True, scope, until)


async def test_other_deeds_reach_the_run() -> None:
    for fields, made in (
        ({"deed": "ask_back", "question": "Which\r\norder?"}, ("ask_back", "Which\norder?")),
        ({"deed": "claim"}, ("claim", False)),
        ({"deed": "take"}, ("claim", True)),
        ({"deed": "unclaim"}, ("unclaim",)),
        ({"deed": "withdraw"}, ("withdraw",)),
    ):
        answer, run = await _sent(asking(), **fields)
        assert (answer.status_code, run.made) == (303, [made])
    for fields in ({"deed": "ask_back", "question": " "}, {"deed": "fly"}, {}):
        answer, run = await _sent(asking(), **fields)
        assert (answer.status_code, run.made) == (400, [])
    _, run = await _sent(asking(), deed="respond", step="send", text="It is \\u0041 fine")
    assert run.made[0].response == "It is A fine"


async def test_an_edit_is_shown_before_it_is_sent() -> None:
    state = changed(asking(), schema=SCHEMA)
    form = {"arguments.0": "DE42", "arguments.1": "4", "message": "Less"}
    answer, run = await _sent(state, deed="edit", **form)
    assert (answer.status_code, run.made) == (200, [])
    assert "<del>5</del>" in answer.text
    assert "<ins>4</ins>" in answer.text
    assert "DE42</del>" not in answer.text
    arguments = _field(answer.text, "arguments")
    sent, run = await _sent(state, deed="edit", step="send", arguments=arguments, message="Less")
    assert sent.status_code == 303
    assert run.made[0].edited_arguments == {"iban": "DE42", "amount": 4}
    assert run.made[0].message == "Less"


async def test_an_edit_that_does_not_fit_is_shown_with_why() -> None:
    state = changed(asking(), schema=SCHEMA)
    answer, _ = await _sent(state, deed="edit", **{"arguments.1": "many"})
    assert "Enter a whole number" in answer.text
    assert 'value="many"' in answer.text
    assert "Approve with these arguments" not in answer.text


async def test_an_answer_follows_its_schema() -> None:
    schema = {
        "type": "object",
        "properties": {"price": {"type": "number"}, "currency": {"enum": ["EUR", "USD"]}},
        "required": ["price"],
    }
    state = asking(response_schema=schema)
    answer, _ = await _sent(state, deed="respond", **{"answer.0": "12.5", "answer.1": "1"})
    response = _field(answer.text, "response")
    assert json.loads(response) == {"price": 12.5, "currency": "USD"}
    _, run = await _sent(state, deed="respond", step="send", response=response)
    assert run.made[0].response == {"price": 12.5, "currency": "USD"}
    lacking, _ = await _sent(state, deed="respond", **{"answer.1": "1"})
    assert "Send this answer" not in lacking.text
    assert 'role="alert"' in lacking.text


async def test_only_what_terms_allow_is_offered() -> None:
    for allowed in ALL_DECISIONS:
        state = changed(asking(allow=(allowed,)), schema=SCHEMA)
        async with client_of(app({"r": state})) as http:
            text = (await http.get(PATH)).text
        for one in ALL_DECISIONS:
            assert (f'name="deed" value="{one}"' in text) == (one == allowed), (one, allowed)


async def test_what_nobody_else_may_decide_says_why() -> None:
    state = asking(audience=Audience(groups=("leads",)))
    async with client_of(app({"r": state})) as http:
        text = (await http.get(PATH)).text
    assert "It is for the group leads." in text
    assert 'aria-disabled="true"' in text
    assert "start it with <code>--as NAME --groups leads</code>" in text  # a desk for one person


async def test_a_live_page_gets_what_has_changed_and_no_more() -> None:
    state = asking(quorum=2)
    vote = Vote(decision=Decision(request_id="a1", type="approve", by="bob"), at_ms=1)
    voted = changed(state, votes=(vote,))
    for with_version in (True, False):
        desk = app({"r": state}, feed=Moments(state, state, voted, voted))
        async with client_of(desk) as http:
            page = (await http.get(PATH)).text
            address = page.partition('sse-connect="')[2].partition('"')[0]
            events = await _events(http, address if with_version else f"{PATH}/live")
        begins = [] if with_version else ["status", "forms", "talk"]
        assert events == [*begins, "status", "forms", "ended"]
    async with client_of(app({"r": state})) as http:
        missing = await http.get("/conversations/r/requests/a9/live")
    assert missing.status_code == 404


async def _events(http: Any, address: str) -> list[str]:
    return re.findall("^event: (.*)$", (await http.get(address)).text, re.MULTILINE)


async def test_what_a_stream_sends_takes_the_place_of_its_region_only() -> None:
    async with client_of(app({"r": asking()}, entries=[entry()])) as http:
        for path in (PATH, "/inbox"):
            parser = _Regions()
            parser.feed((await http.get(path)).text)
            assert parser.regions
            assert parser.misplaced == [], path


class _Regions(HTMLParser):
    """Finds live regions that would pass what they get on to another place."""

    def __init__(self) -> None:
        super().__init__()
        self.regions = 0
        self.misplaced: list[str] = []
        self._open: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {name for name, _ in attrs}
        inherits = bool(names & {"hx-target", "hx-select", "hx-swap"}) or any(
            one for _, one in self._open
        )
        if "sse-swap" in names:
            self.regions += 1
            self.misplaced += [tag] if inherits else []
        if tag not in {"meta", "link", "input", "br", "hr", "img"}:
            self._open.append((tag, inherits))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass


async def test_a_link_of_an_earlier_request_says_so() -> None:
    state = asking()
    asked = state.approvals[0].requested_at_ms
    async with client_of(app({"r": state})) as http:
        now = await http.get(f"{PATH}?asked={asked}")
        earlier = await http.get(f"{PATH}?asked={asked - 1}")
    assert "earlier request" not in now.text
    assert "earlier request with the same id" in earlier.text


async def test_unknown_requests_and_runs_are_pages() -> None:
    async with client_of(app({"r": asking()})) as http:
        for path in ("/conversations/r/requests/a9", "/conversations/x/requests/a1"):
            for answer in (await http.get(path), await http.post(path, data={"a": 1}, headers=OWN)):
                assert answer.status_code == 404
                assert "<h1>Not found</h1>" in answer.text


async def test_forms_come_from_pages_of_the_desk() -> None:
    desk = app({"r": asking()})
    data = {"deed": "approve", "digest": _digest(asking())}
    async with client_of(desk) as http:
        for origin in ({}, {"Origin": "null"}, {"Origin": "https://evil.example"}):
            assert (await http.post(PATH, data=data, headers=origin)).status_code == 403
        files = await http.post(PATH, files={"deed": b"approve"}, headers=OWN)
        many = await http.post(PATH, data={f"a{at}": 1 for at in range(5_001)}, headers=OWN)
        assert (await http.get(PATH)).headers["Referrer-Policy"] == "same-origin"
    assert (files.status_code, many.status_code) == (415, 413)
    assert run_of(desk).made == []


# --- Budgets and claims --------------------------------------------------------------------------


def _budget(of: str, more: int) -> LoopState:
    arguments = {"of": of, "per": "run", "limit": more, "spent": more, "extend_by": more}
    schema: Any = {"type": "object", "properties": {"extend_by": {"type": "integer", "minimum": 1}}}
    state = asking(json.dumps(arguments), allow=("approve", "edit", "reject"))
    return changed(state, kind="budget", name="budget", schema=schema)


@pytest.mark.parametrize(
    ("of", "more", "shown", "entered", "counted"),
    [
        ("cost_micros", 500_000, ("Extend by $0.50", "US dollars", "0.50"), "$1.25", 1_250_000),
        ("tokens", 50_000, ("Extend by 50,000 tokens", "tokens", "50000"), "1,000", 1_000),
        ("seconds", 1_800, ("Extend by 30 minutes", "minutes", "30"), "1.5", 90),
        ("seconds", 45, ("Extend by 45 s", "seconds", "45"), "5", 5),
        ("model_calls", 3, ("Extend by 3 model calls", "model calls", "3"), "7", 7),
    ],
)
async def test_a_budget_is_extended_in_the_unit_that_people_think_in(
    of: str, more: int, shown: tuple[str, str, str], entered: str, counted: int
) -> None:
    state = _budget(of, more)
    async with client_of(app({"r": state})) as http:
        text = (await http.get(PATH)).text
    words, unit, value = shown
    assert words in text
    assert f"Amount in {unit}</label>" in text
    assert re.search(f'name="amount"[^>]* value="{value}"', text) is not None
    assert "extend_by" not in text.partition("<main")[2]
    answer, run = await _sent(state, deed="extend", amount=entered)
    assert answer.headers["Location"] == INBOX_AFTER
    assert run.made[0].type == "edit"
    before = json.loads(state.approvals[0].arguments)
    assert run.made[0].edited_arguments == before | {"extend_by": counted}
    _, run = await _sent(state, deed="extend", amount=value)
    assert run.made[0].type == "approve"


@pytest.mark.parametrize(
    "amount", ["", "0", "-1", "1e9", "x", "0.0000001", "9" * 40, "1.5", "\u0661"]
)
async def test_an_amount_that_is_none_is_refused_beside_its_field(amount: str) -> None:
    answer, run = await _sent(_budget("tokens", 1_000), deed="extend", amount=amount)
    assert answer.status_code == 400
    assert "Enter a" in answer.text
    assert f'value="{amount}"' in answer.text
    assert run.made == []


async def test_a_call_is_not_extended() -> None:
    answer, run = await _sent(asking(), deed="extend", amount="1")
    assert (answer.status_code, run.made) == (400, [])


async def test_a_claim_lasts_as_long_as_somebody_chooses() -> None:
    answer, run = await _sent(asking(), deed="claim", minutes="240")
    assert answer.status_code == 303
    assert run.claims == [{"minutes": 240, "force": False, "to": None}]
    _, run = await _sent(asking(), deed="claim")
    assert run.claims[0]["minutes"] == 30
    for minutes in ("0", "-1", "99999", "x", "7"):
        answer, run = await _sent(asking(), deed="claim", minutes=minutes)
        assert (answer.status_code, run.claims) == (400, [])
        assert "Choose how long the claim lasts." in answer.text


async def test_who_has_a_claim_hands_it_over() -> None:
    mine = changed(asking(), claim=Claim(by="ann", until_ms=9_999_999_999_999))
    async with client_of(app({"r": mine})) as http:
        text = (await http.get(PATH)).text
    assert "Hand it over" in text
    assert "Keep it</button>" in text
    answer, run = await _sent(mine, deed="hand_over", to="bob", minutes="60")
    assert answer.headers["Location"].endswith("did=handed_over")
    assert run.claims == [{"minutes": 60, "force": None, "to": "bob"}]
    answer, run = await _sent(mine, deed="hand_over", to=" ")
    assert (answer.status_code, run.claims) == (400, [])
    assert "Write the name of the colleague." in answer.text
    async with client_of(app({"r": asking()})) as http:
        assert "Hand it over" not in (await http.get(PATH)).text
