"""Context changes: found by comparison, applied later, none of them lost."""

import copy
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from outlast.loop.changes import Change, apply, clashes, diff
from outlast.loop.values import Json
from tests.laws.strategies import examples, json_values, same_json

LONG = "x" * 201


def spliced(at: int, removed: list[Json], added: list[Json]) -> Change:
    """Return a change within the list `l`."""
    return Change("splice", ("l",), {"at": at, "removed": removed, "added": added})


CASES: list[tuple[Json, Json, tuple[Change, ...]]] = [
    (None, None, ()),
    ({}, {}, ()),
    (1, 1, ()),
    (None, {"a": 1}, (Change("set", (), {"a": 1}),)),
    ({"a": 1}, None, (Change("set", (), None),)),
    ({"a": 1}, {"a": 2}, (Change("set", ("a",), 2, 1),)),
    ({"a": 1}, {"a": None}, (Change("set", ("a",), None, 1),)),
    ({"a": None}, {"a": 1}, (Change("set", ("a",), 1),)),
    ({"a": "x"}, {"a": "xy"}, (Change("set", ("a",), "xy", "x"),)),
    ({"a": LONG}, {"a": LONG + "y"}, (Change("append", ("a",), "y"),)),
    ({"a": LONG}, {"a": "y"}, (Change("set", ("a",), "y"),)),
    ({"a": 1}, {}, (Change("remove", ("a",)),)),
    ({"a": None}, {}, (Change("remove", ("a",)),)),
    ({}, {"a": None}, (Change("set", ("a",), None),)),
    ({"a": {"b": 1}}, {"a": {"b": 2}}, (Change("set", ("a", "b"), 2, 1),)),
    ({"a": {"b": 1}}, {"a": {}}, (Change("remove", ("a", "b")),)),
    ({"a": {"b": 1}}, {"a": [1]}, (Change("set", ("a",), [1]),)),
    ({"a.b": 1, "a": {"b": 2}}, {"a.b": 3, "a": {"b": 2}}, (Change("set", ("a.b",), 3, 1),)),
    ({"a/b": {"~1": 1}}, {"a/b": {"~1": 2}}, (Change("set", ("a/b", "~1"), 2, 1),)),
    ({"": {"": 1}}, {"": {"": 2}}, (Change("set", ("", ""), 2, 1),)),
    ({"l": [1]}, {"l": [1, 2]}, (Change("append", ("l",), [2]),)),
    ({"l": [1]}, {"l": [1, 2, 3]}, (Change("append", ("l",), [2, 3]),)),
    ([1], [1, 2], (Change("append", (), [2]),)),
    ({"l": [1, 2]}, {"l": [1]}, (spliced(1, [2], []),)),
    ({"l": [1, 2]}, {"l": [2, 1]}, (spliced(0, [1, 2], [2, 1]),)),
    ({"l": [1]}, {"l": [0, 1]}, (spliced(0, [], [0]),)),
    ({"l": [{"a": 1}]}, {"l": [{"a": 2}]}, (spliced(0, [{"a": 1}], [{"a": 2}]),)),
    (0, False, (Change("set", (), False, 0),)),
    ({"a": 1}, {"a": True}, (Change("set", ("a",), True, 1),)),
    ({"a": 1}, {"a": 1.0}, (Change("set", ("a",), 1.0, 1),)),
    (
        {"a": 1, "b": 1},
        {"a": 1.0, "b": 2},
        (Change("set", ("a",), 1.0, 1), Change("set", ("b",), 2, 1)),
    ),
    ({"a": {"paid": 0}}, {"a": {"paid": False}}, (Change("set", ("a", "paid"), False, 0),)),
    ({"l": [1]}, {"l": [True]}, (spliced(0, [1], [True]),)),
    ({"l": [1, 2, 3]}, {"l": [1, 3]}, (spliced(1, [2], []),)),
    ({"l": [1, 1]}, {"l": [1, 1, 1]}, (Change("append", ("l",), [1]),)),
    ({"l": [1, 2]}, {"l": []}, (spliced(0, [1, 2], []),)),
    ({"l": [[1]]}, {"l": [[2]]}, (Change("set", ("l",), [[2]]),)),
    ({"l": [LONG]}, {"l": []}, (Change("set", ("l",), []),)),
    ({"l": [{"a": [1]}]}, {"l": []}, (Change("set", ("l",), []),)),
    ({"l": list(range(101))}, {"l": []}, (Change("set", ("l",), []),)),
    ({"l": [0]}, {"l": [False, 2]}, (spliced(0, [0], [False, 2]),)),
    ({"l": [{"a": 1}]}, {"l": [{"a": True}, 2]}, (spliced(0, [{"a": 1}], [{"a": True}, 2]),)),
]


