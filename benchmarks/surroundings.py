"""The environment of a measurement: machine, versions and load, reported with the results."""

import os
import platform
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

_PACKAGES = ("outlast", "temporalio", "openai", "pydantic")


class OtherPrograms:
    """Measures the machine's load from other programs since its construction; Linux only."""

    def __init__(self, own: Iterable[int]) -> None:
        """Begin to watch; `own` are the processes that are measured, besides this one."""
        self._own = [os.getpid(), *own]
        self._begin = self._look()

    def cores(self) -> float | None:
        """Return the average number of cores busy with other programs; None if unknown."""
        now = self._look()
        if now is None or self._begin is None:
            return None
        all_s, own_s, at_s = (
            after - before for before, after in zip(self._begin, now, strict=True)
        )
        return (all_s - own_s) / at_s

    def _look(self) -> tuple[float, float, float] | None:
        if not Path("/proc/stat").exists():
            return None
        ticks = os.sysconf("SC_CLK_TCK")
        # user, nice, system, idle, iowait, irq, softirq, ...
        fields = [int(one) for one in Path("/proc/stat").read_text().split()[1:9]]
        busy = sum(fields) - fields[3] - fields[4]
        try:
            own = sum(_spent_ticks(pid) for pid in self._own)
        except FileNotFoundError:  # one of them has ended
            return None
        return busy / ticks, own / ticks, time.monotonic()


def _spent_ticks(pid: int) -> int:
    # The name before the last parenthesis may hold spaces.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def surroundings(server: str = "") -> dict[str, str]:
    """Return the date, the machine and the versions; `server` is Temporal's version."""
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return {
        "date": datetime.now(UTC).date().isoformat(),  # noqa: TID251  a report has a date
        "machine": f"{os.cpu_count()} cores, {_processor()}, {platform.system()}",
        "versions": f"Python {platform.python_version()}, {packages}"
        + (f", Temporal server {server}" if server else ""),
    }


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
