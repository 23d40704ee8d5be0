"""Objects of the installed OpenAI Agents SDK are taken where ours are, and its agents are not."""

import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, cast

import agents as sdk
import pytest
from agents import realtime as sdk_realtime
from agents.extensions.handoff_filters import remove_all_tools
from agents.tool_guardrails import ToolGuardrailFunctionOutput as SDKToolVerdict
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from openai.types.shared import Reasoning
from pydantic import BaseModel

import outlast
from outlast import Agent, RunConfig, Runner, UserError, handoff
from outlast.agents import installed_sdk
from outlast.agents.config.model_settings import MCPToolChoice, ModelSettings
from outlast.agents.config.retry import ModelRetrySettings
from outlast.agents.registry import Registry
from outlast.agents.schemas.agent_output import AgentOutputSchema
from outlast.agents.tools.definition import FunctionTool, ToolNamespace
from outlast.agents.tools.function_tool import function_tool
from outlast.testing import ScriptedModel, call, run_in_memory, run_in_memory_streamed

AnyAgent: Any = Agent
"""As a program without types sees it."""

OF_THE_SDK = "is an Agent of the OpenAI Agents SDK"


@dataclass
class Case:
    seen: list[str]


@sdk.function_tool
def look_up(ctx: sdk.RunContextWrapper[Case], order: str, limit: int = 3) -> str:
    """Find an order.

    Args:
        order: its number.
    """
    assert isinstance(ctx, sdk.RunContextWrapper)
    ctx.context.seen.append(order)
    return f"{order}: {limit}"


async def run(agent: Any, *steps: Any, **options: Any) -> tuple[Any, ScriptedModel]:
    model = ScriptedModel(*steps)
    return await run_in_memory(agent, "Hello", model=model, **options), model


# --- Tools ----------------------------------------------------------------------------------------


async def test_a_function_tool_runs_with_the_sdks_context() -> None:
    agent: Any = AnyAgent(name="Desk", tools=[look_up])
    assert isinstance(agent.tools[0], FunctionTool)
    result, model = await run(
        agent, [call("look_up", "c1", order="A-1", limit=2)], "Done.", context=Case([])
    )
    assert model.requests[0].tools[0].description == "Find an order."
    assert model.requests[0].tools[0].parameters["properties"]["order"]["type"] == "string"
    assert result.new_items[1].output == "A-1: 2"
    assert result.context == {"seen": ["A-1"]}


async def test_a_tool_made_by_hand_sees_the_call() -> None:
    seen: dict[str, Any] = {}

    async def invoke(ctx: Any, arguments: str) -> Any:
        assert isinstance(ctx, sdk.tool_context.ToolContext)
        seen.update(
            name=ctx.tool_name, id=ctx.tool_call_id, arguments=ctx.tool_arguments, text=arguments
        )
        seen.update(agent=ctx.agent and ctx.agent.name, key=vars(ctx)["idempotency_key"] != "")
        ctx.context = {"n": 2}
        return sdk.ToolOutputImage(image_url="https://example.com/a.png")

    schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    tool = sdk.FunctionTool("ask", "Ask.", schema, invoke, strict_json_schema=False)
    result, model = await run(
        AnyAgent(name="Desk", tools=[tool]), [call("ask", "c1", q="x")], "Done.", context={"n": 1}
    )
    assert seen == {
        "name": "ask",
        "id": "c1",
        "arguments": '{"q": "x"}',
        "text": '{"q": "x"}',
        "agent": "Desk",
        "key": True,
    }
    image = {"type": "input_image", "image_url": "https://example.com/a.png"}
    assert model.requests[1].input[-1]["output"] == [image]
    assert result.context == {"n": 2}


