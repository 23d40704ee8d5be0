"""Quoting names in visibility queries, and comparing here what a server cannot search."""

import pytest

from outlast.visibility.queries import equals, is_findable


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("Billing", "A = 'Billing'"),
        ("O'Neill", "A = 'O''Neill'"),
        ("100%_ü 😀", "A = '100%_ü 😀'"),
        ('say "x"', "A STARTS_WITH 'say '"),
        ("back\\slash", "A STARTS_WITH 'back'"),
        ("it's\nnew", "A STARTS_WITH 'it''s'"),
        ("it's the clients'", "A STARTS_WITH 'it''s the clients'"),
        ("clients'\\n", "A STARTS_WITH 'clients'"),
        ("'quoted'", None),
        ("''", None),
        ("Who? Me", "A STARTS_WITH 'Who'"),
        ("?", None),
        ("\\", None),
        ("\x00", None),
    ],
)
def test_a_condition_holds_for_every_run_with_the_value(text: str, condition: str | None) -> None:
    assert equals("A", text) == condition
    assert is_findable(text) == (condition is not None and "=" in condition)
