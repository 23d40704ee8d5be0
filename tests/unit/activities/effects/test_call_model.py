"""What an agent's model is asked, and what comes back."""

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from typing import Any, cast

import pytest
from pydantic import BaseModel

from outlast.activities.attempt import Attempt
from outlast.activities.effects import call_model as model_activity
from outlast.activities.effects.call_model import call_model
from outlast.activities.errors import EffectError
from outlast.activities.invocation import annotated_type
from outlast.activities.planning.offered_tools import OfferedTools
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.config.run_config import (
    CallModelData,
    CallModelOutputData,
    ModelInputData,
    ModelOutputData,
    RunConfig,
)
from outlast.agents.context.wrapper import RunContextWrapper, ToolContext
from outlast.agents.guardrails.guardrail import (
    GuardrailFunctionOutput,
    InputGuardrail,
    OutputGuardrail,
)
from outlast.agents.handoffs.handoff import Handoff, handoff
from outlast.agents.hooks import AgentHooks, RunHooks
from outlast.agents.prompt import GenerateDynamicPromptData
from outlast.agents.registry import Registry
from outlast.agents.schemas.agent_output import AgentOutputSchema
from outlast.agents.tools.custom import CustomTool
from outlast.agents.tools.function_tool import function_tool
from outlast.agents.tools.hosted import WebSearchTool
from outlast.agents.tools.use_behavior import ToolExecutionConfig
from outlast.agents.usage import Usage as PublicUsage
from outlast.contract.streams.delta_reader import UNJUDGED
from outlast.extensions.machine.shell import ShellTool
from outlast.loop.call_forms import output_item
from outlast.loop.calls import ModelReply
from outlast.loop.changes import Change
from outlast.loop.checks import RequiredStep
from outlast.loop.items import Item, ItemKind, text_of
from outlast.loop.values import JsonObject, Usage
from outlast.ports.model import Model, ModelError, ModelProvider, ModelRequest, ModelResponse
from outlast.ports.model_arguments import ModelTracing
from outlast.testing import ScriptedModel, SpanCollector, call, custom_call, say, shell_call
from outlast.testing.scripted_model import TOKENS, fail_after
from outlast.tracing.effect_spans import around_effect, scope_of
from outlast.tracing.provider import custom_span
from tests.unit.activities.desk import (
    Notes,
    answering,
    invocation_of,
    model_request,
    name_of,
    raising,
    settings_of,
    worker_of,
)


@function_tool
async def look_up(order_id: str) -> str:
    """Look an order up."""
    return order_id


@function_tool(strict_mode=False)
async def note(ctx: ToolContext[Notes], text: str) -> str:
    """Note something."""
    ctx.context.seen.append(text)
    return "ok"


async def asked(agent: Agent[Any], **request: Any) -> tuple[ModelRequest, ModelReply]:
    """Return what an agent's model was asked, and the reply."""
    model = ScriptedModel("Hello")
    reply = await call_model(worker_of(agent, model=model), model_request(**request))
    (one,) = model.requests
    return one, reply


# --- What is asked ----------------------------------------------------------------------------------------


async def test_a_plain_agent_asks_with_its_instructions_and_the_conversation() -> None:
    items = (
        Item("input", {"role": "user", "content": "Hello"}),
        Item("tool_call", call("look_up", "c1", order_id="x"), "A", 1),
        Item("tool_output", output_item("c1", "found"), "A", 1),
    )
    model = ScriptedModel("Hello")
    worker = worker_of(Agent(name="A", instructions="Be kind."), model=model)
    reply = await call_model(worker, model_request("A", *items))
    (request,) = model.requests
    assert request.instructions == "Be kind."
    assert list(request.input) == [item.raw for item in items]
    assert (request.tools, request.settings) == ([], ModelSettings())
    assert reply == ModelReply(
        items=tuple(say("Hello")),
        usage=Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15),
        response_id="resp_1",
        instructions=sha256(b"Be kind.").hexdigest()[:12],
    )


async def test_tools_and_handoffs_are_offered_as_functions() -> None:
    entry = handoff(Agent(name="B", handoff_description="Pays."))
    request, _ = await asked(Agent(name="A", tools=[look_up, note], handoffs=[entry]))
    assert [(tool.name, tool.description, tool.strict) for tool in request.tools] == [
        ("look_up", "Look an order up.", True),
        ("note", "Note something.", False),
        ("transfer_to_b", "Hand the conversation over to the agent B. Pays.", True),
    ]
    assert request.tools[0].parameters == look_up.params_json_schema
    assert request.tools[2].parameters["properties"] == {}


@pytest.mark.parametrize("wanted", [True, None])
async def test_the_providers_own_words_on_usage_are_recorded_where_that_is_asked_for(
    *, wanted: bool | None
) -> None:
    class Counting:
        async def get_response(self, _request: ModelRequest) -> ModelResponse:
            return ModelResponse(
                output=say("Hi"),
                usage=PublicUsage(requests=1, total_tokens=3),
                raw_usage={"cost_in_cents": 2},
            )

    agent = Agent[Any](
        name="A", model=Counting(), model_settings=ModelSettings(preserve_raw_usage=wanted)
    )
    reply = await call_model(worker_of(agent), model_request("A"))
    assert reply.raw_usage == ({"cost_in_cents": 2} if wanted else None)
    assert reply.usage == Usage(requests=1, total_tokens=3)


@pytest.mark.parametrize("is_async", [True, False])
async def test_instructions_may_be_made_for_every_call(*, is_async: bool) -> None:
    def make(ctx: RunContextWrapper[Notes], agent: Agent[Any]) -> str:
        return f"{agent.name} {ctx.context.seen} {ctx.run_id} {ctx.turn} {ctx.usage.requests}"

    async def make_later(ctx: RunContextWrapper[Notes], agent: Agent[Any]) -> str:
        return make(ctx, agent)

    agent = Agent[Any](name="A", instructions=make_later if is_async else make)
    request, reply = await asked(agent, context={"seen": ["x"]}, usage=Usage(requests=4), turn=3)
    assert request.instructions == "A ['x'] support-42 3 4"
    assert reply.changes == ()


async def test_what_instructions_change_in_the_context_is_kept() -> None:
    def make(ctx: RunContextWrapper[Notes], _agent: Agent[Any]) -> str:
        ctx.context.seen.append("b")
        return ""

    _, reply = await asked(Agent(name="A", instructions=make), context={"seen": ["a"]})
    assert reply.changes == (Change("append", ("seen",), ["b"]),)


async def test_a_context_left_unwritable_after_the_paid_call_is_part_of_the_reply() -> None:
    def spoil(ctx: RunContextWrapper[Any], _agent: Agent[Any]) -> str:
        ctx.context["x"] = "\ud800"
        return ""

    _, reply = await asked(Agent(name="A", instructions=spoil), context={})
    assert reply.failure is not None
    assert reply.failure.code == "user_error"
    assert "cannot be written as JSON" in reply.failure.message
    assert reply.items == tuple(say("Hello"))


