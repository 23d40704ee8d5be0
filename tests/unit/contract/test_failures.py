"""What an engine's failure means to a run: a code for programs, words for people."""

import ast
import inspect
from typing import Any

import pytest

from outlast.agents import errors
from outlast.contract import failures
from outlast.contract.effects import failure_of
from outlast.contract.failures import EngineFailure
from outlast.loop import machine
from outlast.loop.effects import Effect
from outlast.loop.values import Failure
from tests.laws.driver import play_with_everything


def effects() -> dict[str, Effect]:
    """One effect of each kind, by kind."""
    return {one.kind: one for one in reversed(play_with_everything().issued)}


EFFECTS = effects()
WHAT = {
    "prepare_run": "The start of Triage",
    "call_model": "The model call of Triage",
    "run_tool": "The tool look_up",
    "clean_up": "The clean-up of the tool look_up",
    "cancel_response": "The cancellation of the response resp_1",
    "compact_view": "The summary for Triage",
    "run_handoff": "The callback of the handoff transfer_to_billing",
    "run_agent": "The tool ask_orders",
    "check_input": "An input guardrail of Triage",
    "finalize_answer": "The end of Billing's answer",
    "save_session": "Saving the session",
    "offload_items": "Storing content outside of the run",
    "keep_line_open": "The line l1",
    "notify_people": "The notification of people",
    "count_hours": "The count of a calendar's hours",
}
DEFAULT = {
    "prepare_run": failures.USER_ERROR,
    "call_model": failures.MODEL_CALL_FAILED,
    "run_tool": failures.TOOL_FAILED,
    "clean_up": failures.TOOL_FAILED,
    "cancel_response": failures.MODEL_CALL_FAILED,
    "compact_view": failures.MODEL_CALL_FAILED,
    "run_handoff": failures.USER_ERROR,
    "run_agent": failures.TOOL_FAILED,
    "check_input": failures.USER_ERROR,
    "finalize_answer": failures.USER_ERROR,
    "save_session": failures.SESSION_FAILED,
    "offload_items": failures.CONTENT_UNAVAILABLE,
    "keep_line_open": failures.MODEL_CALL_FAILED,
    "notify_people": failures.INTERNAL,
    "count_hours": failures.USER_ERROR,
}


@pytest.mark.parametrize("kind", EFFECTS)
def test_a_typed_error_keeps_its_code_message_and_details(kind: str) -> None:
    engine = EngineFailure(kind="application", code="quota", message="No money.", details={"a": 1})
    assert failure_of(EFFECTS[kind], engine) == Failure(
        code="quota", message="No money.", details={"a": 1}
    )


@pytest.mark.parametrize("kind", EFFECTS)
def test_an_error_without_a_type_gets_the_code_of_its_effect(kind: str) -> None:
    failure = failure_of(EFFECTS[kind], EngineFailure(kind="application", message="Oh."))
    assert failure == Failure(code=DEFAULT[kind], message="Oh.")


@pytest.mark.parametrize("engine_kind", ["application", "other"])
@pytest.mark.parametrize("kind", EFFECTS)
def test_an_error_without_words_says_what_failed(kind: str, engine_kind: Any) -> None:
    failure = failure_of(EFFECTS[kind], EngineFailure(kind=engine_kind))
    assert failure == Failure(code=DEFAULT[kind], message=f"{WHAT[kind]} failed.")


@pytest.mark.parametrize("kind", EFFECTS)
def test_what_is_no_error_of_ours_never_sets_the_code(kind: str) -> None:
    engine = EngineFailure(kind="other", code="whatever", message="The server said no.")
    assert failure_of(EFFECTS[kind], engine).code == DEFAULT[kind]


@pytest.mark.parametrize("kind", EFFECTS)
def test_a_time_out_says_what_to_look_at(kind: str) -> None:
    failure = failure_of(EFFECTS[kind], EngineFailure(kind="timeout", code="x", message="y"))
    expected = failures.TOOL_TIMEOUT if kind == "run_tool" else DEFAULT[kind]
    assert failure.code == expected
    assert failure.message.startswith(f"{WHAT[kind]} did not finish in time")
    assert "worker" in failure.message


@pytest.mark.parametrize("kind", EFFECTS)
def test_a_cancelled_effect_is_cancelled_whatever_else_it_says(kind: str) -> None:
    engine = EngineFailure(kind="cancelled", code="x", message="y", details={"a": 1})
    assert failure_of(EFFECTS[kind], engine) == Failure(
        code=failures.CANCELLED, message=f"{WHAT[kind]} was cancelled."
    )


def codes() -> set[str]:
    """The listed codes."""
    return {
        value for name, value in vars(failures).items() if name.isupper() and isinstance(value, str)
    }


def test_codes_stay_what_they_are() -> None:
    """Programs match on them, and recorded histories hold them."""
    expected = """
        user_error model_call_failed model_behavior model_refusal max_turns_exceeded
        input_guardrail_tripwire output_guardrail_tripwire tool_input_guardrail_tripwire
        tool_output_guardrail_tripwire invalid_final_output session_failed tool_failed
        tool_timeout cancelled decision_refused delivery_refused approval_expired budget_exceeded run_closed
        content_unavailable
        conversation_full run_busy terminated model_working worker_lacks worker_found internal_error
    """
    assert set(expected.split()) == failures.CODES == codes()


def test_an_engine_failure_says_nothing_where_nothing_is_set() -> None:
    assert EngineFailure(kind="other") == EngineFailure(kind="other", code="", message="")


def test_a_worker_that_lacks_something_for_too_long_is_an_error_of_the_user() -> None:
    engine = EngineFailure(kind="application", code=failures.WORKER_LACKS, message="No tool.")
    failure = failure_of(EFFECTS["run_tool"], engine)
    assert failure == Failure(code=failures.USER_ERROR, message="No tool.")


def test_every_code_that_the_loop_makes_is_listed() -> None:
    """Programs match on codes, so there is one place that lists them."""
    made = {
        keyword.value.value
        for module in (machine,)
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Failure"
        for keyword in node.keywords
        if keyword.arg == "code" and isinstance(keyword.value, ast.Constant)
    }
    assert made <= codes()


def test_every_listed_code_has_an_exception_that_users_see() -> None:
    """But for a defect of ours, and for one that says more than the exception does."""
    known = {
        one.code
        for one in vars(errors).values()
        if isinstance(one, type) and issubclass(one, errors.AgentsException)
    }
    finer = {failures.INTERNAL, failures.INVALID_OUTPUT}
    finer |= {
        failures.MODEL_WORKING,
        failures.WORKER_LACKS,
        failures.FAILED_ON_CAPABLE_WORKER,
    }  # of an attempt, not of a run
    assert codes() - finer <= known
