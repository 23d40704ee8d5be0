"""The digest that ties a decision to the arguments that a person saw, and what people may see."""

import json
from dataclasses import replace
from hashlib import sha256

import pytest
from hypothesis import given

from outlast.loop.approvals import (
    REDACTED,
    ApprovalRequest,
    ApprovalTerms,
    Audience,
    Decision,
    EscalationStep,
    Person,
    digest,
    reviewed,
    unplaced,
    with_redacted,
)
from outlast.loop.values import Json, JsonObject
from tests.laws.strategies import examples, json_values


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


def test_a_digest_never_changes_because_reviewers_keep_it() -> None:
    canonical = b'{"a":[1,2],"b":"x"}'
    assert digest('{"b": "x", "a": [1, 2]}') == sha256(canonical).hexdigest()


def test_reviewers_see_everything_but_what_is_redacted() -> None:
    arguments = '{"iban": "DE99", "note": "für Ann", "cents": 5}'
    assert reviewed(arguments, ()) == arguments
    shown = json.loads(reviewed(arguments, ("iban", "other")))
    assert shown == {"iban": REDACTED, "note": "für Ann", "cents": 5}
    assert reviewed("", ("iban",)) == "{}"


@pytest.mark.parametrize("arguments", ["{", "[1, 2]", '"text"', "[" * 200_000])
def test_arguments_without_names_are_redacted_as_a_whole(arguments: str) -> None:
    assert json.loads(reviewed(arguments, ("iban",))) == REDACTED


def test_the_digest_of_a_request_is_of_what_it_shows() -> None:
    request = ApprovalRequest(
        id="a1",
        call_id="c1",
        name="refund",
        agent="Desk",
        arguments="{}",
        args_digest="d",
        requested_at_ms=1,
    )
    assert request.digest == replace(request, reminders=3, reason="later").digest
    for change in (
        {"args_digest": "other"},
        {"tool_digest": "other"},
        {"requested_at_ms": 2},
        {"terms": ApprovalTerms(quorum=2)},
    ):
        assert request.digest != replace(request, **change).digest


def test_an_edit_keeps_the_values_that_its_author_did_not_see() -> None:
    before = '{"iban": "DE99", "cents": 5}'
    edited: JsonObject = {"iban": REDACTED, "cents": 4, "note": REDACTED}
    assert with_redacted(edited, before) == {"iban": "DE99", "cents": 4, "note": REDACTED}
    for unreadable in ("{", "[1]", "[" * 200_000):
        assert with_redacted(edited, unreadable) == edited


def test_an_edit_keeps_a_text_of_which_its_author_saw_a_part() -> None:
    before = json.dumps(
        {"note": "to DE99, by noon", "of": {"days": [1, 99]}, "two": "DE99 and DE98", "left": [1]}
    )
    edited: JsonObject = {
        "note": f"to {REDACTED}, by noon",
        "of": {"days": [2, REDACTED], "new": REDACTED},
        "two": f"{REDACTED} and {REDACTED}",
        "left": [REDACTED, 2],
    }
    assert with_redacted(edited, before) == {
        "note": "to DE99, by noon",
        "of": {"days": [2, 99], "new": REDACTED},
        "two": "DE99 and DE98",
        "left": [REDACTED, 2],
    }
    for changed in (f"at {REDACTED}", f"to {REDACTED} {REDACTED} by night", "to DE99, by noon"):
        assert with_redacted({"note": changed}, before) == {"note": changed}
    for changed in (f"{REDACTED} or {REDACTED}", f"DE99 and DE98{REDACTED}"):
        assert with_redacted({"two": changed}, before) == {"two": changed}


@pytest.mark.parametrize(
    ("edited", "text"),
    [
        ({"iban": REDACTED, "note": "to DE99, by noon", "cents": 4}, None),
        ({"iban": REDACTED, "note": f"to {REDACTED}, by noon"}, None),
        ({"iban": f"x{REDACTED}y"}, f"x{REDACTED}y"),
        ({"note": f"to Eve or {REDACTED}"}, f"to Eve or {REDACTED}"),
        ({"new": REDACTED}, REDACTED),
        ({"of": {"days": [REDACTED, 2], "more": [{"a": REDACTED}]}}, REDACTED),
        ({"of": {"days": [REDACTED, REDACTED]}}, None),
        ({"of": {"days": [1, 2, REDACTED]}}, REDACTED),
        ({"of": {"days": []}, "cents": 4}, None),
        ({"cents": [REDACTED]}, REDACTED),
    ],
)
def test_a_value_that_stays_has_a_place_in_the_call(edited: JsonObject, text: str | None) -> None:
    """Else the tool would get the word for it."""
    shown: JsonObject = {
        "iban": REDACTED, "note": "to DE99, by noon", "cents": 5, "of": {"days": [1, 2]}
    }  # fmt: skip
    assert unplaced(edited, json.dumps(shown)) == text
    for unreadable in ("{", "[1]"):
        assert unplaced(edited, unreadable) is None


def test_a_decision_and_a_request_say_who_may_and_who_did() -> None:
    decision = Decision(
        request_id="a1",
        type="approve",
        by="ann",
        display="Ann",
        groups=("support",),
        method="token",
        proof="x",
    )
    assert decision.person == Person(
        subject="ann", display="Ann", groups=("support",), method="token", proof="x"
    )
    assert Decision(request_id="a1", type="approve").person == Person()
    team, lead, boss = (Audience(groups=(name,)) for name in ("team", "lead", "boss"))
    steps = (
        EscalationStep(after_ms=1, audience=lead),
        EscalationStep(after_ms=2, audience=boss),
    )
    request = ApprovalRequest(
        id="a1",
        call_id="c1",
        name="refund",
        agent="Billing",
        arguments="{}",
        args_digest="d",
        requested_at_ms=5,
        terms=ApprovalTerms(audience=team, escalations=steps),
    )
    assert request.audiences == (team,)
    assert replace(request, escalated=1).audiences == (team, lead)
    assert replace(request, escalated=2).audiences == (team, lead, boss)
