"""What tools on a machine have beside function tools."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.agents.registry import Registry
from outlast.agents.tools.custom import CustomTool
from outlast.agents.tools.definition import ToolRetry
from outlast.agents.tools.function_tool import function_tool
from outlast.agents.tools.hosted import HostedTool, function_tools, hosted_tools
from outlast.agents.tools.local import LocalTool
from outlast.extensions.machine.shell import LocalShellTool, ShellTool


def run(_request: Any) -> str:
    return "ran"


def answer(_context: Any, text: str) -> str:
    return text


def test_a_tool_that_acts_on_a_machine_is_tried_once_unless_somebody_wants_it_otherwise() -> None:
    assert ShellTool(run).retry.attempts == 1
    assert ShellTool(run, retry=4).retry == ToolRetry(attempts=4)
    assert LocalShellTool(run, retry=ToolRetry(attempts=2)).retry.attempts == 2
    assert CustomTool("q", "", answer).retry.attempts == 3


def test_the_options_are_those_of_function_tools() -> None:
    tool = ShellTool(
        run,
        timeout=5,
        timeout_behavior="raise_exception",
        is_enabled=False,
        failure_error_function=None,
    )
    assert (tool.timeout, tool.timeout_behavior) == (timedelta(seconds=5), "raise_exception")
    assert (tool.is_enabled, tool.failure_error_function) == (False, None)
    assert isinstance(tool, HostedTool), "it tells the provider of itself"


def nobody() -> bool:
    return True


NOBODY: Any = nobody


def wrong_option() -> LocalTool:
    options: Any = {"allowed_users": ["ann"]}
    return ShellTool(run, **options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (wrong_option, "ShellTool 'shell' has no option allowed_users"),
        (lambda: ShellTool(run, retry=0), "Tool 'shell': retry=0"),
        (lambda: ShellTool(run, on_approval=NOBODY), "on_approval is called with"),
        (lambda: ShellTool(run, needs_approval=NOBODY), "needs_approval is called with"),
        (lambda: ShellTool(run, fast=True, needs_approval=True), "fast=True does not go"),
        (lambda: ShellTool(run, timeout=-1), "timeout"),
        (lambda: ShellTool(run, "a shell"), "A tool's name must be"),
    ],
)
def test_a_mistake_is_found_where_it_is_made(make: Callable[[], LocalTool], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()


def test_it_is_found_under_the_name_that_its_calls_have() -> None:
    shell = ShellTool(run, name="bash")
    registry = Registry([Agent(name="A", tools=[shell])])
    assert registry.tool("A", "shell") is shell
    with pytest.raises(UserError, match=r"has no tool 'bash'.* It has: 'shell'"):
        registry.tool("A", "bash")


def test_two_tools_cannot_be_called_by_one_name() -> None:
    @function_tool
    def shell() -> None:
        """Do nothing."""

    with pytest.raises(UserError, match="name `shell` is used by multiple tools"):
        Registry([Agent(name="A", tools=[ShellTool(run, name="bash"), shell])])


def test_a_shell_of_the_provider_is_a_hosted_tool() -> None:
    here, there = ShellTool(run), ShellTool(environment={"type": "container_auto"})
    assert function_tools([here, there]) == [here]
    assert hosted_tools([here, there]) == [there]


@pytest.mark.parametrize(
    ("tool", "output", "shown"),
    [
        (ShellTool(run), {"output": [{"stdout": "a", "stderr": ""}]}, "a"),
        (ShellTool(run), "It broke.", "stderr:\nIt broke."),
        (LocalShellTool(run), "a", "a"),
        (CustomTool("q", "", answer), [{"type": "input_text", "text": "a"}], None),
    ],
)
def test_hooks_and_guardrails_are_shown_what_an_output_says(
    tool: LocalTool, output: Any, shown: Any
) -> None:
    assert tool.shown(output) == (output if shown is None else shown)
