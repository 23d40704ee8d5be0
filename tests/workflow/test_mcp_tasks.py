"""Calls that a real MCP server answers with a task, in durable runs."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.errors import AgentsException
from outlast.agents.guardrails.tool_guardrails import (
    ToolGuardrailFunctionOutput,
    tool_input_guardrail,
    tool_output_guardrail,
)
from outlast.agents.hooks import AgentHooks
from outlast.agents.mcp.server import MCPServer
from outlast.client.handle import RunHandle
from outlast.mcp import MCPServerStdio, MCPServerStreamableHttp
from outlast.testing import ScriptedModel, call
from tests import forked
from tests.conformance.views import outputs
from tests.eventually import eventually
from tests.mcp_servers import PATIENCE_SECONDS, TASKS_PROGRAM, Listening
from tests.workflow.desk import QUICK, Desk, waits_for
from tests.workflow.test_long_runs import true_in_the_end

WORKER_PROGRAM = Path(__file__).parents[1] / "mcp_worker_program.py"


class Kitchen:
    """The server's process, and what it was asked.

    Attributes:
        program: the process.
        directory: where it keeps tasks and requests.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.program = Listening("http", TASKS_PROGRAM, str(directory))

    def server(self, **options: Any) -> MCPServerStreamableHttp:
        return MCPServerStreamableHttp(
            {"url": self.program.url},
            name="kitchen",
            client_session_timeout_seconds=PATIENCE_SECONDS,
            cache_tools_list=True,
            **options,
        )

    def requests(self, method: str) -> list[dict[str, Any]]:
        path = self.directory / "requests.jsonl"
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        return [one for line in lines if (one := json.loads(line))["method"] == method]

    async def until_asked(self, method: str, count: int = 1) -> list[dict[str, Any]]:
        await eventually(lambda: len(self.requests(method)) >= count)
        return self.requests(method)

    @property
    def tasks(self) -> list[Path]:
        return list(self.directory.glob("task-*.json"))


@pytest.fixture
async def kitchen(tmp_path: Path) -> AsyncGenerator[Kitchen]:
    kitchen = Kitchen(tmp_path)
    async with kitchen.program:
        yield kitchen


def cook(server: MCPServer) -> Agent[Any]:
    return Agent(name="Cook", mcp_servers=[server])


def works(**calls: dict[str, Any]) -> ScriptedModel:
    """Return a model that calls the tool by these arguments at once, and then ends."""
    return ScriptedModel([call("work", key, **given) for key, given in calls.items()], "Done.")


def text(said: str) -> list[dict[str, str]]:
    """A result that is text, as the model reads it."""
    return [{"type": "input_text", "text": said}]


async def activities(desk: Desk, handle: RunHandle) -> int:
    """Return how many times the tool has run."""
    histories = await desk.all_events(handle)
    scheduled = [
        one.activity_task_scheduled_event_attributes for events in histories for one in events
    ]
    return sum(one.activity_type.name == "tool:work" for one in scheduled)


async def has_run(desk: Desk, handle: RunHandle, times: int) -> bool:
    return await activities(desk, handle) >= times


@pytest.mark.smoke
async def test_tasks_are_polled_and_end_as_direct_calls_do(desk: Desk, kitchen: Kitchen) -> None:
    @tool_output_guardrail
    def short(data: Any) -> ToolGuardrailFunctionOutput:
        if "!!!" in str(data.output):
            return ToolGuardrailFunctionOutput.reject_content("too long")
        return ToolGuardrailFunctionOutput.allow()

    checked: list[str] = []

    @tool_input_guardrail
    def counted(data: Any) -> ToolGuardrailFunctionOutput:
        checked.append(data.context.tool_call_id)
        return ToolGuardrailFunctionOutput.allow()

    class Started(AgentHooks[Any]):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            started.append(context.tool_call_id)

    started: list[str] = []
    server = kitchen.server(tool_output_guardrails=[short], tool_input_guardrails=[counted])
    model = works(
        plain={"kind": "plain", "working": 1},
        error={"kind": "tool_error"},
        long={"kind": "plain", "length": 3},
        fails={"kind": "fails"},
        cancels={"kind": "cancels"},
        unknown={"kind": "unknown"},
        garbage={"kind": "garbage"},
    )
    agent = Agent[Any](name="Cook", mcp_servers=[server], hooks=Started())
    await desk.open(agent, model=model)
    handle = await desk.start("Cook")
    result = await desk.result(handle)
    assert result.final_output == "Done."
    assert len(result.tool_input_guardrail_results) == len(checked) == 7  # no look asks again
    assert sorted(started) == sorted(checked)
    told = outputs(model.requests[1])
    assert told["plain"] == text("done")
    assert told["error"] == text("done")
    assert told["long"] == "too long"
    answered = {"fails": " Its server answered: the oven is cold <b>&</b>"}
    for key, outcome in {
        "fails": "failed",
        "cancels": "was cancelled by its server",
        "unknown": "is not known to its server any more",
        "garbage": "its server answers what nobody can read",
    }.items():
        assert told[key] == (
            "The tool work began a task at its server and returned no result. The task "
            f"{outcome}. It may have had an effect.{answered.get(key, '')}"
        )
    assert len(kitchen.requests("tools/call")) == 7
    assert len(kitchen.requests("tasks/get")) == 8
    assert await activities(desk, handle) == 15
    (cancelled,) = kitchen.requests("tasks/cancel")  # of the server that makes no sense
    assert cancelled["declares"]


