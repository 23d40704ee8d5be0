"""What effects, approval requests and the end of a run carry."""

from dataclasses import replace
from typing import Any

import pytest

from outlast.loop.approvals import digest
from outlast.loop.calls import ExecutionOptions
from outlast.loop.changes import Change
from outlast.loop.effect_factory import finish, issue, preparation
from outlast.loop.effects import (
    CallModel,
    CheckInput,
    FinalizeAnswer,
    Finish,
    PrepareRun,
    RunAgent,
    RunHandoff,
    RunTool,
    SaveSession,
)
from outlast.loop.start import Parent
from outlast.loop.state import Ending, LoopState
from outlast.loop.values import Failure, Usage
from tests.laws.driver import STARTED_AT_MS, Play, gated, nested, play_in, said, tool, transfer

SETTINGS = {"model": "gpt-5"}


def started() -> Play:
    return Play.ready(context={"n": 0}, context_type="Desk", settings=SETTINGS)


def test_issuing_numbers_an_effect_and_remembers_it() -> None:
    state = LoopState(next_effect=7)
    state = issue(state, preparation(state))
    assert [one.effect for one in state.pending] == [7]
    assert state.next_effect == 8


def test_preparation_asks_for_the_agent_with_everything_its_worker_may_need() -> None:
    play = Play(agent="Orders", context={"n": 0}, context_type="Desk", settings=SETTINGS)
    assert play.only(PrepareRun) == PrepareRun(
        effect=1,
        agent="Orders",
        context={"n": 0},
        context_type="Desk",
        settings=SETTINGS,
    )


def test_a_model_call_is_about_the_items_so_far() -> None:
    assert started().only(CallModel) == CallModel(
        effect=2,
        agent="Triage",
        turn=1,
        input_length=1,
        context={"n": 0},
        context_type="Desk",
        settings=SETTINGS,
        usage=Usage(),
        run_id="support-42",
        starts=True,
        started_at_ms=STARTED_AT_MS,
    )


def test_an_effect_says_in_which_question_and_in_whose_hands_the_run_was() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("Hello."))
    play.hears("m2")
    play.replies(transfer("Billing", "h1"))
    call = play.only(CallModel)
    assert (call.started_at_ms, call.question, call.handovers) == (STARTED_AT_MS, 1, 1)


def test_a_model_call_knows_the_usage_and_context_of_the_turns_before() -> None:
    play = started()
    play.replies(tool("look_up", "c1"), usage=Usage(requests=1, total_tokens=9))
    play.returns("c1", "found", Change("set", ("n",), 1))
    call = play.only(CallModel)
    assert (call.turn, call.input_length, call.context) == (2, 3, {"n": 1})
    assert call.usage == Usage(requests=1, total_tokens=9)


def test_a_tool_run_carries_the_call_and_its_policy() -> None:
    policy = ExecutionOptions(timeout_ms=5, attempts=1, fast=True, queue="gpu")
    play = started()
    play.replies(tool("look_up", "c1", '{"id": 1}', policy=policy), usage=Usage(requests=1))
    run = play.running("c1")
    assert (run.effect, run.agent, run.name, run.call_id) == (3, "Triage", "look_up", "c1")
    assert (run.arguments, run.policy, run.turn, run.run_id) == (
        '{"id": 1}',
        policy,
        1,
        play.run_id,
    )
    assert (run.context, run.context_type, run.settings) == ({"n": 0}, "Desk", SETTINGS)
    assert run.usage == Usage(requests=1)


def test_a_handoff_run_carries_where_it_leads_and_the_context_after_the_tools() -> None:
    policy = ExecutionOptions(timeout_ms=9)
    play = started()
    plan = transfer("Billing", "h1", callback=True, policy=policy, variant="the second")
    play.replies(tool("f", "c1"), plan)
    play.returns("c1", "ok", Change("set", ("n",), 5))
    run = play.only(RunHandoff)
    assert (run.agent, run.target, run.variant, run.name, run.call_id) == (
        "Triage",
        "Billing",
        "the second",
        "transfer_to_billing",
        "h1",
    )
    assert (run.arguments, run.policy, run.turn, run.run_id) == ("{}", policy, 1, play.run_id)
    assert (run.context, run.context_type, run.settings) == ({"n": 5}, "Desk", SETTINGS)
    assert run.usage == Usage()


CARRIED: list[tuple[str, type[Any]]] = [
    ("checking", CheckInput),
    ("held up", CheckInput),
    ("thinking", CallModel),
    ("running", RunTool),
    ("nested", RunAgent),
    ("transferring", RunHandoff),
    ("finalizing", FinalizeAnswer),
]


@pytest.mark.parametrize(("situation", "kind"), CARRIED)
def test_whatever_runs_users_code_gets_the_context_and_the_settings(
    situation: str, kind: type[Any]
) -> None:
    play = play_in(situation, context={"n": 0}, context_type="Desk", settings=SETTINGS)
    effect: Any = next(one for one in play.outstanding.values() if isinstance(one, kind))
    assert (effect.context, effect.context_type) == ({"n": 0}, "Desk")
    assert (effect.settings, effect.run_id, effect.agent) == (SETTINGS, "support-42", "Triage")


def test_a_save_says_what_and_for_which_run() -> None:
    play = Play(session=True, settings=SETTINGS, chain_id="first")
    play.prepared()
    save = play.only(SaveSession)
    assert (save.start, save.stop, save.dropped, save.withheld) == (0, 1, (), None)
    assert (save.settings, save.run_id) == (SETTINGS, "support-42")
    assert save.chain_id == "first", "a run's id may be used again"


