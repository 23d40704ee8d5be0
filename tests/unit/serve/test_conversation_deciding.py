"""The request that waits, on the page of its conversation."""

import json
import re
from typing import Any
from urllib.parse import unquote

import pytest

from outlast.loop.approvals import ALL_DECISIONS, ApprovalTerms, Audience
from tests.laws.driver import Play, gated, said
from tests.unit.serve.hostile_pages import HOSTILE, active_content
from tests.unit.serve.page_desk import CALL, OWN, SCHEMA, app, asking, changed, client_of, run_of
from tests.unit.serve.test_conversation import shown, words
from tests.unit.serve.test_request_page import PATH

WITHIN = f"{PATH}?within=conversation"
HTMX = {**OWN, "HX-Request": "true"}


def waiting(*calls: Any) -> Play:
    """Return a conversation with requests that wait."""
    play = Play.ready()
    play.replies(said("The boss agreed."), *calls)
    return play


def ask(call_id: str = "c1", arguments: str = CALL, name: str = "refund", **terms: Any) -> Any:
    given: dict[str, Any] = {"allow": ALL_DECISIONS, **terms}
    return gated(name, call_id, arguments, terms=ApprovalTerms(**given))


def deciding(page: str) -> str:
    """Return the part of a page with the request that waits."""
    return page.partition('id="deciding"')[2].partition('aria-label="Messages"')[0]


async def test_the_request_that_waits_has_all_its_forms_before_the_messages() -> None:
    part = deciding(await shown(waiting(ask())))
    for deed in ("approve", "edit", "reject", "respond", "ask_back", "claim"):
        assert f'name="deed" value="{deed}"' in part, deed
    assert "DE42" in part
    assert "The boss agreed." in part
    assert set(re.findall('action="([^"]+)"', part)) == {
        "/conversations/run/requests/a1?within=conversation"
    }
    # Keys that mean something else on this page are those of the page alone.
    assert set(re.findall('data-key="(.)"', part)) == {"a", "r", "c"}


async def test_no_id_is_there_twice() -> None:
    page = await shown(waiting(ask(), ask("c2", name="pay")))
    ids = re.findall(r' id="([^"]+)"', page)
    assert sorted(one for one in set(ids) if ids.count(one) > 1) == []


async def test_of_several_the_first_that_one_can_decide_is_there() -> None:
    others = Audience(groups=("leads",))
    page = await shown(waiting(ask(audience=others), ask("c2", name="pay")))
    part = deciding(page)
    assert "/requests/a2?within" in part
    assert "/requests/a1?within" not in part
    assert "1 more request" in words(part)
    assert "/requests/a1" in page.partition('id="waits"')[2]
    nothing = deciding(await shown(waiting(ask(audience=others))))
    assert "leads" in nothing
    assert 'aria-disabled="true"' in nothing


async def test_others_see_no_details_and_press_nothing() -> None:
    part = deciding(await shown(waiting(ask()), roles=["viewer"]))
    assert "DE42" not in part
    assert "The boss agreed." not in part
    assert re.findall(r"<button[^>]*>", part) == re.findall(
        r"<button[^>]*aria-disabled[^>]*>", part
    )


async def test_without_a_request_there_is_nothing() -> None:
    assert "<section" not in deciding(await shown(Play.ready()))


@pytest.mark.parametrize("first", range(0, len(HOSTILE), 20))
async def test_hostile_texts_do_nothing(first: int) -> None:
    for text in HOSTILE[first : first + 20]:
        call = ask(arguments=json.dumps({"x": text, text[:100]: 1}), name=text[:60].strip() or "x")
        page = await shown(waiting(call))
        assert active_content(page) == [], text[:80]


# --- What the forms do ---------------------------------------------------------------------------


async def _sent(**fields: Any) -> tuple[Any, Any]:
    state = changed(asking(allow=ALL_DECISIONS), schema=SCHEMA)
    desk = app({"r": state})
    data = {"digest": state.approvals[0].digest, **fields}
    async with client_of(desk) as http:
        return await http.post(WITHIN, data=data, headers=HTMX), run_of(desk)


async def test_a_decision_is_the_same_act_and_answered_in_its_place() -> None:
    answer, run = await _sent(deed="approve")
    assert answer.status_code == 200
    assert [one.type for one in run.made] == ["approve"]
    assert answer.text.startswith("<div data-drafts=")
    assert "HX-Redirect" not in answer.headers
    assert unquote(answer.headers["Desk-Said"]) == "Approved by somebody. The call runs."


async def test_a_claim_and_a_question_say_what_came_of_them() -> None:
    answer, run = await _sent(deed="claim", minutes="60")
    assert "You work on it now" in answer.text
    assert run.claims == [{"minutes": 60, "force": False, "to": None}]
    answer, run = await _sent(deed="ask_back", question="Which parcel?")
    assert run.made == [("ask_back", "Which parcel?")]
    assert "You asked back." in answer.text


async def test_an_edit_is_shown_before_it_is_sent() -> None:
    answer, run = await _sent(deed="edit", **{"arguments.1": "7"})
    assert run.made == []
    assert "Approve with these details" in answer.text
    assert "data-entered" in answer.text
    assert "<html" not in answer.text


async def test_what_was_decided_about_something_else_is_refused_beside_its_button() -> None:
    answer, run = await _sent(deed="reject", digest="other", message="Only with a receipt.")
    assert answer.status_code == 409
    assert run.made == []
    assert 'class="refusal" role="alert"' in answer.text
    assert ">Only with a receipt.</textarea>" in answer.text


async def test_without_scripts_a_decision_leads_back_to_the_conversation() -> None:
    state = asking(allow=ALL_DECISIONS)
    desk = app({"r": state})
    data = {"digest": state.approvals[0].digest, "deed": "approve"}
    async with client_of(desk) as http:
        answer = await http.post(WITHIN, data=data, headers=OWN)
        assert (answer.status_code, answer.headers["Location"]) == (303, "/conversations/r")
        refused = await http.post(WITHIN, data=data | {"digest": "other"}, headers=OWN)
    assert refused.status_code == 409
    assert "<html" in refused.text
    assert [one.type for one in run_of(desk).made] == ["approve"]
