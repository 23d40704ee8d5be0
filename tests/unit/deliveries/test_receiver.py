"""The receiver of deliveries over HTTP, with a run that is not there."""

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx2
import jsonschema
import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.context.wait_address import WaitAddress
from outlast.agents.context.wait_urls import wait_url
from outlast.agents.errors import (
    AgentsException,
    DeliveryRefused,
    RunClosed,
    RunNotFound,
    ServerUnavailable,
    UserError,
)
from outlast.client.deliveries import DeliveryReceipt
from outlast.client.handle import RunHandle
from outlast.client.transport.delivered_value import ValueTooLarge
from outlast.deliveries import (
    Deliver,
    Send,
    WebhookEvent,
    Webhooks,
    bodies,
    deliveries_app,
    github,
    receiver,
    slack,
)
from outlast.deliveries.endpoints import WAIT_URL, WEBHOOK, DeliveryEndpoint

ADDRESS = WaitAddress("run-1", 0, 1, "call_1", "courier")
AT = datetime(2030, 1, 1, tzinfo=UTC)
SECRET = "a secret of GitHub, or of Slack"


class Runs:
    """The runs of a server: they take what they get, or raise."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, Any, str, str]] = []
        self.sent: list[tuple[str, Any, str | None]] = []
        self.error: Exception | None = None
        self.seconds = 0.0

    async def finish(
        self, token: str, value: Any, *, client: Any, delivery_id: str, source: str
    ) -> DeliveryReceipt:
        await asyncio.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        self.taken.append((token, value, delivery_id, source))
        address = WaitAddress.parse(token)
        return DeliveryReceipt(run_id=address.run_id, name=address.name, at=AT)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    runs = Runs()
    monkeypatch.setenv("OUTLAST_DELIVERY_KEYS", "k" * 32)
    monkeypatch.setenv("OUTLAST_DELIVERY_URL", "http://receiver")
    monkeypatch.setattr(receiver, "finish", runs.finish)

    async def nothing(*_: Any) -> None:
        return None

    monkeypatch.setattr(receiver, "known_receipt", nothing)

    async def send(self: RunHandle, content: Any, *, message_id: str | None = None) -> Any:
        runs.sent.append((self.id, content, message_id))
        return type("Sent", (), {"id": message_id})()

    monkeypatch.setattr(RunHandle, "send", send)
    return runs


@pytest.fixture
def webhooks() -> Webhooks:
    return Webhooks()


@pytest.fixture
async def http(runs: Runs, webhooks: Webhooks) -> AsyncIterator[httpx2.AsyncClient]:
    client = await Client.connect("127.0.0.1:1", lazy=True)

    @webhooks.on("github", github([SECRET]))
    def merged(event: WebhookEvent) -> Deliver | None:
        if event.value.get("action") != "closed":
            return None
        return Deliver({"number": event.value["number"]}, token=ADDRESS.token)

    app = deliveries_app(client, webhooks=webhooks, patience=0.2)
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://receiver") as http:
        yield http


def url(token: str = ADDRESS.token) -> str:
    return wait_url(token, timedelta(hours=1), time.time())


def code(answer: httpx2.Response) -> str:
    """Return the code of a refusal, which is JSON with words."""
    error = answer.json()["error"]
    assert error["message"].endswith(".")
    assert answer.headers["Content-Type"] == "application/json"
    return error["code"]


def check_description(endpoint: DeliveryEndpoint, answer: httpx2.Response) -> None:
    """Check that the description of the API says what a receiver answers."""
    assert answer.status_code in endpoint.answers
    validator: Any = jsonschema.Draft202012Validator(endpoint.schema)
    validator.validate(answer.json())


# --- Signed URLs of waits -------------------------------------------------------------------------


async def test_a_value_is_taken_and_its_receipt_is_the_answer(http: httpx2.AsyncClient, runs: Runs):
    answer = await http.post(url(), json={"parcel": "p1"}, headers={"Idempotency-Key": "d1"})
    assert answer.status_code == 200
    assert answer.json() == {"run_id": "run-1", "name": "courier", "at": AT.isoformat()}
    check_description(WAIT_URL, answer)
    assert answer.headers["Cache-Control"] == "no-store"
    assert runs.taken == [(ADDRESS.token, {"parcel": "p1"}, "d1", "HTTP")]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Idempotency-Key", "x"),
        ("webhook-id", "x"),
        ("svix-id", "x"),
        ("X-GitHub-Delivery", "x"),
        ("X-Request-Id", bodies.digest_id(b"1")),
    ],
)
async def test_a_header_or_a_digest_names_the_delivery(
    http: httpx2.AsyncClient, runs: Runs, header: str, expected: str
):
    await http.post(url(), content=b"1", headers={header: "x"})
    assert runs.taken[0][2] == expected


@pytest.mark.parametrize(
    ("content_type", "body", "value"),
    [
        ("application/json", b'{"a":[1,null,"\\ud800"]}', {"a": [1, None, "\ud800"]}),
        ("application/problem+json; charset=utf-8", b"1.5", 1.5),
        ("APPLICATION/JSON", b"", None),
        ("text/plain", "Grüße".encode(), "Grüße"),
        ("text/plain; charset=ISO-8859-1", "Grüße".encode("latin-1"), "Grüße"),
        ("application/x-www-form-urlencoded", b"a=1&b=2&a=&c=%C3%BC", {"a": ["1", ""], "b": "2", "c": "ü"}),
        ("application/pdf", b"\x00\xff", {"content_type": "application/pdf", "base64": "AP8="}),
        ("", b"\x00\xff", {"content_type": "", "base64": "AP8="}),
        ("multipart/form-data; boundary=x", b"--x--", {"content_type": "multipart/form-data; boundary=x", "base64": "LS14LS0="}),
    ],
)  # fmt: skip
async def test_a_body_becomes_a_json_value(
    http: httpx2.AsyncClient, runs: Runs, content_type: str, body: bytes, value: Any
):
    answer = await http.post(url(), content=body, headers={"Content-Type": content_type})
    assert answer.status_code == 200
    assert runs.taken[0][1] == value


@pytest.mark.parametrize(
    ("content_type", "body", "status", "expected"),
    [
        ("application/json", b"{", 400, "invalid_json"),
        ("application/json", b"NaN", 400, "invalid_json"),
        ("application/json", b'"\xff"', 400, "invalid_json"),
        ("application/json", b"[" * 200_000, 413, "too_large"),
        ("application/json", b"1" * 10_000, 400, "invalid_json"),
        ("application/x-www-form-urlencoded", b"a&b", 400, "invalid_form"),
        ("application/x-www-form-urlencoded", b"a=%FF", 400, "invalid_form"),
        ("application/x-www-form-urlencoded", b"a=1&" * 1_001, 400, "invalid_form"),
        ("text/plain", b"\xff", 400, "invalid_text"),
        ("text/plain; charset=rot13", b"a", 415, "unknown_charset"),
        ("text/plain; charset=zlib", b"a", 415, "unknown_charset"),
    ],
)
async def test_a_body_that_is_not_what_its_type_says_is_refused(
    http: httpx2.AsyncClient,
    runs: Runs,
    content_type: str,
    body: bytes,
    status: int,
    expected: str,
):
    answer = await http.post(url(), content=body, headers={"Content-Type": content_type})
    assert (answer.status_code, code(answer)) == (status, expected)
    assert runs.taken == []


async def test_who_has_no_signed_url_is_refused_before_the_body_is_read(
    http: httpx2.AsyncClient, runs: Runs
):
    async def body() -> AsyncIterator[bytes]:
        raise AssertionError("the body was read")
        yield b""

    good = urlsplit(url())
    other = WaitAddress("run-2", 0, 1, "call_1", "courier").token
    old = wait_url(ADDRESS.token, timedelta(hours=1), time.time() - 7_200)
    for address, status in {
        f"/deliveries/{other}?{good.query}": 403,
        f"/deliveries/{ADDRESS.token}?{good.query}A": 403,
        f"/deliveries/{ADDRESS.token}": 400,
        f"/deliveries/{ADDRESS.token}?{good.query}&expires=1": 400,
        f"/deliveries/%00%0d%0a?{good.query}": 400,
        f"/deliveries/{'A' * 5_000}?{good.query}": 400,
        old: 410,
    }.items():
        answer = await http.post(address, content=body())
        assert answer.status_code == status, address
        assert code(answer) in {"forged", "malformed", "expired"}
    assert runs.taken == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
async def test_only_a_post_delivers(http: httpx2.AsyncClient, runs: Runs, method: str):
    answer = await http.request(method, url())
    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")
    assert runs.taken == []


async def test_a_large_body_is_refused_with_its_length_and_without(
    http: httpx2.AsyncClient, runs: Runs, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bodies, "LARGEST_BODY_BYTES", 1_000)

    async def chunks() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 300

    for content in (b"x" * 1_001, chunks()):
        answer = await http.post(url(), content=content)
        assert (answer.status_code, code(answer)) == (413, "too_large")
    lying = {"Content-Length": "9" * 5_000}
    answer = await http.post(url(), content=b"1", headers=lying)
    assert answer.status_code == 413
    assert runs.taken == []


async def test_a_slow_body_is_refused(
    http: httpx2.AsyncClient, runs: Runs, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.05)

    async def drops() -> AsyncIterator[bytes]:
        while True:
            yield b"x"
            await asyncio.sleep(0.01)

    answer = await http.post(url(), content=drops())
    assert (answer.status_code, code(answer)) == (408, "too_slow")
    assert runs.taken == []


async def test_a_process_holds_so_many_bytes_and_forgets_them(
    http: httpx2.AsyncClient, runs: Runs, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bodies, "BYTES_AT_ONCE", 1_000)
    for _ in range(3):
        assert (await http.post(url(), content=b"x" * 900)).status_code == 200
        answer = await http.post(url(), content=b"x" * 1_001)
        assert (answer.status_code, code(answer)) == (503, "too_many")


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (RunNotFound("There is no run."), 404, "There is no run."),
        (RunClosed("It has ended."), 409, "It has ended."),
        (DeliveryRefused("Too late."), 409, "Too late."),
        (ValueTooLarge("Too large."), 413, "Too large."),
        (UserError("No JSON."), 400, "No JSON."),
        (ServerUnavailable("10.0.0.1 is away."), 503, "The run cannot take it now."),
        (AgentsException("The history is full."), 503, "The run cannot take it now."),
        (RPCError("away", RPCStatusCode.UNAVAILABLE, b""), 503, "The run cannot take it now."),
        (ZeroDivisionError("secret"), 500, "The receiver failed."),
    ],
)
async def test_what_a_run_refuses_is_answered_in_words(
    http: httpx2.AsyncClient, runs: Runs, error: Exception, status: int, words: str
):
    runs.error = error
    answer = await http.post(url(), json=1)
    assert answer.status_code == status
    assert answer.json()["error"]["message"].startswith(words)
    assert ("Retry-After" in answer.headers) == (status == 503)


async def test_a_run_that_takes_long_is_no_reason_to_wait(http: httpx2.AsyncClient, runs: Runs):
    runs.seconds = 60
    answer = await http.post(url(), json=1)
    assert (answer.status_code, code(answer)) == (503, "not_now")
    assert answer.headers["Retry-After"] == "5"


async def test_hostile_headers_reach_no_header_and_no_log(
    http: httpx2.AsyncClient, runs: Runs, caplog: pytest.LogCaptureFixture
):
    hostile = {"Idempotency-Key": "a\xe9\x1b[31m", "Content-Type": "x/y; \x1b[2J"}
    answer = await http.post(
        url(),
        content=b"1",
        headers=[(key.encode(), value.encode("latin-1")) for key, value in hostile.items()],
    )
    assert answer.status_code == 200
    shown = [*answer.headers.values(), caplog.text]
    assert not any("\x1b" in text for text in shown)
    answer = await http.post(url(), content=b"1", headers={"Idempotency-Key": "x" * 201})
    assert (answer.status_code, code(answer)) == (400, "invalid_id")


# --- Webhooks -------------------------------------------------------------------------------------


def signed(body: bytes, **headers: str) -> dict[str, str]:
    digest = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    return {
        "X-Hub-Signature-256": f"sha256={digest}",
        "Content-Type": "application/json",
        **headers,
    }


async def test_a_webhook_finishes_a_wait(http: httpx2.AsyncClient, runs: Runs):
    body = b'{"action":"closed","number":7}'
    for delivery in ("a", "b"):  # a recorded request with another id is the same delivery
        headers = signed(body, **{"X-GitHub-Delivery": delivery})
        answer = await http.post("/webhooks/github", content=body, headers=headers)
        check_description(WEBHOOK, answer)
        assert answer.json()["done"][0]["name"] == "courier"
    first, second = runs.taken
    assert first == second
    assert first[:2] == (ADDRESS.token, {"number": 7})
    assert first[2].startswith("github:sha256:")
    assert first[3] == "webhook github"


async def test_a_webhook_that_means_nothing_is_answered_with_200(
    http: httpx2.AsyncClient, runs: Runs
):
    body = b'{"zen":"Design for failure."}'
    answer = await http.post("/webhooks/github", content=body, headers=signed(body))
    assert (answer.status_code, answer.json(), runs.taken) == (200, {"done": []}, [])
    check_description(WEBHOOK, answer)


async def test_a_forged_webhook_calls_no_function(http: httpx2.AsyncClient, runs: Runs):
    body = b'{"action":"closed","number":7}'
    for address, headers, content, status in (
        ("/webhooks/github", signed(body), body + b" ", 401),
        ("/webhooks/github", {}, body, 401),
        ("/webhooks/stripe", signed(body), body, 404),
        ("/webhooks/", signed(body), body, 404),
        ("/webhooks/github/x", signed(body), body, 404),
        ("/webhooks/%67ithub%00", signed(body), body, 404),
    ):
        answer = await http.post(address, content=content, headers=headers)
        assert answer.status_code == status
        assert code(answer)
    assert (await http.get("/webhooks/github")).status_code == 405
    assert runs.taken == []


async def test_an_event_may_send_messages_once_each(
    http: httpx2.AsyncClient, runs: Runs, webhooks: Webhooks
):
    @webhooks.on("mail", github([SECRET]))
    async def came(event: WebhookEvent) -> list[Deliver | Send]:
        return [Send("chat-1", "A reply came."), Send("chat-1", "And a file.")]

    for _ in range(2):
        answer = await http.post("/webhooks/mail", content=b"{}", headers=signed(b"{}"))
        assert answer.status_code == 200
    assert runs.sent[:2] == runs.sent[2:]
    first, second = (message_id for _, _, message_id in runs.sent[:2])
    assert first is not None
    assert second == f"{first}:1"


async def test_a_function_that_fails_is_repeated_by_the_sender(
    http: httpx2.AsyncClient, runs: Runs, webhooks: Webhooks, caplog: pytest.LogCaptureFixture
):
    @webhooks.on("broken", github([SECRET]))
    def broken(event: WebhookEvent) -> None:
        raise LookupError("no such order")

    @webhooks.on("odd", github([SECRET]))
    def odd(event: WebhookEvent) -> Any:
        return "done"

    for name in ("broken", "odd"):
        answer = await http.post(f"/webhooks/{name}", content=b"{}", headers=signed(b"{}"))
        assert (answer.status_code, code(answer)) == (500, "internal_error")
    assert "no such order" in caplog.text
    assert "must return Deliver, Send" in caplog.text


async def test_slack_learns_that_the_address_is_ours(
    http: httpx2.AsyncClient, runs: Runs, webhooks: Webhooks
):
    @webhooks.on("slack", slack([SECRET]))
    def said(event: WebhookEvent) -> None:
        raise AssertionError("a challenge is no event")

    body, at = json.dumps({"type": "url_verification", "challenge": "3eZbrw"}).encode(), time.time()
    digest = hmac.new(SECRET.encode(), f"v0:{at:.0f}:".encode() + body, hashlib.sha256).hexdigest()
    headers = {
        "X-Slack-Request-Timestamp": f"{at:.0f}",
        "X-Slack-Signature": f"v0={digest}",
        "Content-Type": "application/json",
    }
    answer = await http.post("/webhooks/slack", content=body, headers=headers)
    assert answer.json() == {"challenge": "3eZbrw"}
    headers["X-Slack-Signature"] = f"v0={'0' * 64}"
    assert (await http.post("/webhooks/slack", content=body, headers=headers)).status_code == 401


@pytest.mark.parametrize("name", ["", "a/b", "..", "a" * 65, "ü", "-a"])
def test_a_webhook_needs_a_name_that_fits_into_a_path(name: str, webhooks: Webhooks):
    with pytest.raises(UserError, match="named by up to 64 letters"):
        webhooks.on(name, github([SECRET]))


def test_a_name_has_one_function(webhooks: Webhooks):
    def ignore(event: WebhookEvent) -> None:
        return None

    webhooks.on("a", github([SECRET]))(ignore)
    with pytest.raises(UserError, match="has a function already"):
        webhooks.on("a", github([SECRET]))


def test_deliver_needs_one_address():
    for fields in ({}, {"token": "a", "run_id": "b"}):
        with pytest.raises(UserError, match="token= or run_id="):
            Deliver(1, **fields)


async def test_an_application_with_nothing_to_receive_is_a_mistake(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OUTLAST_DELIVERY_KEYS", raising=False)
    client = await Client.connect("127.0.0.1:1", lazy=True)
    with pytest.raises(UserError, match="nothing to receive"):
        deliveries_app(client)
    monkeypatch.setenv("OUTLAST_DELIVERY_KEYS", "short")
    with pytest.raises(UserError, match="needs at least 32"):
        deliveries_app(client)
