"""Webhooks: what is sent, what is tried again, and what a receiver refuses."""

import json
import socket
import time
from dataclasses import replace
from datetime import timedelta
from ipaddress import IPv4Network, ip_address
from typing import Any

import pytest

from outlast.agents.errors import UserError
from outlast.loop.values import JsonObject
from outlast.notifications import http
from outlast.notifications.http import is_private
from outlast.notifications.signatures import SeenIds
from outlast.notifications.webhook import (
    ID_HEADER,
    SIGNATURE_HEADER,
    TIME_HEADER,
    Webhook,
    WebhookRefused,
    WebhookRepeated,
    signed_headers,
    verify_webhook,
)
from outlast.ports.notifier import Notification, NotifierRejected, NotifierUnavailable
from tests.unit.notifications.hostile import CREATED, LONG, NASTY
from tests.unit.notifications.receiver import BREAKS, HANGS, receiving

SECRET = "a secret of the desk"
NOW = 1_700_000_000


def signed(notice: Notification = CREATED, at: int = NOW) -> tuple[bytes, dict[str, str]]:
    body = json.dumps(notice.as_json()).encode()
    return body, signed_headers(SECRET, notice.id, body, at)


@pytest.mark.parametrize("notice", [CREATED, NASTY, LONG], ids=["plain", "hostile", "long"])
async def test_a_receiver_reads_what_was_sent(notice: Notification) -> None:
    async with receiving() as receiver:
        await Webhook(receiver.url, SECRET).notify(notice)
    data = verify_webhook(receiver.bodies[0], receiver.headers[0], SECRET)
    assert data == json.loads(json.dumps(notice.as_json()))
    assert receiver.headers[0]["Content-Type"] == "application/json"


async def test_a_retry_has_the_same_body_and_id() -> None:
    async with receiving(500, 200) as receiver:
        webhook = Webhook(receiver.url, SECRET)
        with pytest.raises(NotifierUnavailable, match="status 500"):
            await webhook.notify(CREATED)
        await webhook.notify(replace(CREATED, attempt=2))
    assert receiver.bodies[0] == receiver.bodies[1]
    assert receiver.headers[0][ID_HEADER] == receiver.headers[1][ID_HEADER]


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
async def test_a_receiver_that_is_busy_gets_another_attempt(status: int) -> None:
    async with receiving((status, {"Retry-After": "7"})) as receiver:
        with pytest.raises(NotifierUnavailable) as raised:
            await Webhook(receiver.url, SECRET).notify(CREATED)
    assert raised.value.retry_after == timedelta(seconds=7)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-3"}, None),
        ({"Retry-After": "9" * 400}, None),
        ({"Retry-After": "Wed, 21 Oct 2015 07:29:00 GMT"}, timedelta()),
    ],
)
async def test_when_to_try_again_is_read_with_care(
    headers: dict[str, str], wait: timedelta | None
) -> None:
    async with receiving((503, headers)) as receiver:
        with pytest.raises(NotifierUnavailable) as raised:
            await Webhook(receiver.url, SECRET).notify(CREATED)
    assert raised.value.retry_after == wait


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 413, 422])
async def test_a_refusal_is_final(status: int) -> None:
    async with receiving(status) as receiver:
        with pytest.raises(NotifierRejected, match=f"status {status}"):
            await Webhook(receiver.url, SECRET).notify(CREATED)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed(status: int) -> None:
    async with receiving() as other, receiving((status, {"Location": other.url})) as receiver:
        with pytest.raises(NotifierRejected, match="Use the new address"):
            await Webhook(receiver.url, SECRET).notify(CREATED)
    assert other.bodies == []


async def test_a_receiver_that_hangs_or_breaks_off_gets_another_attempt() -> None:
    async with receiving(HANGS, BREAKS) as receiver:
        webhook = Webhook(receiver.url, SECRET, timeout=timedelta(seconds=0.2))
        with pytest.raises(NotifierUnavailable, match=r"did not answer within 0\.2 s"):
            await webhook.notify(CREATED)
        with pytest.raises(NotifierUnavailable, match="cannot be reached"):
            await webhook.notify(CREATED)


