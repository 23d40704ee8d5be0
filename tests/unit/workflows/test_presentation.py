"""What people see of a run in the Temporal UI: all of it made from the state."""

import json
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from markdown_it import MarkdownIt
from markdown_it.token import Token

from outlast.contract import names
from outlast.edges.rendering import DIGEST_SHOWN, SUMMARY_BYTES, original
from outlast.loop.approvals import (
    ApprovalRequest,
    ApprovalTerms,
    Audience,
    Claim,
    Decision,
    EscalationStep,
    Vote,
    digest,
)
from outlast.loop.events import EffectBlocked
from outlast.loop.state import LoopState
from outlast.temporal.payloads.attributes import first_attributes
from outlast.workflows import presentation
from outlast.workflows.presentation import (
    approvals_view,
    attributes,
    call_line,
    details,
    state_view,
    summary,
    transcript_view,
    waits,
)
from outlast.workflows.timeline import Wait
from tests.hostile_text import ARGUMENTS, TEXTS, assert_visible
from tests.laws.driver import (
    SITUATIONS,
    Play,
    gated,
    nested,
    play_in,
    play_with_everything,
    said,
    thought,
    tool,
    transfer,
)
from tests.laws.strategies import examples


def anywhere(situation: str) -> LoopState:
    return play_in(situation, keep_open=True, context={"n": 1}).state


EVERYWHERE = pytest.mark.parametrize("situation", SITUATIONS)


# --- Search attributes ------------------------------------------------------------------------------------


@EVERYWHERE
def test_a_run_can_be_found_by_agent_status_and_pending_approvals(situation: str) -> None:
    state = anywhere(situation)
    found = attributes(state)
    assert found.keys() == names.SEARCH_ATTRIBUTES.keys() - names.ATTRIBUTES_OF_OWNERS, (
        "the tenant is written at the start"
    )
    waits = state.status in {"waiting", "held", "blocked", "idle"}
    assert found[names.ATTRIBUTE_STATUS] == (state.status if waits else None)
    types = {"Keyword": str, "Int": int, "KeywordList": list, "Datetime": datetime}
    for name, value in found.items():
        assert value is None or type(value) is types[names.SEARCH_ATTRIBUTES[name]]


def test_a_run_is_found_by_the_people_it_waits_for_the_highest_risk_and_the_nearest_deadline() -> (
    None
):
    low = asked_for(Audience(groups=("billing",)), risk="low", expires_in_ms=9_000)
    high = asked_for(
        Audience(groups=("billing",), subjects=("ann",)),
        risk="high",
        escalations=(EscalationStep(after_ms=5_000, audience=Audience(groups=("leads",))),),
    )
    found = attributes(pending(low, high))
    assert found[names.ATTRIBUTE_GROUPS] == ["billing", "ann"]
    assert found[names.ATTRIBUTE_RISK] == "high"
    assert found[names.ATTRIBUTE_DUE] == datetime.fromtimestamp(6, UTC)
    escalated = attributes(pending(low, replace(high, escalated=1)))
    assert escalated[names.ATTRIBUTE_GROUPS] == ["billing", "ann", "leads"]
    assert escalated[names.ATTRIBUTE_DUE] == datetime.fromtimestamp(10, UTC)


def test_a_request_that_anybody_may_decide_is_found_by_everybody() -> None:
    for_some = asked_for(Audience(groups=("billing",)))
    for_all = asked_for(Audience())
    assert attributes(pending(for_all))[names.ATTRIBUTE_GROUPS] == ["*"]
    assert attributes(pending(for_some, for_all))[names.ATTRIBUTE_GROUPS] == ["billing", "*"]


def test_what_waits_for_nobody_has_no_people_risk_or_deadline() -> None:
    found = attributes(conversation())
    assert found[names.ATTRIBUTE_GROUPS] is None
    assert found[names.ATTRIBUTE_RISK] is None
    assert found[names.ATTRIBUTE_DUE] is None


