"""The tool with which a model uses a computer."""

import logging
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import RunContextWrapper, ToolContext
from outlast.agents.errors import UserError
from outlast.extensions.machine.computer_tool import (
    LARGEST_SCREENSHOT_BYTES,
    ComputerTool,
    ComputerToolSafetyCheckData,
    resolve_computer,
)
from outlast.loop.call_forms import arguments_of
from outlast.testing import computer_call
from tests.unit.extensions.machine.screens import Screen

CLICK = {"type": "click", "x": 1, "y": 2, "button": "left"}
CHECKS = [
    {"id": "s1", "code": "malicious_instructions", "message": "Look."},
    {"id": "s2", "code": "irrelevant_domain", "message": "Look here."},
]
SHOT = {"type": "computer_screenshot", "image_url": "data:image/png;base64,c2NyZWVu"}
DESK = Agent(name="Desk")


class Described(Screen):
    """A computer that says what it is."""

    @property
    def environment(self) -> Any:
        return "browser"

    @property
    def dimensions(self) -> tuple[int, int]:
        return (800, 600)


def context() -> ToolContext[Any]:
    return ToolContext[Any](
        context=None,
        tool_name="computer",
        tool_call_id="c1",
        tool_arguments="",
        agent=DESK,
    )


async def test_a_call_does_one_thing_or_several() -> None:
    screen = Screen()
    tool = ComputerTool(screen)
    assert await tool.on_invoke_tool(context(), arguments_of(computer_call("c1", CLICK))) == {
        "output": SHOT
    }
    older: Any = {"type": "computer_call", "action": {"type": "wait"}, "pending_safety_checks": []}
    assert await tool.on_invoke_tool(context(), arguments_of(older)) == {"output": SHOT}
    assert screen.done == [("click", 1, 2, "left", None), "screenshot", "wait", "screenshot"]


async def test_each_warning_is_looked_at_before_anything_is_done() -> None:
    screen, seen = Screen(), list[ComputerToolSafetyCheckData]()

    async def look(data: ComputerToolSafetyCheckData) -> bool:
        assert screen.done == []
        seen.append(data)
        return True

    tool = ComputerTool(screen, look)
    call = arguments_of(computer_call("c1", CLICK, checks=CHECKS))
    read = await tool.on_invoke_tool(context(), call)
    assert read == {"output": SHOT, "acknowledged_safety_checks": CHECKS}
    assert [one.safety_check.message for one in seen] == ["Look.", "Look here."]
    assert seen[0].agent is DESK
    assert seen[0].tool_call.call_id == "c1"
    assert isinstance(seen[0].ctx_wrapper, ToolContext)


async def test_a_no_to_one_warning_is_enough() -> None:
    screen = Screen()
    tool = ComputerTool(screen, lambda data: data.safety_check.id == "s1")
    with pytest.raises(
        UserError, match="on_safety_check refused a call of the computer: Look here"
    ):
        await tool.on_invoke_tool(
            context(), arguments_of(computer_call("c1", CLICK, checks=CHECKS))
        )
    assert screen.done == []


async def test_without_anybody_to_look_the_provider_is_told_of_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        read = await ComputerTool(Screen()).on_invoke_tool(
            context(), arguments_of(computer_call("c1", CLICK, checks=CHECKS))
        )
    assert read == {"output": SHOT}
    assert "malicious_instructions" in caplog.text


async def test_a_picture_that_history_cannot_hold_is_refused() -> None:
    tool = ComputerTool(Screen("x" * LARGEST_SCREENSHOT_BYTES))
    with pytest.raises(UserError, match="Return a smaller picture"):
        await tool.on_invoke_tool(context(), arguments_of(computer_call("c1")))


def test_newer_models_are_told_of_a_computer_and_older_ones_of_its_screen() -> None:
    tool = ComputerTool(Described())
    assert tool.to_tool_param() == tool.param_for("gpt-5.4") == tool.param_for(None)
    assert tool.to_tool_param() == {"type": "computer"}
    assert tool.param_for("computer-use-preview") == {
        "type": "computer_use_preview",
        "environment": "browser",
        "display_width": 800,
        "display_height": 600,
    }


def describe(*, run_context: Any) -> Described:
    del run_context
    return Described()


@pytest.mark.parametrize("computer", [Screen(), describe])
def test_an_older_model_has_to_be_told(computer: Any) -> None:
    with pytest.raises(UserError, match="requires the size of the screen"):
        ComputerTool(computer).param_for("computer-use-preview")


def test_no_words_fit_so_a_failure_ends_the_run() -> None:
    tool = ComputerTool(Screen())
    assert (tool.failure_error_function, tool.retry.attempts) == (None, 1)
    assert (tool.name, tool.called_name) == ("computer_use_preview", "computer")


def test_a_rule_is_asked_about_the_actions() -> None:
    call = arguments_of(computer_call("c1", CLICK))
    assert ComputerTool(Screen()).approval_subject(RunContextWrapper(None), call) == [CLICK]


def test_a_call_that_cannot_be_done_is_found() -> None:
    validate = ComputerTool(Screen()).validate
    assert validate is not None
    assert validate(arguments_of(computer_call("c1", {"type": "lick"}))) is not None
    assert validate(arguments_of(computer_call("c1"))) is None


@pytest.mark.parametrize("computer", [5, None, Screen])
def test_what_is_no_computer_is_refused(computer: Any) -> None:
    with pytest.raises(UserError, match="must be a Computer"):
        ComputerTool(computer)


def test_a_safety_check_takes_one_thing() -> None:
    check: Any = lambda: True  # noqa: E731  wrong on purpose
    with pytest.raises(UserError, match="on_safety_check is called with"):
        ComputerTool(Screen(), check)


async def test_a_runs_computer_can_be_had_before_it_is_used() -> None:
    made: list[Described] = []

    def make(*, run_context: Any) -> Described:
        made.append(describe(run_context=run_context))
        return made[-1]

    tool = ComputerTool(make)
    assert await resolve_computer(tool=tool, run_context=context()) is made[0]
    await tool.on_invoke_tool(context(), arguments_of(computer_call("c1")))
    assert [one.done for one in made] == [["screenshot"]]
