"""What becomes of an answer: rules, handlers, end hooks, output guardrails, extractors."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from pydantic import BaseModel

from outlast.activities.attempt import Attempt
from outlast.activities.effects.finalize_answer import finalize_answer
from outlast.activities.errors import EffectError
from outlast.agents.agent import Agent
from outlast.agents.agent_tools.nested_result import AgentToolInvocation, AgentToolResult
from outlast.agents.config.run_config import OutputGuardrailBlockedMessageArgs, RunConfig
from outlast.agents.config.run_error import RunErrorHandlerInput, RunErrorHandlerResult
from outlast.agents.errors import (
    MaxTurnsExceeded,
    ModelBehaviorError,
    ModelRefusalError,
    OutputGuardrailTripwireTriggered,
)
from outlast.agents.guardrails.guardrail import GuardrailFunctionOutput, OutputGuardrail
from outlast.agents.guardrails.tool_guardrails import (
    ToolGuardrailFunctionOutput,
    ToolOutputGuardrail,
)
from outlast.agents.hooks import AgentHooks, RunHooks
from outlast.agents.tools.function_tool import function_tool
from outlast.agents.tools.use_behavior import FunctionToolResult, ToolsToFinalOutputResult
from outlast.extensions.machine.shell import ShellTool
from outlast.loop.changes import Change
from outlast.loop.checks import Candidate, FinalizedAnswer, GuardrailRecord, ToolOutcome
from outlast.loop.items import Item
from outlast.loop.phrases import WITHHELD as BLOCKED
from outlast.loop.values import Failure, JsonObject
from outlast.testing import say
from tests.mcp_servers import Shelf
from tests.unit.activities.desk import (
    HELLO,
    answering,
    conclusion_request,
    name_of,
    raising,
    settings_of,
    worker_of,
)


class Invoice(BaseModel):
    """An answer with a type."""

    total: int


ANSWER = Item("message", say("Hi")[0], "A", 1)
TEXT = Candidate(output="Hi", item=1)
TOTAL = Candidate(output={"total": 5}, item=1)
TURNS = Failure(code="max_turns_exceeded", message="The run made 3 model calls.")
REFUSED = Failure(code="model_refusal", message="I cannot help with that.")
MISFIT = Failure(code="invalid_final_output", message="It does not fit.")


async def concluded(
    definition: Agent[Any], candidate: Candidate, *, attempt: int = 1, **fields: Any
) -> FinalizedAnswer:
    request = conclusion_request(candidate, HELLO, ANSWER, **fields)
    return await finalize_answer(worker_of(definition), request, Attempt(number=attempt))


def checking(
    function: Callable[..., Any] | None = None, *, name: str = "g", trips: bool = False
) -> OutputGuardrail[Any]:
    def check(*_arguments: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=trips)

    return OutputGuardrail(function or check, name=name)


class Ends(AgentHooks[Any]):
    def __init__(self, heard: list[Any], error: Exception | None = None) -> None:
        self.heard = heard
        self.error = error

    async def on_end(self, context: Any, agent: Any, output: Any) -> None:
        self.heard.append(("agent", output, [one["content"] for one in context.turn_input]))
        if context.context is not None:
            context.context["ended"] = True
        if self.error is not None:
            raise self.error


class RunEnds(RunHooks[Any]):
    def __init__(self, heard: list[Any]) -> None:
        self.heard = heard

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        self.heard.append(("run", output, agent.name))


# --- Hooks and guardrails ---------------------------------------------------------------------------------


async def test_an_answer_that_nobody_minds_stays_as_it_is() -> None:
    assert await concluded(Agent(name="A"), TEXT) == FinalizedAnswer()


async def test_end_hooks_are_called_before_the_guardrails_even_if_these_trip() -> None:
    heard: list[Any] = []

    def check(_ctx: Any, _agent: Any, output: Any) -> GuardrailFunctionOutput:
        heard.append(("guardrail", output))
        return GuardrailFunctionOutput(output_info="rude", tripwire_triggered=True)

    agent = Agent[Any](name="A", hooks=Ends(heard), output_guardrails=[checking(check)])
    settings: JsonObject = {"hooks": name_of(RunEnds(heard))}
    conclusion = await concluded(agent, TEXT, settings=settings)
    assert sorted(heard[:2]) == [("agent", "Hi", ["Hello"]), ("run", "Hi", "A")]
    assert heard[2:] == [("guardrail", "Hi")]
    assert conclusion.failure == Failure(
        code="output_guardrail_tripwire",
        message="The output guardrail 'g' of agent 'A' triggered its tripwire.",
        details={"guardrail": "g"},
    )
    assert conclusion.results == (
        GuardrailRecord(
            stage="output", name="g", agent="A", info="rude", tripped=True, output="Hi"
        ),
    )


async def test_hooks_and_guardrails_see_an_answer_of_the_agents_type() -> None:
    heard: list[Any] = []

    def check(_ctx: Any, _agent: Any, output: Any) -> GuardrailFunctionOutput:
        heard.append(output)
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=output.total > 3)

    agent = Agent[Any](
        name="A", output_type=Invoice, hooks=Ends(heard), output_guardrails=[checking(check)]
    )
    conclusion = await concluded(agent, TOTAL)
    assert heard == [("agent", Invoice(total=5), ["Hello"]), Invoice(total=5)]
    assert conclusion.results[0].output == {"total": 5}
    assert conclusion.failure is not None


async def test_the_runs_guardrails_are_asked_after_the_agents() -> None:
    settings = settings_of(RunConfig(output_guardrails=[checking(name="of the run")]))
    agent = Agent[Any](name="A", output_guardrails=[checking(name="own")])
    conclusion = await concluded(agent, TEXT, settings=settings)
    assert sorted(record.name for record in conclusion.results) == ["of the run", "own"]
    assert conclusion.failure is None


async def test_the_first_tripwire_stops_the_guardrails_that_still_run() -> None:
    async def hang(*_arguments: Any) -> GuardrailFunctionOutput:
        await asyncio.Event().wait()
        raise AssertionError

    before = asyncio.all_tasks()
    agent = Agent[Any](name="A", output_guardrails=[checking(hang), checking(trips=True, name="t")])
    conclusion = await concluded(agent, TEXT)
    assert [record.name for record in conclusion.results] == ["t"]
    assert asyncio.all_tasks() <= before


async def test_a_guardrail_that_raises_is_the_runs_failure_and_nothing_is_blocked() -> None:
    agent = Agent[Any](name="A", output_guardrails=[checking(raising(ConnectionError("down")))])
    conclusion = await concluded(agent, TEXT)
    assert conclusion.failure is not None
    assert conclusion.failure.code == "user_error"
    assert conclusion.failure.details == {
        "exception": "builtins:ConnectionError",
        "text": "down",
    }
    assert (conclusion.withheld, conclusion.results) == (None, ())


async def test_a_tripwire_outranks_what_another_guardrail_raised_before_it() -> None:
    async def late(*_arguments: Any) -> GuardrailFunctionOutput:
        await asyncio.sleep(0)
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    guardrails = [checking(raising(ConnectionError("down"))), checking(late, name="no_cards")]
    conclusion = await concluded(Agent[Any](name="A", output_guardrails=guardrails), TEXT)
    assert conclusion.failure is not None
    assert conclusion.failure.code == "output_guardrail_tripwire"
    assert [record.name for record in conclusion.results if record.tripped] == ["no_cards"]
    assert conclusion.withheld == BLOCKED


@pytest.mark.parametrize(
    ("raised", "retryable"), [(ConnectionError("down"), True), (TypeError("x"), False)]
)
async def test_an_end_hook_that_raises_is_named(raised: Exception, *, retryable: bool) -> None:
    agent = Agent[Any](name="A", hooks=Ends([], raised))
    with pytest.raises(EffectError, match="on_agent_end of agent 'A' raised") as caught:
        await concluded(agent, TEXT)
    assert (caught.value.code, caught.value.retryable) == ("user_error", retryable)


async def test_what_is_changed_in_the_context_on_the_way_is_kept() -> None:
    def check(ctx: Any, _agent: Any, _output: Any) -> GuardrailFunctionOutput:
        ctx.context["checked"] = True
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    agent = Agent[Any](name="A", hooks=Ends([]), output_guardrails=[checking(check)])
    conclusion = await concluded(agent, TEXT, context={})
    assert conclusion.changes == (
        Change("set", ("ended",), True),
        Change("set", ("checked",), True),
    )


async def test_an_answer_of_another_version_of_the_type_is_tried_elsewhere() -> None:
    agent = Agent[Any](name="A", output_type=Invoice, hooks=Ends([]))
    with pytest.raises(EffectError, match="cannot be rebuilt as Invoice") as caught:
        await concluded(agent, Candidate(output={"sum": 5}))
    assert caught.value.retryable


Blocked: TypeAlias = OutputGuardrailBlockedMessageArgs[Any]


def named(args: Blocked) -> str:
    return f"{args.agent.name}: {args.guardrail_name}"


def padded(args: Blocked) -> str:
    return f"{args.run_context.context}, {args.default_message}"


def silent(args: Blocked) -> None:
    del args


@pytest.mark.parametrize(
    ("message", "stands_there"),
    [
        (None, BLOCKED),
        ("[gone]", "[gone]"),
        ("", BLOCKED),
        (named, "A: g"),
        (padded, f"None, {BLOCKED}"),
        (silent, BLOCKED),
        (id, BLOCKED),
        (raising(KeyError("k")), BLOCKED),
    ],
)
async def test_what_stands_in_place_of_a_blocked_output(message: Any, stands_there: str) -> None:
    settings = settings_of(RunConfig(output_guardrail_blocked_message=message))
    agent = Agent[Any](name="A", output_guardrails=[checking(trips=True)])
    conclusion = await concluded(agent, TEXT, settings=settings)
    assert conclusion.withheld == stands_there
    passed = await concluded(Agent(name="A"), TEXT, settings=settings)
    assert passed.withheld is None


@pytest.mark.parametrize("tool_made", [True, False])
async def test_what_guardrails_say_of_a_blocked_output_of_a_tool_has_nothing_of_it(
    *, tool_made: bool
) -> None:
    def quoting(_context: Any, _agent: Any, output: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info={"seen": output}, tripwire_triggered=True)

    agent = Agent[Any](name="A", output_guardrails=[checking(quoting)])
    (said,) = (await concluded(agent, Candidate(output="4711", tool_made=tool_made))).results
    expected = (None, BLOCKED) if tool_made else ({"seen": "4711"}, "4711")
    assert (said.info, said.output) == expected
    expert = Agent[Any](name="Expert", output_guardrails=[checking(quoting)])
    outer = Agent[Any](name="A", tools=[expert.as_tool("ask", "", failure_error_function=None)])
    told = await concluded(
        outer,
        Candidate(output="4711", tool_made=tool_made),
        agent="Expert",
        settings=answering("ask"),
    )
    assert told.failure is not None
    assert ("4711" in str(told.failure.details)) is not tool_made


# --- Rules on the outputs of tools ------------------------------------------------------------------------


@function_tool
async def look_up() -> str:
    """Look up."""
    return ""


OUTCOMES = (
    ToolOutcome(name="look_up", call_id="c1", output='{"total":5}', value={"total": 5}),
    ToolOutcome(name="look_up", call_id="c2", output="No."),
)


def bool_of(_ctx: Any, _results: Any) -> Any:
    return True


def ruled(rule: Any, **fields: Any) -> Agent[Any]:
    return Agent(name="A", tools=[look_up], tool_use_behavior=rule, **fields)


ITEMS = [("tool_call_output_item", "c1"), ("tool_call_output_item", "c2")]


async def test_a_rule_does_not_see_what_commands_returned() -> None:
    seen: list[str] = []

    def judge(_ctx: Any, results: list[FunctionToolResult]) -> ToolsToFinalOutputResult:
        seen.extend(result.tool.name for result in results)
        return ToolsToFinalOutputResult(is_final_output=False)

    shell = ToolOutcome(name="shell", call_id="c3", output={"stdout": ""})
    agent = Agent[Any](name="A", tools=[look_up, ShellTool(str)], tool_use_behavior=judge)
    await concluded(agent, Candidate(outcomes=(shell, *OUTCOMES), tool_made=True))
    assert seen == ["look_up", "look_up"]
    told = await concluded(agent, Candidate(outcomes=(shell,), tool_made=True))
    assert (told.final, len(seen)) == (False, 2)


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_rule_sees_what_the_tools_returned(*, is_async: bool) -> None:
    seen: list[Any] = []

    def judge(ctx: Any, results: list[FunctionToolResult]) -> ToolsToFinalOutputResult:
        items: list[Any] = [result.run_item for result in results]
        seen.extend((one.tool.name, one.output) for one in results)
        seen.append([(item.type, item.raw_item["call_id"]) for item in items])
        ctx.context["judged"] = True
        return ToolsToFinalOutputResult(is_final_output=True, final_output=results[0].output)

    async def judge_later(ctx: Any, results: Any) -> ToolsToFinalOutputResult:
        return judge(ctx, results)

    agent = ruled(judge_later if is_async else judge, output_type=Invoice)
    conclusion = await concluded(agent, Candidate(outcomes=OUTCOMES, tool_made=True), context={})
    assert seen == [("look_up", {"total": 5}), ("look_up", "No."), ITEMS]
    assert (conclusion.output, conclusion.replaced) == ({"total": 5}, True)
    assert conclusion.changes == (Change("set", ("judged",), True),)


async def test_an_agent_that_answers_with_text_answers_with_text() -> None:
    rule = returning(ToolsToFinalOutputResult(is_final_output=True, final_output={"total": 5}))
    conclusion = await concluded(ruled(rule), Candidate(outcomes=OUTCOMES))
    assert conclusion.output == "{'total': 5}"


async def test_a_typed_agents_tool_output_is_not_validated_and_guardrails_see_it_as_it_is() -> None:
    seen: list[Any] = []

    def check(_ctx: Any, _agent: Any, output: Any) -> GuardrailFunctionOutput:
        seen.append(output)
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)

    agent = Agent[Any](name="A", output_type=Invoice, output_guardrails=[checking(check)])
    await concluded(agent, Candidate(output="no invoice", tool_made=True))
    assert seen == ["no invoice"]


async def test_a_rule_may_let_the_model_go_on() -> None:
    hooks = Ends(heard := [])
    rule = returning(ToolsToFinalOutputResult(is_final_output=False))
    conclusion = await concluded(ruled(rule, hooks=hooks), Candidate(outcomes=OUTCOMES))
    assert conclusion == FinalizedAnswer(final=False)
    assert heard == []


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (raising(ConnectionError("down")), "tool_use_behavior of agent 'A' raised ConnectionError"),
        (bool_of, "tool_use_behavior returned bool"),
    ],
)
async def test_a_rule_that_fails_is_named(rule: Any, problem: str) -> None:
    with pytest.raises(EffectError, match=problem):
        await concluded(ruled(rule), Candidate(outcomes=OUTCOMES))


async def test_a_tool_that_has_gone_may_be_known_elsewhere() -> None:
    rule = returning(ToolsToFinalOutputResult(is_final_output=False))
    gone = Candidate(outcomes=(ToolOutcome(name="gone", call_id="c1"),))
    with pytest.raises(EffectError, match="'A' has no tool 'gone'") as caught:
        await concluded(ruled(rule), gone)
    assert caught.value.retryable


async def test_a_rule_judges_tools_of_mcp_servers_that_this_worker_has_not_listed() -> None:
    rule = returning(ToolsToFinalOutputResult(is_final_output=True, final_output="Dune"))
    agent = ruled(rule, mcp_servers=[Shelf()])
    found = Candidate(outcomes=(ToolOutcome(name="find", call_id="c1", output="x"),))
    assert (await concluded(agent, found)).output == "Dune"
    lost = Candidate(outcomes=(ToolOutcome(name="tear", call_id="c1", output="x"),))
    with pytest.raises(EffectError, match="'A' has no tool 'tear'") as caught:
        await concluded(agent, lost)
    assert caught.value.retryable


def returning(result: Any) -> Any:
    def give(*_arguments: Any) -> Any:
        return result

    return give


# --- Error handlers ---------------------------------------------------------------------------------------


def handled_by(key: str, handler: Any) -> JsonObject:
    return {"error_handlers": {key: name_of(handler)}}


@pytest.mark.parametrize(
    ("failure", "key", "kind"),
    [
        (TURNS, "max_turns", MaxTurnsExceeded),
        (REFUSED, "model_refusal", ModelRefusalError),
        (MISFIT, "invalid_final_output", ModelBehaviorError),
    ],
)
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_handler_makes_an_answer_of_a_failure(
    failure: Failure, key: str, kind: type, *, is_async: bool
) -> None:
    seen: list[RunErrorHandlerInput[Any]] = []

    def handle(given: RunErrorHandlerInput[Any]) -> str:
        seen.append(given)
        given.context.context["handled"] = True
        return "Please call us."

    async def handle_later(given: RunErrorHandlerInput[Any]) -> str:
        return handle(given)

    heard: list[Any] = []
    agent = Agent[Any](name="A", hooks=Ends(heard), output_guardrails=[checking()])
    settings = handled_by(key, handle_later if is_async else handle)
    conclusion = await concluded(agent, Candidate(failure=failure), settings=settings, context={})
    (given,) = seen
    assert type(given.error) is kind
    assert str(given.error) == failure.message
    assert (given.run_data.input, given.run_data.last_agent) == ("Hello", agent)
    assert given.run_data.history == [HELLO.raw, ANSWER.raw]
    assert given.run_data.output == [ANSWER.raw]
    assert [item.type for item in given.run_data.new_items] == ["message_output_item"]
    assert (conclusion.output, conclusion.replaced) == ("Please call us.", True)
    assert conclusion.message == say("Please call us.")[0]
    assert heard == [("agent", "Please call us.", ["Hello"])], "the end hooks hear of it"
    assert [record.output for record in conclusion.results] == ["Please call us."]
    assert {change.path[0] for change in conclusion.changes} == {"handled", "ended"}


async def test_a_handler_knows_what_the_model_said_when_it_refused() -> None:
    refusals: list[str] = []

    def handle(given: Any) -> None:
        refusals.append(given.error.refusal)

    await concluded(
        Agent(name="A"),
        Candidate(failure=REFUSED),
        settings=handled_by("model_refusal", handle),
    )
    assert refusals == ["I cannot help with that."]


@pytest.mark.parametrize(
    ("returned", "output"),
    [
        (RunErrorHandlerResult(Invoice(total=5)), {"total": 5}),
        ({"final_output": {"total": 5}}, {"total": 5}),
        ({"total": 5}, {"total": 5}),
        (Invoice(total=5), {"total": 5}),
    ],
)
async def test_an_answer_of_a_handler_is_of_the_agents_type(returned: Any, output: Any) -> None:
    heard: list[Any] = []
    conclusion = await concluded(
        Agent(name="A", output_type=Invoice, hooks=Ends(heard)),
        Candidate(failure=TURNS),
        settings=handled_by("max_turns", returning(returned)),
    )
    assert conclusion.output == output
    assert conclusion.message == say('{"total":5}')[0]
    assert heard[0][1] == Invoice(total=5)


async def test_an_answer_of_a_handler_reads_as_if_the_model_had_given_it() -> None:
    conclusion = await concluded(
        Agent(name="A", output_type=list[str]),
        Candidate(failure=TURNS),
        settings=handled_by("max_turns", returning(["ä", "b"])),
    )
    assert (conclusion.output, conclusion.message) == (["ä", "b"], say('{"response":["ä","b"]}')[0])


@pytest.mark.parametrize("returned", ["no invoice", {"total": "x"}, {"final_output": 1, "x": 2}])
async def test_an_answer_of_a_handler_that_does_not_fit_is_told(returned: Any) -> None:
    with pytest.raises(
        EffectError, match="handler for max_turns returned no valid answer"
    ) as caught:
        await concluded(
            Agent(name="A", output_type=Invoice),
            Candidate(failure=TURNS),
            settings=handled_by("max_turns", returning(returned)),
        )
    assert (caught.value.code, caught.value.retryable) == ("user_error", False)


async def test_a_handler_may_leave_its_answer_out_of_the_transcript() -> None:
    result = RunErrorHandlerResult("Please call us.", include_in_history=False)
    conclusion = await concluded(
        Agent(name="A"),
        Candidate(failure=TURNS),
        settings=handled_by("max_turns", returning(result)),
    )
    assert (conclusion.output, conclusion.message) == ("Please call us.", None)


async def test_a_blocked_answer_of_a_handler_does_not_get_into_the_transcript() -> None:
    conclusion = await concluded(
        Agent(name="A", output_guardrails=[checking(trips=True)]),
        Candidate(failure=TURNS),
        settings=handled_by("max_turns", returning("Rude.")),
    )
    assert conclusion.failure is not None
    assert conclusion.message is None


@pytest.mark.parametrize(
    ("failure", "settings"),
    [
        (TURNS, handled_by("max_turns", returning(None))),
        (TURNS, handled_by("model_refusal", returning("never asked"))),
        (Failure(code="user_error", message="x"), handled_by("max_turns", returning("x"))),
        (TURNS, {"error_handlers": "typed by hand"}),
    ],
)
async def test_a_failure_that_nobody_wants_stands(failure: Failure, settings: JsonObject) -> None:
    heard: list[Any] = []
    agent = Agent[Any](name="A", hooks=Ends(heard))
    conclusion = await concluded(agent, Candidate(failure=failure), settings=settings)
    assert conclusion == FinalizedAnswer(final=False, declined=True)
    assert heard == []


async def test_a_handler_that_raises_is_named() -> None:
    settings = handled_by("max_turns", raising(ConnectionError("down")))
    with pytest.raises(EffectError, match="The error handler for max_turns raised Connection"):
        await concluded(Agent(name="A"), Candidate(failure=TURNS), settings=settings)


async def test_an_agent_of_the_transcript_that_has_gone_may_be_known_elsewhere() -> None:
    said = Item("message", say("Hi")[0], "Gone", 1)
    settings = handled_by("max_turns", returning("never asked"))
    request = conclusion_request(Candidate(failure=TURNS), HELLO, said, settings=settings)
    with pytest.raises(EffectError, match="has no agent 'Gone'") as caught:
        await finalize_answer(worker_of(Agent(name="A")), request)
    assert caught.value.retryable


# --- Runs that answer a call ------------------------------------------------------------------------------


def expert(**fields: Any) -> Agent[Any]:
    return Agent(name="Expert", **fields)


async def nested(
    inner: Agent[Any], candidate: Candidate, *, hooks: Any = None, **options: Any
) -> FinalizedAnswer:
    """FinalizeAnswer the run of an agent that the agent A uses as a tool."""
    fields = {name: options.pop(name) for name in ("context", "attempt") if name in options}
    outer = Agent[Any](name="A", tools=[inner.as_tool("ask", "Ask.", **options)], hooks=hooks)
    settings = answering("ask")
    return await concluded(outer, candidate, agent="Expert", settings=settings, **fields)


async def test_an_extractor_makes_the_calls_result_of_the_nested_run() -> None:
    seen: list[AgentToolResult] = []

    def extract(result: AgentToolResult) -> str:
        seen.append(result)
        return f"Total: {result.final_output.total}"

    conclusion = await nested(
        expert(output_type=Invoice), TOTAL, custom_output_extractor=extract, context={"n": 1}
    )
    (result,) = seen
    assert (conclusion.output, conclusion.replaced) == ("Total: 5", True)
    assert (result.input, result.last_agent.name) == ("Hello", "Expert")
    assert [item.type for item in result.new_items] == ["message_output_item"]
    assert result.context_wrapper.context == {"n": 1}
    assert result.agent_tool_invocation == AgentToolInvocation("ask", "c1", '{"input": "Hi"}')


async def test_the_nested_agents_hooks_and_guardrails_see_its_answer_and_not_the_extract() -> None:
    heard: list[Any] = []

    def check(_ctx: Any, _agent: Any, output: Any) -> GuardrailFunctionOutput:
        heard.append(output)
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)

    inner = expert(output_type=Invoice, hooks=Ends(heard), output_guardrails=[checking(check)])
    conclusion = await nested(inner, TOTAL, custom_output_extractor=returning("short"))
    assert heard == [("agent", Invoice(total=5), ["Hello"]), Invoice(total=5)]
    assert conclusion.output == "short"


async def test_what_a_rule_decided_is_extracted_too() -> None:
    rule = returning(ToolsToFinalOutputResult(is_final_output=True, final_output="ruled"))
    inner = expert(tools=[look_up], tool_use_behavior=rule)

    def extract(result: AgentToolResult) -> str:
        return result.final_output.upper()

    conclusion = await nested(inner, Candidate(outcomes=OUTCOMES), custom_output_extractor=extract)
    assert conclusion.output == "RULED"


@pytest.mark.parametrize("told", [True, False])
async def test_a_blocked_answer_is_not_extracted_but_told_as_any_failure(*, told: bool) -> None:
    inner = expert(output_guardrails=[checking(trips=True)])
    options: dict[str, Any] = {"custom_output_extractor": raising(AssertionError())}
    if not told:
        options["failure_error_function"] = None
    conclusion = await nested(inner, TEXT, **options)
    assert [one.tripped for one in conclusion.results] == [True]
    assert (conclusion.failure is None, conclusion.replaced) == (told, told)


async def test_an_extractor_that_fails_is_tried_again_and_then_told_in_the_tools_words() -> None:
    def explain(_ctx: Any, error: Exception) -> str:
        return f"{type(error).__name__}: {error}"

    extract = raising(ConnectionError("down"))
    options: dict[str, Any] = {
        "custom_output_extractor": extract,
        "failure_error_function": explain,
    }
    with pytest.raises(EffectError, match="custom_output_extractor of the tool 'ask' raised Con"):
        await nested(expert(), TEXT, **options)
    last = await nested(expert(), TEXT, attempt=3, **options)
    assert (last.output, last.replaced) == ("ConnectionError: down", True)
    mistaken = await nested(expert(), TEXT, **options | {"custom_output_extractor": int})
    assert str(mistaken.output).startswith("TypeError: int() argument")
    with pytest.raises(EffectError, match="custom_output_extractor of the tool 'ask' raised Con"):
        await nested(expert(), TEXT, attempt=3, **options | {"failure_error_function": None})


@pytest.mark.parametrize(
    "failure", [TURNS, REFUSED, Failure(code="model_call_failed", message="x")]
)
async def test_a_nested_runs_failure_is_told_in_the_tools_words(failure: Failure) -> None:
    heard: list[Any] = []

    def explain(ctx: Any, error: Exception) -> str:
        ctx.context["told"] = True
        return f"The expert failed: {error}"

    inner = expert(hooks=Ends(heard), output_guardrails=[checking(raising(AssertionError()))])
    candidate = Candidate(failure=failure)
    conclusion = await nested(inner, candidate, failure_error_function=explain, context={})
    assert conclusion == FinalizedAnswer(
        output=f"The expert failed: {failure.message}",
        replaced=True,
        changes=(Change("set", ("told",), True),),
    )
    assert heard == [], "the agent has given no answer"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("max_turns_exceeded", "MaxTurnsExceeded"),
        ("invalid_final_output", "ModelBehaviorError"),
        ("input_guardrail_tripwire", "InputGuardrailTripwireTriggered"),
        ("model_call_failed", "ModelCallFailed"),
        ("user_error", "UserError"),
        ("internal_error", "AgentsException"),
    ],
)
async def test_a_tool_is_given_the_error_that_the_nested_run_would_raise(
    code: str, kind: str
) -> None:
    def explain(_ctx: Any, error: Exception) -> str:
        return f"{type(error).__name__}: {error}"

    candidate = Candidate(failure=Failure(code=code, message="x"))
    conclusion = await nested(expert(), candidate, failure_error_function=explain)
    assert conclusion.output == f"{kind}: x"


async def test_a_tool_is_told_what_the_guardrail_found_that_ended_the_nested_run() -> None:
    def explain(_ctx: Any, error: OutputGuardrailTripwireTriggered) -> str:
        return error.guardrail_result.guardrail.get_name()

    inner = expert(output_guardrails=[checking(trips=True)])
    conclusion = await nested(inner, TEXT, failure_error_function=explain)
    assert conclusion.output == conclusion.results[0].name


async def test_a_nested_runs_failure_stands_where_the_outer_model_may_not_know() -> None:
    conclusion = await nested(expert(), Candidate(failure=TURNS), failure_error_function=None)
    assert conclusion == FinalizedAnswer(final=False, declined=True)


async def test_words_for_a_nested_runs_failure_that_fail_are_named() -> None:
    explain = raising(KeyError("k"))
    with pytest.raises(EffectError, match="failure_error_function of the tool 'ask' raised"):
        await nested(expert(), Candidate(failure=TURNS), failure_error_function=explain)


@pytest.mark.parametrize(
    ("candidate", "result"),
    [(TEXT, "Hi"), (Candidate(output={"total": 5}, tool_made=True), '{"total": 5}')],
)
async def test_the_outer_agents_hooks_hear_of_the_result(candidate: Candidate, result: str) -> None:
    heard: list[Any] = []

    class Hooks(AgentHooks[Any]):
        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            heard.append((agent.name, tool.name, context.tool_call_id, result))
            context.context["end"] = True

    conclusion = await nested(expert(), candidate, hooks=Hooks(), context={})
    assert heard == [("A", "ask", "c1", result)]
    assert conclusion.changes == (Change("set", ("end",), True),)


@pytest.mark.parametrize("answer", [None, ""])
async def test_the_result_of_a_silent_agent_is_what_it_said_last(answer: str | None) -> None:
    heard: list[Any] = []

    class Hooks(AgentHooks[Any]):
        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            heard.append(result)

    outer = Agent[Any](name="A", tools=[expert().as_tool("ask", "Ask.")], hooks=Hooks())
    items = (HELLO, Item("message", say("Last words")[0], "Expert", 1))
    request = conclusion_request(
        Candidate(output=answer), *items, agent="Expert", settings=answering("ask")
    )
    await finalize_answer(worker_of(outer), request)
    assert heard == ["Last words"]


@pytest.mark.parametrize("replaced", [False, True])
async def test_an_outer_guardrail_may_replace_the_result(*, replaced: bool) -> None:
    def check(_data: Any) -> ToolGuardrailFunctionOutput:
        if replaced:
            return ToolGuardrailFunctionOutput.reject_content("Not this.")
        return ToolGuardrailFunctionOutput.allow()

    tool = expert().as_tool("ask", "Ask.")
    tool.tool_output_guardrails = [ToolOutputGuardrail[Any](check)]
    outer = Agent[Any](name="A", tools=[tool])
    told = await concluded(outer, TEXT, agent="Expert", settings=answering("ask"))
    assert (told.output, told.replaced) == (("Not this.", True) if replaced else (None, False))


async def test_an_outer_hook_that_fails_is_named() -> None:
    class Hooks(AgentHooks[Any]):
        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            raise ConnectionError("down")

    with pytest.raises(EffectError, match="on_tool_end of agent 'A' raised ConnectionError"):
        await nested(expert(), TEXT, hooks=Hooks())


async def test_the_outer_hooks_hear_of_a_failure_in_the_tools_words() -> None:
    heard: list[str] = []

    class Hooks(AgentHooks[Any]):
        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            heard.append(result)

    await nested(expert(), Candidate(failure=TURNS), hooks=Hooks())
    assert heard == ["The tool ask failed and returned no result. It may have had an effect."]


async def test_a_context_that_was_left_unwritable_is_an_error_in_words() -> None:
    def check(ctx: Any, _agent: Any, _output: Any) -> GuardrailFunctionOutput:
        ctx.context["x"] = "\ud800"
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)

    agent = Agent[Any](name="A", output_guardrails=[checking(check)])
    with pytest.raises(EffectError, match="cannot be written as JSON") as caught:
        await concluded(agent, TEXT, context={})
    assert (caught.value.code, caught.value.retryable) == ("user_error", False)


FOUND = Item(
    "tool_output", {"type": "function_call_output", "call_id": "c1", "output": "x"}, "Expert", 1
)


@pytest.mark.parametrize(
    ("candidate", "final", "told"),
    [
        (Candidate(output="x", tool_made=True), True, ["tool_output"]),
        (Candidate(outcomes=OUTCOMES, tool_made=True), True, ["tool_output"]),
        (Candidate(outcomes=OUTCOMES, tool_made=True), False, []),
        (Candidate(failure=TURNS), True, ["tool_output"]),
        (Candidate(failure=Failure(code="model_call_failed", message="x")), True, []),
        (TEXT, True, []),
    ],
)
async def test_an_on_stream_is_told_the_outputs_that_no_model_is_shown(
    candidate: Candidate, *, final: bool, told: list[str]
) -> None:
    heard: list[Any] = []
    rule = returning(ToolsToFinalOutputResult(is_final_output=final, final_output="ruled"))
    inner = expert(tools=[look_up], tool_use_behavior=rule)
    outer = Agent[Any](name="A", tools=[inner.as_tool("ask", "Ask.", on_stream=heard.append)])
    fields: dict[str, Any] = {"agent": "Expert", "settings": answering("ask")}
    request = conclusion_request(candidate, HELLO, ANSWER, FOUND, **fields)
    conclusion = await finalize_answer(worker_of(outer), request)
    assert conclusion.final is final
    assert [one["event"].name for one in heard] == told


@pytest.mark.parametrize(
    ("candidate", "items", "told"),
    [
        (Candidate(output="x", tool_made=True), (HELLO, ANSWER, FOUND), "tool_output"),
        (TEXT, (HELLO, ANSWER), "message_output_created"),
    ],
)
@pytest.mark.parametrize("trips", [False, True])
async def test_an_on_stream_is_told_an_answer_when_guardrails_have_passed_it(
    candidate: Candidate, items: tuple[Item, ...], told: str, *, trips: bool
) -> None:
    heard: list[Any] = []

    def check(_ctx: Any, _agent: Any, _output: Any) -> GuardrailFunctionOutput:
        assert heard == []
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=trips)

    inner = expert(output_guardrails=[checking(check)])
    outer = Agent[Any](name="A", tools=[inner.as_tool("ask", "Ask.", on_stream=heard.append)])
    request = conclusion_request(candidate, *items, agent="Expert", settings=answering("ask"))
    await finalize_answer(worker_of(outer), request)
    assert [one["event"].name for one in heard] == ([] if trips else [told])
