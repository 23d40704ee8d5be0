"""Pictures by every route to a run: what nobody can read is told to its sender, and nothing is lost."""

import base64
import secrets
from typing import Any, Final

import pytest

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.client.handle import RunHandle
from outlast.client.start.runner import Runner
from outlast.contract.identity import new_shared_key
from outlast.loop.values import JsonObject
from outlast.ports.model import ModelRequest
from outlast.serve.wires.ids import ResponseId
from outlast.testing import ScriptedModel, say
from tests.pictures import BMP, CUT_PNG, HEIC, PNG, of_user, url_of
from tests.workflow.desk import Desk
from tests.workflow.test_authors import team
from tests.workflow.test_desk_wires import body_of, events_in

CUT: Final = "is incomplete. Send it again."
OF_HEIC: Final = (
    "is of the type HEIC, which cannot be read here. Send it as PNG, JPEG, GIF or WebP."
)
NAME: Final = "The picture receipt.png"
UNNAMED: Final = "The picture"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The desk proves who writes."""
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", new_shared_key())


# --- The routes: each sends pictures, and returns the status, the reason and the conversation --------

Answer = tuple[int, str, str]


def reason_in(answer: Any) -> str:
    return "" if answer.status_code < 300 else answer.json()["error"]["message"]


async def by_api(http: Any, run_id: str, *pictures: bytes) -> Answer:
    parts = of_user("image/png", *pictures)["content"]
    body = {"parts": parts, "agent": "Clerk"}
    answer = await http.post(f"/api/conversations/{run_id}/messages", json=body)
    return answer.status_code, reason_in(answer), run_id


async def by_start(http: Any, run_id: str, *pictures: bytes) -> Answer:
    own = f"{run_id}-{secrets.token_hex(2)}"
    body = {"agent": "Clerk", "input": [of_user("image/png", *pictures)], "id": own}
    answer = await http.post("/api/conversations", json=body)
    return answer.status_code, reason_in(answer), own


async def by_responses(http: Any, run_id: str, *pictures: bytes) -> Answer:
    given = [of_user("image/png", *pictures)]
    body = {"model": "Clerk", "input": given, "conversation": run_id, "background": True}
    answer = await http.post("/v1/responses", json=body)
    if answer.status_code == 200:
        made = ResponseId.parse(answer.json()["id"])
        assert made is not None
        return 200, "", made.run_id
    assert answer.json()["error"]["type"] == "invalid_request_error"
    return answer.status_code, reason_in(answer), run_id


async def by_ag_ui(http: Any, run_id: str, *pictures: bytes) -> Answer:
    parts: list[JsonObject] = [{"type": "text", "text": "Look."}]
    for one in pictures:
        source = {"type": "data", "value": base64.b64encode(one).decode(), "mimeType": "image/png"}
        named = {"filename": "receipt.png"}
        parts.append({"type": "image", "source": source, "metadata": named})
    body = body_of(run_id)
    body["messages"] = [{"id": secrets.token_hex(4), "role": "user", "content": parts}]
    answer = await http.post("/agui/Clerk", json=body)
    return answer.status_code, reason_in(answer), run_id


async def by_vercel(http: Any, run_id: str, *pictures: bytes) -> Answer:
    parts: list[JsonObject] = [{"type": "text", "text": "Look."}]
    parts += [
        {
            "type": "file",
            "mediaType": "image/png",
            "filename": "receipt.png",
            "url": url_of("image/png", one),
        }
        for one in pictures
    ]
    message = {"id": secrets.token_hex(4), "role": "user", "parts": parts}
    answer = await http.post("/vercel/Clerk", json={"id": run_id, "messages": [message]})
    return answer.status_code, reason_in(answer), run_id


async def by_chat_page(http: Any, run_id: str, *pictures: bytes) -> Answer:
    files = [("files", ("receipt.png", one, "image/png")) for one in pictures]
    data = {"nonce": secrets.token_hex(8), "text": "Look."}
    path, script = f"/chat/c/{run_id}", {"X-Chat": "1"}
    answer = await http.post(path, data=data, files=files, headers=script)
    return answer.status_code, reason_in(answer), run_id


async def by_a2a(http: Any, run_id: str, *pictures: bytes) -> Answer:
    parts: list[JsonObject] = [{"text": "Look."}]
    for one in pictures:
        raw = base64.b64encode(one).decode()
        parts.append({"raw": raw, "mediaType": "image/png", "filename": "receipt.png"})
    message = {"messageId": secrets.token_hex(4), "role": "ROLE_USER", "parts": parts}
    params = {"message": message, "configuration": {"returnImmediately": True}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    answer = (await http.post("/a2a/Clerk", json=body, headers={"A2A-Version": "1.0"})).json()
    if "error" in answer:
        assert answer["error"]["code"] == -32602, answer
        return 400, answer["error"]["message"], run_id
    return 200, "", answer["result"]["task"]["contextId"]


ROUTES: Final = [
    (by_api, UNNAMED),
    (by_start, UNNAMED),
    (by_responses, UNNAMED),
    (by_ag_ui, NAME),
    (by_vercel, NAME),
    (by_chat_page, NAME),
    (by_a2a, NAME),
]


def pictures_of(content: Any) -> list[str]:
    parts: list[JsonObject] = [] if isinstance(content, str) else content
    return [one["image_url"] for one in parts if one["type"] == "input_image"]


def counts(request: ModelRequest) -> Any:
    found = [url for item in request.input for url in pictures_of(item.get("content"))]
    return say(f"{len(found)} pictures.")


@pytest.mark.parametrize(("route", "subject"), ROUTES)
async def test_a_picture_that_nobody_can_read_is_told_and_the_next_message_works(
    desk: Desk, route: Any, subject: str
) -> None:
    agent = Agent[Any](name="Clerk")
    await desk.open(agent, model=ScriptedModel(always=counts))
    async with team(desk, agent, "ann") as (ann,):
        run_id = f"run-{secrets.token_hex(6)}"
        for picture, words in ((CUT_PNG, CUT), (HEIC, OF_HEIC)):
            status, reason, _ = await route(ann, run_id, picture)
            assert (status, reason) == (400, f"{subject} {words}")
        assert (await ann.get(f"/api/conversations/{run_id}")).status_code == 404, "none began"
        status, reason, run_id = await route(ann, run_id, PNG, BMP)
        assert status < 300, reason
        handle = RunHandle(desk.client, run_id)
        desk.ids.append(run_id)
        state = await desk.until_status(handle, "idle")
        assert state.answers[-1].failure is None
        [same, converted] = pictures_of(state.items[0].raw["content"])
        assert same == url_of("image/png", PNG)
        assert converted.startswith("data:image/png;base64,")
        assert state.items[-1].raw["content"][0]["text"] == "2 pictures."


async def test_a_program_learns_at_the_call_that_a_picture_is_cut_off(desk: Desk) -> None:
    agent = Agent[Any](name="Clerk")
    await desk.open(agent, model=ScriptedModel(always=counts))
    with pytest.raises(UserError, match="Picture 1 of the input is incomplete"):
        await Runner.run(agent, [of_user("image/png", CUT_PNG)], client=desk.client)
    handle = await desk.start(agent, [of_user("image/png", PNG)], keep_open=True)
    with pytest.raises(UserError, match="Picture 2 of the input is incomplete"):
        await handle.send([of_user("image/png", PNG, CUT_PNG)])
    answer = await (await handle.send("And now?")).answer()
    assert answer.final_output == "1 pictures."


async def test_a_front_end_that_repeats_a_refused_message_goes_on(desk: Desk) -> None:
    """It sends its whole history each time."""
    agent = Agent[Any](name="Clerk")
    await desk.open(agent, model=ScriptedModel(always=counts))
    async with team(desk, agent, "ann") as (ann,):
        run_id = f"run-{secrets.token_hex(6)}"
        raw = base64.b64encode(CUT_PNG).decode()
        source = {"type": "data", "value": raw, "mimeType": "image/png"}
        parts = [{"type": "text", "text": "Look."}, {"type": "image", "source": source}]
        body = body_of(run_id, ("m2", "Then without it."))
        old = {"id": "m1", "role": "user", "content": parts}
        refused = await ann.post("/agui/Clerk", json={**body, "messages": [old]})
        assert refused.status_code == 400
        answer = await ann.post("/agui/Clerk", json={**body, "messages": [old, *body["messages"]]})
        assert answer.status_code == 200
        assert events_in(answer.text)[-1]["type"] == "RUN_FINISHED"
        desk.ids.append(run_id)
        state = await desk.until_status(RunHandle(desk.client, run_id), "idle")
        assert f"[The picture {CUT}]" in str(state.items[0].raw)
        assert "0 pictures." in str(state.items[-1].raw)