def test_a_nested_run_of_a_nested_run_knows_how_its_approvals_begin() -> None:
    play = Play.ready(parent=Parent(run_id="root", prefix="e5."))
    play.replies(nested("Billing", "c1"))
    assert play.only(RunAgent).prefix == "e5."
    assert play_in("nested").only(RunAgent).prefix == ""


def test_approval_ids_of_a_nested_run_begin_as_its_parent_wants() -> None:
    play = Play.ready(parent=Parent(run_id="root", prefix="e5."))
    play.replies(gated("f", "c1"), gated("g", "c2"))
    assert [one.id for one in play.state.approvals] == ["e5.a1", "e5.a2"]


def test_an_approval_request_says_who_asks_for_what_and_why() -> None:
    arguments = '{"order": "A-17", "cents": 9900}'
    play = started()
    play.replies(transfer("Billing", "h1"))
    play.replies(tool("refund", "c1", arguments, needs_approval=True, reason="Above 50 EUR."))
    (request,) = play.state.approvals
    assert (request.id, request.kind, request.status) == ("a1", "tool", "pending")
    assert (request.call_id, request.name, request.agent) == ("c1", "refund", "Billing")
    assert request.handoff_path == ("Triage", "Billing")
    assert (request.arguments, request.args_digest) == (arguments, digest(arguments))
    assert request.reason == "Above 50 EUR."
    assert request.requested_at_ms == play.events[-1].at_ms
    assert (request.decision, request.decided_at_ms) == (None, None)


def test_approval_ids_count_on_through_a_conversation() -> None:
    play = Play.ready(keep_open=True)
    play.replies(gated("f", "c1"), gated("g", "c2"))
    play.decided("a2")
    play.decided("a1", "reject")
    play.returns("c2")
    play.replies(said("Done."))
    play.hears("m2")
    play.replies(gated("f", "c1"))
    assert [one.id for one in play.state.approvals] == ["a1", "a2", "a3"]


FAILURE = Failure(code="x", message="y")


@pytest.mark.parametrize(
    ("outcome", "state", "expected"),
    [
        ("completed", LoopState(final_output="hi"), Finish(status="completed", final_output="hi")),
        (
            "completed",
            LoopState(final_output={"a": 1}),
            Finish(status="completed", final_output={"a": 1}),
        ),
        ("failed", LoopState(failure=FAILURE), Finish(status="failed", failure=FAILURE)),
        ("cancelled", LoopState(), Finish(status="cancelled")),
    ],
)
def test_the_end_says_how_and_with_what(
    outcome: Ending, state: LoopState, expected: Finish
) -> None:
    assert finish(replace(state, outcome=outcome)) == expected


def test_a_tool_that_waited_for_a_person_is_run_as_approved() -> None:
    play = started()
    play.replies(gated("f", "c1"), tool("g", "c2"))
    (approved,) = play.decided("a1")
    assert isinstance(approved, RunTool)
    assert (approved.name, approved.approved) == ("f", True)
    (other,) = (one for one in play.state.pending if one != approved)
    assert isinstance(other, RunTool)
    assert not other.approved


def test_a_call_of_another_form_is_run_in_it() -> None:
    play = started()
    raw = {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls"]}}
    (command,) = play.replies((raw, {"kind": "tool"}))
    assert isinstance(command, RunTool)
    assert (command.form, command.name) == ("shell_call", "shell")
    assert command.arguments == '{"action":{"commands":["ls"]}}'
    play.returns("c1", {"output": [], "max_output_length": 10})
    assert play.state.items[-1].raw == {
        "type": "shell_call_output",
        "call_id": "c1",
        "output": [],
        "max_output_length": 10,
    }


def test_who_takes_over_knows_how_much_the_question_began_with() -> None:
    play = started()
    assert play.only(CallModel).history is None, "it is all there is"
    play.replies(said("Let me hand you over."), transfer("Billing", "h1"))
    took_over = play.only(CallModel)
    assert (took_over.starts, took_over.history, took_over.input_length) == (True, 1, 4)
    play.replies(tool("f", "c1"))
    play.returns("c1")
    assert play.only(CallModel).history is None, "it has started before"


def test_a_save_is_numbered_by_the_runs_own_items_before_it() -> None:
    old, new = ({"role": "user", "content": text} for text in ("old", "new"))
    play = Play(session=True)
    play.prepared(input=(old, old, new), old=(0, 1))
    numbers = [play.only(SaveSession).number]
    play.saved()
    play.replies(tool("f", "c1"))
    play.returns("c1")
    numbers.append(play.only(SaveSession).number)
    assert numbers == [0, 1]


def test_a_model_call_names_the_input_guardrails_of_its_questions_first_turn_only() -> None:
    play = Play(keep_open=True)
    play.prepared(required_steps=("check", "finalize_answer"))
    assert play.only(CallModel).required_steps == ("check",)
    play.checked()
    play.replies(tool("f", "c1"), required_steps=("check", "finalize_answer"))
    play.returns("c1")
    assert play.only(CallModel).required_steps == ()


def test_a_save_says_whether_the_session_has_items_already() -> None:
    play = Play(session=True)
    play.prepared()
    assert not play.only(SaveSession).follows
    play.saved()
    play.replies(said("Hello."))
    assert play.only(SaveSession).follows
    play = Play(session=True)
    first = play.state.inbox[0].content
    play.prepared(input=({"role": "user", "content": "old"}, *first), old=(0,))
    assert play.only(SaveSession).follows