async def test_a_receiver_that_is_not_there_gets_another_attempt() -> None:
    async with receiving() as receiver:
        webhook = Webhook(receiver.url, SECRET)
    with pytest.raises(NotifierUnavailable, match="cannot be reached"):
        await webhook.notify(CREATED)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "0x7f000001",
        "１２７.0.0.1",  # noqa: RUF001
        "127。0。0。1",
        "①②⑦.⓪.⓪.①",
        "ⓛocalhost",
    ],
)
async def test_private_hosts_are_refused_where_the_webhook_says_so(host: str) -> None:
    async with receiving() as receiver:
        address = receiver.url.replace("127.0.0.1", host)
        with pytest.raises(NotifierRejected, match="private network"):
            await Webhook(address, SECRET, allow_private=False).notify(CREATED)
    assert receiver.bodies == []


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0"])
async def test_a_host_that_cannot_be_one_is_not_tried_again(host: str) -> None:
    async with receiving() as receiver:
        address = receiver.url.replace("127.0.0.1", host)
        with pytest.raises(NotifierRejected, match=f"{host} cannot be a host"):
            await Webhook(address, SECRET).notify(CREATED)
    assert receiver.bodies == []


async def test_the_address_that_a_name_has_at_the_connection_is_what_is_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def rebinding(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        """A name server of a stranger: its name is public once, and this machine afterwards."""
        asked.append(host)
        address = "192.0.2.1" if len(asked) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    async with receiving() as receiver:
        monkeypatch.setattr(socket, "getaddrinfo", rebinding)
        monkeypatch.setattr(http, "_NOT_PUBLIC", (IPv4Network("127.0.0.0/8"),))
        address = receiver.url.replace("127.0.0.1", "hook.example")
        webhook = Webhook(address, SECRET, allow_private=False, timeout=timedelta(seconds=0.2))
        with pytest.raises(NotifierUnavailable):
            await webhook.notify(CREATED)
        with pytest.raises(NotifierRejected, match=r"hook\.example is in a private network"):
            await webhook.notify(CREATED)
    assert asked == ["hook.example", "hook.example"]
    assert receiver.bodies == []


@pytest.mark.parametrize(
    ("address", "private"),
    [
        ("169.254.169.254", True),
        ("10.0.0.1", True),
        ("0.0.0.0", True),
        ("100.64.0.1", True),
        ("224.0.0.1", True),
        ("192.0.0.192", True),
        ("192.88.99.1", True),
        ("168.63.129.16", True),
        ("255.255.255.255", True),
        ("fd00::1", True),
        ("fe80::1", True),
        ("fec0::1", True),
        ("ff02::1", True),
        ("::", True),
        ("::127.0.0.1", True),
        ("::ffff:8.8.8.8", False),
        ("64:ff9b:1::7f00:1", True),
        ("64:ff9b:1::808:808", True),
        ("100::1", True),
        ("5f00::1", True),
        ("2001::1", True),
        ("2001:db8::1", True),
        ("3fff::1", True),
        ("2002:808:808::", False),
        ("64:ff9b::7f00:1", True),
        ("64:ff9b::808:808", False),
        ("2002:7f00:1::", True),
        ("8.8.8.8", False),
        ("2606:4700::1111", False),
    ],
)
def test_private_addresses_are_told_from_public_ones(address: str, private: bool) -> None:
    assert is_private(ip_address(address)) is private


async def test_an_endless_answer_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "LONGEST_ANSWER", 8)
    async with receiving() as receiver:
        answer = await http.post(receiver.url, b"", {}, within=timedelta(seconds=5))
    assert answer.body == b"okokokok"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"url": "ftp://example.com"}, "url= must be an address"),
        ({"url": "example.com/hook"}, "url= must be an address"),
        ({"url": "https://example.com:70000/hook"}, "url= must be an address"),
        ({"url": "https://example.com:0/hook"}, "url= must be an address"),
        ({"url": "https://[::1/hook"}, "url= must be an address"),
        ({"url": None}, "url= must be an address"),
        ({"url": "https://ann:secret@example.com"}, "must not hold a user or password"),
        ({"secret": "short"}, "secret= must be a text of at least 16 characters"),
        ({"secret": None}, "secret= must be a text"),
        ({"events": ["made"]}, "events= has 'made'. The events are cancelled, changed"),
        ({"events": "created"}, r"events=\['created'\]"),
        ({"events": []}, "events= has nothing"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], problem: str) -> None:
    arguments: dict[str, Any] = {"url": "https://example.com", "secret": SECRET, **options}
    with pytest.raises(UserError, match=problem) as raised:
        Webhook(**arguments)
    assert "ann:secret" not in str(raised.value)


