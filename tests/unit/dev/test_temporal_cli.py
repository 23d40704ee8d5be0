"""Where Temporal's tool is looked for, and in which order."""

import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import pytest

from outlast.agents.errors import ServerUnavailable
from outlast.dev.temporal_cli import find_temporal_cli


def make_tool(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path.resolve()


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine on which nothing is installed."""
    monkeypatch.delenv("OUTLAST_TEMPORAL_CLI", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "environment" / "python"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path


def test_the_nearest_place_wins(monkeypatch: pytest.MonkeyPatch, machine: Path):
    download = machine / "temporary" / f"temporal-cli-sdk-python-{version('temporalio')}"
    assert find_temporal_cli_after(make_tool(download)) == download
    installed = machine / "environment" / "temporal"
    assert find_temporal_cli_after(make_tool(installed)) == installed
    on_path = machine / "path" / "temporal"
    assert find_temporal_cli_after(make_tool(on_path)) == on_path
    named = machine / "elsewhere" / "my-temporal"
    monkeypatch.setenv("OUTLAST_TEMPORAL_CLI", str(make_tool(named)))
    assert find_temporal_cli() == named


def find_temporal_cli_after(made: Path) -> Path:
    assert made.exists()
    return find_temporal_cli()


def test_the_override_may_be_a_command(monkeypatch: pytest.MonkeyPatch, machine: Path):
    tool = make_tool(machine / "path" / "other")
    monkeypatch.setenv("OUTLAST_TEMPORAL_CLI", "other")
    assert find_temporal_cli() == tool


def test_an_override_that_cannot_be_run_is_named(monkeypatch: pytest.MonkeyPatch, machine: Path):
    make_tool(machine / "path" / "temporal")
    broken = machine / "broken"
    broken.write_text("no program")
    monkeypatch.setenv("OUTLAST_TEMPORAL_CLI", str(broken))
    with pytest.raises(ServerUnavailable, match=f"OUTLAST_TEMPORAL_CLI is '{broken}'.*unset it"):
        find_temporal_cli()


def test_a_machine_without_the_tool_is_told_how_to_get_it():
    with pytest.raises(ServerUnavailable, match=r'pip install "outlast\[dev\]"'):
        find_temporal_cli()