async def test_a_failing_tool_ends_the_run_or_answers_as_in_the_sdk() -> None:
    async def fail(_ctx: Any, _arguments: str) -> str:
        raise RuntimeError("no such order")

    tool = sdk.FunctionTool("ask", "Ask.", {"type": "object", "properties": {}}, fail)
    with pytest.raises(outlast.ToolFailed):
        await run(AnyAgent(name="Desk", tools=[tool]), [call("ask", "c1")], "Never.")

    @sdk.function_tool
    def broken() -> str:
        raise RuntimeError("no such order")

    result, _ = await run(AnyAgent(name="Desk", tools=[broken]), [call("broken", "c1")], "Sorry.")
    assert result.new_items[1].output.startswith("An error occurred while running the tool.")


async def test_options_of_a_tool_are_kept() -> None:
    async def enabled(ctx: Any, agent: Any) -> bool:
        assert isinstance(ctx, sdk.RunContextWrapper)
        return agent.name == "Desk"

    async def needs(ctx: Any, arguments: dict[str, Any], call_id: str) -> bool:
        assert isinstance(ctx, sdk.RunContextWrapper)
        return arguments["order"] == "A-1" and call_id == "c1"

    @sdk.function_tool(is_enabled=enabled, needs_approval=needs, timeout=7.0)
    async def ask(order: str) -> str:
        return order

    tool = ask
    (ours,) = AnyAgent(name="Desk", tools=[tool]).tools
    assert ours.timeout.total_seconds() == 7
    agent: Any = AnyAgent(name="Desk", tools=[tool])
    result, model = await run(agent, [call("ask", "c1", order="A-1")], "Done.")
    assert [one.name for one in result.interruptions] == ["ask"]
    assert [one.name for one in model.requests[0].tools] == ["ask"]
    _, other = await run(AnyAgent(name="Clerk", tools=[tool]), "Done.")
    assert list(other.requests[0].tools) == []


async def test_a_tools_guardrails_and_data_are_the_sdks() -> None:
    seen: list[Any] = []

    @sdk.tool_input_guardrail
    def before(data: sdk.ToolInputGuardrailData) -> SDKToolVerdict:
        assert isinstance(data, sdk.ToolInputGuardrailData)
        assert isinstance(data.context, sdk.tool_context.ToolContext)
        if "secret" in data.context.tool_arguments:
            return SDKToolVerdict.reject_content("Not that.")
        return SDKToolVerdict.allow({"checked": True})

    @sdk.tool_output_guardrail
    async def after(data: sdk.ToolOutputGuardrailData) -> SDKToolVerdict:
        seen.append(data.output)
        return SDKToolVerdict.allow()

    tool = sdk.function_tool(
        lambda order: order,
        name_override="ask",
        tool_input_guardrails=[before],
        tool_output_guardrails=[after],
        custom_data_extractor=lambda about: {
            "out": about.output,
            "call": about.tool_context.tool_call_id,
        },
    )
    calls = [call("ask", "c1", order="secret"), call("ask", "c2", order="A-1")]
    result, model = await run(AnyAgent(name="Desk", tools=[tool]), calls, "Done.")
    outputs = {one["call_id"]: one["output"] for one in model.requests[1].input[-2:]}
    assert outputs == {"c1": "Not that.", "c2": "A-1"}
    assert seen == ["A-1"]
    assert [one.output.behavior["type"] for one in result.tool_input_guardrail_results] == [
        "reject_content",
        "allow",
    ]
    by_id = {
        one.call_id: one.custom_data for one in result.new_items if hasattr(one, "custom_data")
    }
    assert by_id["c2"] == {"out": "A-1", "call": "c2"}

    ours = function_tool(_plain, tool_input_guardrails=cast("Any", [before]))
    assert ours.tool_input_guardrails[0].get_name() == "before"


def _plain(order: str) -> str:
    return order


