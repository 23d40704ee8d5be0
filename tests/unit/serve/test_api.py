"""The HTTP API over recordings of runs: who gets which answer, and what refusals say."""

import base64
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx2
import jsonschema
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCStatusCode

from outlast.agents.agent import Agent
from outlast.agents.context.wait_address import WaitAddress
from outlast.client.handle import RunHandle
from outlast.client.identity import person
from outlast.contract.identity import IdentityKeys, new_shared_key, read_keys
from outlast.deliveries import WebhookEvent, Webhooks, github
from outlast.deliveries.endpoints import DELIVERY_ENDPOINTS
from outlast.deliveries.problems import JSONAnswer
from outlast.deliveries.receiver import delivery_routes
from outlast.serve import api, openapi
from outlast.serve.access import RULES, Role, RoleRules
from outlast.serve.api import ENDPOINTS
from outlast.serve.feed import Feed, FeedLimits
from outlast.serve.keys import ApiKeys
from outlast.serve.live import EVENTS
from outlast.serve.login import ThisMachine
from outlast.serve.records import TokenView, View
from outlast.serve.routing import Desk, EscapedPaths
from outlast.serve.tokens import ConversationTokens
from tests.unit.client.recorded import FakeClient, Recording, refused
from tests.unit.serve.page_desk import Entries
from tests.unit.serve.test_inbox_page import NOW, entry

KEY = "a-key-of-a-shop-that-nobody-guesses"
TOKENS = ConversationTokens(IdentityKeys(read_keys(new_shared_key())), audience="test")
RUN = "/api/conversations/support-42"
SHOP = "https://shop.example.com"
ROOT = Path(__file__).parents[3]
ROLES: tuple[Role, ...] = ("viewer", "decider", "operator")


def asking(**terms: Any) -> Recording:
    """A run that waits for the approval of a refund."""
    one = Recording()
    one.asked(keep_open=True)
    one.prepared()
    arguments = '{"iban": "SECRET-iban"}'
    raw = {"type": "function_call", "name": "refund", "call_id": "c1", "arguments": arguments}
    said = {"type": "message", "role": "assistant", "content": "I look."}
    plan = {"item": 1, "kind": "tool", "approval": {"terms": terms}}
    one.activity(2, {"items": [said, raw], "calls": [plan]})
    one.task()
    return one


def app_of(client: FakeClient, *roles: Role, **fields: Any) -> Starlette:
    runs = cast("Client", client)
    app = Starlette(
        routes=[*api.ROUTES, *openapi.ROUTES],
        middleware=[Middleware(EscapedPaths)],
        max_body_size=10_000,
    )
    limits = FeedLimits(readers_per_run=1)
    settings: dict[str, Any] = {
        "client": runs,
        "feed": Feed(lambda run_id: RunHandle(runs, run_id).stream_states(), limits),
        "login": ThisMachine(person("ann", groups=["billing"])),
        "roles": RoleRules(anybody=roles or ROLES),
        "tokens": TOKENS,
        "api_keys": ApiKeys({"shop": KEY}),
        "agents": (Agent[Any](name="Triage"),),
        "origins": frozenset({SHOP}),
    }
    app.state.desk = Desk(**(settings | fields))
    return app


@asynccontextmanager
async def opened(client: FakeClient, *roles: Role, **fields: Any) -> AsyncGenerator[Any]:
    transport = httpx2.ASGITransport(app_of(client, *roles, **fields), client=("127.0.0.1", 5000))
    origin = {"Origin": "http://localhost"}
    async with httpx2.AsyncClient(
        transport=transport, base_url="http://localhost", headers=origin
    ) as http:
        yield http


@pytest.fixture
async def http() -> AsyncGenerator[Any]:
    async with opened(FakeClient(asking().events)) as one:
        yield one


