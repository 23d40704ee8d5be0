"""Acting: how many calls run at once, which decisions are remembered, and agents that are tools."""

from itertools import permutations
from typing import Any

import pytest

from outlast.loop import phrases
from outlast.loop.approvals import ApprovalRequest, DecisionType, Remembered
from outlast.loop.calls import NestedPlan
from outlast.loop.changes import Change
from outlast.loop.checks import GuardrailRecord
from outlast.loop.effects import (
    CallModel,
    CancelEffect,
    FinalizeAnswer,
    Finish,
    NotifyParent,
    RunAgent,
)
from outlast.loop.start import Parent
from outlast.loop.state import stands_still
from outlast.loop.values import Failure, Json, Usage
from tests.laws.driver import Play, gated, nested, said, tool, transfer


def asked(name: str = "e3.a1", **fields: Any) -> ApprovalRequest:
    """What a person has to decide in a nested run."""
    return ApprovalRequest(
        id=name,
        call_id="c1",
        name="refund",
        agent="Billing",
        arguments="{}",
        args_digest="d",
        requested_at_ms=1,
        **fields,
    )


# --- As many as may run at once ------------------------------------------------------------------


@pytest.mark.parametrize("parallel", [1, 2, 3])
def test_no_more_calls_run_at_once_than_may(parallel: int) -> None:
    play = Play.ready()
    play.replies(*(tool("f", f"c{at}") for at in range(5)), parallel=parallel)
    started = list[str]()
    while play.running_ids:
        assert len(play.running_ids) <= parallel
        started.append(play.running_ids[0])
        play.returns(play.running_ids[0])
    assert started == [f"c{at}" for at in range(5)], "in their order"
    assert play.state.phase == "thinking"


def test_a_call_that_has_to_wait_for_room_sees_what_was_done_before_it() -> None:
    play = Play.ready(context={"n": 0})
    play.replies(tool("f", "c1"), tool("g", "c2"), parallel=1)
    play.returns("c1", "ok", Change("set", ("n",), 1))
    assert play.running("c2").context == {"n": 1}


def test_an_approved_call_waits_for_room_too() -> None:
    play = Play.ready()
    play.replies(gated("f", "c1"), tool("g", "c2"), tool("h", "c3"), parallel=1)
    play.decided("a1")
    assert play.running_ids == ["c2"]
    play.returns("c2")
    assert play.running_ids == ["c1"], "its place is before the others"


def test_agents_and_tools_share_the_room() -> None:
    play = Play.ready()
    play.replies(nested("Billing", "c1"), tool("f", "c2"), parallel=1)
    assert play.running_ids == []
    play.worked(final_output="done")
    assert play.running_ids == ["c2"]


def test_calls_that_found_no_room_did_not_run_when_a_sibling_was_fatal() -> None:
    play = Play.ready()
    play.replies(tool("careful", "c1", fatal=True), tool("f", "c2"), parallel=1)
    play.fails(play.running("c1"))
    assert play.outputs["c2"] == phrases.NOT_RUN


def test_a_run_waits_for_people_alone_when_what_they_hold_up_takes_all_the_room() -> None:
    play = Play.ready()
    play.replies(nested("Billing", "c1"), tool("f", "c2"), parallel=1)
    play.reported(asked())
    assert play.state.status == "waiting"


# --- Remembered decisions ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["approve", "reject"])
def test_a_remembered_decision_goes_for_the_calls_that_wait_beside_it(
    kind: DecisionType,
) -> None:
    play = Play.ready()
    play.replies(gated("f", "c1"), gated("g", "c2"), gated("f", "c3"))
    play.decided("a3", kind, remember=True, message="As always.", by="ann")
    statuses = [one.status for one in play.state.approvals]
    decided = "approved" if kind == "approve" else "rejected"
    assert statuses == [decided, "pending", decided]
    assert [one.decision and one.decision.by for one in play.state.approvals] == [
        "ann",
        None,
        "ann",
    ]
    assert play.running_ids == (["c1", "c3"] if kind == "approve" else [])


