"""What callers see of runs, and what they do not."""

import json
from dataclasses import replace
from typing import Any

import pytest

from outlast.client.identity import person
from outlast.client.people.nested_requests import FoundRequest
from outlast.client.timeline import Step, Timeline
from outlast.loop.approvals import ApprovalTerms, Audience
from outlast.loop.aside import Aside
from outlast.loop.machine import advance
from outlast.loop.state import LoopState
from outlast.loop.values import Usage
from outlast.serve.access import Caller, Program, Role, Staff
from outlast.serve.records import (
    RequestView,
    customer_conversation,
    request_view,
    run_view,
)
from outlast.views.proofs import NO_PROOFS
from outlast.views.run import snapshot_of
from tests.laws.driver import Play, gated, said, tool
from tests.unit.loop.test_compaction import summarised, talk
from tests.unit.serve.played import SIGNING
from tests.unit.serve.test_customer_view import secretive_play

NOW_MS = 2_000_000


def staff(*roles: Role, name: str = "ann", groups: tuple[str, ...] = ("billing",)) -> Staff:
    return Staff(person(name, groups=groups), frozenset(roles))


ANN = staff("viewer", "decider", "operator")


def steps_of(play: Play) -> tuple[Step, ...]:
    timeline, state = Timeline(), LoopState()
    for event in play.events:
        state, _ = advance(state, event)
        timeline.take(event, state)
    return tuple(timeline.steps)


def asking(**terms: Any) -> Play:
    play = Play()
    play.prepared()
    call = gated("refund", "c1", '{"iban": "DE42", "amount": 5}', terms=ApprovalTerms(**terms))
    play.replies(said("The boss agreed."), call)
    return play


def seen(play: Play, caller: Caller = ANN, *, signs: bool = True, **change: Any) -> RequestView:
    request = replace(play.state.approvals[0], **change)
    found = FoundRequest(request, snapshot_of(play.state))
    return request_view(
        found,
        caller,
        words="The boss agreed.",
        proofs=SIGNING if signs else NO_PROOFS,
        at_ms=NOW_MS,
    )


def problems(view: RequestView) -> dict[str, str | None]:
    return {one.name: one.problem for one in view.decisions}


PAYLOADS = ("arguments", "gated", "output", "nested answer", "thoughts", "reasoning", "query")


@pytest.mark.parametrize("caller", [staff("viewer"), Program("shop")])
def test_who_may_not_see_payloads_gets_no_field_for_them(caller: Caller) -> None:
    play = secretive_play()
    state, steps = play.state, steps_of(play)
    found = [FoundRequest(one, snapshot_of(state)) for one in state.approvals]
    whole = run_view(
        snapshot_of(state), ANN, requests=found, steps=steps, words={"a1": "SECRET-words"}
    ).record()
    record = run_view(
        snapshot_of(state), caller, requests=found, steps=steps, words={"a1": "SECRET-words"}
    ).record()
    text = json.dumps(record)
    for one in (*PAYLOADS, "words", "draft", "why", "earlier"):
        assert (f"SECRET-{one}" in text) == (one == "why"), one  # a vote has its reason
    for one in PAYLOADS[:4]:
        assert f"SECRET-{one}" in json.dumps(whole), one
    for one in (*record["steps"], *record["requests"]):
        assert not {"arguments", "output", "model_words"} & one.keys()
    assert all("text" in one for one in whole["steps"])
    assert {one["kind"] for one in record["steps"] if "text" in one} == {"message"}
    assert record["requests"][0]["headline"] == "refund"
    assert whole["requests"][0]["headline"].startswith('refund(iban="SECRET')


def test_a_summary_is_for_those_who_may_see_payloads() -> None:
    play = talk()
    used = Usage(
        requests=1, total_tokens=7, input_tokens=4, output_tokens=3, cost_micros=35, priced=1
    )
    summarised(play, items=({"role": "user", "content": "SECRET"},), usage=used, model="gpt-5")
    state, steps = play.state, steps_of(play)
    *_, whole = run_view(snapshot_of(state), ANN, steps=steps).record()["steps"]
    assert (whole["kind"], whole["text"], whole["model"]) == ("summary", "SECRET", "gpt-5")
    assert whole["replaced"] == state.compaction.made[0].entries
    assert whole["usage"]["total_tokens"] == 7
    assert whole["cost"] == {"usd": "0.000035", "unknown_models": []}
    record = run_view(snapshot_of(state), staff("viewer"), steps=steps).record()
    assert "SECRET" not in json.dumps(record)
    assert record["steps"][-1]["replaced"] == whole["replaced"]


def test_a_view_has_no_hidden_argument_wherever_it_occurs() -> None:
    play = Play()
    play.prepared()
    terms = ApprovalTerms(redact=("iban",))
    arguments = '{"iban": "DE4211", "amount": 5}'
    play.replies(said("To DE4211?"), gated("refund", "c1", arguments, terms=terms))
    play.decided("a1", "approve", by="ann")
    play.returns("c1", "Sent to DE4211.")
    play.replies(said("I sent it to DE4211."))
    found = [FoundRequest(one, snapshot_of(play.state)) for one in play.state.approvals]
    record = run_view(snapshot_of(play.state), ANN, requests=found, steps=steps_of(play)).record()
    assert "DE4211" not in json.dumps(record)
    assert record["requests"][0]["redacted"] == ["iban"]
    assert json.loads(record["requests"][0]["arguments"]) == {"iban": "[redacted]", "amount": 5}


