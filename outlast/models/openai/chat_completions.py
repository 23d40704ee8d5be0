"""The Chat Completions API, which nearly every model server has: one call, whole or streamed."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from outlast.loop.values import JsonObject
from outlast.models.failures import Target, bad_response, refused_request
from outlast.models.openai.chat_reply import ChatReply, UnreadableReplyError, response_from_chat
from outlast.models.openai.chat_request import UnsupportedItemError, chat_body
from outlast.models.openai.connection import REQUEST_ID, ModelConnection, OpenAIConnection
from outlast.models.openai.responses import read_response
from outlast.ports.model import ModelRequest, ModelResponse
from outlast.ports.model_arguments import answers_both_forms, streams_both_forms

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_PATH = "/chat/completions"

_NEW_LIMIT_HOSTS = ("openai.com", "openai.azure.com")
"""Who refuses `max_tokens` for newer models; elsewhere `max_completion_tokens` may be unknown."""


class ChatCompletionsModel:
    """A model behind the Chat Completions API. Retries nothing.

    Items come and go in the Responses format. `previous_response_id`, `conversation_id` and
    `prompt` are refused, because such a server keeps no state.

    Attributes:
        name: the model's name in the provider's words.
    """

    def __init__(
        self, name: str, connection: ModelConnection, *, rich_outputs: bool = False
    ) -> None:
        """Bind a name to a connection.

        Args:
            name: the model's name in the provider's words.
            connection: the way to the server; stays the caller's.
            rich_outputs: whether the server takes pictures and files in the outputs of tools. The
                API itself takes text only; without, the rest is left out.
        """
        self.name = name
        self._connection = connection
        self._rich_outputs = rich_outputs

    @answers_both_forms
    async def get_response(self, request: ModelRequest) -> ModelResponse:
        """Answer one request.

        Raises:
            ModelError: the provider refused, failed, or answered junk.
        """
        target = self._connection.target(_PATH, self.name)
        body = self._body(request, target)
        reply = await self._connection.post(target, body, request.settings)
        try:
            response = response_from_chat(reply.body, turn=len(request.input), model=self.name)
        except UnreadableReplyError as error:
            raise bad_response(target, str(error)) from None
        return read_response(response, target, request_id=reply.request_id)

    @streams_both_forms
    async def stream_response(self, request: ModelRequest) -> AsyncGenerator[JsonObject]:
        """Answer one request as the events of a Responses stream.

        Raises:
            ModelError: as for `get_response`, also in the middle of the stream.
        """
        target = self._connection.target(_PATH, self.name)
        # Without the option a stream says nothing of usage; not every server knows it.
        wanted = request.settings.include_usage is not False
        options = {"stream_options": {"include_usage": True}} if wanted else {}
        body = {**options, **self._body(request, target), "stream": True}
        reply = ChatReply(turn=len(request.input), model=self.name)
        chunks = self._connection.stream(target, body, request.settings, is_last=_never)
        request_id = None
        try:
            async with aclosing(chunks):
                async for chunk in chunks:
                    request_id = chunk.pop(REQUEST_ID, request_id)
                    for event in reply.add(chunk):
                        yield event
            for event in reply.finish():
                is_last = event.get("type") == "response.completed"
                yield {**event, REQUEST_ID: request_id} if is_last and request_id else event
        except UnreadableReplyError as error:
            raise bad_response(target, str(error)) from None

    def _body(self, request: ModelRequest, target: Target) -> JsonObject:
        host = urlsplit(target.base_url).hostname or ""
        new = any(host == known or host.endswith(f".{known}") for known in _NEW_LIMIT_HOSTS)
        limit_field = "max_completion_tokens" if new else "max_tokens"
        try:
            return chat_body(
                request, self.name, limit_field=limit_field, rich_outputs=self._rich_outputs
            )
        except UnsupportedItemError as error:
            raise refused_request(target, str(error)) from None


class OpenAIChatCompletionsModel(ChatCompletionsModel):
    """A model behind a Chat Completions API.

    Attributes:
        model: the model's name in the provider's words.
    """

    def __init__(self, model: str, openai_client: "AsyncOpenAI") -> None:
        """Bind a name to a client; the caller closes the client."""
        super().__init__(model, OpenAIConnection(client=openai_client))
        self.model = model


def _never(event: JsonObject) -> bool:
    # Usage comes after the last choice; the client itself knows the end of these streams.
    return False
