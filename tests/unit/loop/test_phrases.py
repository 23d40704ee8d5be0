"""What the model is told, in words that say nothing of internals."""

import json

import pytest

from outlast.loop import phrases


@pytest.mark.parametrize("target", ["Billing", 'The "best" agent', "Käse", "日本", "a\nb"])
def test_a_handover_names_the_agent_in_readable_json(target: str) -> None:
    text = phrases.handed_over(target)
    assert json.loads(text) == {"assistant": target}
    assert "\\u" not in text


def test_a_tool_that_took_too_long_is_said_to_have() -> None:
    assert phrases.tool_failed("refund", "tool_timeout") == (
        "The tool refund did not finish in time."
    )


@pytest.mark.parametrize("code", ["tool_failed", "ValueError", "internal_error", "cancelled", ""])
def test_any_other_failure_of_a_tool_is_told_without_its_cause(code: str) -> None:
    text = phrases.tool_failed("refund", code)
    assert text == "The tool refund failed and cannot be used right now."


def test_used_up_turns_name_the_number_and_the_way_out() -> None:
    text = phrases.turns_used_up(7)
    assert "7 model calls" in text
    assert "max_turns" in text
    assert "Max turns (1) exceeded: the run made 1 model call and" in phrases.turns_used_up(1)


def test_the_fixed_sentences_are_those_that_transcripts_have() -> None:
    """Models have read them, and tests of users compare with them."""
    assert phrases.CANCELLED == "This call was cancelled and did not run to its end."
    assert phrases.NOT_RUN == "This call was not run, because the run could not go on."
    assert phrases.STOPPED == "The run was cancelled."
    assert phrases.REJECTED == "A person decided that this call must not run."
    assert phrases.WITHHELD == "[This output was withheld by a guardrail.]"
    assert phrases.UNCHECKED.startswith("[This output is withheld: not all guardrails")
    assert phrases.UNCHECKED.endswith("could check it.]")
    assert phrases.HANDOFF_IGNORED.startswith("This handoff was ignored: a reply can hand over")
    assert phrases.HANDOFF_IGNORED.endswith(" to one agent only.")


def test_the_fixed_sentences_differ_from_each_other() -> None:
    fixed = {phrases.CANCELLED, phrases.NOT_RUN, phrases.REJECTED, phrases.HANDOFF_IGNORED}
    assert len(fixed) == 4
    assert all(sentence.endswith(".") for sentence in fixed)


def test_a_conversation_that_is_full_names_the_run_and_the_way_out() -> None:
    said = phrases.conversation_full("support-42")
    assert "support-42" in said
    assert "blob store" in said


def test_a_full_run_says_what_to_do() -> None:
    said = phrases.conversation_full("support-42")
    assert "support-42" in said
    assert "OUTLAST_BLOB_STORE" in said


def test_a_question_back_says_who_asks_and_what_to_do() -> None:
    text = phrases.asked_back("Ann", "Which order?")
    assert text.startswith("Ann of the team has not decided about this yet, and asks: Which order?")
    assert phrases.asked_back("", "Why?").startswith("A person of the team")
