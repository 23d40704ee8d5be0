"""Methods of hooks whose names nobody calls, and what hooks cost."""

from typing import Any

import pytest

from outlast import Agent, AgentHooks, RunHooks
from outlast.agents.hooks import check_run_hooks


async def _hook(*_arguments: Any) -> None: ...


CASES: list[tuple[Any, str, str]] = [
    (RunHooks, "on_tool_started", " Did you mean 'on_tool_start'?"),
    (RunHooks, "on_run_ended", " Did you mean 'on_run_end'?"),
    (AgentHooks, "on_agent_start", ""),
    (AgentHooks, "on_ended", " Did you mean 'on_end'?"),
    (RunHooks, "on_qwertz", ""),
]


@pytest.mark.parametrize(("base", "name", "advice"), CASES, ids=[case[1] for case in CASES])
def test_a_method_that_is_no_hook_is_a_warning_once(
    base: Any, name: str, advice: str, caplog: pytest.LogCaptureFixture
) -> None:
    kind = type("Mine", (base,), {name: _hook})
    for _ in range(2):
        if base is RunHooks:
            check_run_hooks(kind())
        else:
            Agent(name="A", hooks=kind())
    (record,) = caplog.records
    expected = f"Mine has a method {name}, which is no hook and is never called."
    assert record.getMessage().startswith(expected + advice)


def test_hooks_and_other_members_are_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    class Mine(RunHooks[Any]):
        on_call = False

        async def on_tool_error(self, context: Any, agent: Any, tool: Any, error: Any) -> None: ...

        def once(self) -> None: ...

    check_run_hooks(Mine())
    assert caplog.records == []