async def test_only_what_is_enabled_is_offered() -> None:
    async def never(_ctx: object, _agent: object) -> bool:
        return False

    def for_us(ctx: RunContextWrapper[Any], agent: Agent[Any]) -> bool:
        return agent.name == "A" and ctx.context["ours"]

    @function_tool(is_enabled=False)
    async def off() -> str:
        """Off."""
        return ""

    @function_tool(is_enabled=never)
    async def never_on() -> str:
        """Never."""
        return ""

    @function_tool(is_enabled=for_us)
    async def ours() -> str:
        """Ours."""
        return ""

    entries: list[Agent[Any] | Handoff] = [
        handoff(Agent(name="B"), is_enabled=never),
        handoff(Agent(name="C"), is_enabled=for_us),
    ]
    agent = Agent[Any](name="A", tools=[off, never_on, ours], handoffs=entries)
    request, _ = await asked(agent, context={"ours": True})
    assert [tool.name for tool in request.tools] == ["ours", "transfer_to_c"]
    request, _ = await asked(agent, context={"ours": False})
    assert request.tools == []


async def test_a_call_of_what_is_not_enabled_is_a_call_of_nothing() -> None:
    @function_tool(is_enabled=False)
    async def off() -> str:
        """Off."""
        return ""

    model = ScriptedModel([call("off", "c1")])
    worker = worker_of(Agent(name="A", tools=[off]), model=model)
    reply = await call_model(worker, model_request())
    assert [planned.kind for planned in reply.calls] == ["unknown"]


async def test_a_handoff_hides_a_tool_of_its_name_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @function_tool(name_override="transfer_to_b")
    async def fake() -> str:
        """Fake."""
        return ""

    with caplog.at_level(logging.WARNING):
        request, _ = await asked(Agent(name="A", tools=[fake], handoffs=[Agent(name="B")]))
    assert [tool.description for tool in request.tools] == [
        "Hand the conversation over to the agent B."
    ]
    assert caplog.messages == ["Agent 'A': the handoff 'transfer_to_b' hides a tool of that name"]


@pytest.mark.breaks_rules("number-range")
async def test_the_runs_settings_are_laid_over_the_agents() -> None:
    agent = Agent[Any](
        name="A", model="own", model_settings=ModelSettings(temperature=1, max_tokens=5)
    )
    config = RunConfig(
        model="runs", model_settings=ModelSettings(temperature=0, timeout=timedelta(seconds=9))
    )
    model = ScriptedModel("Hello")
    worker = worker_of(agent, model=model)
    reply = await call_model(worker, model_request(settings=settings_of(config)))
    assert model.names == ["runs"]
    assert reply.model == "runs"
    assert model.requests[0].settings == ModelSettings(
        temperature=0, max_tokens=5, timeout=timedelta(seconds=9)
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"model_settings": "hot"},
        {"model_settings": {"timeout_seconds": "soon", "colour": 1}},
        {"tool_not_found_behavior": 5},
    ],
)
async def test_settings_typed_by_hand_that_are_nonsense_count_as_none(
    settings: dict[str, Any],
) -> None:
    request, reply = await asked(Agent(name="A"), settings=settings)
    assert request.settings == ModelSettings()
    assert reply.failure is None


async def test_an_agent_may_bring_a_model_of_its_own() -> None:
    own = ScriptedModel("from mine")
    agent = Agent[Any](name="A", model=cast("str", own))
    reply = await call_model(worker_of(agent), model_request())
    assert (reply.items, reply.model) == (tuple(say("from mine")), "ScriptedModel")


async def test_the_context_of_a_run_that_has_none_is_an_empty_one() -> None:
    def make(ctx: RunContextWrapper[Notes], _agent: Agent[Any]) -> str:
        return str(ctx.context.seen)

    request, reply = await asked(Agent(name="A", instructions=make))
    assert (request.instructions, reply.changes) == ("[]", ())


# --- What goes wrong -------------------------------------------------------------------------------------


async def failure_of(definition: Agent[Any], model: ScriptedModel, **request: Any) -> EffectError:
    with pytest.raises(EffectError) as caught:
        await call_model(worker_of(definition, model=model), model_request(**request))
    return caught.value


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"instructions": raising(ValueError("x"))}, "The instructions of agent 'A' raised Value"),
        (
            {"handoffs": [handoff(Agent(name="B"), is_enabled=raising(ValueError("x")))]},
            "is_enabled of 'transfer_to_b' of agent 'A' raised ValueError: x",
        ),
    ],
)
async def test_user_code_that_fails_before_the_call_is_tried_again_and_nothing_is_paid(
    fields: dict[str, Any], message: str
) -> None:
    model = ScriptedModel("never said")
    error = await failure_of(Agent(name="A", **fields), model)
    assert error.message.startswith(message)
    assert (error.code, error.retryable) == ("user_error", True)
    assert model.calls == 0


@pytest.mark.parametrize("text", [5, None, b"x", ["x"]])
async def test_instructions_have_to_come_to_text(text: Any) -> None:
    def make(_ctx: object, _agent: object) -> Any:
        return text

    model = ScriptedModel("never said")
    error = await failure_of(Agent(name="A", instructions=make), model)
    assert error.message.startswith("The instructions of agent 'A' returned ")
    assert not error.retryable
    assert model.calls == 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"agent": "Nobody"}, "This worker has no agent 'Nobody'"),
        ({"context": {"seen": 5}}, "The run's context does not fit Notes"),
    ],
)
async def test_what_this_worker_does_not_know_another_may(
    fields: dict[str, Any], message: str
) -> None:
    """During a deploy, old and new workers share a queue."""
    model = ScriptedModel("never said")
    error = await failure_of(Agent(name="A", tools=[note]), model, **fields)
    assert error.message.startswith(message)
    assert (error.code, error.retryable, model.calls) == ("worker_lacks", True, 0)


async def test_a_providers_failure_is_the_calls() -> None:
    wait = timedelta(seconds=3)
    busy = ModelError("busy", code="overloaded", retryable=True, retry_after=wait, status=503)
    error = await failure_of(Agent(name="A"), ScriptedModel(busy))
    assert (error.code, error.message, error.retryable) == ("model_call_failed", "busy", True)
    details = {"reason": "overloaded", "status": 503, "retry_after_seconds": 3.0}
    assert (error.retry_after, error.details) == (wait, details)


@pytest.mark.parametrize(("raised", "again"), [(OSError("x"), True), (TypeError("x"), False)])
async def test_a_model_that_breaks_its_contract_is_named(raised: Exception, *, again: bool) -> None:
    error = await failure_of(Agent(name="A"), ScriptedModel(raised))
    assert (
        error.message == f"The model ScriptedModel of agent 'A' raised {type(raised).__name__}: x"
    )
    assert (error.code, error.retryable) == ("user_error", again)


