"""The room's front door: names without the extra, and what is said where it is missing."""

import subprocess
import sys

import pytest

import outlast.mcp
from tests.architecture.source import ROOT, names_of


def test_every_name_is_there() -> None:
    for name in names_of(outlast.mcp):
        assert getattr(outlast.mcp, name) is not None
    assert set(names_of(outlast.mcp)) <= set(dir(outlast.mcp))
    with pytest.raises(AttributeError, match=r"'outlast\.mcp' has no attribute 'Server'"):
        _ = getattr(outlast.mcp, "Server")  # noqa: B009  type checkers know that it is missing


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_a_server_without_its_package_says_what_to_install() -> None:
    said = run(
        "import sys; sys.modules['mcp'] = None\n"
        "from outlast.mcp import MCPServer, create_static_tool_filter\n"
        "try: from outlast.mcp import MCPServerStdio\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    assert (
        said
        == "MCPServerStdio requires the 'mcp' extra for the mcp package: pip install 'outlast[mcp]'\n"
    )


def test_defining_an_agent_and_a_server_of_ones_own_loads_no_protocol() -> None:
    said = run(
        "import sys, outlast, outlast.mcp\n"
        "class Mine(outlast.mcp.MCPServer):\n"
        "    name = 'mine'\n"
        "    async def connect(self): ...\n"
        "    async def cleanup(self): ...\n"
        "    async def list_tools(self, run_context=None, agent=None): return []\n"
        "    async def call_tool(self, tool_name, arguments, meta=None): ...\n"
        "outlast.Agent(name='A', mcp_servers=[Mine()])\n"
        "print({'mcp', 'temporalio', 'openai'} & set(sys.modules))"
    )
    assert said == "set()\n"
