"""Look for tests that fail at times: `make hunt`, which goes on where it was stopped."""

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from tests.hunt.rounds import (
    PLACES,
    REPORT_VARIABLE,
    ROUND_VARIABLE,
    ROUNDS,
    Done,
    Round,
    problems,
    read,
    remaining,
    table,
    write,
)

ROOT: Final = Path(__file__).parents[2]
KEPT: Final = ROOT / ".venv" / "hunt"
ENDED: Final = {0, 1, 5}
"""The exit codes of the pool after all tests: passed, some failed, none."""

COMPUTE: Final = (
    "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hunt", allow_abbrev=False)
    kinds = list(dict.fromkeys(one.kind for one in ROUNDS))
    parser.add_argument("--rounds", default="", help=f"some of {', '.join(kinds)}, with commas")
    parser.add_argument(
        "--minutes", type=float, default=0, help="stop after so long; 0: at the end"
    )
    parser.add_argument("places", nargs="*", default=PLACES, help="folders or files")
    options = parser.parse_args()
    wanted = {one for one in options.rounds.split(",") if one}
    if unknown := wanted - {*kinds, *(one.name for one in ROUNDS)}:
        parser.error(f"there are no rounds {', '.join(sorted(unknown))}, but {', '.join(kinds)}")
    rounds = [one for one in ROUNDS if not wanted or wanted & {one.kind, one.name}]
    files = files_in(options.places)
    KEPT.mkdir(parents=True, exist_ok=True)
    report = KEPT / f"{state_of_the_project()}.jsonl"
    print(f"hunting in {len(files)} files; what is done is in {report.relative_to(ROOT)}")
    ends = time.monotonic() + options.minutes * 60 if options.minutes else None
    for one in rounds:
        if (left := remaining(one, read(report), files)) and not hunt(one, left, report, ends):
            print(f"stopped in {one.name}; the same command goes on")
            break
    done = [it for it in read(report) if not it.file or it.file in files]
    print(table(rounds, done, files))
    complete = all(not remaining(one, done, files) for one in rounds)
    mine = {one.name for one in rounds}
    return 0 if complete and not any(it.failed for it in done if it.round in mine) else 1


def files_in(places: Sequence[str]) -> list[str]:
    """Return the files of tests in folders."""
    found: list[Path] = []
    for place in places:
        path = ROOT / place
        found += [path] if path.is_file() else sorted(path.rglob("test_*.py"))
    return [str(path.relative_to(ROOT)) for path in found if "node_modules" not in path.parts]


def state_of_the_project() -> str:
    """Return a name of the commit, and of what was changed since."""
    commit = _git("rev-parse", "--short=12", "HEAD").strip()
    changes = _git("diff", "HEAD")
    return f"{commit}-{hashlib.sha256(changes.encode()).hexdigest()[:8]}" if changes else commit


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def hunt(one: Round, files: Sequence[str], report: Path, ends: float | None) -> bool:
    """Run what is left of a round, print what failed, and return whether it came to its end."""
    print(f"{one.name}: {len(files)} files", flush=True)
    known = len(read(report))
    with report.with_suffix(f".{one.name}.log").open("a+b") as log, kept_busy(one):
        begins = log.seek(0, os.SEEK_END)
        code = _run(command_of(one, files), one, report, log, ends)
        log.seek(begins)
        said = log.read().decode(errors="replace")
    found = read(report)[known:]
    if code in ENDED:
        # A file that cannot be imported, or whose process was killed, has no line yet; nor has one
        # without a test in this round.
        written = {it.file for it in found}
        more = [Done(one.name, file) for file in files if file not in written]
        if failed := tuple(problems(said, found)):
            more.append(Done(one.name, "", failed))
        for it in more:
            write(report, it)
        found += more
    for test, why in (failure for it in found for failure in it.failed):
        print(f"FAILED {one.name} {test}: {why}", flush=True)
    if code is not None and code not in ENDED:
        print(f"FAILED {one.name}: the tests ended with exit code {code}; see {log.name}")
    return code in ENDED


def _run(
    command: Sequence[str], one: Round, report: Path, log: BinaryIO, ends: float | None
) -> int | None:
    """Run a command, and return its exit code, or None if it was stopped."""
    pool = subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | {REPORT_VARIABLE: str(report), ROUND_VARIABLE: one.name},
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return pool.wait(None if ends is None else max(0, ends - time.monotonic()))
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        os.killpg(pool.pid, signal.SIGINT)  # its processes end their servers
        pool.wait()
        return None


def command_of(one: Round, files: Sequence[str]) -> list[str]:
    """Return the command that runs files as a round wants it."""
    order = [] if one.seed is None else ["--seed", str(one.seed)]
    marks = [] if one.full else ["-m", "not full"]
    return [
        *(["taskset", "-c", "0"] if one.one_core else []),
        *(sys.executable, "-m", "tests.pool", "-n", "2", "-w", "2"),
        *order,
        *("-p", "tests.hunt.record"),
        *marks,
        *files,
    ]


@contextmanager
def kept_busy(one: Round) -> Generator[None]:
    """Keep every core busy while a round runs that wants it."""
    cores = (os.cpu_count() or 1) if one.busy else 0
    loops = [subprocess.Popen([sys.executable, "-c", COMPUTE]) for _ in range(cores)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


if __name__ == "__main__":
    sys.exit(main())