def test_a_remembered_approval_goes_for_later_calls_of_that_tool_by_that_agent() -> None:
    play = Play.ready()
    play.replies(gated("f", "c1"))
    play.decided("a1", remember=True)
    decision = play.state.approvals[0].decision
    assert decision is not None
    assert play.state.remembered == (Remembered(agent="Triage", name="f", decision=decision),)
    play.returns("c1")
    play.replies(gated("f", "c2"), gated("g", "c3"))
    assert play.running_ids == ["c2"]
    assert [one.call_id for one in play.state.pending_approvals] == ["c3"]
    play.decided("a2", "reject")
    play.returns("c2")
    play.replies(transfer("Billing", "h1"))
    play.replies(gated("f", "c4"))
    assert [one.agent for one in play.state.pending_approvals] == ["Billing"]


def test_a_remembered_rejection_is_told_to_the_model_and_nobody_is_asked() -> None:
    play = Play.ready()
    play.replies(gated("f", "c1"))
    play.decided("a1", "reject", remember=True, message="Never.")
    play.replies(gated("f", "c2"))
    assert play.outputs == {"c1": "Never.", "c2": "Never."}
    assert len(play.state.approvals) == 1


def test_of_remembered_decisions_the_newest_counts() -> None:
    play = Play.ready()
    play.replies(gated("f", "c1"), gated("f", "c2"))
    play.decided("a1", "reject")
    play.decided("a2", "reject", remember=True)
    play.replies(gated("f", "c3"))
    assert play.outputs["c3"] == phrases.REJECTED
    assert play.state.approvals[1].status == "rejected"


def test_a_decision_that_is_not_to_be_remembered_goes_for_one_call() -> None:
    play = Play.ready()
    play.replies(gated("f", "c1"), gated("f", "c2"))
    play.decided("a1")
    assert [one.status for one in play.state.approvals] == ["approved", "pending"]
    assert play.state.remembered == ()


@pytest.mark.parametrize(
    ("said_by_person", "planned", "output"),
    [(None, None, phrases.REJECTED), (None, "Ask again.", "Ask again."), ("No.", "Ask.", "No.")],
)
def test_the_model_reads_what_the_person_said_or_else_what_the_tool_says(
    said_by_person: str | None, planned: str | None, output: str
) -> None:
    play = Play.ready()
    play.replies(gated("f", "c1", rejection=planned))
    play.decided("a1", "reject", message=said_by_person)
    assert play.outputs == {"c1": output}


def test_an_agent_that_people_decided_about_begins_anew() -> None:
    play = Play.ready()
    assert play.only(CallModel).starts
    play.replies(tool("f", "c1"))
    play.returns("c1")
    assert not play.only(CallModel).starts
    play.replies(gated("f", "c2"))
    play.decided("a1", "reject")
    assert play.only(CallModel).starts
    play.replies(transfer("Billing", "h1"))
    assert play.only(CallModel).starts


def test_an_agent_that_used_a_tool_is_known_for_it_until_the_next_question() -> None:
    play = Play.ready(keep_open=True)
    assert not play.only(CallModel).tools_used
    play.replies(tool("f", "c1"))
    play.returns("c1")
    assert play.only(CallModel).tools_used
    play.replies(transfer("Billing", "h1"))
    assert not play.only(CallModel).tools_used, "a handoff is no tool, and Billing used none"
    play.replies(transfer("Triage", "h2"))
    assert play.only(CallModel).tools_used
    play.replies(said("Done."))
    play.hears("m2")
    assert not play.only(CallModel).tools_used


# --- What is told while people are waited for ----------------------------------------------------


def waiting_with_output() -> Play:
    """A run in which one call has finished, and another waits for a person."""
    play = Play.ready(context={"n": 0})
    play.replies(tool("f", "c1"), gated("g", "c2"))
    play.returns("c1", "one", Change("append", ("log",), ["c1"]))
    return play


def test_what_has_finished_is_told_once_and_counts_once() -> None:
    play = waiting_with_output()
    assert play.outputs == {"c1": "one"}
    assert [call.status for call in play.state.calls] == ["recorded", "waiting"]
    play.decided("a1", "reject")
    assert list(play.outputs) == ["c1", "c2"]
    assert play.kinds.count("tool_output") == 2
    assert play.state.context == {"n": 0, "log": ["c1"]}


@pytest.mark.parametrize("mode", ["immediate", "after_turn"])
def test_what_was_told_is_not_told_again_when_the_run_is_stopped(mode: Any) -> None:
    play = waiting_with_output()
    play.cancelled(mode)
    assert play.outputs == {"c1": "one", "c2": phrases.CANCELLED}
    assert play.kinds.count("tool_output") == 2