class Choosy(ModelProvider):
    """A provider that fails to find a model."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def get_model(self, name: str | None) -> Model:
        raise self._error

    async def aclose(self) -> None: ...


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (
            ModelError("No key.", code="no_api_key", retryable=False),
            "model_call_failed",
            "No key.",
        ),
        (
            TypeError("x"),
            "user_error",
            "The model provider, asked for 'gpt-5', raised TypeError: x",
        ),
    ],
)
async def test_a_provider_that_has_no_such_model_is_an_error_in_words(
    raised: Exception, code: str, message: str
) -> None:
    registry = Registry([Agent[Any](name="A", model="gpt-5")])
    worker = WorkerDeps(registry=registry, models=Choosy(raised))
    with pytest.raises(EffectError) as caught:
        await call_model(worker, model_request())
    assert (caught.value.code, caught.value.message) == (code, message)
    assert not caught.value.retryable


async def test_a_provider_that_returns_no_model_is_told_what_to_return() -> None:
    class Lost(Choosy):
        def get_model(self, name: str | None) -> Model:
            return cast("Model", name)

    registry = Registry([Agent[Any](name="A", model="gpt-5")])
    worker = WorkerDeps(registry=registry, models=Lost(OSError()))
    with pytest.raises(EffectError) as caught:
        await call_model(worker, model_request())
    assert "provider Lost, asked for 'gpt-5' of agent 'A', returned str" in caught.value.message
    assert (caught.value.code, caught.value.retryable) == ("user_error", False)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            ModelInputData(input=cast("Any", "Hello"), instructions=None),
            "'Hello': input= must be a",
        ),
        (
            ModelInputData(input=cast("Any", ["Hello"]), instructions=None),
            "['Hello']: input= must be",
        ),
        (
            ModelInputData(input=[], instructions=cast("Any", 3)),
            "3: instructions= must be a string",
        ),
    ],
)
async def test_an_input_filter_that_returns_no_input_is_told_what_to_return(
    data: ModelInputData, message: str
) -> None:
    def forgetful(given: CallModelData[Any]) -> ModelInputData:
        del given
        return data

    settings = settings_of(RunConfig(call_model_input_filter=forgetful))
    with pytest.raises(EffectError, match="call_model_input_filter returned") as caught:
        await asked(Agent(name="A"), settings=settings)
    assert message in caught.value.message
    assert not caught.value.retryable


async def test_a_failure_after_the_paid_call_is_part_of_the_reply() -> None:
    model = ScriptedModel([call("nothing", "c1")])
    settings = settings_of(RunConfig(tool_not_found_behavior="raise"))
    worker = worker_of(Agent(name="A"), model=model)
    reply = await call_model(worker, model_request(settings=settings))
    assert reply.failure is not None
    assert reply.failure.code == "model_behavior"
    assert reply.usage.requests == 1, "it was paid, so it is counted"


class Mute(ScriptedModel):
    """A model of a user's that answers junk."""

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        await super().get_response(request)
        return ModelResponse(output=cast("Any", ["junk"]), usage=Usage(requests=1))


async def test_junk_is_paid_once_and_is_part_of_the_reply() -> None:
    model = Mute("x")
    reply = await call_model(worker_of(Agent(name="A"), model=model), model_request())
    assert reply.failure is not None
    assert reply.failure.code == "model_behavior"
    assert (model.calls, reply.items) == (1, ())


async def test_a_handoff_appended_to_something_else_is_found_before_anything_is_paid() -> None:
    class Impostor:
        name = "B"
        handoff_description: str | None = None

    model = ScriptedModel([call("transfer_to_b", "c1")])
    agent = Agent[Any](name="A")
    worker = worker_of(agent, model=model)
    agent.handoffs.append(handoff(Impostor()))
    with pytest.raises(EffectError, match="not to an Agent"):
        await call_model(worker, model_request())
    assert model.calls == 0


# --- The order of one call ----------------------------------------------------------------------------------


class Listener(AgentHooks[Any]):
    """Writes down which steps it hears of, and notes them in the context."""

    def __init__(self, heard: list[Any], *, fails_at: str = "") -> None:
        self.heard = heard
        self.fails_at = fails_at

    def hear(self, step: str, context: Any, *details: Any) -> None:
        self.heard.append((step, *details) if details else step)
        if context.context is not None:
            context.context[step] = True
        if step == self.fails_at:
            raise ConnectionError(step)

    async def on_start(self, context: Any, agent: Any) -> None:
        self.hear("start", context)

    async def on_llm_start(
        self, context: Any, agent: Any, system_prompt: Any, input_items: Any
    ) -> None:
        self.hear("llm_start", context)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        self.hear("llm_end", context)


async def test_a_model_call_has_one_order() -> None:
    heard: list[Any] = []

    async def instructions(ctx: Any, _agent: Any) -> str:
        heard.append("instructions")
        ctx.context["instructions"] = True
        return "Be kind."

    async def enabled(_ctx: Any, _agent: Any) -> bool:
        heard.append("is_enabled")
        return True

    async def keep(data: CallModelData[Any]) -> ModelInputData:
        heard.append("filter")
        assert data.context is not None
        data.context["filter"] = True
        return data.model_data

    async def answer(_request: Any) -> Any:
        heard.append("model")
        return [call("look_up", "c1", order_id="x")]

    tool = look_up_if(enabled)
    agent = Agent[Any](name="A", instructions=instructions, tools=[tool], hooks=Listener(heard))
    settings = settings_of(RunConfig(call_model_input_filter=keep))
    worker = worker_of(agent, model=ScriptedModel(answer))
    request = model_request(starts=True, settings=settings, context={})
    reply = await call_model(worker, request)
    assert heard == [
        "start",
        "is_enabled",
        "instructions",
        "filter",
        "llm_start",
        "model",
        "is_enabled",  # the model took its time
        "llm_end",
    ]
    assert {change.path[0] for change in reply.changes} == {
        "start",
        "instructions",
        "filter",
        "llm_start",
        "llm_end",
    }


def look_up_if(predicate: Any) -> Any:
    @function_tool(is_enabled=predicate)
    async def look_up(order_id: str) -> str:
        """Look an order up."""
        return order_id

    return look_up


async def test_start_hooks_are_called_where_the_agent_begins_to_work() -> None:
    heard: list[Any] = []
    await asked(Agent(name="A", hooks=Listener(heard)))
    assert heard == ["llm_start", "llm_end"]


async def test_start_hooks_see_what_the_model_will_be_shown_and_may_change_the_agent() -> None:
    turn_inputs: list[Any] = []

    class Equip(RunHooks[Any]):
        async def on_agent_start(self, context: Any, agent: Any) -> None:
            turn_inputs.append(context.turn_input)
            agent.tools = [look_up]
            context.context = {"equipped": True}

    agent = Agent[Any](name="A", instructions=lambda ctx, _agent: str(ctx.context))
    settings = {"hooks": name_of(Equip())}
    request, reply = await asked(agent, starts=True, settings=settings, context={})
    assert [tool.name for tool in request.tools] == ["look_up"]
    assert request.instructions == "{'equipped': True}"
    assert turn_inputs == [[{"role": "user", "content": "Hello"}]]
    assert reply.changes == (Change("set", ("equipped",), True),)


