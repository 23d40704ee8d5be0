"""Which program this process runs: the same one when a script is run again, and no other.

Owns: the names of programs. Must not know: what they name.
"""

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
    """A program, as far as its runs are told apart from those of others.

    Attributes:
        name: the script's name, and a digest of where it is.
        is_script: another process may run the same program, now or later.
    """

    name: str
    is_script: bool


def this_program() -> Program:
    """Return the program of this process.

    What is typed into an interpreter is a program of its own, and ends with the process. So is
    `python -c`.
    """
    given = getattr(sys.modules.get("__main__"), "__file__", None)
    path = Path(given) if isinstance(given, str) else None
    if path is None or not path.exists():
        return Program(f"interactive-{_of_process(os.getpid())}", is_script=False)
    path = path.resolve()
    where = str(path)
    if _is_installed(path):  # such as uvicorn, or python -m pytest: what it runs is found from here
        where = f"{path}\n{Path.cwd()}"
    digest = hashlib.sha256(where.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    stem = path.parent.name if path.stem == "__main__" else path.stem
    return Program(f"{stem[:_LONGEST_STEM]}-{digest}", is_script=True)


def _is_installed(path: Path) -> bool:
    """Whether it is a command that many projects use, and not a project's own script."""
    places = (Path(place).resolve() for name in _INSTALLED if (place := sysconfig.get_path(name)))
    return any(path.is_relative_to(place) for place in places)


@cache
def _of_process(_pid: int) -> str:
    """Return something that is only this process's; its id is used again by another one."""
    return secrets.token_hex(4)
