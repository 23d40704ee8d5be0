"""Doing on a computer what a model asks."""

import logging
from typing import Any

import pytest

from outlast.agents.errors import UserError
from outlast.extensions.machine.computer import act, action_problem
from tests.unit.extensions.machine.screens import AsyncScreen, Screen

URL = "data:image/png;base64,c2NyZWVu"
ACTIONS: list[Any] = [
    {"type": "click", "x": 1, "y": 2, "button": "left"},
    {"type": "double_click", "x": 1, "y": 2},
    {"type": "scroll", "x": 1, "y": 2, "scroll_x": 0, "scroll_y": 9},
    {"type": "type", "text": "Hi"},
    {"type": "wait"},
    {"type": "move", "x": 3, "y": 4},
    {"type": "keypress", "keys": ["CTRL", "A"]},
    {"type": "drag", "path": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]},
]
DONE = [
    ("click", 1, 2, "left", None),
    ("double_click", 1, 2),
    ("scroll", 1, 2, 0, 9),
    ("type", "Hi"),
    "wait",
    ("move", 3, 4),
    ("keypress", "CTRL", "A"),
    ("drag", (1, 2), (3, 4)),
    "screenshot",
]


async def test_actions_are_done_in_order_and_then_the_screen_is_looked_at() -> None:
    screen, other = Screen(), AsyncScreen()
    assert await act(screen, ACTIONS) == URL
    assert await act(other, ACTIONS) == URL
    assert screen.done == other.screen.done == DONE


@pytest.mark.parametrize(
    ("kinds", "looks"), [([], 1), (["screenshot"], 1), (["screenshot", "wait"], 2)]
)
async def test_the_last_look_is_the_answer(kinds: list[str], looks: int) -> None:
    screen = Screen()
    assert await act(screen, [{"type": kind} for kind in kinds]) == URL
    assert screen.done.count("screenshot") == looks


async def test_a_picture_may_be_a_url_already() -> None:
    assert await act(Screen("data:image/jpeg;base64,eA=="), []) == "data:image/jpeg;base64,eA=="


@pytest.mark.parametrize("picture", [None, "", b"png"])
async def test_a_computer_without_a_picture_is_a_mistake(picture: Any) -> None:
    with pytest.raises(UserError, match=r"Screen\.screenshot\(\) returned"):
        await act(Screen(picture), [])


async def test_keys_are_held_where_the_computer_can(caplog: pytest.LogCaptureFixture) -> None:
    screen = Screen()
    held = {"keys": ["SHIFT"]}
    with caplog.at_level(logging.WARNING):
        await act(screen, [{**ACTIONS[0], **held}, {**ACTIONS[1], **held}])
    assert screen.done[:2] == [("click", 1, 2, "left", ["SHIFT"]), ("double_click", 1, 2)]
    assert "Screen.double_click() has no parameter keys=" in caplog.text
    assert "click(), " not in caplog.text


@pytest.mark.parametrize(
    ("action", "problem"),
    [
        (ACTIONS[0], None),
        ({"type": "screenshot"}, None),
        ({"type": "click", "x": 1}, "The computer action 'click' lacks y, button."),
        ({"type": "lick"}, "A computer has no action 'lick'."),
        ({}, "A computer has no action 'None'."),
    ],
)
def test_an_action_has_all_that_it_needs(action: Any, problem: str | None) -> None:
    told = action_problem([action])
    assert told == problem if problem is None else problem in str(told)


def test_a_computer_need_not_say_what_it_is() -> None:
    assert (Screen().environment, Screen().dimensions) == (None, None)