@pytest.mark.full
async def test_what_a_task_asks_is_a_request_for_people(desk: Desk, kitchen: Kitchen) -> None:
    model = works(yes={"kind": "asks"}, no={"kind": "asks"}, first={"kind": "asks_first"})
    await desk.open(cook(kitchen.server()), model=model)
    handle = await desk.start("Cook")
    state = await desk.until(handle, waits_for(3))
    requests = {one.call_id: one for one in state.pending_approvals}
    one = requests["yes"]
    assert one.name == "work: input 1"
    assert one.reason == "The MCP server kitchen asks: Who are you?"
    assert one.terms.allow == ("respond", "reject")
    assert one.terms.response_schema is not None
    assert list(one.terms.response_schema["properties"]) == ["name"]
    with pytest.raises(AgentsException, match="name"):
        await handle.respond(one, {"age": 3}, by="ann")
    await handle.respond(one, {"name": "Ann"}, by="ann")
    await handle.reject(requests["no"], by="ann")
    await handle.respond(requests["first"], {"name": "Bo"}, by="bo")
    assert (await desk.result(handle)).final_output == "Done."
    told = outputs(model.requests[1])
    accepted = {"name": {"action": "accept", "content": {"name": "Ann"}}}
    assert told["yes"] == text(f"done: {json.dumps(accepted, sort_keys=True)}")
    assert told["no"] == text('done: {"name": {"action": "decline"}}')
    assert '"name": "Bo"' in told["first"][0]["text"]
    assert len(kitchen.requests("tasks/update")) == 2
    assert kitchen.requests("tools/call")[-1]["params"]["requestState"] == "sealed"


@pytest.mark.full
async def test_a_run_that_is_cancelled_cancels_its_tasks(desk: Desk, kitchen: Kitchen) -> None:
    await desk.open(cook(kitchen.server()), model=works(c1={"kind": "endless"}))
    handle = await desk.start("Cook")
    await desk.until_status(handle, "parked")
    await handle.cancel()
    (cancelled,) = await kitchen.until_asked("tasks/cancel")
    (task,) = kitchen.tasks
    assert task.name == f"task-{cancelled['params']['taskId']}.json"


@pytest.mark.full
async def test_a_task_is_cancelled_when_its_server_is_back(desk: Desk, kitchen: Kitchen) -> None:
    server = kitchen.server(max_retry_attempts=20, retry_backoff_seconds_max=1)
    await desk.open(cook(server), model=works(c1={"kind": "endless", "interval": 3_600_000}))
    handle = await desk.start("Cook")
    await desk.until_status(handle, "parked")
    await kitchen.program.kill()
    await handle.cancel()
    await desk.pending_activity(handle, lambda one: one.attempt >= 2)
    await kitchen.program.start()
    await kitchen.until_asked("tasks/cancel")


