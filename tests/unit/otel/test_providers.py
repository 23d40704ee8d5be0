"""Providers, by the names of models."""

import pytest

from outlast.otel.providers import provider_of


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("gpt-5", "openai"),
        ("litellm/anthropic/claude-opus-4-8", "anthropic"),
        ("claude-haiku-4-5", "anthropic"),
        ("litellm/bedrock/anthropic.claude-v2", "aws.bedrock"),
        ("azure/gpt-5", "azure.ai.openai"),
        ("gemini-3-pro", "gcp.gemini"),
        ("ScriptedModel", "_OTHER"),
        ("", "_OTHER"),
        ("/", "_OTHER"),
    ],
)
def test_the_route_says_more_than_the_family(model: str, provider: str) -> None:
    assert provider_of(model) == provider