def test_tools_that_the_provider_runs_are_taken() -> None:
    given = [
        sdk.WebSearchTool(search_context_size="high"),
        sdk.FileSearchTool(vector_store_ids=["v"]),
        sdk.CodeInterpreterTool({"type": "code_interpreter", "container": {"type": "auto"}}),
        sdk.HostedMCPTool({"type": "mcp", "server_label": "shelf", "server_url": "https://x.io"}),
        sdk.ImageGenerationTool({"type": "image_generation"}),
    ]
    taken = AnyAgent(name="Desk", tools=given).tools
    assert [type(one).__module__.partition(".")[0] for one in taken] == ["outlast"] * 5
    assert taken[0].to_tool_param() == {"type": "web_search", "search_context_size": "high"}
    assert taken[3].server_label == "shelf"


def test_namespaces_and_deferred_tools_are_taken() -> None:
    tool = sdk.function_tool(_plain, defer_loading=True)
    (named,) = sdk.tool_namespace(name="crm", description="Customers.", tools=[tool])
    taken = AnyAgent(name="Desk", tools=[named, sdk.ToolSearchTool()]).tools
    assert taken[0].namespace == ToolNamespace(name="crm", description="Customers.")
    assert taken[0].defer_loading
    programs = sdk.ProgrammaticToolCallingTool()
    assert AnyAgent(name="A", tools=[programs]).tools[0].name == "programmatic_tool_calling"


def test_tools_of_this_machine_say_what_to_do() -> None:
    tool = sdk.LocalShellTool(executor=lambda _request: "done")
    with pytest.raises(
        UserError, match=r"LocalShellTool of the OpenAI .*from outlast import Local"
    ):
        AnyAgent(name="Desk", tools=[tool])


async def test_our_function_tool_takes_a_function_with_the_sdks_context() -> None:
    @function_tool
    def ask(ctx: sdk.RunContextWrapper[Any], order: str) -> str:
        assert isinstance(ctx, sdk.RunContextWrapper)
        return f"{order} {ctx.context}"

    assert "ctx" not in str(ask.params_json_schema)
    agent: Any = AnyAgent(name="Desk", tools=[ask])
    result, _ = await run(agent, [call("ask", "c1", order="A")], "Done.", context="k")
    assert result.new_items[1].output == "A k"


async def test_tools_that_are_added_later_are_taken() -> None:
    agent: Any = AnyAgent(name="Desk")
    agent.tools.append(look_up)
    _, model = await run(agent, "Done.")
    assert [one.name for one in model.requests[0].tools] == ["look_up"]


# --- Guardrails -----------------------------------------------------------------------------------


@sdk.input_guardrail(run_in_parallel=False)
async def polite(ctx: Any, agent: Any, asked: Any) -> sdk.GuardrailFunctionOutput:
    assert isinstance(ctx, sdk.RunContextWrapper)
    info = {"agent": agent.name, "asked": asked, "turn": ctx.turn_input}
    return sdk.GuardrailFunctionOutput(output_info=info, tripwire_triggered=asked != "Hello")


@sdk.output_guardrail
def short(ctx: Any, _agent: Any, output: Any) -> sdk.GuardrailFunctionOutput:
    assert isinstance(ctx, sdk.RunContextWrapper)
    return sdk.GuardrailFunctionOutput(output_info=None, tripwire_triggered=len(output) > 9)


async def test_guardrails_of_agents_and_runs_are_taken() -> None:
    agent: Any = AnyAgent(name="Desk", input_guardrails=[polite], output_guardrails=[short])
    assert agent.input_guardrails[0].run_in_parallel is False
    result, _ = await run(agent, "Short.")
    (checked,) = result.input_guardrail_results
    assert (checked.guardrail.get_name(), checked.output.output_info["agent"]) == ("polite", "Desk")
    with pytest.raises(outlast.OutputGuardrailTripwireTriggered):
        await run(agent, "Much too long.")
    lists: dict[str, Any] = {"input_guardrails": [polite], "output_guardrails": [short]}
    with pytest.raises(outlast.InputGuardrailTripwireTriggered):
        await run_in_memory(
            Agent("Desk"), "Rude.", model=ScriptedModel("Hi."), run_config=RunConfig(**lists)
        )