def test_a_vote_a_reminder_or_a_claim_writes_no_search_attribute() -> None:
    """Each write is an event in the history of the run."""
    request = asked_for(Audience(groups=("billing",)), expires_in_ms=9_000, quorum=2)
    vote = Vote(decision=Decision(request_id="a1", type="approve", by="ann"), at_ms=2_000)
    later = replace(
        request,
        votes=(vote,),
        reminders=3,
        remind_at_ms=8_000,
        claim=Claim(by="ann", until_ms=9_000),
    )
    assert attributes(pending(later)) == attributes(pending(request))


def test_a_deadline_beyond_what_servers_store_is_the_last_one_they_do() -> None:
    request = asked_for(Audience(), expires_in_ms=10**16)
    assert attributes(pending(request))[names.ATTRIBUTE_DUE] == datetime(2200, 1, 1, tzinfo=UTC)


def asked_for(audience: Audience, **terms: Any) -> ApprovalRequest:
    """A request of the time 1 s, with some terms."""
    expires = terms.get("expires_in_ms")
    return ApprovalRequest(
        id="a1",
        call_id="c1",
        name="refund",
        agent="Billing",
        arguments="{}",
        args_digest="d",
        terms=ApprovalTerms(audience=audience, **terms),
        requested_at_ms=1_000,
        expires_at_ms=None if expires is None else 1_000 + expires,
    )


def pending(*requests: ApprovalRequest) -> LoopState:
    return LoopState(run_id="support-42", agent="Billing", phase="acting", approvals=requests)


def test_the_agent_that_is_found_is_the_active_one() -> None:
    play = Play.ready()
    play.replies(transfer("Billing", "h1"))
    assert attributes(play.state)[names.ATTRIBUTE_AGENT] == "Billing"


def test_a_run_says_what_it_waits_for() -> None:
    play = play_in("waiting")
    assert attributes(play.state)[names.ATTRIBUTE_WAITS_FOR] == "approval of refund"
    assert waits(play.state) == [Wait(summary="Waiting for approval: refund")]
    both = waiting_further_down().state
    assert attributes(both)[names.ATTRIBUTE_WAITS_FOR] == "approval of refund, refund"
    assert waits(both) == waits(play.state), "the nested run shows its own"
    assert attributes(anywhere("idle"))[names.ATTRIBUTE_WAITS_FOR] == "message"
    assert attributes(conversation())[names.ATTRIBUTE_WAITS_FOR] is None


def test_a_failed_question_waits_for_a_retry() -> None:
    play = Play.ready(keep_open=True)
    play.fails(play.issued[1], code="model_call_failed", text="No key.")
    assert attributes(play.state)[names.ATTRIBUTE_WAITS_FOR] == "retry: model_call_failed"


def test_a_blocked_run_says_what_it_needs() -> None:
    play = Play.ready()
    model = play.issued[-1]
    play.take(EffectBlocked(effect=model.effect, lacks="no agent 'Triage'", at_ms=play.now_ms))
    state, lacks = play.state, "no agent 'Triage'"
    assert attributes(state)[names.ATTRIBUTE_WAITS_FOR] == f"worker: {lacks}"
    effect = next(one for one in state.pending if one.effect == state.blocked[0].effect)
    assert summary(state, effect).startswith("Waiting for a worker: ")


# --- Summaries --------------------------------------------------------------------------------------------


def summaries(play: Play) -> list[str]:
    return [summary(play.state, effect) for effect in play.issued]


def test_a_stranger_understands_what_an_activity_does() -> None:
    play = Play()
    play.prepared(model="gpt-5")
    play.replies(tool("refund_order", "c1", '{"order_id": "A-17", "amount": 5}'))
    play.returns("c1")
    play.replies(transfer("Billing", "h1", callback=True))
    play.called_back()
    assert [summary(replace(play.state, model="gpt-5"), one) for one in play.issued] == [
        "Triage · look up",
        "Triage · gpt-5 · turn 1",
        'refund_order(order_id="A-17", amount=5)',
        "Triage · gpt-5 · turn 2",
        "Triage → Billing",
        "Billing · gpt-5 · turn 3 · handoff from Triage",
    ]


