"""What a tool reads otherwise than a model wrote it is known by name."""

from typing import Any

import pytest

from outlast.agents.schemas.altered_arguments import altered


@pytest.mark.parametrize(
    ("written", "got"),
    [
        ("a", "a"),
        (1, 1.0),
        (1.5, "1.5"),
        (None, None),
        ([{"a": [True]}], [{"a": [True]}]),
        ("2026-01-31T09:30+00:00", "2026-01-31T09:30:00Z"),
        ("09:30", "09:30:00"),
        ("https://example.com", "https://example.com/"),
    ],
)
def test_what_means_the_same_is_not_altered(written: Any, got: Any) -> None:
    assert not altered({"x": written}, {"x": got, "filled_in": 1})


@pytest.mark.parametrize(
    ("written", "got"),
    [
        ("1", 1),
        (1, True),
        ([1], [True]),
        ([1, 2], [1]),
        ({"a": 1}, {"a": 1, "b": 2}),
        (" a", "a"),
        ("2026-01-31T09:30+02:00", "2026-01-31T09:30:00Z"),
        ("2026-01-31", "2026-01-31T00:00:00"),
        ("09:30", "09:30:01"),
        ("HTTPS://example.com", "https://example.com/"),
        ("folder", "folder/"),
    ],
)
def test_what_means_something_else_is_named(written: Any, got: Any) -> None:
    assert altered({"x": written, "y": 1, "z": written}, {"x": got, "y": 1, "z": got}) == "x, z"


def test_what_is_ignored_is_not_altered() -> None:
    assert not altered({"made_up": 1}, {"x": 2})
