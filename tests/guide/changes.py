"""The changes that CONTRIBUTING.md shows: a diff below a heading, and a program that needs it.

The program of "Adding an effect" is `tests/guide/programs/adding_an_effect.py`. It runs in a copy of
the package with the diff applied, with a server's address as its argument, and asserts what the
change does.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).with_name("programs")
DIFF = re.compile(r"^```diff\n(.*?)^```", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Change:
    """One change of the guide.

    Attributes:
        name: its heading, as a module name.
        diff: what it changes.
    """

    name: str
    diff: str

    @property
    def program(self) -> Path:
        """The program that runs where the change is applied."""
        return PROGRAMS / f"{self.name}.py"

    @property
    def files(self) -> list[str]:
        """The files that the change touches."""
        return re.findall(r"^\+\+\+ b/(\S+)", self.diff, re.MULTILINE)

    def misfit(self, folder: Path = ROOT) -> str:
        """Return why the diff does not apply to a folder, or nothing."""
        return _git_apply(self.diff, folder, "--check").stderr

    def apply(self, folder: Path) -> None:
        """Copy the package into a folder and apply the diff there."""
        shutil.copytree(
            ROOT / "outlast", folder / "outlast", ignore=shutil.ignore_patterns("__pycache__")
        )
        _git_apply(self.diff, folder).check_returncode()

    def run(self, folder: Path, address: str) -> subprocess.CompletedProcess[str]:
        """Run the program with the package in a folder."""
        return subprocess.run(
            [sys.executable, str(self.program), address],
            cwd=folder,
            env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )


def changes_of(guide: str) -> Mapping[str, Change]:
    """Return the changes of a guide by name; each needs a heading of its own."""
    found: dict[str, Change] = {}
    for section in re.split(r"^## ", guide, flags=re.MULTILINE)[1:]:
        heading = section.partition("\n")[0]
        name = re.sub(r"\W+", "_", heading.lower()).strip("_")
        for diff in DIFF.findall(section):
            assert name not in found, f"a second diff below {heading!r}"
            found[name] = Change(name, diff)
    return found


def _git_apply(diff: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Apply a diff to a folder, whether or not the folder is part of a repository."""
    return subprocess.run(
        ["git", "apply", "--unsafe-paths", *options],
        cwd=folder,
        input=diff,
        capture_output=True,
        text=True,
        check=False,
    )


CHANGES = changes_of((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
