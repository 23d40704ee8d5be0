"""The items of a run as programs see them."""

from dataclasses import replace
from typing import Any, get_args

import pytest

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.agents.items.run_items import (
    HandoffCallItem,
    HandoffOutputItem,
    InputItem,
    MessageOutputItem,
    RunItem,
    RunItemBase,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
    ToolSearchCallItem,
    ToolSearchOutputItem,
    raw_of,
)
from outlast.agents.items.tool_origin import ToolOrigin, ToolOriginType
from outlast.testing import shell_call

DESK = Agent[Any](name="Desk")
BILLING = Agent[Any](name="Billing")
CALL = {"type": "function_call", "name": "look_up", "call_id": "c1", "arguments": '{"a": 1}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "found"}
MESSAGE: dict[str, Any] = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hello.", "annotations": []}],
}


def test_the_types_are_those_that_programs_of_this_field_match_on() -> None:
    types = {kind.__name__: kind.__dataclass_fields__["type"].default for kind in get_args(RunItem)}
    assert types == {
        "InputItem": "input_item",
        "MessageOutputItem": "message_output_item",
        "ReasoningItem": "reasoning_item",
        "ToolCallItem": "tool_call_item",
        "ToolCallOutputItem": "tool_call_output_item",
        "HandoffCallItem": "handoff_call_item",
        "HandoffOutputItem": "handoff_output_item",
        "MCPListToolsItem": "mcp_list_tools_item",
        "MCPApprovalRequestItem": "mcp_approval_request_item",
        "MCPApprovalResponseItem": "mcp_approval_response_item",
        "ToolSearchCallItem": "tool_search_call_item",
        "ToolSearchOutputItem": "tool_search_output_item",
        "CompactionItem": "compaction_item",
        "ProviderItem": "provider_item",
        "ToolApprovalItem": "tool_approval_item",
    }


def test_a_tool_call_tells_its_name_and_id_and_what_is_known_of_the_tool() -> None:
    origin = ToolOrigin(ToolOriginType.FUNCTION)
    item = ToolCallItem(
        agent=DESK, raw_item=CALL, description="Looks up.", title="Look up", tool_origin=origin
    )
    assert (item.tool_name, item.call_id, item.raw_item.arguments) == ("look_up", "c1", '{"a": 1}')
    assert (item.description, item.title, item.tool_origin) == ("Looks up.", "Look up", origin)


def test_a_hosted_call_has_an_id_and_mostly_no_name() -> None:
    item = ToolCallItem(agent=DESK, raw_item={"type": "web_search_call", "id": "ws_1"})
    assert (item.tool_name, item.call_id) == (None, "ws_1")


def test_an_output_has_the_value_beside_what_the_model_reads() -> None:
    item = ToolCallOutputItem(agent=DESK, raw_item=OUTPUT, output={"id": 7})
    assert (item.output, item.raw_item["output"], item.call_id) == ({"id": 7}, "found", "c1")


def test_a_handoff_tells_both_agents() -> None:
    asked = HandoffCallItem(agent=DESK, raw_item={**CALL, "name": "transfer_to_billing"})
    done = HandoffOutputItem(agent=DESK, raw_item=OUTPUT, source_agent=DESK, target_agent=BILLING)
    assert asked.raw_item.name == "transfer_to_billing"
    assert (done.source_agent, done.target_agent) == (DESK, BILLING)


def test_the_input_for_a_model_is_a_dict_of_its_own() -> None:
    item = MessageOutputItem(agent=DESK, raw_item=MESSAGE)
    given = item.to_input_item()
    given["content"][0]["text"] = "changed"
    assert raw_of(item) is MESSAGE
    assert item.to_input_item() == MESSAGE
    assert item.raw_item.content[0].text == "Hello."


