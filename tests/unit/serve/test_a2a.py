"""The wire of Agent2Agent without a server: cards, what is refused, and steps as events."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from outlast.a2a.protocol import CARD_PATH, AgentCard, Message, SendMessageRequest
from outlast.agents.agent import Agent
from outlast.contract.identity import IdentityKeys, new_shared_key, read_keys
from outlast.serve.app import desk
from outlast.serve.tokens import ConversationTokens
from outlast.serve.wires.a2a_events import TaskProgress
from outlast.serve.wires.ids import TaskId
from outlast.serve.wires.steps import (
    Finished,
    Place,
    Reason,
    TextBegun,
    TextDone,
    TextPiece,
    TextVoid,
)
from tests.unit.serve.test_app import CLIENT

KEY = "a-key-of-a-shop-that-nobody-guesses"
TOKENS = ConversationTokens(IdentityKeys(read_keys(new_shared_key())), audience="test")
DESK = Agent(
    name="Front desk",
    instructions="Never tell anybody the secret.",
    handoff_description="Answers questions about orders.",
)
RPC = "/a2a/Front%20desk"
HEADERS = {"Authorization": f"Bearer {KEY}", "A2A-Version": "1.0"}
TASK = str(TaskId("other", "customer-a2a-1"))


def _http(*agents: Agent[Any]) -> Any:
    app = desk(CLIENT, agents=agents, tokens=TOKENS, api_keys={"shop": KEY})
    transport = httpx2.ASGITransport(app, client=("127.0.0.1", 5000))
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost:8090")


@pytest.fixture
async def http() -> AsyncGenerator[Any]:
    async with _http(DESK) as client:
        yield client


# --- Cards ---------------------------------------------------------------------------------------


async def test_everybody_reads_the_card_and_nothing_of_the_instructions(http: Any) -> None:
    answer = await http.get(f"{RPC}{CARD_PATH}")
    assert answer.status_code == 200
    assert "secret" not in answer.text
    card = AgentCard.model_validate(answer.json())
    assert (card.name, card.description) == ("Front desk", "Answers questions about orders.")
    assert [
        (one.url, one.protocol_binding, one.protocol_version) for one in card.supported_interfaces
    ] == [
        ("http://localhost:8090/a2a/Front%20desk", "JSONRPC", "1.0"),
        ("http://localhost:8090/a2a/Front%20desk", "HTTP+JSON", "1.0"),
    ]
    assert card.security_schemes["bearer"]["httpAuthSecurityScheme"]["scheme"] == "Bearer"
    assert (await http.get(CARD_PATH)).json() == answer.json()


async def test_a_desk_with_several_agents_has_a_card_for_each(http: Any) -> None:
    async with _http(DESK, Agent(name="Other")) as several:
        assert (await several.get(f"/a2a/Other{CARD_PATH}")).json()["name"] == "Other"
        at_the_root = await several.get(CARD_PATH)
        assert at_the_root.status_code == 404
        assert "2 agents" in at_the_root.json()["error"]["message"]
    assert (await http.get(f"/a2a/Nobody{CARD_PATH}")).status_code == 404


# --- What is refused -----------------------------------------------------------------------------


def rpc(method: str, params: Any = None, **fields: Any) -> Any:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params, **fields}


def sent(*parts: Any, **fields: Any) -> Any:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": list(parts), **fields}
    return rpc("SendMessage", {"message": message})


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        (b"{", -32700, "no JSON"),
        (b"[" * 150, -32700, "no JSON"),
        ([], -32600, "JSON-RPC 2.0"),
        ({"method": "GetTask"}, -32600, "JSON-RPC 2.0"),
        (rpc("GetTask", [1]), -32600, "JSON-RPC 2.0"),
        (rpc("message/send"), -32601, "no such method"),
        (rpc("GetTask"), -32602, "id: Field required"),
        (rpc("GetTask", {"id": "no task"}), -32001, "no task"),
        (rpc("GetTask", {"id": TASK}), -32001, "no task"),
        (rpc("CancelTask", {"id": TASK}), -32001, "no task"),
        (rpc("SubscribeToTask", {"id": TASK}), -32001, "no task"),
        (rpc("GetTask", {"id": "task_" + "A" * 100_000}), -32001, "no task"),
        (rpc("ListTasks", {"pageSize": 101}), -32602, "pageSize"),
        (rpc("ListTasks", {"pageSize": 0}), -32602, "pageSize"),
        (rpc("CreateTaskPushNotificationConfig", {}), -32003, "no push"),
        (rpc("GetExtendedAgentCard"), -32004, "no extended card"),
        (sent(), -32602, "1 to 50 parts"),
        (sent({}), -32602, "one of text, raw and data"),
        (sent({"text": " "}), -32602, "empty"),
        (sent({"url": "http://10.0.0.1/"}), -32005, "fetches no addresses"),
        (sent({"raw": "?"}), -32602, "base64"),
        (sent({"raw": "aGk", "mediaType": "image/png,x"}), -32602, "mediaType"),
        (sent({"text": "hi"}, role="ROLE_AGENT"), -32602, "ROLE_USER"),
        (sent({"text": "hi"}, role="system"), -32602, "role"),
        (sent({"text": "hi"}, messageId=""), -32602, "messageId"),
        (sent({"text": "hi"}, taskId=TASK), -32001, "no task"),
        (sent({"text": "hi"}, contextId="other"), -32602, "no context"),
        (sent(*[{"text": "hi"}] * 51), -32602, "1 to 50 parts"),
    ],
)
async def test_a_program_reads_why_it_is_refused(
    http: Any, body: Any, code: int, words: str
) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = await http.post(RPC, headers=HEADERS, content=content)
    assert answer.status_code == 200
    error = answer.json()["error"]
    assert (error["code"], words in error["message"]) == (code, True), error
    assert error["data"][0]["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"


@pytest.mark.parametrize("method", ["SendMessage", "GetTask", "ListTasks", "Anything"])
async def test_who_has_no_key_gets_nothing(http: Any, method: str) -> None:
    body = rpc(method, sent({"text": "hi"})["params"] | {"id": TASK})
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer oc1.x"}):
        # The user of this machine is known without a key, but a page of somebody else is not.
        version = {"A2A-Version": "1.0", "Origin": "https://evil.example"}
        answer = await http.post(RPC, headers={**version, **headers}, json=body)
        assert answer.status_code in {401, 403}
        assert answer.json()["error"]["code"] == -32000


async def test_a_token_opens_no_other_conversation(http: Any) -> None:
    headers = HEADERS | {"Authorization": f"Bearer {TOKENS.mint('mine')}"}
    for body in (rpc("GetTask", {"id": TASK}), rpc("SubscribeToTask", {"id": TASK})):
        answer = await http.post(RPC, headers=headers, json=body)
        assert answer.json()["error"]["code"] == -32001
    other = await http.post(RPC, headers=headers, json=sent({"text": "hi"}, contextId="other"))
    assert "no context" in other.json()["error"]["message"]
    listed = await http.post(RPC, headers=headers, json=rpc("ListTasks", {"contextId": "other"}))
    assert listed.json()["result"]["tasks"] == []


@pytest.mark.parametrize("version", ["", "0.3", "1.1", "2.0"])
async def test_another_version_is_refused(http: Any, version: str) -> None:
    headers = HEADERS | {"A2A-Version": version}
    answer = await http.post(RPC, headers=headers, json=rpc("ListTasks", {}))
    assert answer.json()["error"]["code"] == -32009
    over_http = await http.get(f"{RPC}/tasks", headers=headers)
    assert over_http.status_code == 400
    [detail] = over_http.json()["error"]["details"]
    assert detail["reason"] == "VERSION_NOT_SUPPORTED"


async def test_http_and_json_spells_problems_as_statuses(http: Any) -> None:
    missing = await http.get(f"{RPC}/tasks/{TASK}", headers=HEADERS)
    assert missing.headers["Content-Type"] == "application/a2a+json"
    assert missing.json()["error"]["details"] == [
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "TASK_NOT_FOUND",
            "domain": "a2a-protocol.org",
        }
    ]
    assert (missing.status_code, missing.json()["error"]["status"]) == (404, "NOT_FOUND")
    for method, path, status in (
        ("POST", f"/tasks/{TASK}:cancel", 404),
        ("POST", f"/tasks/{TASK}:subscribe", 404),
        ("GET", f"/tasks/{TASK}:subscribe", 404),
        ("POST", f"/tasks/{TASK}/pushNotificationConfigs", 400),
        ("GET", "/extendedAgentCard", 400),
        ("GET", "/tasks?pageSize=1000", 400),
        ("GET", "/tasks?pageToken=x", 400),
        ("POST", "/message:send", 400),
    ):
        answer = await http.request(method, f"{RPC}{path}", headers=HEADERS)
        assert answer.status_code == status, (path, answer.text)


# --- Steps as events -----------------------------------------------------------------------------


def progress() -> TaskProgress:
    return TaskProgress(TaskId("r", "m"), is_team=False)


def shown(events: list[Any]) -> list[tuple[str, bool, bool]]:
    """Return the updates of artifacts: the text, whether it is added, and whether it is the last."""
    updates = [one["artifactUpdate"] for one in events if "artifactUpdate" in one]
    return [
        (one["artifact"]["parts"][0]["text"], one["append"], one["lastChunk"]) for one in updates
    ]


def test_a_void_text_is_replaced_by_the_next_one() -> None:
    at, task = Place(), progress()
    steps = [
        *(TextBegun(at), TextPiece(at, "Hel", "Hel"), TextVoid(at)),
        *(TextBegun(at), TextPiece(at, "Good", "Good"), TextPiece(at, " day", "Good day")),
        TextDone(at, "Good day"),
        *(TextBegun(at), TextPiece(at, "Bye", "Bye"), TextDone(at, "Bye")),
        Finished(at, "answered"),
    ]
    events = [event for step in steps for event in task.take(step)]
    assert shown(events) == [
        ("Hel", False, False),
        ("", False, False),
        ("Good", False, False),
        (" day", True, False),
        ("", True, True),
        ("Bye", False, False),
        ("", True, True),
    ]
    made = task.task()
    assert [(one.artifact_id, one.parts[0].text) for one in made.artifacts] == [
        ("message-1", "Good day"),
        ("message-2", "Bye"),
    ]
    assert made.status.state == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize(("is_cut", "words"), [(True, ["This answer was cut short."]), (False, [])])
def test_a_task_whose_answer_was_cut_off_says_so(is_cut: bool, words: list[str]) -> None:
    task = progress()
    list(task.take(Finished(Place(), "answered", is_cut_short=is_cut)))
    status = task.task().status
    assert status.state == "TASK_STATE_COMPLETED"
    said = [] if status.message is None else [one.text for one in status.message.parts]
    assert said == words


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        ("failed", "TASK_STATE_FAILED"),
        ("ended", "TASK_STATE_FAILED"),
        ("cancelled", "TASK_STATE_CANCELED"),
    ],
)
def test_a_task_that_is_not_answered_says_no_more_than_a_customer_reads(
    reason: Reason, state: str
) -> None:
    task = progress()
    [event] = task.take(Finished(Place(), reason))
    assert event["statusUpdate"]["status"]["state"] == state
    assert task.task().status.state == state


# --- Records -------------------------------------------------------------------------------------


def test_null_is_a_field_that_is_not_there_and_unknown_fields_are_ignored() -> None:
    read = SendMessageRequest.model_validate(
        {
            "message": {"messageId": "m", "role": "ROLE_USER", "parts": [], "contextId": None},
            "configuration": None,
            "metadata": {"anything": 1},
        }
    )
    assert read.message == Message(message_id="m", role="ROLE_USER", parts=[])
    assert read.message.record() == {"messageId": "m", "role": "ROLE_USER", "parts": []}
