"""Quoting names in visibility queries, and comparing here what a server cannot search."""

from datetime import UTC, datetime

import pytest
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.errors import AgentsException, ServerUnavailable, UserError
from outlast.temporal.visibility.queries import (
    equals,
    is_any_of,
    is_findable,
    search_error,
    time_text,
)


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


def test_a_time_long_ago_is_one_that_a_server_reads() -> None:
    assert time_text(datetime(110, 5, 26, 6, tzinfo=UTC)) == "0110-05-26T06:00:00Z"


def test_a_condition_for_several_values_is_there_only_if_all_can_be_searched_for() -> None:
    assert is_any_of("A", ["billing", "o'hara", "*"]) == "A IN ('billing', 'o''hara', '*')"
    assert is_any_of("A", ["billing", "who?"]) is None


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        (
            RPCStatusCode.NOT_FOUND,
            UserError,
            "`temporal operator namespace create desk`",
        ),
        (RPCStatusCode.INVALID_ARGUMENT, UserError, "`outlast doctor --fix` adds them"),
        (RPCStatusCode.UNAVAILABLE, ServerUnavailable, "does not answer: why"),
        (RPCStatusCode.PERMISSION_DENIED, AgentsException, "refused: why"),
    ],
)
def test_a_refused_search_says_what_to_do(
    status: RPCStatusCode, kind: type[AgentsException], message: str
) -> None:
    error = search_error("desk", RPCError("why", status, b""))
    assert type(error) is kind
    assert message in str(error)