def bearer(value: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {value}"}


CUSTOMER = bearer(TOKENS.mint("support-42"))


def error_of(answer: Any) -> tuple[int, str, str]:
    problem = answer.json()["error"]
    return answer.status_code, problem["code"], problem["message"]


# --- Reading -------------------------------------------------------------------------------------


async def test_the_team_reads_what_a_run_did_and_waits_for(http: Any) -> None:
    run = (await http.get(RUN)).json()
    assert (run["id"], run["status"], run["waits_for"]) == (
        "support-42",
        "waiting",
        "approval of refund",
    )
    assert [one["kind"] for one in run["steps"]] == ["message", "model", "request"]
    (request,) = run["requests"]
    assert request["headline"] == 'refund(iban="SECRET-iban")'
    assert request["model_words"] == "I look."
    assert (await http.get(f"{RUN}/requests/a1")).json() == request
    assert (await http.get(f"{RUN}/requests")).json() == {"requests": [request]}


async def test_a_customer_reads_their_messages_and_nothing_else(http: Any) -> None:
    answer = await http.get(RUN, headers=CUSTOMER)
    plain: dict[str, Any] = {"attachments": [], "left_out": False, "is_cut_short": False}
    assert answer.json() == {
        "id": "support-42",
        "messages": [
            {"id": "i0", "by": "customer", "text": "Hello", **plain},
            {"id": "i1", "by": "assistant", "text": "I look.", **plain},
        ],
        "unread": [],
        "works": True,
        "has_ended": False,
        "waits_for": None,
        "trouble": None,
        "follows": None,
        "followed_by": None,
    }
    assert answer.headers["Cache-Control"] == "no-store"


async def test_a_conversation_that_has_not_begun_is_empty_for_its_customer(http: Any) -> None:
    later = bearer(TOKENS.mint("later"))
    answer = await http.get("/api/conversations/later", headers=later)
    assert (answer.status_code, answer.json()["messages"]) == (200, [])
    for path in ("later", "later/events", "later/requests"):
        assert (await http.get(f"/api/conversations/{path}")).status_code == 404
    assert (await http.get("/api/conversations/later/events", headers=later)).status_code == 404


async def test_half_a_character_in_an_answer_is_sent() -> None:
    view = TokenView(token="half \ud83d of a smile")
    assert b"half \\ud83d of" in bytes(JSONAnswer(view.record()).body)


@pytest.mark.parametrize("roles", [("viewer",), ("operator",), ("decider",)])
async def test_only_those_who_may_see_arguments_get_them(roles: tuple[Role, ...]) -> None:
    async with opened(FakeClient(asking().events), *roles) as http:
        answers = [await http.get(f"{RUN}{path}") for path in ("", "/requests", "/requests/a1")]
        answers.append(await http.get(RUN, headers=bearer(KEY)))
    seen = ["SECRET-iban" in one.text for one in answers]
    assert seen == [roles != ("viewer",)] * 3 + [False]


async def test_what_there_is_not_is_said(http: Any) -> None:
    assert error_of(await http.get("/api/conversations/nobody"))[:2] == (404, "run_not_found")
    assert error_of(await http.get(f"{RUN}/requests/a9")) == (
        404,
        "unknown_request",
        "The run 'support-42' has no request 'a9'.",
    )


# --- Bodies and queries --------------------------------------------------------------------------

A_REQUEST = {"conversation": "c", "request": "a1", "digest": "d"}
BODIES: Mapping[tuple[str, str], str] = {
    ("messages", '{"text": "Hi"'): "The body is no JSON: EOF while parsing an object at line 1 "
    "column 13.",
    ("messages", "{}"): "Write either `text` or `parts`.",
    ("messages", '{"text": "a", "parts": []}'): "Write either `text` or `parts`.",
    ("messages", '{"text": "a", "by": "eve"}'): "The body has no field 'by'. It has: text, parts, "
    "message_id, agent.",
    ("messages", '{"text": 5}'): "The field 'text' should be a valid string.",
    ("messages", '{"text": " "}'): "The message is empty. Write something.",
    ("messages", '{"parts": [{"type": "item_reference"}]}'): "A part of a message is one of "
    "input_text, input_image, input_file, not 'item_reference'.",
    ("messages", "[]"): "The body should be an object.",
    ("../../inbox/plan", '{"conversations": []}'): "The field 'conversations' should have at least "
    "1 item, not 0.",
    (
        "../../inbox/decide",
        json.dumps({"type": "approve", "message": "Y", "requests": [A_REQUEST]}),
    ): "A decision of type approve has no `message`.",
    ("../../inbox/decide", '{"type": "edit", "requests": []}'): "The field 'type' should be "
    "'approve' or 'reject'.",
    ("tokens", '{"lifetime_seconds": 0}'): "The field 'lifetime_seconds' should be greater than or "
    "equal to 1.",
    ("set-aside", '{"item": -1}'): "The field 'item' should be greater than or equal to 0.",
    ("set-aside", '{"item": 1, "part": 0.5}'): "The field 'part' should be a valid integer.",
    ("set-aside", '{"item": true}'): "The field 'item' should be a valid integer.",
    ("take-back", "{}"): "The body lacks the field 'item'.",
    (
        "take-back",
        '{"item": 1, "reason": "x"}',
    ): "The body has no field 'reason'. It has: item, part.",
    (
        "snooze",
        '{"until": "soon"}',
    ): "The field 'until' does not fit. Write a length, such as 2h, or a "
    "time with a zone in ISO 8601.",
    (
        "snooze",
        '{"until": "2030-01-01T00:00"}',
    ): "The field 'until' does not fit. Write a length, such "
    "as 2h, or a time with a zone in ISO 8601.",
    ("comment", "{}"): "The body lacks the field 'text'.",
    (
        "comment",
        '{"text": "a", "by": "eve"}',
    ): "The body has no field 'by'. It has: text, comment_id.",
    ("assign", '{"to": 5}'): "The field 'to' should be a valid string.",
    (
        "assign",
        json.dumps({"team": "t" * 501}),
    ): "The field 'team' should have at most 500 characters.",
    ("tag", '{"tags": "vip"}'): "The field 'tags' should be a valid array.",
    ("hold", '{"mode": "later"}'): "The field 'mode' should be 'immediate' or 'after_turn'.",
    ("say", "{}"): "The body lacks the field 'text'.",
    ("requests/a1/decide", '{"type": "approve"}'): "The body lacks the field 'digest'.",
    (
        "requests/a1/decide",
        '{"type": "approve", "digest": "d", "by": "bob"}',
    ): "The body has no field 'by'. It has: type, digest, message, arguments, response, question, "
    "remember, until.",
    (
        "requests/a1/decide",
        '{"type": "approve", "digest": "d", "response": 1}',
    ): "A decision of type approve has no `response`.",
    (
        "requests/a1/decide",
        '{"type": "edit", "digest": "d"}',
    ): "A decision of type edit needs `arguments`.",
    (
        "requests/a1/decide",
        '{"type": "reject", "digest": "d", "until": "run"}',
    ): "`until` says how long `remember` holds. Send both, or neither.",
}


@pytest.mark.parametrize(("place", "message"), BODIES.items())
async def test_a_mistake_in_a_body_is_a_sentence(
    http: Any, place: tuple[str, str], message: str
) -> None:
    path, body = place
    headers = {"Content-Type": "application/json"}
    answer = await http.post(f"{RUN}/{path}", content=body, headers=headers)
    status, _, said = error_of(answer)
    assert (status, said) == (400, message)


async def test_a_form_of_another_page_is_no_json(http: Any) -> None:
    answer = await http.post(f"{RUN}/messages", content='{"text": "Hi"}')
    assert error_of(answer)[:2] == (415, "not_json")


async def test_a_body_has_an_end(http: Any) -> None:
    answer = await http.post(f"{RUN}/messages", json={"text": "a" * 10_001})
    assert answer.status_code == 413


QUERIES: Mapping[str, str] = {
    "/api/conversations?status=sleeping": "The parameter 'status' should be 'running', 'waiting'",
    "/api/conversations?limit=0": "The parameter 'limit' should be greater than or equal to 1.",
    "/api/conversations?limit=5&limit=6": "The parameter 'limit' comes more than once.",
    "/api/conversations?user=ann": "The query has no parameter 'user'. It has: limit, page, status",
    "/api/conversations?page=%F0": "Send the field `next` of the page before as it came.",
    "/api/inbox?due=soon": "Write a length, such as 2h, or a time in ISO 8601.",
    "/api/inbox?risk=huge": "The parameter 'risk' should be 'low', 'medium' or 'high'.",
    f"{RUN}/events?from=x": "'x' is no cursor. Send the id of the last event back as it came.",
    f"{RUN}/events?after=x": "The query has no parameter 'after'. It has: from.",
}


@pytest.mark.parametrize(("path", "message"), QUERIES.items())
async def test_a_mistake_in_a_query_is_a_sentence(http: Any, path: str, message: str) -> None:
    status, _, said = error_of(await http.get(path))
    assert status == 400
    assert message in said


# --- Acting --------------------------------------------------------------------------------------


async def decided(client: FakeClient, body: dict[str, Any], *roles: Role, path: str = "") -> Any:
    async with opened(client, *(roles or ROLES)) as http:
        request = (await http.get(f"{RUN}/requests/a1")).json()
        fields = {"digest": request["digest"], **body}
        return await http.post(f"{RUN}/requests/a1/{path or 'decide'}", json=fields)


RECEIPT = {"request_id": "a1", "status": "approved", "by": "ann", "votes": 1, "votes_needed": 1}


async def test_a_decision_is_that_of_the_login_for_what_was_seen() -> None:
    client = FakeClient(asking().events, answer=RECEIPT)
    body = {"type": "reject", "message": "Not now.", "remember": "tool_with_args", "until": "run"}
    answer = await decided(client, body)
    assert answer.json() == {
        "run_id": "support-42",
        **RECEIPT,
        "is_kept": False,
        "is_queued": False,
        "words": "Approved by ann. The call runs.",
    }
    ((_, name, sent, _),) = [one for one in client.calls if one[0] == "update"]
    assert (name, sent["type"], sent["message"]) == ("decide", "reject", "Not now.")
    assert (sent["by"], sent["groups"], sent["channel"]) == ("ann", ["billing"], "desk")
    assert (sent["remember"], sent["remember_scope"]) == (True, "tool_with_args")
    assert sent["remember_until"] == "run"
    assert sent["seen"]["arguments"] == sent["args_digest"] != ""


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"type": "approve"}, "approve"),
        ({"type": "edit", "arguments": {"iban": "DE1"}}, "edit"),
        ({"type": "respond", "response": {"done": True}}, "respond"),
        ({"type": "ask_back", "question": "Why?"}, "reject"),
        ({"type": "withdraw"}, "withdraw"),
    ],
)
async def test_everything_that_a_person_can_decide_is_sent(body: dict[str, Any], kind: str) -> None:
    client = FakeClient(asking().events, answer=RECEIPT)
    assert (await decided(client, body)).status_code == 200
    ((_, _, sent, _),) = [one for one in client.calls if one[0] == "update"]
    assert (sent["type"], sent["by"]) == (kind, "ann")


