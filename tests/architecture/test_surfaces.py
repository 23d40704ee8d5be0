"""What surfaces and programs may know of a run: views and records, and no state of the loop.

The contract of imports is in `pyproject.toml`. This is the other half: no type that a public name
mentions, by any road, is the loop's own record of a run.
"""

import ast
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from outlast.edges import lazy
from tests.architecture.source import PACKAGE, modules, name_called, nodes_of, tree_of
from tests.replay.public_names import modules as public_modules

Place = tuple[str, str]
"""A module below the package, and a name in it."""

LOOP_STATE: Place = ("loop/state.py", "LoopState")


def file_of(module: str) -> str:
    """Return the file of a module of ours, below the package."""
    path = module.removeprefix("outlast").lstrip(".").replace(".", "/")
    return str(Path(path, "__init__.py")) if (PACKAGE / path).is_dir() else f"{path}.py"


@cache
def names_in(file: str) -> dict[str, ast.AST]:
    """Return what defines each name of a module: a class, a function, an alias or an import."""
    found: dict[str, ast.AST] = {}
    tree = tree_of(file)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found |= {one.asname or one.name: node for one in node.names}
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                found[name] = node
            case ast.AsyncFunctionDef(name=name):
                found[name] = node
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                found[name] = node
            case _:
                pass
    return found


def home_of(file: str, name: str) -> Place | None:
    """Return where a name that a module uses is defined; None outside of the package."""
    node = names_in(file).get(name)
    if not isinstance(node, ast.ImportFrom):
        return None if node is None else (file, name)
    if node.module is None or node.module.partition(".")[0] != "outlast" or node.level:
        return None
    own = next(one.name for one in node.names if (one.asname or one.name) == name)
    if (PACKAGE / file_of(f"{node.module}.{own}")).exists():
        return None  # a module
    return home_of(file_of(node.module), own)


def types_of(place: Place, *, is_made: bool) -> Iterator[ast.AST]:
    """Yield the types that what is defined somewhere shows to its users.

    Args:
        place: where it is defined.
        is_made: whether users make objects of it themselves.
    """
    node = names_in(place[0])[place[1]]
    match node:
        case ast.ClassDef():
            yield from node.bases
            for part in node.body:
                match part:
                    case ast.AnnAssign(target=ast.Name(id=name), annotation=kind):
                        if not name.startswith("_"):
                            yield kind
                    case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                        if not name.startswith("_") or (is_made and name == "__init__"):
                            yield from _of_function(part)
                    case _:
                        pass
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from _of_function(node)
        case ast.AnnAssign(value=value) | ast.Assign(value=value) if value is not None:
            yield value
        case _:
            pass


def _of_function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    given = node.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    yield from (one.annotation for one in every if one is not None and one.annotation is not None)
    if node.returns is not None:
        yield node.returns
    if node.name == "__init__":
        for inner in ast.walk(node):
            match inner:
                case ast.AnnAssign(target=ast.Attribute(attr=name), annotation=kind):
                    if not name.startswith("_"):
                        yield kind
                case _:
                    pass


def named_in(kind: ast.AST) -> Iterator[str]:
    """Yield the names in a type, also in one that is written as a text."""
    for node in ast.walk(kind):
        match node:
            case ast.Name(id=name):
                yield name
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                yield f"{module}.{name}"
            case ast.Constant(value=str(text)):
                with suppress(SyntaxError):
                    yield from named_in(ast.parse(text, mode="eval"))
            case _:
                pass


def neighbours(place: Place, *, is_made: bool) -> Iterator[Place]:
    """Yield what is one type away."""
    for kind in types_of(place, is_made=is_made):
        for name in named_in(kind):
            module, dot, own = name.partition(".")
            found = _in_module(place[0], module, own) if dot else home_of(place[0], name)
            if found is not None:
                yield found


def _in_module(file: str, module: str, name: str) -> Place | None:
    node = names_in(file).get(module)
    if not isinstance(node, ast.ImportFrom) or node.module is None:
        return None
    real = next(one.name for one in node.names if (one.asname or one.name) == module)
    path = file_of(f"{node.module}.{real}")
    is_ours = node.module.partition(".")[0] == "outlast" and (PACKAGE / path).exists()
    return home_of(path, name) if is_ours else None


def road_to(start: Place, goal: Place) -> list[Place]:
    """Return the types on the way from one place to another; nothing without a way."""
    before: dict[Place, Place | None] = {start: None}
    queue = [start]
    while queue:
        place = queue.pop(0)
        if place == goal:
            road = [place]
            while (previous := before[road[-1]]) is not None:
                road.append(previous)
            return road[::-1]
        for one in neighbours(place, is_made=place == start):
            if one not in before:
                before[one] = place
                queue.append(one)
    return []


@cache
def public_places() -> dict[str, Place]:
    """Return where each public name is defined, by the module that programs import it from."""
    found: dict[str, Place] = {}
    for module in public_modules():
        file = file_of(module)
        stub = (PACKAGE / file).with_suffix(".pyi")
        if stub.exists():
            homes = lazy.homes(stub.read_text(encoding="utf-8"))
            places = {name: home.split(":") for name, home in homes.items()}
            for name, (home, own) in places.items():
                if home.partition(".")[0] == "outlast" and (place := home_of(file_of(home), own)):
                    found[f"{module}.{name}"] = place
        else:
            for name in names_in(file):
                if not name.startswith("_") and home_of(file, name) == (file, name):
                    found[f"{module}.{name}"] = (file, name)
    return found


@pytest.mark.full
def test_no_public_name_leads_to_the_loops_own_record_of_a_run() -> None:
    roads = {name: road_to(place, LOOP_STATE) for name, place in public_places().items()}
    assert {name: road for name, road in roads.items() if road} == {}


def test_the_search_reads_the_names_that_programs_use() -> None:
    places = public_places()
    assert places["outlast.client.RunHandle"] == ("client/handle.py", "RunHandle")
    assert places["outlast.RunSnapshot"] == ("views/run.py", "RunSnapshot")
    assert len(places) > 600


@pytest.mark.parametrize(
    "start",
    [
        ("views/trouble.py", "needs_worker"),  # a parameter
        ("client/read/history.py", "Progress"),  # a field
        ("client/read/history.py", "RunReader"),  # a method's
        ("client/handle.py", "progress_of"),  # a type in a type
        ("workflows/presentation.py", "attributes"),
    ],
)
def test_a_road_to_it_is_found(start: Place) -> None:
    assert road_to(start, LOOP_STATE)[-1] == LOOP_STATE


# --- Decisions ------------------------------------------------------------------------------------

DECIDERS = {
    "views/acts.py": "about a request as its person was shown it",
    "client/people/actions.py": "by an id, of somebody who has seen the arguments alone",
    "testing/run_replay.py": "votes of a replay, of people that it makes up",
}
"""Modules that make decisions, with which."""


def test_a_decision_names_what_its_person_was_shown_whatever_they_decide_with() -> None:
    makers = {
        module
        for module in modules()
        for node in nodes_of(module)
        if isinstance(node, ast.Call) and name_called(node) == "Decision"
    }
    assert makers == DECIDERS.keys()
