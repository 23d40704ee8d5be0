"""Finds models of OpenAI and of compatible servers by name."""

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from outlast.agents.checks import check_choice
from outlast.agents.errors import UserError
from outlast.models.defaults import Transport, defaults, get_default_model
from outlast.models.openai.connection import OpenAIConnection
from outlast.models.openai.responses import OpenAIResponsesModel

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    # Only providers with Chat Completions, or with WebSockets, load them.
    from outlast.models.openai.chat_completions import OpenAIChatCompletionsModel
    from outlast.models.openai.responses_websocket import OpenAIResponsesWebSocketOptions
    from outlast.models.openai.socket_connection import SocketConnection

ProviderApi: TypeAlias = Literal["responses", "chat"]

PREFIX = "openai/"
"""The optional prefix of this provider's model names."""


class OpenAIProvider:
    """A provider of the models of one OpenAI-compatible server.

    An instance lives as long as its worker.

    Nothing is connected, checked or even imported until the first call: a missing key or a wrong
    URL raises a `ModelError` in that call.
    """

    def __init__(  # noqa: PLR0913  the known names of its settings
        self,
        api_key: str | None = None,
        base_url: str | None = None,
        *,
        api: ProviderApi | None = None,
        default_model: str | None = None,
        openai_client: "AsyncOpenAI | None" = None,
        use_responses: bool | None = None,
        organization: str | None = None,
        project: str | None = None,
        transport: Transport | None = None,
        use_responses_websocket: bool | None = None,
        websocket_base_url: str | None = None,
        responses_websocket_options: "OpenAIResponsesWebSocketOptions | None" = None,
    ) -> None:
        """Create a provider for a server, an API and a default model.

        Args:
            api_key: None means OPENAI_API_KEY. A server on this machine needs no key.
            base_url: None means OPENAI_BASE_URL, else OpenAI's own URL.
            api: `responses`, or `chat` for servers that only have Chat Completions; None means
                the API set with `set_default_openai_api`, else `responses`.
            default_model: the model of agents that name none; None means the environment's
                (OUTLAST_MODEL, OPENAI_DEFAULT_MODEL), else outlast's default.
            openai_client: a client to use unchanged, for Azure, proxies or other transports. Its
                retries are switched off per call; the caller closes it.
            use_responses: another way to choose the API: true for `responses`, false for `chat`.
            organization: the OpenAI organization that is billed; None means OPENAI_ORG_ID.
            project: the OpenAI project that is billed; None means OPENAI_PROJECT_ID.
            transport: `http`, or `websocket`, which needs the extra `realtime`; None means the
                one set with `set_default_openai_responses_transport`, else `http`.
            use_responses_websocket: another way to choose the transport.
            websocket_base_url: None means OPENAI_WEBSOCKET_BASE_URL, else the base URL.
            responses_websocket_options: options of each WebSocket.

        Raises:
            UserError: an argument is invalid, or a client is combined with arguments that would
                configure another one.
        """
        made_of = (api_key, base_url, websocket_base_url, organization, project)
        if openai_client is not None and made_of != (None,) * len(made_of):
            raise UserError(
                "OpenAIProvider(openai_client=...) uses the client unchanged. Don't provide api_key, "
                "base_url, websocket_base_url, organization, or project beside it: set them there."
            )
        self._api = _api_of(api, use_responses=use_responses)
        self._transport = _transport_of(transport, self._api, use_websocket=use_responses_websocket)
        self._socket_options = _socket_options(responses_websocket_options)
        self._default_model = default_model
        self._connection = OpenAIConnection(
            api_key=api_key,
            base_url=base_url,
            client=openai_client,
            organization=organization,
            project=project,
            websocket_base_url=websocket_base_url,
        )
        self._is_plain = openai_client is None and made_of[:3] == (None, None, None)
        self._sockets: dict[int, SocketConnection] = {}

    def get_model(
        self, model_name: str | None
    ) -> "OpenAIResponsesModel | OpenAIChatCompletionsModel":
        """Return the model of this name, or the default for None.

        A prefix `openai/` is removed, because it names the provider.
        """
        chosen = model_name or self._default_model or get_default_model()
        return self._model(chosen.removeprefix(PREFIX), is_default=not model_name)

    def model_of_id(self, model_id: str) -> "OpenAIResponsesModel | OpenAIChatCompletionsModel":
        """Return the model with exactly this name on the server, prefix included."""
        return self._model(model_id, is_default=False)

    async def aclose(self) -> None:
        """Close the connections. Called once, when the worker stops."""
        for sockets in self._sockets.values():
            await sockets.aclose()
        await self._connection.aclose()

    def _model(
        self, name: str, *, is_default: bool
    ) -> "OpenAIResponsesModel | OpenAIChatCompletionsModel":
        connection = self._connection
        if self._is_plain and defaults.client is not None:
            connection = OpenAIConnection(client=defaults.client)
        api = self._api or defaults.api
        if api != "responses":
            from outlast.models.openai.chat_completions import OpenAIChatCompletionsModel

            return OpenAIChatCompletionsModel.over(name, connection)
        if (self._transport or defaults.transport) == "http":
            return OpenAIResponsesModel.over(name, connection, is_default=is_default)
        from outlast.models.openai.responses_websocket import OpenAIResponsesWSModel

        sockets = self._sockets_of(connection, name)
        return OpenAIResponsesWSModel.over(name, sockets, is_default=is_default)

    def _sockets_of(self, http: OpenAIConnection, name: str) -> "SocketConnection":
        from outlast.models.openai.responses_websocket import check_websockets
        from outlast.models.openai.socket_connection import SocketConnection

        check_websockets(f"The model {name!r} over WebSocket")
        client = None if http is self._connection else defaults.client
        if id(client) not in self._sockets:
            self._sockets[id(client)] = SocketConnection(http=http, options=self._socket_options)
        return self._sockets[id(client)]


def _socket_options(options: "OpenAIResponsesWebSocketOptions | None") -> dict[str, Any]:
    if options is None:
        return {}
    from outlast.models.openai.responses_websocket import checked_options

    return checked_options(options)


def _api_of(api: ProviderApi | None, *, use_responses: bool | None) -> ProviderApi | None:
    if use_responses is not None:
        return "responses" if use_responses else "chat"
    check_choice("OpenAIProvider(api=...)", api, (*get_args(ProviderApi), None))
    return api


def _transport_of(
    transport: Transport | None, api: ProviderApi | None, *, use_websocket: bool | None
) -> Transport | None:
    if use_websocket is not None:
        transport = "websocket" if use_websocket else "http"
    check_choice("OpenAIProvider(transport=...)", transport, (*get_args(Transport), None))
    if api == "chat" and transport == "websocket":
        raise UserError(
            'OpenAIProvider(transport="websocket") needs the Responses API: Chat Completions has'
            " no WebSockets. Leave out one of the two."
        )
    return transport
