"""A typical user program; `test_user_types` and the lint check its types in strict mode."""

from dataclasses import dataclass
from typing import Any, assert_type

from pydantic import BaseModel

from outlast import (
    Agent,
    AgentHookContext,
    AsyncComputer,
    ComputerProvider,
    ComputerTool,
    FunctionTool,
    FunctionToolResult,
    GuardrailFunctionOutput,
    Handoff,
    InputGuardrail,
    ItemHelpers,
    MessageOutputItem,
    Model,
    ModelProvider,
    ModelResponse,
    OpenAIProvider,
    OutputGuardrail,
    RunConfig,
    RunContextWrapper,
    RunHooks,
    Runner,
    RunResult,
    RunState,
    Session,
    SQLiteSession,
    Tool,
    ToolApprovalItem,
    ToolContext,
    ToolsToFinalOutputFunction,
    ToolsToFinalOutputResult,
    TResponseInputItem,
    Usage,
    function_tool,
    handoff,
    input_guardrail,
    output_guardrail,
)


@dataclass
class Desk:
    customer: str
    seen: int = 0


class Answer(BaseModel):
    text: str


class Reason(BaseModel):
    why: str


def show(*what: object) -> None: ...


class Screen(AsyncComputer): ...


def at_a_screen(computer: ComputerProvider[Screen] | AsyncComputer) -> Agent[Any]:
    return Agent(name="Browser", tools=[ComputerTool(computer=computer)])


@function_tool
async def look_up(ctx: RunContextWrapper[Desk], order: str) -> str:
    ctx.context.seen += 1
    return f"{order} of {ctx.context.customer}"


@function_tool(needs_approval=True, failure_error_function=None)
def refund(ctx: ToolContext[Desk], order: str) -> Answer:
    return Answer(text=f"{ctx.tool_call_id} {order}")


@input_guardrail
async def no_shouting(
    ctx: RunContextWrapper[Desk], agent: Agent[Desk], asked: str | list[TResponseInputItem]
) -> GuardrailFunctionOutput:
    shouts = isinstance(asked, str) and asked.isupper()
    return GuardrailFunctionOutput(output_info=agent.name, tripwire_triggered=shouts)


@output_guardrail(name="short")
def short(ctx: RunContextWrapper[Any], agent: Agent[Any], out: Answer) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=len(out.text) > 80)


class Counting(RunHooks[Desk]):
    def __init__(self) -> None:
        self.spent = Usage()

    async def on_agent_start(self, context: AgentHookContext[Desk], agent: Agent[Desk]) -> None:
        context.context.seen += len(context.turn_input)

    async def on_llm_end(
        self, context: RunContextWrapper[Desk], agent: Agent[Desk], response: ModelResponse
    ) -> None:
        self.spent.add(assert_type(response.usage, Usage))
        show([one.type for one in response.output], response.to_input_items())

    async def on_tool_end(
        self, context: RunContextWrapper[Desk], agent: Agent[Desk], tool: Tool, result: object
    ) -> None:
        show(tool.name, result)


class House(ModelProvider):
    def get_model(self, model_name: str | None) -> Model:
        return OpenAIProvider().get_model(model_name=model_name)


def last_one(
    ctx: RunContextWrapper[Desk], results: list[FunctionToolResult]
) -> ToolsToFinalOutputResult:
    return ToolsToFinalOutputResult(is_final_output=True, final_output=results[-1].output)


async def escalated(ctx: RunContextWrapper[Desk], reason: Reason) -> None:
    ctx.context.customer += reason.why


async def instructions(ctx: RunContextWrapper[Desk], agent: Agent[Desk]) -> str:
    return f"You are {agent.name}, for {ctx.context.customer}."


takes_last: ToolsToFinalOutputFunction[Desk] = last_one
orders = Agent[Desk](name="Orders", tools=[look_up, refund], tool_use_behavior=takes_last)
ways: list[Agent[Any] | Handoff[Any]] = [
    orders,
    handoff(orders, on_handoff=escalated, input_type=Reason),
]
triage = Agent[Desk](
    name="Triage",
    instructions=instructions,
    handoffs=ways,
    input_guardrails=[no_shouting],
    output_guardrails=[short],
    output_type=Answer,
    tools=[orders.as_tool("ask_orders", "Asks about orders.")],
)
orders.handoffs.append(triage)


def texts(result: RunResult) -> list[str]:
    return [
        ItemHelpers.text_message_output(item)
        for item in result.new_items
        if isinstance(item, MessageOutputItem)
    ]


def may(item: ToolApprovalItem) -> bool:
    return item.name == "refund" and item.arguments is not None


async def decided(state: RunState[Desk, Agent[Desk]]) -> RunState[Desk]:
    for item in state.get_interruptions():
        if may(item):
            state.approve(item, always_approve=True)
        else:
            state.reject(item, rejection_message="No.")
    return await RunState.from_json(triage, state.to_json())


async def ask(question: str, desk: Desk, session: Session | None = None) -> str:
    result = await Runner.run(
        triage,
        question,
        context=desk,
        hooks=Counting(),
        session=session or SQLiteSession("desk"),
        run_config=RunConfig(model_provider=House(), output_guardrails=[short]),
    )
    while result.interruptions:
        result = await Runner.run(triage, await decided(result.to_state()))
    again: list[TResponseInputItem] = [*result.to_input_list(), {"role": "user", "content": "And?"}]
    result = await Runner.run(result.last_agent, again, context=desk)
    responses: list[ModelResponse] = result.raw_responses
    assert_type(result, RunResult)
    show(len(responses), texts(result))
    return assert_type(result.final_output_as(Answer), Answer).text


async def follow(question: str) -> None:
    stream = Runner.run_streamed(triage, question, context=Desk("Ann"))
    async for event in stream.stream_events():
        if event.type == "raw_response_event":
            show(event.data.type)
        elif event.type == "agent_updated_stream_event":
            show(event.new_agent.name)
        elif event.type == "run_item_stream_event":
            if event.item.type == "message_output_item":
                show(ItemHelpers.text_message_output(event.item))
            elif event.item.type == "tool_call_output_item":
                show(event.name, event.item.output)


assert_type(look_up, FunctionTool)
assert_type(no_shouting, InputGuardrail[Desk])
assert_type(short, OutputGuardrail[Any])
