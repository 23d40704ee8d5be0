"""The package's own source, for the tests that hold it to its rules."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "outlast"


def modules() -> list[str]:
    """Return every module, as its path below the package."""
    return sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py"))


@cache
def tree_of(module: str) -> ast.Module:
    """Return a module's syntax tree."""
    return ast.parse((PACKAGE / module).read_text(encoding="utf-8"))


def functions_of(module: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return every function of a module, methods and inner functions too."""
    return [
        node
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
