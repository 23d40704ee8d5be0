"""Contexts as JSON and back: each value comes back as it was, with the same type."""

import enum
import re
import typing
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, HttpUrl, PrivateAttr, SecretStr, field_validator

from outlast.agents.context import encoding
from outlast.agents.context.codec import (
    BorrowedContext,
    ProgramContext,
    read_context,
    write_context,
    write_parts,
)
from outlast.agents.context.encoding import decode, encode, register_context_type
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.loop.changes import apply
from outlast.loop.values import Json


class Colour(enum.Enum):
    RED = 1
    BLUE = (0, 0, 255)


class Size(enum.StrEnum):
    SMALL = "s"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    y: int = 0


class Token(str):
    __slots__ = ()


@dataclass
class Customer:
    name: str
    since: date | None = None
    tags: set[str] = field(default_factory=set[str])
    size: Size = Size.SMALL


@dataclass
class Vip(Customer):
    level: int = 1


class Money(BaseModel):
    amount: Decimal
    currency: str = "EUR"
    _seen: list[str] = PrivateAttr(default_factory=list[str])


class Doubled(BaseModel):
    """Its validator must not run again when the context is read."""

    model_config = ConfigDict(extra="allow")
    n: int

    @field_validator("n")
    @classmethod
    def double(cls, value: int) -> int:
        return value * 2


@dataclass
class Counted:
    n: int
    doubled: int = field(init=False)

    def __post_init__(self) -> None:
        self.doubled = self.n * 2


VALUES: list[Any] = [
    date(2026, 11, 22),
    datetime(2026, 11, 22, 1, 2, 3, 4, tzinfo=UTC),
    datetime(2026, 11, 22, 1, 2, 3),  # noqa: DTZ001  a naive time
    datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
    time(1, 2, 3),
    timedelta(days=-3, seconds=5, microseconds=7),
    Decimal("1.10"),
    UUID(int=7),
    Path("/a/b"),
    b"\xff\x00",
    {"a", "b"},
    frozenset({1, 2}),
    (1, (2, "a")),
    deque[Any]([1, 2], maxlen=2),
    {1: "a", "1": "b", None: "c", (1, 2): "d", 2.5: "e"},
    OrderedDict([("b", 1), ("a", 2)]),
    Counter("abca"),
    defaultdict[Any, Any](list, {"a": [1], 2: []}),
    defaultdict[Any, Any](int),
    Colour.RED,
    Colour.BLUE,
    Size.SMALL,
    Rights.READ | Rights.WRITE,
    Point(1),
    Customer("Ann", date(2026, 1, 2), {"x"}),
    Vip("Ben", level=3),
    Money(amount=Decimal("2.50")),
    Doubled(n=2, more=date(2026, 1, 1)),  # pyright: ignore[reportCallIssue]
    Counted(3),
    HttpUrl("https://example.com/a"),
    SimpleNamespace(day=date(2026, 1, 1)),
    float("inf"),
    {"$date": "no date"},
    {"price": "$5", "sizes": [Size.SMALL], "by": Counter("a")},
    {"$live": "x", "$": {"$class": 1}},
    2**80,
    "$live",
    None,
]


@dataclass
class Holder:
    it: Any


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_a_value_comes_back_as_it_was(number: int) -> None:
    value = VALUES[number]
    cases: list[tuple[Any, Any]] = [
        (value, type(value)),
        ({"a": value}, None),
        ([value], None),
        (Holder(value), Holder),
    ]
    for context, kind in cases:
        written, live = write_parts(context)
        assert live == {}
        assert_same(read_context(written, kind, is_own=True), context)


def kind_and_text(value: object) -> tuple[str, str]:
    return type(value).__name__, repr(value)