def test_a_rule_judges_what_was_told_before_people_decided_too() -> None:
    play = Play.ready()
    play.replies(tool("f", "c1"), gated("g", "c2"), judged=True)
    play.returns("c1", "one")
    play.decided("a1", "reject", message="No.")
    outcomes = play.only(FinalizeAnswer).candidate.outcomes
    assert [(one.call_id, one.output) for one in outcomes] == [("c1", "one"), ("c2", "No.")]


def test_a_final_tool_that_was_told_before_still_answers() -> None:
    play = Play.ready()
    play.replies(tool("f", "c1", final=True), gated("g", "c2"))
    play.returns("c1", "one", value=1)
    play.decided("a1", "reject")
    assert play.finish.final_output == 1


def test_what_has_finished_is_told_while_people_are_waited_for_further_down() -> None:
    play = Play.ready()
    play.replies(tool("f", "c1"), nested("Billing", "c2"))
    play.reported(asked("e4.a1"))
    assert play.outputs == {}
    play.returns("c1", "one")
    assert play.outputs == {"c1": "one"}
    play.worked(final_output="two")
    assert play.outputs == {"c1": "one", "c2": "two"}


# --- What guardrails of a tool say ---------------------------------------------------------------


def test_what_a_tools_guardrails_said_is_kept() -> None:
    found = GuardrailRecord(stage="tool_input", name="amount", tool="refund", call_id="c1")
    play = Play.ready()
    play.replies(tool("refund", "c1"))
    play.returns("c1", "No.", checks=(found,))
    assert play.state.question.guardrails == (found,)
    assert play.outputs == {"c1": "No."}


@pytest.mark.parametrize("keep_open", [False, True])
def test_a_tool_result_can_end_the_question_whatever_the_tools_own_rule_is(
    *, keep_open: bool
) -> None:
    failure = Failure(code="tool_input_guardrail_tripwire", message="No.")
    play = Play.ready(keep_open=keep_open)
    play.replies(tool("f", "c1"), tool("g", "c2"))
    sibling = play.running("c2").effect
    play.returns("c1", "blocked", failure=failure)
    assert (play.state.failure, play.stopped) == (failure, [sibling])
    assert play.outputs == {"c1": "blocked", "c2": phrases.CANCELLED}


# --- Agents that work as tools -------------------------------------------------------------------


def test_an_agent_that_works_as_a_tool_is_a_run_of_its_own() -> None:
    plan = NestedPlan(max_turns=4, settings={"a": 1})
    play = Play.ready(context={"n": 0}, context_type="Desk", settings={"b": 2})
    play.replies(tool("f", "c1"), nested("Billing", "c2", nested=plan))
    run = play.only(RunAgent)
    assert (run.agent, run.target, run.name, run.call_id) == (
        "Triage",
        "Billing",
        "ask_billing",
        "c2",
    )
    assert (run.run_id, run.nested_id) == ("support-42", "support-42/ask_billing-4")
    assert (run.nested, run.arguments) == (plan, "{}")
    assert (run.context, run.context_type, run.settings) == ({"n": 0}, "Desk", {"b": 2})


OUTPUTS: list[tuple[Json, str]] = [
    ("done", "done"),
    ("", ""),
    ({"a": "é"}, '{"a": "é"}'),
    (3, "3"),
    (None, "null"),
]


@pytest.mark.parametrize(("output", "text"), OUTPUTS)
def test_what_a_nested_run_answers_is_the_tools_output(output: Json, text: str) -> None:
    play = Play.ready()
    play.replies(nested("Billing", "c1"))
    play.worked(final_output=output)
    assert play.outputs == {"c1": text}


def test_the_answer_of_a_nested_run_can_be_the_answer_of_the_run() -> None:
    play = Play.ready()
    play.replies(nested("Billing", "c1", final=True))
    play.worked(final_output={"a": 1})
    assert play.finish.final_output == {"a": 1}


def test_what_a_nested_run_spent_and_changed_counts_in_the_order_of_the_calls() -> None:
    play = Play.ready(context={"log": ["0"], "n": 0})
    play.replies(tool("f", "c1"), nested("Billing", "c2"), usage=Usage(requests=1))
    play.worked(usage=Usage(requests=3, total_tokens=9), context={"log": ["0", "c2"], "n": 2})
    assert play.state.usage == Usage(requests=4, total_tokens=9)
    play.returns("c1", "ok", Change("append", ("log",), ["c1"]), Change("set", ("n",), 1))
    assert play.state.context == {"log": ["0", "c1", "c2"], "n": 3}


