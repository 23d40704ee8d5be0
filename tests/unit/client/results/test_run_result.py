"""What a run came to, and the errors that stand for failures."""

from dataclasses import asdict, replace
from typing import Any

import pytest
from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from outlast.agents import errors
from outlast.agents.agent import Agent
from outlast.agents.agent_tools.nested_result import AgentToolInvocation
from outlast.agents.config.run_error import RunErrorDetails
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import AgentsException, ModelRefusalError, ServerUnavailable, UserError
from outlast.agents.guardrails.guardrail import GuardrailFunctionOutput
from outlast.agents.usage import plain_usage
from outlast.client.results.run_result import (
    RunResult,
    error_of,
    result_of,
    result_of_answer,
    run_details,
)
from outlast.contract import failures
from outlast.loop.checks import GuardrailRecord
from outlast.loop.items import text_of
from outlast.loop.revision import revised
from outlast.loop.state import LoopState
from outlast.loop.values import Failure
from outlast.loop.view import ViewEdit
from tests.laws.driver import Play, gated, said, tool, transfer


def answered() -> LoopState:
    """The state of a run that called a tool and answered."""
    play = Play.ready(context={"name": "Ann"})
    play.replies(tool("look_up", "c1"))
    play.returns("c1", "found")
    play.replies(said("It is on its way."))
    return play.state


def test_a_result_says_what_the_run_came_to() -> None:
    state = answered()
    result = result_of(state)
    assert (result.run_id, result.status, result.final_output) == (
        "support-42",
        "completed",
        "It is on its way.",
    )
    assert (result.last_agent.name, result.turns) == ("Triage", 2)
    assert plain_usage(result.usage) == state.usage
    assert (result.items, result.interruptions) == (state.items, [])
    assert "It is on its way." in repr(result)


def test_a_result_is_taken_for_a_dataclass_as_those_of_the_sdk() -> None:
    result = result_of(answered())
    parts = asdict(result)
    assert [*parts][:4] == ["input", "new_items", "raw_responses", "final_output"]
    assert (parts["input"], parts["final_output"]) == ("Hello", "It is on its way.")
    assert [item["type"] for item in parts["new_items"]] == [item.type for item in result.new_items]
    assert parts["context_wrapper"]["context"] == {"name": "Ann"}
    other = replace(result, final_output="No.")
    assert (other.final_output, other.new_items) == ("No.", result.new_items)
    assert other.last_agent == result.last_agent


def test_a_result_shows_what_a_program_assigns() -> None:
    result = result_of(answered())
    for name in ("final_output", "input", "new_items", "max_turns", "interruptions"):
        setattr(result, name, name)
        assert getattr(result, name) == name
    assert result_of(answered()).final_output == "It is on its way."


def test_pydantic_takes_a_result_and_writes_its_text() -> None:
    """A tool may return one."""
    result = result_of(answered())
    adapter = TypeAdapter(RunResult)
    assert adapter.validate_python(result) is result
    assert from_json(adapter.dump_json(result)) == str(result) == from_json(to_json([result]))[0]


def test_results_of_one_state_are_equal() -> None:
    state = answered()
    assert result_of(state) == result_of(state)
    assert result_of(state) != result_of(replace(state, turns=9))
    assert result_of(state) != state


def test_a_run_that_waits_says_for_what() -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1"))
    result = result_of(play.state)
    assert (result.status, result.final_output) == ("waiting", None)
    assert [request.name for request in result.interruptions] == ["refund"]


def test_an_earlier_answer_of_a_conversation_can_be_had() -> None:
    play = Play.ready(keep_open=True)
    play.replies(tool("look_up", "c1"))
    play.returns("c1")
    play.replies(said("First."))
    play.hears("m2")
    play.replies(said("Second."))
    first, second = play.state.answers
    earlier = result_of_answer(play.state, first)
    assert earlier.final_output == "First."
    assert earlier.input == "Hello"
    assert [item.type for item in earlier.new_items] == [
        "tool_call_item",
        "tool_call_output_item",
        "message_output_item",
    ]
    assert len(earlier.raw_responses) == 2
    newest = result_of_answer(play.state, second)
    assert newest.final_output == "Second."
    assert [item.type for item in newest.new_items] == ["message_output_item"]
    assert len(newest.raw_responses) == 1
    assert second.item is not None
    assert text_of(play.state.items[second.item].raw) == "Second."


def test_an_earlier_answer_is_listed_with_what_a_handoff_passed_on() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("I pass you on."), transfer("Billing", "h1", callback=True))
    summary = {"role": "assistant", "content": "They said hello."}
    play.called_back(edit=ViewEdit(segments=(summary, (1, 2)), history=2))
    play.replies(said("Done."))
    play.hears("m2")
    play.replies(said("Second."))
    earlier = result_of_answer(play.state, play.state.answers[0])
    assert [text_of(one) for one in earlier.to_input_list() if "role" in one] == [
        "Hello",
        "I pass you on.",
        "Done.",
    ]


