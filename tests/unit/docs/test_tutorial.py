"""The tutorial, followed step by step: its programs, its commands, and what they print."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outlast.dev import EmbeddedServer

TUTORIAL = Path(__file__).parents[3] / "docs" / "tutorial" / "first-desk.md"
TEXT = TUTORIAL.read_text(encoding="utf-8")
FILES = dict(re.findall(r'^```python title="(\S+)"\n(.*?)^```$', TEXT, re.MULTILINE | re.DOTALL))
COMMANDS = re.findall(r"^(outlast .*)$", TEXT, re.MULTILINE)
WAITS = 3


def _interruptible() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """The reader's terminals: one folder, one server."""

    def __init__(self, folder: Path, server: EmbeddedServer) -> None:
        self._folder = folder
        kept = {name: value for name, value in os.environ.items() if name != "OPENAI_API_KEY"}
        self._environment = {**kept, "TEMPORAL_ADDRESS": server.address, "USER": "ann"}

    def start(self, *command: str) -> subprocess.Popen[str]:
        program = [str(Path(sys.executable).with_name(command[0])), *command[1:]]
        return subprocess.Popen(
            program,
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # A shell may have started the tests with SIGINT ignored, as a background job.
            preexec_fn=_interruptible,  # noqa: PLW1509  no other threads here
        )

    def run(self, *command: str, typed: str = "") -> tuple[str, int]:
        process = self.start(*command)
        printed, _ = process.communicate(typed, timeout=100)
        return printed, process.returncode


@pytest.fixture
async def terminal(tmp_path: Path) -> AsyncIterator[Terminal]:
    for name, program in FILES.items():
        # The pause is for readers, who have to find the worker's terminal.
        quick = program.replace("asyncio.sleep(10)", "asyncio.sleep(0)")
        (tmp_path / name).write_text(quick, encoding="utf-8")
    async with EmbeddedServer(ui_port=None) as server:
        yield Terminal(tmp_path, server)


@pytest.mark.full
def test_the_tutorial_ends_with_one_payment(terminal: Terminal, tmp_path: Path) -> None:
    ask = 'outlast run Desk "Please refund 389 EUR for order A-42." --id case-1'
    assert {"outlast worker desk", ask, "outlast show case-1"} <= set(COMMANDS)
    assert {"outlast approve case-1", "outlast tail case-1"} <= set(COMMANDS)

    worker = terminal.start("outlast", "worker", "desk")
    try:
        question = "Please refund 389 EUR for order A-42."
        printed, code = terminal.run("outlast", "run", "Desk", question, "--id", "case-1")
        assert code == WAITS
        digest = re.search("--digest ([0-9a-f]+)", printed)
        assert digest is not None
        for line in _block_after(TEXT, ask).splitlines():
            assert re.sub("--digest [0-9a-f]+", digest[0], line) in printed
        _kill(worker)
        assert "waiting" in terminal.run("outlast", "show", "case-1")[0]

        worker = terminal.start("outlast", "worker", "desk")
        assert terminal.run("outlast", "approve", "case-1", "--yes", *digest[0].split())[1] == 0
        printed, _ = terminal.run("outlast", "tail", "case-1")
        assert "389 EUR for A-42 are on their way." in printed
        paid = "case-1@[0-9a-f]{12}:call_1: 389 EUR for A-42\n"
        assert re.fullmatch(paid, (tmp_path / "refunds.txt").read_text())

        asking = terminal.start("python", "ask.py")
        assert asking.stdout is not None
        assert asking.stdout.readline().startswith("waiting: refund")
        assert asking.stdout.read(len("Pay? ")) == "Pay? "
        asking.send_signal(signal.SIGINT)
        printed, _ = asking.communicate(timeout=30)
        assert printed == "\nThe run waits. Run this again to answer.\n"
        printed, code = terminal.run("python", "ask.py", typed="yes\n")
        assert (code, printed.splitlines()[-1]) == (0, "Pay? 389 EUR for A-42 are on their way.")
    finally:
        _kill(worker)


@pytest.mark.full
def test_the_test_of_the_tutorial_passes(terminal: Terminal) -> None:
    printed, code = terminal.run("pytest", "-q", "-p", "no:cacheprovider", "test_desk.py")
    assert code == 0, printed


def _kill(worker: subprocess.Popen[str]) -> None:
    """Do what `kill -9` does, and close the terminal."""
    worker.kill()
    worker.communicate()


def _block_after(text: str, command: str) -> str:
    """Return what the tutorial says that a command prints."""
    return text.split(command, 1)[1].split("```text\n", 1)[1].split("```", 1)[0]
