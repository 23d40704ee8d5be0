"""The names under which callables and objects travel."""

import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from outlast.agents import references
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.guardrails.guardrail import GuardrailFunctionOutput, InputGuardrail
from outlast.agents.references import (
    ReferenceTable,
    base_name,
    is_registered,
    named_references,
    register,
    resolve,
)

HERE = __name__


def plain() -> None: ...


class Desk:
    def open(self) -> None: ...

    @staticmethod
    def closed() -> None: ...


def maker() -> Callable[[], int]:
    def made() -> int:
        return 1

    return made


unnamed = lambda: 1  # noqa: E731


def check(ctx: RunContextWrapper[Any], agent: Any, text: Any) -> GuardrailFunctionOutput:
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


def test_the_same_thing_has_the_same_name_and_another_a_number() -> None:
    table = ReferenceTable()
    first, second, third = maker(), maker(), maker()
    base = base_name(first)
    assert [table.register(one) for one in (first, second, third, second, first)] == [
        base,
        f"{base}#2",
        f"{base}#3",
        f"{base}#2",
        base,
    ]
    assert [table.get(name) for name in table.names] == [first, second, third]


def test_a_bound_method_is_the_same_thing_at_each_look() -> None:
    table, desk, other = ReferenceTable(), Desk(), Desk()
    assert desk.open is not desk.open
    assert table.register(desk.open) == table.register(desk.open)
    assert table.register(other.open) == f"{HERE}:Desk.open#2"


def test_a_name_that_another_object_has_gets_a_number() -> None:
    table = ReferenceTable()
    table.register_as(f"{HERE}:plain", Desk())
    assert table.register(plain) == f"{HERE}:plain#2"


def test_a_chosen_name_is_the_one_that_a_thing_travels_under() -> None:
    table = ReferenceTable()
    table.register_as("trimmer", plain)
    assert table.register(plain) == "trimmer"
    assert table.get("trimmer") is plain
    assert "trimmer" in table
    assert "other" not in table


def test_a_chosen_name_stands_for_one_thing() -> None:
    table = ReferenceTable()
    table.register_as("trimmer", plain)
    table.register_as("trimmer", plain)
    with pytest.raises(UserError, match=r"The name 'trimmer' belongs to two objects: .*plain"):
        table.register_as("trimmer", maker())


@pytest.mark.parametrize("name", ["", "  ", None, 5])
def test_a_chosen_name_has_to_be_one(name: Any) -> None:
    with pytest.raises(UserError, match=r"must be a (non-empty )?string"):
        ReferenceTable().register_as(name, plain)


def test_a_table_keeps_what_it_holds_alive_so_that_no_name_is_given_twice() -> None:
    table = ReferenceTable()
    names = {table.register(maker()) for _ in range(50)}
    assert len(names) == 50


def test_threads_that_register_at_once_get_names_of_their_own() -> None:
    table = ReferenceTable()
    names: list[list[str]] = []
    gate = threading.Barrier(8)

    def enter() -> None:
        gate.wait()
        names.append([table.register(maker()) for _ in range(100)])

    threads = [threading.Thread(target=enter) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({name for some in names for name in some}) == 800
    assert len(table.names) == 800


def test_the_process_has_a_table() -> None:
    mine = maker()
    assert not is_registered(base_name(mine))
    name = register(mine)
    assert is_registered(name)
    assert resolve(name) is mine


def test_an_unknown_name_is_an_error_that_says_where_to_register_it() -> None:
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
        ([maker(), maker()], r"Two references are named '.*made:\d+'. Name them yourself"),
    ],
)
def test_references_that_could_not_be_found_again_are_refused(
    references: Any, problem: str
) -> None:
    with pytest.raises(UserError, match=problem):
        named_references(references)


def test_the_newest_object_of_a_session_is_the_session() -> None:
    class Kept:
        session_id = "customer-7"

    first, second = Kept(), Kept()
    name, kind = references.register_session(first)
    assert name == f"{kind}/customer-7"
    assert references.register_session(second) == (name, kind)
    assert references.resolve(name) is second
