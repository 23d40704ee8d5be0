"""What an agent's model is asked, and what comes back."""

import logging
from datetime import timedelta
from typing import Any, cast

import pytest

from outlast.activities.errors import EffectError
from outlast.activities.model import call_model
from outlast.activities.worker_knowledge import WorkerKnowledge
from outlast.agents.agent import Agent
from outlast.agents.context import RunContextWrapper, ToolContext
from outlast.agents.handoff import Handoff, handoff
from outlast.agents.registry import Registry
from outlast.agents.settings import ModelSettings, RunConfig, write_run_config
from outlast.agents.tool import function_tool
from outlast.loop.calls import ModelReply
from outlast.loop.changes import Change
from outlast.loop.items import Item
from outlast.loop.values import Usage
from outlast.ports.model import Model, ModelError, ModelProvider, ModelRequest, ModelResponse
from outlast.testing import ScriptedModel, call, say
from tests.unit.activities.desk import Notes, model_request, raising, worker_of


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
        ctx.context["x"] = object()
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
    assert "the handoff 'transfer_to_b' hides a tool of that name" in caplog.text


async def test_the_runs_settings_are_laid_over_the_agents() -> None:
    agent = Agent[Any](
        name="A", model="own", model_settings=ModelSettings(temperature=1, max_tokens=5)
    )
    config = RunConfig(
        model="runs", model_settings=ModelSettings(temperature=0, timeout=timedelta(seconds=9))
    )
    model = ScriptedModel("Hello")
    worker = worker_of(agent, model=model)
    reply = await call_model(worker, model_request(settings=write_run_config(config)))
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
        ({"agent": "Nobody"}, "This worker knows no agent 'Nobody'"),
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
    assert (error.code, error.retryable, model.calls) == ("user_error", True, 0)


async def test_a_providers_failure_is_the_calls() -> None:
    wait = timedelta(seconds=3)
    busy = ModelError("busy", code="overloaded", retryable=True, retry_after=wait, status=503)
    error = await failure_of(Agent(name="A"), ScriptedModel(busy))
    assert (error.code, error.message, error.retryable) == ("model_call_failed", "busy", True)
    assert (error.retry_after, error.details) == (wait, {"reason": "overloaded", "status": 503})


@pytest.mark.parametrize(("raised", "again"), [(OSError("x"), True), (TypeError("x"), False)])
async def test_a_model_that_breaks_its_contract_is_named(raised: Exception, *, again: bool) -> None:
    error = await failure_of(Agent(name="A"), ScriptedModel(raised))
    assert error.message == f"The model ScriptedModel raised {type(raised).__name__}: x"
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
    worker = WorkerKnowledge(registry=registry, models=Choosy(raised))
    with pytest.raises(EffectError) as caught:
        await call_model(worker, model_request())
    assert (caught.value.code, caught.value.message) == (code, message)
    assert not caught.value.retryable


async def test_a_failure_after_the_paid_call_is_part_of_the_reply() -> None:
    model = ScriptedModel([call("nothing", "c1")])
    settings = write_run_config(RunConfig(tool_not_found_behavior="raise"))
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
