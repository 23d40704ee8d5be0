"""Clicks in Slack: whose they are, which of them count, and what the person reads."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest

from outlast.agents.errors import UserError
from outlast.loop.approvals import ApprovalTerms, Audience
from outlast.notifications import slack_app, slack_socket
from outlast.notifications.signatures import hmac_hex
from outlast.notifications.slack_api import SlackApi
from outlast.notifications.slack_app import SlackApp
from outlast.notifications.slack_blocks import APPROVE, OPEN, REJECT
from outlast.notifications.slack_notifier import SlackNotifier
from outlast.notifications.slack_socket import SlackSocket
from outlast.ports.notifier import NotifierUnavailable
from tests.unit.notifications.hostile import CREATED, HOSTILE
from tests.unit.notifications.receiver import receiving, serve
from tests.unit.notifications.runs import REFUND, Runs
from tests.unit.notifications.slack_server import (
    APP,
    BOT,
    CHANNEL,
    ORGANIZATION,
    SIGNING_SECRET,
    TEAM,
    Slack,
    click,
    signed_request,
    slack_server,
)

FIELDS = {
    "run_id": "support-42",
    "execution": "e-1",
    "request_id": "a1",
    "digest": REFUND.digest,
}
VALUE = json.dumps(FIELDS)
PEOPLE = {"U1": "ann", "U2": "bob", "U3": "mallory"}
GROUPS = {"bob": ["billing"]}


@pytest.fixture
async def slack() -> AsyncGenerator[Slack]:
    async with slack_server() as server:
        yield server


@pytest.fixture
def runs() -> Runs:
    return Runs()


def app_of(slack: Slack, runs: Runs, **options: Any) -> SlackApp:
    defaults: dict[str, Any] = {
        "subject": PEOPLE,
        "groups": GROUPS,
        "signing_secret": SIGNING_SECRET,
        "api_url": slack.url,
    }
    return SlackApp(runs, BOT, **{**defaults, **options})


async def send(app: SlackApp, payload: dict[str, Any], **options: Any) -> int:
    """Send a signed request, and wait until its decision is handled."""
    body, headers = signed_request(payload, **options)
    status, _, _ = await app.handle("POST", "/slack", "", body, headers)
    await app.aclose()
    return status


async def test_a_click_is_a_decision_of_the_person_behind_it(slack: Slack, runs: Runs) -> None:
    assert await send(app_of(slack, runs), click(APPROVE, VALUE)) == 200
    [decision] = runs.decided
    assert (decision.type, decision.by, decision.display) == ("approve", "ann", "ann.slack")
    assert (decision.method, decision.channel, decision.seen) == ("slack", "slack", REFUND.seen)
    [told] = slack.ephemeral
    assert (told["user"], told["channel"]) == ("U1", CHANNEL)
    assert told["text"] == "Your decision (approve) has arrived."


async def test_the_button_of_a_real_message_decides_its_request(slack: Slack, runs: Runs) -> None:
    created = replace(CREATED, digest=REFUND.digest)
    await SlackNotifier(BOT, CHANNEL, api_url=slack.url).notify(created)
    reject = slack.messages[0]["blocks"][-1]["elements"][1]
    assert await send(app_of(slack, runs), click(reject["action_id"], reject["value"])) == 200
    assert [one.type for one in runs.decided] == ["reject"]


async def test_groups_come_from_the_program(slack: Slack, runs: Runs) -> None:
    await send(app_of(slack, runs), click(APPROVE, VALUE, user="U2"))
    assert (runs.decided[0].by, runs.decided[0].groups) == ("bob", ("billing",))


async def test_being_in_the_channel_is_no_authority(slack: Slack, runs: Runs) -> None:
    await send(app_of(slack, runs), click(APPROVE, VALUE, user="U3"))
    assert runs.decided == []
    assert "It is for ann or the group billing" in slack.ephemeral[0]["text"]


@pytest.mark.parametrize("user", ["U9", ""])
async def test_a_slack_user_who_is_nobody_decides_nothing(
    slack: Slack, runs: Runs, user: str
) -> None:
    open_to_all = Runs(replace(REFUND, terms=ApprovalTerms(audience=Audience())))
    await send(app_of(slack, open_to_all), click(APPROVE, VALUE, user=user))
    assert open_to_all.decided == []
    assert "belongs to nobody who may decide here" in slack.ephemeral[0]["text"]


async def test_people_and_groups_may_be_looked_up(slack: Slack, runs: Runs) -> None:
    async def groups(subject: str) -> list[str]:
        return ["billing"] if subject == "carol" else []

    app = app_of(slack, runs, subject={"U7": "carol"}.get, groups=groups)
    await send(app, click(APPROVE, VALUE, user="U8"))
    assert runs.decided == []
    await send(app, click(APPROVE, VALUE, user="U7"))
    assert runs.decided[0].groups == ("billing",)


async def test_two_clicks_are_one_decision(slack: Slack, runs: Runs) -> None:
    app = app_of(slack, runs)
    await send(app, click(APPROVE, VALUE))
    await send(app, click(REJECT, VALUE, user="U2"))
    assert [one.type for one in runs.decided] == ["approve"]
    assert "already approved by ann" in slack.ephemeral[1]["text"]


async def test_a_stale_button_decides_nothing(slack: Slack, runs: Runs) -> None:
    stale = json.dumps({**FIELDS, "digest": replace(REFUND, terms=ApprovalTerms()).digest})
    await send(app_of(slack, runs), click(APPROVE, stale))
    assert runs.decided == []
    assert "the call or its policy has changed since" in slack.ephemeral[0]["text"]


@pytest.mark.parametrize("changed", [{"execution": "e-0"}, {"request_id": "a2"}])
async def test_a_button_of_an_earlier_run_with_the_same_ids_decides_nothing(
    slack: Slack, runs: Runs, changed: dict[str, Any]
) -> None:
    await send(app_of(slack, runs), click(APPROVE, json.dumps({**FIELDS, **changed})))
    assert runs.decided == []
    assert "it may be of an earlier run" in slack.ephemeral[0]["text"]


@pytest.mark.parametrize("value", ["", "{}", HOSTILE])
async def test_a_broken_button_decides_nothing(slack: Slack, runs: Runs, value: str) -> None:
    await send(app_of(slack, runs), click(APPROVE, value))
    assert runs.decided == []
    assert "Use the newest message" in slack.ephemeral[0]["text"]


async def test_a_refusal_with_hostile_text_is_harmless(slack: Slack, runs: Runs) -> None:
    value = json.dumps({**FIELDS, "run_id": HOSTILE, "request_id": HOSTILE})
    await send(app_of(slack, runs), click(APPROVE, value))
    assert "There is no run" in slack.ephemeral[0]["text"]


OTHERS: list[dict[str, Any]] = [
    {},
    {"type": "view_submission"},
    {"type": "block_actions"},
    {"type": "block_actions", "actions": [5, {}, {"action_id": OPEN}, {"action_id": []}]},
    {"type": "block_actions", "actions": "x"},
]


@pytest.mark.parametrize("payload", OTHERS)
async def test_other_interactions_are_answered_and_mean_nothing(
    slack: Slack, runs: Runs, payload: dict[str, Any]
) -> None:
    assert await send(app_of(slack, runs), payload) == 200
    assert (runs.decided, slack.calls) == ([], [])


@pytest.mark.parametrize("fields", [{"user": 5}, {"channel": None, "container": None}])
async def test_an_interaction_without_its_place_or_person_is_harmless(
    slack: Slack, runs: Runs, fields: dict[str, Any]
) -> None:
    assert await send(app_of(slack, runs), click(APPROVE, VALUE, **fields)) == 200
    assert slack.ephemeral == []


async def test_slack_is_answered_before_the_run(slack: Slack, runs: Runs) -> None:
    runs.gate.clear()
    app = app_of(slack, runs)
    body, headers = signed_request(click(APPROVE, VALUE))
    async with asyncio.timeout(1):
        assert (await app.handle("POST", "/", "", body, headers))[0] == 200
    assert runs.decided == []
    runs.gate.set()
    await app.aclose()
    assert len(runs.decided) == 1


@pytest.mark.parametrize("failure", [ConnectionError("the token is xoxb-1"), None])
async def test_a_run_that_cannot_be_reached_says_so_without_details(
    slack: Slack, runs: Runs, failure: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slack_app, "DECIDE_SECONDS", 0.05)
    runs.failure = failure
    if failure is None:
        runs.gate.clear()
    await send(app_of(slack, runs), click(APPROVE, VALUE))
    assert slack.ephemeral[0]["text"] == "Your decision could not be sent. Try again in a moment."


async def test_a_decision_counts_even_if_slack_cannot_show_the_outcome(
    slack: Slack, runs: Runs
) -> None:
    slack.errors["chat.postEphemeral"] = ["user_not_in_channel"]
    await send(app_of(slack, runs), click(APPROVE, VALUE))
    assert len(runs.decided) == 1


@pytest.mark.parametrize("late", [-301, 301, -(10**6)])
async def test_a_late_request_is_refused(slack: Slack, runs: Runs, late: int) -> None:
    assert await send(app_of(slack, runs), click(APPROVE, VALUE), at=time.time() + late) == 401
    assert runs.decided == []


async def test_a_replayed_request_is_refused(slack: Slack) -> None:
    runs = Runs(replace(REFUND, terms=replace(REFUND.terms, quorum=2)))
    app = app_of(slack, runs)
    now = time.time()
    assert await send(app, click(APPROVE, VALUE), at=now) == 200
    assert await send(app, click(APPROVE, VALUE), at=now) == 401
    assert len(slack.ephemeral) == 1


async def test_a_forged_request_is_refused(slack: Slack, runs: Runs) -> None:
    app = app_of(slack, runs)
    assert await send(app, click(APPROVE, VALUE), secret="x" * 32) == 401
    body, headers = signed_request(click(APPROVE, VALUE))
    forged: list[tuple[bytes, dict[str, str]]] = [
        (body + b"&x=1", headers),
        (body, {**headers, "X-Slack-Signature": "v0=" + "0" * 64}),
        (body, {**headers, "X-Slack-Signature": "é"}),
        (body, {**headers, "X-Slack-Request-Timestamp": str(int(time.time()) - 1)}),
        (body, {**headers, "X-Slack-Request-Timestamp": "now"}),
        (body, {"X-Slack-Signature": headers["X-Slack-Signature"]}),
        (body, {"X-Slack-Request-Timestamp": headers["X-Slack-Request-Timestamp"]}),
        (body, {}),
    ]
    for sent, with_headers in forged:
        status, _, _ = await app.handle("POST", "/", "", sent, with_headers)
        assert status == 401
    await app.aclose()
    assert runs.decided == []


async def test_headers_may_have_any_case(slack: Slack, runs: Runs) -> None:
    app = app_of(slack, runs)
    body, headers = signed_request(click(APPROVE, VALUE))
    lower = {name.lower(): value for name, value in headers.items()}
    assert (await app.handle("post", "/", "", body, lower))[0] == 200
    await app.aclose()
    assert len(runs.decided) == 1


async def test_without_a_secret_every_request_is_refused(slack: Slack, runs: Runs) -> None:
    app = app_of(slack, runs, signing_secret=None)
    assert await send(app, click(APPROVE, VALUE)) == 401
    assert await send(app, click(APPROVE, VALUE), secret="") == 401
    assert await send(app, click(APPROVE, VALUE), secret="None") == 401
    assert runs.decided == []


@pytest.mark.parametrize(
    ("method", "body", "status"),
    [("GET", b"", 405), ("PUT", b"", 405), ("POST", b"x" * 1_000_001, 413)],
)
async def test_other_requests_are_refused(
    slack: Slack, runs: Runs, method: str, body: bytes, status: int
) -> None:
    assert (await app_of(slack, runs).handle(method, "/", "", body, {}))[0] == status


@pytest.mark.parametrize(
    ("body", "expected"),
    [(b"", 200), (b"payload=", 200), (b"payload={", 200), (b"\xff\xfe", 401), (b"a=1&" * 30, 200)],
)
async def test_a_signed_body_without_an_interaction_means_nothing(
    slack: Slack, runs: Runs, body: bytes, expected: int
) -> None:
    app = app_of(slack, runs)
    timestamp = str(int(time.time()))
    signature = hmac_hex(SIGNING_SECRET, f"v0:{timestamp}:".encode() + body)
    headers = {"X-Slack-Request-Timestamp": timestamp, "X-Slack-Signature": f"v0={signature}"}
    assert (await app.handle("POST", "/", "", body, headers))[0] == expected
    await app.aclose()
    assert runs.decided == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"subject": "ann"}, "subject= must be a dict or a function"),
        ({"groups": ["billing"]}, "groups= must be a dict or a function"),
        ({"signing_secret": ""}, "signing_secret= must be a text"),
        ({"api_url": "slack.com"}, "api_url= must be an address"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], problem: str) -> None:
    arguments: dict[str, Any] = {"subject": PEOPLE, **options}
    with pytest.raises(UserError, match=problem):
        SlackApp(Runs(), BOT, **arguments)


# --- Other workspaces -----------------------------------------------------------------------------


def of(user: Any, team: Any, organization: Any = None, **fields: Any) -> dict[str, Any]:
    """Return what an interaction says of the home of its user, and of where it comes from."""
    home = None if team is None else {"id": team, "enterprise_id": organization}
    user_fields = {"id": "U1", "name": "ann.slack", "team_id": user}
    return {"user": user_fields, "team": home, **fields}


ELSEWHERE: list[tuple[str | None, dict[str, Any]]] = [
    (None, of("T2", "T2")),  # the user id is also in our workspace: a guest of a shared channel
    (None, of("T2", TEAM)),
    (None, of(TEAM, "T2")),
    (None, of(None, TEAM)),
    (None, of(TEAM, None)),
    (None, of("", "")),
    (None, of("T2", "T2", "E9")),
    (None, of(TEAM, None, enterprise={"id": ORGANIZATION})),
    (ORGANIZATION, of("T2", "T2", "E9")),
    (ORGANIZATION, of("T2", TEAM, ORGANIZATION)),
    (ORGANIZATION, of("T2", "T3", ORGANIZATION)),
    (ORGANIZATION, of("", "", ORGANIZATION)),
    (ORGANIZATION, of("T2", None, enterprise={"id": ORGANIZATION})),
    (ORGANIZATION, of("E9", "T2", "E9", enterprise={"id": ORGANIZATION})),
]


@pytest.mark.parametrize(("organization", "fields"), ELSEWHERE)
async def test_a_user_of_another_workspace_is_nobody_here(
    slack: Slack, runs: Runs, organization: str | None, fields: dict[str, Any]
) -> None:
    """The request is signed: one app in two workspaces has one secret."""
    slack.enterprise = organization
    async with receiving() as elsewhere:
        clicked = {**click(APPROVE, VALUE, response_url=elsewhere.url), **fields}
        assert await send(app_of(slack, runs), clicked) == 200
        assert elsewhere.bodies == []
    assert runs.decided == []
    assert [one["text"] for one in slack.ephemeral] == [
        "Not decided: your Slack account belongs to another workspace than this app."
    ]


@pytest.mark.parametrize(
    "fields",
    [
        of(TEAM, TEAM, ORGANIZATION),
        of("T2", "T2", ORGANIZATION),
        of(ORGANIZATION, "T2", ORGANIZATION),
        of(ORGANIZATION, None, enterprise={"id": ORGANIZATION}),
    ],
)
async def test_an_organization_has_its_users_in_all_workspaces(
    slack: Slack, runs: Runs, fields: dict[str, Any]
) -> None:
    slack.enterprise = ORGANIZATION
    await send(app_of(slack, runs), {**click(APPROVE, VALUE), **fields})
    assert [one.by for one in runs.decided] == ["ann"]


async def test_nobody_decides_while_slack_does_not_say_whose_the_app_is(
    slack: Slack, runs: Runs
) -> None:
    slack.errors["auth.test"] = [503]
    app = app_of(slack, runs)
    await send(app, click(APPROVE, VALUE))
    assert runs.decided == []
    await send(app, click(APPROVE, VALUE), at=time.time() - 1)
    await send(app, click(REJECT, VALUE, user="U2"))
    assert len(runs.decided) == 1
    assert slack.calls.count("auth.test") == 2


async def test_an_old_secret_counts_no_more_once_it_is_replaced(slack: Slack, runs: Runs) -> None:
    app = app_of(slack, runs, signing_secret="f" * 32)
    assert await send(app, click(APPROVE, VALUE)) == 401
    assert await send(app, click(APPROVE, VALUE), secret="f" * 32) == 200
    assert len(runs.decided) == 1


async def test_each_click_has_a_key_of_its_own_in_every_process(slack: Slack) -> None:
    keys: list[str | None] = []
    for trigger in ("1.2.abc", "1.2.abc", "1.3.abc", None, 5):
        runs = Runs()
        await send(app_of(slack, runs), click(APPROVE, VALUE, trigger_id=trigger))
        keys += [one.idempotency_key for one in runs.decided]
    assert keys[0] == keys[1]
    assert len({*keys[:3]}) == 2
    assert keys[3:] == [None, None]


# --- Socket Mode ---------------------------------------------------------------------------------


@pytest.fixture
async def socket(slack: Slack, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Any]:
    monkeypatch.setattr(slack_socket, "_PING_SECONDS", 0.2)
    app = app_of(slack, runs, signing_secret=None)
    task = asyncio.create_task(SlackSocket(app, APP, api_url=slack.url).run())
    yield task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def connected(slack: Slack) -> Any:
    async with asyncio.timeout(10):
        await slack.connected.wait()
    slack.connected.clear()
    return slack.sockets[-1]


def envelope(envelope_id: str, payload: dict[str, Any], kind: str = "interactive") -> str:
    return json.dumps({"type": kind, "envelope_id": envelope_id, "payload": payload})


async def acknowledged(slack: Slack) -> str:
    async with asyncio.timeout(10):
        return await slack.acknowledged.get()


async def test_a_click_arrives_over_a_socket(slack: Slack, runs: Runs, socket: Any) -> None:
    server = await connected(slack)
    await server.send_str(envelope("e1", click(APPROVE, VALUE)))
    assert await acknowledged(slack) == "e1"
    async with asyncio.timeout(10):
        await slack.told.wait()
    assert [one.by for one in runs.decided] == ["ann"]


async def test_an_envelope_is_acknowledged_before_the_run_answers(
    slack: Slack, runs: Runs, socket: Any
) -> None:
    runs.gate.clear()
    server = await connected(slack)
    await server.send_str(envelope("e1", click(APPROVE, VALUE)))
    assert await acknowledged(slack) == "e1"
    assert runs.decided == []
    runs.gate.set()


async def test_an_envelope_that_is_sent_again_is_handled_once(
    slack: Slack, runs: Runs, socket: Any
) -> None:
    server = await connected(slack)
    for _ in range(2):
        await server.send_str(envelope("e1", click(APPROVE, VALUE)))
        assert await acknowledged(slack) == "e1"
    async with asyncio.timeout(10):
        await slack.told.wait()
    await server.send_str(envelope("e2", {}))
    assert await acknowledged(slack) == "e2"
    assert len(slack.ephemeral) == 1


async def test_noise_on_the_socket_is_harmless(slack: Slack, runs: Runs, socket: Any) -> None:
    server = await connected(slack)
    for text in ("", "{", "[]", '{"type": "unknown"}', '{"envelope_id": 5}', "[" * 90_000):
        await server.send_str(text)
    await server.send_bytes(b"\xff\xfe")
    await server.send_str(envelope("e1", click(APPROVE, VALUE), kind="slash_commands"))
    assert await acknowledged(slack) == "e1"
    await server.send_str(json.dumps({"type": "interactive", "envelope_id": "e2", "payload": 5}))
    await server.send_str(envelope("e3", {}))
    assert await acknowledged(slack) == "e3"
    assert runs.decided == []


async def test_the_socket_is_opened_again_when_slack_or_the_network_ends_it(
    slack: Slack, runs: Runs, socket: Any
) -> None:
    server = await connected(slack)
    await server.send_json({"type": "disconnect", "reason": "refresh_requested"})
    server = await connected(slack)
    await server.close()
    server = await connected(slack)
    slack.errors["apps.connections.open"] = ["internal_error", 503, "invalid_auth"]
    assert server._req.transport is not None
    server._req.transport.abort()
    server = await connected(slack)
    assert slack.errors["apps.connections.open"] == []
    await server.send_str(envelope("e1", click(APPROVE, VALUE)))
    assert await acknowledged(slack) == "e1"
    assert slack.connections == 4


async def test_socket_mode_that_is_switched_off_is_an_error(
    slack: Slack, runs: Runs, socket: Any
) -> None:
    server = await connected(slack)
    await server.send_json({"type": "disconnect", "reason": "link_disabled"})
    with pytest.raises(UserError, match="switched off in the app's settings"):
        await asyncio.wait_for(socket, 10)


async def test_an_address_without_encryption_is_not_opened(slack: Slack) -> None:
    slack.socket_url = "ws://127.0.0.1:1/"
    client = slack_socket._Client(SlackApi(APP, slack.url), "wss://")
    with pytest.raises(NotifierUnavailable, match="no encrypted WebSocket"):
        await client.issue_new_wss_url()
    await client.close()
    assert slack.connections == 0


async def test_a_program_serves_the_app_with_any_web_server(slack: Slack, runs: Runs) -> None:
    import aiohttp
    from aiohttp import web

    app = app_of(slack, runs)

    async def mounted(request: web.Request) -> web.Response:
        status, headers, body = await app.handle(
            request.method,
            request.path,
            request.query_string,
            await request.read(),
            request.headers,
        )
        return web.Response(status=status, headers=headers, body=body)

    site = web.Application()
    site.router.add_route("*", "/slack", mounted)
    body, headers = signed_request(click(APPROVE, VALUE))
    headers["Content-Type"] = "application/x-www-form-urlencoded"
    async with serve(site) as url, aiohttp.ClientSession() as session:
        async with session.post(f"{url}/slack", data=body, headers=headers) as answer:
            assert answer.status == 200
        await app.aclose()
    assert len(runs.decided) == 1
