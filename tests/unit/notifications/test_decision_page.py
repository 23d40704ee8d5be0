"""The page behind a mail's link: reading decides nothing, and a link counts once."""

import base64
import html
import json
import re
import time
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest

from outlast.agents.errors import UserError
from outlast.loop.approvals import ApprovalRequest, Audience, Decision, Vote
from outlast.notifications import texts
from outlast.notifications.decision_page import DecisionPage
from outlast.notifications.endpoints import HttpReply
from outlast.notifications.links import Link, LinkRefused, LinkSigner
from tests.unit.notifications.hostile import HOSTILE
from tests.unit.notifications.runs import REFUND, Runs

KEY = "the key of the decision links"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
ANN = Link(
    run_id="support-42",
    execution="e-1",
    request_id="a1",
    requested_at_ms=1_000_000,
    args_digest="d" * 64,
    subject="ann",
    expires_at=int(time.time()) + 86_400,
)


def token(link: Link = ANN, key: str = KEY) -> str:
    return LinkSigner(key).token(link)


async def get(runs: Runs, sent: str, method: str = "GET") -> HttpReply:
    query = urlencode({"token": sent})
    return await DecisionPage(runs, KEY).handle(method, "/decide", query, b"", {})


async def post(
    runs: Runs, sent: str, decision: str = "approve", message: str = "", **fields: str
) -> HttpReply:
    form = {"token": sent, "decision": decision, "message": message, **fields}
    body = urlencode(form).encode()
    return await DecisionPage(runs, KEY).handle("POST", "/decide", "", body, FORM)


def shown(reply: HttpReply) -> str:
    return html.unescape(re.sub(r"<[^>]*>", " ", reply[2].decode()))


async def test_the_page_shows_the_request_and_a_form() -> None:
    reply = await get(Runs(), token())
    assert reply[0] == 200
    text = shown(reply)
    for part in ("refund", "Billing", "over 100 €", '"amount": 250', "You decide as", "ann"):
        assert part in text
    page = reply[2].decode()
    assert re.findall(r'name="decision" value="(\w+)"', page) == ["approve", "reject"]
    assert '<form method="post">' in page


async def test_a_long_value_hides_no_other_one() -> None:
    arguments = json.dumps({"note": "n" * 50_000, "iban": "EVE", "amount": 90_000})
    reply = await get(Runs(replace(REFUND, arguments=arguments)), token())
    assert "n" * 50_000 in shown(reply)
    assert '"iban": "EVE",\n  "amount": 90000' in shown(reply)
    assert "<button" in reply[2].decode()


@pytest.mark.parametrize(
    "arguments",
    [
        json.dumps({"note": "n" * 100_000, "amount": 90_000}),
        json.dumps({"amount": 90_000, "note": "\u202e" * 50_000}),
        json.dumps({f"key {at}": at for at in range(8_000)}),
        "n" * 100_001,
    ],
    ids=["a value", "escapes", "keys", "no JSON"],
)
async def test_arguments_that_cannot_be_shown_whole_have_no_button(arguments: str) -> None:
    runs = Runs(replace(REFUND, arguments=arguments))
    reply = await get(runs, token())
    page = reply[2].decode()
    assert reply[0] == 200
    assert len(page) < 200_000
    assert "<form" not in page
    assert "<button" not in page
    assert texts.ELSEWHERE in shown(reply)
    assert "outlast approve support-42 a1 --digest dddd" in shown(reply)
    if '"amount"' in arguments:
        assert '"amount": 90000' in shown(reply)

    sent = await post(runs, token())

    assert sent[0] == 409
    assert texts.ELSEWHERE in shown(sent)
    assert runs.decided == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "get", "OPTIONS", "PUT", "DELETE"])
async def test_a_scanner_that_opens_links_decides_nothing(method: str) -> None:
    runs = Runs()
    query = urlencode({"token": token(), "decision": "approve"})
    body = urlencode({"token": token(), "decision": "approve"}).encode()
    for _ in range(3):
        await DecisionPage(runs, KEY).handle(method, "/", query, body, FORM)
    assert runs.decided == []
    assert (await post(runs, token()))[0] == 200


async def test_a_head_request_has_no_body() -> None:
    status, _, body = await get(Runs(), token(), "HEAD")
    assert (status, body) == (200, b"")


@pytest.mark.parametrize(
    ("kind", "message", "kept"),
    [("approve", "ignored", None), ("reject", " Too much. ", "Too much."), ("reject", " ", None)],
)
async def test_the_form_decides_as_the_person_of_the_link(
    kind: str, message: str, kept: str | None
) -> None:
    runs = Runs()
    reply = await post(runs, token(), kind, message, by="mallory", subject="mallory")
    assert reply[0] == 200
    [decision] = runs.decided
    assert (decision.type, decision.by, decision.message) == (kind, "ann", kept)
    assert (decision.method, decision.channel, decision.args_digest) == (
        "mail_link",
        "mail",
        "d" * 64,
    )


