"""What changed from one state of a run to the next is said in one place: `loop/run_changes.py`.

Whoever reads the same field of two states compares them. Two readers that do so by themselves come
to disagree about what happened, so all others map the changes of a run.
"""

import ast
import builtins
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import Final

import pytest

from outlast.loop.approvals import ApprovalRequest
from outlast.loop.state import LoopState
from tests.architecture.source import functions_of, modules

COMPARERS = {
    "loop/run_changes.py": "what changed, for all readers",
    "loop/case_acts.py": "what a team hears follows from how the run stands with it",
    "loop/machine.py": "what to start, to cancel and to report follows from what is pending",
    "client/timeline.py": "which steps began and ended follows from what is pending",
    "contract/stages.py": "which stages are over; the state does not say when they began",
}
"""Modules that compare two states, with what they derive."""

FIELDS: Final = {
    record.__name__: {one.name for one in fields(record)}
    | {name for name, value in vars(record).items() if isinstance(value, property)}
    for record in (LoopState, ApprovalRequest)
}
"""What changes in a run: its state, and the requests in it."""

STATES: Final = frozenset({"LoopState", "RunSnapshot"})
"""What the state of a run is called."""

HOLDERS: Final = ("state", "snapshot")
"""Attributes that hold a state, such as `progress.state` and `self._state`."""

MOMENTS: Final = frozenset({"before", "after", "earlier", "later", "older", "newer", "previous"})
"""Names of variables that hold something at a time, if nothing says otherwise."""

BUILT_IN: Final = frozenset(dir(builtins))
"""Functions that say nothing about a run, such as `vars`."""

SAME: Final = frozenset({"loop_state", "snapshot_of"})
"""Functions that return a state in its other form: as the loop has it, as people have it."""

ANY: Final = "any"


