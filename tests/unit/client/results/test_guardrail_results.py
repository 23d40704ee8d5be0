"""What guardrails said, as the results that programs know."""

from dataclasses import replace
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.errors import OutputGuardrailTripwireTriggered
from outlast.agents.guardrails.guardrail import (
    TRIPPED_RECORD,
    InputGuardrailResult,
    OutputGuardrailResult,
)
from outlast.agents.guardrails.tool_guardrails import (
    ToolInputGuardrailResult,
    ToolOutputGuardrailResult,
)
from outlast.client.results.guardrail_results import (
    guardrail_result,
    guardrail_results,
    tripped,
    tripped_inside,
)
from outlast.client.results.local_definitions import LocalDefinitions, RemoteAgent
from outlast.client.results.run_result import error_of
from outlast.contract.records import write
from outlast.loop.checks import GuardrailRecord
from outlast.loop.revision import revised
from outlast.loop.state import LoopState
from outlast.loop.values import Failure
from tests.laws.driver import Play

NOBODY = LocalDefinitions()


def state_with(*records: GuardrailRecord) -> LoopState:
    return revised(Play.ready().state, guardrails=records)


def test_each_stage_has_results_of_its_own_in_their_order() -> None:
    state = state_with(
        GuardrailRecord(stage="input", name="b", info={"seen": 1}),
        GuardrailRecord(stage="output", name="o"),
        GuardrailRecord(stage="input", name="a", tripped=True),
    )
    found = guardrail_results(state, "input", NOBODY)
    assert [type(one) for one in found] == [InputGuardrailResult] * 2
    assert [one.guardrail.get_name() for one in found] == ["b", "a"]
    assert [one.output.tripwire_triggered for one in found] == [False, True]
    assert found[0].output.output_info == {"seen": 1}


def test_an_output_guardrail_looked_at_an_answer_of_the_agents_type() -> None:
    known = LocalDefinitions(Agent[Any](name="A", output_type=list[int]))
    record = GuardrailRecord(stage="output", name="o", agent="A", output=[1, 2])
    result = guardrail_result(record, known)
    assert isinstance(result, OutputGuardrailResult)
    assert (result.agent.name, result.agent_output) == ("A", [1, 2])
    other = guardrail_result(replace(record, output="a tool's"), known)
    assert isinstance(other, OutputGuardrailResult)
    assert other.agent_output == "a tool's"
    remote = guardrail_result(record, NOBODY)
    assert isinstance(remote, OutputGuardrailResult)
    assert remote.agent == RemoteAgent("A")


@pytest.mark.parametrize(
    ("behavior", "kind"),
    [
        (None, "allow"),
        ({"type": "reject_content", "message": "No."}, "reject_content"),
        ({"type": "raise_exception"}, "raise_exception"),
    ],
)
def test_tool_guardrails_say_what_follows(behavior: Any, kind: str) -> None:
    record = GuardrailRecord(stage="tool_input", name="t", tool="pay", behavior=behavior)
    before = guardrail_result(record, NOBODY)
    after = guardrail_result(replace(record, stage="tool_output"), NOBODY)
    assert isinstance(before, ToolInputGuardrailResult)
    assert isinstance(after, ToolOutputGuardrailResult)
    assert before.output == after.output
    assert before.output.behavior["type"] == kind


def test_a_tripwire_of_a_nested_run_is_in_the_failure() -> None:
    record = GuardrailRecord(stage="output", name="o", agent="Expert", tripped=True, output="42")
    failure = Failure(
        code="output_guardrail_tripwire", message="x", details={TRIPPED_RECORD: write(record)}
    )
    assert tripped_inside(failure) == record
    assert tripped_inside(replace(failure, details=None)) is None
    error = error_of(failure, state_with())
    assert isinstance(error, OutputGuardrailTripwireTriggered)
    assert (error.guardrail_result.agent.name, error.guardrail_result.agent_output) == (
        "Expert",
        "42",
    )


def test_the_guardrail_that_ended_the_run_is_the_last_that_tripped() -> None:
    state = state_with(
        GuardrailRecord(stage="input", name="first", tripped=True),
        GuardrailRecord(stage="input", name="second", tripped=True),
        GuardrailRecord(stage="input", name="third"),
        GuardrailRecord(stage="tool_input", name="t", behavior={"type": "raise_exception"}),
        GuardrailRecord(stage="tool_input", name="u", behavior={"type": "allow"}),
    )
    ended, refused = tripped(state, "input"), tripped(state, "tool_input")
    assert ended is not None
    assert refused is not None
    assert (ended.name, refused.name) == ("second", "t")
    assert tripped(state, "output") is None