async def test_a_link_counts_once() -> None:
    runs = Runs()
    assert (await post(runs, token()))[0] == 200
    again = await post(runs, token(), "reject")
    assert again[0] == 410
    assert "already approved by ann" in shown(again)
    assert (await get(runs, token()))[0] == 410
    assert len(runs.decided) == 1


@pytest.mark.parametrize("used", [True, False])
@pytest.mark.parametrize("another", ["execution", "request"])
async def test_a_link_decides_no_later_run_with_the_same_ids_and_arguments(
    used: bool, another: str
) -> None:
    runs = Runs()
    if used:
        assert (await post(runs, token()))[0] == 200
    if another == "execution":
        runs.executions["support-42"] = "e-2"
    asked_at_ms = REFUND.requested_at_ms + (another == "request")
    runs.requests["support-42"] = [replace(REFUND, requested_at_ms=asked_at_ms)]
    for reply in (await get(runs, token()), await post(runs, token())):
        assert reply[0] == 410
        assert "of an earlier run with the same id" in shown(reply)
    assert len(runs.decided) == used


async def test_a_link_without_an_execution_decides_nothing() -> None:
    runs = Runs()
    runs.executions["support-42"] = ""
    assert (await post(runs, token(replace(ANN, execution=""))))[0] == 410
    assert runs.decided == []


async def test_a_link_takes_no_conversation_over() -> None:
    runs = Runs(replace(REFUND, terms=replace(REFUND.terms, takeover=True)))
    page = (await get(runs, token()))[2].decode()
    assert 'value="reject"' in page
    assert 'value="approve"' not in page


async def test_a_person_has_one_vote() -> None:
    runs = Runs(replace(REFUND, terms=replace(REFUND.terms, quorum=2)))
    assert (await post(runs, token()))[0] == 200
    again = await post(runs, token())
    assert "You have decided already" in shown(again)
    assert "You have decided already" in shown(await get(runs, token()))
    bob = replace(ANN, subject="bob", groups=("billing",))
    assert (await post(runs, token(bob)))[0] == 200
    assert [one.by for one in runs.decided] == ["ann", "bob"]


async def test_a_link_is_for_the_arguments_of_its_mail() -> None:
    runs = Runs(replace(REFUND, args_digest="e" * 64))
    for reply in (await get(runs, token()), await post(runs, token())):
        assert reply[0] == 410
        assert "have changed since this mail" in shown(reply)
    assert runs.decided == []


async def test_the_run_refuses_who_may_not_decide() -> None:
    runs = Runs()
    reply = await post(runs, token(replace(ANN, subject="mallory")))
    assert reply[0] == 409
    assert "mallory may not" in shown(reply)
    assert runs.decided == []


@pytest.mark.parametrize(
    "change", [{"run_id": "another"}, {"request_id": "a9"}], ids=["run", "request"]
)
async def test_a_link_to_something_that_is_gone_says_so(change: dict[str, str]) -> None:
    reply = await get(Runs(), token(replace(ANN, **change)))
    assert reply[0] in {409, 410}


async def test_an_expired_link_is_refused() -> None:
    for ago in (0, 1, 10**6):
        old = token(replace(ANN, expires_at=int(time.time()) - ago))
        for reply in (await get(Runs(), old), await post(Runs(), old)):
            assert reply[0] == 403
            assert "has expired" in shown(reply)


def forged() -> list[str]:
    whole = token()
    payload, _, signature = whole.partition(".")
    other = token(replace(ANN, subject="mallory"))
    return [
        "",
        ".",
        "x",
        "é.é",
        payload,
        f"{payload}.",
        f"{payload}.{signature[:-1]}{'01'[signature[-1] == '0']}",
        f"{payload}.{signature.upper()}",
        f"{other.partition('.')[0]}.{signature}",
        f"{payload}=.{signature}",
        token(key="another key of some links"),
        whole * 50,
        "A" * 60_000,
    ]


@pytest.mark.parametrize("sent", forged())
async def test_a_forged_link_is_refused(sent: str) -> None:
    runs = Runs()
    for reply in (await get(runs, sent), await post(runs, sent)):
        assert reply[0] == 403
        assert "link" in shown(reply)
    assert runs.decided == []


