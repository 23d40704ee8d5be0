"""How many small changes of the package its tests notice: a sample of mutmut's changes by area.

`make mutate` tries every area, `make mutate AREAS="client cli"` some, each for at most 20 minutes.
The results are in `.mutation/COMMIT/results.json`; the same command goes on with what is not tried
yet. `--compare BEFORE AFTER` says which areas became lower by more than chance. What is not
committed is not measured. Changes of sentences for people do not count: a test that notices one
repeats it.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping, Sequence
from io import BytesIO
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

from tests.mutation.areas import AREAS, files_that_notice, modules_of
from tests.mutation.changes import Change, changes
from tests.mutation.reach import FOLDER_VARIABLE, Recordings, chosen, first_failed, recording_of
from tests.mutation.report import (
    HUNG,
    NOTICED,
    UNNOTICED,
    UNREACHED,
    comparison,
    left_to_try,
    share,
    table,
)

ROOT = Path(__file__).parents[2]
SAMPLE = 60
AREA_SECONDS = 20 * 60
RECORDING_SECONDS = 8 * 60
"""How many seconds of an area's time the recording of its tests may take."""
CHANGE_SECONDS = 100
"""When the tests of a change are stopped: those chosen took at most 40 seconds when recorded."""

PASSED, FAILED, STOPPED_COLLECTING = 0, 1, 2
ENDS = {PASSED, FAILED, STOPPED_COLLECTING, 5}
PYTEST = [
    *(
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-p",
        "tests.mutation.reach",
    ),
    *("--hypothesis-profile=versions", "--timeout=60"),
]


class Project:
    """A copy of the project at a commit, in which code is changed and tests run."""

    def __init__(self, commit: str) -> None:
        self.commit = _git("rev-parse", "--short=12", commit).decode().strip()
        self.folder = ROOT / ".mutation" / self.commit
        self.root = self.folder / "project"
        self.recordings = self.folder / "reached"
        self.recordings.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.root, ignore_errors=True)
        with tarfile.open(fileobj=BytesIO(_git("archive", self.commit))) as files:
            files.extractall(self.root, filter="data")
        shutil.copytree(Path(__file__).parent, self.root / "tests" / "mutation", dirs_exist_ok=True)

    def run(self, tests: Sequence[str], seconds: float, **more: str) -> tuple[int | None, str]:
        """Run tests; return the exit code, or None after so many seconds, and what was printed."""
        environment = {**os.environ, "CI": "mutation", **more}  # the same examples each time
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPATH"] = str(self.root)  # before the package that is installed
        process = subprocess.Popen(
            [*(one for one in PYTEST if not (more and one == "-x")), *tests],
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=max(1, seconds))
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            if process.poll() is None:  # or this program is stopped
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        return process.returncode, said

    def record(self, files: Sequence[str], ends: float) -> Recordings:
        """Record which tests reach what, until the time is over, and return what is recorded."""
        left = Recordings(self.recordings, files).missing
        if left and time.monotonic() < ends:
            print(f"  recording {len(left)} of {len(files)} files of tests", flush=True)
            more = {FOLDER_VARIABLE: str(self.recordings)}
            code, said = self.run(left, ends - time.monotonic(), **more)
            if code in ENDS:
                for file in left:  # one without a test that runs here has no recording yet
                    path = recording_of(self.recordings, file)
                    if not path.exists():
                        path.write_text('{"tests": {}, "functions": {}}', encoding="utf-8")
            elif code is not None:
                print(f"  recording ended with exit code {code}: {said[-2000:]}")
        return Recordings(self.recordings, files)

    def attempt(
        self, change: Change, recordings: Recordings, unsound: set[str], ends: float
    ) -> dict[str, Any] | None:
        """Make a change, run tests, and return what came of it, or None if time is over."""
        reaching = recordings.reaching(change.module, change.function)
        while tests := chosen(reaching, change.module, unsound):
            code, said = self._changed(change, tests, ends)
            failed = first_failed(said, tests)
            result: dict[str, Any] = {"result": NOTICED, "by": failed, "tests": len(tests)}
            if time.monotonic() > ends:
                return None
            if code is None:
                return {**result, "result": HUNG}
            if code == PASSED:
                return {**result, "result": UNNOTICED}
            if code not in ENDS or (code == FAILED and not failed):
                print(f"  cannot try {change.id}: exit code {code}: {said[-2000:]}")
                return None
            if code == STOPPED_COLLECTING or self._passes_unchanged(failed, reaching, ends):
                return result
            if time.monotonic() > ends:
                return None
            unsound.add(failed)
            print(f"  fails at times without a change: {failed}")
        return {"result": UNREACHED, "by": "", "tests": 0}

    def _changed(self, change: Change, tests: Sequence[str], ends: float) -> tuple[int | None, str]:
        """Run tests while a module is changed."""
        path = self.root / change.module
        before, times = path.read_text(encoding="utf-8"), path.stat()
        try:
            path.write_text(change.text, encoding="utf-8")
            # What is compiled is known by its second and its size, which two changes may share.
            self._second = getattr(self, "_second", int(times.st_mtime)) + 1
            os.utime(path, (self._second, self._second))
            return self.run(tests, min(CHANGE_SECONDS, ends - time.monotonic()))
        finally:
            path.write_text(before, encoding="utf-8")
            os.utime(path, (times.st_atime, times.st_mtime))

    def _passes_unchanged(self, test: str, reaching: Sequence[Any], ends: float) -> bool:
        """Tell whether a test on a server passes again without a change; others passed once."""
        if not any(it.test == test and it.on_server for it in reaching):
            return True
        return self.run([test], min(CHANGE_SECONDS, ends - time.monotonic()))[0] == PASSED


