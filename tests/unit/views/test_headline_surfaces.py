"""Every surface says what a request asks for in the same words, with the same marks around values."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from outlast.cli import inbox
from outlast.client.identity import person
from outlast.client.inbox import InboxEntry
from outlast.client.people.nested_requests import FoundRequest
from outlast.loop.approvals import ApprovalTerms
from outlast.loop.calls import RequiredApproval
from outlast.loop.notices import Notice
from outlast.loop.state import LoopState
from outlast.notifications import slack_blocks, texts
from outlast.ports.notifier import DigestNotice, notification
from outlast.serve.access import Staff
from outlast.serve.records import request_view
from outlast.views.request import facts
from outlast.views.run import snapshot_of
from outlast.workflows.presentation import details
from tests.laws.driver import Play, gated

TERMS = ApprovalTerms(headline="Refund {amount} EUR to {customer}", redact=("iban",))
PLAIN = "Refund 5 EUR to “Ann”"
HOSTILE = "Ann” for free. Approve “it\n<b>`*_[x](y) @here"
SHOWN = "Refund 5 EUR to “Ann' for free. Approve 'it <b>'*_[x](y) @here”".replace("'*", "`*")


def asking(customer: str = "Ann", terms: ApprovalTerms = TERMS) -> LoopState:
    play = Play()
    play.prepared()
    arguments = json.dumps({"amount": 5, "customer": customer, "iban": "DE42"})
    play.replies(gated("refund_order", "c1", arguments, terms=terms))
    return play.state


def of_api(state: LoopState) -> str:
    caller = Staff(person("ann"), frozenset({"viewer", "decider"}))
    return request_view(FoundRequest(state.approvals[0], snapshot_of(state)), caller).headline


def of_command_line(state: LoopState) -> str:
    started = datetime(2026, 1, 1, tzinfo=UTC)
    entry = InboxEntry(run_id="r", started=started, client=cast("Any", None))
    return inbox._row_of_request(entry, state.approvals[0]).what


def of_facts(state: LoopState) -> str:
    return dict(facts(state.approvals[0], state.at_ms))["asks"]


def notice_of(state: LoopState) -> Any:
    one = Notice(event="created", number=1, at_ms=1, request=state.approvals[0])
    return notification(one, "support-42")


def of_notification(state: LoopState) -> str:
    return {one.label: one.text for one in texts.details(notice_of(state))}["What"]


def of_digest(state: LoopState) -> str:
    (line,) = texts.digest_lines(DigestNotice(id="d", at_ms=1, pending=(notice_of(state),)).pending)
    return line.text


def of_slack(state: LoopState) -> str:
    return json.dumps(slack_blocks.message(notice_of(state)), ensure_ascii=False)


SURFACES = (of_api, of_command_line, of_facts, of_notification, of_digest, of_slack)


@pytest.mark.parametrize("surface", SURFACES)
def test_the_words_are_the_same(surface: Callable[[LoopState], str]) -> None:
    assert PLAIN in surface(asking())
    # A list of the command line is narrow.
    assert SHOWN[: 50 if surface is of_command_line else None] in surface(asking(HOSTILE))
    assert "DE42" not in surface(asking())


def test_the_temporal_ui_shows_it_as_code_where_it_could_be_markup() -> None:
    assert f"Waiting for approval: {PLAIN}: `refund_order`" in details(asking())
    assert f"Waiting for approval: ``{SHOWN}``: `refund_order`" in details(asking(HOSTILE))


@pytest.mark.parametrize("surface", SURFACES)
def test_without_a_headline_nothing_is_said_otherwise_than_before(
    surface: Callable[[LoopState], str],
) -> None:
    state = asking(terms=replace(TERMS, headline=""))
    if surface is not of_facts:
        assert "refund_order" in surface(state)
    assert "asks" not in dict(facts(state.approvals[0], state.at_ms))


def test_each_request_has_the_words_of_its_own_policy() -> None:
    play = Play()
    play.prepared()
    other = ApprovalTerms(headline="Ship {order}")
    play.replies(
        gated("refund_order", "c1", '{"amount": 5, "customer": "Ann"}', terms=TERMS),
        gated("ship", "c2", '{"order": "A-1", "amount": 9, "customer": "Bob"}', terms=other),
    )
    first, second = play.state.approvals
    shown = [dict(facts(one, play.state.at_ms))["asks"] for one in (first, second)]
    assert shown == [PLAIN, "Ship “A-1”"]
    assert RequiredApproval().terms.headline == ""
