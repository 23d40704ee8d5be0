"""The names under which callables and objects travel."""

import functools
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.guardrails.guardrail import (
    GuardrailFunctionOutput,
    InputGuardrail,
    input_guardrail,
)
from outlast.agents.references import (
    ReferenceTable,
    RunReferences,
    base_name,
    importable_name,
    is_registered,
    named_references,
    resolve,
)

HERE = __name__


def plain() -> None: ...


def shared() -> None: ...


class Desk:
    class Drawer: ...

    def open(self) -> None: ...

    @staticmethod
    def closed() -> None: ...

    @classmethod
    def opened(cls) -> None: ...


class Shop(Desk): ...


def maker() -> Callable[[], int]:
    def made() -> int:
        return 1

    return made


unnamed = lambda: 1  # noqa: E731


def check(ctx: RunContextWrapper[Any], agent: Any, text: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)


@input_guardrail
def polite(ctx: RunContextWrapper[Any], agent: Any, text: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)


def line_of(function: Callable[..., Any]) -> int:
    return function.__code__.co_firstlineno


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        (plain, "plain"),
        (Desk, "Desk"),
        (Desk(), "Desk"),
        (Desk().open, "Desk.open"),
        (Desk.closed, "Desk.closed"),
        (functools.partial(plain), "plain"),
        (functools.partial(functools.partial(Desk().open)), "Desk.open"),
        (maker(), f"maker.<locals>.made:{line_of(maker())}"),
        (unnamed, f"<lambda>:{line_of(unnamed)}"),
        (InputGuardrail(check), "check"),
        (InputGuardrail(check, name="other"), "check"),
    ],
)
def test_a_name_is_the_module_and_the_qualified_name(entry: object, name: str) -> None:
    assert base_name(entry) == f"{HERE}:{name}"


def test_what_has_no_module_of_its_own_has_a_name_too() -> None:
    assert base_name(len) == "builtins:len"
    assert base_name("".join) == "builtins:str.join"
    assert base_name({}) == "builtins:dict"


# --- The objects of one run -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        (plain, "plain"),
        (Desk, "Desk"),
        (Desk.Drawer, "Desk.Drawer"),
        (Desk.closed, "Desk.closed"),
        (Desk.opened, "Desk.opened"),
        (polite, "polite"),
    ],
)
def test_what_a_module_has_is_named_by_its_place_in_every_process(entry: Any, name: str) -> None:
    references = RunReferences()
    assert references.name(entry) == importable_name(entry) == f"{HERE}:{name}"
    assert references[f"{HERE}:{name}"] == entry
    assert resolve(f"{HERE}:{name}") == entry, "for the runs that another process started"


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        (Desk(), "Desk"),
        (Desk().open, "Desk.open"),
        (Shop.opened, "Desk.opened"),
        (functools.partial(plain), "plain"),
        (functools.partial(Desk.opened), "Desk.opened"),
        (maker(), f"maker.<locals>.made:{line_of(maker())}"),
        (unnamed, f"<lambda>:{line_of(unnamed)}"),
        (InputGuardrail(check), "check"),
    ],
)
def test_everything_else_belongs_to_the_run_that_it_was_passed_to(entry: Any, name: str) -> None:
    references = RunReferences()
    assert references.name(entry) == f"run:{HERE}:{name}"
    assert references[f"run:{HERE}:{name}"] is entry
    assert importable_name(entry) is None
    assert not is_registered(f"run:{HERE}:{name}")
    with pytest.raises(UserError, match="process does not have it") as caught:
        resolve(f"run:{HERE}:{name}")
    assert f"an object that its program passed, '{HERE}:{name}'" in str(caught.value)


def test_what_has_no_module_belongs_to_the_run() -> None:
    assert RunReferences().name({}) == "run:builtins:dict"
    assert RunReferences().name(len) == "builtins:len"
    assert RunReferences().name("".join) == "run:builtins:str.join"


def test_two_runs_have_one_name_for_two_objects() -> None:
    mine, theirs = RunReferences(), RunReferences()
    first, second = Desk(), Desk()
    assert mine.name(first) == theirs.name(second) == f"run:{HERE}:Desk"
    assert mine[f"run:{HERE}:Desk"] is first
    assert theirs[f"run:{HERE}:Desk"] is second
    assert "run:other" not in mine


def test_within_a_run_an_object_has_one_name_and_another_of_its_name_a_number() -> None:
    references = RunReferences()
    first, second, third = maker(), maker(), maker()
    base = f"run:{base_name(first)}"
    assert [references.name(one) for one in (first, second, third, second, first)] == [
        base,
        f"{base}#2",
        f"{base}#3",
        f"{base}#2",
        base,
    ]
    assert list(references.objects.items()) == [
        (base, first),
        (f"{base}#2", second),
        (f"{base}#3", third),
    ]


def test_a_bound_method_is_the_same_thing_at_each_look() -> None:
    references, desk, other = RunReferences(), Desk(), Desk()
    assert desk.open is not desk.open
    assert references.name(desk.open) == references.name(desk.open) == f"run:{HERE}:Desk.open"
    assert references.name(other.open) == f"run:{HERE}:Desk.open#2"
    assert references.name(Desk.opened) == references.name(Desk.opened) == f"{HERE}:Desk.opened"


