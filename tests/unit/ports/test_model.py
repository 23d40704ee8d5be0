"""The port to a model: what adapters implement and what they may raise."""

from datetime import timedelta

import pytest

from outlast.agents.settings import ModelSettings
from outlast.models.provider import OpenAIProvider
from outlast.ports.model import ModelError, ModelProvider, ModelRequest, ModelResponse
from outlast.testing import ScriptedModel


def test_a_request_needs_instructions_and_input_only() -> None:
    request = ModelRequest(instructions=None, input=[])
    assert (request.tools, request.output, request.settings) == ((), None, ModelSettings())
    assert (request.previous_response_id, request.conversation_id, request.prompt) == (
        None,
        None,
        None,
    )


def test_an_error_says_what_to_do_next() -> None:
    wait = timedelta(seconds=3)
    error = ModelError("Busy.", code="overloaded", retryable=True, retry_after=wait, status=503)
    assert str(error) == error.message == "Busy."
    assert (error.code, error.retryable, error.retry_after, error.status) == (
        "overloaded",
        True,
        wait,
        503,
    )


@pytest.mark.parametrize("provider", [OpenAIProvider, ScriptedModel])
def test_what_finds_models_is_recognised_as_a_provider(provider: type) -> None:
    assert isinstance(provider(), ModelProvider)


@pytest.mark.parametrize("thing", [object(), "gpt-5", None, ModelResponse])
def test_what_does_not_is_not(thing: object) -> None:
    assert not isinstance(thing, ModelProvider)
