"""Budgets: what is counted, who decides when one is used up, and what the decision does."""

from dataclasses import replace
from typing import Any

import pytest

from outlast.loop.approvals import ApprovalTerms, Decision
from outlast.loop.effects import CallModel
from outlast.loop.events import MessageReceived, PersonActed, TimePassed
from outlast.loop.items import Message
from outlast.loop.machine import advance
from outlast.loop.spending import described, merged, model_uses, spent, used_up
from outlast.loop.start import Budget, Scope, Spending
from outlast.loop.values import ModelUse, Usage
from tests.laws.driver import Play, gated, nested, said, tool, transfer

TERMS = ApprovalTerms()


def budget(of: Spending, limit: int, per: Scope = "run", **fields: Any) -> Budget:
    terms: Any = fields.pop("terms", TERMS)
    return Budget(of=of, limit=limit, per=per, terms=terms, **fields)


def tokens(total: int) -> Usage:
    return Usage(requests=1, input_tokens=total, total_tokens=total)


def decide(play: Play, kind: Any, **fields: Any) -> None:
    (request,) = play.state.pending_approvals
    decision = Decision(request_id=request.id, type=kind, **fields)
    play.take(PersonActed(at_ms=play.now_ms, action=decision))


def conversation() -> Play:
    """Two questions, two agents, a tool call in each, 100 tokens for each model call."""
    play = Play.ready(keep_open=True)
    play.replies(tool("look", "c1"), usage=tokens(100))
    play.returns("c1")
    play.replies(said("Hello."), usage=tokens(100))
    play.hears("m2", "Again")
    paid = replace(tokens(100), cost_micros=7)
    play.replies(transfer("Billing", "h1"), tool("count", "c2"), usage=paid)
    play.returns("c2")
    return play


@pytest.mark.parametrize(
    ("counted", "amount"),
    [
        (budget("tokens", 1), 300),
        (budget("tokens", 1, "question"), 100),
        (budget("tokens", 1, "agent"), 0),
        (budget("tokens", 1, agent="Triage"), 300),
        (budget("model_calls", 1), 3),
        (budget("model_calls", 1, "question"), 1),
        (budget("tool_calls", 1), 2),
        (budget("tool_calls", 1, "question"), 1),
        (budget("tool_calls", 1, "agent"), 0),
        (budget("cost_micros", 1), 7),
        (budget("seconds", 1), 60),
        (budget("seconds", 1, "question"), 55),
    ],
)
def test_what_a_budget_counts(counted: Budget, amount: int) -> None:
    play = conversation()
    at_ms = play.state.start.started_at_ms + 60_000
    assert play.state.agent == "Billing"
    assert spent(play.state, counted, at_ms) == amount


def test_what_was_used_is_merged_by_agent_and_model_and_whether_its_cost_is_known() -> None:
    play = Play.ready()
    paid = replace(tokens(10), cost_micros=3, priced=1)
    play.replies(tool("look", "c1"), usage=paid, model="big")
    play.returns("c1")
    play.replies(tool("look", "c2"), usage=paid, model="big")
    play.returns("c2")
    play.replies(nested("Lawyer", "c3"), usage=tokens(5), model="big")
    left = ModelUse(agent="Lawyer", model="small", usage=paid)
    play.worked(final_output="Yes.", usage=paid.plus(paid), uses=(left, left))
    assert model_uses(play.state) == (
        ModelUse(agent="Triage", model="big", usage=paid.plus(paid)),
        ModelUse(agent="Triage", model="big", usage=tokens(5)),
        ModelUse(agent="Lawyer", model="small", usage=paid.plus(paid)),
    )
    assert merged([ModelUse(agent="Triage")]) == (), "no model was called"


def over_budget(**fields: Any) -> Play:
    play = Play.ready(budgets=(budget("tokens", 100, "question", **fields),), keep_open=True)
    play.replies(tool("look", "c1"), usage=tokens(150))
    play.returns("c1")
    return play


def test_a_budget_that_is_used_up_asks_before_the_next_model_call() -> None:
    play = over_budget()
    (request,) = play.state.pending_approvals
    assert (play.state.phase, play.state.status) == ("asking", "waiting")
    assert (request.kind, request.name) == ("budget", "budget")
    assert request.reason == "The budget of 100 tokens per question is used up."
    assert '"spent": 150' in request.arguments
    assert "respond" not in request.terms.allow
    assert play.outputs == {"c1": "ok"}


def test_an_approved_budget_gets_as_much_again_and_asks_again_when_that_is_spent() -> None:
    play = over_budget()
    decide(play, "approve", by="ann")
    play.replies(tool("look", "c2"), usage=tokens(30))
    play.returns("c2")
    play.replies(tool("look", "c3"), usage=tokens(30))
    play.returns("c3")
    (request,) = play.state.pending_approvals
    assert '"limit": 200, "spent": 210' in request.arguments


def test_a_person_says_how_much_more() -> None:
    play = over_budget()
    decide(play, "edit", edited_arguments={"extend_by": 10_000})
    assert play.state.extended == ((0, 10_000),)
    play.only(CallModel)


