"""Programs of users are checked: what is right passes strictly, and what is wrong is found."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from outlast.module_names import MODULES

pytest.importorskip("pyright", reason="it comes with the dependency group lint")

PROGRAM = Path(__file__).with_name("typed_program.py")

WRONG = """
from outlast import Agent, Runner, RunState, function_tool

@function_tool
def tool() -> str:
    return 1

Agent(nam="A")
Agent[int](name="A", tools=["tool"])

async def main(state: RunState[int]) -> int:
    state.aprove("it")
    return await Runner.run(Agent(name="A"), state)
"""
WRONG_LINES = {6, 8, 9, 12, 13}

FURTHER_LINES = """
from outlast.items import TResponseStreamEvent
from outlast.lifecycle import RunHooksBase
from outlast.mcp.util import create_static_tool_filter
from outlast.model_settings import MCPToolChoice
from outlast.tracing.span_data import MCPListToolsSpanData
def settings() -> MCPToolChoice: return MCPToolChoice(server_label="a", name="b")
class Hooks(RunHooksBase[None]): ...
def event(data: MCPListToolsSpanData) -> TResponseStreamEvent: return data
allowed = create_static_tool_filter(["a"])
"""
"""Names that only modules of the SDK have."""

LINES_OF_THE_FIELD = FURTHER_LINES + "\n".join(
    f"from {name} import ToolContext as C{at}\ndef f{at}(c: C{at}[int]) -> int: return c.context"
    for at, name in enumerate(sorted(MODULES))
)
"""One import line for each module that the SDK has, too."""


def test_a_program_with_types_passes_strictly_and_its_mistakes_do_not(tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(PROGRAM.read_text())
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "lines.py").write_text(LINES_OF_THE_FIELD)
    root = str(PROGRAM.parents[2])
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "extraPaths": [root]}
    settings["reportMissingModuleSource"] = "none"  # the modules are made when they are imported
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(
        [*command, "--project", str(tmp_path)], capture_output=True, text=True, check=False
    )
    found: dict[str, dict[int, str]] = {"right.py": {}, "wrong.py": {}, "lines.py": {}}
    for one in json.loads(done.stdout)["generalDiagnostics"]:
        place = found[Path(one["file"]).name]
        place[one["range"]["start"]["line"] + 1] = one["message"]
    assert found["right.py"] == {}
    assert found["lines.py"] == {}
    assert set(found["wrong.py"]) == WRONG_LINES
