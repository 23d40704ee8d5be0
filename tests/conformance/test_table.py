"""The table itself: no row without a test that runs on every executor."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.conformance.executors import ROWS

HERE = Path(__file__).parent

WITHOUT_ROWS = {Path(__file__).name, "test_local_tools.py", "test_tracing.py"}
"""The table has no rows of its own for tracing, and for tools that act on a machine."""


def _covered() -> Iterator[int]:
    """Yield the rows of each test that takes the executor, which has two values."""
    for path in HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.AsyncFunctionDef) and "executor" in {
                argument.arg for argument in node.args.args
            }:
                yield from _rows_of(node)


def _rows_of(test: ast.AsyncFunctionDef) -> Iterator[int]:
    for decorator in test.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "row":
            for argument in decorator.args:
                yield int(ast.literal_eval(argument))


def test_every_row_of_the_table_is_tested_on_every_executor() -> None:
    assert sorted(set(_covered())) == list(ROWS)


def test_every_test_names_its_rows() -> None:
    unnamed = [
        f"{path.name}: {node.name}"
        for path in HERE.glob("test_*.py")
        if path.name not in WITHOUT_ROWS
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not (isinstance(node, ast.AsyncFunctionDef) and list(_rows_of(node)))
    ]
    assert not unnamed
