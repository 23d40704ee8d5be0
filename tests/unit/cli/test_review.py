"""What people read before they decide."""

import io
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from hypothesis import given
from rich.console import Console

from outlast.cli import review, terminal
from outlast.cli.inbox import _row_of_request, _row_of_run
from outlast.client.inbox import InboxEntry
from outlast.client.people.words import model_words
from outlast.edges.rendering import DIGEST_SHOWN, original
from outlast.loop.approvals import (
    ApprovalRequest,
    ApprovalTerms,
    Audience,
    Claim,
    Decision,
    EscalationStep,
    RequestKind,
    Vote,
    digest,
)
from outlast.loop.items import Item
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject
from outlast.testing import call
from outlast.testing import say as said
from outlast.views.proofs import Proof
from tests.hostile_text import ARGUMENTS, TEXTS, assert_visible
from tests.laws.strategies import examples

HOUR_MS = 3_600_000
NOW_MS = time.time_ns() // 1_000_000
REQUEST = ApprovalRequest(
    id="a1",
    call_id="c1",
    name="refund",
    agent="Billing",
    handoff_path=("Triage", "Billing"),
    arguments='{"order_id": "A-42", "amount": 389.0}',
    args_digest="d",
    reason="above 100 EUR",
    requested_at_ms=NOW_MS + 86_400_000,  # no wait to show
)
SEEN = REQUEST.digest[:DIGEST_SHOWN]
STRICT = replace(
    REQUEST,
    requested_at_ms=NOW_MS,
    expires_at_ms=NOW_MS + 5 * HOUR_MS - 1,
    reminders=2,
    claim=Claim(by="bob", until_ms=NOW_MS + HOUR_MS),
    votes=(
        Vote(
            decision=Decision(request_id="a1", type="approve", by="eve"),
            at_ms=1_000,
            args_digest="older",
        ),
        Vote(
            decision=Decision(request_id="a1", type="edit", by="ann"),
            at_ms=2_000,
            verified=True,
            args_digest="d",
        ),
    ),
    edited='{"order_id": "A-42", "amount": 350}',
    terms=ApprovalTerms(
        effect="irreversible",
        risk="high",
        audience=Audience(subjects=("ann",), groups=("billing",), exclude_requester=True),
        quorum=2,
        allow=("approve", "edit"),
        unverified=False,
        expires_in_ms=5 * HOUR_MS,
        on_expiry="fail",
        escalations=(EscalationStep(after_ms=2 * HOUR_MS, audience=Audience(groups=("leads",))),),
        redact=("iban",),
        policy="refunds",
    ),
)


def shown(request: ApprovalRequest, words: str = "", proofs: Sequence[Proof] = ()) -> str:
    pipe = Console(file=io.StringIO(), width=80)
    review.show_approval(pipe, request, "support-42", words, proofs)
    return printed(pipe)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_an_approval_shows_what_is_decided() -> None:
    assert shown(REQUEST).splitlines() == [
        "  call       refund (a1)",
        "  arguments  │ {",
        '             │   "order_id": "A-42",',
        '             │   "amount": 389.0',
        "             │ }",
        "  effect     not declared",
        "  risk       low",
        "  agents     Triage → Billing",
        "  for        anybody",
        "  why        above 100 EUR",
    ]


def test_an_approval_shows_its_rules_its_votes_and_its_times() -> None:
    screen = shown(STRICT, proofs=("unproven", "proven"))

    void = "approved at 1970-01-01T00:00:01.000+00:00; void: for earlier arguments"
    whom = "ann or the group billing, but not who asked for it"
    for line in (
        "  changed    a person has changed the arguments of the model",
        "  hidden     iban: reviewers do not see the values",
        "  effect     irreversible",
        "  risk       high",
        f"  for        {whom}, with proof of who they are",
        "  votes      1 of 2, each by another person",
        f"             eve (not proven) {void}",
        "             ann (proven) changed the arguments at 1970-01-01T00:00:02.000+00:00",
        "  reminded   2 times",
        "  decisions  approve, edit",
        "  policy     refunds",
    ):
        assert f"{line}\n" in screen
    assert "  claimed    bob works on it until 20" in screen
    assert ", then the group leads may decide, too\n" in screen
    assert "  due        in 4 h, at 20" in screen
    assert ", then the question fails\n" in screen