def test_an_answer_stays_what_it_was_while_the_next_question_is_worked_on() -> None:
    play = Play.ready(keep_open=True)
    play.replies(said("First."))
    play.hears("m2")
    play.replies(gated("refund", "c1"))
    result = result_of_answer(play.state, play.state.answers[0])
    assert (result.final_output, result.interruptions) == ("First.", [])
    assert [item.type for item in result.new_items] == ["message_output_item"]
    assert result_of(play.state).final_output is None


CODES = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, AgentsException)
]


@pytest.mark.parametrize("kind", [kind for kind in CODES if kind is not ServerUnavailable])
def test_a_failure_is_raised_as_the_error_of_its_code(kind: type[AgentsException]) -> None:
    state = answered()
    error: Any = error_of(Failure(code=kind.code, message="What to do."), state)
    assert isinstance(error, kind)
    assert type(error).__name__ == kind.__name__  # of the `openai` package at once
    assert error.message == "What to do."
    assert isinstance(error.run_data, RunErrorDetails)
    assert error.run_data == run_details(state)
    without: Any = error_of(Failure(code=kind.code, message=""))
    assert without.run_data is None


@pytest.mark.parametrize("code", ["", "ValueError", failures.INTERNAL, "a_code_of_the_future"])
def test_a_code_that_nobody_knows_is_still_an_error_of_ours(code: str) -> None:
    error = error_of(Failure(code=code, message="Odd."))
    assert type(error) is AgentsException
    assert str(error) == "Odd."


def test_every_failure_that_a_run_can_have_has_an_error() -> None:
    codes: dict[str, Any] = {
        name: value for name, value in vars(failures).items() if isinstance(value, str)
    }
    for name, code in codes.items():
        of_attempts = {
            failures.INTERNAL,
            failures.MODEL_WORKING,
            failures.WORKER_LACKS,
            failures.FAILED_ON_CAPABLE_WORKER,
        }
        if name.isupper() and code not in of_attempts:
            assert type(error_of(Failure(code=code, message=""))) is not AgentsException, name


def test_the_run_up_to_a_failure_is_in_its_error() -> None:
    play = Play.ready(max_turns=1)
    play.replies(tool("look_up", "c1"))
    play.returns("c1", "found")
    assert play.state.failure is not None
    error: Any = error_of(play.state.failure, play.state)
    data = error.run_data
    assert (data.input, data.last_agent.name) == ("Hello", "Triage")
    assert [item.type for item in data.new_items] == ["tool_call_item", "tool_call_output_item"]
    assert len(data.raw_responses) == 1
    assert plain_usage(data.context_wrapper.usage) == play.state.usage
    assert (data.status, data.turns, data.run_id) == ("failed", 1, "support-42")
    assert (data.items, plain_usage(data.usage)) == (play.state.items, play.state.usage)
    assert data.final_output is None


def test_a_tripwire_says_what_the_guardrail_found() -> None:
    play = Play.ready(keep_open=True)
    found = (
        GuardrailRecord(stage="output", name="calm", agent="Triage"),
        GuardrailRecord(
            stage="output", name="polite", agent="Triage", info={"why": 1}, tripped=True
        ),
    )
    state = revised(play.state, guardrails=found)
    error: Any = error_of(Failure(code=failures.OUTPUT_GUARDRAIL, message="No."), state)
    assert error.guardrail_result.guardrail.get_name() == "polite"
    assert error.guardrail_result.output == GuardrailFunctionOutput(
        output_info={"why": 1}, tripwire_triggered=True
    )
    names = [one.guardrail.get_name() for one in error.run_data.output_guardrail_results]
    assert names == ["calm", "polite"]


def test_a_refusal_is_in_its_error() -> None:
    error = error_of(Failure(code=failures.MODEL_REFUSAL, message="I will not."))
    assert isinstance(error, ModelRefusalError)
    assert error.refusal == "I will not."


def test_tests_may_make_a_result_of_its_parts() -> None:
    result = RunResult(
        input="Hi", new_items=[], raw_responses=[], final_output="Hello.", _last_agent=Agent("Desk")
    )
    assert isinstance(result, RunResult)
    assert (result.input, result.final_output, result.last_agent.name) == ("Hi", "Hello.", "Desk")
    assert result.to_input_list() == [{"role": "user", "content": "Hi"}]
    assert result.final_output_as(str) == "Hello."
    assert (result.last_response_id, result.input_guardrail_results) == (None, [])
    assert "Hello." in str(result)
    assert result != RunResult(input="Hi", final_output="Hello.")
    assert result.agent_tool_invocation is None
    context = ToolContext(None, tool_name="ask", tool_call_id="c1", tool_arguments="{}")
    nested = RunResult(input="Hi", context_wrapper=context).agent_tool_invocation
    assert nested == AgentToolInvocation("ask", "c1", "{}")
    with pytest.raises(UserError, match="no argument outputs"):
        RunResult(input="Hi", outputs=[])
