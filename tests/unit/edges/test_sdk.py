"""Programs of the SDK keep their import lines but for the package's name."""

import importlib
import pkgutil
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import pytest
from openai.types.responses import tool_param

import outlast
from outlast.edges import sdk
from tests.architecture.source import PUBLIC, ROOT, copy_as_in_a_wheel


def test_a_module_of_the_sdk_has_every_name() -> None:
    for name, room in sdk.MODULES.items():
        module = importlib.import_module(f"outlast.{name}")
        assert module.Agent is outlast.Agent
        assert module.TResponse is not None
        rooms = [outlast, importlib.import_module(f"outlast.{room}".rstrip("."))]
        expected = {public for room in rooms for public in room.__all__} | set(sdk.NAMES)
        assert set(module.__all__) == expected, name
        assert expected <= set(dir(module)), name


def test_a_name_that_only_its_modules_have_is_here_and_not_public() -> None:
    items = importlib.import_module("outlast.items")
    for name, home in sdk.NAMES.items():
        assert getattr(items, name) is pkgutil.resolve_name(sdk.import_path(home)), name
        assert name not in PUBLIC


def test_no_name_hides_a_real_module_or_a_public_name() -> None:
    for name in sdk.MODULES:
        parent, _, _ = f"outlast.{name}".rpartition(".")
        path = getattr(importlib.import_module(parent), "__path__", None)
        assert PathFinder.find_spec(f"outlast.{name}", path) is None, name
        assert name not in PUBLIC


def test_what_is_not_public_is_not_there() -> None:
    module = importlib.import_module("outlast.items")
    with pytest.raises(AttributeError, match=r"'outlast\.items' has no attribute 'Nothing'"):
        _ = module.Nothing
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("outlast.nowhere")


@pytest.mark.parametrize(
    ("name", "home"),
    [
        ("mcp.util:create_static_tool_filter", "mcp"),
        ("mcp.server:MCPServer", "mcp"),
        ("tracing.config:TracingConfig", "tracing"),
        ("tracing.span_data:MCPListToolsSpanData", "tracing"),
        ("extensions.memory:SQLAlchemySession", "sessions"),
        ("extensions.memory.sqlalchemy_session:SQLAlchemySession", "sessions"),
        ("extensions.models.litellm_model:LitellmModel", "models"),
        ("extensions.models.litellm_provider:LitellmProvider", "models"),
    ],
)
def test_a_name_of_a_room_is_also_where_the_sdk_has_it(name: str, home: str) -> None:
    room = importlib.import_module(f"outlast.{home}")
    assert pkgutil.resolve_name(f"outlast.{name}") is getattr(room, name.partition(":")[2])


def test_the_finder_is_installed_once() -> None:
    before = list(sys.meta_path)
    sdk.install()
    assert sys.meta_path == before
    assert sum(isinstance(one, sdk.SDKFinder) for one in before) == 1


PROGRAM = """
from outlast import Agent, Runner
from outlast.exceptions import MaxTurnsExceeded
from outlast.items import ItemHelpers, TResponseInputItem, TResponseOutputItem
from outlast.memory import Session, SQLiteSession
from outlast.handoffs.history import nest_handoff_history
from outlast.memory.session import SessionABC
from outlast.memory.util import SessionInputCallback
from outlast.models.interface import Model, ModelProvider
from outlast.models.openai_provider import OpenAIProvider
from outlast.run import CallModelData, ModelInputData, RunConfig
from outlast.stream_events import RunItemStreamEvent
from outlast.tool import FunctionTool, function_tool
from outlast.tool_context import ToolContext
from outlast.tracing.processor_interface import TracingProcessor
from outlast.tracing.spans import Span
import outlast.lifecycle as lifecycle
import pickle

assert pickle.loads(pickle.dumps(lifecycle.RunHooksBase)) is lifecycle.RunHooksBase
print(ToolContext.__name__, lifecycle.RunHooks.__name__)
"""


def run(program: str, folder: Path = ROOT) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_a_program_of_the_sdk_imports_what_it_did() -> None:
    assert run(PROGRAM) == "ToolContext RunHooks\n"


@pytest.mark.full
def test_it_does_with_the_files_of_a_wheel_too(tmp_path: Path) -> None:
    copy_as_in_a_wheel(tmp_path)
    show = "import outlast.items, outlast.memory.util as u, inspect; print(u.__file__)\n"
    show += "assert 'sdk.fill' in inspect.getsource(outlast.items)\n"
    expected = f"{tmp_path / 'outlast' / 'memory' / 'util.py'}\nToolContext RunHooks\n"
    assert run(show + PROGRAM, tmp_path) == expected


@pytest.mark.parametrize(
    ("statement", "unloaded"),
    [
        ("from outlast.lifecycle import RunHooksBase", ["temporalio", "openai"]),
        ("from outlast.items import TResponseOutputItem", ["temporalio", "openai"]),
        ("import outlast.extensions.memory", ["temporalio", "sqlalchemy"]),
        ("import outlast.realtime.config", ["temporalio", "openai", "pydantic", "websockets"]),
        (
            "from outlast.realtime.model_inputs import RealtimeModelSendAudio",
            ["temporalio", "openai", "websockets"],
        ),
    ],
)
def test_a_module_of_the_sdk_loads_nothing_large(statement: str, unloaded: list[str]) -> None:
    assert run(f"{statement}\nimport sys\nprint(*{{*{unloaded!r}}} & {{*sys.modules}})") == "\n"


def test_types_of_the_openai_package_are_in_the_sdks_modules() -> None:
    tools = importlib.import_module("outlast.tool")
    for name in ("CodeInterpreter", "ImageGeneration", "Mcp"):
        assert getattr(tools, name) is getattr(tool_param, name)