def test_a_handoff_with_an_output_of_its_own_is_one() -> None:
    play = Play.ready()
    play.replies(transfer("Billing", "h1", callback=True))
    play.called_back(output="Billing takes over.")
    assert summaries(play)[-1].endswith(" · turn 2 · handoff from Triage")


def test_a_model_call_after_a_rejected_handoff_follows_no_handoff() -> None:
    play = Play.ready()
    play.replies(transfer("Billing", "h1", needs_approval=True))
    play.decided("a1", "reject", message="Stay.")
    assert summaries(play)[-1] == "Triage · turn 2"
    play.replies(transfer("Billing", "h2"))
    assert summaries(play)[-1].endswith(" · turn 3 · handoff from Triage")
    play.replies(transfer("Triage", "h3", needs_approval=True))
    play.decided("a2", "reject")
    assert summaries(play)[-1].endswith(" · turn 4")


def test_what_is_done_beside_the_turns_is_named_too() -> None:
    play = play_with_everything()
    told = {one.kind: summary(play.state, one) for one in play.issued}
    assert told["check_input"] == "Triage · input guardrails"
    assert told["finalize_answer"] == "Billing · finalize the answer"
    assert told["save_session"] == "save items 1 to 2"
    assert told["run_agent"] == "ask_orders()"


def test_a_model_without_a_name_is_not_named() -> None:
    assert summaries(Play.ready())[1] == "Triage · turn 1"


@pytest.mark.parametrize("text", ["x" * 10_000, "é" * 10_000, "🙂" * 10_000, "a" + "🙂" * 10_000])
def test_a_summary_is_cut_to_what_the_ui_shows_and_stays_text(text: str) -> None:
    play = Play.ready()
    arguments = json.dumps({"text": text}, ensure_ascii=False)
    play.replies(tool("look_up", "c1", arguments))
    line = summary(play.state, play.running("c1"))
    assert SUMMARY_BYTES - 8 <= len(line.encode()) <= SUMMARY_BYTES
    length = len(call_line("look_up", arguments))
    assert line.startswith('`look_up(text="')
    assert line.endswith(f"` … (cut: {line.index('` … ') - 1} of {length:,} characters)")


def test_half_a_character_in_a_call_is_seen_in_its_summary() -> None:
    play = Play.ready()
    play.replies(tool("look_up", "c1", '{"text": "\\ud800"}'))
    assert summary(play.state, play.running("c1")) == '`look_up(text="\\ud800")`'


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("{}", "t()"),
        ('{"a": 1, "b": [true, null]}', "t(a=1, b=[true, null])"),
        ('{"name": "Zoë"}', 't(name="Zoë")'),
        ("", "t()"),
        ("not json", "t(not json)"),
        ("[1]", "t([1])"),
        ("null", "t(null)"),
    ],
)
def test_a_call_reads_like_code(arguments: str, line: str) -> None:
    assert call_line("t", arguments) == line


def test_arguments_nested_without_end_are_shown_as_they_are() -> None:
    assert call_line("t", "[" * 100_000).startswith("t([[[")


# --- Queries ----------------------------------------------------------------------------------------------


@EVERYWHERE
def test_every_answer_is_json_wherever_the_run_is(situation: str) -> None:
    state = anywhere(situation)
    for view in (state_view(state), transcript_view(state), approvals_view(state)):
        assert json.loads(json.dumps(view)) == view


