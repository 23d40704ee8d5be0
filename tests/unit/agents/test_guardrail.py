"""Guardrails on agents are made, named, checked and called."""

import functools
import threading
from typing import Any

import pytest

from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.guardrails.guardrail import (
    GuardrailFunctionOutput,
    InputGuardrail,
    OutputGuardrail,
    input_guardrail,
    output_guardrail,
)
from outlast.agents.guardrails.tool_guardrails import tool_input_guardrail, tool_output_guardrail

CONTEXT = RunContextWrapper[Any](context={"customer": "Ann"})
AGENT = object()


def verdict(*seen: object) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=seen, tripwire_triggered=True)


async def no_homework(context: Any, agent: Any, asked: Any) -> GuardrailFunctionOutput:
    return verdict(context, agent, asked)


def no_homework_sync(context: Any, agent: Any, asked: Any) -> GuardrailFunctionOutput:
    return verdict(context, agent, asked)


class NoHomework:
    def __call__(self, context: Any, agent: Any, asked: Any) -> GuardrailFunctionOutput:
        return verdict(context, agent, asked)


FUNCTIONS = pytest.mark.parametrize(
    ("function", "name"),
    [
        (no_homework, "no_homework"),
        (no_homework_sync, "no_homework_sync"),
        (functools.partial(no_homework), "no_homework"),
        (NoHomework(), "NoHomework"),
    ],
)


@FUNCTIONS
async def test_an_input_guardrail_is_called_with_context_agent_and_input(
    function: Any, name: str
) -> None:
    guardrail = InputGuardrail[Any](function)
    result = await guardrail.run(AGENT, "2 + 2?", CONTEXT)
    assert result.guardrail is guardrail
    assert result.output == verdict(CONTEXT, AGENT, "2 + 2?")
    assert guardrail.get_name() == name


@FUNCTIONS
async def test_an_output_guardrail_is_called_with_context_agent_and_output(
    function: Any, name: str
) -> None:
    guardrail = OutputGuardrail[Any](function)
    result = await guardrail.run(CONTEXT, AGENT, ["4"])
    assert (result.guardrail, result.agent, result.agent_output) == (guardrail, AGENT, ["4"])
    assert result.output == verdict(CONTEXT, AGENT, ["4"])
    assert guardrail.get_name() == name


async def test_a_sync_function_does_not_block_the_event_loop() -> None:
    @input_guardrail
    def where(context: Any, agent: Any, asked: Any) -> GuardrailFunctionOutput:
        return verdict(threading.get_ident())

    result = await where.run(AGENT, [], CONTEXT)
    assert result.output.output_info != (threading.get_ident(),)


def test_the_decorators_make_guardrails_with_and_without_options() -> None:
    bare = input_guardrail(no_homework)
    assert (bare.name, bare.run_in_parallel, bare.get_name()) == (
        "no_homework",
        True,
        "no_homework",
    )
    named = input_guardrail(name="homework", run_in_parallel=False)(no_homework)
    assert (named.run_in_parallel, named.get_name()) == (False, "homework")
    assert named.guardrail_function is no_homework

    assert output_guardrail(no_homework).get_name() == "no_homework"
    assert output_guardrail(name="homework")(no_homework).get_name() == "homework"
    assert isinstance(output_guardrail()(no_homework), OutputGuardrail)


def too_few(context: Any, agent: Any) -> Any: ...


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: input_guardrail(too_few),  # pyright: ignore[reportArgumentType]  # the mistake
            r"^Input guardrail 'too_few': .* \(context, agent, input\), but too_few takes",
        ),
        (
            lambda: OutputGuardrail(too_few, name="brief"),  # pyright: ignore[reportArgumentType]  # the mistake
            r"^Output guardrail 'brief': .* \(context, agent, agent_output\)",
        ),
        (
            lambda: InputGuardrail[Any](7),  # pyright: ignore[reportArgumentType]  # the mistake
            r"^Input guardrail: its function must be callable .* not int\.$",
        ),
        (lambda: InputGuardrail[Any](no_homework, name=" "), r"name must be a non-empty string"),
        (
            lambda: InputGuardrail[Any](no_homework, run_in_parallel="no"),  # pyright: ignore[reportArgumentType]  # the mistake
            r"^Input guardrail 'no_homework': run_in_parallel must be True or False, not 'no'",
        ),
    ],
)
def test_a_guardrail_that_cannot_work_is_refused_where_it_is_made(make: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()


async def test_a_function_that_returns_something_else_is_named() -> None:
    def forgets(context: Any, agent: Any, value: Any) -> Any:
        return {"tripwire_triggered": True}

    fix = r"returned dict: return GuardrailFunctionOutput\("
    with pytest.raises(UserError, match=rf"^Input guardrail 'forgets' {fix}"):
        await input_guardrail(forgets).run(AGENT, "hi", CONTEXT)
    with pytest.raises(UserError, match=rf"^Output guardrail 'why' {fix}"):
        await output_guardrail(name="why")(forgets).run(CONTEXT, AGENT, "hi")


async def test_what_a_function_raises_is_not_wrapped() -> None:
    @output_guardrail
    async def fails(context: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
        raise LookupError("no such list")

    with pytest.raises(LookupError, match="no such list"):
        await fails.run(CONTEXT, AGENT, "hi")


@pytest.mark.parametrize(
    "make", [input_guardrail, output_guardrail, tool_input_guardrail, tool_output_guardrail]
)
def test_the_function_may_be_passed_by_name(make: Any) -> None:
    def careful(*seen: object) -> GuardrailFunctionOutput:
        return verdict(*seen)

    guardrail = make(func=careful, name="strict")
    assert (guardrail.guardrail_function, guardrail.get_name()) == (careful, "strict")
    assert make(func=careful).get_name() == "careful"


def test_a_decorated_guardrail_has_the_name_of_its_function() -> None:
    def check(context: Any, agent: Any, value: Any = None) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)

    assert input_guardrail(check).name == "check"
    assert output_guardrail(check).name == "check"
    assert input_guardrail(name="own")(check).name == "own"
    with pytest.raises(UserError, match="name must be a non-empty string"):
        input_guardrail(name="")(check)