async def test_what_has_changed_since_is_not_decided() -> None:
    client = FakeClient(asking().events, answer=RECEIPT)
    answer = await decided(client, {"type": "approve", "digest": "0" * 64})
    status, code, message = error_of(answer)
    assert (status, code) == (409, "decision_refused")
    assert message.startswith("Approval a1 is no longer what you have seen")
    assert not [one for one in client.calls if one[0] == "update"]


async def test_a_refusal_of_the_run_is_a_conflict() -> None:
    error = ApplicationError("Approval a1 is for leads.", type="decision_refused")
    client = FakeClient(asking().events, answer=WorkflowUpdateFailedError(error))
    answer = await decided(client, {"type": "approve"})
    assert error_of(answer) == (409, "decision_refused", "Approval a1 is for leads.")


@pytest.mark.parametrize("path", ["decide", "claim", "unclaim"])
async def test_who_only_watches_decides_nothing(path: str) -> None:
    client = FakeClient(asking().events, answer=RECEIPT)
    answer = await decided(client, {"type": "approve"}, "viewer", path=path)
    status, _, message = error_of(answer)
    assert status == 403
    assert "that needs the role decider" in message
    assert not [one for one in client.calls if one[0] == "update"]


async def test_a_request_that_is_about_no_budget_is_not_extended() -> None:
    client = FakeClient(asking().events, answer=RECEIPT)
    answer = await decided(client, {"extend_by": 5}, "operator", path="extend")
    message = "The request a1 is not about a budget."
    assert error_of(answer) == (400, "no_budget", message)


