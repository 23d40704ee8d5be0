"""Which provider a model is of, in the words of the conventions."""

from functools import lru_cache
from typing import Final

_ROUTES: Final = {
    "anthropic": "anthropic",
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "cohere": "cohere",
    "deepseek": "deepseek",
    "gemini": "gcp.gemini",
    "google": "gcp.gen_ai",
    "groq": "groq",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "openai": "openai",
    "perplexity": "perplexity",
    "vertex_ai": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}
"""The first part of a model's name, such as `anthropic/` after `litellm/`."""

_FAMILIES: Final = {
    "claude": "anthropic",
    "command": "cohere",
    "deepseek": "deepseek",
    "gemini": "gcp.gemini",
    "gpt": "openai",
    "grok": "x_ai",
    "mistral": "mistral_ai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "sonar": "perplexity",
}

UNKNOWN: Final = "_OTHER"


@lru_cache(maxsize=256)
def provider_of(model: str) -> str:
    """Return the provider of a model, by its route or its family; `_OTHER` if neither says."""
    *routes, name = model.lower().split("/")
    for route in reversed(routes):
        if route in _ROUTES:
            return _ROUTES[route]
    return next((of for family, of in _FAMILIES.items() if name.startswith(family)), UNKNOWN)
