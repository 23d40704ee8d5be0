"""A test does not wait twice for the same state of a run, with nothing in between that ends it.

The second wait would wait for nothing, and what follows it would race the run.
"""

import ast
import re
from collections.abc import Iterator
from typing import Final

import pytest

from tests.architecture.source import ROOT, name_called

FILES = sorted((ROOT / "tests").rglob("*.py"))
ABOUT: Final = re.compile(r"\b(status|phase|pending\w*|waits_for)\b")
"""What a run may be in again and again."""

LOOKS: Final = frozenset(
    {"approvals", "check", "ever", "len", "present", "progress", "request_of", "settled", "state"}
)
"""Calls that end no state."""


def repeated_waits(function: ast.AST) -> Iterator[int]:
    """Yield the lines of a function that wait for a state which an earlier line has waited for."""
    awaited: dict[str, str] = {}
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda one: (one.end_lineno or 0, one.end_col_offset or 0)):
        match name_called(call), call.func, call.args:
            case "until" | "until_status", _, [run, condition]:
                handle, wanted = ast.unparse(run), _condition(condition)
            case "wait", ast.Attribute(value=run), [condition]:
                handle, wanted = ast.unparse(run), _condition(condition)
            case name, _, _:
                for one in [] if name in LOOKS else [*awaited]:
                    if re.search(rf"\b{re.escape(one)}\b", ast.unparse(call)):
                        del awaited[one]
                continue
        if awaited.get(handle) == wanted and ABOUT.search(wanted):
            yield call.lineno
        awaited[handle] = wanted


def _condition(condition: ast.expr) -> str:
    match condition:
        case ast.Constant(value=status):
            return f"_.status == {status!r}"
        case ast.Lambda(args=ast.arguments(args=[ast.arg(arg=name)]), body=body):
            return re.sub(rf"\b{name}\b", "_", ast.unparse(body))
        case _:
            return ast.unparse(condition)


def repeated_in(source: str) -> list[int]:
    """Return the lines of all functions of a source that wait a second time."""
    nodes = ast.walk(ast.parse(source))
    functions = [one for one in nodes if isinstance(one, ast.AsyncFunctionDef)]
    return sorted({line for function in functions for line in repeated_waits(function)})


@pytest.mark.full
def test_no_state_is_waited_for_twice() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for path in FILES
        if ".wait(" in (source := path.read_text("utf-8")) or ".until" in source
        for line in repeated_in(source)
    }
    assert found == set()


@pytest.mark.parametrize(
    ("between", "again", "found"),
    [
        ("", "await desk.until(run, lambda one: one.status == 'idle')", [3]),
        ("await run.approvals()", "await run.wait(lambda state: state.status == 'idle')", [4]),
        ("await nested.approve('a1')", "await desk.until_status(run, 'idle')", [4]),
        ("await run.send('More')", "await desk.until_status(run, 'idle')", []),
        ("await reset(desk, run)", "await desk.until_status(run, 'idle')", []),
        ("await desk.until_status(run, 'held')", "await desk.until_status(run, 'idle')", []),
        ("", "await desk.ever(run, lambda one: one.status == 'idle')", []),
        ("", "await desk.until_status(other, 'idle')", []),
    ],
)
def test_a_wait_for_nothing_is_found(between: str, again: str, found: list[int]) -> None:
    lines = ["async def test():", "await desk.until_status(run, 'idle')", between, again]
    assert repeated_in("\n ".join(line for line in lines if line)) == found
