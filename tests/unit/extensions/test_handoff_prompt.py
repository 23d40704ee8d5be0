"""What agents that hand over to each other should be told."""

from outlast.extensions.handoff_prompt import (
    RECOMMENDED_PROMPT_PREFIX,
    prompt_with_handoff_instructions,
)


def test_the_recommended_words_come_before_the_instructions() -> None:
    prompt = prompt_with_handoff_instructions("You pay money back.")
    assert prompt.startswith(RECOMMENDED_PROMPT_PREFIX)
    assert prompt.endswith("\nYou pay money back.")


def test_the_words_tell_what_a_handoff_is_called_and_that_it_is_not_talked_about() -> None:
    assert "transfer_to_" in RECOMMENDED_PROMPT_PREFIX
    assert "do not mention them" in RECOMMENDED_PROMPT_PREFIX
