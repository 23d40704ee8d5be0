"""Messages that a desk refuses: clients keep them in their lists, and the conversation goes on."""

import asyncio
import base64
import json
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.testing import ScriptedModel
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.people import clerk, refunds
from tests.workflow.test_desk_api import TOKENS, app_of, bearer, keys, opened
from tests.workflow.test_desk_wires import body_of, events_in, written_in
from tests.workflow.test_wires import STAFF, create, requests_of, response_to

__all__ = ["keys"]

PHOTO = base64.b64encode(b"\x89PNG" + b"\0" * 3_000_000).decode()
"""Too large for a record, and without a blob store there is no other place."""

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def part(kind: str, **source: str) -> dict[str, Any]:
    return {"type": kind, "source": {"mimeType": "image/png", **source}}


REFUSED: dict[str, Any] = {
    "photo": [part("document", type="data", value=PHOTO)],
    "voice": [part("audio", type="data", value="AAAA")],
    "blanks": "   ",
    "link": [part("image", type="url", value="https://evil.example")],
    "new": [{"type": "hologram"}],
}


@pytest.mark.parametrize("kind", REFUSED)
async def test_only_the_refused_message_of_ag_ui_is_refused(desk: Desk, kind: str) -> None:
    agent = Agent[Any](name="Helper")
    await desk.open(agent, model=ScriptedModel(always="Yes."))
    run_id = desk.new_id()
    mine = bearer(TOKENS.mint(run_id))
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app_of(desk, agent)) as http:
        body = body_of(run_id, ("m1", "Hello"))
        await http.post("/agui/Helper", json=body, headers=mine)
        body["messages"].append({"id": "odd", "role": "user", "content": REFUSED[kind]})
        refused = await http.post("/agui/Helper", json=body, headers=mine)
        assert 400 <= refused.status_code < 500
        body["messages"].append({"id": "m2", "role": "user", "content": "Again"})
        answer = await http.post("/agui/Helper", json=body, headers=mine)
        assert (answer.status_code, written_in(events_in(answer.text))) == (200, "Yes.")
        body["messages"][-1]["content"] = "Something else"
        edited = await http.post("/agui/Helper", json=body, headers=mine)
        assert (edited.status_code, edited.json()["error"]["code"]) == (409, "message_changed")


async def test_a_decision_counts_beside_a_message_that_was_refused(desk: Desk) -> None:
    ran: list[int] = []
    agent = clerk(ran=ran)
    await desk.open(agent, model=ScriptedModel(refunds(5), "Refunded."))
    run_id = desk.new_id()
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app_of(desk, agent)) as http:
        body = body_of(run_id, ("m1", "Refund A-17."))
        asked = events_in((await http.post("/agui/Clerk", json=body)).text)
        [interrupt] = asked[-1]["outcome"]["interrupts"]
        body["messages"].append({"id": "odd", "role": "user", "content": REFUSED["voice"]})
        assert (await http.post("/agui/Clerk", json=body)).status_code == 400
        entry = {
            "interruptId": interrupt["id"],
            "status": "resolved",
            "payload": {"approved": True},
        }
        answer = await http.post("/agui/Clerk", json={**body, "resume": [entry]})
        text = written_in(events_in(answer.text))
        assert answer.status_code == 200
        assert "Refunded." in text
        assert "A part 'audio' of a message" in text  # the person reads what was left out
    assert ran == [5]


def item(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


OF_RESPONSES: dict[str, Any] = {
    "photo": [{"type": "input_file", "filename": "a.txt", "file_data": PHOTO}],
    "voice": [{"type": "input_audio", "input_audio": {"data": "AAAA"}}],
    "blanks": [],
    "link": [{"type": "input_image", "image_url": "https://evil.example"}],
}


@pytest.mark.parametrize("kind", OF_RESPONSES)
async def test_only_the_refused_item_of_a_list_of_responses_is_refused(
    desk: Desk, kind: str
) -> None:
    model = ScriptedModel(always="Yes.")
    agent = Agent[Any](name="Helper")
    await desk.open(agent, model=model)
    run_id = desk.new_id()
    mine = bearer(TOKENS.mint(run_id))
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app_of(desk, agent)) as http:
        told: dict[str, Any] = {"type": "message", "role": "assistant", "content": []}
        listed = [item("Hello"), told, item(OF_RESPONSES[kind])]
        refused = await create(http, mine, model="Helper", input=listed)
        assert refused["code"] in {400, 413, 415}
        answer = await create(http, mine, model="Helper", input=[*listed, item("Again")])
        assert (answer["code"], answer["status"]) == (200, "completed")
    said = json.dumps(model.requests[-1].input)
    assert "Again" in said
    assert "evil" not in said


