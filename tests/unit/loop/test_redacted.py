"""What a run hides from people is hidden in its parent and in the runs nested in it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from outlast.loop import redacted
from outlast.loop.approvals import ApprovalTerms
from outlast.loop.effects import NotifyParent, RunAgent
from outlast.loop.events import NestedReported
from outlast.loop.redacted import LONGEST_PASSED, Redacted, passed_on, redacted_by
from outlast.loop.start import Parent
from outlast.loop.state import redacted_in
from outlast.loop.values import JsonObject
from tests.laws.driver import Play, gated, nested

TERMS = ApprovalTerms(redact=("iban", "of"), redact_for=("fraud",))
ACCOUNT = Redacted(text="DE89", shown_to=("fraud",))


def asked(arguments: JsonObject, **ready: Any) -> Play:
    play = Play.ready(**ready)
    play.replies(gated("pay", "c1", json.dumps(arguments), terms=TERMS))
    return play


def values_of(play: Play) -> list[str]:
    return [one.text for one in redacted_by(play.state.approvals, play.state.items)]


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        ({"iban": "DE89", "note": "x"}, ["DE89"]),
        ({"iban": {"a": ["DE89", 5, True, None]}, "of": 1.5}, ["DE89", "5", "1.5"]),
        ({"iban": "[redacted]"}, []),
    ],
)
def test_the_values_of_redacted_arguments(arguments: JsonObject, texts: list[str]) -> None:
    assert values_of(asked(arguments)) == texts


@pytest.mark.parametrize("arguments", ["[1]", "{", "[" * 200_000])
def test_arguments_that_are_no_object_have_no_values(arguments: str) -> None:
    state = asked({"iban": "DE89"}).state
    items = [replace(one, raw={**one.raw, "arguments": arguments}) for one in state.items]
    assert list(redacted_by(state.approvals, items)) == []


def test_the_values_of_edits_are_hidden_as_well() -> None:
    play = asked({"iban": "DE89"})
    play.decided("a1", "edit", by="ann", edited_arguments={"iban": "DE90", "of": "x"})
    assert set(values_of(play)) == {"DE89", "DE90", "x"}


def test_arguments_that_a_fork_gives_are_hidden_as_well() -> None:
    state = asked({"iban": "DE89"}).state
    found = redacted_by(state.approvals, state.items, [("c1", '{"iban": "DE91"}'), ("c2", "{}")])
    assert [one.text for one in found] == ["DE89", "DE91"]


def test_runs_tell_each_other_a_value_once_and_not_without_an_end() -> None:
    long = Redacted(text="x" * (LONGEST_PASSED + 1))
    assert passed_on([ACCOUNT, ACCOUNT, long]) == (ACCOUNT, Redacted(text="x" * LONGEST_PASSED))


def test_a_nested_run_tells_its_parent() -> None:
    play = asked({"iban": "DE89"}, parent=Parent(run_id="run", prefix="e1."))
    (report,) = (one for one in play.commands if isinstance(one, NotifyParent))
    assert report.record.redacted == (ACCOUNT,)


def test_a_parent_hides_what_nested_runs_hide_and_tells_the_next() -> None:
    play = Play.ready(keep_open=True)
    play.replies(nested("Payments", "c1"))
    effect = next(one for one in play.state.pending if isinstance(one, RunAgent))
    assert effect.redacted == ()
    for _ in range(2):
        play.take(
            NestedReported(
                at_ms=play.now_ms, nested_id=effect.nested_id, requests=(), redacted=(ACCOUNT,)
            )
        )
    assert play.state.redacted == redacted_in(play.state) == (ACCOUNT,)
    other = Redacted(text="DE90")
    play.worked(final_output="Done.", redacted=(ACCOUNT, other))
    assert play.state.redacted == (ACCOUNT, other)
    play.replies(nested("Payments", "c2"))
    again = next(one for one in play.state.pending if isinstance(one, RunAgent))
    assert again.redacted == (ACCOUNT, other)


def test_named_arguments_of_any_text_are_values() -> None:
    found = redacted.values_of(
        '{"iban": "DE02 1203", "to": {"name": "Ann"}, "euros": 5}', ("iban", "to", "x")
    )
    assert list(found) == ["DE02 1203", "Ann"]
    assert list(redacted.values_of("no JSON", ("iban",))) == []
