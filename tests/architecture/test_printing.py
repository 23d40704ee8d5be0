"""The command line prints only through `cli/terminal.py`, which makes every text visible."""

import ast
from collections.abc import Iterable

import pytest

from tests.architecture.source import modules, name_called, nodes_of, tree_of

BOUNDARY = "cli/terminal.py"
BEFORE_IT = {"cli/entry.py"}
"""Says that the boundary's own packages are absent, in words of its own."""

PRINTING = {
    "print",
    "echo",
    "secho",
    "print_exception",
    "print_exc",
    "print_json",
    "write",
    "writelines",
}
STREAMS = {"sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"}
OWN = {"terminal.print_json", "terminal.print_json_line"}


def prints_past_the_boundary(tree: ast.AST) -> list[str]:
    """Return what in a module prints, or makes something that prints, by itself."""
    found: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found += [one.name for one in names if one.name.split(".")[0] in {"rich", "click"}]
            case ast.ImportFrom(module=str(module), names=names):
                if module.split(".")[0] in {"rich", "click"}:
                    found.append(module)
                found += [
                    f"{module}.{one.name}"
                    for one in names
                    if one.name in PRINTING or f"{module}.{one.name}" in STREAMS
                ]
            case ast.Call(func=ast.Name(id=name)) if name in PRINTING:
                found.append(name)
            case ast.Call(func=ast.Attribute(attr=name) as called) if name in PRINTING:
                if ast.unparse(called) not in OWN:
                    found.append(ast.unparse(called))
            case _:
                pass
    return found


def test_nothing_in_the_command_line_prints_by_itself() -> None:
    found = {
        module: prints
        for module in modules()
        if module.startswith("cli/") and module != BOUNDARY and module not in BEFORE_IT
        if (prints := prints_past_the_boundary(tree_of(module)))
    }
    assert found == {}


def test_the_boundary_prints() -> None:
    assert prints_past_the_boundary(tree_of(BOUNDARY))


@pytest.mark.parametrize(
    "source",
    [
        "print(run_id)",
        "console.print(Text(run_id))",
        "self._console.print(run_id, end='')",
        "sys.stdout.write(run_id)",
        "from sys import stderr",
        "typer.echo(run_id)",
        "from typer import secho",
        "traceback.print_exception(error)",
        "from rich.text import Text",
        "def show():\n    import rich.table",
        "view.print(run_id)",
    ],
)
def test_printing_is_found_however_it_is_spelled(source: str) -> None:
    assert prints_past_the_boundary(ast.parse(source))


@pytest.mark.parametrize(
    "source", ["terminal.say(console, run_id)", "terminal.print_json([])", "file.flush()"]
)
def test_the_boundarys_own_means_are_allowed(source: str) -> None:
    assert not prints_past_the_boundary(ast.parse(source))


def names_called(nodes: Iterable[ast.AST]) -> set[str]:
    return {name_called(node) for node in nodes if isinstance(node, ast.Call)}


def test_only_the_rendering_says_that_a_text_is_visible() -> None:
    """Only `edges/rendering.py` creates `Shown` texts, because they are printed unchanged."""
    makers = {module for module in modules() if "Shown" in names_called(nodes_of(module))}
    assert makers == {"edges/rendering.py"}


def test_the_boundary_hands_rich_only_texts_that_it_has_made_visible() -> None:
    """Each `Text` with anything in it is made of `visible`, blanks, or lines that are."""
    allowed = {"visible(text)", "line", "' '", "' ' * indent", "'\\n'"}
    made = {
        ast.unparse(node.args[0])
        for node in ast.walk(tree_of(BOUNDARY))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Text" and node.args
    }
    assert made <= allowed
    assert "visible(text)" in made