async def test_a_message_keeps_its_id_when_it_is_repeated() -> None:
    client = FakeClient(asking().events, answer={"status": "running", "turns": 1, "waits": True})
    async with opened(client) as http:
        for _ in range(2):
            body = {"text": "Hurry!", "message_id": "m-7"}
            answer = await http.post(f"{RUN}/messages", json=body, headers=CUSTOMER)
            assert (answer.status_code, answer.json()) == (
                202,
                {"id": "support-42", "message_id": "m-7"},
            )
    sent = [(one[2]["input"], one[3]) for one in client.calls if one[0] == "update"]
    assert sent == [("Hurry!", "customer-m-7")] * 2


def waiting_for_a_colleague() -> FakeClient:
    """A run with a message of its customer and one of a program that nothing has taken."""
    one = asking()
    for message_id in ("customer-m-7", "m-of-a-program"):
        one.update("send", {"input": "Hurry!", "message_id": message_id}, before=one.last)
    one.task()
    return FakeClient(one.events, answer={"status": "waiting", "turns": 1, "waits": True})


@pytest.mark.parametrize("headers", [CUSTOMER, bearer(KEY), {}], ids=["customer", "program", "ann"])
async def test_a_message_is_withdrawn_by_the_id_of_its_receipt(headers: dict[str, str]) -> None:
    client = waiting_for_a_colleague()
    async with opened(client) as http:
        answer = await http.post(f"{RUN}/messages/m-7/withdraw", headers=headers)
    assert (answer.status_code, answer.json()) == (200, {"id": "support-42", "message_id": "m-7"})
    ((_, name, sent, update_id),) = [one for one in client.calls if one[0] == "update"]
    assert (name, sent["message_id"]) == ("withdraw", "customer-m-7")
    assert update_id == "withdraw-customer-m-7"


@pytest.mark.parametrize("given", ["customer-m-7", "m-of-a-program"])
async def test_only_the_team_withdraws_what_others_sent(given: str) -> None:
    client = waiting_for_a_colleague()
    async with opened(client) as http:
        unread = (await http.get(RUN)).json()["unread"]
        assert given in [one["id"] for one in unread]
        for headers in ({}, CUSTOMER, bearer(KEY)):
            await http.post(f"{RUN}/messages/{given}/withdraw", headers=headers)
    sent = [one[2]["message_id"] for one in client.calls if one[0] == "update"]
    assert sent == [given, f"customer-{given}", f"customer-{given}"]


async def test_a_message_that_the_run_has_taken_is_not_withdrawn() -> None:
    client = waiting_for_a_colleague()
    error = ApplicationError("No such message waits.", type="user_error")
    client.answers = [WorkflowUpdateFailedError(error)]
    async with opened(client, "viewer") as http:
        answer = await http.post(f"{RUN}/messages/m-7/withdraw", headers=CUSTOMER)
        assert error_of(answer) == (409, "refused", "No such message waits.")
        odd = await http.post(f"{RUN}/messages/a%2Fb/withdraw", headers=CUSTOMER)
        assert odd.status_code == 400
        assert (await http.post(f"{RUN}/messages/m-7/withdraw")).status_code == 403