async def test_a_guardrail_of_ours_may_return_the_sdks_verdict() -> None:
    own: Any = outlast.input_guardrail(_verdict)
    result, _ = await run(AnyAgent(name="Desk", input_guardrails=[own]), "Hi.")
    assert result.input_guardrail_results[0].output == outlast.GuardrailFunctionOutput("ok", False)


def _verdict(_ctx: Any, _agent: Any, _asked: Any) -> Any:
    return sdk.GuardrailFunctionOutput(output_info="ok", tripwire_triggered=False)


# --- Handoffs -------------------------------------------------------------------------------------


class Reason(BaseModel):
    why: str


async def test_a_handoff_to_an_agent_of_ours_is_taken() -> None:
    seen: list[Any] = []

    async def on_handoff(ctx: Any, given: Reason) -> None:
        assert isinstance(ctx, sdk.RunContextWrapper)
        seen.append(given.why)

    def enabled(ctx: Any, agent: Any) -> bool:
        assert isinstance(agent, sdk.Agent)
        return ctx.context != "guest" and agent.name == "Triage"

    billing: Any = AnyAgent(name="Billing")
    entry = sdk.handoff(
        billing,
        on_handoff=on_handoff,
        input_type=Reason,
        is_enabled=enabled,
        input_filter=remove_all_tools,
    )
    triage: Any = AnyAgent(name="Triage", handoffs=[entry], tools=[function_tool(_plain)])
    steps = ([call("_plain", "c1", order="A")], [call("transfer_to_billing", "h1", why="money")])
    result, model = await run(triage, *steps, "Paid.", context="member")
    assert (result.last_agent.name, result.final_output, seen) == ("Billing", "Paid.", ["money"])
    assert [one.get("content") for one in model.requests[2].input] == ["Hello"]
    assert [item.type for item in result.new_items] == [
        "tool_call_item",
        "tool_call_output_item",
        "message_output_item",
    ]
    _, other = await run(triage, "Done.", context="guest")
    assert [one.name for one in other.requests[0].tools] == ["_plain"]


async def test_a_filter_of_the_sdk_may_add_items_and_keep_some() -> None:
    def edit(data: sdk.HandoffInputData) -> sdk.HandoffInputData:
        kinds = [type(one).__module__ for one in data.new_items]
        assert kinds == ["agents.items"] * 2
        text = ResponseOutputText(text="Note.", type="output_text", annotations=[])
        message = ResponseOutputMessage(
            id="msg_1", content=[text], role="assistant", status="completed", type="message"
        )
        note = sdk.MessageOutputItem(agent=data.new_items[0].agent, raw_item=message)
        return data.clone(input_items=(data.new_items[0], data.new_items[1], note))

    entry = sdk.handoff(AnyAgent(name="Billing"), input_filter=edit)
    triage: Any = AnyAgent(name="Triage", handoffs=[entry])
    result, model = await run(triage, [call("transfer_to_billing", "h1")], "Paid.")
    assert [one.get("type", "message") for one in model.requests[1].input] == [
        "message",
        "function_call",
        "function_call_output",
        "message",
    ]
    assert [item.type for item in result.new_items] == [
        "handoff_call_item",
        "handoff_output_item",
        "message_output_item",
    ]


async def test_a_handoff_in_tools_hands_over() -> None:
    billing = Agent[Any](name="Billing")
    for entry in (handoff(billing), sdk.handoff(cast("Any", billing))):
        triage: Any = AnyAgent(name="Triage", tools=[entry, look_up])
        assert [one.name for one in triage.tools] == ["look_up"]
        result, _ = await run(triage, [call("transfer_to_billing", "h1")], "Paid.")
        assert result.last_agent is billing
    later: Any = AnyAgent(name="Triage")
    later.tools.append(handoff(billing))
    result, _ = await run(later, [call("transfer_to_billing", "h1")], "Paid.")
    assert result.last_agent is billing


