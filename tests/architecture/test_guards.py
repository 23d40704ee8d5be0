# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
"""Each guard of this folder is tried against a violation that it looks for.

A guard that searches for a name which is gone passes forever; here it fails.
"""

import ast
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest

import outlast
from outlast.agents.errors import AgentsException
from tests.architecture import test_dependencies as dependencies
from tests.architecture import test_documents as documents
from tests.architecture import test_feature_table as feature_table
from tests.architecture import test_house_rules as house_rules
from tests.architecture import test_images as images
from tests.architecture import test_printing as printing
from tests.architecture import test_public_names as public_names
from tests.architecture import test_reference as reference
from tests.architecture import test_repeated_waits as repeated_waits
from tests.architecture import test_state_comparisons as state_comparisons
from tests.architecture import test_statuses as statuses
from tests.architecture import test_surfaces as surfaces
from tests.architecture import test_user_types as user_types
from tests.architecture.source import ROOT, modules

MODULES = [
    dependencies, documents, feature_table, house_rules, images, printing, public_names, reference,
    repeated_waits, state_comparisons, statuses, surfaces, user_types,
]  # fmt: skip

MACHINES = ("loop/machine.py", "loop/team/machine.py")

Edit: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True)
class Plant:
    """One violation, planted.

    Attributes:
        guard: the test that has to fail.
        edits: what stands in for names of the guard's module, made of what they are.
        arguments: of the guard.
    """

    guard: Callable[..., None]
    edits: Mapping[str, Edit]
    arguments: tuple[Any, ...] = ()


def plant(guard: Callable[..., None], *arguments: Any, **edits: Edit) -> Plant:
    return Plant(guard, edits, arguments)


def plus(*more: Any) -> Edit:
    """Return a list or a table of names, with more of them."""

    def edit(known: Any) -> Any:
        return dict(known, planted=more) if hasattr(known, "keys") else [*known, *more]

    return edit


def text(old: str, new: str = "") -> Edit:
    """Replace a part of a text, which has to be there."""

    def edit(known: str) -> str:
        assert old in known
        return known.replace(old, new)

    return edit


def file(path: str, old: str, new: str = "") -> Edit:
    """Replace a part of one file of the project, below a root of links to all others."""

    def edit(root: Path) -> Path:
        below, *folders = Path(os.environ["PLANTED_ROOT"]), *Path(path).parts
        planted, real = below, root
        for name in folders:
            planted.mkdir(exist_ok=True)
            for other in real.iterdir():
                if other.name != name:
                    (planted / other.name).symlink_to(other)
            planted, real = planted / name, real / name
        planted.write_text(text(old, new)(real.read_text("utf-8")), encoding="utf-8")
        return below

    return edit


def module(path: str, source: str, *others: str) -> dict[str, Edit]:
    """Return the edits that show a module to a guard which reads the source of all.

    Args:
        path: where the module is planted.
        source: of the module.
        others: all that the guard sees besides: the modules that it expects to find.
    """
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    return {
        "modules": lambda _: lambda: [*others, path],
        "tree_of": lambda read: lambda name: tree if name == path else read(name),
        "nodes_of": lambda read: lambda name: nodes if name == path else read(name),
        "functions_of": lambda read: lambda name: functions if name == path else read(name),
    }


def loads(name: str) -> dict[str, Edit]:
    """Return the edits with which the package loads one module more."""
    return {"loaded_by": lambda run: lambda code, *rest: run(f"import {name}\n{code}", *rest)}


class UnexplainedError(AgentsException):
    """An error that no document knows."""

    code = "unexplained"


LONG = "def planted():\n" + "    print()\n" * 61

