"""Agents as tools: what a call may say, and what the nested run is asked."""

import json
from dataclasses import dataclass, replace
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, RootModel, field_validator

from outlast.agents.agent import Agent
from outlast.agents.agent_tools.agent_tool import (
    AgentTool,
    arguments_of,
    nested_input,
)
from outlast.agents.agent_tools.input import StructuredToolInputBuilderOptions
from outlast.agents.config.run_config import RunConfig
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import ModelBehaviorError, UserError
from outlast.agents.hooks import AgentHooks, RunHooks
from outlast.agents.schemas.provider_names import name_from
from outlast.agents.tools.definition import (
    FunctionTool,
    default_tool_error,
)


class Translation(BaseModel):
    """What to translate."""

    text: Annotated[str, Field(description="What is said.")]
    language: str = "Spanish"


@dataclass
class Order:
    order_id: str
    count: int = 1


class Picky(BaseModel):
    text: str

    @field_validator("text")
    @classmethod
    def refuse(cls, text: str) -> str:
        raise LookupError(text)


def translator(**options: Any) -> AgentTool:
    agent = Agent[Any](name="Trans Lator-2", handoff_description="Translates.")
    return agent.as_tool(**options)


def test_an_agent_is_a_tool_with_one_text() -> None:
    tool = translator()
    assert isinstance(tool, FunctionTool)
    assert (tool.name, tool.description) == ("trans_lator_2", "Translates.")
    assert tool.params_json_schema == {
        "type": "object",
        "properties": {"input": {"type": "string"}},
        "required": ["input"],
        "additionalProperties": False,
    }
    assert tool.agent.name == "Trans Lator-2"
    assert tool.max_turns == 10
    assert (tool.needs_approval, tool.is_enabled, tool.fast) == (False, True, None)
    assert tool.failure_error_function is default_tool_error
    assert (tool.run_config, tool.hooks, tool.session) == (None, None, None)
    assert tool.retry.attempts == 1


def gate(context: object, arguments: object, call_id: object) -> bool:
    return True


def offered(context: object, agent: object) -> bool:
    return True


def extract(result: Any) -> str:
    return str(result)


def build(options: StructuredToolInputBuilderOptions) -> str:
    return json.dumps(options)


async def build_items(options: StructuredToolInputBuilderOptions) -> list[dict[str, Any]]:
    return [{"role": "user", "content": options["params"]["text"]}]


class Watching(RunHooks[Any]):
    """Hooks of a nested run."""


def test_every_option_lands_in_the_tool() -> None:
    hooks = Watching()
    tool = translator(
        tool_name="translate",
        tool_description="",
        custom_output_extractor=extract,
        is_enabled=offered,
        run_config={"model": "gpt-5"},
        max_turns=3,
        hooks=hooks,
        conversation_id="conv_1",
        previous_response_id="resp_1",
        failure_error_function=None,
        needs_approval=gate,
        parameters=Translation,
        input_builder=build,
        include_input_schema=True,
    )
    assert (tool.name, tool.description, tool.max_turns) == ("translate", "", 3)
    assert (tool.custom_output_extractor, tool.is_enabled) == (extract, offered)
    assert (tool.run_config, tool.hooks) == (RunConfig(model="gpt-5"), hooks)
    assert (tool.conversation_id, tool.previous_response_id) == ("conv_1", "resp_1")
    assert (tool.failure_error_function, tool.needs_approval) == (None, gate)
    assert (tool.parameters, tool.input_builder) == (Translation, build)
    assert replace(tool, max_turns=4).agent is tool.agent


@pytest.mark.parametrize(
    ("name", "slug"), [("Billing Desk", "billing_desk"), ("a-b.c", "a_b_c"), ("Prüfer", "pr_fer")]
)
def test_a_tools_name_is_the_agents_as_far_as_that_goes(name: str, slug: str) -> None:
    assert name_from(name) == slug


async def test_one_text_is_the_input() -> None:
    assert await nested_input(translator(), '{"input": "hola\\n"}') == "hola\n"


async def test_structured_arguments_are_told_as_json_with_what_describes_them() -> None:
    text = await nested_input(translator(parameters=Translation), '{"text": "hi ü"}')
    assert isinstance(text, str)
    assert '"text": "hi ü"' in text
    assert '"language": "Spanish"' in text, "the default is filled in"
    assert "- text: What is said." in text
    assert "Schema" not in text


async def test_structured_arguments_may_come_with_their_schema() -> None:
    tool = translator(parameters=Order, include_input_schema=True)
    text = await nested_input(tool, '{"order_id": "A-17", "count": 2}')
    assert isinstance(text, str)
    assert '"order_id": "A-17"' in text
    assert '"additionalProperties": false' in text


async def test_arguments_without_descriptions_are_their_json() -> None:
    tool = translator(parameters=Order)
    assert await nested_input(tool, '{"order_id": "A-17"}') == '{"order_id": "A-17", "count": 1}'


async def test_a_builder_is_given_the_arguments_and_what_is_known_of_them() -> None:
    tool = translator(parameters=Translation, input_builder=build, include_input_schema=True)
    options = json.loads(str(await nested_input(tool, '{"text": "hi", "language": "Thai"}')))
    assert options["params"] == {"text": "hi", "language": "Thai"}
    assert options["json_schema"] == tool.params_json_schema
    assert "What is said." in options["summary"]
    plain = json.loads(str(await nested_input(translator(input_builder=build), '{"input": "x"}')))
    assert plain == {"params": {"input": "x"}, "summary": None, "json_schema": None}


