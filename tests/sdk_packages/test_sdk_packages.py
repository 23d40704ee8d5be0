"""Objects of three packages that are made for the OpenAI Agents SDK run here."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.sdk_packages.conftest import PYTHON

PROGRAM = Path(__file__).with_name("program.py")
PATIENCE_SECONDS = 120


def run(package: str) -> Any:
    """Run the agent of a package to its end, and return what it printed."""
    done = subprocess.run(
        [str(PYTHON), str(PROGRAM), package],
        env={**os.environ, "OPENAI_API_KEY": "none"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_tools_of_stripe_agent_toolkit_run() -> None:
    assert run("stripe") == {
        "asked": [["create_refund", {"charge": "ch_1"}]],
        "output": "re_1 is refunded",
        "tool": "agents.tool",
    }


def test_tools_of_composio_openai_agents_run() -> None:
    assert run("composio") == {"outputs": [{"slug": "GITHUB_STAR", "repo": "a/b"}] * 2}


def test_guardrails_of_openai_guardrails_run_and_its_agent_is_refused() -> None:
    found = run("guardrails")
    assert found.pop("refused").startswith("'Guarded' is an Agent of the OpenAI Agents SDK")
    assert found == {"passed": "Hi.", "names": ["Keyword_Filter"], "tripped": "Keyword Filter"}
