"""The public names: every one is there, in one place, and loaded when it is first used."""

import ast
import importlib
import pkgutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from typing import Any

import pytest

import outlast
from outlast import lazy
from tests.architecture.source import PACKAGE, PUBLIC, ROOT


def loaded_by(statement: str, *suspects: str) -> Sequence[str]:
    """Return which of these modules a fresh interpreter has loaded after a statement."""
    program = f"{statement}\nimport sys\nprint(*(n for n in {suspects!r} if n in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


HOMES = lazy.homes((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))


def test_the_public_names_are_those_of_the_stub_and_each_is_there_once() -> None:
    assert list(HOMES) == PUBLIC
    stub = (PACKAGE / "__init__.pyi").read_text(encoding="utf-8")
    names = [one.asname for one in ast.walk(ast.parse(stub)) if isinstance(one, ast.alias)]
    assert sorted(map(str, names)) == sorted(HOMES), "a name has two homes"


@pytest.mark.parametrize(("name", "home"), HOMES.items())
def test_a_public_name_is_the_one_of_its_home(name: str, home: str) -> None:
    assert getattr(outlast, name) is pkgutil.resolve_name(home)


def test_a_name_that_is_not_public_is_an_ordinary_attribute_error() -> None:
    package: Any = outlast
    with pytest.raises(AttributeError, match="module 'outlast' has no attribute 'Agnet'"):
        package.Agnet  # noqa: B018  looking is the point


def test_people_find_the_public_names_before_they_are_loaded() -> None:
    program = "import outlast; print(set(outlast.__all__) <= set(dir(outlast)))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True"


@pytest.mark.parametrize(
    ("package", "name"),
    [
        ("outlast.client", "RunHandle"),
        ("outlast.client", "Runner"),
        ("outlast.worker", "AgentWorker"),
        ("outlast.worker", "OutlastPlugin"),
        ("outlast.testing", "ScriptedModel"),
        ("outlast.testing", "run_in_memory"),
    ],
)
def test_the_rooms_that_users_enter_have_their_names(package: str, name: str) -> None:
    module = importlib.import_module(package)
    assert name in module.__all__
    assert getattr(module, name).__name__ == name


def test_importing_the_package_loads_nothing_large() -> None:
    assert (
        loaded_by("import outlast", "temporalio", "openai", "pydantic", "asyncio", "typing") == []
    )


def test_defining_an_agent_loads_no_engine_and_no_provider() -> None:
    statement = "import outlast\noutlast.Agent(name='A', instructions='Be kind.')"
    assert loaded_by(statement, "temporalio", "openai", "pydantic") == []


def test_the_client_knows_neither_workflows_nor_activities() -> None:
    suspects = ("outlast.workflows", "outlast.activities", "outlast.worker", "openai")
    assert loaded_by("import outlast.client", *suspects) == []


def test_the_loop_loads_alone() -> None:
    suspects = ("temporalio", "openai", "pydantic", "asyncio", "outlast.agents", "outlast.contract")
    assert loaded_by("import outlast.loop.machine", *suspects) == []


def test_the_package_and_its_metadata_say_the_same_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == outlast.__version__
    assert f"## {outlast.__version__}" in (ROOT / "CHANGELOG.md").read_text().replace("[", "")
