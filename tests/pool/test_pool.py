"""`make test` runs pytest in several processes; no test is lost between them, whatever becomes of one."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FILES = {
    "pyproject.toml": '[tool.pytest]\nasyncio_default_fixture_loop_scope = "session"\nmarkers = ["full: slow"]\n',
    "test_some.py": """
import pytest

@pytest.fixture(scope="module")
def module():
    yield
    print("THE MODULE ENDS")

@pytest.fixture(scope="session")
def session():
    yield
    print("THE SESSION ENDS")

def test_passes(module, session): pass
def test_fails(module, session): assert [1] == [2]
@pytest.mark.skip
def test_is_skipped(): pass
@pytest.mark.full
def test_is_not_run(): assert False
""",
    "test_cannot_be_imported.py": "import what_nobody_installed\n",
    "killed/test_kills_its_process.py": """
import os, signal

def test_killed(): os.kill(os.getpid(), signal.SIGKILL)
""",
    "others/test_one.py": "def test_passes(): pass\n",
    "others/test_two.py": "class TestTwo:\n    def test_passes(self): pass\n",
    "others/test_none.py": "",
}


def test_each_file_runs_once_and_a_process_that_is_killed_fails_the_run(tmp_path: Path) -> None:
    code, output = run_pool(tmp_path)

    assert code == 1
    assert "FAILED killed/test_kills_its_process.py: process " in output
    assert "ended by SIGKILL" in output
    assert "test_some.py::test_fails" in output
    assert "assert [1] == [2]" in output
    assert "No module named 'what_nobody_installed'" in output
    assert output.splitlines()[-1].startswith(
        "1 error, 1 failed, 1 deselected, 3 passed, 1 skipped in "
    )


@pytest.mark.full
def test_what_passes_is_told_in_one_line(tmp_path: Path) -> None:
    code, output = run_pool(tmp_path, "others")

    assert code == 0
    assert output.splitlines()[-1].startswith("2 passed in ")


@pytest.mark.full
def test_nothing_that_runs_is_no_success(tmp_path: Path) -> None:
    assert run_pool(tmp_path, "others/test_none.py")[0] == 5
    code, output = run_pool(tmp_path, "others/test_missing.py")
    assert code == 1
    assert "not found" in output


def run_pool(folder: Path, *places: str) -> tuple[int, str]:
    """Write the files, run those of places, and return the exit code and what was said."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    configuration = ["-c", str(folder / "pyproject.toml"), "--rootdir", str(folder)]
    command = [sys.executable, "-m", "tests.pool", "-n", "2", "-m", "not full", *configuration]
    done = subprocess.run(
        [*command, *(str(folder / place) for place in places or ["."])],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout
