"""Locates the target of `outlast worker` and `outlast dev` without importing it."""

import re
from dataclasses import dataclass
from pathlib import Path

from outlast.agents.errors import UserError

_NAMED = re.compile(r"(?P<place>.*?)(?::(?P<name>[^:/\\]*))?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A target of the command line, without its code being imported.

    Attributes:
        name: the name in the module; empty for the default.
        directory: the directory that the import searches first.
    """

    module: str
    name: str
    directory: Path
    file: Path | None = None

    @property
    def shown(self) -> str:
        """The target without its name, as people write it."""
        return self.module if self.file is None else str(self.file.relative_to(self.directory))


def locate(target: str, app_dir: Path) -> Location:
    """Return the location of `MODULE[:NAME]` or `FILE[:NAME]`; imports nothing.

    A file in a package, such as `desk/agents.py`, is imported as part of its package.
    """
    directory = app_dir.expanduser().resolve()
    if not directory.is_dir():
        raise UserError(f"--app-dir {app_dir} is not a directory.")
    parts = _NAMED.fullmatch(target)
    place, name = (parts["place"], parts["name"] or "") if parts else (target, "")
    if not place.endswith(".py") and "/" not in place:
        if not place:
            raise UserError(
                f"{target!r} names no module. Write a file such as `travel.py`, or a module such "
                "as `my_app.agents`."
            )
        return Location(module=place, name=name, directory=directory)
    path = (directory / Path(place).expanduser()).resolve()
    if not path.is_file() or path.suffix != ".py":
        raise UserError(
            f"There is no Python file {path}. Write the path of a file such as `travel.py`, or a "
            "module as in an import, such as `my_app.agents`."
        )
    names, directory = [path.stem], path.parent
    while (directory / "__init__.py").is_file():
        names, directory = [directory.name, *names], directory.parent
    return Location(module=".".join(names), name=name, directory=directory, file=path)
