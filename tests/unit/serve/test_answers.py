"""Answers that wait for approval: their text, their form, and what a person changed."""

import json
from dataclasses import replace
from typing import Any

from outlast.loop.approvals import ApprovalTerms
from outlast.loop.state import Gate, LoopState
from outlast.serve.access import Role
from tests.unit.serve.hostile_pages import HOSTILE, active_content
from tests.unit.serve.page_desk import OWN, app, asking, client_of, run_of
from tests.unit.serve.test_request_page import PATH

ANSWER = "We refund 389 EUR to you today."


def answering(answer: Any = ANSWER, edited: Any = None, **terms: Any) -> LoopState:
    """Return a run whose answer waits for a person."""
    allow = terms.pop("allow", ("approve", "reject", "respond"))
    state = asking(json.dumps({"answer": edited or answer}))
    first = state.approvals[0]
    schema: Any = {"type": "object", "properties": {"answer": {}}, "required": ["answer"]}
    request = replace(
        first,
        kind="output",
        name="answer",
        schema=schema,
        edited=None if edited is None else json.dumps({"answer": edited}),
        terms=ApprovalTerms(allow=allow, **terms),
    )
    gate = Gate(request_id=first.id, output=answer)
    return replace(state, approvals=(request,), gate=gate)


async def page_of(state: LoopState, roles: tuple[Role, ...] = ("decider",)) -> str:
    async with client_of(app({"r": state}, roles=roles)) as http:
        return str((await http.get(PATH)).text)


async def test_an_answer_is_shown_as_its_text() -> None:
    page = await page_of(answering())
    assert f'<div class="text" dir="auto">{ANSWER}</div>' in page
    assert "<dt>" not in page.partition('class="proposed"')[2].partition("facts")[0]


async def test_an_answer_in_its_place_begins_with_the_answer() -> None:
    page = await page_of(answering())
    assert f'name="text" required dir="auto">{ANSWER}</textarea>' in page
    assert "The customer gets it in place of what the agent wrote." in page


async def test_an_edited_answer_shows_what_a_person_changed() -> None:
    page = await page_of(answering(edited="We refund 300 EUR to you today."))
    assert "We refund <del>389 </del><ins>300 </ins>EUR to you today." in page
    hidden = await page_of(answering(edited="We refund 300 EUR.", redact=("answer",)))
    assert "389" not in hidden
    unseen = await page_of(answering(edited="We refund 300 EUR to you today."), ("viewer",))
    assert "389" not in unseen


async def test_another_answer_shows_its_difference_before_it_is_sent() -> None:
    state = answering()
    desk = app({"r": state})
    text = "We refund 389 EUR to you on Monday."
    fields = {"deed": "respond", "digest": state.approvals[0].digest, "text": text}
    async with client_of(desk) as http:
        page = (await http.post(PATH, data=fields, headers=OWN)).text
        assert "to you <del>today.</del><ins>on Monday.</ins>" in page
        assert run_of(desk).made == []
        assert f">{text}</textarea>" in page
        response = json.dumps(text)
        fields |= {"step": "send", "response": response}
        assert (await http.post(PATH, data=fields, headers=OWN)).status_code == 303
        assert run_of(desk).made[0].response == text
        same = {**fields, "text": ANSWER, "step": ""}
        assert "Nothing differs." in (await http.post(PATH, data=same, headers=OWN)).text
        empty = await http.post(PATH, data={**same, "text": " "}, headers=OWN)
        assert empty.status_code == 400
        # What is refused stays as it was written, beside the button.
        fields["digest"] = "other"
        refused = await http.post(PATH, data=fields, headers=OWN)
        assert refused.status_code == 409
        assert f">{text}</textarea>" in refused.text


async def test_answers_that_are_no_texts_have_their_fields() -> None:
    page = await page_of(answering({"amount": 3}))
    assert 'class="proposed"' not in page
    assert active_content(page) == []


async def test_what_the_schema_of_a_response_begins_with_is_there() -> None:
    schema: Any = {
        "type": "object",
        "properties": {"count": {"type": "integer", "default": 7}, "note": {"type": "string"}},
        "required": ["count"],
    }
    state = asking(allow=("respond",), response_schema=schema)
    page = await page_of(state)
    assert 'name="answer.0" value="7"' in page
    fields = {"deed": "respond", "digest": state.approvals[0].digest, "answer.0": "7"}
    async with client_of(app({"r": state})) as http:
        sent = (await http.post(PATH, data=fields, headers=OWN)).text
    assert "Send this answer" in sent
    assert "&#34;count&#34;: 7" in sent


async def test_hostile_answers_are_text() -> None:
    for text in HOSTILE:
        for state in (
            answering(text),
            answering(ANSWER, edited=text),
            answering(text, edited=ANSWER),
        ):
            assert active_content(await page_of(state)) == [], text[:80]