async def test_a_builder_may_be_async_and_make_items() -> None:
    tool = translator(parameters=Translation, input_builder=build_items)
    assert await nested_input(tool, '{"text": "hi"}') == [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize("built", [None, 5, ["text"], {"role": "user"}])
async def test_a_builder_that_makes_something_else_is_an_error(built: Any) -> None:
    def confused(options: object) -> Any:
        return built

    with pytest.raises(UserError, match="'trans_lator_2': input_builder must return a string or a"):
        await nested_input(translator(input_builder=confused), '{"input": "x"}')


@pytest.mark.parametrize(
    ("parameters", "arguments", "problem"),
    [
        (None, '{"input": "x"}', None),
        (None, "{", "Invalid JSON input for tool"),
        (None, "[1]", "expected a JSON object"),
        (None, '{"input": "\\ud800"}', "Invalid JSON input for tool"),
        (None, '{"input": NaN}', "Invalid JSON input for tool"),
        (None, "", "expected an object with one key, input, a string"),
        (None, '{"input": 5}', "input, a string"),
        (None, '{"input": "x", "more": 1}', "one key"),
        (Translation, '{"text": "x"}', None),
        (Translation, "", ": text is required"),
        (Order, '{"order_id": "A", "count": "many"}', "count: Input should be a valid integer"),
        (Picky, '{"text": "secret"}', r"could not be checked \(LookupError\)"),
    ],
)
async def test_arguments_are_checked_in_words_for_the_model(
    parameters: Any, arguments: str, problem: str | None
) -> None:
    tool = translator(parameters=parameters)
    assert tool.validate is not None
    said = tool.validate(arguments)
    if problem is None:
        assert said is None
        return
    with pytest.raises(ModelBehaviorError, match=problem):
        await nested_input(tool, arguments)
    assert said is not None
    assert "secret" not in said


def test_the_arguments_are_there_as_json() -> None:
    assert arguments_of(translator(), '{"input": "x"}') == {"input": "x"}
    assert arguments_of(translator(parameters=Order), '{"order_id": "A"}') == {
        "order_id": "A",
        "count": 1,
    }


def context_of(tool: FunctionTool, arguments: str) -> ToolContext[Any]:
    return ToolContext(
        context=None, tool_name=tool.name, tool_call_id="c", tool_arguments=arguments
    )


async def test_only_a_run_calls_the_tool() -> None:
    tool = Agent(name="Translator").as_tool("translate", None)
    with pytest.raises(UserError, match="'translate' runs an agent, and only a run can call it"):
        await tool.on_invoke_tool(context_of(tool, "{}"), "{}")


def takes_two(a: object, b: object) -> Any:
    return a, b


class Numbers(RootModel[list[int]]):
    """No fields."""


class AgentWatch(AgentHooks[Any]):
    """Hooks of an agent."""


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_turns": 0}, "max_turns must be a whole number from 1, not 0"),
        ({"max_turns": True}, "max_turns must be a whole number, not True"),
        ({"custom_output_extractor": takes_two}, r"custom_output_extractor is called with \(resu"),
        ({"input_builder": takes_two}, r"input_builder is called with \(options\)"),
        ({"needs_approval": "yes"}, "needs_approval must be callable"),
        ({"is_enabled": extract}, "is_enabled is called with"),
        ({"hooks": AgentWatch()}, "Run hooks must be .*RunHooks"),
        ({"on_stream": takes_two}, r"on_stream is called with \(event\), but takes_two takes"),
        ({"on_stream": 5}, r"on_stream must be callable with \(event\), not int"),
        ({"on_stream_max_pending_events": 0}, "on_stream_max_pending_events must be a whole numb"),
        ({"on_stream_max_pending_events": True}, "on_stream_max_pending_events must be .* True"),
        ({"colour": 1}, "as_tool has no option colour. Its options are on_stream, run_config"),
        ({"parameters": {"text": "string"}}, "parameters must be a type with named fields"),
        ({"parameters": int}, "parameters must be a type with named fields. Use a py"),
        ({"parameters": Numbers}, "parameters must be a type with named fields. Use a py"),
        ({"session": "customer-7"}, r"The session of type str has no method get_items\(\)"),
        ({"session": object(), "conversation_id": "c"}, "session and conversation_id exclude each"),
    ],
)
def test_a_mistake_is_found_where_it_is_made_and_names_the_tool(
    options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UserError, match=f"^Tool 'trans_lator_2': {problem}"):
        translator(**options)


@pytest.mark.parametrize("run_config", [5, {"max_turns": 3}])
def test_settings_of_the_nested_run_are_checked(run_config: Any) -> None:
    with pytest.raises(UserError, match=r"run_config= must be a RunConfig|Pass it to Runner.run"):
        translator(run_config=run_config)


def test_an_agents_name_that_makes_no_tools_name_needs_another() -> None:
    with pytest.raises(UserError, match="A tool's name must be 1 to 64 letters"):
        Agent[Any](name="a" * 65).as_tool()
    assert Agent[Any](name="a" * 65).as_tool(tool_name="short").name == "short"
