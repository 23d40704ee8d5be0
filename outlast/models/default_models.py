"""The model of agents that name none: what the environment says, or our own choice.

Owns: which variables say so, and the questions about it that programs ask. Must not know: providers.
"""

import os

DEFAULT_MODEL = "gpt-5.4-mini"
"""The model of a worker that names none: quick and cheap, and good at calling tools."""

VARIABLES = ("OUTLAST_MODEL", "OPENAI_DEFAULT_MODEL")
"""Where the environment names the model; the first one that does counts."""


def get_default_model() -> str:
    """Return the name of the model for agents that name none, as this process would choose it."""
    return next((name for one in VARIABLES if (name := os.environ.get(one))), DEFAULT_MODEL)


def gpt_5_reasoning_settings_required(model_name: str) -> bool:
    """Say whether a model is one of the GPT-5 family that reasons: its chat models do not."""
    return model_name.startswith("gpt-5") and "-chat" not in model_name


def is_gpt_5_default() -> bool:
    """Say whether the model of agents that name none is one of the GPT-5 family that reasons."""
    return gpt_5_reasoning_settings_required(get_default_model())