@pytest.mark.breaks_rules("input-empty")
async def test_model_hooks_see_what_the_filter_left_and_what_the_model_said() -> None:
    seen: list[Any] = []

    class Look(RunHooks[Any]):
        async def on_llm_start(
            self, context: Any, agent: Any, system_prompt: Any, input_items: Any
        ) -> None:
            seen.append((agent.name, system_prompt, input_items))

        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            seen.append((response.output[0].content[0].text, response.usage.requests))

    def shorten(data: CallModelData[Any]) -> ModelInputData:
        return ModelInputData(input=[], instructions="Short.")

    settings = settings_of(RunConfig(call_model_input_filter=shorten))
    await asked(Agent(name="A"), settings={**settings, "hooks": name_of(Look())})
    assert seen == [("A", "Short.", []), ("Hello", 1)]


async def test_the_runs_hooks_come_first_and_the_agents_after_the_model() -> None:
    log: list[str] = []

    class OfRun(RunHooks[Any]):
        async def on_llm_start(
            self, context: Any, agent: Any, system_prompt: Any, input_items: Any
        ) -> None:
            log.append("run starts")

        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            log.append("run ends")

    class OfAgent(AgentHooks[Any]):
        async def on_llm_start(
            self, context: Any, agent: Any, system_prompt: Any, input_items: Any
        ) -> None:
            log.append("agent starts")

        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            log.append("agent ends")

    await asked(Agent(name="A", hooks=OfAgent()), settings={"hooks": name_of(OfRun())})
    assert log == ["run starts", "agent starts", "agent ends", "run ends"]


@pytest.mark.parametrize("who", ["filter", "llm_start", "start"])
async def test_what_users_code_changes_in_the_items_does_not_reach_the_run(who: str) -> None:
    def redact(items: list[Any]) -> None:
        items[0]["content"] = "[redacted]"

    class Redact(RunHooks[Any]):
        async def on_agent_start(self, context: Any, agent: Any) -> None:
            if who == "start":
                redact(context.turn_input)

        async def on_llm_start(
            self, context: Any, agent: Any, system_prompt: Any, input_items: Any
        ) -> None:
            if who == "llm_start":
                redact(input_items)

    def shorten(data: CallModelData[Any]) -> ModelInputData:
        redact(data.model_data.input)
        return data.model_data

    settings = settings_of(RunConfig(call_model_input_filter=shorten if who == "filter" else None))
    if who != "filter":
        settings["hooks"] = name_of(Redact())
    model = ScriptedModel("Hello")
    given = model_request(starts=True, settings=settings)
    await call_model(worker_of(Agent(name="A"), model=model), given)
    assert given.items[0].raw == {"role": "user", "content": "Hello"}
    shown = "Hello" if who == "start" else "[redacted]"
    assert [item["content"] for item in model.requests[0].input] == [shown]


@pytest.mark.parametrize("turn", [{"starts": True, "history": 1}, {}], ids=["first", "later"])
@pytest.mark.breaks_rules("item-fields")
async def test_callables_of_a_model_call_see_what_the_run_is_asked(turn: Any) -> None:
    seen: list[Any] = []

    def instructions(context: Any, _agent: Any) -> str:
        seen.append(context.turn_input)
        return "Be kind."

    async def asks(context: Any, _arguments: Any, _call_id: str) -> bool:
        seen.append(context.turn_input)
        return False

    tool = function_tool(lambda: "x", name_override="look", needs_approval=asks)
    agent = Agent[Any](name="A", instructions=instructions, tools=[tool])
    items = (Item("input", {"role": "user", "content": "Hi"}), Item("message", {}, "A", 1))
    worker = worker_of(agent, model=ScriptedModel([call("look", "c1")]))
    await call_model(worker, model_request("A", *items, **turn))
    assert seen == [[{"role": "user", "content": "Hi"}]] * 2


async def test_the_end_hook_and_predicates_see_the_call_counted() -> None:
    seen: list[Any] = []

    class Count(AgentHooks[Any]):
        async def on_llm_start(self, context: Any, *_: Any, **__: Any) -> None:
            seen.append(("before", context.usage.requests, context.usage.total_tokens))

        async def on_llm_end(self, context: Any, *_: Any, **__: Any) -> None:
            seen.append(("after", context.usage.requests, context.usage.total_tokens))

    async def asks(ctx: Any, _arguments: Any, _call_id: str) -> bool:
        seen.append(("predicate", ctx.usage.requests))
        return False

    tool = function_tool(lambda: "x", name_override="look", needs_approval=asks)
    agent = Agent[Any](name="A", tools=[tool], hooks=Count())
    worker = worker_of(agent, model=ScriptedModel([call("look", "c1")]))
    reply = await call_model(worker, model_request())
    assert seen == [("before", 0, 0), ("predicate", 1), ("after", 1, 15)]
    assert reply.usage.requests == 1


@pytest.mark.parametrize(
    ("step", "name"), [("start", "on_agent_start"), ("llm_start", "on_llm_start")]
)
async def test_a_hook_that_fails_before_the_model_is_asked_is_tried_again(
    step: str, name: str
) -> None:
    model = ScriptedModel("never said")
    agent = Agent[Any](name="A", hooks=Listener([], fails_at=step))
    error = await failure_of(agent, model, starts=True)
    assert error.message == f"{name} of agent 'A' raised ConnectionError: {step}"
    assert (error.retryable, error.attempts, model.calls) == (True, 3, 0)


async def test_a_hook_that_fails_after_the_model_is_told_and_not_tried_again() -> None:
    agent = Agent[Any](name="A", hooks=Listener([], fails_at="llm_end"))
    _, reply = await asked(agent)
    assert reply.failure is not None
    assert reply.failure.message == "on_llm_end of agent 'A' raised ConnectionError: llm_end"
    assert reply.items == tuple(say("Hello"))


@pytest.mark.parametrize(
    ("output", "settings", "hears"),
    [
        ([call("gone", "c1")], {"tool_not_found_behavior": "raise"}, True),
        ([call("look_up", "", order_id="x")], {}, False),
    ],
)
async def test_the_end_hook_hears_of_a_reply_that_makes_no_sense_but_for_invalid_ids(
    output: Any, settings: Any, *, hears: bool
) -> None:
    heard: list[Any] = []
    agent = Agent[Any](name="A", tools=[look_up], hooks=Listener(heard))
    worker = worker_of(agent, model=ScriptedModel(output))
    reply = await call_model(worker, model_request(settings=settings))
    assert reply.failure is not None
    assert reply.failure.code == "model_behavior"
    assert ("llm_end" in heard) is hears


# --- Prompts, filters, policies -------------------------------------------------------------------------------


def prompt_for(data: GenerateDynamicPromptData) -> Any:
    return {"id": data.agent.name, "variables": data.context.context}