@EVERYWHERE
def test_the_state_says_where_the_run_is_in_short(situation: str) -> None:
    state = anywhere(situation)
    view = state_view(state)
    assert (view["status"], view["phase"], view["agent"]) == (state.status, state.phase, "Triage")
    assert view["items"] == len(state.items)
    assert [one["effect"] for one in view["running"]] == [one.effect for one in state.pending]
    assert view["pending_approvals"] == [one.id for one in state.pending_approvals]
    assert view["context"] == {"n": 1}


def test_the_state_says_what_did_not_count_and_why() -> None:
    play = play_in("waiting")
    play.hears("m2")
    play.decided("a9")
    view = state_view(play.state)
    assert view["waiting_messages"] == ["m2"]
    assert [one["what"] for one in view["ignored"]] == ["decision approve for a9"]
    assert "The run has no approval 'a9'" in view["ignored"][0]["why"]


def test_the_state_says_why_there_is_no_answer() -> None:
    play = Play.ready(keep_open=True)
    failure = play.fails(play.issued[1], code="model_call_failed", text="No key.")
    assert state_view(play.state)["failure"] == {"code": failure.code, "message": "No key."}
    assert state_view(Play.ready().state)["failure"] is None


def test_the_state_stays_small_whatever_the_length_of_the_run() -> None:
    play = Play.ready(max_turns=None)
    for turn in range(50):
        play.replies(tool("look_up", f"c{turn}"))
        play.returns(f"c{turn}", "x" * 1_000)
    assert len(json.dumps(state_view(play.state))) < 2_000


def conversation() -> LoopState:
    play = Play.ready()
    play.replies(thought(), said("One moment."), tool("look_up", "c1", '{"id": "A-17"}'))
    play.returns("c1", {"status": "sent"})
    play.replies(transfer("Billing", "h1"))
    play.replies(said("It is on its way."))
    return play.state


def test_the_transcript_reads_like_a_conversation() -> None:
    assert [(one["who"], one["kind"], one["text"]) for one in transcript_view(conversation())] == [
        ("user", "input", "Hello"),
        ("Triage", "reasoning", ""),
        ("Triage", "message", "One moment."),
        ("Triage", "tool_call", 'look_up(id="A-17")'),
        ("Triage", "tool_output", '{"status": "sent"}'),
        ("Triage", "handoff_call", "transfer_to_billing()"),
        ("Triage", "handoff_output", '{"assistant": "Billing"}'),
        ("Billing", "message", "It is on its way."),
    ]


def test_of_a_long_transcript_the_newest_items_are_shown() -> None:
    state = conversation()
    assert transcript_view(state, last=2) == transcript_view(state)[-2:]


def test_an_approval_has_all_that_a_person_needs_to_decide() -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1", '{"amount": 500}', reason="over the limit"))
    (request,) = play.state.pending_approvals
    (view,) = approvals_view(play.state)
    assert view == {
        "schema_version": 1,
        "id": "a1",
        "kind": "tool",
        "run_id": "support-42",
        "agent": "Triage",
        "handoff_path": ["Triage"],
        "tool_call_id": "c1",
        "name": "refund",
        "arguments": '{"amount": 500}',
        "args_digest": request.args_digest,
        "digest": request.digest,
        "reason": "over the limit",
        "args_schema": None,
        "effect": None,
        "risk": "low",
        "audience": "",
        "votes": [],
        "votes_needed": 1,
        "claimed_by": None,
        "requested_at_ms": request.requested_at_ms,
        "due_ms": None,
        "expires_at_ms": None,
        "on_expiry": "reject",
        "allowed_decisions": ["approve", "edit", "reject", "respond"],
        "takeover": False,
        "response_schema": None,
    }
    play.decided("a1")
    assert approvals_view(play.state) == []


# --- Current details --------------------------------------------------------------------------------------


@EVERYWHERE
def test_the_details_begin_with_where_the_run_is(situation: str) -> None:
    state = anywhere(situation)
    turn = state.question.turn
    counted = f"turn {turn} of 10" if turn else f"{state.turns} turn"
    assert details(state).startswith(f"**{state.status}** · Triage · {counted}")


