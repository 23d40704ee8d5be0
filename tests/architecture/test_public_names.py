"""Every public name exists, is defined in one place, and is loaded on first use."""

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import outlast
from outlast.edges import lazy
from tests.architecture.source import PACKAGE, PUBLIC, ROOT, tree_of
from tests.replay import public_names


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


def test_a_public_name_is_the_one_of_its_home() -> None:
    others = {
        name: home
        for name, home in HOMES.items()
        if getattr(outlast, name) is not pkgutil.resolve_name(home)
    }
    assert others == {}


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
    assert loaded_by(statement, "temporalio", "openai") == []


def test_the_client_knows_neither_workflows_nor_activities() -> None:
    suspects = ("outlast.workflows", "outlast.activities", "outlast.worker", "openai")
    assert loaded_by("from outlast.client import *", *suspects) == []


def test_the_loop_loads_alone() -> None:
    suspects = ("temporalio", "openai", "pydantic", "asyncio", "outlast.agents", "outlast.contract")
    assert loaded_by("import outlast.loop.machine", *suspects) == []


def test_the_package_and_its_metadata_say_the_same_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == outlast.__version__
    assert f"## {outlast.__version__}" in (ROOT / "CHANGELOG.md").read_text().replace("[", "")


API = ROOT / "docs/reference/api"

RIDDLES = (
    "What ",
    "That ",
    "Whatever ",
    "How ",
    "Which ",
    "Whether ",
    "Where ",
    "Why ",
    "Called ",
    "Is ",
    "Lets ",
)
"""Beginnings of a first line that does not name its thing."""

FOREIGN = {"AsyncOpenAI", "TContext"}
"""Names that other packages define and document."""


