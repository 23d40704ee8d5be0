"""The engine of a program that configures nothing: one server and one worker for its agents."""

from pathlib import Path
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.agents.tools.function_tool import function_tool
from outlast.client.runner import Runner
from outlast.dev import running_server
from outlast.local.engine import LocalEngine
from outlast.testing import call, say
from tests.unit.models.model_server import ModelServer


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
    monkeypatch.setenv("OUTLAST_DATA_DIR", str(tmp_path / "data" / "outlast"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    return tmp_path


@pytest.mark.smoke
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


@pytest.mark.smoke
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
