"""Signatures: which parameter takes the context, and which are the model's to give."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import pytest
from typing_extensions import TypeAliasType

from outlast.agents.context.wrapper import RunContextWrapper, ToolContext
from outlast.agents.errors import UserError
from outlast.agents.schemas.function_signature import FunctionSignature, read_signature

if TYPE_CHECKING:
    from decimal import Decimal

T = TypeVar("T")


@dataclass
class Shop:
    """A context."""

    name: str = ""


ShopContext: TypeAlias = RunContextWrapper[Shop]


NamedContext = TypeAliasType("NamedContext", RunContextWrapper[Shop])


class NarrowContext(RunContextWrapper[Shop]):
    """Nothing that a tool is ever given."""


def read(function: Callable[..., Any]) -> FunctionSignature:
    return read_signature(function, owner="Tool 't'", frame=inspect.currentframe())


def wrapper_plain(ctx: RunContextWrapper, a: int) -> None: ...
def wrapper_any(ctx: RunContextWrapper[Any], a: int) -> None: ...
def wrapper_shop(ctx: RunContextWrapper[Shop], a: int) -> None: ...
def tool_context(context: ToolContext[Shop], a: int) -> None: ...
def alias(ctx: ShopContext, a: int) -> None: ...
def named_alias(ctx: NamedContext, a: int) -> None: ...
def annotated(ctx: Annotated[ToolContext[Shop], "the context"], a: int) -> None: ...
def data(ctx: RunContextWrapper[dict[str, Any]], a: int) -> None: ...
def unsolved(ctx: RunContextWrapper[T], a: int) -> None: ...
def keyword(*, ctx: ToolContext[Shop], a: int) -> None: ...
def positional(ctx: ToolContext[Shop], /, a: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "context_type"),
    [
        (wrapper_plain, None),
        (wrapper_any, None),
        (wrapper_shop, Shop),
        (tool_context, Shop),
        (alias, Shop),
        (named_alias, Shop),
        (annotated, Shop),
        (data, dict[str, Any]),
        (unsolved, None),
        (keyword, Shop),
        (positional, Shop),
    ],
)
def test_a_first_parameter_annotated_as_context_takes_it(
    function: Callable[..., Any], context_type: Any
) -> None:
    signature = read(function)

    assert signature.context is not None
    assert signature.context_type == context_type
    assert [parameter.name for parameter in signature.parameters] == ["a"]
    assert signature.parameters[0].annotation is int


def no_parameters() -> None: ...
def no_context(a: int, b: str = "x") -> None: ...
def only_named_context(context: Any, a: int) -> None: ...


del only_named_context.__annotations__["context"]


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (no_parameters, []),
        (no_context, ["a", "b"]),
        (only_named_context, ["context", "a"]),
    ],
)
def test_without_the_annotation_no_context_is_taken(
    function: Callable[..., Any], names: list[str]
) -> None:
    signature = read(function)

    assert signature.context is None
    assert signature.context_type is None
    assert [parameter.name for parameter in signature.parameters] == names


def second(a: int, where: RunContextWrapper[Shop]) -> None: ...
def named_only(a: int, *, where: ToolContext[Shop]) -> None: ...
def optional_second(a: int, where: ToolContext[Shop] | None = None) -> None: ...
def inside_a_list(a: int, where: list[RunContextWrapper[Any]]) -> None: ...
def two(ctx: ToolContext[Shop], where: ToolContext[Shop]) -> None: ...


@pytest.mark.parametrize("function", [second, named_only, optional_second, inside_a_list, two])
def test_a_context_anywhere_but_first_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(
        UserError, match=rf"^Tool 't': {function.__name__} takes the context in 'where'; .* first"
    ):
        read(function)


def optional_first(ctx: ToolContext[Shop] | None, a: int) -> None: ...
def narrowed(ctx: NarrowContext, a: int) -> None: ...


@pytest.mark.parametrize("function", [optional_first, narrowed])
def test_a_context_that_is_not_exactly_one_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(UserError, match="'ctx' must be annotated with RunContextWrapper or Tool"):
        read(function)


class Desk:
    """Something with methods."""

    def refund(self, ctx: ToolContext[Shop], a: int) -> None: ...

    @classmethod
    def of_class(cls, ctx: ToolContext[Shop], a: int) -> None: ...

    @staticmethod
    def static(ctx: ToolContext[Shop], a: int) -> None: ...

    def __call__(self, ctx: ToolContext[Shop], a: int) -> None: ...


def three(ctx: ToolContext[Shop], db: Desk, a: int) -> None: ...
def four(db: Desk, ctx: ToolContext[Shop], a: int, *, limit: int = 3) -> None: ...


@functools.wraps(tool_context)
def wrapped(*args: Any, **kwargs: Any) -> None: ...


@pytest.mark.parametrize(
    "function",
    [
        Desk().refund,
        Desk.of_class,
        Desk.static,
        Desk(),
        functools.partial(three, db=Desk()),
        functools.partial(four, Desk(), limit=7),
        functools.partial(functools.partial(four, Desk()), limit=7),
        wrapped,
    ],
)
def test_every_kind_of_callable_is_read_without_what_is_already_given(
    function: Callable[..., Any],
) -> None:
    signature = read(function)

    assert signature.context_type is Shop
    assert [parameter.name for parameter in signature.parameters] == ["a"]


def test_what_a_partial_fills_is_still_a_name_that_is_taken() -> None:
    assert read(functools.partial(three, db=Desk())).names == {"db", "ctx", "a"}


def test_a_method_without_its_object_is_refused() -> None:
    with pytest.raises(UserError, match=r"Desk\.refund is a method without its object"):
        read(Desk.refund)


def test_a_callable_without_a_signature_is_refused() -> None:
    with pytest.raises(UserError, match=r"the signature of max cannot be read: .* Wrap it"):
        read(max)


def test_annotations_may_name_what_is_local_to_the_definition() -> None:
    @dataclass
    class Local:
        x: int

    def function(ctx: RunContextWrapper[Local], a: Local, b: list[Local] | None = None) -> None: ...

    signature = read(function)

    assert signature.context_type is Local
    assert [p.annotation for p in signature.parameters] == [Local, list[Local] | None]


def test_annotations_may_name_what_is_local_to_an_outer_function() -> None:
    class Local:
        pass

    def define() -> FunctionSignature:
        def function(a: Local) -> None: ...

        return read_signature(function, owner="Tool 't'", frame=inspect.currentframe())

    assert define().parameters[0].annotation is Local


def for_type_checkers_only(a: int, price: Decimal) -> None: ...
def not_an_annotation(price: int) -> None: ...


not_an_annotation.__annotations__["price"] = "1 +"


@pytest.mark.parametrize(
    ("function", "why"),
    [(for_type_checkers_only, "name 'Decimal' is not defined"), (not_an_annotation, "")],
)
def test_an_annotation_that_cannot_be_resolved_is_named(
    function: Callable[..., Any], why: str
) -> None:
    with pytest.raises(
        UserError, match=rf"^Tool 't': the annotation of 'price' cannot be resolved: .*{why}"
    ):
        read(function)


def test_an_annotation_that_nobody_needs_may_stay_unresolved() -> None:
    def function(a: int) -> Decimal: ...

    assert read(function).parameters[0].annotation is int


def all_kinds(
    ctx: ToolContext[Any], a: int, /, b: int, *rest: int, c: int, **more: int
) -> None: ...


def test_values_become_a_call_that_fits_the_signature() -> None:
    signature = read(all_kinds)

    arguments = signature.arguments(
        "context", {"a": 1, "b": 2, "rest": [3, 4], "c": 5, "more": {"d": 6}}
    )

    assert arguments == (("context", 1, 2, 3, 4), {"c": 5, "d": 6})
    inspect.signature(all_kinds).bind(*arguments[0], **arguments[1])


def test_a_context_that_is_taken_by_name_is_given_by_name() -> None:
    assert read(keyword).arguments("context", {"a": 1}) == ((), {"ctx": "context", "a": 1})


def test_the_result_type_is_the_annotation_where_it_says_something() -> None:
    def shop(a: int) -> Shop: ...

    def anything(ctx: RunContextWrapper[Any], a: int) -> Any: ...

    def unknown() -> Decimal: ...

    def silent(ctx: ToolContext[Any]): ...

    assert read_signature(shop, owner="Tool 't'").result_type is Shop
    for function in (anything, unknown, silent):
        assert read_signature(function, owner="Tool 't'").result_type is None