PLANTS = [
    plant(
        dependencies.test_everything_that_is_imported_is_declared,
        FILES=lambda _: [Path(__file__)],
        undeclared=lambda real: lambda path, code: real(
            dependencies.ROOT / "outlast/loop/planted.py" if path == Path(__file__) else path, code
        ),
    ),
    plant(
        dependencies.test_every_dependency_has_a_floor_and_every_core_one_a_ceiling,
        DECLARED=plus("httpx"),
    ),
    plant(
        dependencies.test_every_dependency_has_a_floor_and_every_core_one_a_ceiling,
        DECLARED=lambda known: {**known, dependencies.EVERYBODY: ["httpx>=1"]},
    ),
    plant(
        documents.test_the_state_diagram_is_what_the_loop_does,
        page_of_the_state_diagram=lambda _: lambda: "A page of another loop.",
    ),
    plant(documents.test_every_error_and_its_code_are_explained, ERRORS=plus(UnexplainedError)),
    plant(
        documents.test_every_error_is_in_the_tree_that_its_module_draws,
        ERRORS=plus(UnexplainedError),
    ),
    plant(
        documents.test_the_documents_know_no_error_that_is_gone, ERRORS=lambda known: known[1:]
    ),
    *(
        plant(documents.test_the_bounds_in_the_documents_are_the_defaults, BOUNDS=text(part, "7"))
        for part in ("| model call |", "looking the agent up |", "events", "silent", "Retry-After")
    ),
    plant(
        documents.test_the_names_in_the_table_of_words_are_in_the_package,
        WORDS=text("`Hold`", "`Takeover`"),
    ),
    plant(
        documents.test_every_failure_on_the_wire_has_an_exception_or_is_ours,
        failures=lambda real: SimpleNamespace(**vars(real), PLANTED="planted"),
    ),
    plant(
        documents.test_the_deployment_makes_the_search_attributes_that_runs_set,
        ROOT=file("docker/namespace.sh", "OutlastRisk:Keyword"),
    ),
    plant(
        documents.test_the_deployment_runs_that_script,
        ROOT=file("docker-compose.yml", "namespace.sh", "other.sh"),
    ),
    plant(
        documents.test_the_settings_of_the_server_are_published_on_the_loopback_address_only,
        ROOT=file("docker-compose.yml", "127.0.0.1:7233:", "0.0.0.0:7233:"),
    ),
    plant(
        documents.test_the_image_is_built_once_and_has_no_server_for_development,
        ROOT=file("Dockerfile", "cli,encrypt", "cli,dev,encrypt"),
    ),
    plant(
        documents.test_every_test_that_a_design_note_names_is_where_it_says,
        ROOT=file("docs/design/0014-people.md", "test_an_approved_call_runs", "test_a_call_runs"),
    ),
    *(
        plant(
            documents.test_every_promise_names_tests_that_are_there_and_commands_that_run_them,
            PROMISES=text(was, planted),
        )
        for was, planted in (
            ("tests/attacks", "tests/defences"),
            ("`make crash`", "`make crashes`"),
            ("-k side_effect", "-k no_such_test"),
            ("-m replayed", "-m repeated"),
            ("`.venv/bin/pytest -q tests/replay`", "tests/replay"),
        )
    ),
    plant(feature_table.test_the_table_names_all_there_is, THERE_IS=plus("planted_name")),
    plant(
        feature_table.test_every_row_says_how_it_is_here_and_why_where_it_is_not_the_same,
        TABLE=lambda table: f"{table}\n| `planted` | maybe | |\n",
    ),
    plant(
        feature_table.test_nothing_is_said_not_to_be_offered_that_has_a_public_name,
        TABLE=lambda table: f"{table}\n| `Agent` | not offered | planted |\n",
    ),
    plant(
        feature_table.test_a_link_of_a_document_leads_somewhere,
        ROOT=file("README.md", "](", "](nowhere.md) ["),
    ),
    plant(house_rules.test_a_function_fits_on_a_screen, **module("loop/planted.py", LONG)),
    plant(house_rules.test_every_module_says_what_it_is_for, **module("planted.py", "")),
    plant(house_rules.test_no_module_is_named_after_nothing, **module("agents/utils.py", "")),
    plant(
        house_rules.test_there_is_one_loop,
        **module("client/planted.py", "def advance(state, event): ...", *MACHINES),
    ),
    plant(
        house_rules.test_only_the_loop_makes_new_states_of_a_run,
        **module("client/planted.py", "LoopState(phase='idle')", *house_rules.SEEN_ONLY),
    ),
    plant(
        house_rules.test_the_loop_imports_nothing_but_itself_and_plain_data_modules,
        **module("loop/planted.py", "import decimal"),
    ),
    plant(
        images.test_every_file_that_the_image_copies_is_in_its_context,
        Path("image"),
        patterns_of=lambda real: lambda folder: [*real(folder), "hatch_build.py"],
    ),
    plant(
        statuses.test_lists_have_the_statuses_of_runs_and_of_calls_by_voice,
        EVERY=lambda known: known | {"planted"},
    ),
    plant(
        statuses.test_a_table_has_every_status,
        TABLES=lambda known: {**known, "planted": ((), {"planted"})},
    ),
    plant(
        printing.test_nothing_in_the_command_line_prints_by_itself,
        **module("cli/planted.py", "print('a')"),
    ),
    plant(
        printing.test_the_boundary_prints,
        tree_of=lambda _: lambda _: ast.parse("pass"),
    ),
    plant(
        printing.test_only_the_rendering_says_that_a_text_is_visible,
        **module("cli/planted.py", "Shown('a')", "edges/rendering.py"),
    ),
    plant(
        printing.test_the_boundary_hands_rich_only_texts_that_it_has_made_visible,
        tree_of=lambda _: lambda _: ast.parse("Text(visible(text)); Text(text)"),
    ),
    plant(
        public_names.test_the_public_names_are_those_of_the_stub_and_each_is_there_once,
        PUBLIC=plus("planted"),
    ),
    plant(
        public_names.test_a_public_name_is_the_one_of_its_home,
        HOMES=lambda homes: {**homes, "Agent": homes["Runner"]},
    ),
    plant(
        public_names.test_a_name_that_is_not_public_is_an_ordinary_attribute_error,
        outlast=lambda _: SimpleNamespace(Agnet=None),
    ),
    plant(
        public_names.test_importing_the_package_loads_nothing_large, **loads("pydantic")
    ),
    plant(
        public_names.test_defining_an_agent_loads_no_engine_and_no_provider,
        **loads("outlast.client.handle"),
    ),
    plant(
        public_names.test_the_client_knows_neither_workflows_nor_activities,
        **loads("outlast.worker"),
    ),
    plant(public_names.test_the_loop_loads_alone, **loads("outlast.agents")),
    plant(
        public_names.test_the_package_and_its_metadata_say_the_same_version,
        ROOT=file("pyproject.toml", f'version = "{outlast.__version__}"', 'version = "9.9.9"'),
    ),
    plant(
        public_names.test_completion_explains_every_public_name_and_method,
outlast=lambda real: SimpleNamespace(**{**{name: getattr(real, name) for name in public_names.PUBLIC}, "Agent": type("Agent", (), {"__module__": "outlast.planted"})}),
    ),
    plant(
        public_names.test_a_public_name_is_explained_by_a_plain_sentence,
        first_line=lambda real: lambda home: real(home).replace("agent", "agent: what it is. A"),
    ),
    plant(
        public_names.test_examples_new_projects_and_guides_import_public_names_only,
        PROGRAMS=lambda known: [*known, public_names.PACKAGE / "worker" / "__init__.py"],
        ROOMS=lambda known: [one for one in known if one != "worker"],
    ),
    plant(
        public_names.test_examples_new_projects_and_guides_import_public_names_only,
        TEMPLATES=lambda known: [],
    ),
    plant(
        public_names.test_a_package_is_listed_as_public_or_says_that_it_is_internal,
        ROOMS=lambda known: [one for one in known if one != "worker"],
    ),
    plant(
        public_names.test_a_package_is_listed_as_public_or_says_that_it_is_internal,
        ROOMS=plus("loop"),
    ),
    plant(
        public_names.test_a_public_module_is_there_and_does_not_call_itself_internal,
        ROOMS=plus("loop"),
    ),
    plant(
        public_names.test_the_api_reference_documents_public_modules_only,
        ROOMS=lambda known: [one for one in known if one != "testing"],
    ),
    plant(
        reference.test_the_api_reference_has_every_public_name_once,
        names_of=lambda real: lambda package: [*real(package), "planted"],
    ),
    plant(
        reference.test_the_reference_has_every_command_with_its_options,
        COMMANDS=text("`--keep-open`", "`--keep-closed`"),
    ),
    plant(
        reference.test_each_page_of_the_api_begins_with_an_example_and_guides,
        API_PAGES=plus(ROOT / "docs/index.md"),
    ),
    plant(
        reference.test_the_main_names_are_in_an_example_of_the_api_reference,
        MAIN=lambda known: {*known, "planted"},
    ),
    plant(reference.test_the_reference_has_every_exit_code, MEANINGS=lambda known: {**known, 99: "planted"}),
    plant(
        reference.test_the_reference_has_every_environment_variable_of_the_package,
        REFERENCE=file("environment.md", "`OPENAI_API_KEY`"),
    ),
    plant(
        repeated_waits.test_no_state_is_waited_for_twice,
        repeated_in=lambda real: lambda source: [*real(source), *real(
            "async def test():\n"
            " await desk.until(run, waits_for(1))\n"
            " await nested.approve('a1')\n"
            " await desk.until(run, waits_for(1))\n"
        )],
    ),
    plant(
        state_comparisons.test_two_states_of_a_run_are_compared_in_one_place,
        **module(
            "client/planted.py",
            "def news(before: LoopState, after: LoopState):\n"
            "    return after.answers[len(before.answers):]\n",
        ),
    ),
    plant(
        state_comparisons.test_every_exception_is_one,
        COMPARERS=lambda known: {**known, "client/handle.py": "planted"},
        modules=lambda _: lambda: [*state_comparisons.COMPARERS, "client/handle.py"],
    ),
    plant(
        public_names.test_every_public_name_has_one_tier,
        public_names=lambda real: SimpleNamespace(without_a_tier=real.without_a_tier, tiers=dict),
    ),
    plant(
        public_names.test_views_and_live_add_at_most_forty_names_which_are_provisional,
        public_names=lambda _: SimpleNamespace(
            tiers=lambda: {
                name: {"provisional": ["one"] * 21}
                for name in ("outlast.views", "outlast.client.live")
            }
        ),
    ),
    plant(
        surfaces.test_no_public_name_leads_to_the_loops_own_record_of_a_run,
        public_places=lambda _: lambda: {"planted": ("views/trouble.py", "needs_worker")},
    ),
    plant(
        surfaces.test_a_decision_names_what_its_person_was_shown_whatever_they_decide_with,
        **module("client/planted.py", "Decision(request_id='a1')", *surfaces.DECIDERS),
    ),
]  # fmt: skip