def test_the_details_show_the_way_through_the_agents_and_the_newest_items() -> None:
    text = details(conversation())
    assert text.startswith("**completed** · Triage → Billing · 3 turns\n")
    assert "- Billing: `It is on its way.`" in text
    shown = [line for line in text.splitlines() if line.startswith("- ")]
    assert len(shown) == presentation.EXCERPT_ITEMS
    assert text.endswith("0 tokens in 0 model calls.")


def test_the_details_say_how_to_decide() -> None:
    state = play_in("waiting").state
    text, seen = details(state), state.approvals[0].digest[:DIGEST_SHOWN]
    assert "Waiting for approval: `refund` with the arguments `{}`, called by Triage." in text
    assert f"For anybody · risk low. Run `outlast approve support-42 a1 --digest {seen}`" in text
    signal = text.partition("the signal `decide` to this run with `")[2].partition("`.")[0]
    sent = json.loads(signal)
    assert sent == {"request_id": "a1", "type": "approve", "args_digest": digest("{}")}


def asked_under(**terms: Any) -> LoopState:
    state = play_in("waiting").state
    (request,) = state.approvals
    return replace(state, approvals=(replace(request, terms=ApprovalTerms(**terms)),))


def test_the_details_say_for_whom_a_request_is_and_until_when() -> None:
    state = asked_under(
        audience=Audience(groups=("billing",), exclude_requester=True), risk="high", quorum=2
    )
    (request,) = state.approvals
    due = request.requested_at_ms + 1_000
    claim = Claim(by="ann", until_ms=due)
    state = replace(state, approvals=(replace(request, expires_at_ms=due, claim=claim),))
    text = details(state)
    at = datetime.fromtimestamp(due / 1000, UTC).isoformat(timespec="seconds")
    assert (
        "For the group billing, but not who asked for it · risk high · 0 of 2 votes "
        f"· ann works on it until {at} · due {at}, then it is rejected." in text
    )
    assert '"by": "your name"' in text


def test_names_that_pass_for_others_are_visible() -> None:
    twin = "\u0430nn"
    state = asked_under(audience=Audience(subjects=(twin,)))
    (request,) = state.approvals
    request = replace(request, name="p\u0430y", claim=Claim(by=twin, until_ms=1))
    state = replace(state, approvals=(request,))
    for shown in (details(state), waits(state)[0].summary):
        assert "\\u0430nn" in shown
        assert "p\\u0430y" in shown
        assert twin not in shown


def test_the_details_name_only_ways_that_count() -> None:
    text = details(asked_under(unverified=False))
    assert "For anybody, with proof of who they are · risk low." in text
    assert "the signal `decide`" not in text
    assert "a signal or update from this page does not count" in text
    only = details(asked_under(allow=("respond", "reject")))
    assert "Run `outlast inbox show support-42 a1`" in only


def test_the_details_say_where_a_takeover_is_the_approval() -> None:
    text = details(asked_under(takeover=True))
    assert "Run `outlast hold support-42`: taking the conversation over is the approval." in text
    assert "outlast approve" not in text


def test_the_details_show_at_once_what_was_ignored() -> None:
    play = play_in("waiting")
    play.decided("a7", "approve", by="ann")
    text = details(play.state)
    assert "Ignored at 1970-" in text
    assert "`decision approve for a7 by ann`, because `The run has no approval 'a7'." in text


def test_a_budget_is_shown_in_words() -> None:
    state = play_in("waiting").state
    (request,) = state.approvals
    spent = '{"of": "cost_micros", "per": "run", "limit": 250000, "spent": 300001, "extend_by": 5}'
    budget = replace(request, kind="budget", name="budget", arguments=spent)
    state = replace(state, approvals=(budget,))
    words = "$0.300001 of $0.25 per run used; $0.000005 more"
    assert f"Waiting for more of a budget: `{words}`, for Triage." in details(state)
    assert waits(state)[0].summary == f"`Waiting for approval: {words}`"