# --- Attachments ---------------------------------------------------------------------------------

PNG = b"\x89PNG\r\n\x1a\nrest"
PAGE = b"<script>alert(1)</script>"


def with_files() -> FakeClient:
    """A run with a message of its customer that has a photo and a file."""
    one = asking()
    image, page = (base64.b64encode(content).decode() for content in (PNG, PAGE))
    parts = [
        {"type": "input_text", "text": "Look"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{image}"},
        {"type": "input_file", "filename": "a.html", "file_data": f"data:text/html;base64,{page}"},
        {"type": "input_image", "image_url": "https://evil.example.com/a.png"},
    ]
    content = [{"role": "user", "content": parts}]
    one.update("send", {"input": content, "message_id": "customer-m-7"}, before=one.last)
    one.task()
    return FakeClient(one.events)


async def test_a_customers_attachments_are_read_by_reference() -> None:
    async with opened(with_files()) as http:
        answer = await http.get(RUN, headers=CUSTOMER)
        check("CustomerConversation", answer.json())
        [message] = answer.json()["unread"]
        photo, page, elsewhere = message["attachments"]
        assert (photo["type"], photo["filename"]) == ("input_image", None)
        assert (page["type"], page["filename"]) == ("input_file", "a.html")
        assert "base64" not in answer.text
        shown = await http.get(photo["url"], headers={**CUSTOMER, "Origin": SHOP})
        assert (shown.content, shown.headers["Content-Type"]) == (PNG, "image/png")
        assert shown.headers[ALLOWED] == SHOP
        saved = await http.get(page["url"], headers=bearer(KEY))
        assert (saved.content, saved.headers["Content-Disposition"]) == (PAGE, "attachment")
        assert saved.headers["Content-Type"] == "application/octet-stream"
        assert "sandbox" in saved.headers["Content-Security-Policy"]
        base = photo["url"].rpartition("/")[0]
        for url in (elsewhere["url"], f"{base}/9", f"{base}/-1", f"{base}/²"):
            assert (await http.get(url, headers=CUSTOMER)).status_code == 404
        stranger = await http.get(photo["url"], headers=bearer(TOKENS.mint("other")))
        assert stranger.status_code in {401, 403}


# --- Several requests at once --------------------------------------------------------------------


async def planned(http: Any, *runs: str) -> list[dict[str, Any]]:
    answer = await http.post("/api/inbox/plan", json={"conversations": list(runs)})
    check("BulkPlan", answer.json())
    return answer.json()["steps"]


async def test_requests_are_decided_together_as_they_were_seen() -> None:
    client = FakeClient(asking(bulk=True).events, answer=RECEIPT)
    async with opened(client) as http:
        step, gone = await planned(http, "support-42", "nobody", "support-42")
        assert (step["request"], step["problem"]) == ("a1", None)
        assert step["headline"] == 'refund(iban="SECRET-iban")'
        assert (gone["conversation"], gone["request"], gone["digest"]) == ("nobody", None, None)
        assert "There is no run 'nobody'" in gone["problem"]
        seen = {one: step[one] for one in ("conversation", "request", "digest")}
        requests = [
            {**seen, "digest": "0" * 64, "request": "a9"},
            {**seen, "conversation": "nobody"},
            seen,
        ]
        body = {"type": "reject", "requests": requests, "message": "Not now."}
        answer = await http.post("/api/inbox/decide", json=body)
        stale = await http.post(
            "/api/inbox/decide",
            json={"type": "approve", "requests": [{**seen, "digest": "0" * 64}]},
        )
    check("BulkOutcomes", answer.json())
    first, second, third = answer.json()["outcomes"]
    assert (first["receipt"], first["refused"]) == (None, "It does not wait any more.")
    assert "There is no run" in second["refused"]
    assert third["receipt"]["by"] == "ann"
    assert "is no longer what you have seen" in stale.json()["outcomes"][0]["refused"]
    ((_, name, sent, _),) = [one for one in client.calls if one[0] == "update"]
    assert (name, sent["type"], sent["message"], sent["by"]) == (
        "decide",
        "reject",
        "Not now.",
        "ann",
    )


async def test_what_needs_a_decision_of_its_own_is_left_alone() -> None:
    for terms in ({}, {"bulk": True, "risk": "high"}):
        client = FakeClient(asking(**terms).events, answer=RECEIPT)
        async with opened(client) as http:
            (step,) = await planned(http, "support-42")
            seen = {one: step[one] for one in ("conversation", "request", "digest")}
            body = {"type": "approve", "requests": [seen]}
            (outcome,) = (await http.post("/api/inbox/decide", json=body)).json()["outcomes"]
        assert "so it needs a decision of its own" in step["problem"]
        assert (outcome["receipt"], outcome["refused"]) == (None, step["problem"])
        assert not [one for one in client.calls if one[0] == "update"]


async def test_only_deciders_decide_together() -> None:
    client = FakeClient(asking(bulk=True).events, answer=RECEIPT)
    seen = {"conversation": "support-42", "request": "a1", "digest": "d"}
    for headers, roles in (({}, ("viewer", "operator")), (bearer(KEY), ROLES), (CUSTOMER, ROLES)):
        async with opened(client, *cast("Any", roles)) as http:
            plan = await http.post(
                "/api/inbox/plan", json={"conversations": ["support-42"]}, headers=headers
            )
            decided = await http.post(
                "/api/inbox/decide", json={"type": "approve", "requests": [seen]}, headers=headers
            )
        assert {plan.status_code, decided.status_code} <= {401, 403}
        assert "SECRET" not in plan.text
    assert not [one for one in client.calls if one[0] == "update"]


async def test_the_first_message_names_an_agent_of_the_desk(http: Any) -> None:
    later, headers = "/api/conversations/later/messages", bearer(TOKENS.mint("later"))
    answer = await http.post(later, json={"text": "Hi"}, headers=headers)
    assert error_of(answer)[:2] == (404, "not_begun")
    answer = await http.post(later, json={"text": "Hi", "agent": "Secret"}, headers=headers)
    assert error_of(answer) == (
        400,
        "unknown_agent",
        "This desk has no agent 'Secret'. Agents: Triage.",
    )


async def test_a_token_is_minted_for_one_conversation(http: Any) -> None:
    answer = await http.post(f"{RUN}/tokens", json={"lifetime_seconds": 60}, headers=bearer(KEY))
    customer = TOKENS.customer(answer.json()["token"])
    assert (answer.status_code, customer.run_id) == (201, "support-42")
    async with opened(FakeClient(asking().events), tokens=None) as other:
        assert error_of(await other.post(f"{RUN}/tokens"))[:2] == (409, "no_tokens")


# --- Who gets in ---------------------------------------------------------------------------------


def path_of(path: str, run_id: str = "support-42") -> str:
    return (
        path.replace("{run_id}", run_id)
        .replace("{request_id}", "a1")
        .replace("{message_id}", "i0")
        .replace("{number}", "0")
    )


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda one: f"{one.method} {one.path}")
async def test_every_endpoint_knows_who_asks(endpoint: Any) -> None:
    """Nobody, a program, a customer, and the customer of another conversation."""
    rule, client = RULES[endpoint.action], FakeClient(asking().events, answer=RECEIPT)
    send: dict[str, Any] = {"json": {}} if endpoint.method == "POST" else {}
    path = path_of(endpoint.path)
    async with opened(client) as http:
        other = await http.request(
            endpoint.method, path, headers=bearer(TOKENS.mint("other")), **send
        )
        forged = await http.request(
            endpoint.method, path, headers=bearer(TOKENS.mint("support-42")[:-4] + "AAAA"), **send
        )
        expired = await http.request(
            endpoint.method, path, headers=bearer(TOKENS.mint("support-42", now_ms=1)), **send
        )
        key = await http.request(endpoint.method, path, headers=bearer(KEY + "x"), **send)
        assert not [one for one in client.calls if one[0] == "update"]
        mine = (
            await http.request(endpoint.method, path, headers=CUSTOMER, **send)
            if (not endpoint.events)
            else None
        )
    for answer in (other, forged, expired, key):
        assert answer.status_code in {401, 403}
        assert "SECRET" not in answer.text
    assert error_of(forged) == error_of(expired)
    if mine is not None:
        is_theirs = rule.customers and "{run_id}" in endpoint.path
        assert (mine.status_code in {401, 403}) == (not is_theirs)
        assert "SECRET" not in mine.text
    acted = [one for one in client.calls if one[0] == "update"]
    assert len(acted) == (endpoint.action == "withdraw_message")


