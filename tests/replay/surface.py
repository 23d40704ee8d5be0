"""The names of a version that stand in other people's scripts, dashboards and front ends.

Commands and their options, environment variables, the desk's HTTP API, signals, updates, queries and
search attributes of runs, and the metrics and attributes of traces. A later version may have more.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

import outlast
from outlast.cli.app import app
from outlast.contract import names
from outlast.contract.effects import ROWS
from outlast.serve import openapi

PACKAGE = Path(outlast.__file__).parent
VARIABLE = re.compile(r'"(OUTLAST_[A-Z_]+[A-Z])"')
ATTRIBUTE = re.compile(r'"((?:outlast|gen_ai)(?:\.[a-z_]+)+)"')


def names_of_this_version() -> dict[str, list[str]]:
    """Return the names by kind."""
    found = {
        "commands": _commands(),
        "environment variables": _written(VARIABLE, PACKAGE),
        "HTTP API": _operations(),
        "workflow types": names.WORKFLOWS,
        "signals": names.SIGNALS,
        "queries": {value for key, value in vars(names).items() if key.startswith("QUERY_")},
        "activity types": {row.activity for row in ROWS},
        "search attributes": names.SEARCH_ATTRIBUTES,
        "traces and metrics": _written(ATTRIBUTE, PACKAGE / "otel")
        | _written(ATTRIBUTE, PACKAGE / "monitor"),
    }
    return {kind: sorted(some) for kind, some in found.items()}


def written() -> str:
    """Return the names as JSON, one a line."""
    return json.dumps(names_of_this_version(), indent=1) + "\n"


def missing(before: dict[str, list[str]], after: dict[str, list[str]]) -> list[str]:
    """Return what of the first names the second ones lack."""
    return [
        f"{kind}: {name} is gone"
        for kind, some in before.items()
        for name in sorted(set(some) - set(after.get(kind, [])))
    ]


def _commands() -> set[str]:
    return set(_of_command("outlast", typer.main.get_command(app)))


def _of_command(path: str, command: Any) -> Iterator[str]:
    yield path
    for one in command.params:
        yield from (f"{path} {option}" for option in one.opts if option.startswith("-"))
        if one.param_type_name == "argument":
            yield f"{path} {one.name}"
    for name, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from _of_command(f"{path} {name}", inner)


def _operations() -> set[str]:
    return {
        f"{method.upper()} {path}"
        for path, methods in openapi.document()["paths"].items()
        for method in methods
    }


def _written(form: re.Pattern[str], folder: Path) -> set[str]:
    texts = (path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))
    return {one for text in texts for one in form.findall(text)}