def waiting_further_down() -> Play:
    play = Play.ready()
    play.replies(nested("Billing", "c1"), gated("refund", "c2"))
    request = replace(
        play.state.pending_approvals[0],
        id="e3.a1",
        agent="Billing",
        run_id="support-42/ask_billing-3/deep-7",
    )
    play.reported(request)
    return play


def test_what_waits_in_a_nested_run_is_shown_with_the_run_that_takes_the_decision() -> None:
    play = waiting_further_down()
    assert attributes(play.state)[names.ATTRIBUTE_APPROVALS] == 2
    assert [(one["id"], one["run_id"]) for one in approvals_view(play.state)] == [
        ("a1", "support-42"),
        ("e3.a1", "support-42/ask_billing-3/deep-7"),
    ]
    text = details(play.state)
    assert "called by Billing (in the nested run `support-42/ask_billing-3/deep-7`)." in text
    assert "`outlast approve support-42/ask_billing-3/deep-7 e3.a1 --digest " in text
    assert "`decide` to that run with" in text
    assert "`outlast approve support-42 a1 --digest " in text
    play.decided("e3.a1", "approve")
    assert (
        "belongs to the nested run 'support-42/ask_billing-3/deep-7', which decides it."
        in play.state.ignored[-1].why
    )
    play.decided("e3.a2", "approve")
    assert play.state.ignored[-1].why.endswith(
        "Pending: a1, e3.a1 in 'support-42/ask_billing-3/deep-7'."
    )


def test_the_details_say_why_a_question_has_no_answer() -> None:
    play = Play.ready(keep_open=True, max_turns=None)
    play.fails(play.issued[1], code="model_call_failed", text="No key.")
    text = details(play.state)
    assert "Not answered: `model_call_failed` `No key.`" in text
    assert "· 1 turn\n" in text


def test_a_long_item_is_cut_in_the_details() -> None:
    play = Play.ready()
    play.replies(said("x" * 10_000))
    assert max(len(line) for line in details(play.state).splitlines()) < 350


def test_a_name_that_is_none_is_no_reason_to_fail() -> None:
    item: Any = conversation().items[3]
    odd = replace(item, raw={"type": "function_call"})
    assert transcript_view(replace(LoopState(), items=(odd,)))[0]["text"] == "()"


def test_a_call_of_another_form_shows_what_it_says() -> None:
    item: Any = conversation().items[3]
    shell = replace(item, raw={"type": "shell_call", "action": {"commands": ["ls"]}})
    text = transcript_view(replace(LoopState(), items=(shell,)))[0]["text"]
    assert text.startswith("shell(")
    assert "ls" in text


# --- What others have written ---------------------------------------------------------------------

FORGED = '"}`\n\n**running** · all is well\n\n[pay](http://x) ![p](http://x/p.png) <b>ok</b> {workflowId}'
PARSER = MarkdownIt("js-default", {"html": True})
OWN_BLOCKS = {
    "paragraph_open", "paragraph_close", "bullet_list_open", "bullet_list_close",
    "list_item_open", "list_item_close", "inline",
}  # fmt: skip
OWN_LEAVES = {"text", "code_inline", "strong_open", "strong_close"}


def asks_a_person(
    name: str, arguments: str, said_before: str, agent: str, run_id: str
) -> LoopState:
    play = Play.ready()
    play.replies(said(said_before), gated(name, "c1", arguments, reason=said_before))
    (request,) = play.state.approvals
    request = replace(request, agent=agent)
    return replace(play.state, run_id=run_id, approvals=(request,), handoff_path=(agent, "Billing"))