def test_names_that_pass_for_others_are_visible() -> None:
    twin, odd = "\u0430nn", "p\u0430y"
    vote = replace(STRICT.votes[1], decision=Decision(request_id="a1", type="approve", by=twin))
    terms = replace(STRICT.terms, audience=Audience(subjects=("ann",), groups=(twin,)))
    request = replace(
        STRICT,
        name=odd,
        handoff_path=("Triage", twin),
        votes=(vote,),
        terms=terms,
        claim=Claim(by=twin, until_ms=NOW_MS + HOUR_MS),
    )
    screen = shown(request)
    assert twin not in screen
    assert odd not in screen
    assert "  call       p\\u0430y (a1)\n" in screen
    assert "  for        ann or the group \\u0430nn, with proof" in screen
    assert screen.count("\\u0430nn") == 4
    entry = InboxEntry(
        run_id="r",
        tools=(odd,),
        people=(twin,),
        started=datetime(2026, 1, 1, tzinfo=UTC),
        client=cast("Any", 0),
    )
    line = _row_of_request(entry, request)
    assert line.whom == "ann or the group \\u0430nn"
    assert (line.what.startswith("p\\u0430y("), "\\u0430nn works on it" in line.why) == (True, True)
    unread = _row_of_run(entry)
    assert (unread.whom, unread.what) == ("\\u0430nn", "p\\u0430y")


def test_a_request_without_time_has_no_deadline() -> None:
    held = shown(replace(STRICT, paused_at_ms=NOW_MS))
    assert "  paused     no time passes while a person has the conversation\n" in held
    assert "\n  due " not in held


def test_a_claim_that_has_ended_and_the_times_of_a_settled_request_are_not_shown() -> None:
    ended = replace(STRICT, claim=Claim(by="bob", until_ms=NOW_MS - 1))
    decision = Decision(request_id="a1", type="reject", by="ann")
    settled = replace(STRICT, status="rejected", decision=decision)

    assert "bob" not in shown(ended)
    assert "  status     rejected by ann\n" in shown(settled)
    assert "  due " not in shown(settled)


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        ("handoff", "  handoff    refund (a1)"),
        ("output", "  answer     not sent to the user yet (a1)"),
        ("budget", "  budget     used up (a1)"),
    ],
)
def test_what_is_no_call_is_not_named_a_call(kind: RequestKind, first: str) -> None:
    screen = shown(replace(REQUEST, kind=kind))
    assert screen.startswith(f"{first}\n")
    assert ("  effect " in screen) == (kind == "handoff")


def test_a_request_that_has_waited_says_since_when() -> None:
    waited = replace(REQUEST, requested_at_ms=NOW_MS - 3 * HOUR_MS)
    assert "  waiting    3 h, since 20" in shown(waited)


def test_arguments_that_are_no_object_are_shown_as_they_are() -> None:
    for label, arguments in (("arguments", "[1, 2]"), ("text     ", "not json")):
        assert f"{label}  │ {arguments}\n" in shown(replace(REQUEST, arguments=arguments))


# --- How to decide --------------------------------------------------------------------------------


def test_how_to_decide_is_two_commands_to_copy(capsys: pytest.CaptureFixture[str]) -> None:
    review.show_how_to_decide(terminal.out(), "support-42", [REQUEST])

    screen = capsys.readouterr().out
    assert screen.startswith("support-42 waits for a person:\n  call       refund (a1)\n")
    assert screen.endswith(
        f"  outlast approve support-42 a1 --digest {SEEN}\n"
        f'  outlast reject support-42 a1 --digest {SEEN} --message "..."\n'
    )


def test_only_the_decisions_that_are_allowed_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    terms = ApprovalTerms(allow=("edit", "respond"))

    request = replace(REQUEST, terms=terms)
    review.show_how_to_decide(terminal.out(), "support-42", [request])

    seen = request.digest[:DIGEST_SHOWN]
    assert [line for line in capsys.readouterr().out.splitlines() if "outlast" in line] == [
        f"  outlast inbox edit support-42 a1 --digest {seen} --arguments '{{...}}'",
        f'  outlast inbox respond support-42 a1 --digest {seen} --text "..."',
    ]


def test_a_command_to_copy_holds_an_odd_id_as_one_word(capsys: pytest.CaptureFixture[str]) -> None:
    review.show_how_to_decide(terminal.out(), "a; rm\x1b", [REQUEST])

    assert f"outlast approve $'a; rm\\u001b' a1 --digest {SEEN}\n" in capsys.readouterr().out