async def prompt_later(data: GenerateDynamicPromptData) -> Any:
    return prompt_for(data)


@pytest.mark.parametrize(
    ("prompt", "sent"),
    [
        (None, None),
        ({"id": "pmpt_1", "version": None}, {"id": "pmpt_1"}),
        (prompt_for, {"id": "A", "variables": {"n": 1}}),
        (prompt_later, {"id": "A", "variables": {"n": 1}}),
    ],
)
async def test_a_prompt_may_be_made_for_every_call(prompt: Any, sent: Any) -> None:
    request, _ = await asked(Agent(name="A", prompt=prompt), context={"n": 1})
    assert request.prompt == sent


async def test_a_prompt_that_is_none_is_named() -> None:
    def wrong(_data: object) -> Any:
        return "x"

    error = await failure_of(Agent(name="A", prompt=wrong), ScriptedModel())
    assert error.message.startswith("Agent 'A': prompt must be a dict with an id")
    assert not error.retryable


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_filter_changes_what_the_model_is_shown_this_once(*, is_async: bool) -> None:
    def shout(data: CallModelData[Any]) -> ModelInputData:
        data.model_data.input.append({"role": "user", "content": str(data.context)})
        return ModelInputData(input=data.model_data.input, instructions=data.agent.name)

    async def shout_later(data: CallModelData[Any]) -> ModelInputData:
        return shout(data)

    chosen = shout_later if is_async else shout
    model = ScriptedModel("Hello")
    given = model_request(
        settings=settings_of(RunConfig(call_model_input_filter=chosen)), context={"n": 1}
    )
    await call_model(worker_of(Agent(name="A"), model=model), given)
    (request,) = model.requests
    assert request.instructions == "A"
    assert [item["content"] for item in request.input] == ["Hello", "{'n': 1}"]
    assert len(given.items) == 1


@pytest.mark.parametrize("kind", ["input", "history"])
@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.breaks_rules("call-answered")
async def test_a_call_of_the_run_without_an_output_is_not_sent_again(
    *, chained: bool, kind: ItemKind
) -> None:
    said = Item("input", {"role": "user", "content": "Hi"})
    given = Item(kind, call("look_up", "c0"))
    asked = Item("tool_call", {"type": "shell_call", "call_id": "c1", "action": {}}, "A", 1)
    model = ScriptedModel("Hello")
    request = model_request("A", said, given, asked, chained=chained)
    await call_model(worker_of(Agent(name="A"), model=model), request)
    sent = [said.raw, given.raw, asked.raw] if chained else [said.raw]
    assert list(model.requests[0].input) == sent, "what the provider's server has is its business"


async def test_of_calls_and_outputs_that_are_there_twice_the_newest_is_sent() -> None:
    called = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    old, new = ({"type": "function_call_output", "call_id": "c", "output": o} for o in "12")
    seen: list[Any] = []

    class Look(RunHooks[Any]):
        async def on_llm_start(
            self, context: Any, agent: Any, system_prompt: Any, input_items: Any
        ) -> None:
            seen.append(input_items)

    def repeat(data: CallModelData[Any]) -> ModelInputData:
        return ModelInputData(input=[*data.model_data.input, called, new], instructions=None)

    settings = settings_of(RunConfig(call_model_input_filter=repeat))
    items = tuple(Item("input", raw) for raw in (called, old))
    model = ScriptedModel("Hello")
    given = model_request("A", *items, settings={**settings, "hooks": name_of(Look())})
    await call_model(worker_of(Agent(name="A"), model=model), given)
    assert [request.input for request in model.requests] == seen == [[called, new]]


@pytest.mark.parametrize("chained", [False, True])
async def test_what_a_filter_cuts_takes_along_what_it_belonged_to(*, chained: bool) -> None:
    def thought(number: int) -> JsonObject:
        return {"type": "reasoning", "id": f"rs_{number}", "summary": []}

    called = call("look", "c")
    output = {"type": "function_call_output", "call_id": "c", "output": "seen"}
    blank: JsonObject = {"role": "assistant", "content": ""}
    answer = {**say("Hi")[0], "id": "msg_1"}
    question: JsonObject = {"role": "user", "content": "And now?"}
    raws = [question, thought(1), called, output, thought(2), answer, question]

    def cut(data: CallModelData[Any]) -> ModelInputData:
        left = [one for one in data.model_data.input if one.get("type") != "reasoning"]
        return ModelInputData(input=[*left[:-1], blank, left[-1]], instructions=None)

    settings = settings_of(RunConfig(call_model_input_filter=cut))
    items = tuple(Item("input", raw) for raw in raws)
    model = ScriptedModel("Hello")
    request = model_request("A", *items, settings=settings, chained=chained)
    await call_model(worker_of(Agent(name="A"), model=model), request)
    sent = [question, dict(called), output, dict(answer), question]
    if not chained:
        del sent[1]["id"], sent[3]["id"]
    assert model.requests[0].input == sent


@pytest.mark.parametrize(
    ("chosen", "problem", "retryable"),
    [
        (raising(ConnectionError("down")), "call_model_input_filter raised Connection", True),
        ("".join, "call_model_input_filter raised TypeError", False),
        (str, "call_model_input_filter returned str: return ModelInputData", False),
    ],
)
async def test_a_filter_that_fails_is_named_and_nothing_is_paid(
    chosen: Any, problem: str, *, retryable: bool
) -> None:
    settings = settings_of(RunConfig(call_model_input_filter=chosen))
    model = ScriptedModel("never said")
    error = await failure_of(Agent(name="A"), model, settings=settings)
    assert error.message.startswith(problem)
    assert (error.code, error.retryable, model.calls) == ("user_error", retryable, 0)


def returning(output: Any) -> Callable[[Any], ModelOutputData]:
    """Return a filter with this result."""
    return lambda _: ModelOutputData(output)


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_output_filter_changes_the_reply_before_it_counts(*, is_async: bool) -> None:
    ended: list[Any] = []

    class Watch(RunHooks[Any]):
        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            ended.append(response.to_input_items())

    def quiet(data: CallModelOutputData[Any]) -> ModelOutputData:
        cast("Any", data.context)["filtered"] = data.agent.name
        data.model_data.output[:] = [call("look", "c1", what="less")]
        return ModelOutputData(output=data.model_data.output)

    async def quiet_later(data: CallModelOutputData[Any]) -> ModelOutputData:
        return quiet(data)

    @function_tool
    def look(what: str) -> str:
        return what

    chosen = quiet_later if is_async else quiet
    settings = settings_of(RunConfig(call_model_output_filter=chosen))
    step: list[JsonObject] = [call("look", "c1", what="all"), *say("Secret.")]
    model = ScriptedModel(step)
    given = model_request(settings={**settings, "hooks": name_of(Watch())}, context={"n": 1})
    reply = await call_model(worker_of(Agent(name="A", tools=[look]), model=model), given)
    assert reply.items == (call("look", "c1", what="less"),)
    assert [plan.kind for plan in reply.calls] == ["tool"]
    assert ended == [[call("look", "c1", what="less")]]
    assert [change.value for change in reply.changes] == ["A"]
    assert step[1] == say("Secret.")[0], "the filter had copies"


