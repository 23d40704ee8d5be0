"""Changes the core in small ways, one at a time, and counts how many changes its tests notice.

`make mutate` tries a seeded sample; `mutate.py --seed 2 contract` another one of one area. No file
is written: a change is made while its module is imported, in a process forked for it. The tools
that exist (mutmut, cosmic-ray) try every change, which takes hours here.
"""

import argparse
import ast
import contextlib
import copy
import importlib.machinery
import importlib.util
import io
import os
import random
import resource
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, cast

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = 120
"""Of the processor. A change that makes the tests take more has been noticed."""

WAIT_SECONDS = 30
"""How long one test may take; so has a change that makes a test wait."""

EQUIVALENT = {
    ("if len(text) * 4 < least:", "4", "5"): "Only a short cut: what is left is counted in bytes.",
    ("if self._due <= due:", "self._due <= due", "self._due < due"): "The timer is set anew.",
    ("while excess > 0:", "excess > 0", "excess >= 0"): "Nothing is then cut.",
    ("while excess > 0:", "0", "1"): "A byte beyond three quarters of the bound.",
    ("self.fed_bytes = 0", "0", "1"): "Only differences count.",
    ("self._sends = deque([(0.0, 0)])", "0.0", "1.0"): "The first time is never compared.",
    ("self._sends = deque([(0.0, 0)])", "0", "1"): "A byte of the window's slack.",
    ("at: int = 0", "0", "1"): "It is read for deltas only.",
    (
        'return {"question": 0, "agent": 1, "turn": 2}.get(stage.kind, 3)',
        "3",
        "4",
    ): "Only an order.",
    ('key, part = fields[BLOB], fields.get("part", 0)', "0", "1"): "Only its type counts.",
    ("if len(older) < 2:", "2", "3"): "To merge two saves four bytes, which is never enough.",
}
"""Changes that no test can notice, with the reason: the line, what it has, and what instead."""


@dataclass(frozen=True)
class Area:
    """A part of the package, its tests, and how much of it has to be noticed.

    Attributes:
        folder: where the modules are.
        tests: what runs for each change, after the files that are named like the module.
        sample: how many changes are tried.
        bar: how many of a hundred have to be noticed.
        leaves_out: modules that are tested with a server.
    """

    folder: str
    tests: Sequence[str]
    sample: int
    bar: int
    leaves_out: Sequence[str] = ()


AREAS = {
    "loop": Area("outlast/loop", ["tests/unit/loop"], 150, 98),
    "effects": Area(
        "outlast/activities",
        ["tests/unit/activities", "tests/unit/testing", "tests/conformance"],
        60,
        95,
        ["boundary", "engine_heartbeat", "heartbeats", "intake"],
    ),
    "contract": Area("outlast/contract", ["tests/unit/contract"], 60, 95),
    "streams": Area(
        "outlast/streams",
        ["tests/unit/streams", "tests/unit/client/read/test_delta_poller.py"],
        30,
        95,
    ),
}

OTHERS: dict[type[ast.AST], Any] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE,
    ast.GtE: ast.Gt, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
"""What stands in for an operator."""


@dataclass(frozen=True)
class Mutant:
    """One change: of the node at this index of a module, in the order of `nodes_of`."""

    path: Path
    index: int
    what: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.what}"


