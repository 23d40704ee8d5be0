"""Models behind the Chat Completions API, which most model servers support."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.json_values import as_objects
from outlast.loop.values import JsonObject
from outlast.models.failures import (
    Target,
    bad_response,
    refused_request,
    reported_failure,
    unfinished_answer,
)
from outlast.models.openai.chat_reply import (
    ChatReply,
    ReportedError,
    UnknownEndError,
    UnreadableReplyError,
    response_from_chat,
)
from outlast.models.openai.chat_request import UnsupportedItemError, chat_body
from outlast.models.openai.connection import (
    REQUEST_ID,
    ModelConnection,
    OpenAIConnection,
    is_official_openai_base_url,
)
from outlast.models.openai.given_back import refused_fields
from outlast.models.openai.item_encoding import ItemEncoder
from outlast.models.openai.responses import answer_of, read_response
from outlast.ports.model import ModelError, ModelRequest, ModelResponse
from outlast.ports.model_arguments import answers_both_forms, streams_both_forms

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_PATH = "/chat/completions"

_messages = ItemEncoder()
"""Encodes the messages of all requests of this process."""

_NEW_LIMIT_HOSTS = (
    "openai.com",
    "openai.azure.com",
    "cognitiveservices.azure.com",
    "services.ai.azure.com",
)
"""Hosts that refuse `max_tokens` for newer models; others may not know `max_completion_tokens`."""


class ChatCompletionsModel:
    """A model behind the Chat Completions API. Never retries.

    Input and output items are in the Responses format. `previous_response_id`, `conversation_id`
    and `prompt` are refused, because such a server keeps no state.

    Attributes:
        name: the provider's name of the model, also as `model`.
    """

    def __init__(
        self, name: str, connection: ModelConnection, *, rich_outputs: bool = False
    ) -> None:
        """Create the model; the caller closes the connection.

        With `rich_outputs`, the server accepts images and files in outputs; else they are left out.
        """
        self.name: str = name
        self.model: str = name
        self._connection = connection
        self._rich_outputs = rich_outputs

    @classmethod
    def over(cls, name: str, connection: ModelConnection) -> Self:
        """Return a model of this class over a connection, which the caller closes."""
        made = cls.__new__(cls)
        ChatCompletionsModel.__init__(made, name, connection)
        return made

    @answers_both_forms
    async def get_response(self, request: ModelRequest) -> ModelResponse:
        """Answer one request."""
        target = self._connection.target(_PATH, self.name)
        body = self._body(request, target)
        reply = await self._connection.post(target, body, request.settings)
        try:
            response = response_from_chat(reply.body, turn=len(request.input), model=self.name)
        except UnreadableReplyError as error:
            raise _failure(error, target) from None
        return read_response(response, target, request_id=reply.request_id)

    @streams_both_forms
    async def stream_response(self, request: ModelRequest) -> AsyncGenerator[JsonObject]:
        """Answer one request as Responses stream events."""
        target = self._connection.target(_PATH, self.name)
        options = _stream_options(request.settings, target)
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
            *ends, last = reply.finish()
        except UnreadableReplyError as error:
            raise _failure(error, target) from None
        response = answer_of(last["response"], target)
        for event in ends:
            yield event
        named = {} if request_id is None else {REQUEST_ID: request_id}
        yield {**last, **named, "response": response}

    def server_url(self) -> str:
        """Return the URL of the server, for traces."""
        return self._connection.target(_PATH, self.name).base_url

    async def check_access(self) -> str:
        """Check the key, and return the URL of the server."""
        target = self._connection.target(_PATH, self.name)
        await self._connection.check_key(target)
        return target.base_url

    def _body(self, request: ModelRequest, target: Target) -> JsonObject:
        host = urlsplit(target.base_url).hostname or ""
        new = any(host == listed or host.endswith(f".{listed}") for listed in _NEW_LIMIT_HOSTS)
        limit_field = "max_completion_tokens" if new else "max_tokens"
        try:
            body = chat_body(
                request,
                self.name,
                limit_field=limit_field,
                rich_outputs=self._rich_outputs,
                refused=refused_fields(host, self.name),
            )
        except UnsupportedItemError as error:
            raise refused_request(target, str(error), param=error.param) from None
        messages = as_objects(body["messages"])
        if messages is not None:  # `extra_body` may have others
            body["messages"] = _messages.of_run(request.run_id, messages)
        return body


class OpenAIChatCompletionsModel(ChatCompletionsModel):
    """A model behind a Chat Completions API."""

    def __init__(self, model: str, openai_client: "AsyncOpenAI") -> None:
        super().__init__(model, OpenAIConnection(client=openai_client))


def _stream_options(settings: ModelSettings, target: Target) -> JsonObject:
    """Some servers refuse the option, so that by default only OpenAI's own gets it."""
    include_usage = settings.include_usage
    if include_usage is None and is_official_openai_base_url(target.base_url):
        include_usage = True
    return {} if include_usage is None else {"stream_options": {"include_usage": include_usage}}


def _failure(error: UnreadableReplyError, target: Target) -> ModelError:
    match error:
        case ReportedError():
            return reported_failure(error.report, target)
        case UnknownEndError():
            return unfinished_answer(target, error.reason)
        case _:
            return bad_response(target, str(error))


def _never(event: JsonObject) -> bool:
    # Usage follows the last choice, and the client itself detects the end of the stream.
    return False
