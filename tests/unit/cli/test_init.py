import ast
import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from outlast.cli.app import app
from outlast.cli.init import new_files
from outlast.dev import EmbeddedServer

FILES = {
    ".dockerignore",
    ".gitignore",
    "Dockerfile",
    "README.md",
    "pyproject.toml",
    "tests/test_agents.py",
    "travel_desk/__init__.py",
    "travel_desk/agents.py",
    "travel_desk/offline.py",
    "travel_desk/worker.py",
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def project(here: Path) -> Path:
    assert init("travel-desk").exit_code == 0
    return here / "travel-desk"


def init(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["init", *arguments])


def written(directory: Path) -> set[str]:
    return {str(one.relative_to(directory)) for one in directory.rglob("*") if one.is_file()}


def run(project: Path, tool: str, *arguments: str) -> None:
    program = Path(sys.executable).with_name(tool)
    if not program.exists():
        pytest.skip(f"{tool} is not installed here")
    environment = {key: value for key, value in os.environ.items() if key != "OPENAI_API_KEY"}
    done = subprocess.run(
        [program, *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_project_is_written_and_the_next_commands_are_said(here: Path) -> None:
    done = init("travel-desk")

    assert done.exit_code == 0
    assert written(here / "travel-desk") == FILES
    assert "outlast dev travel_desk/worker.py" in done.stdout
    assert 'outlast run Desk "Please refund 389 EUR for A-42." --id case-1' in done.stdout


def test_every_file_is_complete(project: Path) -> None:
    for name in FILES:
        text = (project / name).read_text()
        assert "@PACKAGE@" not in text
        assert "@NAME@" not in text
        assert "@VERSION@" not in text
        if name.endswith(".py"):
            assert ast.get_docstring(ast.parse(text))


def test_programs_get_the_list_of_files(here: Path) -> None:
    done = init("travel-desk", "--json")

    assert json.loads(done.stdout) == {
        "directory": str(here / "travel-desk"),
        "files": sorted(FILES),
    }


def test_an_empty_directory_may_be_there(here: Path) -> None:
    (here / "travel-desk" / ".git").mkdir(parents=True)

    assert init("travel-desk").exit_code == 0


def test_the_directory_may_be_this_one(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "travel-desk").mkdir()
    monkeypatch.chdir(here / "travel-desk")

    done = init(".")

    assert written(here / "travel-desk") == FILES
    assert "cd " not in done.stdout


def test_a_directory_with_files_is_left_alone(here: Path) -> None:
    (here / "travel-desk").mkdir()
    (here / "travel-desk" / "thesis.txt").write_text("mine")

    done = init("travel-desk")

    assert done.exit_code == 2
    assert "has files already (thesis.txt), so nothing was written" in done.stderr
    assert written(here) == {"travel-desk/thesis.txt"}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("9-lives", "cannot be the name of a Python package. Use letters"),
        ("café", "cannot be the name of a Python package"),
        ("class", "cannot be the name of a Python package"),
        ("json", "'json' is the name of another package. Choose another one"),
        ("agents", "`outlast init my-agents`"),
    ],
)
def test_a_name_that_python_cannot_import_is_refused(here: Path, name: str, said: str) -> None:
    done = init(name)

    assert done.exit_code == 2
    assert said in done.stderr
    assert written(here) == set()


def test_a_file_of_that_name_is_refused(here: Path) -> None:
    (here / "desk").write_text("mine")

    assert "is a file. Choose another name." in init("desk").stderr


def test_a_place_that_cannot_be_written_is_named(here: Path) -> None:
    (here / "file").write_text("mine")

    assert "cannot be written: Not a directory" in init("file/desk").stderr


@pytest.mark.full
def test_the_tests_of_a_new_project_pass(project: Path) -> None:
    run(project, "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-W", "error")


@pytest.mark.full
@pytest.mark.parametrize(
    "name", ["d", "a-very-long-name-of-a-project-that-nobody-shortened-at-all"]
)
def test_a_new_project_is_clean(here: Path, name: str) -> None:
    assert init(name).exit_code == 0

    run(here / name, "ruff", "check", ".")
    run(here / name, "ruff", "format", "--check", ".")
    run(here / name, "pyright", "--pythonpath", sys.executable)


def test_the_project_needs_this_version_or_newer() -> None:
    assert '"outlast[cli]>=0.1.0"' in new_files("desk", "desk")["pyproject.toml"]


async def work(project: Path, **environment: str) -> asyncio.subprocess.Process:
    """Start the worker as the image of a project does, which sets PRODUCTION."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OPENAI_")}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "outlast.cli.entry", "worker", "travel_desk.worker"),
        cwd=project,
        env={**kept, "PRODUCTION": "1", **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


KEY = {"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}


async def test_the_worker_for_production_ends_in_order(
    project: Path, server: EmbeddedServer
) -> None:
    process = await work(project, TEMPORAL_ADDRESS=server.address, **KEY)
    assert process.stdout is not None
    async with asyncio.timeout(30):
        assert b"runs Billing, Desk on the task queue" in await process.stdout.readline()

    process.terminate()

    _, said = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 0
    assert b"30 seconds" in said or b"30 s" in said


@pytest.mark.full
@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "OPENAI_API_KEY"),
        ({"OPENAI_API_KEY_FILE": "/nowhere/key"}, "cannot be read: /nowhere/key"),
    ],
)
async def test_the_worker_for_production_says_what_it_lacks(
    project: Path, server: EmbeddedServer, environment: dict[str, str], said: str
) -> None:
    process = await work(project, TEMPORAL_ADDRESS=server.address, **environment)

    _, words = await asyncio.wait_for(process.communicate(), 60)

    assert process.returncode != 0
    assert said in words.decode()