@pytest.mark.parametrize(
    ("chosen", "problem"),
    [
        (raising(ConnectionError("down")), "call_model_output_filter raised ConnectionError: down"),
        (str, "call_model_output_filter returned str: return ModelOutputData(...)."),
        (
            returning("x"),
            "with 'x': output= must be a list of output",
        ),
        (
            returning([{"type": object()}]),
            "output= must be a list of output items",
        ),
    ],
)
async def test_a_failing_output_filter_is_part_of_the_paid_reply(chosen: Any, problem: str) -> None:
    settings = settings_of(RunConfig(call_model_output_filter=chosen))
    model = ScriptedModel("Secret.")
    worker = worker_of(Agent(name="A"), model=model)
    reply = await call_model(worker, model_request(settings=settings))
    assert reply.failure is not None
    assert problem in reply.failure.message
    assert (reply.items, reply.usage.requests, model.calls) == ((), 1, 1)


async def test_a_missing_output_filter_fails_before_the_model_is_called() -> None:
    model = ScriptedModel("never said")
    settings = {"call_model_output_filter": "gone:thing"}
    error = await failure_of(Agent(name="A"), model, settings=settings)
    assert (model.calls, error.retryable) == (0, True)


async def test_a_reply_that_is_none_is_not_filtered() -> None:
    class Odd(ScriptedModel):
        async def get_response(self, request: ModelRequest) -> ModelResponse:
            return ModelResponse(output=cast("Any", "text"), usage=TOKENS)

    settings = settings_of(RunConfig(call_model_output_filter=lambda data: data.model_data))
    worker = worker_of(Agent(name="A"), model=Odd())
    reply = await call_model(worker, model_request(settings=settings))
    assert reply.failure is not None
    assert reply.failure.code == "model_behavior"


async def test_ids_of_reasoning_are_left_out_where_the_run_says_so() -> None:
    given: JsonObject = {"type": "reasoning", "id": "rs_0", "summary": []}
    thought: JsonObject = {"type": "reasoning", "id": "rs_1", "summary": []}
    first, second = say("One"), say("Two")
    items = (
        *(Item("input", raw) for raw in (given, *first)),
        Item("reasoning", thought, "A", 1),
        *(Item("message", raw, "A", 1) for raw in second),
        Item("input", {"role": "user", "content": "And now?"}),
    )
    model = ScriptedModel("Hello", "Hello")
    worker = worker_of(Agent(name="A"), model=model)
    settings = settings_of(RunConfig(reasoning_item_id_policy="omit"))
    await call_model(worker, model_request("A", *items, settings=settings))
    await call_model(worker, model_request("A", *items))
    ids = [[item.get("id") for item in request.input[:4:2]] for request in model.requests]
    assert ids == [["rs_0", None], ["rs_0", "rs_1"]], "the caller's own stay as they are"


@pytest.mark.parametrize("omits", [False, True])
async def test_what_only_replies_may_have_is_not_shown_to_a_model(*, omits: bool) -> None:
    thought: JsonObject = {"type": "reasoning", "id": "rs_1", "summary": []}
    marked: JsonObject = {**thought, "created_by": "p", "status": None}
    model = ScriptedModel("Hello")
    worker = worker_of(Agent(name="A"), model=model)
    policy = "omit" if omits else "preserve"
    settings = settings_of(RunConfig(reasoning_item_id_policy=policy))
    items = (
        Item("reasoning", marked, "A", 1),
        *(Item("message", raw, "A", 1) for raw in say("Hi")),
        Item("input", {"role": "user", "content": "And now?"}),
    )
    await call_model(worker, model_request("A", *items, settings=settings))
    expected = {name: value for name, value in thought.items() if not (omits and name == "id")}
    assert model.requests[0].input[0] == expected


@pytest.mark.parametrize(
    ("used", "resets", "choice"),
    [(False, True, "required"), (True, True, None), (True, False, "required")],
)
async def test_a_forced_tool_is_forced_once(*, used: bool, resets: bool, choice: Any) -> None:
    agent = Agent[Any](
        name="A", reset_tool_choice=resets, model_settings=ModelSettings(tool_choice="required")
    )
    request, _ = await asked(agent, tools_used=used)
    assert request.settings.tool_choice == choice


@pytest.mark.parametrize(
    ("choice", "own", "away", "is_forced"),
    [
        ("required", True, True, True),
        ("required", False, True, False),
        ("required", False, False, True),
        ("look_up", True, True, True),
        ("look_up", False, True, False),
        ("look_up", False, False, True),
        ("auto", False, True, True),
        ("none", False, True, True),
    ],
)
def test_no_tool_is_forced_that_is_away_with_its_server(
    choice: str, *, own: bool, away: bool, is_forced: bool
) -> None:
    """A provider refuses to force a tool that the request does not have."""
    offer = OfferedTools(
        tools={"look_up": look_up} if own else {}, handoffs={}, away=["files"] if away else []
    )
    forces_missing = model_activity._forces_missing(ModelSettings(tool_choice=choice), offer)
    assert forces_missing is (not is_forced)


def of_notes(_ctx: RunContextWrapper[Notes], _agent: Agent[Any]) -> bool:
    return True


def of_anything(_ctx: Any, _agent: Any) -> Any:
    return "Be kind."


@function_tool(is_enabled=of_notes)
async def gated_by_notes() -> str:
    """Is there only while a callable with a context says so."""
    return ""


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({}, None),
        ({"instructions": "Be kind.", "tools": [look_up]}, None),
        ({"instructions": of_anything}, None),
        ({"instructions": of_notes}, Notes),
        ({"tools": [look_up, gated_by_notes]}, Notes),
        ({"handoffs": [handoff(Agent(name="B"), is_enabled=of_notes)]}, Notes),
        ({"instructions": of_anything, "tools": [gated_by_notes]}, Notes),
    ],
)
def test_the_context_has_the_type_that_a_callable_of_the_agent_names(
    fields: dict[str, Any], found: Any
) -> None:
    assert annotated_type(Agent(name="A", **fields)) is found


@pytest.mark.parametrize(
    ("settings", "tracing"),
    [
        (None, ModelTracing.ENABLED),
        ({"trace_include_sensitive_data": True}, ModelTracing.ENABLED),
        ({"trace_include_sensitive_data": False}, ModelTracing.ENABLED_WITHOUT_DATA),
        ({"tracing_disabled": True}, ModelTracing.DISABLED),
    ],
)
def test_a_model_that_traces_itself_is_told_what_the_run_allows(
    settings: dict[str, Any] | None, tracing: ModelTracing
) -> None:
    invocation = invocation_of(Agent[Any](name="A", tools=[look_up]), settings=settings)
    offer = OfferedTools(tools={"look_up": look_up}, handoffs={})
    assert model_activity._objects(invocation, offer).tracing is ModelTracing.DISABLED
    with SpanCollector():
        scope = scope_of(settings or {}, "r", agent="A")
        with around_effect(scope, effect=2), custom_span("a span above"):
            objects = model_activity._objects(invocation, offer)
    assert objects.tracing is tracing
    assert (objects.tools, objects.handoffs, objects.output_schema) == ([look_up], [], None)


