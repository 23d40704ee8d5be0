"""What a handoff's filter is given."""

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from outlast.agents.handoffs.input_data import HandoffInputData
from outlast.agents.items.run_items import InputItem

ITEM = InputItem(agent=None, raw_item={"role": "user", "content": "Hi"})


def test_it_cannot_be_changed_and_a_clone_can_differ() -> None:
    data = HandoffInputData(input_history="Hi", pre_handoff_items=(ITEM,), new_items=())
    assert (data.run_context, data.input_items) == (None, None)
    with pytest.raises(FrozenInstanceError):
        setattr(data, "new_items", (ITEM,))  # noqa: B010  the type checker refuses it, too
    clone = data.clone(new_items=(ITEM,), input_items=())
    assert (clone.new_items, clone.input_items, clone.input_history) == ((ITEM,), (), "Hi")
    assert data.new_items == ()


def test_a_clone_with_an_unknown_field_is_refused() -> None:
    data: Any = HandoffInputData(input_history=(), pre_handoff_items=(), new_items=())
    with pytest.raises(TypeError, match="items"):
        data.clone(items=())