def assert_same(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    assert one == other
    if isinstance(one, dict):
        assert list(map(repr, typing.cast("dict[Any, Any]", one))) == list(map(repr, other))
        for key, value in typing.cast("dict[Any, Any]", one).items():
            assert_same(value, other[key])
    elif isinstance(one, set | frozenset):
        members = typing.cast("set[Any]", one)
        assert sorted(map(kind_and_text, members)) == sorted(map(kind_and_text, other))
    elif isinstance(one, list | tuple | deque):
        for item, same in zip(typing.cast("list[Any]", one), other, strict=True):
            assert_same(item, same)
    elif isinstance(one, Holder):
        assert_same(one.it, other.it)
    elif type(one).__module__ != __name__:
        assert repr(one) == repr(other)
    if isinstance(one, defaultdict):
        assert one.default_factory is other.default_factory


def test_a_type_hint_saves_the_tag() -> None:
    context = Customer("Ann", date(2026, 1, 2), {"b", "a"})
    written = {"name": "Ann", "since": "2026-01-02", "tags": ["a", "b"], "size": "s"}
    assert write_context(context) == written
    assert write_context({"customer": context, "day": date(2026, 1, 2)}) == {
        "customer": {"$class": f"{__name__}:Customer", **written},
        "day": {"$date": "2026-01-02"},
    }
    assert encode([context], list[Customer])[0] == [written]
    assert encode({"a": context}, dict[str, Customer])[0] == {"a": written}


WRONG_HINTS: list[tuple[Any, Any]] = [
    (date, "soon"),
    (set[str], ["a", "a"]),
    (tuple[int, ...], [1]),
    (Customer, {"name": "Ann"}),
    (Size, "s"),
    (Colour, 1),
    (str, 3),
    (int, "3"),
    (list[str], {"a"}),
    (dict[str, int], [1]),
]


@pytest.mark.parametrize(("hint", "value"), WRONG_HINTS)
def test_a_wrong_type_hint_changes_nothing(hint: Any, value: Any) -> None:
    """Python does not check the types of fields."""
    written, live = encode(value, hint)
    assert live == {}
    assert_same(decode(written, hint), value)


def same_time(one: datetime, other: datetime) -> bool:
    return one.utcoffset() == other.utcoffset()


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(st.characters(codec="utf-8")),
    st.dates(),
    st.datetimes(timezones=st.sampled_from([None, UTC, ZoneInfo("America/New_York")])).map(
        lambda moment: first if same_time(first := moment.replace(fold=0), moment) else moment
    ),
    st.timedeltas(),
    st.decimals(allow_nan=False),
    st.uuids(),
    st.binary(),
    st.sampled_from([*Colour, *Size]),
)
DATA = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.frozensets(SCALARS),
        st.dictionaries(SCALARS, inner),
        st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
        st.builds(Point, inner, inner),
    ),
    max_leaves=12,
)


@given(DATA)
def test_any_data_comes_back_as_it_was(value: Any) -> None:
    written, live = encode(value)
    assert live == {}
    assert_same(decode(written), value)


NOT_DATA: list[Any] = [
    Token("t"),
    re.compile("a+"),
    Fraction(1, 3),
    SecretStr("s"),
    lambda: 1,
    defaultdict(lambda: 1),
    [object()],
    {1: object()},
    {object()},
    {object(): 1},
    type("Sub", (dict,), {})(a=1),
    iter([1]),
    print,
    int,
    re,
]


@pytest.mark.parametrize("number", range(len(NOT_DATA)))
def test_a_value_that_cannot_be_kept_is_live(number: int) -> None:
    value = NOT_DATA[number]
    written, live = write_parts({"it": value, "n": 1})
    assert written == {"it": {"$live": type(value).__name__}, "n": 1}
    made = read_context(written, None, live)
    assert made["it"] is value


def test_an_object_that_contains_itself_is_live() -> None:
    inner: dict[str, Any] = {}
    inner["self"] = inner
    written, live = write_parts({"inner": inner})
    assert written == {"inner": {"self": {"$live": "dict"}}}
    assert live["inner", "self"] is inner


