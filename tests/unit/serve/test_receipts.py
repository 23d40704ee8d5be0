"""What follows a decision: the next request, a receipt, and the outcomes of many decisions."""

import base64
import json
import re
import zlib
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from outlast.client.inbox import BulkOutcome, InboxEntry
from outlast.client.people.actions import DecisionReceipt
from outlast.client.run_facts import RunFacts
from outlast.loop.approvals import ApprovalTerms, Audience, Decision, Vote
from outlast.loop.start import Customer
from outlast.loop.state import LoopState
from outlast.serve.access import RoleRules
from outlast.serve.pages.receipts import list_of, read_list
from tests.laws.driver import Play, gated
from tests.unit.serve.hostile_pages import active_content
from tests.unit.serve.page_desk import OWN, PageDesk, app, asking, changed, client_of, run_of

HX = {**OWN, "HX-Request": "true"}


def entry(run_id: str, pending: int = 1) -> InboxEntry:
    started = datetime(2026, 1, 1, tzinfo=UTC)
    return InboxEntry(run_id=run_id, pending=pending, started=started, client=cast("Any", None))


def approve(state: LoopState) -> dict[str, str]:
    return {"deed": "approve", "digest": state.approvals[0].digest}


def settled(state: LoopState, by: str = "bob") -> LoopState:
    decision = Decision(request_id="a1", type="approve", by=by)
    return changed(state, status="approved", decision=decision, decided_at_ms=1)


# --- The next request ------------------------------------------------------------------------------


async def test_the_next_request_of_the_same_conversation_comes_first() -> None:
    play = Play()
    play.prepared()
    play.replies(gated("refund", "c1", "{}"), gated("refund", "c2", "{}"))
    desk = app({"r": play.state, "s": asking()}, entries=[entry("s"), entry("r")])
    async with client_of(desk) as http:
        answer = await http.post(
            "/conversations/r/requests/a1", data=approve(play.state), headers=OWN
        )
    assert answer.headers["Location"] == ("/conversations/r/requests/a2?did=decided&after=r&of=a1")


async def test_what_somebody_else_has_to_decide_is_passed_over() -> None:
    states = {
        "r": asking(),
        "done": settled(asking()),
        "leads": asking(audience=Audience(groups=("leads",))),
        "mine": asking(),
    }
    entries = [entry(run_id) for run_id in ("gone", "done", "leads", "mine")]
    desk = app(states, entries=entries[1:])
    async with client_of(desk) as http:
        answer = await http.post(
            "/conversations/r/requests/a1", data=approve(states["r"]), headers=HX
        )
        assert answer.headers["HX-Redirect"].startswith("/conversations/mine/requests/a1?did=")
        # A conversation that cannot be read leads to the inbox.
        desk.state.desk.inboxes.entries = tuple(entries)
        answer = await http.post(
            "/conversations/r/requests/a1", data=approve(states["r"]), headers=OWN
        )
    assert answer.headers["Location"] == "/inbox?did=decided&after=r&of=a1"


async def test_a_claim_leads_nowhere_else() -> None:
    state = asking()
    async with client_of(app({"r": state, "s": asking()}, entries=[entry("s")])) as http:
        answer = await http.post(
            "/conversations/r/requests/a1", data={"deed": "claim"}, headers=OWN
        )
    assert answer.headers["Location"] == "/conversations/r/requests/a1?did=claimed"


# --- The receipt ---------------------------------------------------------------------------------


async def receipt(state: LoopState, query: str = "did=decided&after=r&of=a1", **fields: Any) -> str:
    async with client_of(app({"r": state}, **fields)) as http:
        answer = await http.get(f"/inbox?{query}")
    assert answer.status_code == 200
    assert active_content(answer.text) == []
    found = re.search('<div class="receipt".*?</div>', answer.text, re.DOTALL)
    return " ".join(re.sub("<[^>]*>", " ", found[0]).split()) if found else ""


