"""The tasks extension on the wire, against a real server that speaks it."""

import asyncio
import json
import subprocess
from collections.abc import AsyncGenerator, Generator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from outlast.agents.errors import UserError
from outlast.agents.mcp import replies
from outlast.agents.mcp.replies import MCPInputRequired, MCPTask
from outlast.agents.mcp.results import MARK
from outlast.agents.mcp.server import MCPProtocolError, MCPRefusal
from outlast.mcp import MCPServerStdio, MCPServerStreamableHttp
from tests.mcp_servers import PATIENCE_SECONDS, TASKS_PROGRAM, Listening, Shelf, text_of


@pytest.mark.parametrize(
    ("says", "taken", "seconds"),
    [
        (None, 0, 5),
        (7_000, 0, 7),
        (0, 0, 1),
        (365 * 24 * 3600 * 1000, 0, 3600),
        (1_000, 600, 30),
        (60_000, 600, 60),
        (1_000, 10**9, 3600),
    ],
)
def test_a_task_is_looked_at_as_often_as_makes_sense(
    says: float | None, taken: float, seconds: float
) -> None:
    assert MCPTask(task_id="t", poll_interval_ms=says).poll_seconds(taken) == seconds


class Kitchen(MCPServerStreamableHttp):
    """The server, and the requests that reach it.

    Attributes:
        directory: where the server writes them down.
    """

    directory: Path

    def requests(self, since: int = 0) -> list[dict[str, Any]]:
        """Return the requests without the first `since`."""
        lines = (self.directory / "requests.jsonl").read_text("utf-8").splitlines()
        return [json.loads(line) for line in lines[since:]]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[str, Path]]:
    """Run the server for all tests: its interpreter takes longer to start than they take."""
    directory = tmp_path_factory.mktemp("kitchen")
    (directory / "requests.jsonl").touch()
    listening = Listening("http", TASKS_PROGRAM, str(directory))
    with subprocess.Popen(listening.command, stderr=subprocess.DEVNULL) as process:
        asyncio.run(listening.wait_until_it_listens())
        yield listening.url, directory
        process.kill()


@pytest.fixture
async def kitchen(program: tuple[str, Path]) -> AsyncGenerator[Kitchen]:
    url, directory = program
    server = Kitchen({"url": url}, name="kitchen", client_session_timeout_seconds=PATIENCE_SECONDS)
    server.directory = directory
    yield server
    await server.cleanup()


async def test_each_request_is_as_the_extension_has_it(
    kitchen: Kitchen,
) -> None:
    before = len(kitchen.requests())
    task = await kitchen.start_call("work", {"kind": "asks", "interval": "soon", "ttl": -1})
    assert task == MCPTask(task_id=task.task_id)  # hints that make no sense are none
    asks = await kitchen.get_task(task.task_id, "work")
    assert (asks.status, list(asks.inputs)) == ("input_required", ["name"])
    answers = {"name": {"action": "accept", "content": {"name": "Ann"}}}
    await kitchen.update_task(task.task_id, answers)
    done = await kitchen.get_task(task.task_id, "work")
    assert json.loads(text_of(done.result).removeprefix("done: ")) == answers
    await kitchen.cancel_task(task.task_id)
    assert (await kitchen.get_task(task.task_id, "work")).status == "cancelled"
    made = kitchen.requests(before)
    assert [one["method"] for one in made] == [
        "tools/call",
        *("tasks/get", "tasks/update", "tasks/get", "tasks/cancel", "tasks/get"),
    ]
    assert {one["mcp_name"] for one in made[1:]} == {task.task_id}
    assert all(one["declares"] and one["forms"] == {"form": {}, "url": {}} for one in made)
    assert made[2]["params"] == {"taskId": task.task_id, "inputResponses": answers}


async def test_questions_before_a_task_are_answered_with_the_call(
    kitchen: Kitchen,
) -> None:
    asks = await kitchen.start_call("work", {"kind": "asks_first"})
    assert isinstance(asks, MCPInputRequired)
    assert asks.state  # which only the server can read
    assert list(asks.inputs) == ["name"]
    answers = {"name": {"action": "decline"}}
    task = await kitchen.start_call(
        "work", {"kind": "asks_first"}, answers=answers, state=asks.state
    )
    assert isinstance(task, MCPTask)
    params = kitchen.requests()[-1]["params"]
    assert (params["requestState"], params["inputResponses"]["name"]["action"]) == (
        "sealed",
        "decline",
    )


