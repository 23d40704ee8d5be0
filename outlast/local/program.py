"""Identifies this process's program, which is the same for a repeated script."""

import hashlib
import os
import secrets
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_LONGEST_STEM = 40
_INSTALLED = ("scripts", "purelib", "platlib", "stdlib")


@dataclass(frozen=True, slots=True)
class Program:
    """A program, which distinguishes its runs from those of other programs.

    Attributes:
        name: the script's name and a digest of its path.
        is_script: whether another process may execute the same program, now or later.
    """

    name: str
    is_script: bool


def this_program() -> Program:
    """Return the program of this process.

    An interactive session or `python -c` is a program of its own, which ends with the process.
    """
    value = getattr(sys.modules.get("__main__"), "__file__", None)
    path = Path(value) if isinstance(value, str) else None
    if path is None or not path.exists():
        return Program(f"interactive-{_of_process(os.getpid())}", is_script=False)
    path = path.resolve()
    where = str(path)
    if _is_installed(path):  # uvicorn, pytest: the directory tells projects apart
        where = f"{path}\n{Path.cwd()}"
    digest = hashlib.sha256(where.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    stem = path.parent.name if path.stem == "__main__" else path.stem
    return Program(f"{stem[:_LONGEST_STEM]}-{digest}", is_script=True)


def _is_installed(path: Path) -> bool:
    """Whether the script is an installed command, which many projects use."""
    places = (Path(place).resolve() for name in _INSTALLED if (place := sysconfig.get_path(name)))
    return any(path.is_relative_to(place) for place in places)


@cache
def _of_process(_pid: int) -> str:
    """Return a random name for this process; the process id alone may be reused."""
    return secrets.token_hex(4)