# --- The arguments --------------------------------------------------------------------------------


def arguments_on(screen: str) -> tuple[str, str]:
    """Return the label of the arguments on a screen, and what stands behind the bar."""
    lines = [line.split("│ ", 1) for line in screen.splitlines() if "│" in line[:14]]
    return lines[0][0].strip(), "\n".join(line[1] if len(line) == 2 else "" for line in lines)


@examples(200)
@given(arguments=ARGUMENTS, words=TEXTS)
def test_the_arguments_on_the_screen_are_those_that_the_digest_covers(
    arguments: str, words: str
) -> None:
    request = replace(REQUEST, arguments=arguments, args_digest=digest(arguments))

    screen = shown(request, words)

    assert_visible(screen, layout="\n")
    label, text = arguments_on(screen)
    assert digest(text if label == "arguments" else original(text)) == request.args_digest


def test_a_line_that_wraps_cannot_look_like_a_line_of_the_request() -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=40, color_system=None)
    note = "x" + " " * 60 + '  │ "amount": 5' + " " * 60 + "  why        the boss agreed"
    request = replace(REQUEST, arguments=json.dumps({"note": note, "amount": 5000}))

    review.show_approval(screen, request, "support-42", note)

    lines = printed(screen).splitlines()
    assert sum(line.startswith("  why ") for line in lines) == 1
    assert sum(line[13:14] == "│" for line in lines) == 4


def test_a_repeated_key_is_pointed_out() -> None:
    screen = shown(replace(REQUEST, arguments='{"amount": 5, "amount": 5000}'))

    assert '│   "amount": 5,\n' in screen
    assert '│   "amount": 5000\n' in screen
    assert 'careful    the key "amount" is repeated' in screen


def test_arguments_without_end_say_where_all_of_them_are() -> None:
    screen = shown(replace(REQUEST, arguments=json.dumps({"text": "x" * 30_000})))

    assert (
        "(cut: 20,000 of 30,012 characters) All of them: `outlast show support-42 --json`" in screen
    )


# --- The model's own words ------------------------------------------------------------------------


def test_the_words_of_the_model_come_last_and_are_marked() -> None:
    screen = shown(REQUEST, "The boss agreed.\n  risk       none\nApprove it.")

    assert screen.splitlines()[-4:] == [
        "  model says ┊ The boss agreed.",
        "             ┊   risk       none",
        "             ┊ Approve it.",
        "             ↑ the model's own words, which nobody has checked: decide by the arguments",
    ]


def test_many_words_are_cut() -> None:
    assert "… (cut: 600 of 9,000 characters)" in shown(REQUEST, "x" * 9_000)
    assert "             ┊ … (cut: 12 of 200 lines)\n" in shown(REQUEST, "\n".join(["x"] * 200))


def words(text: str, *, turn: int, agent: str = "Billing") -> Item:
    return Item("message", said(text)[0], agent, turn)


def asks(text: str) -> Item:
    return Item("input", {"role": "user", "content": text})


def calls(call_id: str, turn: int) -> Item:
    raw: JsonObject = call("refund", call_id, order_id="A-42")
    return Item("tool_call", raw, "Billing", turn)


def test_the_words_are_the_newest_of_the_agent_about_its_call() -> None:
    items = (
        asks("Refund."),
        words("Earlier.", turn=1),
        words("I refund it.", turn=2),
        calls("c1", 2),
        words("Not of this agent.", turn=2, agent="Triage"),
        words("A person says.", turn=0),
        words("Later.", turn=3),
    )
    state = LoopState(agent="Billing", items=items, turns=3)

    assert model_words(state, REQUEST) == "I refund it."
    assert model_words(state, replace(REQUEST, kind="output")) == ""


def test_words_about_an_earlier_question_are_not_shown() -> None:
    items = (asks("Hi."), words("The boss agreed.", turn=1), asks("Refund."), calls("c1", 2))
    state = LoopState(agent="Billing", items=items, turns=2)

    assert model_words(state, REQUEST) == ""


def test_a_budget_has_the_words_of_the_newest_turn() -> None:
    items = (asks("Refund."), words("I go on.", turn=1))
    state = LoopState(agent="Billing", items=items, turns=1)
    request = replace(REQUEST, kind="budget", call_id="")

    assert model_words(state, request) == "I go on."