async def test_too_many_readers_are_told_so() -> None:
    app = app_of(FakeClient(asking().events))
    transport = httpx2.ASGITransport(app, client=("127.0.0.1", 5000))
    desk: Desk = app.state.desk
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(desk.feed)
        await stack.enter_async_context(desk.feed.reader("support-42"))
        http = await stack.enter_async_context(
            httpx2.AsyncClient(transport=transport, base_url="http://localhost")
        )
        for headers in ({}, CUSTOMER):
            answer = await http.get(f"{RUN}/events", headers=headers)
            assert error_of(answer)[:2] == (429, "too_many_readers")
            assert answer.headers["Retry-After"] == "5"


async def test_a_server_that_is_away_is_said_and_nothing_of_its_error() -> None:
    class Away(FakeClient):
        def get_workflow_handle(self, workflow_id: str, **_options: Any) -> Any:
            raise refused(RPCStatusCode.UNAVAILABLE, "SECRET address")

    async with opened(Away(asking().events)) as http:
        answer = await http.get(f"{RUN}/requests/a1")
    assert error_of(answer)[:2] == (503, "server_unavailable")
    assert "SECRET" not in answer.text


# --- Pages of other sites ------------------------------------------------------------------------

ALLOWED = "Access-Control-Allow-Origin"