TRIED_OTHERWISE = {
    dependencies: ["test_the_check_finds_what_is_missing"],
    documents: ["test_a_change_that_the_guide_shows_still_applies"],  # in tests/guide
    house_rules: [
        "test_a_placeholder_does_not_count_as_a_docstring",
        "test_each_way_to_make_a_state_is_found",
    ],
    images: [
        "test_there_is_no_image_that_these_tests_do_not_know",
        "test_patterns_are_read_as_docker_reads_them",
        # What they compare with is the whole list of files, which is not empty.
        "test_the_image_of_a_new_project_gets_what_its_worker_reads",
        "test_the_wheel_is_built_from_what_the_image_copies",
        "test_the_wheel_of_a_new_project_is_too",
    ],
    printing: [
        "test_printing_is_found_however_it_is_spelled",
        "test_the_boundarys_own_means_are_allowed",
    ],
    public_names: [
        "test_people_find_the_public_names_before_they_are_loaded",
        "test_the_rooms_that_users_enter_have_their_names",
        "test_other_first_lines_are_found",
        "test_a_private_import_is_found",
        "test_a_private_name_in_the_reference_is_found",
        "test_a_missing_sign_is_found",
        "test_a_name_without_a_docstring_is_found",
        "test_names_without_a_tier_or_with_two_or_with_none_of_ours_are_found",
    ],
    reference: ["test_a_page_without_an_introduction_is_found"],
    repeated_waits: ["test_a_wait_for_nothing_is_found"],
    state_comparisons: [
        "test_each_way_to_compare_states_is_found",
        "test_what_compares_no_states_is_not_found",
    ],
    surfaces: [
        "test_a_road_to_it_is_found",
        "test_the_search_reads_the_names_that_programs_use",
    ],
    user_types: ["test_programs_with_types_pass_strictly_and_mistakes_do_not"],
}
"""Tests that try a check themselves, or that compare with a list which is written out."""


