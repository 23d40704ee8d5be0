"""Handoffs: who is active, what runs before, and what the others are told."""

import json
from itertools import permutations

import pytest

from outlast.loop import phrases
from outlast.loop.changes import Change
from outlast.loop.effects import CallModel, RunHandoff
from tests.laws.driver import Play, gated, said, tool, transfer, unknown


def test_a_handoff_makes_the_other_agent_active_at_once() -> None:
    play = Play.ready()
    (command,) = play.replies(transfer("Billing", "h1"))
    assert command == play.only(CallModel)
    assert (play.only(CallModel).agent, play.state.agent) == ("Billing", "Billing")
    assert (play.state.model, play.state.handoff_path) == ("model-Billing", ("Triage", "Billing"))
    assert play.kinds == ["input", "handoff_call", "handoff_output"]
    assert json.loads(play.outputs["h1"]) == {"assistant": "Billing"}
    assert [item.agent for item in play.state.items] == ["", "Triage", "Triage"]
    assert play.state.question.turn == 2


def test_a_model_reads_the_own_name_of_an_agent_that_runs_tell_apart() -> None:
    play = Play.ready()
    play.replies(transfer("Clerk (2)", "h1", target_own_name="Clerk"))
    assert (play.state.agent, play.outputs["h1"]) == ("Clerk (2)", '{"assistant": "Clerk"}')
    assert play.state.items[-1].target == "Clerk (2)"
    play.replies(transfer("Clerk (2)", "h2", target_own_name="Clerk", callback=True))
    play.called_back(target="Clerk (3)", target_own_name="Clerk")
    assert (play.state.agent, play.outputs["h2"]) == ("Clerk (3)", '{"assistant": "Clerk"}')
    assert play.state.items[-1].target == "Clerk (3)"
    play.replies(transfer("Clerk (2)", "h3", target_own_name="Clerk", callback=True))
    play.called_back(target="Billing")
    assert (play.outputs["h3"], play.state.items[-1].target) == ('{"assistant": "Billing"}', "")


def test_an_agent_that_a_handoff_makes_of_data_is_in_the_settings_of_all_that_follows() -> None:
    play = Play.ready(settings={"model": "m"})
    play.replies(transfer("Clerk", "h1", callback=True))
    first = {"of": "Clerk", "instructions": "You serve Ann."}
    play.called_back(target="Clerk (7)", target_own_name="Clerk", target_changes=first)
    assert play.only(CallModel).settings == {"model": "m", "agents": {"Clerk (7)": first}}
    play.replies(transfer("Clerk", "h2", callback=True))
    second = {"of": "Clerk", "tools": [0]}
    play.called_back(target="Clerk (9)", target_changes=second)
    agents = {"Clerk (7)": first, "Clerk (9)": second}
    assert play.only(CallModel).settings == {"model": "m", "agents": agents}
    assert play.state.agent == "Clerk (9)"
    play.replies(transfer("Billing", "h3"))
    assert (play.only(CallModel).settings or {})["agents"] == agents


def test_an_output_that_the_program_wrote_still_says_who_took_over() -> None:
    play = Play.ready()
    play.replies(transfer("Billing", "h1", callback=True), transfer("Orders", "h2", callback=True))
    play.called_back(output="Billing takes over.")
    assert play.outputs["h1"] == "Billing takes over."
    assert [item.target for item in play.state.items[-2:]] == ["", "Billing"], "h2 led nowhere"


def test_the_agent_that_took_over_answers() -> None:
    play = Play.ready()
    play.replies(transfer("Billing", "h1"))
    play.replies(said("Billing here."))
    assert play.state.answers[0].agent == "Billing"
    assert play.finish.final_output == "Billing here."


@pytest.mark.parametrize(
    "path", [["Triage"], ["Billing", "Triage"], ["Billing", "Orders", "Billing", "Billing"]]
)
def test_agents_may_hand_over_to_themselves_and_in_cycles(path: list[str]) -> None:
    play = Play.ready()
    for at, target in enumerate(path):
        play.replies(transfer(target, f"h{at}"))
    assert play.state.handoff_path == ("Triage", *path)
    assert play.state.agent == path[-1]
    assert play.state.question.turn == 1 + len(path)


def test_a_cycle_of_handoffs_uses_up_the_turns() -> None:
    play = Play.ready(max_turns=3)
    for at, target in enumerate(["Billing", "Triage", "Billing"]):
        play.replies(transfer(target, f"h{at}"))
    assert play.finish.failure is not None
    assert play.finish.failure.code == "max_turns_exceeded"
    assert play.state.turns == 3
    assert len(play.outputs) == 3