def test_a_difference_is_the_smallest_change_that_makes_it() -> None:
    for before, after, changes in CASES:
        found = diff(before, after)
        assert found == changes, (before, after)
        values = zip(found, changes, strict=True)
        assert all(same_json(one.value, two.value) for one, two in values), (before, after)


def test_applying_a_difference_gives_what_was_compared() -> None:
    for before, after, changes in CASES:
        assert same_json(apply(before, changes), after), (before, changes)


@pytest.mark.parametrize(
    ("context", "change", "result"),
    [
        # What a sibling call did in between is not undone, and nothing of this one is lost.
        ({}, Change("set", ("a", "b"), 1), {"a": {"b": 1}}),
        ({"a": 5}, Change("set", ("a", "b"), 1), {"a": {"b": 1}}),
        (None, Change("set", ("a",), 1), {"a": 1}),
        ({}, Change("append", ("l",), [1]), {"l": [1]}),
        ({"l": None}, Change("append", ("l",), [1]), {"l": [1]}),
        ({"l": []}, Change("append", ("l",), [1]), {"l": [1]}),
        ({"l": [0]}, Change("append", ("l",), [1]), {"l": [0, 1]}),
        ([0], Change("append", (), [1, 2]), [0, 1, 2]),
        (None, Change("append", (), [1]), [1]),
        ({"a": 1}, Change("remove", ("a",)), {}),
        ({"b": 1}, Change("remove", ("a",)), {"b": 1}),
        ({"a": {"b": 1, "c": 2}}, Change("remove", ("a", "b")), {"a": {"c": 2}}),
        ({"a": 1}, Change("remove", ()), None),
        ({"a": 1}, Change("set", (), {"b": 2}), {"b": 2}),
    ],
)
def test_a_change_fits_a_context_that_siblings_have_changed(
    context: Json, change: Change, result: Json
) -> None:
    assert apply(context, (change,)) == result


@pytest.mark.parametrize(
    "context",
    [
        pytest.param({}, id="a sibling removed the whole"),
        pytest.param({"a": 5}, id="a sibling put a number there"),
        pytest.param({"a": None}, id="a sibling put null there"),
        pytest.param({"a": [1]}, id="a sibling put a list there"),
        pytest.param({"a": {}}, id="a sibling removed the same key"),
    ],
)
def test_removing_what_has_gone_changes_nothing(context: Json) -> None:
    assert apply(context, (Change("remove", ("a", "b")),)) == context
    assert apply(context, (Change("remove", ("a", "b", "c")),)) == context


def test_two_calls_that_each_append_are_both_heard() -> None:
    before = {"log": ["old"]}
    one, two = diff(before, {"log": ["old", "one"]}), diff(before, {"log": ["old", "two"]})
    assert apply(apply(before, one), two) == {"log": ["old", "one", "two"]}
    assert apply(apply(before, two), one) == {"log": ["old", "two", "one"]}


def test_two_calls_that_each_append_to_an_empty_list_are_both_heard() -> None:
    before: Json = {"log": []}
    one, two = diff(before, {"log": ["one"]}), diff(before, {"log": ["two"]})
    assert apply(apply(before, one), two) == {"log": ["one", "two"]}


BESIDE: list[tuple[Json, Json, Json, Json]] = [
    (0, 1, 1, 2),
    (0, 1, 5, 6),
    (10, 7, 12, 9),
    (0, 0.5, 1, 1.5),
    ("notes:", "notes: a", "notes: b", "notes: a b"),
    ("open", "closed", "closed", "closed"),
    (LONG, LONG + "a", LONG + "b", LONG + "ab"),
    ([1, 2, 3], [2, 3], [1, 2, 3, 4], [2, 3, 4]),
    ([1, 2, 3], [1, 2], [2, 3], [2]),
    ([1, 2], [2], [2], [2]),
    ([1, 2], [], [1, 2, 3], [3]),
    ([1, 2], [0, 1, 2], [1, 2, 3], [0, 1, 2, 3]),
    ([1, 2], [1, 5, 2], [2], [5, 2]),
    ([{"n": 0}, {"n": 0}], [{"n": 1}, {"n": 0}], [{"n": 0}, {"n": 2}], [{"n": 1}, {"n": 2}]),
    ({"x": 1}, {"x": 1, "y": 2}, {"x": 3}, {"x": 3, "y": 2}),
]
"""A value, what two calls made of it beside each other, and what has to come of it."""


