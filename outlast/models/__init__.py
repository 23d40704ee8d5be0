"""Language models behind `outlast.ports.model`: OpenAI and every server that speaks its APIs.

Owns: the adapters to the Responses and the Chat Completions API over the `openai` package. Must
not know: Temporal, agents, runs. Importing it does not import `openai`, which takes half a
second; the first call does.
"""

from outlast.models.chat_completions import ChatCompletionsModel
from outlast.models.connection import OpenAIConnection
from outlast.models.defaults import (
    set_default_openai_api,
    set_default_openai_client,
    set_default_openai_key,
)
from outlast.models.openai_models import OpenAIChatCompletionsModel, OpenAIResponsesModel
from outlast.models.provider import DEFAULT_MODEL, OpenAIProvider
from outlast.models.responses import ResponsesModel

__all__ = [
    "DEFAULT_MODEL",
    "ChatCompletionsModel",
    "OpenAIChatCompletionsModel",
    "OpenAIConnection",
    "OpenAIProvider",
    "OpenAIResponsesModel",
    "ResponsesModel",
    "set_default_openai_api",
    "set_default_openai_client",
    "set_default_openai_key",
]
