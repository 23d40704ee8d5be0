"""`outlast replay`: which runs would go another way with the agents of a target."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.client import Client
from typer.testing import CliRunner, Result

from outlast.cli import server
from outlast.cli.app import app
from outlast.client import recordings
from outlast.client.start.runner import Runner
from outlast.testing import ScriptedModel, call, load_runs, record_in_memory
from tests.unit.cli.conftest import Invoke, Open, helper
from tests.unit.models.model_server import ModelServer
from tests.unit.models.responses_api import message, response

SAME = """
from tests.unit.cli.conftest import helper

agents = [helper()]
"""

CHANGED = """
from outlast import Agent, ApprovalPolicy
from outlast.testing import ScriptedModel, call
from tests.unit.cli.conftest import look_up, refund

agents = [Agent(name="Helper", tools=[refund])]
"""

MODEL = """
from outlast import Agent
from outlast.testing import ScriptedModel, call, say
from tests.unit.cli.conftest import look_up, refund

def reply(request):
    if any(one.get("type") == "function_call_output" for one in request.input):
        return say("Done.")
    return [call("refund" if request.instructions == "Refund." else "look_up", "x", order_id="A")]

worker_config = {
    "agents": [Agent(name="Helper", instructions="Refund.", tools=[look_up, refund])],
    "model_provider": ScriptedModel(always=reply),
}
old = Agent(name="Helper", instructions="Look.", tools=[look_up, refund])
"""

HTTP = """
from outlast import Agent
from tests.unit.cli.conftest import look_up, refund

agents = [Agent(name="Helper", model="gpt-4.1", instructions="Refund.", tools=[look_up, refund])]
old = Agent(name="Helper", model="gpt-4.1", instructions="Look.", tools=[look_up, refund])
"""


@pytest.fixture
async def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with targets, and recordings of a run that looks up and of one that only talks."""
    targets = {"same": SAME, "changed": CHANGED, "models": MODEL, "http": HTTP}
    for name, text in targets.items():
        (tmp_path / f"{name}_{tmp_path.name}.py".replace("-", "_")).write_text(text)
    scripts: dict[str, Any] = {
        "a": ([call("look_up", "c1", order_id="A")], "Done."),
        "b": ("Hello.",),
    }
    lines = [
        (
            await record_in_memory(helper(), "Hi", model=ScriptedModel(*script), run_id=name)
        ).to_json()
        for name, script in scripts.items()
    ]
    (tmp_path / "runs.jsonl").write_text("\n".join(lines) + "\n")

    async def nowhere(address: Any, namespace: Any) -> Any:
        raise AssertionError("files need no server")

    monkeypatch.setattr(server, "connect", nowhere)
    return tmp_path


def run(folder: Path, target: str, *arguments: str) -> Result:
    module = f"{target}_{folder.name}".replace("-", "_")
    words = [one.replace("@", f"_{folder.name}".replace("-", "_")) for one in arguments]
    line = ["replay", module, "--app-dir", str(folder), *words]
    return CliRunner().invoke(app, line, env={"COLUMNS": "200"})


def test_the_same_agents_pass(runs: Path) -> None:
    done = run(runs, "same", str(runs / "runs.jsonl"))
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines() == ["a: the same decisions", "b: the same decisions"]
    assert "0 of 2 runs would go another way." in done.stderr


def test_changed_agents_fail_with_what_differs(runs: Path) -> None:
    done = run(runs, "changed", str(runs / "runs.jsonl"), "--changed")
    assert done.exit_code == 1
    first, second = done.stdout.splitlines()
    assert first == "a: 1 decision differs"
    assert "look_up(order_id=\"A\") is refused: There is no tool 'look_up'" in second
    assert "1 of 2 runs would go another way: tool 1." in done.stderr
    lines = run(runs, "changed", str(runs / "runs.jsonl"), "--changed", "--json").stdout
    (record,) = [json.loads(line) for line in lines.splitlines()]
    assert (record["run_id"], record["changed"]) == ("a", True)
    assert record["differences"][0]["kind"] == "tool"


def test_a_file_of_policies_is_tried_on_runs(runs: Path) -> None:
    policies = runs / "policies.toml"
    policies.write_text('[tool.look_up]\nneeds_approval = true\naudience = {groups = ["ops"]}\n')
    done = run(runs, "same", str(runs / "runs.jsonl"), "--approvals", str(policies), "--changed")
    assert done.exit_code == 1, done.stderr
    assert "needs no approval -> look_up waits for the approval of ops" in done.stdout


