"""`make test` runs pytest in several processes; no test is lost between them, whatever becomes of one."""

import multiprocessing
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pool.__main__ import _files, _not_once
from tests.pool.share import Share

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
    "conftest.py": """
from pathlib import Path

def pytest_runtest_call(item):
    with Path(__file__).with_name("ran").open("a") as ran:
        print(item.nodeid, file=ran)
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
    assert sorted((tmp_path / "ran").read_text().splitlines()) == [
        "killed/test_kills_its_process.py::test_killed",
        "others/test_one.py::test_passes",
        "others/test_two.py::TestTwo::test_passes",
        "test_some.py::test_fails",
        "test_some.py::test_passes",
    ]


TURNS = 1000


def draw_turns(folder: Path, number: int) -> list[int]:
    share = Share(folder, number, "computing", 1)
    drawn = list[int]()
    while (turn := share._next_turn("computing")) < TURNS:
        drawn.append(turn)
    return drawn


def test_processes_that_take_turns_at_once_take_each_turn_once(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as processes:
        drawn = processes.starmap(draw_turns, [(tmp_path, number) for number in range(4)])
    assert sorted(turn for turns in drawn for turn in turns) == list(range(TURNS))


@pytest.mark.full
def test_what_passes_is_told_in_one_line(tmp_path: Path) -> None:
    code, output = run_pool(tmp_path, "others", waiting=1)

    assert code == 0
    assert output.splitlines()[-1].startswith("2 passed in ")
    assert output.splitlines()[-1].endswith("; 3 of 3 files")


def test_files_that_were_not_run_or_run_twice_are_named(tmp_path: Path) -> None:
    (tmp_path / "0.listed").write_text("a.py\nb.py\nc.py")
    (tmp_path / "1.listed").write_text("a.py\nb.py\nc.py")
    (tmp_path / "0.files").write_text("a.py\nb.py\n")
    (tmp_path / "1.files").write_text("b.py\n")
    listed, taken = _files(tmp_path, range(2))
    assert (sorted(listed), taken) == (["a.py", "b.py", "c.py"], ["a.py", "b.py", "b.py"])
    assert _not_once(listed, taken) == "b.py (2), c.py (0)"


def test_a_seed_gives_another_order_which_is_the_same_in_every_process(tmp_path: Path) -> None:
    orders = [
        Share(tmp_path, number, "waiting", 1, seed)._mixed(list(range(50)), what)
        for number, seed, what in [
            (0, None, "files"), (0, "1", "files"), (1, "1", "files"), (0, "2", "files"), (0, "1", "a.py"),
        ]
    ]  # fmt: skip
    assert orders[0] == list(range(50))
    assert orders[1] == orders[2]
    assert len({tuple(order) for order in orders}) == 4
    assert all(sorted(order) == orders[0] for order in orders)


@pytest.mark.full
def test_nothing_that_runs_is_no_success(tmp_path: Path) -> None:
    assert run_pool(tmp_path, "others/test_none.py")[0] == 5
    code, output = run_pool(tmp_path, "others/test_missing.py")
    assert code == 1
    assert "not found" in output


def run_pool(folder: Path, *places: str, waiting: int = 0) -> tuple[int, str]:
    """Write the files, run those of places, and return the exit code and what was said."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    processes = ["-n", "2", "-w", str(waiting)]
    arguments = ["-m", "not full", "-c", str(folder / "pyproject.toml"), "--rootdir", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.pool", *processes, *arguments]
        + [str(folder / place) for place in places or ["."]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout
