"""The run's context between JSON and the application's type."""

import functools
import re
import threading
import typing
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from outlast.agents.context.codec import (
    LARGEST_BYTES,
    BorrowedContext,
    ProgramContext,
    context_type_of,
    read_context,
    write_context,
    write_parts,
)
from outlast.agents.context.wrapper import RunContextWrapper, ToolContext
from outlast.agents.errors import UserError
from outlast.loop.changes import Change, apply


@dataclass
class Customer:
    name: str = "nobody"
    notes: list[str] = field(default_factory=list[str])


class Basket(BaseModel):
    owner: str
    due: date | None = None


class Standard(typing.TypedDict):
    name: str


class Loose(TypedDict):
    n: int


class FullyOptional(BaseModel):
    n: int = 3


@dataclass
class Address:
    street: str = None  # pyright: ignore[reportAssignmentType]  as programs have it


@dataclass
class Sloppy:
    name: str
    note: str = None  # pyright: ignore[reportAssignmentType]
    log: list[str] = None  # pyright: ignore[reportAssignmentType]
    home: Address | None = None


class SloppyModel(BaseModel):
    note: str = None  # pyright: ignore[reportAssignmentType]


def wrapped(context: Any) -> RunContextWrapper[Any]:
    return RunContextWrapper(context=context)


# --- Reading and writing --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "context", [Sloppy("Ann"), Sloppy("Ann", note="n", home=Address()), SloppyModel(), Address()]
)
def test_a_default_of_none_need_not_be_in_the_fields_annotation(context: Any):
    assert read_context(write_context(context), type(context), is_own=True) == context


@pytest.mark.parametrize("value", [{"name": None}, {"name": "Ann", "note": 3, "log": None}])
def test_a_none_that_is_no_default_does_not_fit(value: Any):
    with pytest.raises(UserError, match=r"does not fit Sloppy: (name|note): "):
        read_context(value, Sloppy)


@pytest.mark.parametrize(
    ("context", "kind", "written"),
    [
        (Customer("Ann", ["a"]), Customer, {"name": "Ann", "notes": ["a"]}),
        (
            Basket(owner="Ann", due=date(2026, 1, 2)),
            Basket,
            {"owner": "Ann", "due": "2026-01-02"},
        ),
        ({"n": 1}, Loose, {"n": 1}),
        ({"n": [1, None]}, dict[str, Any], {"n": [1, None]}),
        ([1, "a"], None, [1, "a"]),
        ("text", None, "text"),
        (False, None, False),
        (None, None, None),
    ],
)
def test_a_context_comes_back_as_it_was(context: Any, kind: Any, written: Any) -> None:
    assert write_context(context) == written
    assert read_context(written, kind) == context


def test_a_callable_gets_its_own_copy() -> None:
    value = {"list": [1]}
    read_context(value, None)["list"].append(2)
    read_context(value, dict[str, Any])["list"].append(2)
    assert value == {"list": [1]}


@pytest.mark.parametrize(
    ("value", "kind", "problem"),
    [
        ({"due": "2026-01-02"}, Basket, "does not fit Basket: owner is missing"),
        ({"owner": 5}, Basket, "owner: Input should be"),
        ("text", Customer, "does not fit Customer: the whole value: Input should be"),
        ({"n": "x"}, dict[str, int], r"does not fit dict\[str, int\]: n: "),
    ],
)
def test_a_context_of_another_type_is_an_error_that_says_where(
    value: Any, kind: Any, problem: str
) -> None:
    with pytest.raises(UserError, match=problem):
        read_context(value, kind)


@pytest.mark.parametrize(
    ("kind", "empty"),
    [
        (Customer, Customer()),
        (FullyOptional, FullyOptional()),
        (dict, {}),
        (dict[str, Any], {}),
        (list[int], []),
        (Basket, None),
        (Basket | None, None),
        (None, None),
        (Loose, {}),
    ],
)
def test_a_run_without_a_context_gives_an_empty_one_where_that_works(kind: Any, empty: Any) -> None:
    assert read_context(None, kind) == empty


@pytest.mark.parametrize("context", [object(), threading.Lock()])
def test_a_context_that_is_not_data_is_live_as_a_whole(context: Any) -> None:
    value, live = write_parts(context)
    assert value == {"$live": type(context).__name__}
    assert read_context(value, None, live) is context
    with pytest.raises(UserError, match=r"The context, an? \w+, is not data.*context=make_context"):
        read_context(value, None)


@pytest.mark.parametrize(
    ("context", "words"),
    [
        (open, "not the function open. Pass what it returns."),
        (lambda: 1, "not the function <lambda>. Pass what it returns."),
        (Basket, "not the class Basket. Pass what it returns."),
        (threading, "not the module threading."),
    ],
)
def test_a_function_a_class_or_a_module_is_no_context(context: Any, words: str) -> None:
    with pytest.raises(UserError, match=re.escape(words)):
        write_context(context)


def test_half_a_character_is_refused_in_words() -> None:
    with pytest.raises(UserError, match="cannot be written as JSON"):
        write_context({"text": "\ud800"})


def test_a_context_has_an_upper_bound() -> None:
    assert write_context("x" * (LARGEST_BYTES - 2))
    with pytest.raises(UserError, match=r"500,001 bytes .* limit is 500,000.* database"):
        write_context("x" * (LARGEST_BYTES - 1))


class Opaque:
    """Nothing that pydantic could read or write, and without attributes of its own."""

    __slots__ = ()


def test_a_type_that_is_no_data_is_refused_in_words() -> None:
    with pytest.raises(UserError, match="The type Opaque cannot be read from JSON"):
        read_context({"a": 1}, Opaque)


# --- Borrowing -------------------------------------------------------------------------------------


def test_a_typed_dict_of_the_standard_library_is_a_context() -> None:
    context = read_context({"name": "Ann"}, Standard)
    assert context == {"name": "Ann"}


def test_what_a_callable_changes_is_found() -> None:
    borrowed = BorrowedContext({"name": "Ann", "notes": ["a"]}, Customer)
    wrapper = wrapped(borrowed.context)
    wrapper.context.name = "Bob"
    wrapper.context.notes.append("b")
    assert borrowed.changes(wrapper) == (
        Change("set", ("name",), "Bob", "Ann"),
        Change("append", ("notes",), ["b"]),
    )


def test_a_callable_that_only_reads_changes_nothing() -> None:
    """Also not by what its type adds or leaves out."""
    values: list[Any] = [{"name": "Ann"}, {"name": "Ann", "notes": [], "more": 1}, None]
    for value in values:
        borrowed = BorrowedContext(value, Customer)
        assert borrowed.changes(wrapped(borrowed.context)) == ()


def test_a_context_may_be_put_in_the_place_of_another() -> None:
    borrowed = BorrowedContext({"name": "Ann", "notes": []}, Customer)
    changes = borrowed.changes(wrapped(Customer("Bob")))
    assert apply({"name": "Ann", "notes": []}, changes) == {"name": "Bob", "notes": []}


def test_the_first_change_of_a_run_without_a_context_brings_the_whole_of_it() -> None:
    borrowed = BorrowedContext(None, Customer)
    borrowed.context.notes.append("a")
    changes = borrowed.changes(wrapped(borrowed.context))
    assert apply(None, changes) == {"name": "nobody", "notes": ["a"]}


def test_a_sibling_that_only_reads_does_not_undo_the_first_change_of_a_run() -> None:
    writer, reader = BorrowedContext(None, Customer), BorrowedContext(None, Customer)
    writer.context.name = "Ann"
    context = apply(None, writer.changes(wrapped(writer.context)))
    context = apply(context, reader.changes(wrapped(reader.context)))
    assert context == {"name": "Ann", "notes": []}


def test_what_was_left_in_a_context_has_to_be_data() -> None:
    borrowed = BorrowedContext({"a": 1}, None)
    borrowed.context["half"] = "\ud800"
    with pytest.raises(UserError, match="cannot be written as JSON"):
        borrowed.changes(wrapped(borrowed.context))


# --- Annotations ------------------------------------------------------------------------------------


def of_customer(ctx: RunContextWrapper[Customer], agent: Any) -> str:
    return ""


def of_tool(ctx: ToolContext[Customer]) -> str:
    return ""


def of_anything(ctx: RunContextWrapper[Any]) -> str:
    return ""


def of_nothing_said(ctx: RunContextWrapper) -> str:
    return ""


def no_parameters() -> str:
    return ""


def of_something_else(ctx: Customer) -> str:
    return ""


def of_a_later_name(ctx: "RunContextWrapper[Later]") -> str:
    return ""


class Greeter:
    def __call__(self, ctx: RunContextWrapper[Customer], agent: Any) -> str:
        return ""

    def method(self, ctx: RunContextWrapper[Customer], agent: Any) -> str:
        return ""


def with_more(word: str, ctx: RunContextWrapper[Customer]) -> str:
    return ""


if TYPE_CHECKING:

    class Later:
        """A type that is not there when the program runs."""


CASES: list[tuple[Any, Any]] = [
    (of_customer, Customer),
    (of_tool, Customer),
    (Greeter(), Customer),
    (Greeter().method, Customer),
    (functools.partial(with_more, "hi"), Customer),
    (of_anything, None),
    (of_nothing_said, None),
    (print, None),
    (no_parameters, None),
    (of_something_else, None),
    (of_a_later_name, None),
    (len, None),
]


@pytest.mark.parametrize(("function", "kind"), CASES)
def test_the_type_that_a_callable_expects_is_read_from_its_annotation(
    function: Any, kind: Any
) -> None:
    assert context_type_of(function) is kind
    assert context_type_of(function) is kind  # also from the cache


def test_a_type_that_is_defined_later_is_found_then() -> None:
    place: dict[str, Any] = {"RunContextWrapper": RunContextWrapper}
    exec("def greet(ctx: 'RunContextWrapper[Later]'): ...", place)
    assert context_type_of(place["greet"]) is None
    place["Later"] = Customer
    assert context_type_of(place["greet"]) is Customer


class Plain:
    def __init__(self, name: str) -> None:
        self.name = name
        self.notes: list[str] = []


class Guarded(BaseModel):
    n: int = 0
    secret: str = Field(default="none", exclude=True)


@dataclass(slots=True)
class Slotted:
    n: int = 0


@dataclass(frozen=True)
class Frozen:
    n: int = 0


def test_an_object_of_a_plain_class_is_a_context() -> None:
    written = write_context(Plain("Ann"))
    assert written == {"name": "Ann", "notes": []}
    read = read_context(written, Plain)
    assert (type(read), read.name) == (Plain, "Ann")


@pytest.mark.parametrize(
    ("owner", "after", "attribute", "expected"),
    [
        (Customer("Ann"), {"name": "Ann", "notes": ["a"]}, "notes", ["a"]),
        (Plain("Ann"), {"name": "Bob", "notes": []}, "name", "Bob"),
        (Basket(owner="Ann"), {"owner": "Ann", "due": "2026-01-02"}, "due", date(2026, 1, 2)),
        (Slotted(), {"n": 2}, "n", 2),
        (Frozen(), {"n": 2}, "n", 0),
    ],
)
def test_the_programs_own_object_is_told_what_the_run_made_of_it(
    owner: Any, after: Any, attribute: str, expected: object
) -> None:
    ProgramContext(owner).update(after)
    assert getattr(owner, attribute) == expected


@pytest.mark.parametrize(
    ("owner", "after", "expected"),
    [
        ({"a": 1}, {"b": 2}, {"b": 2}),
        ([1], [2, 3], [2, 3]),
        ({"a": 1}, [1], {"a": 1}),
        ("text", "other", "text"),
    ],
)
def test_plain_json_is_told_in_place_too(owner: Any, after: Any, expected: object) -> None:
    lent = ProgramContext(owner)
    lent.update(after)
    assert lent.owner is owner
    assert owner == expected


def test_only_what_the_run_changed_is_touched() -> None:
    owner = Customer("Ann")
    lent, other = ProgramContext(owner), ProgramContext(owner)
    lent.update({"name": "Bob", "notes": []})
    other.update({"name": "Ann", "notes": ["from another run"]})
    assert owner == Customer("Bob", ["from another run"])


def test_what_does_not_travel_stays() -> None:
    owner = Guarded(secret="mine")
    ProgramContext(owner).update({"n": 1})
    assert (owner.n, owner.secret) == (1, "mine")


def test_a_run_that_has_not_begun_or_left_something_else_changes_nothing() -> None:
    owner = Customer("Ann", ["a"])
    lent = ProgramContext(owner)
    lent.update(None)
    lent.update("something else")
    assert owner == Customer("Ann", ["a"])


def test_what_was_told_is_what_the_next_is_compared_with() -> None:
    owner = Customer("Ann")
    lent = ProgramContext(owner)
    lent.update({"name": "Bob", "notes": []})
    owner.name = "Carl"
    lent.update({"name": "Bob", "notes": []})
    assert owner.name == "Carl"


def test_what_does_not_travel_is_left_alone_when_a_context_comes_back() -> None:
    class Desk(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)

        n: int = 0
        lock: Any = Field(default_factory=threading.Lock, exclude=True)

    owner = Desk()
    lock = owner.lock
    lent = ProgramContext(owner)
    lent.update({"n": 2})
    assert (owner.n, owner.lock is lock) == (2, True)
