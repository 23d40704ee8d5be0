"""What users hand over as error handlers, and what a handler may return."""

from typing import Any

import pytest

from outlast.agents.config.run_error import (
    RunErrorDetails,
    RunErrorHandlerResult,
    RunErrorHandlers,
    check_error_handlers,
    handler_result,
)
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError


def sorry(failed: Any) -> str:
    return "Sorry."


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (None, None),
        (RunErrorHandlerResult("Sorry."), RunErrorHandlerResult("Sorry.")),
        ({"final_output": "Sorry."}, RunErrorHandlerResult("Sorry.", include_in_history=True)),
        (
            {"final_output": None, "include_in_history": False},
            RunErrorHandlerResult(None, include_in_history=False),
        ),
        ("Sorry.", RunErrorHandlerResult("Sorry.")),
        ("", RunErrorHandlerResult("")),
        ([1, 2], RunErrorHandlerResult([1, 2])),
        ({"city": "Bonn"}, RunErrorHandlerResult({"city": "Bonn"})),
        ({}, RunErrorHandlerResult({})),
    ],
)
def test_a_handler_answers_in_any_of_four_ways(
    value: object, result: RunErrorHandlerResult | None
) -> None:
    assert handler_result(value) == result


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"final_output": "Sorry.", "inclued_in_history": False},
            r"with inclued_in_history\. .* return RunErrorHandlerResult\(final_output",
        ),
        ({"final_output": "Sorry.", "include_in_history": "no"}, r"True or False, not 'no'"),
        (RunErrorHandlerResult("Sorry.", include_in_history=1), r"not 1\."),  # pyright: ignore[reportArgumentType]  # the mistake
    ],
)
def test_an_answer_that_could_mean_two_things_is_refused(value: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        handler_result(value)


def test_handlers_for_the_three_kinds_are_let_through() -> None:
    handlers: RunErrorHandlers[Any] = {
        "max_turns": sorry,
        "model_refusal": lambda _: RunErrorHandlerResult("Sorry."),
        "invalid_final_output": sorry,
    }
    for fitting in (None, {}, {"max_turns": None}, handlers):
        check_error_handlers(fitting)


@pytest.mark.parametrize(
    ("handlers", "message"),
    [
        (
            {"max_turn": sorry},
            r"no key 'max_turn'\. Its keys are max_turns, model_refusal, invalid_final_output\.$",
        ),
        ({"max_turns": "Sorry."}, r"^error_handlers\['max_turns'\] must be callable .* not str"),
        (
            {"max_turns": lambda: "Sorry."},
            r"^error_handlers\['max_turns'\] is called with \(input\)",
        ),
        (sorry, r"^error_handlers must be a dict of handlers, not function"),
    ],
)
def test_handlers_that_cannot_work_are_refused(handlers: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_error_handlers(handlers)


def test_a_failed_run_has_no_guardrail_results_where_none_are_given() -> None:
    details = RunErrorDetails(
        input="hi",
        new_items=[],
        raw_responses=[],
        last_agent=None,
        context_wrapper=RunContextWrapper[Any](context=None),
    )
    assert details.input_guardrail_results == details.output_guardrail_results == []
    assert details.tool_input_guardrail_results == details.tool_output_guardrail_results == []
