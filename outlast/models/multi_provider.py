"""Finds a model's provider by the prefix of its name. Workers use it by default."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from outlast.agents.checks import check_choice
from outlast.agents.errors import UserError
from outlast.models.defaults import get_default_model
from outlast.models.openai.provider import PREFIX, OpenAIProvider
from outlast.ports.model import Model, ModelProvider

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from outlast.models.openai.responses_websocket import OpenAIResponsesWebSocketOptions

PrefixMode: TypeAlias = Literal["alias", "model_id"]
UnknownPrefixMode: TypeAlias = Literal["error", "model_id"]

_OPENAI = PREFIX.removesuffix("/")


def _litellm() -> ModelProvider:
    from outlast.models.litellm import LitellmProvider

    return LitellmProvider()


_PACKAGES: dict[str, Callable[[], ModelProvider]] = {"litellm": _litellm}
"""Built-in prefixes, whose providers are created on first use."""


class MultiProviderMap:
    """Maps prefixes of model names, without the slash, to providers."""

    def __init__(self) -> None:
        self._providers: dict[str, ModelProvider] = {}

    def has_prefix(self, prefix: str) -> bool:
        """Whether the prefix has a provider."""
        return prefix in self._providers

    def get_mapping(self) -> dict[str, ModelProvider]:
        """Return a copy of the mapping from prefixes to providers."""
        return dict(self._providers)

    def set_mapping(self, mapping: dict[str, ModelProvider]) -> None:
        """Replace the whole mapping."""
        self._providers = mapping

    def get_provider(self, prefix: str) -> ModelProvider | None:
        """Return the provider for a prefix, or None."""
        return self._providers.get(prefix)

    def add_provider(self, prefix: str, provider: ModelProvider) -> None:
        """Set the provider for a prefix, replacing any previous provider."""
        self._providers[prefix] = provider

    def remove_provider(self, prefix: str) -> None:
        """Remove the provider for a prefix.

        Raises:
            KeyError: the prefix has no provider.
        """
        del self._providers[prefix]


class MultiProvider:
    """A provider that finds a model by its name's prefix; the default is OpenAI.

    `openai/gpt-5.4` is OpenAI's `gpt-5.4`, and `litellm/anthropic/claude-sonnet-4-5` is called
    through LiteLLM. The prefixes of a `provider_map` take precedence.

    Attributes:
        provider_map: custom providers, by prefix.
        openai_provider: the provider for names without a prefix.
    """

    def __init__(  # noqa: PLR0913  the known names of its settings
        self,
        *,
        provider_map: MultiProviderMap | None = None,
        openai_api_key: str | None = None,
        openai_base_url: str | None = None,
        openai_client: "AsyncOpenAI | None" = None,
        openai_organization: str | None = None,
        openai_project: str | None = None,
        openai_use_responses: bool | None = None,
        openai_use_responses_websocket: bool | None = None,
        openai_websocket_base_url: str | None = None,
        openai_responses_websocket_options: "OpenAIResponsesWebSocketOptions | None" = None,
        openai_prefix_mode: PrefixMode = "alias",
        unknown_prefix_mode: UnknownPrefixMode = "error",
    ) -> None:
        """Create the provider; nothing is connected yet.

        Args:
            provider_map: custom providers, by prefix.
            openai_api_key: as for `OpenAIProvider`, like the other arguments with this prefix.
            openai_base_url: the server's URL.
            openai_client: a client to use unchanged.
            openai_organization: the OpenAI organization that is billed.
            openai_project: the OpenAI project that is billed.
            openai_use_responses: which API: true for Responses, false for Chat Completions.
            openai_use_responses_websocket: whether WebSockets carry the Responses API.
            openai_websocket_base_url: the URL of WebSockets.
            openai_responses_websocket_options: options of each WebSocket.
            openai_prefix_mode: `alias` removes the prefix `openai/`; `model_id` keeps it, for
                servers whose model names start with it.
            unknown_prefix_mode: `error` rejects an unknown prefix; `model_id` treats it as part of
                a model name on OpenAI's or the configured server.

        Raises:
            UserError: a mode is invalid; or as for `OpenAIProvider`.
        """
        place = "MultiProvider(openai_prefix_mode=...)"
        check_choice(place, openai_prefix_mode, get_args(PrefixMode))
        place = "MultiProvider(unknown_prefix_mode=...)"
        check_choice(place, unknown_prefix_mode, get_args(UnknownPrefixMode))
        self.provider_map = provider_map
        self.openai_provider: OpenAIProvider = OpenAIProvider(
            api_key=openai_api_key,
            base_url=openai_base_url,
            openai_client=openai_client,
            organization=openai_organization,
            project=openai_project,
            use_responses=openai_use_responses,
            use_responses_websocket=openai_use_responses_websocket,
            websocket_base_url=openai_websocket_base_url,
            responses_websocket_options=openai_responses_websocket_options,
        )
        self._openai_prefix_mode = openai_prefix_mode
        self._unknown_prefix_mode = unknown_prefix_mode
        self._made: dict[str, ModelProvider] = {}

    def get_model(self, model_name: str | None) -> Model:
        """Return the model of this name, or the default model for None.

        The environment's default model may have any supported prefix.

        Raises:
            UserError: the prefix is unknown, or the package that it needs is not installed.
        """
        if not model_name:
            default = get_default_model()
            provider = self._provider_of(default.partition("/")[0]) if "/" in default else None
            if provider is None:
                return self.openai_provider.get_model(None)
            return provider.get_model(default.partition("/")[2])
        prefix, slash, rest = model_name.partition("/")
        if not slash:
            return self.openai_provider.get_model(model_name)
        provider = self._provider_of(prefix)
        if provider is not None:
            return provider.get_model(rest)
        if prefix == _OPENAI:
            alias = self._openai_prefix_mode == "alias"
            return self._of_openai(rest if alias else model_name)
        if self._unknown_prefix_mode == "model_id":
            return self._of_openai(model_name)
        raise UserError(
            f"Unknown prefix: {prefix}, of the model {model_name!r}."
            f" The providers are {self._prefixes()}. If it belongs to the model's name, write"
            f" {PREFIX + model_name!r} or pass the worker"
            " model_provider=MultiProvider(unknown_prefix_mode='model_id'). Register a provider of"
            " your own with MultiProvider(provider_map=...)."
        )

    def _of_openai(self, model_id: str) -> Model:
        provider = self.openai_provider
        return getattr(provider, "model_of_id", provider.get_model)(model_id)

    async def aclose(self) -> None:
        """Close the connections of all providers, including those of the map.

        Raises:
            Exception: the first error; the other providers are closed nevertheless.
        """
        mapped = self.provider_map.get_mapping().values() if self.provider_map else ()
        first: Exception | None = None
        every = {id(one): one for one in (self.openai_provider, *mapped, *self._made.values())}
        every.pop(id(self), None)
        for provider in every.values():
            try:
                await provider.aclose()
            except Exception as error:  # noqa: BLE001  raised below, when all are closed
                first = first or error
        if first is not None:
            raise first

    def _provider_of(self, prefix: str) -> ModelProvider | None:
        provider = self.provider_map.get_provider(prefix) if self.provider_map else None
        if provider is not None or prefix not in _PACKAGES:
            return provider
        if prefix not in self._made:
            self._made[prefix] = _PACKAGES[prefix]()
        return self._made[prefix]

    def _prefixes(self) -> str:
        mapped = self.provider_map.get_mapping() if self.provider_map else {}
        return ", ".join(f"{prefix}/" for prefix in dict.fromkeys([*mapped, _OPENAI, *_PACKAGES]))
