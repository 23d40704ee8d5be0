"""Turn limits, refusals, invalid output and error handlers: rows 30 to 35 of the table."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

import outlast
from outlast import (
    Agent,
    MaxTurnsExceeded,
    ModelBehaviorError,
    ModelRefusalError,
    UserError,
    function_tool,
)
from outlast.loop.values import JsonObject
from outlast.ports.model import ModelRequest
from outlast.testing import ScriptedModel, call, refuse, say
from tests.conformance.executors import Executor, raises_own, row
from tests.conformance.views import MESSAGE, kinds, saved, shapes


class Answer(BaseModel):
    text: str
    score: int


@function_tool
async def look_up() -> str:
    return "nothing"


def _again(request: ModelRequest) -> list[JsonObject]:
    return [call("look_up", f"c{len(request.input)}")]


def _endless() -> ScriptedModel:
    return ScriptedModel(always=_again)


def _handler(answer: Any, seen: list[Any] | None = None) -> Callable[[Any], Any]:
    def handle(given: Any) -> Any:
        if seen is not None:
            seen.append(given)
        return answer

    return handle


@row(30)
async def test_a_run_that_finds_no_end_makes_as_many_model_calls_as_it_may(
    executor: Executor,
) -> None:
    model = _endless()
    with pytest.raises(MaxTurnsExceeded) as caught:
        await executor.execute(Agent(name="A", tools=[look_up]), model=model, max_turns=2)
    assert model.calls == 2
    data = caught.value.run_data
    assert kinds(data) == ["tool_call_item", "tool_call_output_item"] * 2
    assert len(data.raw_responses) == 2
    assert (data.input, data.last_agent.name) == ("Hello", "A")


@row(30)
async def test_a_handoff_costs_a_turn(executor: Executor) -> None:
    triage = Agent(name="Triage", handoffs=[Agent(name="Billing")])
    model = ScriptedModel([call("transfer_to_billing", "h1")], "never")
    with pytest.raises(MaxTurnsExceeded) as caught:
        await executor.execute(triage, model=model, max_turns=1)
    assert (model.calls, caught.value.run_data.last_agent.name) == (1, "Billing")


@row(31)
async def test_without_a_limit_a_run_may_take_more_turns_than_the_default(
    executor: Executor,
) -> None:
    model = ScriptedModel(*[_again] * 11, "done")
    agent = Agent(name="A", tools=[look_up])
    stream = await executor.stream(agent, model=model, max_turns=None)
    async for _ in stream.stream_events():
        pass
    assert stream.final_output == "done"
    assert stream.max_turns is None
    assert (model.calls, stream.current_turn) == (12, 12)


HANDLERS: dict[str, Any] = {
    "result": lambda: outlast.RunErrorHandlerResult(final_output="fallback"),
    "raw": lambda: "fallback",
    "dict": lambda: {"final_output": "fallback"},
}


@row(32)
@pytest.mark.parametrize("kind", list(HANDLERS))
async def test_a_handler_answers_in_place_of_the_model(executor: Executor, kind: str) -> None:
    seen: list[Any] = []
    result = await executor.execute(
        Agent(name="A", tools=[look_up]),
        model=_endless(),
        max_turns=1,
        error_handlers={"max_turns": _handler(HANDLERS[kind](), seen)},
    )
    assert result.final_output == "fallback"
    assert kinds(result) == ["tool_call_item", "tool_call_output_item", MESSAGE]
    assert shapes(result.to_input_list())[-1] == "fallback"
    given = seen[0]
    assert isinstance(given.error, MaxTurnsExceeded)
    assert kinds(given.run_data) == ["tool_call_item", "tool_call_output_item"]
    assert given.context.usage.requests == 1


@row(32)
async def test_an_async_handler_may_leave_its_answer_out_of_the_history(
    executor: Executor,
) -> None:
    async def handle(_given: Any) -> Any:
        return outlast.RunErrorHandlerResult(final_output="fallback", include_in_history=False)

    result = await executor.execute(
        Agent(name="A", tools=[look_up]),
        model=_endless(),
        max_turns=1,
        error_handlers={"max_turns": handle},
    )
    assert result.final_output == "fallback"
    assert kinds(result) == ["tool_call_item", "tool_call_output_item"]


@row(32)
async def test_a_handler_that_declines_leaves_the_error(executor: Executor) -> None:
    seen: list[Any] = []
    with pytest.raises(MaxTurnsExceeded):
        await executor.execute(
            Agent(name="A", tools=[look_up]),
            model=_endless(),
            max_turns=1,
            error_handlers={"max_turns": _handler(None, seen)},
        )
    assert len(seen) == 1


@row(32)
@pytest.mark.parametrize(
    ("answer", "fits"),
    [(Answer(text="fallback", score=1), True), ({"text": "fallback"}, False)],
)
async def test_a_handlers_answer_has_to_fit_the_output_type(
    executor: Executor, answer: Any, fits: bool
) -> None:
    async def run() -> Any:
        return await executor.execute(
            Agent(name="A", tools=[look_up], output_type=Answer),
            model=_endless(),
            max_turns=1,
            error_handlers={"max_turns": handle},
        )

    def handle(_given: Any) -> Any:
        return outlast.RunErrorHandlerResult(final_output=answer)

    if fits:
        assert (await run()).final_output == answer
    else:
        with pytest.raises(UserError):
            await run()


@row(33)
@pytest.mark.parametrize("verdict", ["pass", "trip", "error"])
async def test_output_guardrails_judge_a_handlers_answer(
    executor: Executor, tmp_path: Path, verdict: Literal["pass", "trip", "error"]
) -> None:
    judged: list[Any] = []

    @outlast.output_guardrail
    async def judge(_context: Any, _agent: Any, output: Any) -> Any:
        judged.append(output)
        if verdict == "error":
            raise TypeError("the guardrail is broken")
        return outlast.GuardrailFunctionOutput(
            output_info=None, tripwire_triggered=verdict == "trip"
        )

    session = outlast.SQLiteSession("s", tmp_path / "sessions.db")

    async def run() -> Any:
        return await executor.execute(
            Agent(name="A", output_guardrails=[judge]),
            model=ScriptedModel(),
            max_turns=0,
            session=session,
            error_handlers={"max_turns": _handler("fallback")},
        )

    if verdict == "pass":
        assert (await run()).final_output == "fallback"
    elif verdict == "trip":
        with pytest.raises(outlast.OutputGuardrailTripwireTriggered):
            await run()
    else:
        with raises_own(TypeError, "the guardrail is broken"):
            await run()
    assert judged == ["fallback"]
    assert await saved(session) == (["Hello", "fallback"] if verdict == "pass" else ["Hello"])


@row(34)
async def test_a_refusal_is_an_error(executor: Executor) -> None:
    with pytest.raises(ModelRefusalError, match="I will not") as caught:
        await executor.execute(Agent(name="A"), model=ScriptedModel(refuse("I will not.")))
    assert caught.value.run_data.last_agent.name == "A"


@pytest.mark.smoke
@row(34)
async def test_a_refusal_may_be_answered_by_a_handler(executor: Executor) -> None:
    seen: list[Any] = []
    model = ScriptedModel(refuse("I will not."))
    result = await executor.execute(
        Agent(name="A"),
        model=model,
        error_handlers={"model_refusal": _handler("Ask somebody else.", seen)},
    )
    assert result.final_output == "Ask somebody else."
    assert isinstance(seen[0].error, ModelRefusalError)
    assert model.calls == 1


@row(35)
@pytest.mark.parametrize("text", ["no JSON", '{"text": "a", "score": "1"}', '{"text": "a"}'])
async def test_output_that_does_not_fit_is_an_error(executor: Executor, text: str) -> None:
    model = ScriptedModel(text, "never")
    with pytest.raises(ModelBehaviorError):
        await executor.execute(Agent(name="A", output_type=Answer), model=model)
    assert model.calls == 1


@row(35)
async def test_output_that_does_not_fit_may_be_mended_by_a_handler(executor: Executor) -> None:
    seen: list[Any] = []
    model = ScriptedModel("no JSON", "never")
    fallback = outlast.RunErrorHandlerResult(final_output={"text": "mended", "score": 1})
    result = await executor.execute(
        Agent(name="A", output_type=Answer),
        model=model,
        error_handlers={"invalid_final_output": _handler(fallback, seen)},
    )
    assert result.final_output == Answer(text="mended", score=1)
    assert isinstance(seen[0].error, ModelBehaviorError)
    assert model.calls == 1


@row(35)
@pytest.mark.parametrize("text", [say(""), []])
async def test_a_handler_may_answer_instead_of_an_empty_message(
    executor: Executor, text: Any
) -> None:
    seen: list[Any] = []
    model = ScriptedModel(text, "never")
    fallback = outlast.RunErrorHandlerResult(final_output={"text": "mended", "score": 1})
    result = await executor.execute(
        Agent(name="A", output_type=Answer),
        model=model,
        error_handlers={"invalid_final_output": _handler(fallback, seen)},
    )
    assert result.final_output == Answer(text="mended", score=1)
    assert isinstance(seen[0].error, ModelBehaviorError)
    assert model.calls == 1


@row(35)
async def test_an_empty_message_that_no_handler_wants_is_asked_for_again(
    executor: Executor,
) -> None:
    seen: list[Any] = []
    model = ScriptedModel(say(""), '{"text": "a", "score": 1}')
    result = await executor.execute(
        Agent(name="A", output_type=Answer),
        model=model,
        error_handlers={"invalid_final_output": _handler(None, seen)},
    )
    assert result.final_output == Answer(text="a", score=1)
    assert (len(seen), model.calls) == (1, 2)


@row(35)
async def test_an_empty_message_is_asked_for_again(executor: Executor) -> None:
    model = ScriptedModel(say(""), '{"text": "a", "score": 1}')
    result = await executor.execute(Agent(name="A", output_type=Answer), model=model)
    assert result.final_output == Answer(text="a", score=1)
    assert model.calls == 2
