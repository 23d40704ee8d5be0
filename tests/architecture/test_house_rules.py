"""The rules of the house that a reader relies on, held by reading the source."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source import PACKAGE, ROOT, functions_of, modules, tree_of

LONGEST_MODULE = 400
LONGEST_FUNCTION = 60

TESTED_ELSEWHERE = {
    "workflows/agent_run.py": "it lives in a Temporal worker only: tests/workflow, on a server",
}
"""Modules without a test module of their own, with the reason."""


@pytest.mark.parametrize("module", modules())
def test_a_module_can_be_read_in_one_sitting(module: str) -> None:
    lines = (PACKAGE / module).read_text(encoding="utf-8").count("\n")
    assert lines <= LONGEST_MODULE, f"{module} has {lines} lines"


@pytest.mark.parametrize("module", modules())
def test_a_function_fits_on_a_screen(module: str) -> None:
    too_long = {
        function.name: length
        for function in functions_of(module)
        if (length := (function.end_lineno or 0) - function.lineno + 1) > LONGEST_FUNCTION
    }
    assert not too_long, f"{module}: {too_long}"


@pytest.mark.parametrize("module", modules())
def test_a_module_says_what_it_is_for(module: str) -> None:
    assert ast.get_docstring(tree_of(module))


def needs_a_test(module: str) -> bool:
    """Whether a module has code of its own: a package's front door only passes names on.

    The command line is tested by what its commands print, not module by module.
    """
    path = Path(module)
    return path.name != "__init__.py" and path.parts[0] != "cli"


def home_of_tests(module: str) -> Path:
    """Return where a module's tests are."""
    path = Path(module)
    return ROOT / "tests" / "unit" / path.parent / f"test_{path.name}"


@pytest.mark.parametrize("module", [module for module in modules() if needs_a_test(module)])
def test_a_module_has_its_tests_at_the_same_path(module: str) -> None:
    assert home_of_tests(module).exists() or module in TESTED_ELSEWHERE


@pytest.mark.parametrize("module", TESTED_ELSEWHERE)
def test_an_exception_is_of_a_module_that_exists_and_needs_it(module: str) -> None:
    assert (PACKAGE / module).exists()
    assert not home_of_tests(module).exists()


def test_no_module_is_named_after_nothing() -> None:
    vague = {"utils", "helpers", "common", "manager", "base", "misc"}
    assert not [module for module in modules() if Path(module).stem in vague]


def test_there_is_one_loop() -> None:
    homes = [
        module
        for module in modules()
        for function in functions_of(module)
        if function.name == "advance"
    ]
    assert homes == ["loop/machine.py"]


def test_only_the_machine_makes_new_states_of_a_run() -> None:
    """Others may start from `RunState()`, but only the loop fills one in or changes it."""
    makers = {
        module
        for module in modules()
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "RunState"
        and (node.args or node.keywords)
    }
    assert makers == {"loop/machine.py"}


def test_who_imports_whom_is_as_agreed() -> None:
    command = Path(sys.executable).with_name("lint-imports")
    if not command.exists():
        pytest.skip("import-linter is not installed: `make layers` installs and runs it")
    done = subprocess.run(
        [command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert " 0 broken." in done.stdout


@pytest.mark.parametrize("module", [one for one in modules() if one.startswith("loop/")])
def test_the_loop_imports_nothing_but_itself_and_plain_data_modules(module: str) -> None:
    """Stronger than the contract, which lists what is forbidden: this is all that is allowed."""
    allowed = {
        "collections",
        "dataclasses",
        "hashlib",
        "json",
        "typing",
    }
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Import):
            roots = {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            name = node.module or ""
            roots = {name.split(".")[0]} if not name.startswith("outlast.loop") else set[str]()
        else:
            continue
        assert roots <= allowed, f"{module} imports {roots - allowed}"