def test_the_model_is_told_which_servers_are_away() -> None:
    away = OfferedTools(tools={}, handoffs={}, away=["files"])
    alone = model_activity._with_servers_away(None, away)
    assert alone is not None
    assert "files" in alone
    assert model_activity._with_servers_away("Be kind.", away) == f"Be kind.\n\n{alone}"
    here = OfferedTools(tools={}, handoffs={})
    assert model_activity._with_servers_away("Be kind.", here) == "Be kind."
    assert model_activity._with_servers_away(None, here) is None


def test_the_question_is_what_was_put_in_before_the_agents_worked() -> None:
    said, made = Item("input", {"n": 1}), Item("message", {"n": 2}, "A", 1)

    def question(*items: Item, starts: bool) -> list[JsonObject]:
        request = model_request("A", *items, starts=starts, history=len(items))
        return model_activity._question(replace(request, items=items))

    assert question(said, made, starts=False) == [said.raw]
    assert question(said, made, starts=True) == [said.raw, made.raw]
    assert question(made, starts=False) == []
    assert question(Item("history", made.raw), made, starts=False) == [made.raw]


@pytest.mark.breaks_rules("thread-once")
async def test_the_conversation_at_the_provider_is_named() -> None:
    request, _ = await asked(Agent(name="A"), conversation_id="conv_1", previous_response_id="r1")
    assert (request.conversation_id, request.previous_response_id) == ("conv_1", "r1")


@pytest.mark.parametrize("thread", [{"conversation_id": "c1"}, {"chained": True}])
async def test_no_filter_changes_what_the_providers_server_keeps(thread: dict[str, Any]) -> None:
    def keep(data: Any) -> Any:
        return data

    agent = Agent[Any](name="A", handoffs=[handoff(Agent(name="B"), input_filter=keep)])
    model = ScriptedModel("Hello")
    error = await failure_of(agent, model, **thread)
    assert "no filter can change it there" in error.message
    assert model.calls == 0


async def test_tools_of_the_provider_are_sent_as_they_are() -> None:
    search = WebSearchTool()
    request, _ = await asked(Agent(name="A", tools=[search]))
    assert (list(request.hosted_tools), request.tools) == ([search], [])


# --- Output types ------------------------------------------------------------------------------------------------


class Invoice(BaseModel):
    total: int


@pytest.mark.parametrize(
    ("output_type", "properties", "strict"),
    [
        (Invoice, {"total"}, True),
        (list[int], {"response"}, True),
        (AgentOutputSchema(Invoice, strict_json_schema=False), {"total"}, False),
    ],
)
async def test_the_provider_is_told_the_output_type_under_a_name_that_every_api_takes(
    output_type: Any, properties: set[str], *, strict: bool
) -> None:
    request, _ = await asked(Agent(name="A", output_type=output_type))
    assert request.output is not None
    assert (request.output.name, request.output.strict) == ("final_output", strict)
    assert set(request.output.schema["properties"]) == properties


async def test_text_has_no_schema() -> None:
    assert (await asked(Agent(name="A", output_type=str)))[0].output is None


async def test_an_answer_comes_back_as_a_value() -> None:
    model = ScriptedModel('{"total": 5}', "No idea.")
    worker = worker_of(Agent(name="A", output_type=Invoice), model=model)
    reply = await call_model(worker, model_request())
    assert (reply.final, reply.value) == ("value", {"total": 5})
    misfit = await call_model(worker, model_request())
    assert misfit.failure is not None
    assert misfit.failure.code == "invalid_final_output"


async def test_a_schema_of_the_users_that_fails_is_named_before_anything_is_paid() -> None:
    class Broken(AgentOutputSchema):
        def json_schema(self) -> dict[str, Any]:
            raise ConnectionError("down")

    model = ScriptedModel("never said")
    error = await failure_of(Agent(name="A", output_type=Broken(Invoice)), model)
    assert error.message == "The output type of agent 'A' raised ConnectionError: down"
    assert model.calls == 0


# --- Which model ---------------------------------------------------------------------------------------------------


async def test_a_model_of_the_run_beats_all_others() -> None:
    theirs, agents, workers = (ScriptedModel(text) for text in ("runs", "agents", "workers"))
    worker = worker_of(Agent(name="A", model=agents), model=workers)
    settings = settings_of(RunConfig(model=theirs))
    by_ref = await call_model(worker, model_request(settings=settings))
    assert (by_ref.items, by_ref.model) == (tuple(say("runs")), "ScriptedModel")
    by_name = await call_model(worker, model_request(settings={"model": "gpt-5"}))
    assert (by_name.items, by_name.model) == (tuple(say("workers")), "gpt-5")
    assert workers.names == ["gpt-5"]
    own = await call_model(worker, model_request())
    assert own.items == tuple(say("agents"))


async def test_a_provider_of_the_run_finds_its_models() -> None:
    provider = ScriptedModel("theirs")
    worker = worker_of(Agent(name="A", model="gpt-5"), model=ScriptedModel("never said"))
    settings = settings_of(RunConfig(model_provider=provider))
    reply = await call_model(worker, model_request(settings=settings))
    assert (reply.items, provider.names) == (tuple(say("theirs")), ["gpt-5"])


# --- Streams -------------------------------------------------------------------------------------------------------


async def test_what_a_model_says_is_told_only_where_the_run_streams() -> None:
    events: list[Any] = []
    model = ScriptedModel("One two.", "One two.")
    worker = worker_of(Agent(name="A"), model=model)
    streamed = await call_model(
        worker, model_request(settings={"stream": True}), Attempt(on_event=events.append)
    )
    assert events[0]["type"] == "response.created"
    assert "".join(event.get("delta", "") for event in events) == "One two."
    assert events[-1]["type"] == "response.completed"
    told = len(events)
    plain = await call_model(worker, model_request(), Attempt(on_event=events.append))
    assert len(events) == told
    assert (streamed.items[0]["content"], plain.items) == (
        events[-1]["response"]["output"][0]["content"],
        tuple(say("One two.")),
    )
    assert streamed.usage == plain.usage


async def test_an_answer_that_a_person_approves_later_is_not_streamed() -> None:
    events: list[Any] = []
    worker = worker_of(Agent(name="A", output_approval=True), model=ScriptedModel("One two."))
    attempt = Attempt(on_event=events.append)
    reply = await call_model(worker, model_request(settings={"stream": True}), attempt)
    assert text_of(reply.items[0]) == "One two."
    assert events == []


