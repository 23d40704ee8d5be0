"""Mails: who gets one, what stands in it, and what a failing server does."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace
from datetime import timedelta
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from outlast.agents.errors import UserError
from outlast.notifications import mail as mail_module
from outlast.notifications.mail import MailNotifier, Recipient
from outlast.ports.notifier import (
    DigestNotice,
    Notification,
    NotifierRejected,
    NotifierUnavailable,
)
from tests.hostile_text import assert_visible
from tests.unit.notifications.hostile import CREATED, HOSTILE, LONG, NASTY
from tests.unit.notifications.smtp_server import (
    BREAKS,
    HANGS,
    SmtpServer,
    certificate,
    smtp_server,
)

ANN = Recipient(subject="ann", address="ann@example.com")
BOB = Recipient(subject="bob", address="bob@example.com", groups=("billing",))
EVE = Recipient(subject="eve", address="eve@example.com", groups=("sales",))
OPEN = replace(CREATED, risk="medium")


@pytest.fixture
async def smtp() -> AsyncGenerator[SmtpServer]:
    async with smtp_server() as server:
        yield server


@pytest.fixture(autouse=True)
def impatience() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mail_module, "_SMTP_SECONDS", 0.4)
        yield


def notifier(smtp: SmtpServer, *to: Recipient, **options: Any) -> MailNotifier:
    defaults: dict[str, Any] = {
        "sender": "desk@example.com",
        "to": to or (ANN, BOB, EVE),
        "link_base": "https://desk.example",
        "security": "none",
    }
    return MailNotifier("127.0.0.1", smtp.port, **{**defaults, **options})


def text_of(mail: EmailMessage) -> str:
    return str(mail.get_content()).replace("\r\n", "\n")


def link_in(text: str) -> str | None:
    found = re.search(r"https://desk\.example/\S+", text)
    return found[0] if found else None


LINK = "https://desk.example/conversations/support-42/requests/a1?asked=1000000"


async def test_everybody_who_may_decide_gets_a_mail_with_a_link(smtp: SmtpServer) -> None:
    await notifier(smtp).notify(OPEN)
    assert [to for to, _ in smtp.received] == ["ann@example.com", "bob@example.com"]
    for person, (_, mail) in zip((ANN, BOB), smtp.received, strict=True):
        assert mail["Subject"] == "A decision is needed: refund"
        assert mail["To"] == person.address
        text = text_of(mail)
        assert '> {\n>   "order": "A-17",\n>   "amount": 250\n> }' in text
        assert "outlast approve support-42 a1" in text
        assert f"Look at it, and decide:\n{LINK}\n" in text


async def test_a_request_for_everybody_goes_to_all(smtp: SmtpServer) -> None:
    await notifier(smtp).notify(replace(OPEN, subjects=(), groups=()))
    assert len(smtp.received) == 3


async def test_a_request_for_nobody_here_is_refused(smtp: SmtpServer) -> None:
    with pytest.raises(NotifierRejected, match="none of its recipients"):
        await notifier(smtp, EVE).notify(OPEN)
    assert smtp.connections == 0


@pytest.mark.parametrize(
    ("notice", "has_one"),
    [
        (replace(OPEN, risk="high"), True),
        (replace(OPEN, allow=("edit", "respond")), True),
        (replace(OPEN, event="decided", status="approved", commands=()), True),
        (replace(OPEN, arguments=json.dumps({"note": "n" * 100_000})), True),
        (replace(OPEN, execution=""), False),
        (replace(OPEN, request_id="", event="held", by="ann"), False),
    ],
    ids=["high risk", "other decisions", "decided", "long", "in memory", "no request"],
)
async def test_a_mail_about_a_request_on_a_server_has_a_link(
    smtp: SmtpServer, notice: Notification, *, has_one: bool
) -> None:
    await notifier(smtp, ANN).notify(notice)
    assert (link_in(text_of(smtp.received[0][1])) == LINK) == has_one


async def test_a_mail_cuts_long_values(smtp: SmtpServer) -> None:
    arguments = json.dumps({"note": "n" * 5_000, "amount": 90_000})
    await notifier(smtp, ANN).notify(replace(OPEN, arguments=arguments))
    text = text_of(smtp.received[0][1])
    assert "Arguments, cut:" in text
    assert '>   "amount": 90000' in text


async def test_links_may_be_off_and_no_id_leads_elsewhere(smtp: SmtpServer) -> None:
    await notifier(smtp, ANN, link_base=None).notify(OPEN)
    odd = replace(OPEN, run_id="../a b?c#d/@evil.example", request_id="\u202ea1")
    await notifier(smtp, ANN, link_base="https://desk.example/desk/").notify(odd)
    links = [link_in(text_of(mail)) for _, mail in smtp.received]
    run = "..%2Fa%20b%3Fc%23d%2F%40evil.example"
    assert links == [
        None,
        f"https://desk.example/desk/conversations/{run}/requests/%E2%80%AEa1?asked=1000000",
    ]


@pytest.mark.parametrize("notice", [NASTY, LONG], ids=["hostile", "long"])
async def test_hostile_text_stays_in_its_line(smtp: SmtpServer, notice: Notification) -> None:
    to = Recipient(subject=notice.subjects[0], address="ann@example.com")
    await notifier(smtp, to).notify(notice)
    [(_, mail)] = smtp.received
    assert mail.get_all("Bcc") is None
    assert mail["To"] == "ann@example.com"
    assert len(mail["Subject"]) < 260
    assert_visible(mail["Subject"])
    text = text_of(mail)
    assert_visible(text, layout="\n")
    assert len(text) < 12_000
    assert not [line for line in text.split("\n") if line.startswith(("Bcc:", "</script>"))]


async def test_a_mail_has_the_same_id_on_every_attempt_and_joins_its_thread(
    smtp: SmtpServer,
) -> None:
    await notifier(smtp, ANN).notify(OPEN)
    await notifier(smtp, ANN).notify(replace(OPEN, attempt=2))
    reminder = replace(OPEN, id="support-42/a1/reminder/1@1000000", event="reminder")
    first = "support-42/a1/created/1@1000000"
    await notifier(smtp, ANN).notify(replace(OPEN, id=first))
    await notifier(smtp, ANN).notify(reminder)
    ids = [str(mail["Message-ID"]) for _, mail in smtp.received]
    assert ids[0] == ids[1] != ids[3]
    assert smtp.received[3][1]["References"] == ids[2]


async def test_a_retry_leaves_out_the_people_who_have_their_mail(smtp: SmtpServer) -> None:
    smtp.rcpt["bob@example.com"] = "451 Later"
    one = notifier(smtp)
    with pytest.raises(NotifierUnavailable, match="answered 451 Later for bob"):
        await one.notify(OPEN)
    smtp.rcpt.clear()
    await one.notify(replace(OPEN, attempt=2))
    assert [to for to, _ in smtp.received] == ["ann@example.com", "bob@example.com"]


async def test_an_address_that_is_refused_does_not_stop_the_others(smtp: SmtpServer) -> None:
    smtp.rcpt["ann@example.com"] = "550 No such user"
    with pytest.raises(NotifierRejected, match="550 No such user"):
        await notifier(smtp).notify(OPEN)
    assert [to for to, _ in smtp.received] == ["bob@example.com"]


@pytest.mark.parametrize("outcome", [HANGS, BREAKS, "421 Going down", "452 Full"])
async def test_a_server_that_fails_gets_another_attempt(smtp: SmtpServer, outcome: str) -> None:
    smtp.outcomes = [outcome]
    one = notifier(smtp, ANN)
    with pytest.raises(NotifierUnavailable):
        await one.notify(OPEN)
    await one.notify(replace(OPEN, attempt=2))
    assert len(smtp.received) == 1


async def test_a_mail_that_is_refused_is_not_tried_again(smtp: SmtpServer) -> None:
    smtp.outcomes = ["554 Spam \x1b[2K"]
    with pytest.raises(NotifierRejected, match="554 Spam") as raised:
        await notifier(smtp, ANN).notify(OPEN)
    assert_visible(str(raised.value))


@pytest.mark.parametrize("greeting", ["421 Busy", "554 Go away"])
async def test_a_server_that_takes_no_connection_gets_another_attempt(
    smtp: SmtpServer, greeting: str
) -> None:
    smtp.greeting = greeting
    with pytest.raises(NotifierUnavailable, match=greeting[4:]):
        await notifier(smtp, ANN).notify(OPEN)


async def test_a_server_that_is_not_there_gets_another_attempt() -> None:
    async with smtp_server() as smtp:
        one = notifier(smtp, ANN)
    with pytest.raises(NotifierUnavailable, match="the mail server 127"):
        await one.notify(OPEN)


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_mails_are_encrypted_and_the_server_is_checked(tmp_path: Path, security: str) -> None:
    server, client = certificate(tmp_path)
    async with smtp_server(tls=server, from_first_byte=security == "tls") as smtp:
        smtp.password = "hunter2-hunter2"
        options: dict[str, Any] = {"sender": "desk@example.com", "to": [ANN], "security": security}
        login: dict[str, Any] = {"username": "desk", "password": smtp.password}
        trusting = MailNotifier("localhost", smtp.port, tls_context=client, **options, **login)
        await trusting.notify(OPEN)
        assert smtp.secure == [True]
        careful = MailNotifier("localhost", smtp.port, **options, **login)
        with pytest.raises(NotifierUnavailable, match="certificate"):
            await careful.notify(OPEN)
        login["password"] = "wrong"
        wrong = MailNotifier("localhost", smtp.port, tls_context=client, **options, **login)
        with pytest.raises(NotifierUnavailable, match="Wrong password") as raised:
            await wrong.notify(OPEN)
        assert "hunter2" not in str(raised.value)


async def test_a_server_without_encryption_gets_no_mail(smtp: SmtpServer) -> None:
    with pytest.raises(NotifierUnavailable, match="STARTTLS"):
        await notifier(smtp, ANN, security="starttls").notify(OPEN)
    assert smtp.received == []


async def test_a_digest_has_what_its_reader_may_decide(smtp: SmtpServer) -> None:
    mine = replace(OPEN, request_id="a2", subjects=("eve",), groups=())
    one = notifier(smtp)
    digest = DigestNotice(id="digest/1", at_ms=5, pending=(OPEN, mine))
    await one.notify_digest(digest)
    await one.notify_digest(digest)
    subjects = {to: str(mail["Subject"]) for to, mail in smtp.received}
    assert len(smtp.received) == 3
    assert set(subjects.values()) == {"1 request waits for a decision"}
    assert "run support-42 a2" in text_of(smtp.received[2][1])


async def test_a_takeover_goes_to_everybody(smtp: SmtpServer) -> None:
    held = Notification(id="r/held/1@9", event="held", at_ms=9_000, run_id="r", by=HOSTILE)
    await notifier(smtp).notify(held)
    assert len(smtp.received) == 3
    assert smtp.received[0][1]["Subject"] == "A person has taken a conversation over"


async def test_a_mention_goes_to_who_is_mentioned_with_the_comment_made_safe(
    smtp: SmtpServer,
) -> None:
    mention = Notification(
        id="r/mentioned/1@9",
        event="mentioned",
        at_ms=9_000,
        run_id="r/1",
        execution="x",
        by="bob",
        subjects=("eve", "nobody-here"),
        message=HOSTILE * 40,
    )
    await notifier(smtp).notify(mention)
    await notifier(smtp, Recipient(subject=" EVE ", address="e@example.com")).notify(mention)
    assert [to for to, _ in smtp.received] == ["eve@example.com", "e@example.com"]
    mail = smtp.received[0][1]
    assert mail["Subject"] == "A comment mentions a colleague"
    text = text_of(mail)
    assert_visible(text, layout="\n")
    assert "By: bob\n" in text
    assert "Comment: " in text
    assert len(text) < 2_000
    assert link_in(text) == "https://desk.example/conversations/r%2F1"
    with pytest.raises(NotifierRejected, match="none of its recipients is mentioned"):
        await notifier(smtp, ANN).notify(mention)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"link_base": "http://desk.example/"}, "must begin with https://"),
        ({"link_base": "https://desk.example/?a=1"}, "without a query"),
        ({"security": "ssl"}, "security= must be starttls, tls or none"),
        ({"sender": "desk@example.com\nBcc: all@example.com"}, "sender= must be a mail address"),
        ({"to": ["ann@example.com"]}, "pass Recipient"),
        ({"to": []}, "to= must be a list of recipients"),
        ({"to": "ann@example.com"}, "to= must be a list of recipients"),
        ({"to": [Recipient(subject="ann", address="ann")]}, "The address of 'ann'"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        notifier(SmtpServer(port=25), **options)


@pytest.mark.parametrize("port", [0, 70_000])
def test_a_number_that_is_no_port_is_refused(port: int) -> None:
    with pytest.raises(UserError, match=f"port= must be a port, from 1 to 65535, not {port}"):
        notifier(SmtpServer(port=port))


def test_a_password_needs_encryption() -> None:
    with pytest.raises(UserError, match="would travel without encryption"):
        MailNotifier("mail.example", sender="a@b.c", to=[ANN], password="x", security="none")


def test_links_on_this_machine_need_no_encryption() -> None:
    notifier(SmtpServer(port=25), link_base="http://localhost:8000")


async def test_a_delivery_that_was_broken_off_is_tried_again(smtp: SmtpServer) -> None:
    smtp.outcomes = [HANGS]
    one = notifier(smtp, ANN)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await one.notify(OPEN)
    await asyncio.sleep(timedelta(seconds=0.5).total_seconds())
    await one.notify(replace(OPEN, attempt=2))
    assert len(smtp.received) == 1
