"""The changes that mutmut can make in the code, in the order of a lot."""

import difflib
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import libcst
from mutmut.mutation.file_mutation import Mutation, create_mutations

from tests.mutation.meaning import meaning


@dataclass(frozen=True)
class Change:
    """A small change of a function.

    Attributes:
        id: module, function and what is changed: the same as long as the function's line is.
        module: the changed file, relative to the project.
        function: `function` or `Class.method`.
        text: the file after the change.
        diff: the changed lines.
    """

    id: str
    module: str
    function: str
    text: str
    diff: str


@dataclass(frozen=True)
class _Possible:
    """A change that is not made yet."""

    lot: str
    id: str
    module: str
    function: str
    source: libcst.Module
    mutation: Mutation


def changes(root: Path, modules: Sequence[str], seed: int) -> Iterator[Change]:
    """Yield the changes of modules by lot, but for those of words.

    A lot hangs on the change alone. A change of other lines leaves a sample as it is, so that what
    was noticed before and after can be compared one by one.
    """
    possible = [one for module in modules for one in _possible(root, module, seed)]
    for one in sorted(possible, key=lambda one: one.lot):
        change = _made(one)
        if meaning(one.source.code, one.function) != meaning(change.text, one.function):
            yield change


def _possible(root: Path, module: str, seed: int) -> Iterator[_Possible]:
    """Yield all changes of a module."""
    text = (root / module).read_text(encoding="utf-8")
    source, mutations, _, _ = create_mutations(module, text)
    names = dict(_functions(source))
    known: Counter[str] = Counter()
    for one in mutations:
        outer = one.contained_by_top_level_function
        if outer is None or outer not in names:
            continue
        before, after = (
            source.code_for_node(node) for node in (one.original_node, one.mutated_node)
        )
        what = f"{module}:{names[outer]}:{before}:{after}"
        known[what] += 1
        mark = _hash(f"{what}:{known[what]}")
        name = f"{module}:{names[outer]}:{mark[:8]}"
        yield _Possible(_hash(f"{seed}:{mark}"), name, module, names[outer], source, one)


def _functions(source: libcst.Module) -> Iterator[tuple[libcst.CSTNode, str]]:
    """Yield the functions and methods that mutmut changes, with their names."""
    for node in source.body:
        if isinstance(node, libcst.FunctionDef):
            yield node, node.name.value
        if isinstance(node, libcst.ClassDef):
            for inner in node.body.body:
                if isinstance(inner, libcst.FunctionDef):
                    yield inner, f"{node.name.value}.{inner.name.value}"


def _made(one: _Possible) -> Change:
    """Make a change."""
    changed = one.source.deep_replace(one.mutation.original_node, one.mutation.mutated_node)
    assert isinstance(changed, libcst.Module)
    text = changed.code
    lines = difflib.unified_diff(one.source.code.splitlines(), text.splitlines(), n=0, lineterm="")
    diff = "\n".join(line for line in lines if not line.startswith(("---", "+++")))
    return Change(one.id, one.module, one.function, text, diff)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
