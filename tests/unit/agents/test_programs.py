"""Tools that the provider's programs call."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, cast

import pytest
from pydantic import BaseModel, Field

from outlast import (
    Agent,
    ApplyPatchTool,
    CodeInterpreterTool,
    CustomTool,
    FunctionTool,
    HostedMCPTool,
    ModelSettings,
    ProgrammaticToolCallingTool,
    Runner,
    RunState,
    ShellTool,
    ToolCallItem,
    ToolCallOutputItem,
    UserError,
    function_tool,
)
from outlast.models.openai.chat_request import UnsupportedItemError, chat_body, tool_choice
from outlast.models.openai.responses import responses_body
from outlast.ports.model import ModelRequest
from outlast.ports.model_arguments import function_specs
from outlast.testing import ScriptedModel, call, say


class Stock(BaseModel):
    sku: str
    units: int = Field(serialization_alias="available")


@dataclass
class Place:
    row: int


@function_tool(allowed_callers=["programmatic"])
def stock(sku: str) -> Stock:
    """Look up the stock."""
    return Stock(sku=sku, units=42)


RUNNER = ProgrammaticToolCallingTool()
PROGRAM = {"type": "program", "id": "i", "call_id": "p1", "code": "stock()", "fingerprint": "f"}
DONE = {"type": "program_output", "id": "o", "call_id": "p1", "result": "42", "status": "completed"}
CALLER = {"type": "program", "caller_id": "p1"}


def of_program(tool: str, call_id: str = "c1", **arguments: Any) -> Any:
    return {**call(tool, call_id, **arguments), "caller": CALLER}


def request_of(*tools: Any, **fields: Any) -> ModelRequest:
    functions = [tool for tool in tools if isinstance(tool, FunctionTool)]
    hosted = [tool for tool in tools if not isinstance(tool, FunctionTool)]
    return ModelRequest(
        instructions=None,
        input=[],
        tools=function_specs(functions, []),
        hosted_tools=hosted,
        hosted_positions=[at for at, tool in enumerate(tools) if tool in hosted],
        **fields,
    )


def test_the_provider_reads_who_may_call_a_tool_and_what_it_returns() -> None:
    choice = ModelSettings(tool_choice="programmatic_tool_calling")
    body = responses_body(request_of(RUNNER, stock, settings=choice), "m")
    assert body["tools"][0] == {"type": "programmatic_tool_calling"}
    assert body["tools"][1]["allowed_callers"] == ["programmatic"]
    schema = body["tools"][1]["output_schema"]
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["sku", "available"]
    assert body["tool_choice"] == {"type": "programmatic_tool_calling"}


class Editor:
    """An editor that does nothing."""

    def create_file(self, operation: Any) -> str:
        return str(operation)

    update_file = delete_file = create_file


def test_local_tools_may_be_for_programs_too() -> None:
    callers: Any = ["direct", "programmatic"]
    tools = [
        ShellTool(lambda _request: "", allowed_callers=callers),
        ApplyPatchTool(Editor(), allowed_callers=callers),
        CustomTool("sql", "", lambda _context, text: text, allowed_callers=callers),
    ]
    assert [tool.to_tool_param()["allowed_callers"] for tool in tools] == [callers] * 3


def place() -> Place:
    return Place(1)


def text() -> Annotated[str, "a text"]:
    return ""


def anything() -> Any:
    return 1


@pytest.mark.parametrize(
    ("function", "has_schema"), [(place, True), (text, False), (anything, False)]
)
def test_the_annotation_is_the_schema_if_it_is_an_object(
    function: Callable[..., Any], *, has_schema: bool
) -> None:
    tool = function_tool(function, allowed_callers=["programmatic"])
    assert (tool.output_json_schema is not None) == has_schema
    assert function_tool(function).output_json_schema is None


def later() -> Awaitable[Stock]: ...


def free() -> dict[str, Any]: ...


def numbers() -> list[int]: ...


CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize(
    ("function", "options", "problem"),
    [
        (later, {}, "return annotation must define a strict JSON object"),
        (free, {}, "return annotation must define a strict JSON object"),
        (numbers, {}, "return annotation must define a strict JSON object"),
        (anything, {"output_type": str}, "output_type must define a strict JSON object"),
        (anything, {"output_json_schema": {"type": "string"}}, "output_json_schema must define"),
        (
            anything,
            {"output_json_schema": {"type": "object", "additionalProperties": True}},
            "output_json_schema must define",
        ),
        (anything, {"output_json_schema": CLOSED, "output_type": Stock}, "cannot both be provided"),
        (anything, {"allowed_callers": []}, "allowed_callers must hold"),
        (anything, {"allowed_callers": ["direct", "direct"]}, "allowed_callers must hold"),
        (anything, {"allowed_callers": ["anybody"]}, "allowed_callers must hold"),
        (anything, {"allowed_callers": "direct"}, "allowed_callers must hold"),
    ],
)
def test_an_output_that_is_no_object_is_refused_when_the_tool_is_made(
    function: Callable[..., Any], options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UserError, match=problem):
        function_tool(function, **cast("Any", {"allowed_callers": ["programmatic"], **options}))


def test_hosted_tools_check_their_callers() -> None:
    entry: dict[str, Any] = {"type": "mcp", "server_label": "crm", "allowed_callers": ["nobody"]}
    with pytest.raises(UserError, match="HostedMCPTool: allowed_callers"):
        HostedMCPTool(entry)
    entry = {"type": "code_interpreter", "container": "auto", "allowed_callers": []}
    with pytest.raises(UserError, match="CodeInterpreterTool: allowed_callers"):
        CodeInterpreterTool(entry)


def test_chat_completions_refuses_them() -> None:
    with pytest.raises(UnsupportedItemError, match="only supported with OpenAI Responses"):
        chat_body(request_of(stock), model="m")
    choice = ModelSettings(tool_choice="programmatic_tool_calling")
    with pytest.raises(UnsupportedItemError, match="no tool_choice 'programmatic_tool_calling'"):
        tool_choice(choice)


@pytest.mark.usefixtures("program")
async def test_a_program_gets_the_outputs_of_its_calls() -> None:
    model = ScriptedModel([PROGRAM, of_program("stock", sku="A")], [DONE, *say("42 are left.")])
    agent = Agent(name="Shop", model=model, tools=[RUNNER, stock])

    result = await Runner.run(agent, "How many?")

    assert result.final_output == "42 are left."
    outputs = [item for item in result.new_items if isinstance(item, ToolCallOutputItem)]
    raw = outputs[0].to_input_item()
    assert json.loads(raw["output"]) == {"sku": "A", "available": 42}
    assert raw["caller"] == CALLER
    assert raw in model.requests[1].input
    assert outputs[1].output == "42"
    calls = [item for item in result.new_items if isinstance(item, ToolCallItem)]
    assert [type(item.raw_item).__name__ for item in calls] == [
        "Program",
        "ResponseFunctionToolCall",
    ]


@pytest.mark.usefixtures("program")
async def test_people_decide_about_a_programs_call_and_it_gets_the_rejection_as_an_object() -> None:
    @function_tool(allowed_callers=["programmatic"], needs_approval=True)
    def reserve(sku: str) -> Stock:
        raise AssertionError(sku)

    model = ScriptedModel([PROGRAM, of_program("reserve", sku="A")], [DONE, *say("Not reserved.")])
    agent = Agent(name="Shop", model=model, tools=[RUNNER, reserve])
    waiting = await Runner.run(agent, "Reserve one.")
    state = await RunState.from_json(agent, waiting.to_state().to_json())
    state.reject(state.get_interruptions()[0], rejection_message="Not today.")

    result = await Runner.run(agent, state)

    assert result.final_output == "Not reserved."
    (raw,) = [one for one in model.requests[1].input if "output" in one]
    assert json.loads(raw["output"]) == {"error": "Not today."}
    assert raw["caller"] == CALLER


@pytest.mark.usefixtures("program")
async def test_a_result_of_another_type_is_the_tools_failure() -> None:
    @function_tool(allowed_callers=["programmatic"], failure_error_function=None)
    def broken() -> Stock:
        return cast("Any", {"sku": "A", "units": "many"})

    model = ScriptedModel([PROGRAM, of_program("broken")])
    agent = Agent(name="Shop", model=model, tools=[RUNNER, broken])
    with pytest.raises(UserError, match="does not match its declared output type") as caught:
        await Runner.run(agent, "How many?")
    assert "many" not in str(caught.value)