def nodes_of(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that decide something: no types, docstrings, imports, errors, sentences."""
    for name, value in ast.iter_fields(tree):
        if name in {"annotation", "returns", "decorator_list", "type_params"}:
            continue
        nodes = cast("list[Any]", value) if isinstance(value, list) else [value]
        for node in nodes:
            match node:
                case ast.Import() | ast.ImportFrom() | ast.Raise() | ast.Expr(value=ast.Constant()):
                    pass
                case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.AnnAssign(value=None):
                    pass
                case (
                    ast.Assign(targets=[ast.Name(id="__all__")])
                    | ast.AnnAssign(annotation=ast.Name(id="TypeAlias"))
                    | ast.Expr(value=ast.Call(func=ast.Name(id="assert_never")))
                    | ast.keyword(arg="strict", value=ast.Constant())  # of zip, an assertion
                ):
                    pass
                case ast.Constant(value=str(text)) if " " in text:
                    pass
                case ast.JoinedStr() if any(map(_is_sentence, node.values)):
                    yield from nodes_of(ast.Tuple(elts=_inserted(node)))
                case ast.Call(func=ast.Name(id="cast" | "TypeVar")):
                    yield from nodes_of(ast.Tuple(elts=node.args[1:]))  # the first says a type
                case ast.AST():
                    yield node
                    yield from nodes_of(node)
                case _:
                    pass


def _is_sentence(node: ast.expr) -> bool:
    """Whether a part of an f-string has words for people; a test of them would repeat them."""
    return isinstance(node, ast.Constant) and " " in str(node.value)


def _inserted(sentence: ast.JoinedStr) -> list[ast.expr]:
    """Return the values that are put into a sentence."""
    return [part.value for part in sentence.values if isinstance(part, ast.FormattedValue)]


def change(node: Any) -> bool:
    """Change a node in place; False where nothing fits."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in OTHERS:
            node.ops = [OTHERS[type(op)]()]
        case ast.BoolOp(op=op) | ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in OTHERS:
            node.op = OTHERS[type(op)]()
        case ast.Constant(value=bool(value)):
            node.value = not value
        case ast.Constant(value=int(value)):
            node.value = value + 1
        case ast.Constant(value=str(value)):
            node.value = value + "_"
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            node.test = ast.UnaryOp(ast.Not(), test)
        case ast.comprehension(ifs=[_, *rest]):
            node.ifs = rest
        case ast.Return(value=ast.Constant(value=None | False)):
            return False  # nobody tells None from False; True is tried in its place
        case ast.Return(value=ast.expr()) | ast.Expr(value=ast.Call() | ast.Await()):
            node.value = ast.Constant(value=None)
        case ast.Slice(lower=ast.expr()):
            node.lower = None
        case ast.Slice(upper=ast.expr()):
            node.upper = None
        case _:
            return False
    return True


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield every change of a module."""
    source = path.read_text(encoding="utf-8")
    lines = ["", *(line.partition("  #")[0].strip() for line in source.splitlines())]
    for index, node in enumerate(list(nodes_of(ast.parse(source)))):
        changed: Any = copy.deepcopy(node)
        if change(changed):
            before, after = (ast.unparse(one).splitlines()[0] for one in (node, changed))
            line = getattr(node, "lineno", 0)
            if (lines[line], before, after) not in EQUIVALENT:
                yield Mutant(path, index, f"{line}: {before}  ->  {after}")


class Changed(importlib.machinery.SourceFileLoader):
    """Loads a module with one change."""

    mutant: Mutant

    def get_code(self, fullname: str) -> CodeType:
        """Compile the changed source."""
        tree = ast.parse(self.mutant.path.read_text(encoding="utf-8"))
        change(list(nodes_of(tree))[self.mutant.index])
        return compile(ast.fix_missing_locations(tree), str(self.mutant.path), "exec")


class Finder(MetaPathFinder):
    """Finds the module that is changed, before anybody else does."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        dotted = ".".join(mutant.path.relative_to(ROOT).with_suffix("").parts)
        self._name = dotted.removesuffix(".__init__")

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the changed module's spec."""
        if fullname != self._name:
            return None
        loader = Changed(fullname, str(self._mutant.path))
        loader.mutant = self._mutant
        return importlib.util.spec_from_file_location(fullname, self._mutant.path, loader=loader)


def run_tests(area: Area, mutant: Mutant | None) -> None:
    """Run an area's tests in this process, and end it with their exit code."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    os.environ["CI"] = "mutation"  # the same examples each time
    own = list[Path]()
    if mutant:
        sys.meta_path.insert(0, Finder(mutant))
        own = sorted(ROOT.glob(f"{area.tests[0]}/test_{mutant.path.stem.strip('_')}*.py"))
    options = ["-q", "-x", "-p", "no:cacheprovider", "-m", "not full", "-k", "not [server"]
    options.append(f"--timeout={WAIT_SECONDS}")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        # In two steps, since most changes are noticed in the first, and collecting takes longest.
        code = pytest.main([*options, *map(str, own)]) if own else 0
        code = code or pytest.main([*options, *area.tests])
    os._exit(int(code))


def survivors(area: Area, mutants: Sequence[Mutant | None]) -> list[Mutant | None]:
    """Print and return the changes with which all tests pass; each has a process forked for it."""
    running: dict[int, Mutant | None] = {}
    passed: list[Mutant | None] = []
    waiting = list(mutants)
    while waiting or running:
        if waiting and len(running) < (os.cpu_count() or 1):
            mutant = waiting.pop(0)
            if (pid := os.fork()) == 0:
                run_tests(area, mutant)
            running[pid] = mutant
            continue
        pid, status = os.wait()
        mutant = running.pop(pid)
        if status == 0:
            passed.append(mutant)
            print(f"  not noticed: {mutant}" if mutant else "without a change: all tests pass")
    return passed


def measure(area: Area, seed: int, sample: int) -> bool:
    """Try a sample of an area's changes and print what came of it; True where the bar is met."""
    paths = sorted(ROOT.glob(f"{area.folder}/**/*.py"))
    every = [one for path in paths if path.stem not in area.leaves_out for one in mutants_of(path)]
    chosen = random.Random(seed).sample(every, min(sample, len(every)))
    if not survivors(area, [None]):
        print(f"{area.folder}: its tests fail without any change")
        return False
    passed = survivors(area, chosen)
    share = 100 * (1 - len(passed) / len(chosen))
    print(f"{area.folder}: {len(chosen) - len(passed)} of {len(chosen)} changes were noticed")
    return share >= area.bar


def main() -> int:
    """Measure the areas that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("areas", nargs="*", metavar="|".join(AREAS))
    parser.add_argument("--seed", type=int, default=10)
    parser.add_argument("--sample", type=int, help="instead of the area's own number")
    options = parser.parse_args()
    os.chdir(ROOT)
    areas = [AREAS[name] for name in options.areas or AREAS]
    met = [measure(area, options.seed, options.sample or area.sample) for area in areas]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
