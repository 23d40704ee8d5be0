"""One spelling for each JSON value, and one name for each person."""

import pytest

from outlast.loop.canonical import canonical_name, digest, digest_of, same_person


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a": 1, "a": 2}', '{"a": 2, "a": 1}'),
        ('{"a": 1, "a": 2}', '{"a": 2}'),
        ('{"a": [[1, 2]]}', '{"a": 1, "a": 2}'),
        ("1e400", "1e500"),
        ("1e400", "Infinity"),
        ("-1e400", "1e400"),
        ("1", "1.0"),
        ("9007199254740993.0", "9007199254740992.0"),
        ("9007199254740993", "9007199254740992"),
        ("1" + "0" * 5_000, "1" + "0" * 5_001),
        ("1e99999999999999999999", "1e99999999999999999998"),
        ("0.1", "0.10000000000000000001"),
        ("NaN", '"NaN"'),
        ("-0.0", "0.0"),
    ],
)
def test_what_a_tool_could_read_differently_has_another_digest(one: str, other: str) -> None:
    assert digest(one) != digest(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1.50", "15e-1"),
        ("1E400", "10e399"),
        ("-0", "0"),
        ("0.0", "0e5"),
        ('{"b": 1, "a": 2.0}', '{"a":2.00,"b":1}'),
    ],
)
def test_a_number_has_one_digest(one: str, other: str) -> None:
    assert digest(one) == digest(other)


def test_the_digest_of_a_value_is_that_of_its_text() -> None:
    assert digest_of({"b": [1, 2.5, None, True], "a": "ä"}) == digest(
        '{"a": "\\u00e4", "b": [1, 2.5, null, true]}'
    )


@pytest.mark.parametrize(
    "name",
    [
        "Ann",
        "ann ",
        " ANN",
        "a\u200dnn",
        "ann\ufe0f",
        "\uff41nn",
        "ann\u00ad",
        "\u2060ann",
        "ann\n",
    ],
)
def test_names_that_look_the_same_are_one_person(name: str) -> None:
    assert same_person(name, "ann")


@pytest.mark.parametrize("name", ["anna", "an n", "bob", "\u0430nn", ""])
def test_other_names_are_other_people(name: str) -> None:
    assert not same_person(name, "ann")


def test_spaces_between_words_are_one_space() -> None:
    assert canonical_name("Ann\u00a0 \tLee") == canonical_name("ann lee") == "ann lee"