def test_private_attributes_and_validated_fields_are_restored_as_they_were() -> None:
    money = Money(amount=Decimal(1))
    money._seen.append("here")
    made = read_context(write_context(money), Money, is_own=True)
    assert made._seen == ["here"]
    assert read_context(write_context(Doubled(n=2)), Doubled, is_own=True).n == 4


def test_a_text_that_is_not_unicode_is_refused_with_its_path() -> None:
    with pytest.raises(UserError, match=r"context's a\.b, '.*', cannot be written"):
        write_context({"a": {"b": "\ud800"}})


UNREADABLE: list[tuple[Json, str]] = [
    ({"a": {"$date": "never"}}, r"context's a is not a valid \$date"),
    (
        {"a": {"$class": "shop.gone:Customer"}},
        r"context's a is of the class shop\.gone:Customer.*i",
    ),
    ({"a": {"$class": "subprocess:Popen", "pid": 1}}, r"names the class subprocess:Popen, whose"),
    ({"a": {"$value": "pydantic.types:ImportString", "json": "os"}}, r"ImportString, whose obj"),
    ({"a": {"$enum": f"{__name__}:Colour", "value": 9}}, r"not a valid \$enum: 9 is not a valid"),
]


@pytest.mark.parametrize(("value", "problem"), UNREADABLE)
def test_json_that_cannot_be_read_is_an_error_with_its_path(value: Json, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        read_context(value, None)


NO_WRITERS: list[tuple[str, Json]] = [
    ("$datetime", "2026-11-22T00:00[America]"),
    ("$timedelta", "P" + "9" * 4_000 + "DT0.000000S"),
    ("$decimal", "much"),
    ("$tuple", 5),
    ("$dict", ["a"]),
    ("$deque", []),
    ("$date", 5),
    ("$set", [{"$dict": {}}]),
]


@pytest.mark.parametrize(("tag", "text"), NO_WRITERS)
def test_a_tag_that_no_writer_wrote_is_refused_at_once(tag: str, text: Json) -> None:
    """It would raise what nobody expects, or compute for hours."""
    with pytest.raises(UserError, match=rf"context's a is not a valid \{tag}"):
        read_context({"a": {tag: text}}, None)


def test_an_unknown_tag_is_a_key() -> None:
    assert read_context({"$price": 3, "a": {"$x": [1]}}, None) == {"$price": 3, "a": {"$x": [1]}}


def test_a_field_that_a_later_version_added_has_its_default() -> None:
    assert decode({"name": "Ann"}, Customer) == Customer("Ann")
    with pytest.raises(UserError, match=r"does not fit Customer: Field required at name"):
        decode({"size": "s"}, Customer)


# --- Types of programs --------------------------------------------------------------------------


class Celsius:
    """A type that outlast does not know, and whose attributes are hidden."""

    __slots__ = ("degrees",)

    def __init__(self, degrees: float) -> None:
        self.degrees = degrees


def read_celsius(data: Any) -> Celsius:
    return Celsius(float(data["degrees"]))


@pytest.fixture
def celsius(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_SERIALIZERS", {})
    register_context_type(
        Celsius, write=lambda value: {"degrees": value.degrees}, read=read_celsius
    )


@pytest.mark.usefixtures("celsius")
@pytest.mark.parametrize("kind", [None, dict[str, Celsius], dict[str, Any]], ids=repr)
def test_a_registered_type_is_data(kind: Any) -> None:
    written, live = encode({"water": Celsius(21.5)}, kind)
    assert (written, live) == (
        {"water": {"$value": f"{__name__}:Celsius", "json": {"degrees": 21.5}}},
        {},
    )
    made = decode(written, kind)["water"]
    assert (type(made), made.degrees) == (Celsius, 21.5)


@pytest.mark.usefixtures("celsius")
def test_a_registered_type_may_be_a_member_and_the_context_itself() -> None:
    written, live = encode([(Celsius(1.0),)])
    assert live == {}
    assert decode(written)[0][0].degrees == 1.0
    written, live = write_parts(Celsius(2.0))
    assert live == {}
    assert read_context(written, Celsius, is_own=True).degrees == 2.0


@pytest.mark.usefixtures("celsius")
def test_data_that_a_types_reader_refuses_is_an_error_with_its_path() -> None:
    written: Json = {"a": {"$value": f"{__name__}:Celsius", "json": {}}}
    with pytest.raises(
        UserError, match=r"context's a is not a valid \$value: KeyError\('degrees'\)"
    ):
        read_context(written, None)


@pytest.mark.usefixtures("celsius")
def test_a_value_that_its_writer_refuses_is_an_error_with_its_path() -> None:
    broken = object.__new__(Celsius)
    with pytest.raises(UserError, match=r"context's a, a Celsius, cannot be written: .*Attribute"):
        write_context({"a": broken})


@pytest.mark.usefixtures("celsius")
def test_a_subclass_of_a_registered_type_is_live() -> None:
    kelvin = type("Kelvin", (Celsius,), {"__slots__": ()})(1.0)
    assert write_parts({"it": kelvin}) == ({"it": {"$live": "Kelvin"}}, {("it",): kelvin})


def test_registering_what_is_no_type_or_no_callable_is_refused() -> None:
    anything: Any = "Celsius"
    with pytest.raises(UserError, match="must be called with a type"):
        register_context_type(anything, write=str, read=str)
    with pytest.raises(UserError, match=r"register_context_type\(Celsius, write=\.\.\.\)"):
        register_context_type(Celsius, write=anything, read=read_celsius)


# --- Changes ------------------------------------------------------------------------------------


def changed(borrowed: BorrowedContext) -> Any:
    return borrowed.changes(RunContextWrapper[Any](context=borrowed.context))


def test_parallel_callables_both_add_to_a_set_and_to_a_dict_with_numbers() -> None:
    context = {"seen": {"b"}, "by": {1: "a"}}
    value = write_context(context)
    first, second = BorrowedContext(value, None), BorrowedContext(value, None)
    first.context["seen"].add("a")
    first.context["by"][2] = "b"
    second.context["seen"].add("c")
    second.context["by"][3] = "c"
    after = apply(apply(value, changed(first)), changed(second))
    expected = {"seen": {"a", "b", "c"}, "by": {1: "a", 2: "b", 3: "c"}}
    assert read_context(after, None) == expected


def test_a_callable_may_put_an_object_of_another_class_in_the_place_of_the_context() -> None:
    value = write_context(Customer("Ann"))
    borrowed = BorrowedContext(value, Customer, is_own=True)
    changes = borrowed.changes(RunContextWrapper[Any](context=Money(amount=Decimal(1))))
    again = read_context(apply(value, changes), Customer, is_own=True)
    assert again == Money(amount=Decimal(1))


def test_the_programs_own_containers_are_updated_in_place() -> None:
    lines: list[Any] = [1]
    tags = {"a"}
    by: dict[int, Any] = {1: date(2026, 1, 1)}
    inner = Customer("Ann", tags=tags)
    owner: dict[str, Any] = {"lines": lines, "by": by, "inner": inner, "gone": 1}
    lent = ProgramContext(owner)
    borrowed = BorrowedContext(write_context(owner), None)
    borrowed.context["lines"].append(2)
    borrowed.context["by"][2] = date(2026, 1, 2)
    borrowed.context["inner"].tags.add("b")
    borrowed.context["inner"].name = "Ben"
    del borrowed.context["gone"]
    borrowed.context["new"] = (1,)
    lent.update(apply(write_context(owner), changed(borrowed)))
    assert owner == {"lines": lines, "by": by, "inner": inner, "new": (1,)}
    assert lines == [1, 2]
    assert by == {1: date(2026, 1, 1), 2: date(2026, 1, 2)}
    assert (inner.name, tags) == ("Ben", {"a", "b"})
    assert inner.tags is tags
    assert owner["lines"] is lines
