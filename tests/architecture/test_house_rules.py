"""The source follows the house rules that readers rely on."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from outlast.loop.state import LoopState
from tests.architecture.source import functions_of, modules, name_called, nodes_of, tree_of

LONGEST_FUNCTION = 60


def test_a_function_fits_on_a_screen() -> None:
    too_long = {
        f"{module}: {function.name}": length
        for module in modules()
        for function in functions_of(module)
        if (length := (function.end_lineno or 0) - function.lineno + 1) > LONGEST_FUNCTION
    }
    assert too_long == {}


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        module for module in modules() if not says_something(ast.get_docstring(tree_of(module)))
    ]
    assert not silent


def says_something(docstring: str | None) -> bool:
    """Whether a docstring is a sentence of at least four words and no placeholder."""
    words = [word.strip(".:,") for word in (docstring or "").split()]
    return len(words) >= 4 and not {"TODO", "FIXME", "XXX"} & set(words)


def test_a_placeholder_does_not_count_as_a_docstring() -> None:
    placeholders = [None, "", "TODO.", "TODO: say what this is for.", "A room."]
    assert [one for one in placeholders if says_something(one)] == []


def test_no_module_is_named_after_nothing() -> None:
    vague = {"utils", "helpers", "common", "manager", "base", "misc"}
    assert not [module for module in modules() if vague & {*Path(module).with_suffix("").parts}]


def test_there_is_one_loop() -> None:
    homes = [
        module
        for module in modules()
        for function in functions_of(module)
        if function.name == "advance"
    ]
    assert homes == ["loop/machine.py", "loop/team/machine.py"], "a run's, and a team's"


STATE = LoopState.__name__

SEEN_ONLY = {
    "client/handle.py": "the id of a run that has just been started",
    "client/read/history.py": "a state that names the run and the chain that the server names",
    "client/read/streaming.py": "what a reader has seen of a run so far",
    "client/results/result_members.py": "a result whose large content was fetched",
    "views/run.py": "a snapshot whose large content was fetched",
    "views/trouble.py": "a run that no worker has begun, with its first message to read",
}
"""Modules outside of the loop that make a state of a run, with the reason."""


def makers_of_states(nodes: Iterable[ast.AST]) -> list[str]:
    """Return the calls in a module that make a state of a run, or change one."""
    found: list[str] = []
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        called = name_called(node)
        fills = called == STATE and (node.args or node.keywords)
        changes = (
            called == "replace"
            and node.args
            and ast.unparse(node.args[0]).rpartition(".")[2] in {"state", "snapshot", "before"}
        )
        if fills or changes or called == "revised":
            found.append(ast.unparse(node))
    return found


def test_each_way_to_make_a_state_is_found() -> None:
    ways = [
        "LoopState(phase='idle')",
        "state.LoopState(agent='A')",
        "revised(state, phase='idle')",
        "loop_state.revised(now, turn=1)",
        "dataclasses.replace(handle.state, outcome=None)",
        "replace(snapshot, items=())",
    ]
    assert [code for code in ways if not makers_of_states(ast.walk(ast.parse(code)))] == []
    others = ast.parse("LoopState()\nreplace(request, status='pending')")
    assert not makers_of_states(ast.walk(others))


def test_only_the_loop_makes_new_states_of_a_run() -> None:
    """Others may start from `LoopState()`, but only the loop fills one in or changes it."""
    makers = {module for module in modules() if makers_of_states(nodes_of(module))}
    outside = {module for module in makers if not module.startswith("loop/")}
    assert outside == SEEN_ONLY.keys()


def test_the_loop_imports_nothing_but_itself_and_plain_data_modules() -> None:
    """Stronger than the contract, which lists what is forbidden: this is all that is allowed."""
    allowed = {
        "collections",
        "dataclasses",
        "hashlib",
        "json",
        "operator",
        "re",
        "typing",
        "unicodedata",
    }
    others = {
        f"{module} imports {name}"
        for module in modules()
        if module.startswith("loop/")
        for name in imported(tree_of(module))
        if not name.startswith("outlast.loop") and name.split(".")[0] not in allowed
    }
    assert others == set()


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield the name of every module that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
