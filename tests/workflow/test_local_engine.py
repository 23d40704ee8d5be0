"""A script that configures nothing: a server and a worker in its own process, and durability."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.agents.tool import function_tool
from outlast.client.runner import Runner
from outlast.dev import running_server
from outlast.local.engine import LocalEngine
from outlast.testing import call, say
from tests.unit.models.model_server import ModelServer

SCRIPT = """
import os, signal, sys
from datetime import timedelta
from pathlib import Path
from outlast import Agent, RunConfig, Runner, ToolContext, function_tool

ledger = Path(sys.argv[1])

@function_tool
def pay(ctx: ToolContext) -> str:
    with ledger.open("a") as file:
        file.write(f"{ctx.attempt} {ctx.idempotency_key}\\n")
    if ctx.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "paid"

agent = Agent(name="Cashier", tools=[pay])
quick = RunConfig(heartbeat_timeout=timedelta(seconds=1))
print(Runner.run_sync(agent, "Pay A-17.", id="bill-1", run_config=quick).final_output)
"""


def _response(output: list[dict[str, Any]]) -> dict[str, Any]:
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    return {"id": "resp_1", "status": "completed", "output": output, "usage": usage}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which nothing is configured."""
    for name in ("TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "TEMPORAL_PROFILE", "OUTLAST_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    return tmp_path


async def test_a_killed_script_goes_on_where_it_was_when_it_is_run_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    ledger = home / "ledger"
    async with ModelServer() as model:
        monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
        model.answer(_response([call("pay", "c1")]))
        model.answer(_response(say("It is paid.")))
        assert await _run(ledger) == (-9, "")
        assert await _run(ledger) == (0, "It is paid.")
        assert await _run(ledger) == (0, "It is paid.")
        assert len(model.requests) == 2
    assert ledger.read_text().splitlines() == ["1 bill-1:c1", "2 bill-1:c1"]
    assert running_server(home / "data" / "outlast") is None


async def _run(ledger: Path) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SCRIPT, str(ledger), stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        output, _ = await process.communicate()
    return process.returncode, output.decode().strip()


async def test_agents_of_one_process_share_an_engine_and_can_be_defined_anew(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    @function_tool
    async def look_up() -> str:
        return "found"

    async with ModelServer() as model:
        monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
        try:
            for answer in ("One.", "Two."):
                model.answer(_response([call("look_up", f"c-{answer}")]))
                model.answer(_response(say(answer)))
                agent = Agent(name="Clerk", instructions=answer, tools=[look_up])
                result = await Runner.run(agent, f"Question {answer}")
                assert result.final_output == answer
            assert [one.body["instructions"] for one in model.requests[1::2]] == ["One.", "Two."]
            attached = await Runner.attach(result.run_id)
            assert (await attached.state()).status == "completed"
            engine = await LocalEngine.shared()
            assert engine is await LocalEngine.shared()
        finally:
            await LocalEngine.close_shared()
    assert running_server(home / "data" / "outlast") is None


async def test_run_sync_is_for_programs_without_an_event_loop():
    with pytest.raises(RuntimeError, match=r"await Runner\.run"):
        Runner.run_sync(Agent(name="Clerk"), "Hello")


async def test_a_configuration_that_cannot_be_read_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    broken = home / "temporal.toml"
    broken.write_text("this is no TOML")
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(broken))
    with pytest.raises(UserError, match="configuration cannot be read"):
        await Runner.run("Clerk", "Hello")