def test_three_lanes_with_models_that_are_called(runs: Path) -> None:
    files = str(runs / "runs.jsonl")
    done = run(runs, "models", files, "--baseline", "models@:old", "--call-models", "--changed")
    assert done.exit_code == 1, done.stderr
    assert '    baseline  look_up(order_id="A")' in done.stdout
    assert '    candidate refund(order_id="A")' in done.stdout
    recorded = run(runs, "models", files, "--baseline", "models@:old", "--changed", "--json")
    assert recorded.exit_code == 0, "no model is called unless somebody asks for it"
    assert recorded.stdout == ""


@pytest.fixture
async def model_server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ModelServer]:
    """A server of models over HTTP, which the client of OpenAI's package calls."""
    async with ModelServer() as model_server:
        monkeypatch.setenv("OPENAI_BASE_URL", model_server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        yield model_server


def calls(name: str) -> Any:
    """A reply with one call, 1,000 input tokens and 100 output tokens."""
    item = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "x",
        "name": name,
        "status": "completed",
    }
    return response(item | {"arguments": '{"order_id": "A"}'}, usage=USAGE)


USAGE = {
    "input_tokens": 1_000,
    "output_tokens": 100,
    "total_tokens": 1_100,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}
LANES = ("--baseline", "http@:old", "--call-models")


async def test_three_lanes_with_a_model_over_http(runs: Path, model_server: ModelServer) -> None:
    for name in ("look_up", "refund"):
        model_server.answer(calls(name))
        model_server.answer(response(message("Done."), usage=USAGE))
    for _ in range(2):  # the second run only talks
        model_server.answer(response(message("Hello."), usage=USAGE))
    files = str(runs / "runs.jsonl")
    done = await asyncio.to_thread(run, runs, "http", files, *LANES, "--json")
    assert done.exit_code == 1, done.output
    first, second = [json.loads(line) for line in done.stdout.splitlines()]
    assert (first["changed"], second["changed"]) == (True, False)
    row, *_ = [one for one in first["rows"] if one["baseline"] != one["candidate"]]
    assert (row["baseline"], row["candidate"]) == ('look_up(order_id="A")', 'refund(order_id="A")')
    asked = [one.body for one in model_server.requests]
    assert [one["instructions"] for one in asked] == [
        *("Look.", "Look.", "Refund.", "Refund."),
        *("Look.", "Refund."),
    ]
    assert {one["model"] for one in asked} == {"gpt-4.1"}
    assert model_server.requests[0].headers["authorization"] == "Bearer sk-test"
    outputs = [one for one in asked[3]["input"] if one.get("type") == "function_call_output"]
    assert "no result of refund" in outputs[0]["output"], "no tool runs"


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (("--max-calls", "3"), "The limit of 3 model calls is reached."),
        (("--max-cost", "0.003"), "The limit of $0.003 for models is reached."),
    ],
)
async def test_models_are_called_up_to_a_limit(
    runs: Path, model_server: ModelServer, limit: tuple[str, str], said: str
) -> None:
    for name in ("look_up", "refund"):
        model_server.answer(calls(name))
        model_server.answer(response(message("Done."), usage=USAGE))
    files = str(runs / "runs.jsonl")
    done = await asyncio.to_thread(run, runs, "http", files, *LANES, *limit)
    assert said in done.stderr
    assert "Not replayed to its end: a." in done.stderr
    assert "0 of 0 runs would go another way. 2 runs left out." in done.stderr
    assert done.exit_code == 1, "a limit was reached"
    assert len(model_server.requests) == (3 if "calls" in limit[0] else 2)