@pytest.mark.parametrize("status", ["failed", "cancelled"])
@pytest.mark.parametrize("failure", [None, Failure(code="model_refusal", message="No.")])
def test_a_nested_run_that_has_no_answer_is_told_to_the_model(
    status: str, failure: Failure | None
) -> None:
    play = Play.ready(context={"n": 0})
    play.replies(nested("Billing", "c1"))
    play.reported(asked())
    play.worked(status=status, failure=failure, usage=Usage(requests=1), context={"n": 9})
    assert play.outputs == {"c1": phrases.tool_failed("ask_billing", "")}
    assert (play.state.usage.requests, play.state.context) == (1, {"n": 0})
    assert play.state.nested == ()


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_nested_run_without_an_answer_can_be_fatal(status: str) -> None:
    play = Play.ready()
    play.replies(nested("Billing", "c1", fatal=True))
    play.worked(status=status)
    message = f"The run of Billing was {status}."
    assert play.finish == Finish(
        status="failed", failure=Failure(code="tool_failed", message=message)
    )


@pytest.mark.parametrize("fatal", [False, True])
def test_a_nested_run_that_fails_as_a_workflow_is_a_failed_tool(*, fatal: bool) -> None:
    play = Play.ready()
    play.replies(nested("Billing", "c1", fatal=fatal))
    failure = play.fails(play.only(RunAgent), "max_turns_exceeded")
    assert play.outputs == {"c1": phrases.tool_failed("ask_billing", "max_turns_exceeded")}
    assert play.state.failure == (failure if fatal else None)


def test_a_gated_agent_runs_when_a_person_approves() -> None:
    play = Play.ready()
    play.replies(nested("Billing", "c1", needs_approval=True))
    assert play.state.status == "waiting"
    play.decided("a1")
    assert play.only(RunAgent).call_id == "c1"


# --- What people decide further down -------------------------------------------------------------


def test_what_waits_in_a_nested_run_waits_here() -> None:
    play = Play.ready()
    play.replies(nested("Billing", "c1"))
    assert play.state.status == "running"
    assert play.reported(asked()) == ()
    assert (play.state.status, play.state.pending_approvals) == (
        "waiting",
        (asked(run_id="support-42/ask_billing-3"),),
    )
    play.reported()
    assert (play.state.status, play.state.pending_approvals) == ("running", ())


def test_own_requests_come_before_those_from_further_down() -> None:
    play = Play.ready()
    play.replies(nested("Billing", "c1"), gated("f", "c2"))
    play.reported(asked())
    assert [one.id for one in play.state.pending_approvals] == ["a1", "e3.a1"]
    play.decided("e3.a1")
    assert "belongs to the nested run" in play.state.ignored[0].why


def test_a_run_does_not_wait_for_people_alone_while_another_nested_run_works() -> None:
    play = Play.ready()
    play.replies(nested("Billing", "c1"), nested("Orders", "c2"))
    first, second = (one for one in play.outstanding.values() if isinstance(one, RunAgent))
    play.reported(asked(), nested_id=first.nested_id)
    assert not stands_still(play.state)
    play.reported(asked("e4.a1"), nested_id=second.nested_id)
    assert stands_still(play.state)


def test_a_run_that_has_ended_asks_nobody_any_more() -> None:
    play = Play.ready()
    play.replies(nested("Billing", "c1"), gated("f", "c2"))
    run = play.only(RunAgent)
    play.reported(asked())
    play.worked()
    assert [one.id for one in play.state.pending_approvals] == ["a1"]
    before = play.state
    play.reported(asked(), nested_id=run.nested_id)
    assert play.state is before


@pytest.mark.parametrize("nested_id", ["", "x", "support-42/ask_billing-9"])
def test_a_report_of_a_run_that_is_not_ours_changes_nothing(nested_id: str) -> None:
    play = Play.ready()
    play.replies(nested("Orders", "c1"))
    before = play.state
    play.reported(asked(), nested_id=nested_id or "y")
    assert play.state is before


