"""The types of a shell's environments."""

from typing import Any, Literal, get_args, get_type_hints

import pytest

from outlast.extensions.machine.shell import ShellTool
from outlast.extensions.machine.shell_environments import (
    ShellToolEnvironment,
    ShellToolHostedEnvironment,
    ShellToolLocalEnvironment,
)

SKILL = {"type": "skill_reference", "skill_id": "s1"}
ENVIRONMENTS: list[Any] = [
    {"type": "local"},
    {"type": "local", "skills": [{"name": "a", "description": "b", "path": "/skills/a"}]},
    {"type": "container_auto"},
    {"type": "container_auto", "memory_limit": "4g", "skills": [SKILL], "file_ids": ["f1"]},
    {"type": "container_auto", "network_policy": {"type": "disabled"}},
    {"type": "container_reference", "container_id": "c1"},
]


KINDS: tuple[Any, ...] = get_args(ShellToolEnvironment)


def run(_request: object) -> str:
    return ""


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_an_environment_is_sent_as_it_is(environment: Any) -> None:
    (kind,) = (one for one in KINDS if get_type_hints(one)["type"] == Literal[environment["type"]])
    assert set(environment) <= kind.__annotations__.keys()
    executor: Any = run if environment["type"] == "local" else None
    tool = ShellTool(executor, environment=environment)
    assert tool.to_tool_param() == {"type": "shell", "environment": environment}


def test_what_is_not_the_workers_machine_is_the_providers() -> None:
    hosted = get_args(ShellToolHostedEnvironment)
    assert [kind for kind in KINDS if kind not in hosted] == [ShellToolLocalEnvironment]