# --- Settings, sessions and outputs ---------------------------------------------------------------


def test_settings_are_taken() -> None:
    retry = sdk.ModelRetrySettings(max_retries=2, backoff={"initial_delay": 1.0})
    given = sdk.ModelSettings(
        temperature=0.5,
        tool_choice=sdk.model_settings.MCPToolChoice(server_label="shelf", name="find"),
        reasoning=Reasoning(effort="low"),
        response_include=["message.output_text.logprobs"],
        timeout=3.0,
        retry=retry,
    )
    choice = MCPToolChoice(server_label="shelf", name="find")
    agent: Any = AnyAgent(name="Desk", model_settings=given)
    ours: ModelSettings = agent.model_settings
    assert (ours.temperature, ours.tool_choice, ours.include) == (
        0.5,
        choice,
        ["message.output_text.logprobs"],
    )
    assert ours.timeout is not None
    assert ours.timeout.total_seconds() == 3
    assert isinstance(ours.retry, ModelRetrySettings)
    assert (ours.retry.max_retries, ours.retry.backoff and ours.retry.backoff.initial_delay) == (
        2,
        1,
    )
    assert RunConfig(**cast("Any", {"model_settings": given})).model_settings == ours
    assert ModelSettings().resolve(cast("Any", given)) == ours
    limit: Any = sdk.SessionSettings(limit=2)
    assert RunConfig(**cast("Any", {"session_settings": limit})).session_settings == (
        outlast.SessionSettings(limit=2)
    )


async def test_sessions_are_taken() -> None:
    session = sdk.SQLiteSession("case-1", session_settings=sdk.SessionSettings(limit=1))
    await run(Agent("Desk"), "First.", session=session)
    _, model = await run(Agent("Desk"), "Second.", session=session)
    assert [one.get("role") for one in model.requests[0].input] == ["assistant", "user"]
    assert len(await session.get_items(limit=9)) == 4


async def test_output_schemas_are_taken() -> None:
    class Text(sdk.AgentOutputSchemaBase):
        def is_plain_text(self) -> bool:
            return False

        def name(self) -> str:
            return "Text"

        def json_schema(self) -> dict[str, Any]:
            return {"type": "object", "properties": {"why": {"type": "string"}}}

        def is_strict_json_schema(self) -> bool:
            return False

        def validate_json(self, json_str: str) -> Any:
            return json_str.upper()

    given: Any = sdk.AgentOutputSchema(Reason, strict_json_schema=False)
    agent: Any = AnyAgent(name="Desk", output_type=given)
    assert isinstance(agent.output_type, AgentOutputSchema)
    result, _ = await run(agent, '{"why": "x"}')
    assert result.final_output == Reason(why="x")
    result, model = await run(AnyAgent(name="Desk", output_type=Text()), '{"why": "x"}')
    assert result.final_output == '{"WHY": "X"}'
    assert model.requests[0].output is not None
    assert model.requests[0].output.schema["properties"] == {"why": {"type": "string"}}


async def test_what_ends_a_run_may_be_the_sdks() -> None:
    def rule(_ctx: Any, results: Any) -> Any:
        return sdk.ToolsToFinalOutputResult(is_final_output=True, final_output=results[0].output)

    agent: Any = AnyAgent(name="Desk", tools=[function_tool(_plain)], tool_use_behavior=rule)
    result, _ = await run(agent, [call("_plain", "c1", order="A")])
    assert result.final_output == "A"


# --- Models ---------------------------------------------------------------------------------------


