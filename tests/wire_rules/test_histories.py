"""What providers make themselves breaks no rule when it is sent back whole."""

from hypothesis import given

from outlast.models.openai.chat_request import chat_messages
from outlast.models.openai.responses import supported_items
from tests.wire_rules.histories import Item, histories
from tests.wire_rules.validator import faults


@given(histories())
def test_a_whole_history_keeps_the_rules_of_responses(items: list[Item]) -> None:
    sent = supported_items(items)
    assert faults({"model": "m", "input": sent}, "responses", history=items) == []


@given(histories(hosted=False))
def test_a_whole_history_keeps_the_rules_of_chat_completions(items: list[Item]) -> None:
    assert faults({"model": "m", "messages": chat_messages(None, items)}, "chat") == []