def test_a_genuine_webhook_is_accepted_whatever_the_case_of_its_headers() -> None:
    body, headers = signed()
    lower = {name.lower(): value for name, value in headers.items()}
    for found in (headers, lower):
        assert verify_webhook(body, found, SECRET, now=NOW)["run_id"] == "support-42"
    assert verify_webhook(body, headers, ["the secret of before", SECRET], now=NOW)


@pytest.mark.parametrize("late", [-301, 301, -86_400, 10**9])
def test_a_webhook_that_is_late_or_early_is_refused(late: int) -> None:
    body, headers = signed(at=NOW + late)
    with pytest.raises(WebhookRefused, match="more than 300 s away"):
        verify_webhook(body, headers, SECRET, now=NOW)


@pytest.mark.parametrize("late", [-300, 0, 300])
def test_a_webhook_within_the_window_is_accepted(late: int) -> None:
    body, headers = signed(at=NOW + late)
    assert verify_webhook(body, headers, SECRET, now=NOW)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({SIGNATURE_HEADER: "v1=" + "0" * 64}, "signature"),
        ({SIGNATURE_HEADER: ""}, "signature"),
        ({SIGNATURE_HEADER: "é\ud800"}, "signature"),
        ({TIME_HEADER: str(NOW + 1)}, "signature"),
        ({TIME_HEADER: "soon"}, "no number of seconds"),
        ({TIME_HEADER: "-5"}, "no number of seconds"),
        ({TIME_HEADER: "²"}, "no number of seconds"),
        ({TIME_HEADER: "9" * 5_000}, "no number of seconds"),
        ({ID_HEADER: "another"}, "is not its id"),
    ],
)
def test_a_forged_webhook_is_refused(changes: dict[str, str], problem: str) -> None:
    body, headers = signed()
    with pytest.raises(WebhookRefused, match=problem):
        verify_webhook(body, {**headers, **changes}, SECRET, now=NOW)


def test_a_changed_body_or_another_secret_is_refused() -> None:
    body, headers = signed()
    with pytest.raises(WebhookRefused, match="signature"):
        verify_webhook(body.replace(b"250", b"950"), headers, SECRET, now=NOW)
    with pytest.raises(WebhookRefused, match="signature"):
        verify_webhook(body, headers, "another secret of a desk", now=NOW)
    with pytest.raises(WebhookRefused, match="no timestamp"):
        verify_webhook(body, {}, SECRET, now=NOW)


def test_without_a_secret_nothing_is_accepted() -> None:
    body, headers = signed()
    none: list[str] = []
    for secret in ("", none):
        with pytest.raises(UserError):
            verify_webhook(body, headers, secret, now=NOW)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"id": 5}', b"{", b"[" * 100_000])
def test_a_signed_body_that_is_no_notification_is_refused(body: bytes) -> None:
    headers = signed_headers(SECRET, "x", body, NOW)
    with pytest.raises(WebhookRefused, match="no notification"):
        verify_webhook(body, headers, SECRET, now=NOW)


def test_a_repeated_webhook_is_handled_once_unless_handling_failed() -> None:
    seen = SeenIds()
    body, headers = signed()
    first: JsonObject = verify_webhook(body, headers, SECRET, seen=seen, now=NOW)
    with pytest.raises(WebhookRepeated, match="handled before"):
        verify_webhook(*signed(at=NOW + 9), SECRET, seen=seen, now=NOW)
    seen.forget(first["id"])
    assert verify_webhook(body, headers, SECRET, seen=seen, now=NOW)


def test_a_forged_webhook_does_not_use_an_id_up() -> None:
    seen = SeenIds()
    body, headers = signed()
    with pytest.raises(WebhookRefused):
        verify_webhook(body, {**headers, SIGNATURE_HEADER: "v1="}, SECRET, seen=seen, now=NOW)
    assert verify_webhook(body, headers, SECRET, seen=seen, now=NOW)


def test_ids_are_forgotten_after_their_time_and_when_there_are_too_many() -> None:
    now = [0.0]
    seen = SeenIds(timedelta(seconds=10), most=2, clock=lambda: now[0])
    assert (seen.add("a"), seen.add("a")) == (True, False)
    now[0] = 9.9
    assert not seen.add("a")
    now[0] = 10
    assert seen.add("a")
    assert (seen.add("b"), seen.add("c"), seen.add("a")) == (True, True, True)


async def test_the_time_of_a_webhook_is_now() -> None:
    async with receiving() as receiver:
        await Webhook(receiver.url, SECRET).notify(CREATED)
    assert abs(int(receiver.headers[0][TIME_HEADER]) - time.time()) < 5
