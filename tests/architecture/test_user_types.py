"""Type checks of user programs: correct ones pass in strict mode, and errors are found."""

import json
import subprocess
import sys
from pathlib import Path
from typing import get_origin

import pytest

import outlast
from outlast import sdk
from tests.architecture.source import PUBLIC, copy_as_in_a_wheel

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

LINES_OF_THE_SDK = """
from outlast import sessions
from outlast.dev import EmbeddedServer
from outlast.extensions.memory import SQLAlchemySession
from outlast.extensions.models.litellm_model import LitellmModel
from outlast.items import TResponseStreamEvent
from outlast.lifecycle import RunHooksBase
from outlast.mcp import MCPServerStdio
from outlast.mcp.util import create_static_tool_filter
from outlast.model_settings import MCPToolChoice
from outlast.tracing.span_data import MCPListToolsSpanData
def settings() -> MCPToolChoice: return MCPToolChoice(server_label="a", name="b")
class Hooks(RunHooksBase[None]): ...
def event(data: MCPListToolsSpanData) -> TResponseStreamEvent: return data
def same(server: EmbeddedServer, session: SQLAlchemySession) -> sessions.SQLAlchemySession:
    return session
model = LitellmModel("a/b")
allowed = create_static_tool_filter(["a"])
server = MCPServerStdio({"command": "a"}, tool_filter=allowed)
""" + "\n".join(
    f"from outlast.{name} import ToolContext as C{at}\n"
    f"def f{at}(c: C{at}[int]) -> int: return c.context"
    for at, name in enumerate(sdk.MODULES)
)
"""An import line for each module of the SDK, and names that only its modules or rooms have."""

WRONG_LINE_OF_THE_SDK = "from outlast.items import Nothing"

LOOSE = """
def function(given): return given
class Box(dict): ...
"""
LOOSE_NAMES = """
from loose import function, Box
def use(one: Box) -> Box: return one
value = function
"""
"""What `every_name` is for: public names whose types are not known."""


def every_name() -> str:
    """Return a program that uses each public name, types with all of their parameters."""
    types, values = list[str](), list[str]()
    for name in PUBLIC:
        public = getattr(outlast, name)
        count = len(getattr(public, "__parameters__", ()))
        parameters = f"[{', '.join(['Any'] * count)}]" if count else ""
        is_type = isinstance(public, type) or get_origin(public) is not None
        (types if is_type else values).append(name + parameters)
    return "\n".join(
        [
            "from typing import Any",
            *(f"from outlast import {name}" for name in PUBLIC),
            *(f"def use_{at}(one: {name}) -> {name}: return one" for at, name in enumerate(types)),
            *(f"value_{at} = {name}" for at, name in enumerate(values)),
        ]
    )


def complaints(folder: Path) -> dict[str, dict[int, str]]:
    """Return what pyright says of each program in a folder, by line."""
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(
        [*command, "--project", str(folder)], capture_output=True, text=True, check=False
    )
    found: dict[str, dict[int, str]] = {path.name: {} for path in folder.glob("*.py")}
    for one in json.loads(done.stdout)["generalDiagnostics"]:
        place = found[Path(one["file"]).name]
        place.setdefault(one["range"]["start"]["line"] + 1, one["message"])
    return found


@pytest.mark.full
def test_a_program_with_types_passes_strictly_and_its_mistakes_do_not(tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(PROGRAM.read_text())
    (tmp_path / "names.py").write_text(every_name())
    (tmp_path / "lines.py").write_text(LINES_OF_THE_SDK)
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "wrong_line.py").write_text(WRONG_LINE_OF_THE_SDK)
    (tmp_path / "loose_names.py").write_text(LOOSE_NAMES)
    copy_as_in_a_wheel(tmp_path / "installed")
    (tmp_path / "installed" / "loose.py").write_text(LOOSE)
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "include": ["*.py"]}
    settings |= {"extraPaths": [str(tmp_path / "installed")]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    found = complaints(tmp_path)
    assert found["right.py"] == {}
    assert found["names.py"] == {}
    assert found["lines.py"] == {}
    assert set(found["loose_names.py"]) == {2, 4}
    assert set(found["wrong.py"]) == WRONG_LINES
    assert "unknown import symbol" in found["wrong_line.py"][1]