@pytest.mark.parametrize(("before", "one", "other", "both"), BESIDE)
def test_what_two_calls_did_beside_each_other_is_both_done(
    before: Json, one: Json, other: Json, both: Json
) -> None:
    first, second = diff({"v": before}, {"v": one}), diff({"v": before}, {"v": other})
    made = apply(apply({"v": before}, first), second)
    assert same_json(made, {"v": both})
    assert clashes(second, first) == ()
    turned = apply(apply({"v": before}, second), first)
    if isinstance(before, int):
        assert same_json(turned, made)


@pytest.mark.parametrize(
    ("before", "one", "other"),
    [("", "Oslo", "Rome"), ("a", "b", "c"), (False, "x", True), (1, "one", 2), (1, None, 2)],
)
def test_where_nobody_can_say_what_both_would_be_the_later_counts_and_that_is_found(
    before: Json, one: Json, other: Json
) -> None:
    first, second = (diff({"a": {"v": before}}, {"a": {"v": new}}) for new in (one, other))
    assert apply(apply({"a": {"v": before}}, first), second) == {"a": {"v": other}}
    assert clashes(second, first) == (("a", "v"),)
    assert clashes(second, ()) == clashes(second, second) == ()


@pytest.mark.parametrize(
    ("present", "change", "result"),
    [
        (1e308, Change("set", (), 1e308, -1e308), 1e308),
        (10**400, Change("set", (), 1.5, 1), 1.5),
        ("x", Change("splice", (), {"at": 0, "removed": [1], "added": [2]}), [2]),
        ([1], Change("splice", (), {"at": -5, "removed": [], "added": [2]}), [2, 1]),
        ([1], Change("splice", (), {"at": "0"}), [1]),
        ([1], Change("splice", (), [2]), [2]),
        ("x", Change("append", (), [1]), [1]),
    ],
)
def test_a_change_that_does_not_fit_harms_nothing(
    present: Json, change: Change, result: Json
) -> None:
    assert apply(present, (change,)) == result


def test_one_call_removes_a_whole_and_another_a_part_of_it() -> None:
    before = {"order": {"id": 1, "note": "x"}, "n": 0}
    whole = diff(before, {"n": 0})
    part = diff(before, {"order": {"id": 1}, "n": 0})
    assert apply(apply(before, whole), part) == {"n": 0}
    assert apply(apply(before, part), whole) == {"n": 0}


@given(before=json_values, after=json_values)
@example(before={"a": [{"b": 1}]}, after={"a": [{"b": True}]})
@example(before={"a": {"b": 0}}, after={"a": {"b": False}})
@example(before=[0], after=[False, 1])
@examples(60)
def test_a_difference_applied_to_the_old_gives_the_new(before: Json, after: Json) -> None:
    kept_before, kept_after = copy.deepcopy(before), copy.deepcopy(after)
    changes = diff(before, after)
    assert same_json(apply(before, changes), after)
    assert same_json(before, kept_before), "the old value was touched"
    assert same_json(after, kept_after), "the new value was touched"
    assert bool(changes) is not same_json(before, after)


@given(value=json_values)
@examples(30)
def test_a_value_does_not_differ_from_itself(value: Json) -> None:
    assert diff(value, copy.deepcopy(value)) == ()


Fields = st.dictionaries(st.sampled_from("abc"), json_values, max_size=3)


@given(base=Fields, mine=Fields, theirs=Fields)
@examples(40)
def test_changes_to_different_fields_do_not_touch_each_other(
    base: dict[str, Any], mine: dict[str, Any], theirs: dict[str, Any]
) -> None:
    before = {"mine": base, "theirs": base}
    one = diff(before, {"mine": mine, "theirs": base})
    two = diff(before, {"mine": base, "theirs": theirs})
    both = {"mine": mine, "theirs": theirs}
    assert same_json(apply(apply(before, one), two), both)
    assert same_json(apply(apply(before, two), one), both)
