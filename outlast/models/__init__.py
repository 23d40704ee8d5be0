"""Language models behind `outlast.ports.model`: OpenAI's, and those of other providers.

Owns: the adapters to the Responses and the Chat Completions API, over the `openai` package,
LiteLLM or any-llm. Must not know: Temporal, agents, runs. Importing it imports none of these
packages, which take seconds; the first call does.
"""

from outlast.models.any_llm_models import AnyLLMModel, AnyLLMProvider
from outlast.models.chat_completions import ChatCompletionsModel
from outlast.models.connection import OpenAIConnection
from outlast.models.default_models import (
    DEFAULT_MODEL,
    get_default_model,
    gpt_5_reasoning_settings_required,
    is_gpt_5_default,
)
from outlast.models.defaults import (
    set_default_openai_api,
    set_default_openai_client,
    set_default_openai_key,
)
from outlast.models.litellm_models import LitellmModel, LitellmProvider
from outlast.models.multi_provider import MultiProvider, MultiProviderMap
from outlast.models.openai_models import OpenAIChatCompletionsModel, OpenAIResponsesModel
from outlast.models.provider import OpenAIProvider
from outlast.models.responses import ResponsesModel

__all__ = [
    "DEFAULT_MODEL",
    "AnyLLMModel",
    "AnyLLMProvider",
    "ChatCompletionsModel",
    "LitellmModel",
    "LitellmProvider",
    "MultiProvider",
    "MultiProviderMap",
    "OpenAIChatCompletionsModel",
    "OpenAIConnection",
    "OpenAIProvider",
    "OpenAIResponsesModel",
    "ResponsesModel",
    "get_default_model",
    "gpt_5_reasoning_settings_required",
    "is_gpt_5_default",
    "set_default_openai_api",
    "set_default_openai_client",
    "set_default_openai_key",
]
