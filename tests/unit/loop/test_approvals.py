"""Which decisions count, and the digest that ties a decision to what was seen."""

import json
from dataclasses import replace

import pytest
from hypothesis import given

from outlast.loop.approvals import (
    ApprovalRequest,
    ApprovalStatus,
    Decision,
    DecisionType,
    digest,
    refusal,
)
from outlast.loop.values import Json
from tests.loop_strategies import examples, json_values

ASKED = ApprovalRequest(
    id="a1",
    call_id="c1",
    name="refund",
    agent="Billing",
    arguments='{"order": "A-17"}',
    args_digest=digest('{"order": "A-17"}'),
    requested_at_ms=5,
)
SECOND = replace(ASKED, id="a2")
TYPES: tuple[DecisionType, ...] = ("approve", "reject")


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("seen", [None, ASKED.args_digest])
def test_a_decision_about_a_pending_request_counts(kind: DecisionType, seen: str | None) -> None:
    decision = Decision(request_id="a1", type=kind, args_digest=seen)
    assert refusal([ASKED], decision) is None
    assert refusal([SECOND, ASKED], decision) is None


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("seen", ["", "0" * 64, ASKED.args_digest.upper()])
def test_a_decision_about_other_arguments_is_refused(kind: DecisionType, seen: str) -> None:
    problem = refusal([ASKED], Decision(request_id="a1", type=kind, args_digest=seen))
    assert problem is not None
    assert "Approval a1" in problem
    assert "Look at the request again" in problem


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("status", ["approved", "rejected", "cancelled"])
def test_a_settled_request_takes_no_further_decision(
    kind: DecisionType, status: ApprovalStatus
) -> None:
    settled = replace(ASKED, status=status)
    problem = refusal([settled], Decision(request_id="a1", type=kind))
    assert problem == f"Approval a1 is already {status}."


def test_a_refused_decision_says_who_decided_before() -> None:
    by_ann = Decision(request_id="a1", type="approve", by="ann")
    settled = replace(ASKED, status="approved", decision=by_ann)
    again = Decision(request_id="a1", type="reject", by="bob")
    assert refusal([settled], again) == "Approval a1 is already approved by ann."


def test_a_decision_without_a_name_is_named_as_nobodys() -> None:
    decided = Decision(request_id="a1", type="approve")
    settled = replace(ASKED, status="approved", decision=decided)
    assert refusal([settled], decided) == "Approval a1 is already approved."


@pytest.mark.parametrize("unknown", ["", "a0", "a3", "A1", " a1", "a1 "])
def test_a_decision_about_an_unknown_request_names_those_that_wait(unknown: str) -> None:
    problem = refusal([ASKED, SECOND], Decision(request_id=unknown, type="approve"))
    assert problem == f"No approval {unknown!r} waits here. Waiting: a1, a2."


def test_where_nothing_waits_the_refusal_says_so() -> None:
    settled = replace(ASKED, status="cancelled")
    decision = Decision(request_id="a7", type="approve")
    assert refusal([], decision) == "No approval 'a7' waits here. Waiting: none."
    assert refusal([settled], decision) == "No approval 'a7' waits here. Waiting: none."


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a": 1, "b": 2}', '{"b":2,"a":1}'),
        ('{"a": {"d": 1, "c": 2}}', '{ "a" : {"c":2, "d":1} }'),
        ('{"a": "ä"}', '{"a": "\\u00e4"}'),
        ("[1, 2]", "[1,2]"),
        ("  null ", "null"),
    ],
)
def test_a_digest_is_the_same_for_every_spelling(one: str, other: str) -> None:
    assert digest(one) == digest(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a": 1}', '{"a": 2}'),
        ('{"a": 1}', '{"a": "1"}'),
        ('{"a": 1}', '{"a": true}'),
        ("[1, 2]", "[2, 1]"),
        ('{"a": null}', "{}"),
        ("", "{}"),
        ("{", "{}"),
    ],
)
def test_a_digest_tells_arguments_apart(one: str, other: str) -> None:
    assert digest(one) != digest(other)


@pytest.mark.parametrize(
    "junk",
    [
        pytest.param("", id="nothing"),
        pytest.param("not json", id="prose"),
        pytest.param('{"a": ', id="cut off"),
        pytest.param("9" * 5_000, id="a number too long to read"),
        pytest.param("\x00", id="a control character"),
        pytest.param('{"a": "\ud83d', id="half a character"),
        pytest.param("[" * 200_000, id="nested too deep to read"),
    ],
)
def test_arguments_that_are_not_json_have_a_digest_too(junk: str) -> None:
    """They are what a person most needs to see; a model can write anything."""
    assert len(digest(junk)) == 64
    assert digest(junk) == digest(junk)


@given(value=json_values)
@examples(40)
def test_a_digest_does_not_depend_on_how_json_is_written(value: Json) -> None:
    spellings = {
        json.dumps(value),
        json.dumps(value, indent=2, ensure_ascii=False),
        json.dumps(value, sort_keys=True, separators=(",", ":")),
    }
    assert len({digest(spelling) for spelling in spellings}) == 1


def test_each_value_of_a_repeated_key_counts() -> None:
    small, large = '{"amount": 5, "amount": 5000}', '{"amount": 5000}'
    other = '{"amount": 5000, "amount": 5}'
    nested = ['{"x": {"a": 1, "a": 9}, "y": 2}', '{"y": 2, "x": {"a": 1, "a": 9}}']
    assert len({digest(one) for one in (small, large, other)}) == 3
    assert digest(small) == digest('{"amount":5,"\\u0061mount":5000}')
    assert digest(nested[0]) == digest(nested[1])
    assert digest('{"a": 1, "b": 2}') == digest('{"b": 2, "a": 1}')