@pytest.mark.parametrize("data", ["[]", "{}", "5", '{"r": "x", "e": "soon"}'])
def test_a_signed_token_of_another_version_is_refused(data: str) -> None:
    signer = LinkSigner(KEY)
    payload = base64.urlsafe_b64encode(data.encode()).decode().rstrip("=")
    with pytest.raises(LinkRefused, match="another version"):
        signer.read(f"{payload}.{signer._signature(payload)}")


def test_a_token_keeps_every_text() -> None:
    link = Link(
        run_id=HOSTILE,
        execution=HOSTILE,
        request_id=HOSTILE,
        requested_at_ms=2**50,
        args_digest="",
        subject=HOSTILE,
        groups=(HOSTILE, "b"),
        expires_at=2**40,
    )
    assert LinkSigner(KEY).read(LinkSigner(KEY).token(link)) == link


async def test_hostile_text_is_text() -> None:
    request = ApprovalRequest(
        id="a1",
        call_id="c",
        name=HOSTILE,
        agent=HOSTILE,
        handoff_path=(HOSTILE, HOSTILE),
        arguments=json.dumps({HOSTILE: HOSTILE}),
        args_digest="d" * 64,
        reason=HOSTILE,
        terms=replace(
            REFUND.terms, effect=HOSTILE, audience=Audience(subjects=(HOSTILE,), groups=(HOSTILE,))
        ),
        requested_at_ms=1_000_000,
    )
    runs = Runs(request)
    pages = [
        await get(runs, token(replace(ANN, subject=HOSTILE))),
        await get(runs, token(replace(ANN, run_id=HOSTILE))),
        await post(runs, token(replace(ANN, subject="x")), message=HOSTILE.replace("\ud800", "")),
    ]
    decision = Decision(request_id="a1", type="reject", by=HOSTILE)
    decided = replace(request, status="rejected", decision=decision)
    pages.append(await get(Runs(decided), token()))
    for status, _, body in pages:
        page = body.decode()
        assert status in {200, 409, 410}
        assert "<script" not in page
        assert "\x00" not in page
        assert "\u202e" not in page
        assert len(re.findall(r"<(?:form|input|button|textarea)", page)) in {0, 5}


async def test_the_page_is_not_framed_cached_or_indexed() -> None:
    for reply in (await get(Runs(), token()), await get(Runs(), "x")):
        headers = reply[1]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert "script" not in headers["Content-Security-Policy"]
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["X-Frame-Options"] == "DENY"


@pytest.mark.parametrize(
    ("fields", "headers"),
    [
        ({"decision": "edit"}, FORM),
        ({"decision": ""}, FORM),
        ({"message": "x" * 4_001}, FORM),
        ({"message": "x" * 70_000}, FORM),
        ({}, {"Content-Type": "text/plain"}),
        ({}, {"Content-Type": "application/json"}),
        ({}, {}),
    ],
)
async def test_a_form_that_makes_no_sense_is_refused(
    fields: dict[str, str], headers: dict[str, str]
) -> None:
    runs = Runs()
    body = urlencode({"token": token(), "decision": "reject", **fields}).encode()
    status, _, _ = await DecisionPage(runs, KEY).handle("POST", "/", "", body, headers)
    assert status == 400
    assert runs.decided == []


@pytest.mark.parametrize("body", [b"", b"\xff\xfe=\xff", b"a=1&" * 50, b"token=a&token=b"])
async def test_a_body_that_is_no_form_is_refused(body: bytes) -> None:
    status, _, _ = await DecisionPage(Runs(), KEY).handle("POST", "/", "", body, FORM)
    assert status == 403


async def test_two_decisions_in_one_form_are_none() -> None:
    runs = Runs()
    body = urlencode([("token", token()), ("decision", "approve"), ("decision", "reject")]).encode()
    assert (await DecisionPage(runs, KEY).handle("POST", "/", "", body, FORM))[0] == 400
    assert runs.decided == []


async def test_a_server_that_cannot_be_reached_says_so_without_details() -> None:
    runs = Runs()
    runs.failure = ConnectionError("10.0.0.7:7233 refused")
    for reply in (await get(runs, token()), await post(runs, token())):
        assert reply[0] == 503
        assert "10.0.0.7" not in reply[2].decode()
    runs.failure = None
    assert (await post(runs, token()))[0] == 200


@pytest.mark.parametrize("key", ["", "short", None])
def test_a_key_is_long_enough(key: Any) -> None:
    with pytest.raises(UserError, match="key= must be a text of at least 16"):
        DecisionPage(Runs(), key)


async def test_votes_for_earlier_arguments_do_not_count_as_the_persons_vote() -> None:
    void = Vote(
        decision=Decision(request_id="a1", type="approve", by="ann"), at_ms=1, args_digest="c"
    )
    runs = Runs(replace(REFUND, votes=(void,)))
    assert (await get(runs, token()))[0] == 200