async def test_a_list_of_responses_may_repeat_decisions_and_what_was_refused(desk: Desk) -> None:
    ran: list[int] = []
    agent = clerk(ran=ran)
    await desk.open(agent, model=ScriptedModel(refunds(5), "Refunded.", "Bye."))
    run_id = desk.new_id()
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app_of(desk, agent)) as http:
        first = await create(http, STAFF, model="Clerk", input="Refund.", conversation=run_id)
        [request] = requests_of(first)
        odd = item(OF_RESPONSES["voice"])
        listed = [item("Refund."), request, odd, response_to(request)]
        same = {"model": "Clerk", "previous_response_id": first["id"]}
        second = await create(http, STAFF, input=listed, **same)
        assert second["code"] == 200
        assert second["output"][-1]["content"][0]["text"] == "Refunded."
        listed = [*listed, second["output"][-1], item("Thanks.")]
        third = await create(http, STAFF, input=listed, **same)
        assert third["code"] == 200
        assert third["output"][-1]["content"][0]["text"] == "Bye."
    assert ran == [5]


# --- Messages that the run knows -----------------------------------------------------------------


def said(text: str, *parts: Any, message_id: str = "m1") -> dict[str, Any]:
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}, *parts]}


async def test_an_edited_message_is_no_question_with_an_answer(desk: Desk) -> None:
    agent = Agent[Any](name="Helper")
    await desk.open(agent, model=ScriptedModel(always="Yes."))
    run_id = desk.new_id()
    mine = bearer(TOKENS.mint(run_id))
    photo = {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64," + PIXEL}
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app_of(desk, agent)) as http:

        async def send(message: Any) -> Any:
            body = {"id": run_id, "messages": [message], "trigger": "submit-message"}
            return await http.post("/vercel/Helper", json=body, headers=mine)

        assert (await send(said("Where is it?", photo))).status_code == 200
        assert (
            await send(said("Where is it?", photo))
        ).status_code == 200  # it was lost on its way
        for other in (said("Where is the other?", photo), said("Where is it?")):
            refused = await send(other)
            assert (refused.status_code, refused.json()["error"]["code"]) == (
                409,
                "message_changed",
            )


async def test_a_used_message_id_with_another_text_is_refused(desk: Desk) -> None:
    agent = Agent[Any](name="Helper")
    await desk.open(agent, model=ScriptedModel(always="Yes."))
    run_id = desk.new_id()
    mine = bearer(TOKENS.mint(run_id))
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app_of(desk, agent)) as http:

        async def send(text: str) -> Any:
            body = {"text": text, "message_id": "m1", "agent": "Helper"}
            path = f"/api/conversations/{run_id}/messages"
            return await http.post(path, json=body, headers=mine)

        assert (await send("Hello")).status_code == 202
        assert (await send("Hello")).status_code == 202
        refused = await send("Goodbye")
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "message_changed")


# --- Large histories -----------------------------------------------------------------------------


@pytest.mark.parametrize("wire", ["agui", "vercel", "responses"])
async def test_a_history_with_many_photos_is_answered(desk: Desk, wire: str) -> None:
    agent = Agent[Any](name="Helper")
    await desk.open(agent, model=ScriptedModel(always="Yes."))
    run_id = desk.new_id()
    mine = bearer(TOKENS.mint(run_id))
    data = "A" * 8_000_000
    body: dict[str, Any]
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app_of(desk, agent)) as http:
        if wire == "agui":
            photo = [part("image", type="data", value=data)]
            old = [{"id": f"p{at}", "role": "user", "content": photo} for at in range(5)]
            body = body_of(run_id, ("m1", "Hello"))
            body["messages"][:0] = old
            path = "/agui/Helper"
        elif wire == "vercel":
            url = "data:image/png;base64," + data
            photo = {"type": "file", "mediaType": "image/png", "url": url}
            old = [said("Look", photo, message_id=f"p{at}") for at in range(5)]
            body = {"id": run_id, "messages": [*old, said("Hello")]}
            path = "/vercel/Helper"
        else:
            url = "data:image/png;base64," + data
            old = [item([{"type": "input_image", "image_url": url}])] * 5
            told = {"type": "message", "role": "assistant", "content": list[Any]()}
            body = {"model": "Helper", "input": [*old, told, item("Hello")]}
            path = "/v1/responses"
        answer = await http.post(path, json=body, headers=mine)
        assert answer.status_code == 200, answer.text
        assert "Yes." in answer.text


async def test_a_body_that_is_too_large_is_refused_as_json(desk: Desk) -> None:
    agent = Agent[Any](name="Helper")
    async with opened(app_of(desk, agent)) as http:
        large = b'{"text": "' + b"A" * 31_000_000 + b'"}'
        headers = {"Content-Type": "application/json", **bearer(TOKENS.mint("r"))}
        for path in ("/api/conversations/r/messages", "/agui/Helper", "/v1/responses"):
            refused = await http.post(path, content=large, headers=headers)
            assert refused.status_code == 413
            assert refused.json()["error"]["code"] == "content_too_large"
            assert "30,000,000 bytes" in refused.json()["error"]["message"]
