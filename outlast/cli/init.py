"""`outlast init`: writes a new project."""

import keyword
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Final

from outlast.agents.errors import UserError
from outlast.cli import options, terminal
from outlast.cli.described import described
from outlast.edges.rendering import shell_word

_TEMPLATES: Final = Path(__file__).with_name("new_project")
_SUFFIX: Final = ".tmpl"
_DOT_FILES: Final = {"gitignore": ".gitignore", "dockerignore": ".dockerignore"}
_MAY_BE_THERE: Final = frozenset({".git", ".venv", "venv", ".DS_Store"})
_TAKEN: Final = frozenset({"outlast", "agents", "openai", "temporalio", "tests"})
"""Names of packages that the project uses itself, and of the OpenAI Agents SDK."""


@described
def init(
    directory: Path,
    as_json: options.AsJson = False,
) -> None:
    """Write a project with agents, an approval, tests, a worker and a Dockerfile.

    The project runs and its tests pass without an API key.

    Command line:
        directory (NAME): The project's name: a new or empty directory.
    """
    package = package_name(directory)
    files = new_files(directory.expanduser().resolve().name, package)
    write_project(directory, files)
    if as_json:
        terminal.print_json({"directory": str(directory.resolve()), "files": sorted(files)})
    else:
        _show_next(directory, package, len(files))


def package_name(directory: Path) -> str:
    """Return the name of a project's Python package: that of its directory."""
    name = directory.expanduser().resolve().name
    package = re.sub(r"[-. ]", "_", name).lower()
    if not package.isidentifier() or not package.isascii() or keyword.iskeyword(package):
        raise UserError(
            f"{name!r} cannot be the name of a Python package. Use letters, digits and hyphens, "
            "and begin with a letter, such as `outlast init travel-desk`."
        )
    if package in _TAKEN or package in sys.stdlib_module_names:
        raise UserError(
            f"{name!r} is the name of another package. Choose another one, such as "
            f"`outlast init my-{name}`."
        )
    return package


def new_files(name: str, package: str) -> dict[str, str]:
    """Return the texts of a new project's files, by path."""
    values = {"@NAME@": name.lower(), "@PACKAGE@": package, "@VERSION@": version("outlast")}
    files: dict[str, str] = {}
    for template in sorted(_TEMPLATES.rglob(f"*{_SUFFIX}")):
        *folders, last = template.relative_to(_TEMPLATES).parts
        last = last.removesuffix(_SUFFIX)
        folders = [package if folder == "package" else folder for folder in folders]
        text = template.read_text(encoding="utf-8")
        for placeholder, value in values.items():
            text = text.replace(placeholder, value)
        files["/".join([*folders, _DOT_FILES.get(last, last)])] = text
    return files


def write_project(directory: Path, files: dict[str, str]) -> None:
    """Write the files of a new project."""
    root = directory.expanduser()
    if root.exists() and not root.is_dir():
        raise UserError(f"{directory} is a file. Choose another name.")
    try:
        found = sorted(entry.name for entry in root.iterdir()) if root.exists() else []
    except OSError as error:
        raise UserError(f"{directory} cannot be read: {error.strerror}.") from error
    found = [name for name in found if name not in _MAY_BE_THERE]
    if found:
        shown = ", ".join(found[:3]) + (", …" if len(found) > 3 else "")
        raise UserError(
            f"{directory} has files already ({shown}), so nothing was written. Choose a new name, "
            "or an empty directory."
        )
    try:
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"{error.filename} cannot be written: {error.strerror}. Choose a place that you may "
            "write to."
        ) from error


def _show_next(directory: Path, package: str, count: int) -> None:
    console = terminal.out()
    terminal.say(console, (f"{directory} is ready", "bold green"), f": {count} files.")
    terminal.say(console, "Next:")
    if directory.resolve() != Path.cwd():
        terminal.say(console, "  cd ", shell_word(str(directory)))
    if sys.prefix == sys.base_prefix:
        terminal.say(console, "  python3 -m venv .venv && . .venv/bin/activate")
    terminal.say(console, '  pip install -e ".[dev]" && pytest -q')
    terminal.say(console, f"  outlast dev {package}/worker.py")
    terminal.say(
        console, "and open the desk, whose address it prints: ask and decide there. Or, in"
    )
    terminal.say(console, "another terminal, in the same directory:")
    terminal.say(console, '  outlast run Desk "Please refund 389 EUR for A-42." --id case-1')
