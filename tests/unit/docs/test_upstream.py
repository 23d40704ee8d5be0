"""The programs of docs/upstream still show the faults that outlast works around."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[3] / "docs" / "upstream"


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["eviction", "tick"])
def test_a_fault_is_still_there_as_its_report_says(name: str) -> None:
    """If this fails, a release has mended the fault: take the workaround and the report away."""
    programs = str(Path(sys.executable).parent)
    done = subprocess.run(
        [sys.executable, PAGES / f"{name}.py"],
        env={**os.environ, "PATH": os.pathsep.join([programs, os.environ["PATH"]])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2_000:]
    (report,) = re.findall(
        r"It prints.*?```text\n(.*?)```", (PAGES / f"{name}.md").read_text(), re.DOTALL
    )
    figures = re.compile(r" *\d+\.\d+")
    expected = figures.sub("N", report).splitlines()
    printed = figures.sub("N", done.stdout).splitlines()
    assert printed[-len(expected) :] == expected


def test_each_program_has_a_report() -> None:
    assert {path.stem for path in PAGES.glob("*.py")} == {"eviction", "tick"}
    assert {path.stem for path in PAGES.glob("*.md")} == {"index", "eviction", "tick"}
