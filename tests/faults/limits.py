"""The limits of a part's memory and disk, by control groups of either version."""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

GROUPS: Final = Path("/sys/fs/cgroup")
OURS: Final = "outlast-faults"


class Limits:
    """The control group of a place; where there are none, it has no folders and limits nothing."""

    def __init__(self, place: str) -> None:
        self._is_first = (GROUPS / "memory").is_dir()
        roots = (GROUPS / "memory", GROUPS / "blkio") if self._is_first else (GROUPS,)
        self._roots = roots if is_possible() else ()
        self.folders: Sequence[Path] = [root / OURS / place for root in self._roots]

    def make(self) -> None:
        """Make the groups."""
        for root, folder in zip(self._roots, self.folders, strict=True):
            folder.mkdir(parents=True, exist_ok=True)
            if not self._is_first:
                for one in (root, root / OURS):
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


def remove_all() -> None:
    """Remove all groups, also those of an earlier run, once nothing is in them any more."""
    for root in (GROUPS, *(one for one in GROUPS.iterdir() if one.is_dir())):
        for _ in range(20):
            for folder in (*(root / OURS).glob("*/"), root / OURS):
                with suppress(OSError):
                    folder.rmdir()
            if not (root / OURS).exists():
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
    probe = folder / f"{OURS}-probe"
    try:
        probe.mkdir(exist_ok=True)
        probe.rmdir()
    except OSError:
        return False
    return True
