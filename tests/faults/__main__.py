"""Does to a small production what no other test does: `python -m tests.faults [--sample] [ROW…]`.

Prints for each fault what was lost, doubled or stuck, how slow the slowest step was, and how long
after its end the last step ended that it had delayed. The exit code is 1 if a row is not clean.
"""

import argparse
import asyncio
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.postgres_cluster import lacking
from tests.faults import limits
from tests.faults.ledger import Ledger, Verdict, read_lines, verdict
from tests.faults.rows import ROWS, Row, missing
from tests.faults.stage import Stage, new_row_id, now

TOOLS: Final = {
    "unshare": "util-linux", "nsenter": "util-linux", "setpriv": "util-linux",
    "ip": "iproute2", "mkfs.ext4": "e2fsprogs",
}  # fmt: skip
WARM_SECONDS: Final = 60.0
WARM_CONVERSATIONS: Final = 2
AFTER_SECONDS: Final = 2.0
"""How long new conversations begin after a fault."""
STUCK_SECONDS: Final = 90.0
"""How long after a fault the conversations may take to end."""
_PR_SET_PDEATHSIG: Final = 1


def problem() -> str:
    """Return what this machine lacks for any row, in words; empty if nothing."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "root on Linux, for network namespaces and mounts"
    for tool, package in TOOLS.items():
        if shutil.which(tool) is None:
            return f"{tool}: apt-get install {package}"
    made = subprocess.run(
        ["unshare", "--net", "--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "none", "/mnt"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return f"the right to make namespaces: {made.stderr.strip()}" if made.returncode else ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", allow_abbrev=False)
    parser.add_argument("rows", nargs="*", help="names of rows, or parts of them; default: all")
    parser.add_argument(
        "--sample", action="store_true", help="the quick rows, on the embedded server"
    )
    parser.add_argument("--embedded", action="store_true", help="the embedded server, no database")
    parser.add_argument("--keep", type=Path, help="a folder for the logs and the results")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    rows = [row for row in ROWS if row.is_sample or not options.sample]
    rows = [row for row in rows if not options.rows or any(it in row.name for it in options.rows)]
    if options.inside:
        return asyncio.run(
            inside(options.inside, rows, embedded=options.sample or options.embedded)
        )
    if lacks := problem():
        print(f"SKIPPED: faults need {lacks}.")
        return 0
    return outside(options.keep)


def outside(keep: Path | None) -> int:
    """Run all of it in namespaces that end with this process, and clean up what does not."""
    folder = Path(tempfile.mkdtemp(prefix=limits.PREFIX))
    folder.chmod(0o755)  # PostgreSQL runs as somebody else
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    command += ["sh", "-c", '"$@"; exit $?', "init"]  # reaps what others leave behind
    command += [sys.executable, "-m", "tests.faults", *sys.argv[1:], "--inside", str(folder)]
    process = subprocess.Popen(command, preexec_fn=_die_with_parent)  # noqa: PLW1509  no threads
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return process.wait()
    except KeyboardInterrupt:
        return 130
    finally:
        process.kill()
        process.wait()
        if keep is not None:
            ignored = shutil.ignore_patterns("disks", "*.img")
            shutil.copytree(folder, keep, dirs_exist_ok=True, ignore=ignored)
        shutil.rmtree(folder, ignore_errors=True)
        limits.remove_all(folder.parent)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


async def inside(folder: Path, rows: Sequence[Row], *, embedded: bool) -> int:
    """Run the rows one after the other on one stage."""
    lacks_database = "" if embedded else lacking()
    with_database = not embedded and not lacks_database
    if not with_database:
        print(f"The server is the embedded one, with SQLite. {lacks_database}", flush=True)
    stage = Stage(folder, with_database=with_database)
    started, wrong, skipped = now(), 0, 0
    print(HEADER, flush=True)
    async with stage.up():
        for number, row in enumerate(rows):
            lacks = missing(row, with_database=with_database, has_groups=limits.is_possible())
            if lacks:
                skipped += 1
                print(f"{row.name:32} SKIPPED: it needs {lacks}", flush=True)
                continue
            try:
                found = await run_row(stage, row, number)
            except (OSError, RuntimeError) as error:
                wrong += 1
                print(f"{row.name:32} FAILED: {error}", flush=True)
                continue
            is_clean = found.is_clean(row.within)
            wrong += not is_clean
            print(line_of(row, found), flush=True)
            with (folder / "results.jsonl").open("a") as file:
                file.write(
                    json.dumps({"row": row.name, "seconds": row.seconds, **asdict(found)}) + "\n"
                )
            if not is_clean:
                for what in ("lost", "doubled", "stuck", "raised"):
                    for one in getattr(found, what)[:10]:
                        print(f"    {what}: {one}", flush=True)
    passed = len(rows) - wrong - skipped
    print(f"{(now() - started) / 60:.1f} minutes")
    print(f"{passed} passed, {wrong} failed, {skipped} skipped")
    return 1 if wrong else 0


async def run_row(stage: Stage, row: Row, number: int) -> Verdict:
    """Do a fault under load, and judge what became of it."""
    prefix, log, stop = (
        new_row_id(number),
        stage.folder / f"row{number}.jsonl",
        stage.folder / f"stop{number}",
    )
    await _movable(stage, row, movable=True)
    load = await stage.start_load(prefix, log, stop, clock="client" in row.clocks)
    try:
        if not await _is_warm(log):
            raise RuntimeError("no conversation ended before the fault; see the logs")
        async with row.fault(stage):
            await asyncio.sleep(row.seconds)
        ended = now()
        await asyncio.sleep(AFTER_SECONDS)
        stop.touch()
        with suppress(TimeoutError):
            await asyncio.wait_for(load.wait(), STUCK_SECONDS)
    finally:
        with suppress(ProcessLookupError):
            load.kill()
        await load.wait()
        await _movable(stage, row, movable=False)
    return verdict(read_lines(log), Ledger(stage.ledger).entries(), ended)


async def _is_warm(log: Path) -> bool:
    """Wait until conversations have ended."""
    ends = now() + WARM_SECONDS
    while sum(line["kind"] == "findings" for line in read_lines(log)) < WARM_CONVERSATIONS:
        if now() > ends:
            return False
        await asyncio.sleep(0.1)
    return True


async def _movable(stage: Stage, row: Row, *, movable: bool) -> None:
    """Start the parts of a row again with clocks that can jump, or without."""
    for name in row.clocks:
        if (part := stage.parts.get(name)) is not None:
            part.clock = stage.clock_of(name) if movable else {}
            await part.restart()


HEADER: Final = (
    f"{'fault':32} {'s':>4} {'held':>5} {'lost':>5} {'doubled':>8} {'stuck':>6} {'errors':>7}"
    f" {'slowest':>8} {'recovered':>10}"
)


def line_of(row: Row, found: Verdict) -> str:
    """Return a row of the table."""
    return (
        f"{row.name:32} {row.seconds:4.0f} {found.held:5} {len(found.lost):5} {len(found.doubled):8}"
        f" {len(found.stuck):6} {len(found.raised):7} {found.slowest[0]:7.1f}s"
        f" {found.recovered:9.1f}s  {found.slowest[1]}"
        f"{'' if found.is_clean(row.within) else '   NOT CLEAN'}"
    )


if __name__ == "__main__":
    sys.exit(main())