def test_a_request_says_who_decides_until_when_and_what_then() -> None:
    play = asking(
        effect="irreversible",
        risk="high",
        audience=Audience(groups=("billing",)),
        quorum=2,
        expires_in_ms=3_600_000,
        on_expiry="fail",
    )
    view = seen(play)
    assert (view.kind, view.name, view.risk, view.effect) == (
        "tool",
        "refund",
        "high",
        "irreversible",
    )
    assert view.headline == 'refund(iban="DE42", amount=5)'
    assert view.audience == "the group billing"
    assert (view.votes_counted, view.votes_needed) == (0, 2)
    assert view.expires_at is not None
    assert [(one.at, one.then) for one in view.deadlines] == [
        (view.expires_at, "then the question fails")
    ]
    assert view.due_at == view.expires_at
    assert view.model_words == "The boss agreed."
    assert view.run_id == play.run_id


def test_what_nobody_forbids_has_no_problem() -> None:
    assert problems(seen(asking())) == {
        "approve": None,
        "edit": None,
        "reject": None,
        "respond": None,
        "ask_back": None,
        "withdraw": "Approval a1: ann has no vote to withdraw.",
        "claim": None,
        "unclaim": "Nobody works on a1.",
    }


def test_what_terms_do_not_allow_is_not_offered() -> None:
    view = seen(asking(allow=("approve",)))
    assert list(problems(view)) == ["approve", "withdraw", "claim", "unclaim"]


def test_a_problem_is_a_sentence_for_this_caller() -> None:
    play = asking(audience=Audience(groups=("billing",)), unverified=False)
    assert problems(seen(play, staff("viewer")))["approve"] == (
        "You cannot decide: that needs the role decider."
    )
    other = staff("decider", name="bob", groups=("sales",))
    assert "bob may not do this" in str(problems(seen(play, other))["edit"])
    assert "needs proof" in str(problems(seen(play, signs=False))["approve"])
    assert problems(seen(play, Program("shop")))["approve"] == (
        "An API key cannot decide: that takes a person."
    )
    play.decided("a1", "reject", by="ann", groups=("billing",), verified=True)
    assert problems(seen(play))["approve"] == "Approval a1 is already rejected by ann."


def test_who_has_voted_may_change_the_arguments_but_not_vote_again() -> None:
    play = asking(quorum=2)
    play.decided("a1", "approve", by="ann")
    view = seen(play)
    assert view.votes_counted == 1
    assert "ann has decided already" in str(problems(view)["approve"])
    assert problems(view)["edit"] is None
    assert problems(view)["withdraw"] is None


def test_where_a_takeover_is_the_approval_only_the_holder_approves() -> None:
    play = asking(takeover=True)
    view = seen(play)
    assert view.takeover
    assert "takes the conversation over" in str(problems(view)["approve"])
    assert "takes the conversation over" in str(problems(view)["edit"])
    assert problems(view)["reject"] is None


def test_a_digest_is_of_everything_that_is_seen() -> None:
    request = asking().state.approvals[0]
    assert request.digest == replace(request).digest
    for change in (
        {"args_digest": "other"},
        {"requested_at_ms": 5},
        {"call_id": "c2"},
        {"tool_digest": "other"},
        {"terms": ApprovalTerms(risk="high")},
        {"id": "a2"},
    ):
        assert replace(request, **change).digest != request.digest


def test_an_operator_extends_a_budget_and_does_not_decide_a_call() -> None:
    play = asking()
    operator = staff("operator")
    budget = seen(play, operator, kind="budget", name="budget")
    assert problems(budget)["approve"] is None
    assert "needs the role decider" in str(problems(budget)["reject"])
    assert "ask_back" not in problems(budget)
    assert "needs the role decider" in str(problems(seen(play, operator))["approve"])


def test_a_customers_conversation_has_no_secret() -> None:
    record = customer_conversation(snapshot_of(secretive_play().state)).record()
    assert "SECRET" not in json.dumps(record)
    assert [one["by"] for one in record["messages"]][:2] == ["customer", "assistant"]
    assert record["id"] == Play.run_id


def test_a_run_says_what_can_be_done_with_it() -> None:
    play = Play(keep_open=True)
    play.prepared()
    play.replies(said("Hello."))
    view = run_view(snapshot_of(play.state), ANN)
    assert (view.status, view.waits_for, view.is_open) == ("idle", "message", True)
    found = {one.name: one.problem for one in view.actions}
    assert found["hold"] is None
    assert found["cancel"] is None
    assert found["say"] == "Nobody has the conversation. Hold it first."
    assert [(one.by, one.text) for one in view.items] == [
        ("customer", "Hello"),
        ("agent", "Hello."),
    ]
    play.holds("ann")
    assert (held := run_view(snapshot_of(play.state), ANN).hold) is not None
    assert held.by == "ann"


def test_what_the_model_does_not_read_is_named_with_the_reason_for_those_who_see_payloads() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("Hello."))
    aside = (Aside(item=0, part=1, reason="Flagged: SECRET", at_ms=5), Aside(digest="d", by="bob"))
    state = replace(play.state, aside=aside)
    [photo, summary] = run_view(snapshot_of(state), ANN).set_aside
    assert (photo.item, photo.part, photo.by, photo.reason) == (0, 1, "", "Flagged: SECRET")
    assert (summary.item, summary.by) == (None, "bob")
    for caller in (staff("viewer"), Program("shop")):
        view = run_view(snapshot_of(state), caller)
        assert [one.item for one in view.set_aside] == [0, None]
        assert "SECRET" not in json.dumps(view.record())


def test_a_cost_says_which_models_have_no_price() -> None:
    play = Play()
    play.prepared(model="mine")
    used = Usage(requests=1, total_tokens=7)
    play.replies(tool("look_up", "c1"), model="nobody-sells-this", usage=used)
    view = run_view(snapshot_of(play.state), ANN, steps=steps_of(play))
    assert view.cost.unknown_models == ["nobody-sells-this"]
