"""Customers' wires say that a message was left out for the model, and that an answer was cut short."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.client.handle import RunHandle
from outlast.contract.identity import new_shared_key
from outlast.ports.model import ModelError, ModelRequest
from outlast.testing import ScriptedModel, say
from outlast.views.run import loop_state
from tests.pictures import PNG, url_of
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.test_desk_api import TOKENS, app_of, bearer, of_run, opened
from tests.workflow.test_desk_wires import body_of, events_in
from tests.workflow.test_wires import Chat, said

PHOTO = url_of("image/png", PNG)
HALF = "Half a sen"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The desk proves who decides."""
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", new_shared_key())


def takes_no_photo(request: ModelRequest) -> Any:
    """Refuse what holds the photo, and cut the answer to what asks for much."""
    if PHOTO[40:] in str(request.input):
        message = "The model provider refused the request. Its message: SECRET-reason."
        raise ModelError(message, code="invalid_request", retryable=False, status=400)
    if "Everything" in str(request.input[-1]):
        return [{**say(HALF)[0], "status": "incomplete"}]
    return say("What is it?")


@asynccontextmanager
async def opened_desk(desk: Desk) -> AsyncGenerator[tuple[Any, Any, str, dict[str, str]]]:
    agent = Agent[Any](name="Clerk")
    await desk.open(agent, model=ScriptedModel(always=takes_no_photo))
    app, run_id = app_of(desk, agent), desk.new_id()
    async with asyncio.timeout(PATIENCE_SECONDS), opened(app) as http:
        yield http, app, run_id, bearer(TOKENS.mint(run_id))
        assert "SECRET-reason" in str(
            (loop_state(await RunHandle(desk.client, run_id).state())).aside
        )


async def test_the_vercel_wire(desk: Desk):
    async with opened_desk(desk) as (_, app, run_id, mine):
        chat = Chat(app, run_id, mine)
        photo = {"type": "file", "mediaType": "image/png", "url": PHOTO}
        first = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "This?"}, photo]}
        await chat.send(first)
        assert chat.of("data-outlast")[-1]["data"]["leftOut"] is True
        assert chat.chunks[-1] == {"type": "finish", "finishReason": "stop"}
        assert "SECRET-reason" not in json.dumps(chat.chunks)
        await chat.send(first, said("Everything.", "m2"))
        assert chat.chunks[-1] == {"type": "finish", "finishReason": "length"}
        assert "".join(one["delta"] for one in chat.of("text-delta")) == HALF
        assert not any("leftOut" in one["data"] for one in chat.of("data-outlast"))


async def test_the_ag_ui_wire(desk: Desk):
    async with opened_desk(desk) as (http, _, run_id, mine):
        source = {"type": "data", "value": PHOTO.partition(",")[2], "mimeType": "image/png"}
        content = [{"type": "text", "text": "This?"}, {"type": "image", "source": source}]
        body = body_of(run_id, ("m1", "This?"))
        body["messages"][0]["content"] = content
        events = events_in((await http.post("/agui/Clerk", json=body, headers=mine)).text)
        assert told(events)["leftOut"] == ["m1"]
        assert "cutShort" not in told(events)
        assert "SECRET-reason" not in json.dumps(events)
        body = body_of(run_id, ("m2", "Everything."))
        events = events_in((await http.post("/agui/Clerk", json=body, headers=mine)).text)
        assert (told(events)["leftOut"], told(events)["cutShort"]) == (["m1"], True)
        assert events[-1]["outcome"]["type"] == "success"


def told(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the newest state that a stream tells of."""
    found: dict[str, Any] = {}
    for event in events:
        if event["type"] == "STATE_SNAPSHOT":
            found = event["snapshot"]["outlast"]
        elif event["type"] == "STATE_DELTA":
            found = event["delta"][-1]["value"]
    return found


@pytest.mark.parametrize("stream", [False, True])
async def test_the_responses_wire(desk: Desk, stream: bool):
    async with opened_desk(desk) as (http, _, run_id, mine):
        parts = [
            {"type": "input_text", "text": "This?"},
            {"type": "input_image", "image_url": PHOTO},
        ]
        body = {"model": "Clerk", "conversation": run_id, "stream": stream}
        asked: list[Any] = [[{"role": "user", "content": parts}], "Everything."]
        answers = [
            await http.post("/v1/responses", json={**body, "input": one}, headers=mine)
            for one in asked
        ]
        whole, cut = map(response_of, answers)
        assert (whole["status"], whole["incomplete_details"]) == ("completed", None)
        assert cut["status"] == "incomplete"
        assert cut["incomplete_details"] == {"reason": "max_output_tokens"}
        [message] = cut["output"]
        assert (message["status"], message["content"][0]["text"]) == ("incomplete", HALF)
        again = await http.get(f"/v1/responses/{cut['id']}", headers=mine)
        assert again.json()["status"] == "incomplete"
        follows = {**body, "input": "And?", "previous_response_id": cut["id"]}
        del follows["conversation"]
        after = await http.post("/v1/responses", json=follows, headers=mine)
        assert response_of(after)["status"] == "completed"
        assert "SECRET-reason" not in "".join(one.text for one in answers)


def response_of(answer: Any) -> dict[str, Any]:
    """Return the response, or that of the last event of a stream."""
    assert answer.status_code == 200, answer.text
    if not answer.headers["content-type"].startswith("text/event-stream"):
        return answer.json()
    *_, last = (line for line in answer.text.split("\n") if line.startswith("data: "))
    event = json.loads(last.removeprefix("data: "))
    assert event["type"] == f"response.{event['response']['status']}"
    return event["response"]


async def test_the_chat_page_and_the_api(desk: Desk):
    async with opened_desk(desk) as (http, _, run_id, mine):
        parts = [
            {"type": "input_text", "text": "This?"},
            {"type": "input_image", "image_url": PHOTO},
        ]
        for at, body in enumerate(({"parts": parts}, {"text": "Everything."})):
            sent = {**body, "agent": "Clerk", "message_id": f"m{at}"}
            await http.post(of_run(run_id, "messages"), json=sent, headers=mine)
            await desk.until(RunHandle(desk.client, run_id), lambda it, at=at: len(it.answers) > at)
        seen = (await http.get(of_run(run_id), headers=mine)).json()["messages"]
        assert [one["is_cut_short"] for one in seen] == [False, False, False, True]
        assert [one["left_out"] for one in seen[0]["attachments"]] == [True]
        assert "SECRET-reason" not in json.dumps(seen)