async def test_a_shops_page_reads_with_a_customers_token_and_without_cookies(http: Any) -> None:
    asks = {
        "Origin": SHOP,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    preflight = await http.options(f"{RUN}/messages", headers=asks)
    assert (preflight.status_code, preflight.headers[ALLOWED]) == (204, SHOP)
    assert preflight.headers["Access-Control-Allow-Headers"].startswith("authorization")
    for path in (RUN, "/api/conversations/other", "/api/inbox"):
        answer = await http.get(path, headers={**CUSTOMER, "Origin": SHOP})
        assert (answer.headers[ALLOWED], answer.headers["Vary"]) == (SHOP, "Origin")
        assert "Access-Control-Allow-Credentials" not in answer.headers


@pytest.mark.parametrize("origin", ["https://evil.example.com", "null", f"{SHOP}.evil.com", ""])
async def test_another_page_reads_nothing(http: Any, origin: str) -> None:
    for answer in (
        await http.options(f"{RUN}/messages", headers={"Origin": origin}),
        await http.get(RUN, headers={**CUSTOMER, "Origin": origin}),
    ):
        assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_a_shops_page_reads_nothing_with_a_login_or_a_key(http: Any) -> None:
    for headers in ({}, bearer(KEY)):
        answer = await http.get(RUN, headers={**headers, "Origin": SHOP})
        assert ALLOWED not in answer.headers
    answer = await http.post(f"{RUN}/cancel", headers={"Origin": SHOP})
    assert error_of(answer)[:2] == (403, "other_origin")


# --- What tools wait for -------------------------------------------------------------------------


def parked() -> Recording:
    """A run whose tool waits for a courier."""
    one = Recording()
    one.asked(keep_open=True)
    one.prepared()
    raw = {"type": "function_call", "name": "book", "call_id": "c1", "arguments": "{}"}
    one.activity(2, {"items": [raw], "calls": [{"item": 0, "kind": "tool"}]})
    schema = {"type": "string"}
    wait = {"name": "courier", "timeout_ms": 60_000, "schema": schema}
    one.activity(3, {"output": None, "wait": wait})
    one.task()
    return one


DELIVERED = {"status": "running", "name": "courier", "at_ms": 1_000}


@pytest.mark.parametrize(("headers", "source"), [({}, "ann"), (bearer(KEY), "shop")])
async def test_operators_and_programs_finish_a_wait(headers: dict[str, str], source: str) -> None:
    client = FakeClient(parked().events, answer=DELIVERED)
    async with opened(client, "operator") as http:
        listed = (await http.get(f"{RUN}/waits", headers=headers)).json()
        (wait,) = listed["waits"]
        body = {"token": wait["token"], "value": "p1", "delivery_id": "d1"}
        answer = await http.post(f"{RUN}/waits/finish", json=body, headers=headers)
        named = {**body, "source": "bank"}
        lie = await http.post(f"{RUN}/waits/finish", json=named, headers=headers)
        page = (await http.get(RUN, headers=headers)).json()
    check("WaitList", listed)
    check("DeliveryReceiptView", answer.json())
    assert (wait["tool"], wait["waits_for"], wait["value_schema"]) == (
        "book",
        "courier",
        {"type": "string"},
    )
    receipt = {"run_id": "support-42", "waits_for": "courier", "at": "1970-01-01T00:00:01Z"}
    assert answer.json() == receipt
    sent = [one[2] for one in client.calls if one[0] == "update"]
    assert [(one["value"], one["delivery_id"]) for one in sent] == [("p1", "d1")]
    assert [one["source"] for one in sent] == [source]
    assert (lie.status_code, "source" in error_of(lie)[2]) == (400, True)
    assert (page["status"], page["waits_for"]) == ("parked", "delivery of courier")
    steps = [(one["kind"], one["status"]) for one in page["steps"]]
    assert steps[-1] == ("wait", "waiting")


@pytest.mark.parametrize("role", ["viewer", "decider"])
async def test_others_get_no_token_and_finish_nothing(role: Role) -> None:
    client = FakeClient(parked().events, answer=DELIVERED)
    async with opened(client, role) as http:
        listed = await http.get(f"{RUN}/waits")
        finished = await http.post(f"{RUN}/waits/finish", json={"token": "t", "value": 1})
        page = await http.get(RUN)
    assert {listed.status_code, finished.status_code} == {403}
    assert "needs the role operator" in error_of(listed)[2]
    assert '"token"' not in page.text
    assert not [one for one in client.calls if one[0] == "update"]


async def test_a_delivery_for_another_run_or_without_a_token_is_refused() -> None:
    client = FakeClient(parked().events, answer=DELIVERED)
    other = WaitAddress("other", 0, 1, "c1", "courier").token
    cases = [
        ({"token": other, "value": 1}, (409, "other_run")),
        ({"token": "no token", "value": 1}, (400, "invalid_token")),
        ({"token": other}, (400, "invalid_body")),
        ({"token": other, "value": 1, "by": "ann"}, (400, "invalid_body")),
        ({"token": other, "value": 1, "delivery_id": "x" * 201}, (400, "invalid_body")),
    ]
    async with opened(client) as http:
        for body, expected in cases:
            answer = await http.post(f"{RUN}/waits/finish", json=body)
            assert error_of(answer)[:2] == expected, body
    assert not [one for one in client.calls if one[0] == "update"]


# --- The description -----------------------------------------------------------------------------


def schema_of(model: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{model}", **openapi.document()}


def check(model: str, record: Any) -> None:
    validator: Any = jsonschema.Draft202012Validator(schema_of(model))
    validator.validate(record)


async def test_the_description_has_every_route_and_every_model(http: Any) -> None:
    document = (await http.get("/api/openapi.json", headers=CUSTOMER)).json()
    assert document == json.loads(json.dumps(openapi.document()))
    described = {
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    }
    routed = {
        (method, one.path)
        for one in cast("list[Any]", api.ROUTES)
        for method in one.methods - {"HEAD", "OPTIONS"}
    } | {("POST", one.path) for one in DELIVERY_ENDPOINTS}
    assert described == routed
    ids = [one["operationId"] for methods in document["paths"].values() for one in methods.values()]
    assert len(ids) == len(set(ids))
    models = {one.__name__ for endpoint in ENDPOINTS for one in endpoint.answers}
    models |= {endpoint.body.__name__ for endpoint in ENDPOINTS if endpoint.body is not None}
    models |= {one.__name__ for endpoint in ENDPOINTS for one in endpoint.events.values()}
    assert models <= document["components"]["schemas"].keys()
    jsonschema.Draft202012Validator.check_schema(document["components"])


def test_the_description_has_all_routes_that_take_deliveries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OUTLAST_DELIVERY_KEYS", "a key of at least thirty-two bytes")
    webhooks = Webhooks()

    @webhooks.on("github", github(["a secret of sixteen characters"]))
    def ignore(event: WebhookEvent) -> None:
        assert event

    paths = openapi.document()["paths"]
    routes = delivery_routes(cast("Client", FakeClient([])), webhooks=webhooks)
    assert len(routes) == 2
    for one in routes:
        assert one.methods == {"POST"}
        described = paths[one.path]["post"]
        assert described["security"] == [], "a signature is the right, and no login"
        named = {f"{{{name['name']}}}" for name in described["parameters"] if name["in"] == "path"}
        assert all(name in one.path for name in named)
        jsonschema.Draft202012Validator.check_schema(
            described["responses"]["200"]["content"]["application/json"]["schema"]
        )


def test_the_reference_has_every_route_and_every_event() -> None:
    page = (ROOT / "docs" / "reference" / "http-api.md").read_text(encoding="utf-8")
    for endpoint in ENDPOINTS:
        assert f"`{endpoint.method} {endpoint.path}`" in page
    for delivery in DELIVERY_ENDPOINTS:
        assert f"`POST {delivery.path}`" in page
    for name in EVENTS:
        assert f"| `{name}` |" in page


async def test_answers_are_as_the_description_says(http: Any) -> None:
    check("RunView", (await http.get(RUN)).json())
    check("CustomerConversation", (await http.get(RUN, headers=CUSTOMER)).json())
    check("RequestView", (await http.get(f"{RUN}/requests/a1")).json())
    check("RequestList", (await http.get(f"{RUN}/requests")).json())
    check("Error", (await http.get("/api/conversations/nobody")).json())
    with pytest.raises(jsonschema.ValidationError):
        check("RunView", {**(await http.get(RUN)).json(), "secret": 1})


async def test_a_viewers_answer_is_as_the_description_says() -> None:
    async with opened(FakeClient(asking().events), "viewer") as http:
        check("RunView", (await http.get(RUN)).json())


def test_every_view_forbids_fields_that_it_does_not_name() -> None:
    for kind in View.__subclasses__():
        assert kind.model_config.get("extra") == "forbid"


async def test_the_most_urgent_are_those_that_somebody_follows_and_nobody_searches() -> None:
    entries = [entry("soon", due=NOW), entry("held", status="held", pending=0), entry("late")]
    followed: Any = Entries(entries)
    # A search would fail: this client has no visibility.
    async with opened(FakeClient([]), inboxes=followed) as http:
        answer = await http.get("/api/inbox?urgent=true&mine=true&held=false&limit=1")
        due = await http.get("/api/inbox?urgent=true&due=2100-01-01")
    assert [one["id"] for one in answer.json()["items"]] == ["soon"]
    assert [one["id"] for one in due.json()["items"]] == ["soon"]
    ann = person("ann", groups=["billing"])
    assert [one.mine for one in followed.wanted] == [ann, None]