def test_a_place_tells_the_definitions_that_name_objects_apart() -> None:
    references, one, other = RunReferences(), Desk(), Desk()
    assert references.name(one, place="A/ask/") == f"run:A/ask/{HERE}:Desk"
    assert references.name(other, place="B/ask/") == f"run:B/ask/{HERE}:Desk"
    assert references.name(plain, place="A/ask/") == f"{HERE}:plain"


def test_a_run_says_which_of_its_names_mean_nothing_elsewhere() -> None:
    references = RunReferences()
    for entry in (plain, Desk(), Desk(), Desk.opened):
        references.name(entry)
    assert references.own_names == [f"{HERE}:Desk", f"{HERE}:Desk#2"]


def test_a_run_keeps_its_objects_alive_so_that_no_name_is_given_twice() -> None:
    references = RunReferences()
    assert len({references.name(maker()) for _ in range(50)}) == 50


def test_another_start_of_a_run_replaces_the_objects_of_its_names() -> None:
    references, newer = RunReferences(), RunReferences()
    first, kept, second = Desk(), maker(), Desk()
    name, other = references.name(first), references.name(kept)
    assert newer.name(second) == name
    references.update(newer)
    assert references[name] is second
    assert references[other] is kept


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module whose functions are defined again, as cells of a notebook are."""
    module = ModuleType("notebook_of_the_tests")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def define(module: ModuleType, source: str = "def trim(data): return data") -> Any:
    exec(source, vars(module))
    return vars(module)["trim"]


def test_a_function_that_its_module_defines_again_is_two_functions(notebook: ModuleType) -> None:
    name = f"{notebook.__name__}:trim"
    before, after = RunReferences(), RunReferences()
    first = define(notebook)
    assert before.name(first) == name
    assert resolve(name) is first
    second = define(notebook)
    assert after.name(second) == name
    assert before[name] is first, "a run that has begun keeps the function that it was given"
    assert after[name] is second
    assert not is_registered(name), "for another run, it could be either"
    with pytest.raises(UserError, match=f"no object named '{name}'"):
        resolve(name)
    assert RunReferences().name(second) == name
    assert not is_registered(name)
    assert RunReferences().name(first) == f"run:{name}", "the module has another one now"


def test_threads_that_pass_a_function_at_once_share_it() -> None:
    names: list[str] = []
    gate = threading.Barrier(8)

    def enter() -> None:
        gate.wait()
        names.extend(RunReferences().name(one) for one in (shared, maker()) * 100)

    threads = [threading.Thread(target=enter) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names) == 1600
    assert resolve(f"{HERE}:shared") is shared


# --- Names that somebody has chosen -----------------------------------------------------------------------


def test_a_chosen_name_stands_for_one_thing() -> None:
    table = ReferenceTable()
    table.register_as("trimmer", plain)
    table.register_as("trimmer", plain)
    with pytest.raises(UserError, match=r"The name 'trimmer' belongs to two objects: .*plain"):
        table.register_as("trimmer", maker())
    assert table.get("trimmer") is plain
    assert "trimmer" in table
    assert "other" not in table
    assert table.get("other", 5) == 5


def test_a_name_that_is_discarded_is_free() -> None:
    table = ReferenceTable()
    table.register_as("trimmer", plain)
    table.discard("trimmer")
    table.discard("trimmer")
    assert "trimmer" not in table
    table.register_as("trimmer", check)
    assert table.get("trimmer") is check


@pytest.mark.parametrize("name", ["", "  ", None, 5])
def test_a_chosen_name_has_to_be_one(name: Any) -> None:
    with pytest.raises(UserError, match=r"must be a (non-empty )?string"):
        ReferenceTable().register_as(name, plain)


def test_a_chosen_name_does_not_look_like_that_of_an_object_of_one_run() -> None:
    with pytest.raises(UserError, match=r"'run:trimmer' begins like .* Choose another"):
        ReferenceTable().register_as("run:trimmer", plain)


def test_an_unknown_name_is_an_error_that_says_where_to_register_it() -> None:
    assert not is_registered("app:trim")
    with pytest.raises(
        UserError, match=r"has no object named 'app:trim', .*references=\[my_callable"
    ):
        resolve("app:trim")


def test_references_are_a_list_or_a_dict_by_name() -> None:
    assert named_references([plain, Desk]) == [(f"{HERE}:plain", plain), (f"{HERE}:Desk", Desk)]
    assert named_references({"a": plain, "b": plain}) == [("a", plain), ("b", plain)]
    assert named_references([plain, plain]) == [(f"{HERE}:plain", plain)] * 2


@pytest.mark.parametrize(
    ("references", "problem"),
    [
        ("plain", "references= must be a list of callables and objects, or a dict .* not 'plain'"),
        (plain, "references= must be a list"),
        (["app:plain"], "holds 'app:plain': pass the callable or object itself"),
        ({"a": None}, "holds None"),
        ([maker()], r"references= lists <function maker.*Name it yourself"),
        ([object()], "no name that another process knows"),
    ],
)
def test_references_that_could_not_be_found_again_are_refused(
    references: Any, problem: str
) -> None:
    with pytest.raises(UserError, match=problem):
        named_references(references)
