"""Type checks of user programs, as `make types` runs them: Pyright and mypy, in strict mode.

Correct programs have no errors, and the mistakes of others are found.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar, get_origin

import pytest

import outlast
from outlast.cli.init import new_files, write_project
from outlast.edges import sdk
from tests.architecture.source import PUBLIC, ROOT, copy_as_in_a_wheel

pytest.importorskip("pyright", reason="it comes with the dependency group lint")
pytest.importorskip("mypy", reason="it comes with the dependency group lint")

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
        is_type = isinstance(public, type | TypeVar) or get_origin(public) is not None
        (types if is_type else values).append(name + parameters)
    return "\n".join(
        [
            "from typing import Any",
            *(f"from outlast import {name}" for name in PUBLIC),
            *(f"def use_{at}(one: {name}) -> {name}: return one" for at, name in enumerate(types)),
            *(f"value_{at} = {name}" for at, name in enumerate(values)),
        ]
    )


TUTORIAL = ROOT / "docs/tutorial/first-desk.md"
PROGRAM_OF_A_PAGE = re.compile(r'^```python title="(\S+)"\n(.*?)^```', re.MULTILINE | re.DOTALL)

Complaints = Mapping[str, Mapping[int, str]]
"""The first error of each line, by program."""


def write_programs(folder: Path) -> None:
    """Write programs as their authors have them, and outlast as a wheel installs it."""
    shutil.copytree(
        ROOT / "examples",
        folder,
        ignore=shutil.ignore_patterns("node_modules", "__pycache__"),
        dirs_exist_ok=True,
    )
    for name, program in PROGRAM_OF_A_PAGE.findall(TUTORIAL.read_text(encoding="utf-8")):
        (folder / name).write_text(program, encoding="utf-8")
    write_project(folder / "new", new_files("my-desk", "my_desk"))
    for part in ("my_desk", "tests"):
        shutil.move(folder / "new" / part, folder)
    (folder / "right.py").write_text(PROGRAM.read_text())
    (folder / "names.py").write_text(every_name())
    (folder / "lines.py").write_text(LINES_OF_THE_SDK)
    (folder / "wrong.py").write_text(WRONG)
    (folder / "wrong_line.py").write_text(WRONG_LINE_OF_THE_SDK)
    (folder / "loose_names.py").write_text(LOOSE_NAMES)
    copy_as_in_a_wheel(folder / "installed")
    (folder / "installed" / "loose.py").write_text(LOOSE)


def pyright_complaints(folder: Path) -> Complaints:
    """Return what Pyright says of the programs in a folder, in strict mode."""
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "exclude": ["installed"]}
    settings |= {"extraPaths": [str(folder / "installed")]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(
        [*command, "--project", str(folder)], capture_output=True, text=True, check=False
    )
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] > len(list((ROOT / "examples").rglob("*.py")))
    found = defaultdict[str, dict[int, str]](dict)
    for one in report["generalDiagnostics"]:
        lines = found[str(Path(one["file"]).relative_to(folder))]
        lines.setdefault(one["range"]["start"]["line"] + 1, one["message"])
    return found


def mypy_complaints(folder: Path) -> Complaints:
    """Return what mypy says of the programs in a folder, with --strict."""
    command = [sys.executable, "-m", "mypy", "--strict", "--python-version=3.11"]
    # Users' copies are in site-packages, whose errors mypy does not report either.
    command += ["--follow-imports=silent", "--exclude=^installed/", "--explicit-package-bases"]
    command += [f"--cache-dir={ROOT / '.mypy_cache'}", "--no-error-summary", "."]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(folder / "installed")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = defaultdict[str, dict[int, str]](dict)
    for path, line, message in re.findall(r"^(\S+):(\d+): error: (.+)$", done.stdout, re.MULTILINE):
        found[path].setdefault(int(line), message)
    return found


def check(found: Complaints, *, loose_lines: set[int]) -> None:
    """Fail unless the errors are those that the programs were given."""
    assert "has no attribute" in found["wrong_line.py"][1] or "unknown" in found["wrong_line.py"][1]
    assert set(found["wrong.py"]) == WRONG_LINES
    assert set(found["loose_names.py"]) == loose_lines
    wrong = {"wrong.py", "wrong_line.py", "loose_names.py"}
    assert {path: lines for path, lines in found.items() if path not in wrong} == {}


@pytest.mark.full
def test_programs_with_types_pass_strictly_and_mistakes_do_not(tmp_path: Path) -> None:
    write_programs(tmp_path)
    check(pyright_complaints(tmp_path), loose_lines={2, 4})
    # mypy takes any name of another package as typed.
    check(mypy_complaints(tmp_path), loose_lines=set())