class Echo(sdk.Model):
    """Looks at what it gets as the SDK's models do, and answers with a call and a text."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def _reply(self, *leading: Any) -> list[Any]:
        _, asked, settings, tools, schema, handoffs, tracing = leading
        assert isinstance(settings, sdk.ModelSettings)
        assert all(isinstance(one, sdk.FunctionTool | sdk.WebSearchTool) for one in tools)
        assert all(isinstance(one, sdk.Handoff) for one in handoffs)
        assert schema is None or isinstance(schema, sdk.AgentOutputSchemaBase)
        assert isinstance(tracing, sdk.ModelTracing)
        self.seen.append((settings.temperature, [one.name for one in tools], len(asked)))
        if len(self.seen) == 1:
            return [
                ResponseFunctionToolCall(
                    type="function_call", name="look_up", call_id="c1", arguments='{"order": "A"}'
                )
            ]
        text = '{"why": "done"}' if schema is not None else "Done."
        return [
            ResponseOutputMessage(
                id="m",
                type="message",
                role="assistant",
                status="completed",
                content=[ResponseOutputText(type="output_text", text=text, annotations=[])],
            )
        ]

    async def get_response(self, *args: Any, **kwargs: Any) -> sdk.ModelResponse:
        names = (
            "system_instructions", "input", "model_settings", "tools", "output_schema", "handoffs",
            "tracing",
        )  # fmt: skip
        values = [*args, *(kwargs[name] for name in names if name in kwargs)]
        usage = sdk.Usage(requests=1, input_tokens=3, output_tokens=2, total_tokens=5)
        usage.input_tokens_details.cached_tokens = 1
        return sdk.ModelResponse(output=self._reply(*values), usage=usage, response_id="r1")

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        del kwargs
        response = Response(
            id="r1",
            created_at=0,
            model="echo",
            object="response",
            output=self._reply(*args[:7]),
            tool_choice="auto",
            tools=[],
            parallel_tool_calls=True,
        )
        yield ResponseCompletedEvent(
            response=response, type="response.completed", sequence_number=1
        )


@pytest.mark.parametrize("output_type", [None, Reason])
@pytest.mark.parametrize("streams", [True, False])
async def test_a_model_of_the_sdk_gets_and_returns_its_objects(
    *, streams: bool, output_type: Any
) -> None:
    model: Any = Echo()
    agent: Any = AnyAgent(
        name="Desk",
        model=model,
        model_settings=ModelSettings(temperature=0.5, timeout=9.0),
        tools=[look_up, outlast.WebSearchTool()],
        handoffs=[Agent("Billing")],
        output_type=output_type,
    )
    options: Any = {"model": ScriptedModel(), "context": Case([])}
    if streams:
        result: Any = run_in_memory_streamed(agent, "Hello", **options)
        _ = [event async for event in result.stream_events()]
    else:
        result = await run_in_memory(agent, "Hello", **options)
        assert (result.usage.requests, result.usage.total_tokens) == (2, 10)
        assert result.usage.cached_tokens == 2
        assert result.last_response_id == "r1"
    assert result.final_output == (Reason(why="done") if output_type else "Done.")
    assert model.seen == [(0.5, ["look_up", "web_search"], 1), (0.5, ["look_up", "web_search"], 3)]


async def test_a_provider_of_the_sdk_finds_models_of_the_sdk() -> None:
    class Provider(sdk.ModelProvider):
        def get_model(self, model_name: str | None) -> sdk.Model:
            assert model_name == "echo"
            return Echo()

    config: Any = RunConfig(model_provider=Provider(), model="echo")
    agent: Any = AnyAgent(name="Desk", tools=[look_up])
    options: Any = {"model": ScriptedModel(), "context": Case([]), "run_config": config}
    with pytest.raises(outlast.MaxTurnsExceeded):  # a new one for each call
        await run_in_memory(agent, "Hello", max_turns=2, **options)


async def test_a_models_mistake_is_not_repeated() -> None:
    class Broken(sdk.Model):
        calls = 0

        async def get_response(self, *_: Any, **__: Any) -> Any:
            self.calls += 1
            raise sdk.ModelBehaviorError("odd")

        def stream_response(self, *_: Any, **__: Any) -> Any: ...

    model: Any = Broken()
    with pytest.raises(Exception, match="odd"):
        await run_in_memory(AnyAgent(name="Desk", model=model), "Hello", model=ScriptedModel())
    assert model.calls == 1


# --- What is refused ------------------------------------------------------------------------------

THEIRS: Any = sdk.Agent(name="Theirs")


@pytest.mark.parametrize(
    "use",
    [
        lambda: AnyAgent(name="Desk", handoffs=[THEIRS]),
        lambda: AnyAgent(name="Desk", tools=[THEIRS]),
        lambda: AnyAgent(name="Desk", handoffs=[sdk.handoff(THEIRS)]),
        lambda: handoff(THEIRS),
        lambda: Registry([THEIRS]),
        lambda: Runner.run_sync(THEIRS, "Hello"),
        lambda: Registry([_appended(THEIRS)]),
    ],
    ids=["handoffs", "tools", "sdk.handoff", "handoff", "registry", "run_sync", "appended"],
)
def test_an_agent_of_the_sdk_is_refused_at_once(use: Any) -> None:
    with pytest.raises(UserError, match=rf"'Theirs' {OF_THE_SDK}.*from outlast import Agent"):
        use()


def _appended(agent: Any) -> Any:
    desk = Agent[Any](name="Desk")
    desk.handoffs.append(agent)
    return desk


async def test_an_agent_of_the_sdk_starts_no_run() -> None:
    for start in (Runner.run, Runner.start):
        with pytest.raises(UserError, match=OF_THE_SDK):
            await start(THEIRS, "Hello")
    with pytest.raises(UserError, match=OF_THE_SDK):
        Runner.run_streamed(THEIRS, "Hello")
    with pytest.raises(UserError, match=OF_THE_SDK):
        await Runner.attach("run-1", agent=THEIRS)
    with pytest.raises(UserError, match=OF_THE_SDK):
        await run_in_memory(THEIRS, "Hello", model=ScriptedModel("Never."))


def test_an_agent_of_the_sdk_as_a_tool_is_refused() -> None:
    with pytest.raises(UserError, match=r"'ask' is an agent of the OpenAI Agents SDK.*as_tool"):
        AnyAgent(name="Desk", tools=[THEIRS.as_tool("ask", "Ask.")])


async def test_a_handoff_that_picks_an_agent_of_the_sdk_ends_the_run() -> None:
    async def pick(_ctx: Any, _arguments: str) -> Any:
        return THEIRS

    entry = sdk.Handoff("go", "Go.", {}, pick, "Somebody")
    with pytest.raises(UserError, match=OF_THE_SDK):
        await run(AnyAgent(name="Desk", handoffs=[entry]), [call("go", "h1")], "Never.")


def test_a_run_config_of_the_sdk_says_what_to_do() -> None:
    with pytest.raises(UserError, match=r"RunConfig of the OpenAI .*from outlast import RunConfig"):
        Runner.run_sync(Agent("Desk"), "Hello", run_config=cast("Any", sdk.RunConfig()))


def test_other_kinds_of_the_sdks_agents_are_agents_too() -> None:
    assert installed_sdk.is_sdk_agent(sdk_realtime.RealtimeAgent(name="Voice"))
    assert not installed_sdk.is_sdk_agent(Agent("Desk"))


# --- Whether it is there --------------------------------------------------------------------------


def test_another_package_of_that_name_is_not_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    own = ModuleType("agents")
    monkeypatch.setitem(sys.modules, "agents", own)
    assert installed_sdk.sdk() is None
    assert installed_sdk.sdk_names(look_up) == frozenset()
    monkeypatch.delitem(sys.modules, "agents")
    assert installed_sdk.sdk() is None


def test_outlast_does_not_import_the_sdk() -> None:
    code = (
        "import sys; from outlast import Agent, Runner, function_tool, ModelSettings;"
        "Agent('A', model_settings=ModelSettings()); print('agents' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
