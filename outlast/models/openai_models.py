"""One model behind a client of the caller's own, to be given as `Agent(model=...)`.

Owns: `OpenAIResponsesModel` and `OpenAIChatCompletionsModel`. Must not know: the APIs themselves.
"""

from typing import TYPE_CHECKING

from outlast.models.chat_completions import ChatCompletionsModel
from outlast.models.connection import OpenAIConnection
from outlast.models.responses import ResponsesModel

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class OpenAIResponsesModel(ResponsesModel):
    """A model behind the Responses API.

    Attributes:
        model: the model's name in the provider's words.
    """

    def __init__(self, model: str, openai_client: "AsyncOpenAI") -> None:
        """Bind a name to a client, which stays the caller's."""
        super().__init__(model, OpenAIConnection(client=openai_client))
        self.model = model


class OpenAIChatCompletionsModel(ChatCompletionsModel):
    """A model behind a Chat Completions API.

    Attributes:
        model: the model's name in the provider's words.
    """

    def __init__(self, model: str, openai_client: "AsyncOpenAI") -> None:
        """Bind a name to a client, which stays the caller's."""
        super().__init__(model, OpenAIConnection(client=openai_client))
        self.model = model
