"""Finds models of OpenAI and of compatible servers by name."""

from typing import TYPE_CHECKING, Literal

from outlast.agents.errors import UserError
from outlast.models.defaults import defaults, get_default_model
from outlast.models.openai.chat_completions import ChatCompletionsModel
from outlast.models.openai.connection import OpenAIConnection
from outlast.models.openai.responses import ResponsesModel

if TYPE_CHECKING:
    from openai import AsyncOpenAI

PREFIX = "openai/"
"""The optional prefix of this provider's model names."""


class OpenAIProvider:
    """A provider of the models of one OpenAI-compatible server.

    An instance lives as long as its worker.

    Nothing is connected, checked or even imported until the first call: a missing key or a wrong
    URL raises a `ModelError` in that call.
    """

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | None = None,
        *,
        api: Literal["responses", "chat"] | None = None,
        default_model: str | None = None,
        openai_client: "AsyncOpenAI | None" = None,
        use_responses: bool | None = None,
        organization: str | None = None,
        project: str | None = None,
    ) -> None:
        """Create a provider for a server, an API and a default model.

        Args:
            api_key: None means OPENAI_API_KEY. A server on this machine needs no key.
            base_url: None means OPENAI_BASE_URL, else OpenAI's own URL.
            api: `responses`, or `chat` for servers that only have Chat Completions; None means
                the API set with `set_default_openai_api`, else `responses`.
            default_model: the model of agents that name none; None means the environment's
                (OUTLAST_MODEL, OPENAI_DEFAULT_MODEL), else outlast's default.
            openai_client: a client to use unchanged, instead of a key and a URL: for Azure,
                proxies or other transports. Its retries are switched off per call; the caller
                closes it.
            use_responses: another way to choose the API: true for `responses`, false for `chat`.
            organization: the OpenAI organization that is billed; None means OPENAI_ORG_ID.
            project: the OpenAI project that is billed; None means OPENAI_PROJECT_ID.

        Raises:
            UserError: a client is combined with arguments that would configure another one, or the
                API is invalid.
        """
        made_of = (api_key, base_url, organization, project)
        if openai_client is not None and any(one is not None for one in made_of):
            raise UserError(
                "OpenAIProvider(openai_client=...) is used as it is: give api_key, base_url, "
                "organization and project to the client."
            )
        if use_responses is not None:
            api = "responses" if use_responses else "chat"
        if api not in ("responses", "chat", None):
            raise UserError(f'OpenAIProvider(api=...) is "responses" or "chat", not {api!r}.')
        self._api = api
        self._default_model = default_model
        self._connection = OpenAIConnection(
            api_key=api_key,
            base_url=base_url,
            client=openai_client,
            organization=organization,
            project=project,
        )
        self._is_plain = api_key is None and base_url is None and openai_client is None

    def get_model(self, model_name: str | None) -> ResponsesModel | ChatCompletionsModel:
        """Return the model of this name, or the default for None.

        A prefix `openai/` is removed, because it names the provider.
        """
        chosen = model_name or self._default_model or get_default_model()
        return self._model(chosen.removeprefix(PREFIX), is_default=not model_name)

    def model_of_id(self, model_id: str) -> ResponsesModel | ChatCompletionsModel:
        """Return the model with exactly this name on the server, whatever its prefix."""
        return self._model(model_id, is_default=False)

    async def aclose(self) -> None:
        """Close the connections. Called once, when the worker stops."""
        await self._connection.aclose()

    def _model(self, name: str, *, is_default: bool) -> ResponsesModel | ChatCompletionsModel:
        connection = self._connection
        if self._is_plain and defaults.client is not None:
            connection = OpenAIConnection(client=defaults.client)
        api = self._api or defaults.api
        if api != "responses":
            return ChatCompletionsModel(name, connection)
        return ResponsesModel(name, connection, is_default=is_default)
