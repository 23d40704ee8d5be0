"""Members of items, usages, contexts and errors that descriptions of the interface name."""

from typing import Any, cast

import pytest

from outlast import (
    Agent,
    GuardrailFunctionOutput,
    HandoffCallItem,
    InputGuardrailTripwireTriggered,
    ItemHelpers,
    MessageOutputItem,
    OutputGuardrailTripwireTriggered,
    RunContextWrapper,
    RunResult,
    ToolCallItem,
    ToolCallOutputItem,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailTripwireTriggered,
    Usage,
    UserError,
    function_tool,
    handoff,
    input_guardrail,
    tool_input_guardrail,
)
from outlast.loop import values
from outlast.loop.call_forms import output_item
from outlast.testing import (
    ScriptedModel,
    call,
    computer_call,
    custom_call,
    run_in_memory,
    say,
    shell_call,
)


def test_usages_can_be_added() -> None:
    one = Usage(requests=1, input_tokens=3, total_tokens=3)
    two = Usage(requests=1, output_tokens=2, total_tokens=2)
    both = one + two
    assert (both.requests, both.input_tokens, both.total_tokens) == (2, 3, 5)
    assert (one.requests, two.requests) == (1, 1)
    assert sum([one, two]) == both
    assert (one + values.Usage(requests=1)).requests == 2
    with pytest.raises(TypeError):
        _ = cast("Any", one) + 1
    with pytest.raises(TypeError):
        _ = 1 + cast("Any", one)


async def test_a_result_lists_all_of_its_items() -> None:
    @function_tool
    def look(what: str) -> str:
        return f"seen {what}"

    billing = Agent[Any](name="Billing", tools=[look])
    desk = Agent[Any](
        name="Desk", handoffs=[billing, handoff(Agent(name="C"), tool_name_override="c")]
    )
    model = ScriptedModel(
        [call("transfer_to_billing", "c1")], [call("look", "c2", what="it")], "Hi."
    )
    result = await run_in_memory(desk, "Hello", model=model)
    assert [item.type for item in result.all_items] == [
        "input_item",
        "handoff_call_item",
        "handoff_output_item",
        "tool_call_item",
        "tool_call_output_item",
        "message_output_item",
    ]
    first, over, _, called, output, said = result.all_items
    assert first.get("content") == "Hello"
    assert (over.get("type"), over.get("nothing", 3)) == ("function_call", 3)
    assert isinstance(over, HandoffCallItem)
    assert over.target_agent is billing
    assert isinstance(called, ToolCallItem)
    assert called.arguments == '{"what": "it"}'
    assert isinstance(output, ToolCallOutputItem)
    assert output.success is None
    assert isinstance(said, MessageOutputItem)
    assert (said.role, said.content[0].text) == ("assistant", "Hi.")
    assert ItemHelpers.collect_all_items(result, result) == result.all_items * 2
    assert ItemHelpers.user_input_item("Hello") == {"content": "Hello", "role": "user"}
    raw = result.raw_responses[-1].raw_response
    assert (raw["id"], raw["output"], raw["usage"]) == ("resp_3", say("Hi."), None)


async def test_the_target_of_a_handoff_is_found_by_the_name_of_its_tool() -> None:
    target = Agent[Any](name="C")
    desk = Agent[Any](name="Desk", handoffs=[handoff(target, tool_name_override="escalate")])
    result = await run_in_memory(
        desk, "Hello", model=ScriptedModel([call("escalate", "c1")], "Hi.")
    )
    (over,) = (item for item in result.new_items if isinstance(item, HandoffCallItem))
    assert over.target_agent is target
    assert HandoffCallItem(agent=desk, raw_item=call("escalate", "c1")).target_agent is None


def test_a_result_that_a_test_made_has_all_items_too() -> None:
    said = MessageOutputItem(agent=None, raw_item=say("Hi.")[0])
    result: Any = RunResult(input="Hello", new_items=[said], final_output="Hi.")
    assert [item.type for item in result.all_items] == ["input_item", "message_output_item"]


@pytest.mark.parametrize(
    ("raw", "arguments"),
    [
        (custom_call("sql", "c1", "SELECT 1"), "SELECT 1"),
        (computer_call("c1"), '{"actions":[],"pending_safety_checks":[]}'),
        ({"type": "web_search_call", "id": "w1"}, None),
    ],
)
def test_the_arguments_of_a_call_of_any_form(raw: Any, arguments: str | None) -> None:
    assert ToolCallItem(agent=None, raw_item=raw).arguments == arguments


@pytest.mark.parametrize(
    ("raw", "success"),
    [
        (output_item("c1", "Rejected.", "shell_call"), False),
        (
            {
                "type": "shell_call_output",
                "output": [{"outcome": {"type": "exit", "exit_code": 0}}],
            },
            True,
        ),
        ({"type": "shell_call_output", "output": [{"outcome": {"type": "timeout"}}]}, False),
        (output_item("c1", "No file.", "apply_patch_call"), False),
        ({"type": "apply_patch_call_output", "status": "completed"}, True),
        (output_item("c1", "An error occurred."), None),
    ],
)
def test_an_output_says_whether_it_succeeded_where_its_form_does(
    raw: Any, success: bool | None
) -> None:
    assert ToolCallOutputItem(agent=None, raw_item=raw, output="").success is success


def test_a_message_without_parts_has_its_text_as_content() -> None:
    raw = {"type": "message", "role": "assistant", "content": "Hi."}
    message = MessageOutputItem(agent=None, raw_item=raw)
    assert (message.role, message.content) == ("assistant", ["Hi."])
    assert shell_call("c1", "ls")["type"] == "shell_call"


async def test_a_tripwire_names_its_guardrail() -> None:
    @input_guardrail
    def no_spam(_context: Any, _agent: Any, _input: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(None, tripwire_triggered=True)

    @tool_input_guardrail
    def no_tools(_data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.raise_exception()

    @function_tool(tool_input_guardrails=[no_tools])
    def look() -> str:
        return ""

    agent = Agent[Any](name="A", input_guardrails=[no_spam])
    with pytest.raises(InputGuardrailTripwireTriggered) as caught:
        await run_in_memory(agent, "Hello", model=ScriptedModel("Hi."))
    assert caught.value.guardrail_name == "no_spam"
    agent = Agent[Any](name="A", tools=[look])
    with pytest.raises(ToolInputGuardrailTripwireTriggered) as of_tool:
        await run_in_memory(agent, "Hello", model=ScriptedModel([call("look", "c1")]))
    assert of_tool.value.guardrail_name == "no_tools"
    assert OutputGuardrailTripwireTriggered("x").guardrail_name is None
    assert ToolInputGuardrailTripwireTriggered("x").guardrail_name is None


def test_a_context_that_is_a_dict_has_get_set_and_delete() -> None:
    context = RunContextWrapper[Any]({"user": "ann"})
    context.set("n", 1)
    context.delete("user")
    context.delete("user")
    assert (context.context, context.get("n"), context.get("user", "?")) == ({"n": 1}, 1, "?")
    with pytest.raises(
        UserError, match="of type Agent and not a dict: read and set its attributes"
    ):
        RunContextWrapper[Any](Agent(name="A")).get("name")
