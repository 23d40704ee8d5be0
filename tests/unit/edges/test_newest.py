"""A memory keeps the newest values, and no more than it may."""

from collections import OrderedDict

from outlast.edges.newest import keep_newest


def test_what_was_kept_longest_ago_goes_first() -> None:
    kept = OrderedDict[str, int]()
    for key, value in (("a", 1), ("b", 2), ("a", 3), ("c", 4)):
        keep_newest(kept, key, value, 2)
    assert list(kept.items()) == [("a", 3), ("c", 4)]


def test_a_smaller_bound_counts_from_the_next_value_on() -> None:
    kept = OrderedDict((number, number) for number in range(5))
    keep_newest(kept, 5, 5, 2)
    assert list(kept) == [4, 5]


def test_nothing_is_kept_where_nothing_may_be() -> None:
    kept = OrderedDict[str, int]()
    keep_newest(kept, "a", 1, 0)
    assert not kept
