"""Samples where a Python program spends its CPU time, every 2 ms of it.

    python benchmarks/sampler.py FILE PROGRAM [ARGUMENTS]

Begins with SIGUSR1, and writes FILE at SIGUSR2: JSON with the stacks of the main thread and their
counts, and the CPU seconds of each thread of the process, which the stacks do not show.
"""

import json
import os
import runpy
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

EVERY_SECONDS = 0.002

_stacks: Counter[tuple[str, ...]] = Counter()
_at_start: dict[str, float] = {}


def threads() -> dict[str, float]:
    """Return the CPU seconds of this process's threads, by name; all of one name together."""
    ticks = os.sysconf("SC_CLK_TCK")
    found: dict[str, float] = {}
    for task in Path("/proc/self/task").iterdir():
        head, _, rest = (task / "stat").read_text().rpartition(")")
        is_main = int(task.name) == os.getpid()
        name = "main" if is_main else head.partition("(")[2]
        fields = rest.split()
        found[name] = found.get(name, 0.0) + (int(fields[11]) + int(fields[12])) / ticks
    return found


def _name(frame: FrameType) -> str:
    code = frame.f_code
    return f"{code.co_filename}:{code.co_qualname}"


def _sample(_signal: int, frame: FrameType | None) -> None:
    stack: list[str] = []
    while frame is not None:
        stack.append(_name(frame))
        frame = frame.f_back
    _stacks[tuple(reversed(stack))] += 1


def _begin(*_: Any) -> None:
    _stacks.clear()
    _at_start.update(threads())
    signal.setitimer(signal.ITIMER_PROF, EVERY_SECONDS, EVERY_SECONDS)


def _end(file: Path) -> None:
    """Write what was found; whoever waits for the file sees it whole."""
    signal.setitimer(signal.ITIMER_PROF, 0)
    spent = {name: cpu - _at_start.get(name, 0) for name, cpu in threads().items()}
    stacks = [[list(stack), count] for stack, count in _stacks.items()]
    part = file.with_suffix(".part")
    part.write_text(json.dumps({"threads": spent, "stacks": stacks}))
    part.rename(file)


def main(file: str, program: str, *arguments: str) -> None:
    """Run a program with the sampler."""
    signal.signal(signal.SIGPROF, _sample)
    signal.signal(signal.SIGUSR1, _begin)

    def end(*_: Any) -> None:
        _end(Path(file))

    signal.signal(signal.SIGUSR2, end)
    sys.argv = [program, *arguments]
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
