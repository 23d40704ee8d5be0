"""Scopes of runs: the search finds every run of a scope, and `covers` has the last word."""

import pytest

from outlast.temporal.visibility.scopes import RunScope, any_covers, scopes_query

ACME = RunScope(tenants=frozenset({"acme"}))
BILLING = RunScope(agents=frozenset({"Billing", "Refunds"}), teams=frozenset({"payments"}))


@pytest.mark.parametrize(
    ("scopes", "query"),
    [
        ([], None),
        ([RunScope()], None),
        ([ACME, RunScope()], None),
        ([ACME], "((OutlastTenant = 'acme'))"),
        (
            [ACME, BILLING],
            (
                "((OutlastTenant = 'acme') OR (OutlastAgent IN ('Billing', 'Refunds') AND "
                "OutlastWaitingGroups IN ('payments')))"
            ),
        ),
    ],
)
def test_a_search_asks_for_the_runs_of_any_scope(scopes: list[RunScope], query: str | None) -> None:
    assert scopes_query(scopes) == query


def test_a_name_that_cannot_be_searched_for_leaves_the_choice_to_covers() -> None:
    odd = RunScope(tenants=frozenset({'a"b', "c"}))
    assert scopes_query([odd]) is None
    assert odd.covers(tenant='a"b', agent="Billing")
    assert not odd.covers(tenant="a", agent="Billing")


def test_a_nested_run_is_seen_with_the_run_above_it() -> None:
    assert ACME.covers(tenant="acme", agent="Judge", is_nested=True)
    assert not BILLING.covers(tenant="", agent="Billing", people=["payments"], is_nested=True)
    assert BILLING.covers(tenant="", agent="Billing", people=["payments"])
    assert not BILLING.covers(tenant="", agent="Billing", people=["sales"])


def test_no_scope_means_every_run_and_an_empty_one_too() -> None:
    for scopes in ([], [RunScope()]):
        assert any_covers(scopes, tenant="globex", agent="")
    assert not any_covers([ACME, BILLING], tenant="globex", agent="Support")