async def test_a_receipt_says_what_was_decided_and_what_has_become_of_it() -> None:
    state = settled(asking(headline="Pay {amount} EUR to {iban}"))
    start = replace(state.start, customer=Customer(id="c-1", name="Ann Smith"))
    assert await receipt(replace(state, start=start)) == (
        "Ann Smith: Pay 5 EUR to “DE42” Approved by bob. The call runs."
    )


async def test_a_vote_can_be_taken_back_as_long_as_nothing_has_happened() -> None:
    waits = asking(quorum=2)
    request = waits.approvals[0]
    decision = Decision(request_id="a1", type="approve", by="ann", groups=("billing",))
    vote = Vote(decision=decision, at_ms=1, verified=True, args_digest=request.args_digest)
    voted = changed(waits, votes=(vote,))
    assert "Take my vote back" in await receipt(voted)
    other = changed(waits, votes=(replace(vote, decision=replace(decision, by="bob")),))
    assert "Take my vote back" not in await receipt(other)
    assert "Take my vote back" not in await receipt(settled(voted))


async def test_an_address_shows_no_more_than_its_reader_may_see() -> None:
    secret = settled(asking(headline="Pay {amount} EUR to {iban}"))
    shown = await receipt(secret, roles=["viewer"])
    assert shown.startswith("Refund ")
    assert "DE42" not in shown
    hidden = settled(
        asking('{"iban": "[redacted]", "amount": 5}', headline="To {iban}", redact=("iban",))
    )
    assert (await receipt(hidden)).startswith("To “[redacted]”")


@pytest.mark.parametrize(
    "query",
    [
        "after=x&of=a1",
        "after=r&of=a9",
        "after=r",
        "of=a1",
        "after=%00&of=%ff",
        "after=r&of=a1a2",
    ],
)
async def test_an_address_of_nothing_shows_nothing(query: str) -> None:
    assert await receipt(asking(), query) == ""


async def test_an_odd_deed_is_not_believed() -> None:
    present = "Refund 0 of 1 votes; waits for another person."
    for deed in ("<b>refunded</b>", "claimed", "handed_over", "withdrawn", "asked", ""):
        assert await receipt(asking(), f"after=r&of=a1&did={deed}") == present
    # A decision that the server kept has been taken since: the receipt says what came of it.
    assert "keeps your decision" in await receipt(asking(), "after=r&of=a1&did=kept")
    taken = await receipt(settled(asking()), "after=r&of=a1&did=kept")
    assert taken == "Refund Approved by bob. The call runs."


# --- Many at once ----------------------------------------------------------------------------------


def outcome(run_id: str, *, is_kept: bool = False, refused: str | None = None) -> BulkOutcome:
    taken = DecisionReceipt(
        run_id=run_id, request_id="a1", status="approved", votes=1, votes_needed=1, is_kept=is_kept
    )
    return BulkOutcome(
        run_id=run_id, request_id="a1", receipt=None if refused else taken, refused=refused
    )


def test_a_list_is_read_as_it_was_written() -> None:
    outcomes = [outcome("r/1"), outcome("ä", is_kept=True), outcome("x", refused="no")]
    text = list_of(outcomes, [("y", "a2")])
    assert re.fullmatch("[-_A-Za-z0-9]+", text)
    assert read_list(text) == [
        ("r/1", "a1", "taken"),
        ("ä", "a1", "kept"),
        ("x", "a1", "refused"),
        ("y", "a2", "left"),
    ]
    many = [outcome(f"0198f2c4-aaaa-7bbb-8ccc-{at * 7919:012x}") for at in range(200)]
    assert len(list_of(many, [])) < 4_000
    assert len(read_list(list_of(many, []))) == 200


def packed(value: Any) -> str:
    return base64.urlsafe_b64encode(zlib.compress(json.dumps(value).encode())).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "ä",
        "AAAA",
        packed({"a": 1}),
        packed([1, [], ["a"], ["a", "b", "?"], ["a", 1, "t"], [["a"], "b", "t"]]),
        packed(["x" * 10_000_000]),
        packed(["r", "a1", "t"]),
    ],
)
def test_any_other_text_is_an_empty_list(text: str) -> None:
    assert read_list(text) == []


