"""Input guardrails: which are asked, and what the first tripwire ends."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from outlast.activities.effects.check_input import check_input
from outlast.activities.errors import EffectError
from outlast.activities.invocation import Invocation
from outlast.agents.agent import Agent
from outlast.agents.config.run_config import RunConfig
from outlast.agents.config.settings import AS_ITEMS
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.guardrails.guardrail import (
    GuardrailFunctionOutput,
    InputGuardrail,
    OutputGuardrail,
)
from outlast.loop.changes import Change
from outlast.loop.checks import CheckResult, GuardrailRecord
from outlast.loop.items import Item, message_of_person
from tests.unit.activities.desk import HELLO, Notes, check_request, raising, settings_of, worker_of


def guardrail(
    name: str, function: Callable[..., Any] | None = None, *, trips: bool = False, **options: Any
) -> InputGuardrail[Any]:
    def check(*_arguments: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=trips)

    return InputGuardrail(function or check, name=name, **options)


def waiting_for(event: asyncio.Event, *, trips: bool = False) -> Callable[..., Any]:
    async def check(*_arguments: Any) -> GuardrailFunctionOutput:
        await event.wait()
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=trips)

    return check


async def checked(*guardrails: InputGuardrail[Any], **request: Any) -> CheckResult:
    worker = worker_of(Agent(name="A", input_guardrails=list(guardrails)))
    return await check_input(worker, check_request(**{"stage": "parallel", **request}))


def names(result: CheckResult) -> list[str]:
    return [record.name for record in result.results]


async def test_a_guardrail_sees_the_context_the_agent_and_the_input() -> None:
    seen: list[Any] = []

    def check(ctx: RunContextWrapper[Any], agent: Any, given: Any) -> GuardrailFunctionOutput:
        seen.append((ctx.context, ctx.run_id, agent.name, given))
        return GuardrailFunctionOutput(output_info={"score": 1}, tripwire_triggered=False)

    result = await checked(guardrail("polite", check), context={"n": 1})
    assert seen == [({"n": 1}, "support-42", "A", "Hello")]
    assert result == CheckResult(
        results=(GuardrailRecord(stage="input", name="polite", agent="A", info={"score": 1}),)
    )


@pytest.mark.parametrize(
    ("stage", "asked"),
    [
        ("blocking", ["first"]),
        ("parallel", ["beside", "of the run"]),
        ("added", ["beside", "first", "of the run"]),
    ],
)
async def test_a_stage_asks_its_own(stage: str, asked: list[str]) -> None:
    settings = settings_of(RunConfig(input_guardrails=[guardrail("of the run")]))
    result = await checked(
        guardrail("beside"),
        guardrail("first", run_in_parallel=False),
        stage=stage,
        settings=settings,
    )
    assert sorted(names(result)) == asked


async def test_verdicts_are_recorded_in_the_order_in_which_they_come() -> None:
    go_on = asyncio.Event()

    async def quick(*_arguments: Any) -> GuardrailFunctionOutput:
        asyncio.get_running_loop().call_soon(go_on.set)
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)

    result = await checked(guardrail("slow", waiting_for(go_on)), guardrail("quick", quick))
    assert names(result) == ["quick", "slow"]
    assert result.failure is None


async def test_the_first_tripwire_wins_and_stops_those_still_running() -> None:
    stopped: list[str] = []

    async def hang(*_arguments: Any) -> GuardrailFunctionOutput:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append("hang")
            raise
        raise AssertionError

    async def trip(*_arguments: Any) -> GuardrailFunctionOutput:
        await asyncio.sleep(0)
        return GuardrailFunctionOutput(output_info={"why": "rude"}, tripwire_triggered=True)

    result = await checked(guardrail("hang", hang), guardrail("rude", trip))
    assert names(result) == ["rude"]
    assert result.failure is not None
    assert (result.failure.code, result.failure.details) == (
        "input_guardrail_tripwire",
        {"guardrail": "rude"},
    )
    assert (
        result.failure.message == "The input guardrail 'rude' of agent 'A' triggered its tripwire."
    )
    assert (result.results[0].tripped, result.results[0].info) == (True, {"why": "rude"})
    assert stopped == ["hang"]


@pytest.mark.parametrize(
    ("raised", "retryable"), [(ConnectionError("down"), True), (TypeError("x"), False)]
)
async def test_a_guardrail_that_raises_is_the_effects_failure_and_stops_the_others(
    raised: Exception, *, retryable: bool
) -> None:
    never = asyncio.Event()
    before = asyncio.all_tasks()
    with pytest.raises(EffectError, match="An input guardrail of agent 'A' raised") as caught:
        await checked(guardrail("hang", waiting_for(never)), guardrail("bad", raising(raised)))
    assert (caught.value.code, caught.value.retryable) == ("user_error", retryable)
    assert asyncio.all_tasks() <= before


async def test_a_guardrail_that_returns_something_else_is_told_what_to_return() -> None:
    with pytest.raises(EffectError, match=r"return GuardrailFunctionOutput\(") as caught:
        await checked(guardrail("bad", lambda *_arguments: True))
    assert not caught.value.retryable


async def test_what_guardrails_change_in_the_context_is_kept_also_by_a_tripwire() -> None:
    def note(ctx: RunContextWrapper[Notes], *_rest: Any) -> GuardrailFunctionOutput:
        ctx.context.seen.append("checked")
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    worker = worker_of(Agent(name="A", input_guardrails=[guardrail("g", note)]))
    worker.registry.add_context_type(Notes)
    request = check_request(stage="parallel", context={"seen": ["a"]})
    result = await check_input(worker, request)
    assert result.changes == (Change("append", ("seen",), ["checked"]),)


async def test_a_context_that_was_left_unwritable_is_an_error_in_words() -> None:
    def spoil(ctx: RunContextWrapper[Any], *_rest: Any) -> GuardrailFunctionOutput:
        ctx.context["x"] = "\ud800"
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)

    with pytest.raises(EffectError, match="cannot be written as JSON") as caught:
        await checked(guardrail("g", spoil), context={})
    assert (caught.value.code, caught.value.retryable) == ("user_error", False)


def test_one_plain_user_message_is_given_as_text_and_all_else_as_items() -> None:
    image = Item("input", {"role": "user", "content": [{"type": "input_image"}]})
    system = Item("input", {"role": "system", "content": "Hello"})
    invocation = Invocation.of(worker_of(Agent(name="A")), check_request().effect)
    assert invocation.as_input([HELLO]) == "Hello"
    assert invocation.as_input([HELLO, HELLO]) == [HELLO.raw, HELLO.raw]
    assert invocation.as_input([image]) == [image.raw]
    assert invocation.as_input([system]) == [system.raw]


@pytest.mark.parametrize("settings", [{AS_ITEMS: True}, {"session": {"ref": "s"}}])
async def test_a_guardrail_gets_items_where_the_program_gave_items(
    settings: dict[str, Any],
) -> None:
    seen: list[Any] = []

    def check(_ctx: Any, _agent: Any, given: Any) -> GuardrailFunctionOutput:
        seen.append(given)
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)

    await checked(guardrail("g", check), settings=settings)
    assert seen == [[HELLO.raw]]


async def test_what_a_guardrail_changes_in_the_items_does_not_reach_the_run() -> None:
    def check(_ctx: Any, _agent: Any, given: Any) -> GuardrailFunctionOutput:
        given[0]["content"] = "[redacted]"
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)

    hello, again = ({"role": "user", "content": text} for text in ("Hello", "Hello?"))
    await checked(guardrail("g", check), items=(Item("input", hello), Item("input", again)))
    assert hello["content"] == "Hello"


async def test_output_guardrails_that_judge_people_get_their_words() -> None:
    seen: list[Any] = []

    def check(_ctx: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
        seen.append((agent.name, output))
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered="fool" in output)

    judge = OutputGuardrail(check, name="polite", judges_people=True)
    other = OutputGuardrail(check, name="other")
    worker = worker_of(Agent(name="A", output_type=int, output_guardrails=[judge, other]))
    words = Item("message", message_of_person("You fool."), "ann")
    result = await check_input(worker, check_request(stage="said", items=(words,)))
    assert seen == [("A", "You fool.")]
    assert [(one.stage, one.name, one.tripped) for one in result.results] == [
        ("output", "polite", True)
    ]
    assert result.failure is not None
    assert "'polite'" in result.failure.message


async def test_an_output_guardrail_that_breaks_passes_no_words() -> None:
    judge = OutputGuardrail(raising(ValueError("broken")), name="polite", judges_people=True)
    worker = worker_of(Agent(name="A", output_guardrails=[judge]))
    words = Item("message", message_of_person("Hello."), "ann")
    with pytest.raises(EffectError, match="output guardrail"):
        await check_input(worker, check_request(stage="said", items=(words,)))


def test_judges_people_is_a_flag() -> None:
    wrong: Any = "yes"
    with pytest.raises(UserError, match="judges_people"):
        OutputGuardrail(guardrail("polite").guardrail_function, judges_people=wrong)
