"""What can be said to a run."""

from typing import Any

import pytest

from outlast.agents.errors import UserError
from outlast.client.messages import check_cancel_mode, check_input


@pytest.mark.parametrize(
    "given", ["Hello", "", "\ud800", [], [{"role": "user", "content": "Hello"}], [{}, {"a": None}]]
)
def test_texts_and_lists_of_items_can_be_said(given: Any) -> None:
    check_input(given)


CIRCLE: dict[str, Any] = {}
CIRCLE["self"] = CIRCLE


@pytest.mark.parametrize(
    "given", [None, 5, b"Hello", {"role": "user"}, ["Hello"], [None], ("a",), ["x" * 10**6]]
)
def test_what_is_neither_is_refused_in_few_words(given: Any) -> None:
    with pytest.raises(UserError, match="is a text or a list of items") as caught:
        check_input(given)
    assert len(caught.value.message) < 200


@pytest.mark.parametrize("given", [[{"a": object()}], [{"a": b"x"}], [{"a": {1, 2}}], [CIRCLE]])
def test_what_cannot_travel_is_refused(given: Any) -> None:
    with pytest.raises(UserError, match="must be plain data, to travel"):
        check_input(given)


@pytest.mark.parametrize("mode", [None, "soon", True, ["immediate"]])
def test_a_way_to_cancel_is_one_of_two(mode: object) -> None:
    check_cancel_mode("immediate")
    check_cancel_mode("after_turn")
    with pytest.raises(UserError, match=r"^cancel\(mode=\.\.\.\) must be"):
        check_cancel_mode(mode)
