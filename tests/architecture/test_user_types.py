"""Programs of users are checked: what is right passes strictly, and what is wrong is found."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

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
LINES = {6, 8, 9, 12, 13}


def test_a_program_with_types_passes_strictly_and_its_mistakes_do_not(tmp_path: Path) -> None:
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(PROGRAM.read_text())
    wrong.write_text(WRONG)
    root = str(PROGRAM.parents[2])
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "extraPaths": [root]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(
        [*command, "--project", str(tmp_path)], capture_output=True, text=True, check=False
    )
    found: dict[str, dict[int, str]] = {"right.py": {}, "wrong.py": {}}
    for one in json.loads(done.stdout)["generalDiagnostics"]:
        place = found[Path(one["file"]).name]
        place[one["range"]["start"]["line"] + 1] = one["message"]
    assert found["right.py"] == {}
    assert set(found["wrong.py"]) == LINES
