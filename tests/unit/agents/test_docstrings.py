"""Docstrings of the three usual styles tell the model what a function does."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

from outlast.agents.schemas.docstrings import DocstringStyle, read_docs


def documented(text: str | None) -> Callable[..., None]:
    def function() -> None: ...

    function.__doc__ = text
    return function


GOOGLE = """Find orders.

    Looks in the archive
    as well.

    Args:
        customer: Whose orders,
            by name.
        limit (int, optional): How many: at most 100.
        **filters: Further filters.

    Returns:
        list: the orders.

    Raises:
        ValueError: never: really.
    """

NUMPY = """Find orders.

    Looks in the archive
    as well.

    Parameters
    ----------
    customer : str
        Whose orders,
        by name.
    limit : int, optional
        How many: at most 100.
    **filters
        Further filters.

    Returns
    -------
    list
        The orders.
    """

SPHINX = """Find orders.

    Looks in the archive
    as well.

    :param customer: Whose orders,
        by name.
    :param int limit: How many: at most 100.
    :param filters: Further filters.
    :type filters: dict
    :returns: the orders.
    :raises ValueError: never.
    """


@pytest.mark.parametrize("guess", [True, False])
@pytest.mark.parametrize(
    ("text", "style"), [(GOOGLE, "google"), (NUMPY, "numpy"), (SPHINX, "sphinx")]
)
def test_every_style_is_read_and_recognised(text: str, style: DocstringStyle, guess: bool) -> None:
    docs = read_docs(documented(text), "auto" if guess else style)

    assert docs.description == "Find orders.\n\nLooks in the archive\nas well."
    assert docs.parameters == {
        "customer": "Whose orders,\nby name.",
        "limit": "How many: at most 100.",
        "filters": "Further filters.",
    }


def test_a_style_that_is_named_is_the_only_one_that_is_read() -> None:
    docs = read_docs(documented(NUMPY), "google")

    assert docs.parameters == {}
    assert "Parameters" in docs.description


@pytest.mark.parametrize(
    ("text", "description"),
    [
        (None, ""),
        ("", ""),
        ("   \n  ", ""),
        ("Just this.", "Just this."),
        ("Note: colons: everywhere", "Note: colons: everywhere"),
        ("Sum it up.\n\nNote:\n    careful\n\nArgs:\n    a: b", "Sum it up.\n\nNote:\n    careful"),
        ("\n    On the second line.\n    ", "On the second line."),
        (":param a b c d: junk", ":param a b c d: junk"),
        ("Was fährt? 🚲", "Was fährt? 🚲"),
        (": ", ":"),
    ],
)
def test_any_text_is_a_description_at_least(text: str | None, description: str) -> None:
    assert read_docs(documented(text)).description == description


@pytest.mark.parametrize("text", [": ", ":param a b c d e: x"])
def test_a_docstring_that_the_parser_refuses_is_the_description_as_it_stands(text: str) -> None:
    docs = read_docs(documented(text), "sphinx")

    assert (docs.description, docs.parameters) == (text.strip(), {})


def test_a_numpy_entry_for_several_parameters_describes_each() -> None:
    docs = read_docs(documented("Add.\n\nParameters\n----------\na, b : int\n    A summand."))

    assert docs.parameters == {"a": "A summand.", "b": "A summand."}


def test_a_parameter_without_words_has_no_description() -> None:
    assert read_docs(documented("Add.\n\nArgs:\n    a:\n    b: Second.")).parameters == {
        "b": "Second."
    }


class Shop:
    """A shop."""

    def refund(self) -> None:
        """Refund an order."""


class Caller:
    """Calls somebody."""

    def __call__(self) -> None: ...


class DocumentedCall:
    """Ignored."""

    def __call__(self) -> None:
        """Call somebody now."""


@pytest.mark.parametrize(
    ("function", "description"),
    [
        (Shop().refund, "Refund an order."),
        (functools.partial(Shop().refund), "Refund an order."),
        (Caller(), "Calls somebody."),
        (DocumentedCall(), "Call somebody now."),
        (functools.partial(functools.partial(Caller())), "Calls somebody."),
        (lambda: None, ""),
    ],
)
def test_the_docstring_is_found_on_every_kind_of_callable(
    function: Callable[..., Any], description: str
) -> None:
    assert read_docs(function).description == description


def find(customer: str, limit: int, **filters: str) -> None:
    del customer, limit, filters


@pytest.mark.parametrize(
    ("entries", "described"),
    [
        # An entry for no parameter, such as the context, is one nevertheless.
        ("customer: Whose.\n    nobody: No parameter.\n    limit: Most.", ["Whose.", "Most."]),
        ("customer: Whose.\n    see also: the manual.", ["Whose."]),
        # Lines that go on.
        ("customer: One of:\n        - a\n            - b\n      c", ["One of:\n- a\n    - b\nc"]),
        ("customer:\n        Below.\n\n        More.", ["\nBelow.\n\nMore."]),
        (
            "customer: Whose\n        limit: of all\n    limit: Most.",
            ["Whose\nlimit: of all", "Most."],
        ),
        # A line that begins no entry is dropped, and so is what goes on there.
        ("customer: Whose,\n    by name\n        and town\n    limit: Most.", ["Whose,", "Most."]),
        # The SDK does not read a dash.
        ("customer (str) - Whose.\n    **filters - further - ones.", ["Whose.", "further - ones."]),
        ("other - Whose.\n    limit: Most.", ["Most."]),
    ],
)
@pytest.mark.parametrize("style", ["google", "auto"])
def test_entries_are_read_as_in_the_sdk(
    entries: str, described: list[str], style: DocstringStyle
) -> None:
    function = functools.partial(find)
    find.__doc__ = f"Find orders.\nArgs:\n    {entries}\n\nReturns:\n    customer: x"
    docs = read_docs(function, style)
    assert docs.description == "Find orders."
    names = ("customer", "limit", "filters")
    assert [docs.parameters[name] for name in names if name in docs.parameters] == described


def test_a_field_goes_on_up_to_the_next_one() -> None:
    text = "Find.\n\n:param customer: One of:\n    - a\n        - b\nor c\n:arg limit:\n    Most.\n"
    docs = read_docs(documented(f"{text}:key customer: Again.\n:returns: Orders."))
    assert docs.parameters == {
        "customer": "One of:\n    - a\n        - b\nor c",
        "limit": "Most.",
    }


def test_a_section_without_entries_is_text() -> None:
    docs = read_docs(documented("Args:\nare what a function takes."))
    assert (docs.description, docs.parameters) == ("Args:\nare what a function takes.", {})
