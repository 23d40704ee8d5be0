"""What the gate costs is written down by part and by test file, and the longest are printed."""

import json
import subprocess
import sys
from pathlib import Path

from tests.gate.__main__ import report, together

ROOT = Path(__file__).parents[2]

CHILD = "import time\nwhile time.process_time() < 0.5: pass"
CONFTEST = """
import os
from pathlib import Path
from tests.gate.files import FOLDER_VARIABLE, FileCosts
def pytest_configure(config):
    config.pluginmanager.register(FileCosts(Path(os.environ[FOLDER_VARIABLE])))
"""
FILES = {
    "pytest.ini": "[pytest]\n",
    "conftest.py": CONFTEST,
    "test_child.py": f"""
import subprocess, sys
def test_waits_for_a_child(): subprocess.run([sys.executable, "-c", {CHILD!r}], check=True)
""",
    "test_fails.py": "def test_fails(): assert False\n",
}


def test_a_part_is_measured_by_file_with_its_children_and_keeps_its_exit_code(
    tmp_path: Path,
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    measured = [sys.executable, "-m", "tests.gate", "run", str(tmp_path / "part.json")]
    done = subprocess.run([*measured, *pytest], cwd=ROOT, check=False)

    assert done.returncode == 1
    record = json.loads((tmp_path / "part.json").read_text())
    assert record["files"].keys() == {"test_child.py", "test_fails.py"}
    assert record["files"]["test_child.py"][1] >= 0.4, "the child's CPU"
    assert record["cost"][1] >= record["files"]["test_child.py"][1]


def test_the_report_names_the_longest_and_adds_up(tmp_path: Path) -> None:
    files = {f"tests/test_{number}.py": [number, 1] for number in range(30)}
    for name, started, wall, cpu in [("test", 0, 60, 90), ("types", 100, 120, 200), ("lint", 130, 30, 10)]:  # fmt: skip
        record = {"started": started, "cost": [wall, cpu], "files": files if name == "test" else {}}
        (tmp_path / f"{name}.json").write_text(json.dumps(record))

    lines = report(tmp_path).splitlines()

    assert lines[0] == "The longest of 3 parts and 30 test files, in seconds:"
    assert [line.split(maxsplit=2)[2] for line in lines[2:5]] == ["types", "test", "lint"]
    assert lines[5].split(maxsplit=2) == ["29.0", "1.0", "test: tests/test_29.py"]
    assert len(lines) == 2 + 20 + 1
    assert lines[-1] == "lint, test, types: 3.0 minutes of wall, 5.0 of CPU"


def test_what_runs_at_once_counts_once() -> None:
    assert together([(0, 10), (5, 7), (8, 20), (30, 31)]) == 21
    assert together([]) == 0