@pytest.mark.full
async def test_an_approved_call_looks_at_its_task_though_nothing_is_listed_and_the_server_is_away(
    desk: Desk, kitchen: Kitchen
) -> None:
    def agent() -> Agent[Any]:
        return cook(kitchen.server(require_approval="always"))

    first = await desk.open(agent(), model=works(kept={"kind": "plain"}, lost={"kind": "forgets"}))
    handle = await desk.start("Cook")
    state = await desk.until(handle, waits_for(2))
    for request in state.pending_approvals:
        await handle.approve(request, by="ann")
    await desk.ever(handle, lambda state: state.status == "parked")
    await desk.close(first)
    await kitchen.program.kill()
    before = await activities(desk, handle)
    model = ScriptedModel("Done.")
    await desk.open(agent(), model=model)  # which knows no tool of the server
    await true_in_the_end(lambda: has_run(desk, handle, before + 4))
    await kitchen.program.start()
    assert (await desk.result(handle)).final_output == "Done."
    told = outputs(model.requests[0])
    assert told["kept"] == text("done")
    assert "is not known to its server any more" in told["lost"]
    assert len(kitchen.requests("tools/call")) == 2
    assert len((await handle.state()).approvals) == 2


@pytest.mark.full
async def test_a_call_whose_answer_is_lost_is_not_sent_again(desk: Desk, kitchen: Kitchen) -> None:
    model = works(c1={"kind": "dies_once"})
    await desk.open(cook(kitchen.server()), model=model)
    handle = await desk.start("Cook")
    assert (await desk.result(handle)).final_output == "Done."
    assert outputs(model.requests[1])["c1"].startswith("The tool work failed and returned no")
    assert len(kitchen.tasks) == 1  # nobody knows of it: its server forgets it in its own time


@pytest.mark.full
async def test_a_call_that_may_be_sent_again_finds_its_task_by_its_key(
    desk: Desk, kitchen: Kitchen
) -> None:
    server = kitchen.server(max_retry_attempts=5, retry_backoff_seconds_base=1)
    model = works(c1={"kind": "dies_once"})
    await desk.open(cook(server), model=model)
    handle = await desk.start("Cook")
    await eventually((kitchen.directory / "died").exists)
    await kitchen.program.kill()
    await kitchen.program.start()
    assert (await desk.result(handle)).final_output == "Done."
    assert outputs(model.requests[1])["c1"] == text("done")
    keys = [one["key"] for one in kitchen.requests("tools/call")]
    assert keys == [f"{await desk.key_of(handle.id)}:c1"] * 2
    assert len(kitchen.tasks) == 1


@pytest.mark.full
async def test_a_worker_killed_before_the_wait_is_recorded_finds_the_task_by_its_key(
    desk: Desk, kitchen: Kitchen
) -> None:
    address = desk.client.service_client.config.target_host
    worker = await forked.start(str(WORKER_PROGRAM), address, desk.queue, kitchen.program.url)
    handle = await desk.start("Cook", run_config=QUICK)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await worker.wait() == -signal.SIGKILL
    assert len(kitchen.requests("tools/call")) == 1
    model = ScriptedModel("Done.")
    await desk.open(cook(kitchen.server()), model=model)
    assert (await desk.result(handle)).final_output == "Done."
    assert outputs(model.requests[0])["c1"] == text("done")
    assert len({one["key"] for one in kitchen.requests("tools/call")}) == 1
    assert len(kitchen.tasks) == 1


@pytest.mark.full
async def test_a_process_of_the_worker_that_keeps_its_tasks_goes_on_in_the_next_worker(
    desk: Desk, tmp_path: Path
) -> None:
    def agent(**options: Any) -> Agent[Any]:
        params: Any = {"command": sys.executable}
        params["args"] = [str(TASKS_PROGRAM), "stdio", "0", str(tmp_path)]
        timeout: Any = {"client_session_timeout_seconds": PATIENCE_SECONDS}
        return cook(MCPServerStdio(params, name="kitchen", **timeout, **options))

    first = await desk.open(agent(tasks=True), model=works(kept={"kind": "plain"}))
    handle = await desk.start("Cook")
    await desk.until_status(handle, "parked")
    await desk.close(first)
    model = ScriptedModel("Done.", [call("work", "c1", kind="plain")], "Sorry.")
    second = await desk.open(agent(tasks=True), model=model)
    assert (await desk.result(handle)).final_output == "Done."
    assert outputs(model.requests[0])["kept"] == text("done")
    kitchen = Kitchen(tmp_path)
    (called,) = kitchen.requests("tools/call")
    assert called["process"] not in {one["process"] for one in kitchen.requests("tasks/get")[-1:]}
    await desk.close(second)

    await desk.open(agent(), model=model)  # which declares no tasks
    assert (await desk.run("Cook")).final_output == "Sorry."
    assert outputs(model.requests[2])["c1"].startswith("The tool work failed")