class Function:
    """What a function knows of its variables: which of them are states or requests."""

    def __init__(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.nodes = list(_own_nodes(node))
        self._kinds: dict[str, str] = {}
        for one in self.nodes:
            if isinstance(one, ast.arg) and one.annotation is not None:
                self._kinds[one.arg] = _kind_of(one.annotation)
        for one in self.nodes:
            if isinstance(one, ast.Assign):
                for name, value in _assigned(one):
                    if (kind := self.kind(value)) is not None:
                        self._kinds.setdefault(name, kind)

    def kind(self, value: ast.expr) -> str | None:
        """Return the class of a value, as far as the function shows it."""
        match value:
            case ast.Name(id=name):
                return self._kinds.get(name, ANY if name in MOMENTS else None)
            case ast.Attribute(attr=name) if name.lstrip("_") in HOLDERS:
                return "LoopState"
            case ast.Call(func=ast.Name(id=name)) if name in SAME:
                return "LoopState"
            case ast.Call(func=called):
                return _kind_of(called) if isinstance(called, ast.Name) else None
            case _:
                return None

    def reads(self) -> Iterator[tuple[str, str, str]]:
        """Yield the class, the value and what is read of it: a field, or a function's result."""
        for one in self.nodes:
            match one:
                case ast.Attribute(value=value, attr=name):
                    if (kind := self.kind(value)) is not None:
                        yield kind, ast.unparse(value), name
                case ast.Call(func=called, args=[value], keywords=[]):
                    name = ast.unparse(called)
                    if (kind := self.kind(value)) is not None and name not in BUILT_IN | SAME:
                        yield kind, ast.unparse(value), f"{name}()"
                case _:
                    pass


@cache
def comparisons(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Return what a function reads of two states, or of two versions of a request."""
    found: dict[str, dict[str, str]] = {}
    for kind, value, name in Function(node).reads():
        found.setdefault(name, {})[value] = kind
    return [
        f"{name} of {' and '.join(sorted(values))}"
        for name, values in found.items()
        if any(_is_comparison(name, [*values.values()], record) for record in FIELDS)
    ]


def _is_comparison(name: str, kinds: list[str], record: str) -> bool:
    """Whether a field, or a function's result, is read of two values of a record."""
    if name.endswith("()"):
        return kinds.count(record) > 0 and kinds.count(record) + kinds.count(ANY) > 1
    return name in FIELDS[record] and kinds.count(record) + kinds.count(ANY) > 1


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function, without those of functions in it, which are read by themselves."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
            yield from _own_nodes(node)


def _assigned(node: ast.Assign) -> Iterator[tuple[str, ast.expr]]:
    for target in node.targets:
        match target, node.value:
            case ast.Tuple(elts=names), ast.Tuple(elts=values):
                pairs = zip(names, values, strict=False)
            case _:
                pairs = iter([(target, node.value)])
        yield from ((one.id, value) for one, value in pairs if isinstance(one, ast.Name))


def _kind_of(annotation: ast.expr) -> str:
    """Return which record an annotation names, or an empty text; a protocol is a state's, too."""
    words = ast.unparse(annotation).strip("'\"").replace("|", " ").split()
    names = [word.rpartition(".")[2] for word in words]
    states = [name for name in names if name in STATES or name.endswith("State")]
    return "LoopState" if states else next((name for name in names if name in FIELDS), "")


# --- The guard ------------------------------------------------------------------------------------


@pytest.mark.full
def test_two_states_of_a_run_are_compared_in_one_place() -> None:
    found = {
        f"{module}: {function.name} reads {', '.join(what)}"
        for module in modules()
        if module not in COMPARERS
        for function in functions_of(module)
        if (what := comparisons(function))
    }
    assert found == set()


def test_every_exception_is_one() -> None:
    compares = {
        module for module in modules() for function in functions_of(module) if comparisons(function)
    }
    assert compares >= COMPARERS.keys()


def read(source: str) -> list[str]:
    """Return the comparisons of the first function of a source."""
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    return comparisons(function)


@pytest.mark.parametrize(
    "source",
    [
        "def f(before: LoopState, after: LoopState): return after.hold != before.hold",
        "def f(one: LoopState, two: 'RunSnapshot | None'): return two.items[len(one.items):]",
        "def f(a: state.LoopState, b: state.LoopState): return zip(a.answers, b.answers)",
        "def f(a, b): return loop_state(a).answers is not loop_state(b).answers",
        "def f(before, after): return [x for x in after.approvals if x not in before.approvals]",
        "def f(self, state: LoopState): return state.context is not self._state.context",
        "def f(step): seen = LoopState(); return len(step.state.items) > len(seen.items)",
        "def f(self, now: LoopState): old, self.x = self.state, now; return old.status is now.status",
        "def f(before: LoopState, after: LoopState): return blocked(after) != blocked(before)",
        "def f(now: PeopleState, then: PeopleState): return now.approvals is not then.approvals",
        "def f(known: ApprovalRequest | None, new: ApprovalRequest): return new.claim != known.claim",
        "def f(before, request: ApprovalRequest): return len(request.votes) > len(before.votes)",
        "async def f(run):\n before = await run.state()\n return run.state.ignored != before.ignored",
    ],
)
def test_each_way_to_compare_states_is_found(source: str) -> None:
    assert len(read(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "def f(before: LoopState, after: LoopState): return list(run_changes(before, None, after))",
        "def f(before: LoopState, after: LoopState): return before.agent, after.hold",
        "def f(state: LoopState, effect: CallModel): return state.agent == effect.agent",
        "def f(before: Policy, after: Policy): return before.status == after.status",
        "def f(before: datetime, state: LoopState): return min(before), min(state.items)",
        "def f(before, after): return before.when == after.when",
        "def f(seen: int, state: LoopState): return state.items[seen:]",
        "def f(request: ApprovalRequest, state: LoopState): return request.status, state.status",
        "def f(state: LoopState):\n def g(after: LoopState): return after.items\n return state.items",
    ],
)
def test_what_compares_no_states_is_not_found(source: str) -> None:
    assert read(source) == []