def test_a_list_is_no_longer_than_what_can_be_decided_at_once() -> None:
    assert len(read_list(packed([[f"r{at}", "a1", "t"] for at in range(300)]))) == 200


async def decided(states: dict[str, LoopState], text: str, decision: str = "approve") -> list[str]:
    async with client_of(app(states)) as http:
        answer = await http.get("/inbox/decided", params={"decision": decision, "list": text})
        again = await http.get("/inbox/decided", params={"decision": decision, "list": text})
    assert answer.text == again.text
    assert active_content(answer.text) == []
    main = answer.text.partition("<main")[2].partition("</main>")[0]
    rows = re.findall("<h1>.*?</h1>|<tr>.*?</tr>", main, re.DOTALL)
    return [" ".join(re.sub("<[^>]*>", " ", row).split()) for row in rows]


async def test_the_outcomes_survive_a_reload_and_say_why_something_was_left_alone() -> None:
    terms = ApprovalTerms(risk="low", bulk=True)
    states = {
        "done": settled(asking(bulk=True), by="ann"),
        "late": settled(asking(bulk=True)),
        "risky": asking(risk="medium", bulk=False),
        "leads": asking(bulk=True, audience=Audience(groups=("leads",))),
        "changed": asking(bulk=True),
    }
    assert terms.bulk
    left = [(run_id, "a1") for run_id in ("late", "risky", "leads", "changed", "gone")]
    shown = await decided(states, list_of([outcome("done")], left))
    assert shown == [
        "1 request approved, 5 left alone",
        "Request Customer Why",
        "Refund It was decided before you by bob.",
        "Refund Its risk is medium, so it needs a decision of its own.",
        "Refund It is for the group leads.",
        "Refund It changed after you looked. It still waits.",
        "gone There is no run &#39;gone&#39;.",
        "Request Customer What has become of it",
        "Refund Approved by ann. The call runs.",
    ]


async def test_a_forged_list_only_shows_what_is_so() -> None:
    shown = await decided({"r": asking(bulk=True)}, packed([["r", "a1", "t"]]), "<b>")
    assert shown[0] == "1 request approved"
    assert shown[-1] == "Refund 0 of 1 votes; waits for another person."
    assert await decided({}, "nonsense") == ["0 requests approved"]


async def test_a_bulk_decision_leads_to_its_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = app({"r": asking(bulk=True)})

    async def steps(*_: Any) -> tuple[Any, ...]:
        return ()

    monkeypatch.setattr("outlast.serve.pages.inbox.bulk_steps", steps)
    data = {"decision": "approve", "run": ["r"], "seen": ["x"], "agreed": ["a1 r"]}
    async with client_of(desk) as http:
        answer = await http.post("/inbox/decide", data=data, headers=OWN)
        assert answer.status_code == 303
        address = answer.headers["Location"]
        assert address.startswith("/inbox/decided?decision=approve&list=")
        assert read_list(address.rpartition("=")[2]) == [("r", "a1", "left")]
        assert "1 left alone" in " ".join((await http.get(address)).text.split())
    assert run_of(desk).made == []


async def test_an_address_opens_no_other_tenants_conversation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret = settled(asking(headline="Pay {amount} EUR to {iban}", bulk=True))

    async def facts(_desk: Any, run_id: str) -> RunFacts:
        return RunFacts(root_id=run_id, tenant="acme" if run_id == "ours" else "globex")

    monkeypatch.setattr(PageDesk, "facts", facts)
    scoped = RoleRules({"billing": ["viewer@tenant:acme", "decider@tenant:acme"]})
    desk = app({"ours": secret, "theirs": secret}, roles=[])
    desk.state.desk.__dict__["roles"] = scoped
    for run_id, shown in (("ours", True), ("theirs", False)):
        outcomes = list_of([outcome(run_id)], [])
        async with client_of(desk) as http:
            one = await http.get("/inbox", params={"after": run_id, "of": "a1"})
            many = await http.get("/inbox/decided", params={"list": outcomes})
        for answer in (one, many):
            assert (answer.status_code, "DE42" in answer.text) == (200, shown)
