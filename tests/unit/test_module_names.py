"""Programs keep their import lines but for the package's name."""

import importlib
import pkgutil
import subprocess
import sys
from importlib.machinery import PathFinder

import pytest

import outlast
from outlast import module_names
from outlast.module_names import MODULES, ModuleNames, install


@pytest.mark.parametrize("name", sorted(MODULES))
def test_every_public_name_is_in_every_module(name: str) -> None:
    module = importlib.import_module(name)
    assert module.Agent is outlast.Agent
    assert module.ToolContext is outlast.ToolContext
    assert list(module.__all__) == outlast.__all__


def test_what_is_not_public_is_not_there() -> None:
    module = importlib.import_module("outlast.items")
    with pytest.raises(AttributeError, match=r"'outlast\.items' has no attribute 'Nothing'"):
        _ = module.Nothing
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("outlast.nowhere")


def test_no_module_takes_the_place_of_a_public_name() -> None:
    assert not {name.removeprefix("outlast.") for name in MODULES} & set(outlast.__all__)


@pytest.mark.parametrize("name", sorted(MODULES))
def test_no_name_hides_a_real_module(name: str) -> None:
    parent, _, _ = name.rpartition(".")
    path = getattr(importlib.import_module(parent), "__path__", None)
    assert PathFinder.find_spec(name, path) is None


@pytest.mark.parametrize(
    ("name", "real"),
    [
        ("mcp.util:create_static_tool_filter", "mcp"),
        ("mcp.server:MCPServer", "mcp"),
        ("tracing.config:TracingConfig", "tracing"),
        ("tracing.span_data:MCPListToolsSpanData", "tracing"),
    ],
)
def test_a_module_of_a_package_that_is_real_has_the_names_of_that_package(
    name: str, real: str
) -> None:
    package = importlib.import_module(f"outlast.{real}")
    assert pkgutil.resolve_name(f"outlast.{name}") is getattr(package, name.partition(":")[2])


def test_it_is_installed_once() -> None:
    before = list(sys.meta_path)
    install()
    assert sys.meta_path == before
    assert sum(isinstance(one, ModuleNames) for one in before) == 1


def test_a_program_of_the_sdk_imports_what_it_did() -> None:
    program = """
from outlast import Agent, Runner
from outlast.exceptions import MaxTurnsExceeded
from outlast.items import ItemHelpers, TResponseInputItem
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

print(ToolContext.__name__, lifecycle.RunHooks.__name__)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("ToolContext RunHooks\n", "")


def test_the_package_is_named_once() -> None:
    assert outlast.__name__ == module_names.PACKAGE
