"""Language models behind `outlast.ports.model`.

Importing this package imports neither `openai` nor LiteLLM, which take seconds; the first call
does.
"""

from outlast.models.defaults import (
    DEFAULT_MODEL,
    get_default_model,
    get_default_model_settings,
    gpt_5_reasoning_settings_required,
    is_gpt_5_default,
    set_default_openai_api,
    set_default_openai_client,
    set_default_openai_key,
    set_default_openai_responses_transport,
)
from outlast.models.litellm import LitellmModel, LitellmProvider
from outlast.models.multi_provider import MultiProvider, MultiProviderMap
from outlast.models.openai.chat_completions import ChatCompletionsModel, OpenAIChatCompletionsModel
from outlast.models.openai.connection import OpenAIConnection
from outlast.models.openai.provider import OpenAIProvider
from outlast.models.openai.responses import OpenAIResponsesModel, ResponsesModel
from outlast.models.openai.responses_websocket import (
    OpenAIResponsesWebSocketOptions,
    OpenAIResponsesWSModel,
)

__all__ = [
    "DEFAULT_MODEL",
    "ChatCompletionsModel",
    "LitellmModel",
    "LitellmProvider",
    "MultiProvider",
    "MultiProviderMap",
    "OpenAIChatCompletionsModel",
    "OpenAIConnection",
    "OpenAIProvider",
    "OpenAIResponsesModel",
    "OpenAIResponsesWSModel",
    "OpenAIResponsesWebSocketOptions",
    "ResponsesModel",
    "get_default_model",
    "get_default_model_settings",
    "gpt_5_reasoning_settings_required",
    "is_gpt_5_default",
    "set_default_openai_api",
    "set_default_openai_client",
    "set_default_openai_key",
    "set_default_openai_responses_transport",
]
