"""The limits of a part's memory and disk, by control groups of either version."""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

GROUPS: Final = Path("/sys/fs/cgroup")
PREFIX: Final = "outlast-faults-"
"""Of a run's folder, and of its group, which has the folder's name."""


class Limits:
    """The control group of a place; where there are none, it has no folders and limits nothing."""

    def __init__(self, run: str, place: str) -> None:
        self._is_first = (GROUPS / "memory").is_dir()
        roots = (GROUPS / "memory", GROUPS / "blkio") if self._is_first else (GROUPS,)
        self._roots = roots if is_possible() else ()
        self.folders: Sequence[Path] = [root / run / place for root in self._roots]

    def make(self) -> None:
        """Make the groups."""
        for root, folder in zip(self._roots, self.folders, strict=True):
            folder.mkdir(parents=True, exist_ok=True)
            if not self._is_first:
                for one in (root, folder.parent):
                    (one / "cgroup.subtree_control").write_text("+memory +io")

    def memory(self, size: int | None) -> None:
        """Limit the memory to so many bytes; None lifts the limit."""
        name = "memory.limit_in_bytes" if self._is_first else "memory.max"
        none = "-1" if self._is_first else "max"
        (self.folders[0] / name).write_text(none if size is None else str(size))

    def used_memory(self) -> int:
        """Return how many bytes are used."""
        name = "memory.usage_in_bytes" if self._is_first else "memory.current"
        return int((self.folders[0] / name).read_text())

    def writes(self, device: str, per_second: int | None) -> None:
        """Limit the writes to a disk, by its numbers; None lifts the limit."""
        if self._is_first:
            name, line = "blkio.throttle.write_iops_device", f"{device} {per_second or 0}"
        else:
            name, line = "io.max", f"{device} wiops={per_second or 'max'}"
        (self.folders[-1] / name).write_text(line)


def remove_all(folders: Path) -> None:
    """Remove the groups of runs whose folders are gone, once nothing is in them any more."""
    found = [*GROUPS.glob(f"{PREFIX}*"), *GROUPS.glob(f"*/{PREFIX}*")]
    for group in (one for one in found if not (folders / one.name).exists()):
        for _ in range(20):
            for one in (*group.glob("*/"), group):
                with suppress(OSError):
                    one.rmdir()
            if not group.exists():
                break
            time.sleep(0.1)


def is_possible() -> bool:
    """Whether this user may make control groups with these limits."""
    if (GROUPS / "memory").is_dir():
        return all(_can_write(GROUPS / one) for one in ("memory", "blkio"))
    controllers = GROUPS / "cgroup.controllers"
    found = controllers.read_text().split() if controllers.exists() else []
    return {"memory", "io"} <= set(found) and _can_write(GROUPS)


def _can_write(folder: Path) -> bool:
    probe = folder / f"{PREFIX}probe"
    try:
        probe.mkdir(exist_ok=True)
        probe.rmdir()
    except OSError:
        return False
    return True
