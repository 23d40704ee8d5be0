"""The resource usage of processes that are not asked: servers, and the peak of a worker."""

import os
from contextlib import suppress
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds_of_tree(pid: int) -> float:
    """Return the CPU time of a process, its children and what has ended of them; Linux only."""
    seconds = _stat_seconds(pid)
    for other in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError):
            fields = other.read_text().rpartition(")")[2].split()
            if int(fields[1]) == pid:
                seconds += (int(fields[11]) + int(fields[12])) / _TICKS
    return seconds


def _stat_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(one) for one in fields[11:15]) / _TICKS


def reset_peak(pid: int) -> None:
    """Begin to measure the peak memory of a process anew."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_mib(pid: int) -> float:
    """Return the peak memory of a process since the last reset, in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"/proc/{pid}/status has no VmHWM: measure on Linux")