def first_line(home: str) -> str:
    """Return the first line of an object's docstring, or of the text below an alias."""
    module, _, name = home.partition(":")
    body = tree_of(f"{module.partition('.')[2].replace('.', '/')}.py").body
    for node, following in zip(body, [*body[1:], None], strict=True):
        match node, following:
            case (ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef(), _) if (
                node.name == name
            ):
                text = ast.get_docstring(node)
            case (
                ast.Assign(targets=[ast.Name(id=found)]) | ast.AnnAssign(target=ast.Name(id=found)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ) if found == name:
                pass
            case _:
                continue
        if text:
            return text.strip().partition("\n")[0]
    return ""


def is_plain_sentence(line: str) -> bool:
    """Whether a line is one short sentence that names what it is about."""
    whole = len(line) < 80 and line.endswith(".") and ". " not in line
    return whole and line[:1].isupper() and not line.startswith(RIDDLES)


def test_a_public_name_is_explained_by_a_plain_sentence() -> None:
    lines = {name: first_line(HOMES[name]) for name in PUBLIC if name not in FOREIGN}
    assert {name: line for name, line in lines.items() if not is_plain_sentence(line)} == {}


@pytest.mark.parametrize(
    "line",
    ["", "TODO", "What a guardrail found.", "A tool. It is called.", f"A {'long ' * 20}line."],
)
def test_other_first_lines_are_found(line: str) -> None:
    assert not is_plain_sentence(line)


ROOMS = re.findall(
    r"^\| `outlast\.([\w.]+)` \|",
    (API / "index.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)
"""The public modules: what programs import from, besides the package itself."""


def without_a_sign(docstrings: Mapping[str, str]) -> list[str]:
    """Return the modules whose docstring does not say that they are internal, or public."""
    return [
        name
        for name, text in docstrings.items()
        if text.startswith("Internal. ") == (name in ROOMS)
    ]


def test_a_package_is_listed_as_public_or_says_that_it_is_internal() -> None:
    files = {*PACKAGE.rglob("__init__.py"), *PACKAGE.glob("*.py")} - {PACKAGE / "__init__.py"}
    docstrings = {
        name: ast.get_docstring(tree_of(str(file.relative_to(PACKAGE)))) or ""
        for file in files
        for name in [".".join(file.relative_to(PACKAGE).with_suffix("").parts)]
    }
    named = {name.removesuffix(".__init__"): text for name, text in docstrings.items()}
    parents = {room.rpartition(".")[0] for room in ROOMS} - {*ROOMS}  # of public modules
    assert without_a_sign({name: one for name, one in named.items() if name not in parents}) == []


def test_a_public_module_is_there_and_does_not_call_itself_internal() -> None:
    for room in ROOMS:
        text = importlib.import_module(f"outlast.{room}").__doc__ or ""
        assert text, room
        assert not text.startswith("Internal."), room


@pytest.mark.parametrize(
    ("docstrings", "found"),
    [
        ({"loop": "Internal. The loop.", "worker": "The worker."}, []),
        ({"loop": "The loop."}, ["loop"]),
        ({"loop": ""}, ["loop"]),
        ({"worker": "Internal. The worker."}, ["worker"]),
    ],
)
def test_a_missing_sign_is_found(docstrings: dict[str, str], found: list[str]) -> None:
    assert without_a_sign(docstrings) == found


def test_the_api_reference_documents_public_modules_only() -> None:
    pages = [page.read_text(encoding="utf-8") for page in API.glob("*.md")]
    homes = {
        name for page in pages for name in re.findall(r"^::: outlast\.(\S+)$", page, re.MULTILINE)
    }
    assert homes
    assert [one for one in homes if not is_public(one)] == []


def is_public(name: str) -> bool:
    """Whether a dotted name below the package is in a public module."""
    room, _, name = name.rpartition(".")
    return name in (exported(room) if room else PUBLIC)


@pytest.mark.parametrize(
    ("name", "public"),
    [("Agent", True), ("testing.say", True), ("loop.state.Start", False), ("testing.gone", False)],
)
def test_a_private_name_in_the_reference_is_found(name: str, public: bool) -> None:
    assert is_public(name) == public


def private_imports(source: str) -> list[str]:
    """Return what a program imports from us that is not public."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules = [one.name for one in node.names]
            found += [one for one in modules if one.startswith("outlast.") and one[8:] not in ROOMS]
        elif (
            isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "outlast"
        ):
            room = str(node.module).partition(".")[2]
            names = PUBLIC + ROOMS if not room else exported(room)
            names = [*names, *(one.removeprefix(f"{room}.") for one in ROOMS)]
            found += [f"{node.module}.{one.name}" for one in node.names if one.name not in names]
    return found


def exported(room: str) -> list[str]:
    """Return the names that a room has for programs; none if it is not for programs."""
    if room not in ROOMS:
        return []
    module = importlib.import_module(f"outlast.{room}")
    own = [
        name
        for name, one in vars(module).items()
        if getattr(one, "__module__", "") == module.__name__
    ]
    return list(
        vars(module).get("__all__", [*own, *(name for name in vars(module) if name.isupper())])
    )


GUIDES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
TEMPLATES = sorted((PACKAGE / "cli/new_project").rglob("*.tmpl"))
PROGRAMS = [*sorted((ROOT / "examples").rglob("*.py")), *TEMPLATES, *GUIDES]
LOOP_ALONE = "docs/concepts/run-is-a-fold.md"
"""The page that shows the loop itself, and says that its names are not public."""

BLOCK = re.compile(r"^ *```(?:py|python)\b[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def test_examples_new_projects_and_guides_import_public_names_only() -> None:
    found = {str(path.relative_to(ROOT)): private_imports(code_of(path)) for path in PROGRAMS}
    for kind in (GUIDES, TEMPLATES):
        assert any("from outlast" in code_of(path) for path in kind)
    loop = found.pop(LOOP_ALONE)
    assert [name for name in loop if not name.startswith("outlast.loop.")] == []
    assert "not a public interface" in (ROOT / LOOP_ALONE).read_text(encoding="utf-8")
    assert {path: lines for path, lines in found.items() if lines} == {}


def code_of(path: Path) -> str:
    """Return a program, or the import lines of a guide, whose blocks may be parts of functions."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return text
    if path.suffix == ".tmpl":
        return "\n".join(IMPORT.findall(text))
    blocks = [textwrap.dedent(block) for block in BLOCK.findall(text)]
    return "\n".join(line for block in blocks for line in IMPORT.findall(block))


IMPORT = re.compile(r"^(?:from [\w.]+ import (?:\([^)]*\)|.+)|import [\w.]+)$", re.MULTILINE)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("from outlast import Agent, mcp", []),
        ("from outlast.testing import call", []),
        ("from outlast.extensions import handoff_filters", []),
        ("from outlast.extensions.handoff_prompt import RECOMMENDED_PROMPT_PREFIX", []),
        ("from outlast.dev import EmbeddedServer", []),
        ("from outlast import Agnet", ["outlast.Agnet"]),
        ("from outlast.loop.approvals import Decision", ["outlast.loop.approvals.Decision"]),
        ("from outlast.testing import in_memory", ["outlast.testing.in_memory"]),
        ("import outlast.loop.state", ["outlast.loop.state"]),
    ],
)
def test_a_private_import_is_found(line: str, found: list[str]) -> None:
    assert private_imports(line) == found


def without_docstring(objects: Mapping[str, object]) -> list[str]:
    """Return the classes, functions and methods of ours for which completion has no text."""
    found: list[str] = []
    for name, value in objects.items():
        if getattr(value, "__module__", "").partition(".")[0] != PACKAGE.name:
            continue
        if inspect.isclass(value) and "[" not in value.__name__:  # pydantic's aliases have brackets
            text = vars(value).get("__doc__")  # an inherited one is about another class
            generated = str(text).startswith(f"{value.__name__}(")  # that of a dataclass
            found += [] if text and not generated else [name]
            members = {f"{name}.{one}": part for one, part in vars(value).items() if one[0] != "_"}
            found += [
                one
                for one, part in members.items()
                if isinstance(part, property | classmethod | staticmethod) or callable(part)
                if not inspect.getdoc(getattr(value, one.rpartition(".")[2]))
            ]
        elif inspect.isroutine(value) and not inspect.getdoc(value):
            found.append(name)
    return found


@pytest.mark.full
def test_completion_explains_every_public_name_and_method() -> None:
    objects: dict[str, object] = {name: getattr(outlast, name) for name in PUBLIC}
    for room in ROOMS:
        module = importlib.import_module(f"outlast.{room}")
        names = [name for name in exported(room) if not name.startswith("_")]
        objects |= {f"{room}.{name}": getattr(module, name) for name in names}
    assert len(objects) > 500
    assert without_docstring(objects) == []


def test_a_name_without_a_docstring_is_found() -> None:
    class Explained:
        """An example."""

        def silent(self) -> None: ...

    class Unexplained(Explained): ...

    @dataclass
    class Generated:
        size: int

    def silent() -> None: ...

    examples = {one.__name__: one for one in (Explained, Unexplained, Generated, silent)}
    for one in examples.values():
        one.__module__ = "outlast.example"
    assert without_docstring(examples) == ["Explained.silent", "Unexplained", "Generated", "silent"]


# --- Tiers ----------------------------------------------------------------------------------------


def test_every_public_name_has_one_tier() -> None:
    assert public_names.without_a_tier(public_names.tiers()) == []


def test_names_without_a_tier_or_with_two_or_with_none_of_ours_are_found() -> None:
    tiers = public_names.tiers()
    tiers["outlast.dev"]["stable"].remove("EmbeddedServer")
    tiers["outlast.views"]["stable"] = ["facts", "fancy"]
    tiers["outlast.nowhere"] = {"fine": []}
    assert public_names.without_a_tier(tiers) == [
        "outlast.nowhere: no public module",
        "outlast.dev.EmbeddedServer: has no tier",
        "outlast.views.fancy: is no public name",
        "outlast.views.facts: has two tiers",
        "fine: no tier",
    ]


def test_views_and_live_add_at_most_forty_names_which_are_provisional() -> None:
    tiers = public_names.tiers()
    new = {name: tiers[name] for name in ("outlast.views", "outlast.client.live")}
    assert {tier for names in new.values() for tier in names} == {"provisional"}
    assert sum(len(names["provisional"]) for names in new.values()) <= 40