async def test_a_program_that_calls_a_tool_waits_for_the_task(
    kitchen: Kitchen, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = len(kitchen.requests())
    monkeypatch.setattr(replies, "LEAST_POLL_SECONDS", 0.01)
    done = await kitchen.call_tool("work", {"kind": "plain", "working": 2, "interval": 0})
    assert (text_of(done), done.structured_content) == ("done", {"made": 3})
    assert [one["method"] for one in kitchen.requests(before)] == ["tools/call", *["tasks/get"] * 3]
    assert (await kitchen.call_tool("work", {"kind": "tool_error", "interval": 0})).is_error
    unstructured = await kitchen.call_tool("work", {"kind": "unstructured", "interval": 0})
    assert unstructured.meta == {MARK: True}
    before = len(kitchen.requests())
    impatient = Kitchen(kitchen.params, name="kitchen", task_timeout=timedelta(seconds=0.3))
    with pytest.raises(TimeoutError, match=r"took longer than 0\.3 s to end the task of 'work'"):
        await impatient.call_tool("work", {"kind": "endless", "interval": 0})
    await impatient.cleanup()
    assert kitchen.requests(before)[-1]["method"] == "tasks/cancel"
    for kind, error, words in [
        ("fails", MCPRefusal, "its task is failed. the oven is cold"),
        ("cancels", MCPRefusal, "its task is cancelled. closed for today"),
        ("unknown", MCPRefusal, "its task is unknown. Failed to retrieve task: Task not found"),
        ("asks", MCPRefusal, "it asks something, which only a call in a run can answer"),
        ("asks_first", MCPRefusal, "it asks something"),
        ("garbage", MCPProtocolError, "could not say how the task of 'work' is"),
        ("other_task", MCPProtocolError, "the server answered about another task"),
        ("no_result", MCPProtocolError, "could not say how the task"),
        ("no_id", MCPProtocolError, "could not run 'work'"),
    ]:
        with pytest.raises(error, match=words):
            await kitchen.call_tool("work", {"kind": kind, "interval": 0})


async def test_a_server_that_may_not_answer_with_tasks_is_told_so(kitchen: Kitchen) -> None:
    before = len(kitchen.requests())
    kitchen.tasks = False
    with pytest.raises(MCPRefusal, match="Missing required client capability"):
        await kitchen.call_tool("work", {"kind": "plain"})
    with pytest.raises(MCPProtocolError, match="its response cannot be read"):
        await kitchen.call_tool("work", {"kind": "rude"})
    assert text_of(await kitchen.call_tool("work", {"kind": "direct"})) == '{\n  "made": 3\n}'
    made = kitchen.requests(before)
    assert [(one["declares"], one["forms"]) for one in made] == [(False, None)] * 3


def test_a_process_of_the_worker_answers_with_tasks_only_if_told_so() -> None:
    assert not MCPServerStdio({"command": "x"}).tasks
    assert MCPServerStdio({"command": "x"}, tasks=True).tasks
    with pytest.raises(UserError, match="tasks must be True or False"):
        MCPServerStdio({"command": "x"}, tasks=None)  # pyright: ignore[reportArgumentType]


def test_a_task_may_take_a_duration() -> None:
    assert MCPServerStdio({"command": "x"}).task_timeout is None
    hour = timedelta(hours=1)
    assert MCPServerStdio({"command": "x"}, task_timeout=hour).task_timeout == hour
    for wrong in [timedelta(), 5]:
        with pytest.raises(UserError, match="task_timeout must be"):
            MCPServerStdio({"command": "x"}, task_timeout=wrong)  # pyright: ignore[reportArgumentType]


class Own(MCPServerStreamableHttp):
    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> Any:
        return tool_name, arguments, meta


async def test_a_programs_own_way_to_call_a_tool_is_used_in_runs_too() -> None:
    server = Own({"url": "http://127.0.0.1:1/mcp"})
    assert await server.start_call("find", {"a": 1}, {"k": 1}) == ("find", {"a": 1}, {"k": 1})


async def test_a_server_class_without_tasks_says_so() -> None:
    shelf = Shelf()
    for asking in [
        shelf.get_task("t", "find"),
        shelf.update_task("t", {}),
        shelf.cancel_task("t"),
    ]:
        with pytest.raises(NotImplementedError, match="'shelf' does not implement"):
            await asking
