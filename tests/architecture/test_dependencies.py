"""The package declares every import, as a dependency or in an extra.

Imports are read from the source, including those inside functions and those by name, so that the
test finds undeclared packages that are only installed as dependencies of others.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EVERYBODY = "everybody"
INSTALLED = packages_distributions()

DECLARED: dict[str, list[str]] = {
    EVERYBODY: PROJECT["dependencies"],
    **PROJECT["optional-dependencies"],
}

NOT_INSTALLED = {"litellm": "litellm", "bson": "pymongo"}
"""Imported by name, and by distribution, where an extra is not in the environment of the tests."""

ROOMS = {
    "outlast/archive": ["blobs"],
    "outlast/blobs": ["blobs"],
    "outlast/cli": ["cli", "dev", "evals", "monitor", "serve", "speed"],
    "outlast/client/identity.py": ["identity"],
    "outlast/contract/identity.py": ["identity"],
    "outlast/deliveries": ["serve"],
    "outlast/dev": ["dev"],
    "outlast/encryption.py": ["encrypt"],
    "outlast/evals": ["evals"],
    "outlast/mcp": ["mcp"],
    "outlast/models/openai": ["realtime"],
    "outlast/notifications/slack": ["slack"],
    "outlast/monitor": ["monitor"],
    "outlast/otel": ["monitor", "otel"],
    "outlast/realtime": ["realtime"],
    "outlast/testing": ["realtime"],
    "outlast/search/postgres.py": ["search"],
    "outlast/serve": ["serve"],
    "outlast/sessions/encrypted.py": ["encrypt"],
    "outlast/sessions/mongodb.py": ["mongodb"],
    "outlast/sessions/redis.py": ["redis"],
    "outlast/sessions/sql_alchemy.py": ["sqlalchemy"],
    "outlast/models/litellm.py": ["litellm"],
    "outlast/extensions/visualization.py": ["viz"],
}
"""Which extras a room may need, besides what everybody has."""


def distribution(requirement: str) -> str:
    """Return the name of a requirement, as the index writes it."""
    name = re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def with_extras(requirement: str) -> set[str]:
    """Return the names of a requirement and of what its extras bring, such as `openai[realtime]`."""
    name = distribution(requirement)
    extras = re.findall(r"[\w-]+", "".join(re.findall(r"\[(.*?)\]", requirement)))
    brought = [
        one
        for one in (requires(name) or () if extras else ())
        if any(f"extra == '{extra}'" in one.replace('"', "'") for extra in extras)
    ]
    return {name, *map(distribution, brought)}


def distributions_of(module: str) -> set[str]:
    """Return the distributions that a module may come from."""
    found = INSTALLED.get(module, [NOT_INSTALLED.get(module, module)])
    return {distribution(name) for name in found}


def imports_of(source: str) -> Iterator[str]:
    """Return the top-level modules that a source imports, by statement or by name."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (one.name.partition(".")[0] for one in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0]
            case ast.Call(
                func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(module)), *_],
            ):
                yield module.partition(".")[0]
            case _:
                pass


def undeclared(path: Path, source: str) -> list[str]:
    """Return what a file of the package imports that is not declared for it."""
    place = path.relative_to(ROOT).as_posix()
    extras = [name for room, names in ROOMS.items() if place.startswith(room) for name in names]
    declared = [one for extra in [EVERYBODY, *extras] for one in DECLARED[extra]]
    allowed = {name for one in declared for name in with_extras(one)}
    return sorted(
        module
        for module in set(imports_of(source))
        if module not in sys.stdlib_module_names and module not in {"outlast", "__future__"}
        if not distributions_of(module) & allowed
    )


FILES = sorted((ROOT / "outlast").rglob("*.py"))


def test_everything_that_is_imported_is_declared() -> None:
    found = {
        str(path.relative_to(ROOT)): undeclared(path, path.read_text("utf-8")) for path in FILES
    }
    assert {path: modules for path, modules in found.items() if modules} == {}


@pytest.mark.parametrize(
    ("place", "source", "missing"),
    [
        ("outlast/loop/x.py", "import json, pydantic", []),
        ("outlast/loop/x.py", "def f():\n    from pytest import fixture", ["pytest"]),
        ("outlast/agents/x.py", "import typer", ["typer"]),
        ("outlast/cli/x.py", "import typer", []),
        ("outlast/mcp/x.py", "import mcp.types", []),
        ("outlast/agents/x.py", "import_module('mcp.types')", ["mcp"]),
        ("outlast/agents/x.py", "import websockets", ["websockets"]),
        ("outlast/testing/x.py", "import websockets", []),
        ("outlast/agents/x.py", "import nobody_has_this", ["nobody_has_this"]),
    ],
)
def test_the_check_finds_what_is_missing(place: str, source: str, missing: list[str]) -> None:
    assert undeclared(ROOT / place, source) == missing


def test_every_dependency_has_a_floor_and_every_core_one_a_ceiling() -> None:
    requirements = [one for group in DECLARED.values() for one in group]
    assert [one for one in requirements if ">=" not in one] == []
    core = [one for one in DECLARED[EVERYBODY] if "<" not in one]
    assert core == []