@pytest.mark.parametrize(
    "planted",
    [pytest.param(one, id=f"{at}-{one.guard.__name__[5:]}") for at, one in enumerate(PLANTS)],
)
def test_a_guard_finds_what_is_planted(
    planted: Plant, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PLANTED_ROOT", str(tmp_path))
    home = next(one for one in MODULES if one.__name__ == planted.guard.__module__)
    for name, edit in planted.edits.items():
        if hasattr(home, name):
            monkeypatch.setattr(home, name, edit(getattr(home, name)))
    arguments = [tmp_path / one for one in planted.arguments]
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        planted.guard(*arguments)


@pytest.mark.parametrize(
    "planted",
    [pytest.param(one, id=one.guard.__name__[5:]) for one in PLANTS if "modules" in one.edits],
)
def test_it_is_what_is_planted_that_the_guard_finds(
    planted: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard passes with the other modules alone."""
    home = next(one for one in MODULES if one.__name__ == planted.guard.__module__)
    shown = planted.edits["modules"](modules)()
    monkeypatch.setattr(home, "modules", lambda: [one for one in shown if one in modules()])
    planted.guard()


def test_every_guard_is_tried() -> None:
    tried = {one.guard.__name__ for one in PLANTS} | {
        name for names in TRIED_OTHERWISE.values() for name in names
    }
    there = {name for one in MODULES for name in vars(one) if name.startswith("test_")}
    assert tried == there
    own = Path(__file__).parent.glob("test_*.py")
    assert {Path(str(one.__file__)).name for one in MODULES} == {
        path.name for path in own if path != Path(__file__)
    }


def forbidden_imports() -> Iterator[tuple[str, str]]:
    """Yield for each contract a module of ours, and what it must not import."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for contract in project["tool"]["importlinter"]["contracts"]:
        match contract:
            case {"type": "layers", "containers": [room, *_], "layers": [upper, *_, lower]}:
                yield f"{room}.{lower.split(' | ')[0]}", f"{room}.{upper.split(' | ')[0]}"
            case {"type": "forbidden", "source_modules": [ours, *_], "forbidden_modules": rest}:
                yield ours, rest[0]
            case {"type": "protected", "protected_modules": [room, *_]}:
                yield "outlast.contract", room
            case {"type": "independence", "modules": [rooms]}:
                own = sorted((ROOT / rooms[:-2].replace(".", "/")).glob("[a-z]*.py"))
                yield f"{rooms[:-1]}{own[0].stem}", f"{rooms[:-1]}{own[1].stem}"
            case {"type": "acyclic_siblings"}:
                yield "outlast.loop", "outlast.contract"
            case _:
                pytest.fail(f"say how an import breaks this contract: {contract}")


def test_every_contract_finds_an_import_that_breaks_it(tmp_path: Path) -> None:
    """`make layers` checks that no import of ours does."""
    command = Path(sys.executable).with_name("lint-imports")
    if not command.exists():
        pytest.skip("import-linter is not installed: `make layers` installs and runs it")
    shutil.copytree(ROOT / "outlast", tmp_path / "outlast")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for ours, forbidden in forbidden_imports():
        place = tmp_path.joinpath(*ours.split("."))
        home = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        with home.open("a", encoding="utf-8") as source:
            source.write(f"\nimport {forbidden}\n")

    done = subprocess.run(
        [command, "--no-cache"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "Contracts: 0 kept, " in done.stdout, done.stdout