async def test_a_limit_on_the_cost_needs_prices(
    runs: Path, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = runs / f"http_{runs.name}.py".replace("-", "_")
    target.write_text(target.read_text().replace("gpt-4.1", "house-model"))
    model_server.answer(response(message("Hello.")))
    model_server.answer(response(message("Hello.")))
    files = str(runs / "runs.jsonl")
    done = await asyncio.to_thread(run, runs, "http", files, *LANES, "--max-cost", "1")
    assert "'house-model' has no price" in done.stderr
    assert len(model_server.requests) == 1
    refused = await asyncio.to_thread(run, runs, "http", files, "--max-calls", "1")
    assert refused.exit_code == 2
    assert "are for --call-models" in refused.stderr


def test_one_source_of_runs_is_named(runs: Path) -> None:
    for arguments in (
        [],
        [str(runs / "runs.jsonl"), "--since", "1d"],
        ["--run", "a", "--since", "1d"],
    ):
        done = run(runs, "same", *arguments)
        assert done.exit_code == 2
        assert "outlast replay desk.py --since 30d --changed" in done.stderr


def test_recordings_before_the_agents_are_told_apart() -> None:
    done = CliRunner().invoke(app, ["replay", "runs.jsonl", "desk.py"])
    assert done.exit_code == 2
    assert "runs.jsonl is no program with agents. It comes second:" in done.stderr


def test_what_cannot_be_replayed_is_said(runs: Path) -> None:
    document = json.loads((runs / "runs.jsonl").read_text().splitlines()[0])
    (runs / "late.json").write_text(json.dumps(document | {"starts_late": True}))
    done = run(runs, "same", str(runs / "late.json"))
    assert done.exit_code == 1, "nothing was replayed"
    assert "Not replayed: The run a cannot be replayed" in done.stderr
    assert "0 of 0 runs would go another way. 1 run left out." in done.stderr
    both = run(runs, "same", str(runs / "late.json"), str(runs / "runs.jsonl"))
    assert both.exit_code == 0, "what no agents can replay is counted"
    assert "0 of 2 runs would go another way. 1 run left out." in both.stderr


def test_a_target_without_the_agent_of_a_run_is_said_in_words(runs: Path) -> None:
    text = (runs / "runs.jsonl").read_text()
    other = text.replace('"Helper"', '"Clerk\\u202e"').splitlines()[0]
    (runs / "other.jsonl").write_text(other + "\n" + text)
    done = run(runs, "same", str(runs / "other.jsonl"))
    assert done.exit_code == 1
    assert "Not replayed: The run a cannot be replayed: its agent Clerk" in done.stderr
    assert "is not here, only Helper." in done.stderr
    assert "\u202e" not in done.stderr
    assert "0 of 2 runs would go another way. 1 run left out." in done.stderr


async def test_more_runs_than_the_limit_are_not_green(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = load_runs(runs / "runs.jsonl")

    async def connect(address: Any, namespace: Any) -> Any:
        return SimpleNamespace(client="client")

    async def search(client: Any, criteria: Any, **options: Any) -> AsyncGenerator[Any]:
        for one in found[: options["limit"]]:
            yield one

    monkeypatch.setattr(server, "connect", connect)
    monkeypatch.setattr(recordings, "record_runs", search)
    done = await asyncio.to_thread(run, runs, "same", "--since", "1d", "--limit", "1")
    assert done.exit_code == 1
    assert "Limited to 1 runs: there are more, see --limit." in done.stderr
    done = await asyncio.to_thread(run, runs, "same", "--since", "1d", "--limit", "2")
    assert (done.exit_code, "Limited" in done.stderr) == (0, False)
    found.clear()
    done = await asyncio.to_thread(run, runs, "same", "--since", "1d")
    assert done.exit_code == 1, "nothing was replayed"
    assert "0 of 0 runs would go another way." in done.stderr


@pytest.mark.smoke
async def test_runs_of_a_server_are_replayed(
    cli: Invoke, client: Client, open_desk: Open, run_id: str, tmp_path: Path
) -> None:
    model = ScriptedModel([call("refund", "c1", order_id="A-1")], "Refunded.")
    queue = await open_desk(model)
    handle = await Runner.start("Helper", "Refund", id=run_id, client=client, task_queue=queue)
    await handle.wait(lambda state: state.status == "waiting")
    await cli("approve", run_id)
    await handle.result()
    (tmp_path / "same_of_replay.py").write_text(SAME)
    done = await cli("replay", "same_of_replay", "--app-dir", str(tmp_path), "--run", run_id)
    assert done.exit_code == 0, done.stdout
    assert done.stdout.splitlines() == [f"{run_id}: the same decisions"]
    for _ in range(100):  # visibility is a moment behind
        only = ("--query", f"WorkflowId = '{run_id}' AND ExecutionStatus = 'Completed'")
        done = await cli("replay", "same_of_replay", "--app-dir", str(tmp_path), *only)
        if "0 of 1 run would" in done.stderr:
            break
    assert "0 of 1 run would go another way." in done.stderr
