"""The programs of the documentation run as printed, each in a process of its own, without a server."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests import forked
from tests.unit.docs.guides import PAGES, PROGRAMS, blocks, check_printed

CONNECTS = re.compile(r"\bconnect\(|handle\.client|\bclient=")
"""What a program has that takes part in more than its own run, and so needs the server's address."""


def first_with_an_import() -> Iterator[str]:
    """Yield each program that imports a module of the package which none before it imports."""
    known = set[str]()
    for page in PAGES[:-1]:
        for program in blocks(page, "python"):
            modules = set(re.findall(r"^(?:from|import) (outlast[\w.]*)", program, re.MULTILINE))
            if modules - known:
                yield program
            known |= modules


ANEW = {*first_with_an_import()}
"""The programs whose process loads the packages itself: the others are forked from one that has them."""


@pytest.mark.full
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs_as_printed_on_a_machine_without_a_server(
    program: str, tmp_path: Path
) -> None:
    """In a process of its own, with an empty home; or it says at once that a server is to be started.

    A program that hosts its runs starts a server. One that connects to a worker's does not.
    """
    file = tmp_path / "program.py"
    file.write_text(program, encoding="utf-8")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TEMPORAL_", "OPENAI_", "OUTLAST_", "PYTEST_"))
    }
    with nullcontext() if program in ANEW else forked.processes():
        done = subprocess.run(
            [sys.executable, str(file)],
            cwd=tmp_path,
            env=kept | {"HOME": str(tmp_path), "TEMPORAL_CONFIG_FILE": os.devnull},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    if done.returncode and CONNECTS.search(program):
        assert "ServerUnavailable" in done.stderr.splitlines()[-1], done.stderr[-2_000:]
        assert "outlast dev" in done.stderr
        return
    assert done.returncode == 0, done.stderr[-2_000:]
    check_printed(program, done.stdout)