async def test_the_first_event_says_whether_nobody_judges_the_text() -> None:
    def check(*_arguments: Any) -> GuardrailFunctionOutput:
        raise AssertionError

    told: dict[bool, list[Any]] = {}
    for is_judged in (False, True):
        told[is_judged] = []
        guardrails = [OutputGuardrail[Any](check)] if is_judged else []
        agent = Agent[Any](name="A", output_guardrails=guardrails)
        attempt = Attempt(on_event=told[is_judged].append)
        worker = worker_of(agent, model=ScriptedModel("One two."))
        await call_model(worker, model_request(settings={"stream": True}), attempt)
    assert [one.get(UNJUDGED) for one in told[False]] == [True, *[None] * (len(told[False]) - 1)]
    assert [one.get(UNJUDGED) for one in told[True]] == [None] * len(told[False])


async def test_a_stream_that_breaks_off_is_the_calls_failure() -> None:
    broken = ModelError("gone", code="unreachable", retryable=True)
    model = ScriptedModel(fail_after(3, broken, "One two."))
    events: list[Any] = []
    with pytest.raises(EffectError, match="gone") as caught:
        await call_model(
            worker_of(Agent(name="A"), model=model),
            model_request(settings={"stream": True}),
            Attempt(on_event=events.append),
        )
    assert (caught.value.code, caught.value.retryable) == ("model_call_failed", True)
    assert len(events) == 3


# --- What the reply says further ------------------------------------------------------------------------------------


def _passing(*_arguments: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)


@pytest.mark.parametrize(
    ("turn", "required_steps", "calls"), [(1, (), 0), (1, ("check",), 1), (2, (), 1)]
)
async def test_no_model_is_called_for_a_question_that_new_guardrails_have_not_checked(
    turn: int, required_steps: tuple[RequiredStep, ...], calls: int
) -> None:
    model = ScriptedModel("Hello.")
    agent = Agent[Any](name="A", input_guardrails=[InputGuardrail(_passing)])
    request = model_request(turn=turn, required_steps=required_steps)
    reply = await call_model(worker_of(agent, model=model), request)
    assert (model.calls, reply.unchecked) == (calls, calls == 0)
    assert reply.required_steps == ("check",)


async def test_a_reply_says_what_is_due_and_how_its_calls_are_run() -> None:
    def check(*_arguments: Any) -> GuardrailFunctionOutput:
        raise AssertionError

    def rule(_ctx: Any, _results: Any) -> Any:
        raise AssertionError

    agent = Agent[Any](
        name="A",
        tools=[look_up],
        output_guardrails=[OutputGuardrail(check)],
        tool_use_behavior=rule,
    )
    execution = ToolExecutionConfig(max_function_tool_concurrency=2)
    settings = settings_of(RunConfig(tool_execution=execution))
    model = ScriptedModel([call("look_up", "c1", order_id="x")])
    reply = await call_model(worker_of(agent, model=model), model_request(settings=settings))
    assert (reply.required_steps, reply.judged, reply.parallel) == (
        ("finalize_answer", "check_output"),
        True,
        2,
    )


async def test_callables_of_a_nested_run_see_the_arguments_of_its_call() -> None:
    inner = Agent[Any](name="B", instructions=lambda ctx, _agent: str(ctx.tool_input))
    outer = Agent[Any](name="A", tools=[inner.as_tool("ask", parameters=Invoice)])
    model = ScriptedModel("Hello")
    settings = answering("ask", '{"total": 5}')
    await call_model(worker_of(outer, model=model), model_request("B", settings=settings))
    assert model.requests[0].instructions == "{'total': 5}"


@pytest.mark.parametrize(
    ("reply", "parallel"),
    [
        ([shell_call("c1", "ls"), shell_call("c2", "ls")], 1),
        ([shell_call("c1", "ls"), custom_call("sql", "c2", "x")], None),
        ([call("look_up", "c1", order_id="x"), call("look_up", "c2", order_id="y")], None),
    ],
)
async def test_what_is_meant_for_one_machine_is_done_one_after_the_other(
    reply: list[JsonObject], parallel: int | None
) -> None:
    tools: list[Any] = [ShellTool(str), CustomTool("sql", "", cast("Any", str)), look_up]
    agent = Agent[Any](name="A", tools=tools)
    planned = await call_model(worker_of(agent, model=ScriptedModel(reply)), model_request())
    assert planned.parallel == parallel
    assert [one.kind for one in planned.calls] == ["tool", "tool"]


# --- A nested run whose tool has an on_stream -------------------------------------------------------------


async def streamed(
    step: Any, *, on_stream: Any, stream: bool = False, attempt: int = 1
) -> tuple[list[str], ScriptedModel]:
    """Ask the model of a nested run; return which events those heard who read along."""
    heard: list[str] = []
    outer = Agent[Any](name="A", tools=[Agent[Any](name="B").as_tool("ask", on_stream=on_stream)])
    settings = {**answering("ask"), **({"stream": True} if stream else {})}
    model = ScriptedModel(step)
    request = model_request("B", settings=settings, starts=True)
    worker = worker_of(outer, model=model)
    beats = Attempt(number=attempt, on_event=lambda event: heard.append(event["type"]))
    await call_model(worker, request, beats)
    return heard, model


@pytest.mark.parametrize("stream", [True, False])
async def test_what_on_stream_is_told_is_in_no_heartbeat(*, stream: bool) -> None:
    told: list[Any] = []
    heard, _ = await streamed("Hi", on_stream=told.append, stream=stream)
    raws = [one["event"].raw["type"] for one in told[1:-1]]
    assert (raws[0], raws[-1]) == ("response.created", "response.completed")
    assert heard == []
    assert told[0]["event"].new_agent.name == "B"
    assert told[-1]["event"].name == "message_output_created"


async def test_a_call_that_breaks_off_has_told_how_far_it_came() -> None:
    told: list[Any] = []
    broken = fail_after(5, ModelError("gone", code="overloaded", retryable=True), "Hi there")
    with pytest.raises(EffectError, match="gone"):
        await streamed(broken, on_stream=told.append)
    assert [one["event"].type for one in told] == [
        "agent_updated_stream_event",
        *["raw_response_event"] * 5,
    ]


async def test_an_attempt_after_the_first_is_told_as_one() -> None:
    told: list[Any] = []
    await streamed("Hi", on_stream=told.append, attempt=2)
    assert told[0]["event"].raw == {"type": "outlast.attempt_restarted", "attempt": 2}


async def test_the_terms_of_an_answers_approval_are_part_of_the_reply() -> None:
    policy = ApprovalPolicy(audience="press", reason="It is published.")
    _, reply = await asked(Agent[Any](name="A", output_approval=policy))
    assert reply.answer_terms == policy.terms(possible=("approve", "reject", "respond"))
    assert reply.answer_reason == "It is published."
    _, reply = await asked(Agent[Any](name="A"))
    assert (reply.answer_terms, reply.answer_reason) == (None, None)
