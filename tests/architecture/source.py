"""Reads the package's source, for tests of the architecture rules."""

import ast
import shutil
from functools import cache
from pathlib import Path
from types import ModuleType

import outlast
from outlast.edges import sdk

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "outlast"


def names_of(module: ModuleType) -> list[str]:
    """Return the public names of a module, which a lazy one has at run time only."""
    return list(vars(module)["__all__"])


PUBLIC = names_of(outlast)


def modules() -> list[str]:
    """Return every module, as its path below the package."""
    return sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py"))


@cache
def tree_of(module: str) -> ast.Module:
    """Return a module's syntax tree."""
    return ast.parse((PACKAGE / module).read_text(encoding="utf-8"))


@cache
def nodes_of(module: str) -> list[ast.AST]:
    """Return every node of a module's syntax tree."""
    return list(ast.walk(tree_of(module)))


@cache
def functions_of(module: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return every function of a module, methods and inner functions too."""
    return [
        node
        for node in nodes_of(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def name_called(call: ast.Call) -> str:
    """Return the last name of what is called: `handle` of `client.handle()`."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case other:
            return ast.unparse(other).rpartition(".")[2]


def copy_as_in_a_wheel(folder: Path) -> None:
    """Copy the package into a folder, with the files for the SDK's modules."""
    shutil.copytree(PACKAGE, folder / "outlast", ignore=shutil.ignore_patterns("__pycache__"))
    for module in sdk.MODULES:
        path = folder / sdk.path(module)
        assert not path.exists(), (
            f"{module} is a module of ours: take it out of outlast/edges/sdk.py"
        )
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(sdk.source(module), encoding="utf-8")
