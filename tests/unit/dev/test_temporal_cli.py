"""Where Temporal's tool is looked for, and in which order."""

import sys
import tempfile
from collections.abc import Callable
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


def planted(machine: Path) -> Path:
    """Make a tool where the Temporal SDK would download it to."""
    return make_tool(machine / "temporary" / f"temporal-cli-sdk-python-{version('temporalio')}")


def test_a_tool_that_somebody_else_has_planted_is_not_run(
    machine: Path, give_away: Callable[[Path], None]
):
    download = planted(machine)
    (machine / "temporary").chmod(0o1777)
    give_away(download)
    with pytest.raises(ServerUnavailable, match=f"{download} is not run, because it belongs to"):
        find_temporal_cli()


def test_no_tool_is_found_where_everything_is_somebody_elses(machine: Path, as_stranger: None):
    with pytest.raises(ServerUnavailable, match=r'pip install "outlast\[dev\]"'):
        find_temporal_cli()
    download = planted(machine)
    if download.stat().st_uid != 0:  # what root installs is for everybody
        with pytest.raises(ServerUnavailable, match="is not run, because it belongs to"):
            find_temporal_cli()


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777])
def test_a_tool_that_others_can_change_is_not_run(machine: Path, mode: int):
    planted(machine).chmod(mode)
    with pytest.raises(ServerUnavailable, match=r"others can write to it \(mode 07"):
        find_temporal_cli()


def test_a_tool_in_a_folder_where_others_can_replace_it_is_not_run(machine: Path):
    download = planted(machine)
    (machine / "temporary").chmod(0o777)
    with pytest.raises(ServerUnavailable, match=f"others can write to the folder {machine}"):
        find_temporal_cli()
    (machine / "temporary").chmod(0o1777)
    assert find_temporal_cli() == download
    machine.chmod(0o777)
    with pytest.raises(ServerUnavailable, match=f"others can write to the folder {machine}"):
        find_temporal_cli()


def test_a_link_in_the_temporary_folder_is_not_followed(machine: Path):
    tool = make_tool(machine / "elsewhere" / "tool")
    planted(machine).unlink()
    (machine / "temporary" / f"temporal-cli-sdk-python-{version('temporalio')}").symlink_to(tool)
    with pytest.raises(ServerUnavailable, match="is not run, because it is a link"):
        find_temporal_cli()