def measure(project: Project, name: str, seed: int, sample: int, file: Path) -> None:
    """Try a sample of an area's changes, and keep what came of each."""
    begins = time.monotonic()
    ends = begins + AREA_SECONDS
    results = _read(file, project.commit, seed)
    area = results["areas"].setdefault(name, {"sample": 0, "missing": 0, "changes": {}})
    recordings = project.record(files_that_notice(name, project.root), begins + RECORDING_SECONDS)
    taken = list(islice(changes(project.root, modules_of(name, project.root), seed), sample))
    area |= {"sample": len(taken), "missing": len(recordings.missing)}
    unsound: set[str] = set()
    by_id = {change.id: change for change in taken}
    for change in (by_id[one] for one in left_to_try(list(by_id), area)):
        if time.monotonic() > ends:
            break
        started = time.monotonic()
        result = project.attempt(change, recordings, unsound, ends)
        if result is not None:
            seconds = round(time.monotonic() - started, 1)
            more = {"missing": area["missing"], "seconds": seconds, "diff": change.diff}
            area["changes"][change.id] = {**result, **more}
            _write(file, results)
    _write(file, results)
    for one, kept in area["changes"].items():
        if kept["result"] in {UNNOTICED, UNREACHED}:
            print(f"  {kept['result']}: {one}\n{kept['diff']}")
    its = share(area)
    print(
        f"{name}: {its.points:.0f} % of {its.tried} changes were noticed; {len(taken) - its.tried} "
        f"of {len(taken)} were not tried; {(time.monotonic() - begins) / 60:.0f} minutes",
        flush=True,
    )


def _read(file: Path, commit: str, seed: int) -> dict[str, Any]:
    """Return what is kept of this commit and seed."""
    if file.exists():
        kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if (kept["commit"], kept["seed"]) == (commit, seed):
            return kept
        sys.exit(f"{file} is of commit {kept['commit']} and seed {kept['seed']}: name another file")
    return {"commit": commit, "seed": seed, "areas": {}}


def _write(file: Path, results: Mapping[str, Any]) -> None:
    part = file.with_suffix(".part")
    part.write_text(json.dumps(results, indent=1), encoding="utf-8")
    part.replace(file)


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True).stdout


def _stop(_number: int, _frame: FrameType | None) -> None:
    sys.exit("stopped; the same command goes on")


def main() -> int:
    """Measure the areas that are named, or all; or compare two files of results."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("areas", nargs="*", metavar="|".join(AREAS))
    parser.add_argument("--commit", default="HEAD", help="whose code and tests are measured")
    parser.add_argument("--seed", type=int, default=10)
    parser.add_argument("--sample", type=int, default=SAMPLE)
    parser.add_argument("--results", type=Path, help="a file of one's own")
    parser.add_argument("--table", type=Path, metavar="RESULTS", help="print these only")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("BEFORE", "AFTER"))
    options = parser.parse_args()
    if options.compare:
        said, lower = comparison(*(json.loads(one.read_text()) for one in options.compare))
        print(said + "".join(f"\nlower by more than chance: {one}" for one in lower))
        return 1 if lower else 0
    if options.table:
        print(table(json.loads(options.table.read_text())))
        return 0
    if unknown := set(options.areas) - AREAS.keys():
        parser.error(f"there are no areas {', '.join(sorted(unknown))}, but {', '.join(AREAS)}")
    signal.signal(signal.SIGTERM, _stop)
    project = Project(options.commit)
    file = options.results or project.folder / f"results-{options.seed}.json"
    for name in options.areas or AREAS:
        print(name, flush=True)
        measure(project, name, options.seed, options.sample, file)
    results = _read(file, project.commit, options.seed)
    print(table(results))
    met = [share(area).points >= AREAS[name].bar for name, area in results["areas"].items()]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