def test_a_nested_run_is_stopped_with_the_run() -> None:
    play = Play.ready()
    play.replies(nested("Billing", "c1"))
    play.reported(asked())
    run = play.only(RunAgent).effect
    assert play.cancelled() == (CancelEffect(effect=run), play.finish)
    assert (play.state.nested, play.state.pending_approvals) == ((), ())
    assert play.outputs == {"c1": phrases.CANCELLED}


@pytest.mark.parametrize("order", list(permutations(["cancel", "report"])))
def test_a_gentle_cancel_does_not_wait_for_people_further_down(order: tuple[str, ...]) -> None:
    play = Play.ready()
    play.replies(nested("Billing", "c1"))
    for step in order:
        if step == "cancel":
            play.cancelled("after_turn")
        else:
            play.reported(asked())
    assert play.finish.status == "cancelled"


# --- A run that works for another ----------------------------------------------------------------


PARENT = Parent(run_id="root", prefix="e3.")


def told(play: Play) -> list[list[tuple[str, str]]]:
    return [
        [(one.id, one.run_id) for one in command.record.requests]
        for command in play.commands
        if isinstance(command, NotifyParent)
    ]


def test_the_parent_is_told_what_people_have_to_decide() -> None:
    play = Play.ready(parent=PARENT)
    play.replies(gated("f", "c1"), gated("g", "c2"))
    assert told(play) == [[("e3.a1", "support-42"), ("e3.a2", "support-42")]]
    play.decided("e3.a2")
    play.decided("e3.a1", "reject")
    play.returns("c2")
    assert told(play)[1:] == [[("e3.a1", "support-42")], []]


def test_the_parent_is_told_what_comes_from_further_down_as_it_is() -> None:
    play = Play.ready(parent=PARENT)
    play.replies(nested("Billing", "c1"))
    play.reported(asked("e3.e3.a1"), asked("e3.e3.a2", run_id="deeper"))
    assert told(play) == [
        [
            ("e3.e3.a1", "support-42/ask_billing-3"),
            ("e3.e3.a2", "support-42/ask_billing-3/deeper"),
        ]
    ]
    play.worked()
    assert told(play)[1:] == [[]]


def waits_told(play: Play) -> list[tuple[str, ...]]:
    return [command.record.waits for command in play.commands if isinstance(command, NotifyParent)]


def test_the_parent_is_told_which_delivery_is_waited_for() -> None:
    play = Play.ready(parent=PARENT)
    play.replies(tool("f", "c1"))
    play.parks("c1")
    assert (play.state.status, waits_told(play)) == ("parked", [("courier",)])
    play.delivered("c1")
    assert (play.state.status, waits_told(play)) == ("running", [("courier",), ()])


def test_the_parent_is_told_of_no_delivery_while_people_have_to_decide() -> None:
    play = Play.ready(parent=PARENT)
    play.replies(tool("f", "c1"), gated("g", "c2"))
    play.parks("c1")
    assert play.state.status == "waiting"
    assert waits_told(play) == [()]
    play.decided("e3.a1", "reject")
    assert waits_told(play)[-1] == ("courier",)


def test_a_run_is_parked_while_every_nested_run_waits_for_a_delivery() -> None:
    play = Play.ready(parent=PARENT)
    play.replies(nested("Billing", "c1"), nested("Orders", "c2"))
    billing, orders = (
        one.nested_id for one in play.outstanding.values() if isinstance(one, RunAgent)
    )
    play.reported(nested_id=billing, waits=("bank",))
    assert (play.state.status, waits_told(play)) == ("running", [])
    play.reported(nested_id=orders, waits=("courier", "customs"))
    assert (play.state.status, waits_told(play)) == ("parked", [("bank", "courier", "customs")])
    play.reported(asked("e3.e4.a1"), nested_id=orders)
    assert (play.state.status, waits_told(play)[-1]) == ("waiting", ())
    play.reported(nested_id=orders)
    assert play.state.status == "running"


def test_a_run_that_ends_asks_its_parent_for_nothing_any_more_and_then_ends() -> None:
    play = Play.ready(parent=PARENT)
    play.replies(gated("f", "c1"))
    assert [type(one) for one in play.cancelled()] == [NotifyParent, Finish]


def test_a_run_of_its_own_tells_nobody() -> None:
    play = Play.ready()
    play.replies(gated("f", "c1"))
    assert told(play) == []