def test_a_callback_runs_before_the_other_agent_takes_over() -> None:
    play = Play.ready(context={"n": 0})
    (command,) = play.replies(transfer("Billing", "h1", callback=True))
    assert command == play.only(RunHandoff)
    assert (play.state.phase, play.state.agent) == ("transferring", "Triage")
    assert play.kinds == ["input", "handoff_call"]
    play.called_back(Change("set", ("n",), 1))
    assert (play.state.phase, play.state.agent) == ("thinking", "Billing")
    assert play.only(CallModel).context == {"n": 1}
    assert play.state.handoff_path == ("Triage", "Billing")


def test_tools_run_before_the_handoff_wherever_they_stand() -> None:
    play = Play.ready()
    play.replies(transfer("Billing", "h1"), tool("f", "c1"), unknown("g", "c2"), tool("h", "c3"))
    assert play.state.agent == "Triage"
    play.returns("c3", "three")
    assert play.state.agent == "Triage"
    play.returns("c1", "one")
    assert play.state.agent == "Billing"
    assert list(play.outputs) == ["c1", "c2", "c3", "h1"]


@pytest.mark.parametrize("callback", [False, True])
def test_of_several_handoffs_the_first_of_the_reply_wins(callback: bool) -> None:
    play = Play.ready()
    play.replies(
        transfer("Billing", "h1", callback=callback),
        tool("f", "c1"),
        transfer("Orders", "h2", callback=True),
        transfer("Triage", "h3"),
    )
    play.returns("c1")
    if callback:
        assert play.only(RunHandoff).target == "Billing"
        play.called_back()
    assert play.state.agent == "Billing"
    assert list(play.outputs) == ["c1", "h2", "h3", "h1"]
    assert play.outputs["h2"] == play.outputs["h3"] == phrases.HANDOFF_IGNORED
    assert [one.kind for one in play.issued].count("run_handoff") == callback


def test_of_handoffs_that_cannot_run_none_wins() -> None:
    play = Play.ready()
    play.replies(transfer("Billing", "h1", problem="No."), transfer("Orders", "h2"))
    assert play.state.agent == "Orders"
    assert play.outputs["h1"] == "No."


@pytest.mark.parametrize("order", list(permutations(["tool", "approve", "approved tool"])))
def test_a_handoff_waits_for_tools_and_for_people(order: tuple[str, ...]) -> None:
    if order.index("approve") > order.index("approved tool"):
        return
    play = Play.ready(context={"log": ["0"]})
    play.replies(transfer("Billing", "h1", callback=True), gated("g", "c1"), tool("f", "c2"))
    for step in order:
        assert play.state.agent == "Triage"
        match step:
            case "tool":
                play.returns("c2", "two", Change("append", ("log",), ["c2"]))
            case "approve":
                play.decided("a1")
            case _:
                play.returns("c1", "one", Change("append", ("log",), ["c1"]))
    told = ["c2", "c1"] if order[0] == "tool" else ["c1", "c2"]  # before a person was waited for
    assert play.only(RunHandoff).context == {"log": ["0", *told]}
    play.called_back(Change("append", ("log",), ["h1"]))
    assert play.state.context == {"log": ["0", *told, "h1"]}
    assert list(play.outputs) == [*told, "h1"]


def test_a_rejection_lets_the_handoff_go_on() -> None:
    play = Play.ready()
    play.replies(gated("g", "c1"), transfer("Billing", "h1"))
    play.decided("a1", "reject", message="Not now.")
    assert play.state.agent == "Billing"
    assert play.outputs["c1"] == "Not now."


def test_a_tool_that_fails_does_not_stop_the_handoff() -> None:
    play = Play.ready()
    play.replies(tool("f", "c1"), transfer("Billing", "h1"))
    play.fails(play.running("c1"))
    assert play.state.agent == "Billing"


@pytest.mark.parametrize("keep_open", [False, True])
def test_a_callback_that_fails_leaves_the_old_agent_active(keep_open: bool) -> None:
    play = Play.ready(keep_open=keep_open)
    play.replies(tool("f", "c1"), transfer("Billing", "h1", callback=True))
    play.returns("c1", "one", Change("set", ("n",), 1))
    failure = play.fails(play.only(RunHandoff), "user_error")
    assert (play.state.agent, play.state.handoff_path) == ("Triage", ("Triage",))
    assert play.state.failure == failure
    assert play.state.phase == ("idle" if keep_open else "closed")
    assert list(play.outputs) == ["c1", "h1"]
    assert play.state.context == {"n": 1}, "what the tools did counts"


def test_a_conversation_goes_on_with_the_agent_that_took_over() -> None:
    play = Play.ready(keep_open=True)
    play.replies(transfer("Billing", "h1"))
    play.replies(said("Billing here."))
    play.hears("m2")
    assert play.only(CallModel).agent == "Billing"
    assert play.state.handoff_path == ("Triage", "Billing")


def test_a_target_without_a_known_model_shows_none() -> None:
    play = Play.ready()
    play.replies(transfer("Billing", "h1", target_model=""))
    assert play.state.model == ""
    play.replies(said("Hi."), model="gpt-5")
    assert play.state.model == "gpt-5"
