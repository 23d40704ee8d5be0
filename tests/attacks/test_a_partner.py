"""A partner with an API key: it reaches what its key is for, and no conversation of anybody else."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from outlast.agents.agent import Agent
from outlast.agents.context.wait_address import WaitAddress
from outlast.agents.errors import UserError
from outlast.client.handle import RunHandle
from outlast.client.run_facts import run_facts
from outlast.contract.identity import new_shared_key
from outlast.serve.app import desk as desk_app
from outlast.serve.keys import ACTIONS, ApiKey, check_new, new_key, write_keys
from outlast.serve.wires.ids import ResponseId, TaskId
from outlast.testing import ScriptedModel, call
from outlast.views.run import loop_state
from tests.attacks.test_signed_deliveries import PAID, Shop, records_of
from tests.unit.serve.test_api import TOKENS, bearer
from tests.workflow.desk import PATIENCE_SECONDS, Desk
from tests.workflow.people import clerk, refunds
from tests.workflow.test_desk_api import opened
from tests.workflow.test_nested_approvals import desk_of
from tests.workflow.test_nested_approvals import refunds as refunding

RIVAL, RIVALS_DIGEST = new_key()
SHOP, SHOPS_DIGEST = new_key()
UNSEEN = "in the namespace 'default'. Is the id right"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", new_shared_key())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "keys.json"
    write_keys(found, [key_of("shop", SHOPS_DIGEST), key_of("rival", RIVALS_DIGEST)])
    return found


def key_of(name: str, digest: str, **fields: Any) -> ApiKey:
    actions = fields.pop("actions", ACTIONS)
    return ApiKey(name=name, digest=digest, actions=actions, waits=("*",), **fields)


@asynccontextmanager
async def at(desk: Desk, path: Path, *agents: Agent[Any]) -> AsyncGenerator[Any]:
    app = desk_app(
        desk.client, agents=agents, tokens=TOKENS, api_keys_file=path, task_queue=desk.queue
    )
    async with opened(app) as http:
        yield http


async def begun(desk: Desk, http: Any, agent: str, **fields: Any) -> RunHandle:
    """Return a conversation that the shop has begun."""
    body = {"agent": agent, "input": "Hello", "id": desk.new_id(), **fields}
    answer = await http.post("/api/conversations", json=body, headers=bearer(SHOP))
    assert answer.status_code == 201, answer.text
    assert answer.json()["token"]
    return RunHandle(desk.client, answer.json()["id"])


def everything(run_id: str, nested: bool = False) -> list[tuple[str, str, Any]]:
    """Return each way of a program to a conversation whose id it knows."""
    run = f"/api/conversations/{quote(run_id, safe='')}"
    response = str(ResponseId(run_id, "customer-1", 1))
    parts = [{"type": "text", "text": "I am the shop."}]
    thread: dict[str, Any] = {
        "threadId": run_id, "runId": "r1", "state": {}, "tools": [], "context": [],
        "forwardedProps": {}, "messages": [{"id": "m9", "role": "user", "content": "Hi."}],
    }  # fmt: skip
    writes: list[tuple[str, str, Any]] = [
        ("POST", f"{run}/messages", {"text": "I am the shop."}),
        ("POST", f"{run}/tokens", {}),
        (
            "POST",
            "/vercel/Front",
            {"id": run_id, "messages": [{"id": "m9", "role": "user", "parts": parts}]},
        ),
        ("POST", "/agui/Front", thread),
        ("POST", "/v1/responses", {"model": "Front", "conversation": run_id, "input": "Hi."}),
    ]
    return writes if nested else [
        *writes,
        ("GET", run, None),
        ("GET", f"{run}/events", None),
        ("GET", f"{run}/requests", None),
        ("GET", f"{run}/waits", None),
        ("POST", f"{run}/cancel", {}),
        ("POST", f"{run}/waits/finish", {"token": "t", "value": 1}),
        ("POST", "/api/conversations", {"agent": "Front", "input": "Hello", "id": run_id}),
        ("GET", f"/v1/responses/{response}", None),
        ("POST", f"/v1/responses/{response}/cancel", {}),
    ]  # fmt: skip


async def test_a_partner_does_nothing_to_a_conversation_that_another_one_began(
    desk: Desk, path: Path
) -> None:
    front = Agent[Any](name="Front")
    await desk.open(front, model=ScriptedModel("Your PIN is 1234.", "More."))
    async with at(desk, path, front) as http:
        handle = await begun(desk, http, "Front")
        before = await desk.until_status(handle, "idle")
        for method, place, body in everything(handle.id):
            answer = await http.request(method, place, json=body, headers=bearer(RIVAL))
            assert answer.status_code == 404, (method, place, answer.text)
            assert UNSEEN in answer.text, (method, place, answer.text)
        facts = await run_facts(desk.client, handle.id)
        assert facts is not None
        assert facts.program == "shop"
        own = await http.get(f"/api/conversations/{handle.id}", headers=bearer(SHOP))
        assert own.status_code == 200
    assert loop_state(await handle.state()) == before
    await handle.cancel()


async def test_a_partner_speaks_to_no_run_that_works_for_its_conversation(
    desk: Desk, path: Path
) -> None:
    ran: list[str] = []
    front = desk_of(refunding(ran), name="Front")
    await desk.open(front, model=_asking())
    async with at(desk, path, front) as http:
        handle = await begun(desk, http, "Front")
        await desk.until_status(handle, "waiting")
        (nested,) = await desk.nested(handle)
        before = loop_state(await nested.state())
        for method, place, body in everything(nested.id, nested=True):
            answer = await http.request(method, place, json=body, headers=bearer(SHOP))
            assert answer.status_code == 403, (method, place, answer.text)
            assert "This API key is not for this" in answer.text
        read = f"/api/conversations/{quote(nested.id, safe='')}"
        assert (await http.get(read, headers=bearer(SHOP))).status_code == 200
        assert (await http.get(read, headers=bearer(RIVAL))).status_code == 404
        assert loop_state(await nested.state()) == before
    await handle.cancel()


def _asking() -> ScriptedModel:
    return ScriptedModel(
        [call("ask_refunds", "o1", input="Refund A.")], [call("refund", "n1", order="A")]
    )


@pytest.mark.parametrize("has_scope", [True, False])
async def test_a_context_of_a2a_is_a_conversation_and_no_run_below_it(
    desk: Desk, path: Path, has_scope: bool
) -> None:
    """Also a key without a scope has exactly the contexts that it began."""
    front = desk_of(refunding([]), name="Front")
    await desk.open(front, model=_asking())
    app = desk_app(
        desk.client,
        agents=[front],
        task_queue=desk.queue,
        **({"api_keys_file": path} if has_scope else {"api_keys": {"shop": SHOP}}),  # type: ignore[arg-type]
    )
    headers = {**bearer(SHOP), "A2A-Version": "1.0"}

    def sent(context: str) -> Any:
        message = {
            "messageId": f"{desk.queue}{context}",
            "role": "ROLE_USER",
            "parts": [{"text": "Hi."}],
        }
        return {
            "message": {**message, "contextId": context},
            "configuration": {"returnImmediately": True},
        }

    async with opened(app) as http:
        first = await http.post("/a2a/Front/message:send", json=sent(""), headers=headers)
        context = first.json()["task"]["contextId"]
        desk.ids.append(context)
        handle = RunHandle(desk.client, context)
        await desk.until_status(handle, "waiting")
        (nested,) = await desk.nested(handle)
        for name in (nested.id, f"{context}0", context.upper()):
            refused = await http.post("/a2a/Front/message:send", json=sent(name), headers=headers)
            assert refused.status_code == 400
            assert "There is no context" in refused.text
        assert not (await nested.state()).unread
        again = await http.post("/a2a/Front/message:send", json=sent(context), headers=headers)
        assert again.status_code == 200
        listed = await http.get("/a2a/Front/tasks", headers=headers)
        own = [one["contextId"] for one in listed.json()["tasks"]]
        assert own.count(context) == 2
        assert nested.id not in own
    await handle.cancel()


async def test_the_source_of_a_delivery_is_the_key_and_its_wait_is_one_that_the_key_names(
    desk: Desk, path: Path
) -> None:
    shop = Shop()
    await desk.open(shop.agent, model=shop.model)
    courier = key_of("courier", RIVALS_DIGEST, conversations="all")
    write_keys(path, [courier.model_copy(update={"waits": ("pickup",)})])
    handle = await desk.start(shop.agent)
    await desk.until_status(handle, "parked")
    (wait,) = await handle.pending_waits()
    place = f"/api/conversations/{handle.id}/waits"
    async with at(desk, path, shop.agent) as http:
        assert (await http.get(place, headers=bearer(RIVAL))).json() == {"waits": []}
        body = {"token": wait.token, "value": PAID}
        refused = await http.post(f"{place}/finish", json=body, headers=bearer(RIVAL))
        assert (refused.status_code, "not for the wait 'payment'" in refused.text) == (403, True)
        write_keys(path, [courier.model_copy(update={"waits": ("payment",)})])
        lie = {**body, "source": "bank"}
        lied = await http.post(f"{place}/finish", json=lie, headers=bearer(RIVAL))
        assert lied.status_code == 400
        assert shop.shipped == []
        done = await http.post(f"{place}/finish", json=body, headers=bearer(RIVAL))
        assert done.status_code == 200
    await desk.result(handle)
    assert shop.shipped == [PAID]
    assert [one.by for one in await records_of(handle) if one.event == "delivered"] == ["courier"]


async def test_a_key_that_is_revoked_or_replaced_opens_nothing_from_then_on(
    desk: Desk, path: Path
) -> None:
    agent = clerk()
    await desk.open(agent, model=ScriptedModel(refunds(5), "Done."))
    async with at(desk, path, agent) as http:
        handle = await begun(desk, http, "Clerk")
        place = f"/api/conversations/{handle.id}"
        assert (await http.get(place, headers=bearer(SHOP))).status_code == 200
        new, digest = new_key()
        write_keys(path, [key_of("shop", digest)])
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert (await http.get(place, headers=bearer(SHOP))).status_code == 401
            assert (await http.get(place, headers=bearer(new))).status_code == 200
        write_keys(path, [])
        assert (await http.get(place, headers=bearer(new))).status_code == 401
    await handle.cancel()


async def test_a_key_of_a_tenant_begins_conversations_of_that_tenant_only(
    desk: Desk, path: Path
) -> None:
    agent = clerk()
    await desk.open(agent, model=ScriptedModel(refunds(5), "Done.", refunds(5), "Done."))
    write_keys(path, [key_of("shop", SHOPS_DIGEST, tenants=("acme",), agents=("Clerk",))])
    async with at(desk, path, agent, Agent[Any](name="Other")) as http:
        handle = await begun(desk, http, "Clerk")
        facts = await run_facts(desk.client, handle.id)
        assert facts is not None
        assert (facts.tenant, facts.program) == ("acme", "shop")
        for fields in ({"tenant": "globex"}, {"agent": "Other"}):
            body = {"agent": "Clerk", "input": "Hello", **fields}
            refused = await http.post("/api/conversations", json=body, headers=bearer(SHOP))
            assert refused.status_code == 403
            assert "You cannot begin a conversation" in refused.text
    await handle.cancel()


HALF: Final = "\\ud800"
"""Half a character, as JSON writes it."""

MESSAGE: Final = '{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "x"}]}'
SAID: Final = '{"id": "u1", "role": "user", "content": "x"}'
REST: Final = '"runId": "r", "state": {}, "tools": [], "context": [], "forwardedProps": {}'
ODD: Final = [
    ("/v1/responses", f'{{"model": "Front", "input": "Hi.", "conversation": "{HALF}"}}', 400),
    ("/vercel/Front", f'{{"id": "{HALF}", "messages": [{MESSAGE}]}}', 400),
    ("/agui/Front", f'{{"threadId": "{HALF}", "messages": [{SAID}], {REST}}}', 400),
    ("/api/conversations", '{"agent": "Front", "input": "Hi.", "id": ""}', 400),
    ("/api/conversations", '{"agent": "Front", "input": "Hi.", "id": ".."}', 400),
    (
        "/a2a/Front",
        '{"jsonrpc": "2.0", "id": NaN, "method": "GetTask", "params": {"id": "x"}}',
        200,
    ),
    ("/a2a/Front", '{"jsonrpc": "2.0", "id": 1e999, "method": "GetTask", "params": {}}', 200),
]


async def test_ids_and_numbers_that_cannot_be_are_refused_in_a_sentence(
    desk: Desk, path: Path
) -> None:
    front = Agent[Any](name="Front")
    await desk.open(front, model=ScriptedModel())
    headers = {**bearer(SHOP), "Content-Type": "application/json", "A2A-Version": "1.0"}
    async with at(desk, path, front) as http:
        for place, body, status in ODD:
            answer = await http.post(place, content=body, headers=headers)
            assert answer.status_code == status, (place, body, answer.text)
            assert "failed" not in answer.text
            assert "NaN" not in answer.text


def test_an_id_of_a_task_a_response_or_a_wait_has_one_spelling() -> None:
    found, task = str(ResponseId("case-1", "start", 1)), str(TaskId("case-1", "start"))
    token = WaitAddress("case-1", 0, 1, "c1", "w").token
    assert str(ResponseId.parse(found)) == found
    assert str(TaskId.parse(task)) == task
    assert WaitAddress.parse(token).token == token
    for end in ("=", " ", "!", "\n"):
        assert ResponseId.parse(found + end) is None
        assert TaskId.parse(task + end) is None
        with pytest.raises(ValueError, match="no token of a wait"):
            WaitAddress.parse(token + end)


def test_no_other_program_gets_the_name_of_a_key_that_was_revoked(path: Path) -> None:
    """The conversations of the first one have its name, and would be the other one's."""
    write_keys(path, [key_of("shop", SHOPS_DIGEST)])
    write_keys(path, [])
    for name in ("shop", "rival"):
        with pytest.raises(UserError, match="which was revoked"):
            check_new(path, name)
    check_new(path, "third")
    write_keys(path, [key_of("shop", SHOPS_DIGEST)])  # by whoever edits the file
    with pytest.raises(UserError, match="has a key 'shop'"):
        check_new(path, "shop")