@pytest.mark.parametrize("kind", [ToolSearchCallItem, ToolSearchOutputItem])
def test_a_search_for_tools_is_sent_back_without_what_only_replies_have(kind: Any) -> None:
    raw = {"type": "tool_search_call", "id": "t", "created_by": "model"}
    assert kind(agent=DESK, raw_item=raw).to_input_item() == {"type": "tool_search_call", "id": "t"}


def test_an_item_keeps_its_agent_when_it_may_release_it() -> None:
    item = MessageOutputItem(agent=DESK, raw_item=MESSAGE)
    item.release_agent()
    assert item.agent is DESK


def test_items_are_equal_when_they_say_the_same_of_agents_of_the_same_name() -> None:
    item = ToolCallOutputItem(agent=DESK, raw_item=OUTPUT, output="found")
    same = ToolCallOutputItem(agent=Agent(name="Desk"), raw_item=dict(OUTPUT), output="found")
    assert item == same
    assert item != replace(item, agent=BILLING)
    assert item != replace(item, output="lost")
    assert item != replace(item, raw_item={**OUTPUT, "output": "lost"})
    assert MessageOutputItem(agent=DESK, raw_item=MESSAGE) != InputItem(DESK, MESSAGE)
    with pytest.raises(TypeError, match="unhashable"):
        hash(item)


def test_a_copy_with_another_raw_item_keeps_the_rest() -> None:
    item = ToolCallItem(agent=DESK, raw_item=CALL, title="Look up")
    copy = replace(item, raw_item={**CALL, "name": "search"})
    assert (copy.tool_name, copy.title, item.tool_name) == ("search", "Look up", "look_up")


def test_an_item_shows_what_it_says() -> None:
    shown = repr(InputItem(agent=None, raw_item={"role": "user", "content": "Hi"}))
    message = "{'role': 'user', 'content': 'Hi'}"
    assert shown == f"InputItem(agent=None, raw_item={message}, type='input_item')"
    shown = repr(ToolCallItem(agent=DESK, raw_item=CALL, title="Look up"))
    assert shown.startswith(
        f"ToolCallItem(agent={type(DESK).__name__}(name={DESK.name!r}), raw_item=ResponseFunctionToolCall("
    )
    assert shown.endswith(
        "type='tool_call_item', description=None, title='Look up', tool_origin=None)"
    )


def test_the_class_itself_has_no_raw_item() -> None:
    assert not hasattr(RunItemBase, "raw_item")


def test_an_approval_tells_the_call_that_waits() -> None:
    item = ToolApprovalItem(agent=DESK, raw_item=CALL, approval_id="a-1")
    assert (item.name, item.tool_name, item.qualified_name) == ("look_up", "look_up", "look_up")
    assert (item.arguments, item.call_id, item.approval_id) == ('{"a": 1}', "c1", "a-1")
    assert item.agent is DESK


def test_an_approval_may_name_the_tool_itself() -> None:
    item = ToolApprovalItem(agent=DESK, raw_item={**CALL, "namespace": "crm"}, tool_name="find")
    assert (item.name, item.tool_namespace, item.qualified_name) == ("find", "crm", "crm.find")


def test_an_approval_is_itself_and_no_other() -> None:
    item, twin = (ToolApprovalItem(agent=DESK, raw_item=CALL) for _ in range(2))
    assert item != twin
    assert len({item, twin, item}) == 2


def test_an_approval_is_no_input_for_a_model() -> None:
    with pytest.raises(UserError, match=r"'look_up' waits for a decision.*Leave ToolApprovalItem"):
        ToolApprovalItem(agent=DESK, raw_item=CALL).to_input_item()


def test_a_call_whose_kind_says_the_tool_names_it() -> None:
    call = shell_call("c1", "ls")
    assert ToolCallItem(agent=None, raw_item=call).tool_name == "shell"
    assert ToolApprovalItem(agent=None, raw_item=call).tool_name == "shell"
    assert ToolApprovalItem(agent=None, raw_item=call, tool_name="bash").tool_name == "bash"
