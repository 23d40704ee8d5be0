"""The tree of errors: one base, one stable code each."""

import copy
import inspect
import pickle
import re

import pytest

from outlast.agents import errors
from outlast.agents.errors import (
    AgentsException,
    InputGuardrailTripwireTriggered,
    ModelRefusalError,
    ModelTimeoutError,
    OutputGuardrailTripwireTriggered,
    RunCancelled,
    RunClosed,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
    ToolTimeoutError,
    UserError,
)
from outlast.agents.guardrails.guardrail import (
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailResult,
)


def no_refunds(context: object, agent: object, input: object) -> GuardrailFunctionOutput:  # noqa: A002  the SDK's
    """Refuse everything."""
    return GuardrailFunctionOutput(output_info="no", tripwire_triggered=True)


RESULT = InputGuardrailResult(
    guardrail=InputGuardrail(no_refunds), output=GuardrailFunctionOutput("no", True)
)

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, AgentsException)
]


def test_every_code_is_of_one_class() -> None:
    codes = [kind.code for kind in KINDS]
    assert len(codes) == len(set(codes)) > 10
    assert all(re.fullmatch(r"[a-z_]+", code) for code in codes)


def test_the_codes_stay_what_they_are() -> None:
    """Recorded failures and users' programs have them."""
    assert {kind.__name__: kind.code for kind in KINDS} == {
        "AgentsException": "agents_error",
        "ContentUnavailable": "content_unavailable",
        "ConversationFull": "conversation_full",
        "ApprovalExpired": "approval_expired",
        "BudgetExceeded": "budget_exceeded",
        "DecisionRefused": "decision_refused",
        "DeliveryRefused": "delivery_refused",
        "MCPTaskEnded": "mcp_task_ended",
        "ScheduleAlreadyExists": "schedule_already_exists",
        "ScheduleNotFound": "schedule_not_found",
        "WaitDropped": "wait_dropped",
        "WaitTimeout": "wait_timeout",
        "IdentityRefused": "identity_refused",
        "InputGuardrailTripwireTriggered": "input_guardrail_tripwire",
        "MaxTurnsExceeded": "max_turns_exceeded",
        "ModelBehaviorError": "model_behavior",
        "ModelCallFailed": "model_call_failed",
        "ModelRefusalError": "model_refusal",
        "ModelTimeoutError": "model_timeout",
        "OutputGuardrailTripwireTriggered": "output_guardrail_tripwire",
        "RunAlreadyStarted": "run_already_started",
        "RunCancelled": "cancelled",
        "RunBusy": "run_busy",
        "RunTerminated": "terminated",
        "RunClosed": "run_closed",
        "RunNotFound": "run_not_found",
        "SessionFailed": "session_failed",
        "ServerUnavailable": "server_unavailable",
        "ToolFailed": "tool_failed",
        "ToolInputGuardrailTripwireTriggered": "tool_input_guardrail_tripwire",
        "ToolOutputGuardrailTripwireTriggered": "tool_output_guardrail_tripwire",
        "ToolTimeoutError": "tool_timeout",
        "UserError": "user_error",
    }


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_has_its_message_and_the_run(kind: type[AgentsException]) -> None:
    error = kind("What to do.", run_data={"turns": 3})
    assert str(error) == error.message == "What to do."
    assert error.run_data == {"turns": 3}
    assert kind().message == ""
    assert kind().run_data is None


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_survives_being_copied_and_pickled(kind: type[AgentsException]) -> None:
    """Process pools and test runners do that."""
    error = kind("What to do.", run_data=[1])
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(twin) is kind
        assert (twin.message, twin.run_data) == ("What to do.", [1])


@pytest.mark.parametrize(
    ("error", "attributes"),
    [
        (InputGuardrailTripwireTriggered("", guardrail_result=1), {"guardrail_result": 1}),
        (InputGuardrailTripwireTriggered(), {"guardrail_result": None}),
        (OutputGuardrailTripwireTriggered("", guardrail_result=1), {"guardrail_result": 1}),
        (
            ToolInputGuardrailTripwireTriggered("", guardrail=1, output=2),
            {"guardrail": 1, "output": 2},
        ),
        (
            ToolOutputGuardrailTripwireTriggered("", guardrail=1, output=2),
            {"guardrail": 1, "output": 2},
        ),
        (
            ToolTimeoutError("", tool_name="refund", timeout_seconds=1.5),
            {"tool_name": "refund", "timeout_seconds": 1.5},
        ),
        (ToolTimeoutError(), {"tool_name": None, "timeout_seconds": None}),
        (ModelRefusalError("", refusal="No."), {"refusal": "No."}),
        # Made by hand with the arguments of the SDK.
        (InputGuardrailTripwireTriggered(RESULT), {"guardrail_result": RESULT}),
        (OutputGuardrailTripwireTriggered(RESULT), {"guardrail_result": RESULT}),
        (
            ToolInputGuardrailTripwireTriggered(RESULT.guardrail, RESULT.output),
            {"guardrail": RESULT.guardrail, "output": RESULT.output},
        ),
        (
            ToolOutputGuardrailTripwireTriggered(RESULT.guardrail, output=RESULT.output),
            {"guardrail": RESULT.guardrail, "output": RESULT.output},
        ),
        (
            ToolTimeoutError("refund", 1.5),
            {
                "tool_name": "refund",
                "timeout_seconds": 1.5,
                "message": "The tool refund timed out after 1.5 seconds.",
            },
        ),
        (ModelTimeoutError(3), {"timeout_seconds": 3}),
        (ModelRefusalError("No."), {"refusal": "No."}),
    ],
)
def test_an_error_says_what_caused_it_also_as_a_copy(
    error: AgentsException, attributes: dict[str, object]
) -> None:
    for twin in (error, copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert {name: getattr(twin, name) for name in attributes} == attributes


def test_a_tripwire_made_by_hand_names_its_guardrail() -> None:
    assert InputGuardrailTripwireTriggered(RESULT).guardrail_name == "no_refunds"
    error = ToolInputGuardrailTripwireTriggered(RESULT.guardrail, RESULT.output)
    assert (error.guardrail_name, str(error)) == (
        "no_refunds",
        "A InputGuardrail triggered its tripwire.",
    )


def test_what_a_program_did_wrong_can_be_caught_as_one_kind() -> None:
    assert issubclass(RunClosed, UserError)
    assert not issubclass(RunCancelled, UserError)
