"""The settings that a model gets from its name, where an agent sets none."""

import re

from outlast.agents.config.model_settings import ModelSettings

UNSET = ModelSettings()
"""The settings of an agent that sets none. Compare by identity: `ModelSettings()` is a choice."""

_NO_DEFAULTS = ModelSettings()
"""The settings of models without defaults."""

_EFFORTS = {
    "gpt-5": "low",
    "gpt-5.1": "none",
    "gpt-5.2": "none",
    "gpt-5.2-pro": "medium",
    "gpt-5.2-codex": "low",
    "gpt-5.3-codex": "none",
    "gpt-5.4": "none",
    "gpt-5.4-pro": "medium",
    "gpt-5.4-mini": "none",
    "gpt-5.4-nano": "none",
    "gpt-5.5": "none",
    "gpt-5.6": "none",
    "gpt-5.6-sol": "none",
    "gpt-5.6-terra": "none",
    "gpt-5.6-luna": "none",
}
"""The reasoning effort of each model; not `minimal`, which some hosted tools do not accept."""

_DATE = re.compile(r"-\d{4}-\d{2}-\d{2}$")


def gpt_5_reasoning_settings_required(model_name: str) -> bool:
    """Whether a model is a GPT-5 reasoning model, not a GPT-5 chat model."""
    return model_name.startswith("gpt-5") and "-chat" not in model_name


def settings_of_model(model_name: str) -> ModelSettings:
    """Return a model's default settings; those of GPT-5 are for short, quick answers."""
    if not gpt_5_reasoning_settings_required(model_name):
        return _NO_DEFAULTS
    effort = _EFFORTS.get(_DATE.sub("", model_name))
    return ModelSettings(reasoning=None if effort is None else {"effort": effort}, verbosity="low")