def assert_nothing_is_forged(markdown: str, paragraphs: int) -> list[list[Token]]:
    """Check what Markdown consists of, and return the leaves of each paragraph."""
    assert_visible(markdown, layout="\n")
    blocks = PARSER.parse(markdown)
    assert {block.type for block in blocks} <= OWN_BLOCKS
    lines = [block.children or [] for block in blocks if block.type == "inline"]
    assert {leaf.type for line in lines for leaf in line} <= OWN_LEAVES
    assert sum(leaf.type == "strong_open" for line in lines for leaf in line) == 1
    assert len(lines) == paragraphs
    return lines


@examples(150)
@given(TEXTS, ARGUMENTS, TEXTS, TEXTS, TEXTS)
@example("refund", json.dumps({"note": FORGED}), FORGED, FORGED, FORGED)
def test_nobody_can_write_into_the_details(
    name: str, arguments: str, said_before: str, agent: str, run_id: str
) -> None:
    state = asks_a_person(name, arguments, said_before, agent, run_id)
    first, asked, *_ = assert_nothing_is_forged(details(state), 3 + len(state.items))
    assert first[1].type == "strong_open"
    assert first[2].content == "waiting"
    if len(arguments) > 500:
        return
    shown = [leaf.content for leaf in asked if leaf.type == "code_inline"][1 if name else 0]
    (request,) = state.pending_approvals
    assert arguments == "" or request.args_digest in {digest(shown), digest(original(shown))}


@examples(100)
@given(TEXTS)
def test_a_failure_cannot_write_into_the_details_either(text: str) -> None:
    play = Play.ready(keep_open=True)
    play.fails(play.issued[1], code="model_call_failed", text=text)
    assert_nothing_is_forged(details(play.state), 3 + len(play.state.items))


@examples(150)
@given(TEXTS, ARGUMENTS)
def test_a_summary_is_one_line_without_a_meaning_in_markdown(name: str, arguments: str) -> None:
    play = Play.ready()
    play.replies(tool(name, "c1", arguments))
    line = summary(play.state, play.running("c1"))
    assert_visible(line)
    assert len(line.encode()) <= SUMMARY_BYTES
    leaves = [leaf for one in PARSER.parse(line) for leaf in one.children or []]
    assert {leaf.type for leaf in leaves} <= {"text", "code_inline"}


def test_of_long_arguments_the_details_say_how_much_is_left_out() -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1", json.dumps({"note": "x" * 30_000})))
    text = details(play.state)
    assert "` … (cut: 2,000 of 30,012 characters), called by" in text
    assert "The query `approvals` has them in full." in text
    assert len(approvals_view(play.state)[0]["arguments"]) == 30_012


def test_a_long_text_of_the_transcript_says_how_much_is_left_out() -> None:
    play = Play.ready()
    play.replies(said("é" * 10_000))
    assert transcript_view(play.state)[-1]["text"] == (
        "é" * 2_000 + "… (cut: 2,000 of 10,000 characters)"
    )


def test_however_long_a_hostile_call_is_little_of_it_is_read() -> None:
    """The engine takes a workflow that thinks for two seconds to be stuck."""
    play = Play.ready()
    arguments = json.dumps({"note": "\u202e" * 700_000}, ensure_ascii=False)
    play.replies(gated("refund", "c1", arguments), tool("look_up", "c2", arguments))
    began = time.process_time()
    shown = details(play.state)
    line = summary(play.state, play.running("c2"))
    view = state_view(play.state)
    assert time.process_time() - began < 1
    assert "(cut: 2,000 of 700,012 characters)" in shown
    assert "of 700,021 characters)" in line
    assert len(json.dumps(view)) < 10_000


def test_a_run_that_has_just_been_started_has_the_attributes_of_its_start() -> None:
    shown = presentation.first_attributes("Triage")
    started: Any = first_attributes("Triage")
    sent = {one.key.name: one.value for one in started}
    assert {name: value for name, value in shown.items() if value is not None} == sent
    assert shown.keys() == presentation.attributes(LoopState()).keys()
