"""What a tripwire tells: in the run's own records, and beyond a nested run in its failure."""

from dataclasses import replace
from typing import Any

import pytest

from outlast.activities.guardrails.tripwires import guardrail_result_of, tripwire
from outlast.activities.invocation import Invocation
from outlast.agents.agent import Agent
from outlast.agents.guardrails.guardrail import (
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailResult,
    OutputGuardrail,
    OutputGuardrailResult,
)
from outlast.loop.checks import GuardrailRecord
from outlast.loop.values import Failure
from tests.unit.activities.desk import answering, check_request, worker_of

FINE = GuardrailRecord(stage="input", name="fine", agent="Expert")
POLITE = GuardrailRecord(stage="input", name="polite", agent="Expert", info=[1], tripped=True)
SECRET = replace(POLITE, stage="output", name="secret", output="42")


def check(*_arguments: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)


def invocation_of(*, is_nested: bool = True, **guardrails: Any) -> Invocation:
    """The invocation of an agent, which works as a tool of the agent A."""
    expert = Agent[Any](name="Expert", **guardrails)
    outer = Agent[Any](name="A", tools=[expert.as_tool("ask", "Ask.")])
    settings = answering("ask") if is_nested else None
    return Invocation.of(worker_of(outer), check_request(agent="Expert", settings=settings).effect)


def failed(invocation: Invocation, record: GuardrailRecord) -> Failure:
    failure = tripwire(invocation, [FINE, record])
    assert failure is not None
    return failure


def test_the_first_that_tripped_is_named() -> None:
    invocation = invocation_of(is_nested=False)
    assert tripwire(invocation, [FINE]) is None
    failure = failed(invocation, POLITE)
    assert failure == Failure(
        code="input_guardrail_tripwire",
        message="The input guardrail 'polite' of agent 'Expert' triggered its tripwire.",
        details={"guardrail": "polite"},
    )
    assert guardrail_result_of(invocation, failure) is None, "the run itself has it"
    blocked = failed(invocation, SECRET)
    assert blocked.code == "output_guardrail_tripwire"
    assert (
        blocked.message == "The output guardrail 'secret' of agent 'Expert' triggered its tripwire."
    )


def test_what_ended_a_nested_run_is_found_in_its_failure() -> None:
    polite, secret = InputGuardrail(check, name="polite"), OutputGuardrail(check, name="secret")
    invocation = invocation_of(input_guardrails=[polite], output_guardrails=[secret])
    asked = guardrail_result_of(invocation, failed(invocation, POLITE))
    assert isinstance(asked, InputGuardrailResult)
    assert (asked.guardrail, asked.output.output_info) == (polite, [1])
    judged = guardrail_result_of(invocation, failed(invocation, SECRET))
    assert isinstance(judged, OutputGuardrailResult)
    assert (judged.guardrail, judged.agent.name, judged.agent_output) == (secret, "Expert", "42")
    assert judged.output.tripwire_triggered


@pytest.mark.parametrize("record", [POLITE, SECRET, replace(POLITE, agent="Gone")])
def test_a_guardrail_that_has_gone_with_a_deploy_is_not_found(record: GuardrailRecord) -> None:
    invocation = invocation_of()
    assert guardrail_result_of(invocation, failed(invocation, record)) is None
