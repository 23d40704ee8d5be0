"""What can be said to a run."""

from typing import Any

import pytest
from openai.types.responses import (
    ResponseInputItemParam,
    ResponseOutputMessage,
    ResponseOutputText,
)
from pydantic import TypeAdapter

from outlast.agents.errors import UserError
from outlast.client.transport.messages import check_choice, check_input
from outlast.loop.actions import CancelMode


@pytest.mark.parametrize(
    "given", ["Hello", "", "\ud800", [], [{"role": "user", "content": "Hello"}], [{}, {"a": None}]]
)
def test_texts_and_lists_of_items_can_be_said(given: Any) -> None:
    assert check_input(given) == given


def test_typed_items_are_said_as_plain_data() -> None:
    part = ResponseOutputText(type="output_text", text="Hello", annotations=[])
    message = ResponseOutputMessage(
        id="m", type="message", role="assistant", status="completed", content=[part]
    )
    written = message.model_dump(exclude_unset=True)
    items = TypeAdapter(list[ResponseInputItemParam]).validate_python([written])
    said = check_input([message, *items])
    assert said == [written, written]


CIRCLE: dict[str, Any] = {}
CIRCLE["self"] = CIRCLE


@pytest.mark.parametrize(
    "given", [None, 5, b"Hello", {"role": "user"}, ["Hello"], [None], ("a",), ["x" * 10**6]]
)
def test_what_is_neither_is_refused_in_few_words(given: Any) -> None:
    with pytest.raises(UserError, match="must be a string or a list of items") as caught:
        check_input(given)
    assert len(caught.value.message) < 200


@pytest.mark.parametrize("given", [[{"a": object()}], [{"a": b"x"}], [{"a": {1, 2}}], [CIRCLE]])
def test_what_cannot_travel_is_refused(given: Any) -> None:
    with pytest.raises(UserError, match=r"must be plain data \(JSON\)"):
        check_input(given)


@pytest.mark.parametrize("mode", [None, "soon", True, ["immediate"]])
def test_a_way_to_cancel_is_one_of_two(mode: object) -> None:
    check_choice("cancel(mode=...)", "immediate", CancelMode)
    check_choice("cancel(mode=...)", "after_turn", CancelMode)
    with pytest.raises(UserError, match=r"^cancel\(mode=\.\.\.\) must be"):
        check_choice("cancel(mode=...)", mode, CancelMode)
