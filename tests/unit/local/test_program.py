"""Programs by their names: a script is the same one when it is run again."""

import os
import sys
import sysconfig
from pathlib import Path

import pytest

from outlast.local.program import this_program


def run_as(path: Path | str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process be that of a script."""
    if isinstance(path, Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    main, file = sys.modules["__main__"], str(path) if path else None
    monkeypatch.setattr(main, "__file__", file, raising=False)


def test_a_script_has_its_name_and_a_digest_of_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_as(tmp_path / "desk.py", monkeypatch)
    program = this_program()
    assert program.is_script
    stem, _, digest = program.name.partition("-")
    assert (stem, len(digest)) == ("desk", 8)
    monkeypatch.chdir(tmp_path)
    run_as("desk.py", monkeypatch)
    assert this_program() == program, "wherever it is started from"


def test_another_script_is_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / "desk.py", tmp_path / "shop.py", tmp_path / "copy" / "desk.py"]
    seen: set[str] = set()
    for path in paths:
        run_as(path, monkeypatch)
        seen.add(this_program().name)
    assert len(seen) == 3


def test_a_package_that_is_run_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_as(tmp_path / "shop" / "__main__.py", monkeypatch)
    assert this_program().name.startswith("shop-")


def test_a_command_that_many_projects_use_is_a_program_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = dict.fromkeys(("scripts", "purelib", "platlib", "stdlib"), str(tmp_path / "bin"))
    monkeypatch.setattr(sysconfig, "get_path", places.__getitem__)
    run_as(tmp_path / "bin" / "uvicorn", monkeypatch)
    names: list[str] = []
    for project in ("one", "two", "one"):
        (tmp_path / project).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / project)
        names.append(this_program().name)
    assert names[0] == names[2] != names[1]


@pytest.mark.parametrize("path", [None, "<stdin>", "/nowhere/at/all.py"])
def test_what_is_typed_in_is_only_this_processs(
    path: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_as(path, monkeypatch)
    program = this_program()
    assert not program.is_script
    assert program.name.startswith("interactive-")
    assert this_program() == program, "also for its next event loop"
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert this_program() != program