@pytest.mark.parametrize("amount", [0, -5, 1.5, "many", None])
def test_a_budget_is_extended_by_a_whole_number(amount: Any) -> None:
    play = over_budget()
    decide(play, "edit", edited_arguments={"extend_by": amount})
    assert play.state.extended == ()
    assert "do not fit" in play.state.ignored[-1].why


def test_a_rejected_budget_fails_the_question_and_the_next_question_has_its_own() -> None:
    play = over_budget()
    decide(play, "reject", message="Close the case.")
    assert play.state.failure is not None
    assert play.state.failure.code == "budget_exceeded"
    assert "100 tokens per question" in play.state.failure.message
    assert "Close the case." in play.state.failure.message
    play.hears("m2", "Something else")
    play.only(CallModel)


def test_a_budget_that_nobody_extends_in_time_fails_the_question() -> None:
    play = over_budget(terms=ApprovalTerms(expires_in_ms=60_000))
    state, _ = advance(play.state, TimePassed(at_ms=play.now_ms + 60_000))
    assert state.approvals[0].status == "expired"
    assert state.failure is not None
    assert state.failure.code == "budget_exceeded"


def test_a_budget_without_terms_fails_the_question() -> None:
    play = over_budget(terms=None)
    assert play.state.approvals == ()
    assert play.state.failure is not None
    assert play.state.failure.code == "budget_exceeded"


def test_a_budget_of_another_agent_does_not_count() -> None:
    play = Play.ready(budgets=(budget("tokens", 100, agent="Billing"),))
    play.replies(tool("look", "c1"), usage=tokens(150))
    play.returns("c1")
    play.only(CallModel)
    assert used_up(play.state, play.now_ms) is None


def test_a_message_to_a_run_that_asks_about_a_budget_waits_for_the_decision() -> None:
    play = over_budget()
    now = ({"role": "user", "content": "Now!"},)
    sent = Message("m2", now, mode="interrupt")
    play.take(MessageReceived(at_ms=play.now_ms, message=sent))
    assert play.state.phase == "asking"
    decide(play, "approve")
    assert play.state.items[-1].raw["content"] == "Now!"
    play.only(CallModel)


def test_a_budget_in_words() -> None:
    budgets = (
        budget("cost_micros", 1_250_000, agent="Billing"),
        budget("tool_calls", 20, "question"),
    )
    play = Play(budgets=budgets)
    assert described(play.state, 0) == "$1.25 per run of Billing"
    assert described(play.state, 1) == "20 tool calls per question"


MINUTE = 60_000


def timed(per: Scope = "question", **start: Any) -> Play:
    """A run that may work for two minutes and has worked for one."""
    play = Play.ready(budgets=(budget("seconds", 120, per),), keep_open=True, **start)
    play.passed_ms += MINUTE
    return play


def test_time_passes_only_while_the_run_works() -> None:
    play = timed("run")
    play.replies(gated("refund", "c1"))
    play.passes(60 * MINUTE)
    play.decided("a1")
    play.returns("c1")
    play.only(CallModel)
    play.holds()
    play.replies(said("Hello."))
    play.passes(60 * MINUTE)
    play.releases()
    play.passes(60 * MINUTE)  # nobody says anything
    play.hears("m2", "Again")
    assert play.state.phase == "thinking"
    assert 60 <= spent(play.state, play.state.start.budgets[0], play.now_ms) < 70


def test_a_question_does_not_pay_for_earlier_pauses() -> None:
    play = timed()
    play.replies(said("Hello."))
    play.passes(60 * MINUTE)
    play.hears("m2", "Again")
    play.passed_ms += MINUTE
    assert spent(play.state, play.state.start.budgets[0], play.now_ms) in {60, 61}


def test_a_late_extension_of_a_budget_of_time_counts_from_the_decision() -> None:
    play = timed()
    play.replies(tool("look", "c1"))
    play.passed_ms += MINUTE
    play.returns("c1")
    assert play.state.phase == "asking"
    play.passes(60 * MINUTE)
    decide(play, "approve")
    assert play.state.phase == "thinking"


def test_a_run_without_a_budget_of_time_counts_no_pauses() -> None:
    play = over_budget()
    assert play.state.status == "waiting"
    assert play.state.pauses.since_ms is None


@pytest.mark.parametrize("terms", [None, TERMS])
def test_a_retried_question_spends_no_more_than_its_budget(terms: ApprovalTerms | None) -> None:
    play = Play.ready(keep_open=True, budgets=(budget("model_calls", 1, terms=terms),))
    play.fails(play.only(CallModel))
    play.retried()
    play.replies(tool("look", "c1"))
    play.returns("c1")
    if terms is not None:
        decide(play, "reject")
    play.retried()
    assert not [one for one in play.outstanding.values() if isinstance(one, CallModel)]
    if terms is None:
        assert play.state.failure is not None
        assert play.state.failure.code == "budget_exceeded"
    else:
        decide(play, "approve")
        assert play.only(CallModel)
