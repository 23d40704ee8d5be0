"""Settings that are passed with a RunState: what counts as the run's own."""

from dataclasses import replace
from typing import Any, cast

import pytest

from outlast import Agent, RunConfig, RunHooks, UserError, trace
from outlast.agents.config.run_config import as_run_config
from outlast.agents.config.settings import CONFIG_FIELDS, write_run_config
from outlast.agents.references import RunReferences
from outlast.client.handle import RunHandle
from outlast.client.start.options import RunOptions, run_input, start_options
from outlast.client.start.resumed_settings import PassedSettings, check_resumed
from outlast.client.start.same_run import start_digest
from outlast.client.start.tenant import as_tenant
from outlast.contract import names
from outlast.contract.history import started as run_started
from outlast.contract.records import RunInput
from outlast.loop.machine import advance
from outlast.loop.state import LoopState
from outlast.testing import ScriptedModel, run_in_memory
from outlast.tracing.provider import join_current_trace

A = Agent[Any](name="A")


class Described:
    """A handle on a run whose start has this digest."""

    def __init__(self, digest: str) -> None:
        self.digest = digest

    async def check(self) -> "Described":
        return self

    async def memo_value(self, name: str, default: str) -> str:
        return self.digest if name == names.MEMO_INPUT_DIGEST else default


async def resumed(started: RunOptions, passed: RunOptions, *, keep_open: bool = False) -> None:
    """Start a run with some options, and pass others with its state."""
    record = run_input(A, "Hi", **start_options(started))
    record = replace(record, settings=join_current_trace(record.settings))
    tenant = as_tenant(started.get("tenant"))
    handle = cast("RunHandle", Described(start_digest(record, tenant)))
    await check_resumed(
        handle, state_of(record), PassedSettings(A, passed, RunReferences(), keep_open)
    )


def state_of(record: RunInput) -> LoopState:
    return advance(LoopState(), run_started("r", record, 0))[0]


class Watching(RunHooks[Any]): ...


SAME: list[tuple[RunOptions, RunOptions]] = [
    ({}, {}),
    ({}, {"max_turns": 10, "hooks": None, "session": None, "conversation_id": None}),
    ({}, {"id": "r", "context": {"n": 1}}),
    ({"max_turns": None}, {"max_turns": None}),
    ({"tenant": "acme"}, {"tenant": "acme"}),
    (
        {"tenant": "acme", "customer": "ann"},
        {"tenant": "acme", "customer": "ann"},
    ),
    ({"hooks": Watching()}, {"hooks": Watching()}),
    ({"hooks": "desk"}, {"hooks": "desk"}),
    ({"run_config": {"model": "gpt-5"}}, {"run_config": RunConfig(model="gpt-5")}),
    ({"conversation_id": "c"}, {"conversation_id": "c"}),
    ({"previous_response_id": "p"}, {"auto_previous_response_id": True}),
    ({"auto_previous_response_id": True}, {"auto_previous_response_id": False}),
]


@pytest.mark.parametrize(("started", "passed"), SAME, ids=[str(at) for at in range(len(SAME))])
async def test_the_runs_own_settings_may_be_passed_again(
    started: RunOptions, passed: RunOptions
) -> None:
    await resumed(started, passed)


OTHER: list[tuple[RunOptions, RunOptions, str]] = [
    ({}, {"id": "other"}, r"id='other' \(it is 'r'\)"),
    ({}, {"tenant": "acme"}, r"tenant='acme' \(the run has another\)"),
    ({"tenant": "acme"}, {"tenant": "globex"}, r"tenant='globex'"),
    ({"hooks": "desk"}, {"hooks": Watching()}, "hooks="),
    ({"run_config": RunConfig(model="gpt-5")}, {"run_config": RunConfig()}, r"RunConfig\(model="),
    ({}, {"run_config": RunConfig(tracing_disabled=True)}, r"RunConfig\(tracing_disabled="),
    (
        {},
        {"run_config": RunConfig(trace_include_sensitive_data=False)},
        r"RunConfig\(trace_include_sensitive_data=",
    ),
]


@pytest.mark.parametrize(
    ("started", "passed", "problem"), OTHER, ids=[str(at) for at in range(len(OTHER))]
)
async def test_other_settings_are_refused(
    started: RunOptions, passed: RunOptions, problem: str
) -> None:
    with pytest.raises(UserError, match=problem):
        await resumed(started, passed)


async def test_a_run_that_closes_cannot_be_kept_open() -> None:
    with pytest.raises(UserError, match="keep_open=True"):
        await resumed({}, {}, keep_open=True)


async def test_a_run_in_the_programs_trace_may_be_resumed_outside_of_it() -> None:
    config: RunOptions = {"run_config": RunConfig(model="gpt-5", workflow_name="Desk")}
    record = run_input(A, "Hi", **start_options(config))
    with trace("Support", group_id="chat-7"):
        record = replace(record, settings=join_current_trace(record.settings))
    handle = cast("RunHandle", Described(""))
    await check_resumed(handle, state_of(record), PassedSettings(A, config, RunReferences()))
    await check_resumed(
        handle, state_of(record), PassedSettings(A, {"tenant": "by hand"}, RunReferences())
    )


async def test_the_id_of_a_run_in_memory_is_compared_too() -> None:
    agent = Agent(name="A", output_approval=True)
    result = await run_in_memory(agent, "Hi", model=ScriptedModel("Yes."), run_id="one")
    state = result.to_state()
    with pytest.raises(UserError, match="id='two'"):
        await run_in_memory(agent, state, model=ScriptedModel(), run_id="two")
    state.approve(state.get_interruptions()[0])
    result = await run_in_memory(agent, state, model=ScriptedModel(), run_id="one")
    assert result.final_output == "Yes."


def test_every_setting_that_is_written_is_compared() -> None:
    config = as_run_config({
        "model": "m", "model_settings": {"temperature": 1.0}, "workflow_name": "W",
        "tool_not_found_behavior": "raise", "session_settings": {"limit": 1},
        "output_guardrail_blocked_message": "No.", "nest_handoff_history": True,
    })  # fmt: skip
    assert write_run_config(config, RunReferences().name).keys() <= CONFIG_FIELDS.keys()
