"""Models through any-llm, which is imported on first use."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from importlib import import_module
from typing import Any, Literal, TypeAlias

from outlast.agents.config.settings import ModelSettings
from outlast.agents.errors import UserError
from outlast.loop.values import JsonObject
from outlast.models.defaults import get_default_model
from outlast.models.failures import Target, refused_request
from outlast.models.gateways.connection import (
    PackageConnection,
    call_arguments,
    check_installed,
    close,
    gateway_target,
    load,
    package_failure,
)
from outlast.models.loop_values import LoopValues
from outlast.models.openai.chat_completions import ChatCompletionsModel
from outlast.models.openai.connection import has_failed
from outlast.models.openai.responses import ResponsesModel
from outlast.ports.model import ModelRequest, ModelResponse
from outlast.ports.model_arguments import answers_both_forms, streams_both_forms

Api: TypeAlias = Literal["responses", "chat_completions"]

__all__ = ["AnyLLM", "AnyLLMModel", "AnyLLMProvider"]  # noqa: F822  # pyright: ignore[reportUnsupportedDunderAll]  by `__getattr__`

_PREFIX = "any-llm/"

_RESPONSES = "/responses"

_GOOGLE = frozenset({"gemini", "vertexai"})
"""Providers whose packages take headers in `http_options`."""


def __getattr__(name: str) -> Any:
    """Return any-llm's factory, which programs' tests replace."""
    if name != "AnyLLM":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module("any_llm").AnyLLM


class AnyLLMModel:
    """A model behind any-llm, which never retries.

    Example: `AnyLLMModel("mistral/mistral-large-latest")`.

    Attributes:
        model: any-llm's name of the provider, a slash, and the provider's name of the model.
            Without a slash, the provider is OpenAI.
        base_url: the provider's URL; None means any-llm's default.
        api_key: the key; None means the environment variable that any-llm reads.
        api: which of OpenAI's APIs to use; None means Responses if the provider supports it.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        api: Api | None = None,
    ) -> None:
        """Create the model; nothing is connected or imported yet.

        Raises:
            UserError: the name or the API is invalid, or any-llm is not installed.
        """
        provider, slash, name = model.partition("/")
        if not slash:
            provider, name = "openai", model
        if not provider or not name:
            raise UserError(
                f"AnyLLMModel({model!r}): write the provider, a slash and its name of the model,"
                " such as 'mistral/mistral-large-latest'."
            )
        if api not in ("responses", "chat_completions", None):
            raise UserError(
                f"AnyLLMModel(api=...) must be 'responses' or 'chat_completions', not {api!r}."
            )
        check_installed("any_llm", "any-llm", f"The model {model!r} of any-llm")
        self.model = model
        self.base_url = base_url
        self.api_key = api_key
        self.api: Api | None = api
        self._provider = provider
        self._opened: LoopValues[asyncio.Task[Any]] = LoopValues()
        connection = PackageConnection(self._call, self._target)
        self._responses = ResponsesModel(name, connection)
        self._chat = ChatCompletionsModel(name, connection, rich_outputs=True)

    @answers_both_forms
    async def get_response(self, request: ModelRequest) -> ModelResponse:
        """Answer one request.

        Raises:
            ModelError: the provider refused, failed, or sent an invalid response.
        """
        return await (await self._adapter(request)).get_response(request)

    @streams_both_forms
    async def stream_response(self, request: ModelRequest) -> AsyncGenerator[JsonObject]:
        """Answer one request as Responses stream events.

        Raises:
            ModelError: as for `get_response`, also in the middle of the stream.
        """
        async with aclosing((await self._adapter(request)).stream_response(request)) as events:
            async for event in events:
                yield event

    async def aclose(self) -> None:
        """Close the connections. A later call opens new ones."""
        opened = self._opened.pop()
        if opened is None:
            return
        await asyncio.wait([opened])
        if not has_failed(opened):
            await close(getattr(opened.result(), "client", None))

    async def _adapter(self, request: ModelRequest) -> ResponsesModel | ChatCompletionsModel:
        """Return the adapter for the requested API, or for one that the provider supports."""
        if self.api == "chat_completions":
            return self._chat
        target = self._target(_RESPONSES, self._responses.name)
        try:
            provider = await self._client()
        except Exception as error:  # noqa: BLE001  each provider's package has exceptions of its own
            raise package_failure(error, target) from None
        if not getattr(provider, "SUPPORTS_RESPONSES", False):
            if self.api == "responses":
                raise refused_request(
                    target,
                    f"any-llm's provider {self._provider!r} has no Responses API: leave"
                    " AnyLLMModel(api=...) out.",
                )
            return self._chat
        if request.prompt is not None:
            raise refused_request(
                target, "any-llm does not support stored prompts: use OpenAIProvider."
            )
        return self._responses

    async def _client(self) -> Any:
        """Return any-llm's provider object, which holds a client of this event loop."""
        opened = self._opened.get()
        if opened is None or has_failed(opened):
            opened = asyncio.create_task(self._open())
            self._opened.set(opened)
        return await asyncio.shield(opened)

    async def _open(self) -> Any:
        package: Any = await load("any_llm")
        # Opening may import the provider's package, and reads certificates.
        return await asyncio.to_thread(self._create, package.AnyLLM)

    def _create(self, any_llm: Any) -> Any:
        options: JsonObject = {"api_key": self.api_key, "api_base": self.base_url}
        if hasattr(any_llm, "get_provider_class"):  # else a program's stand-in
            provider_class = any_llm.get_provider_class(self._provider)
            options["unified_exceptions"] = True
            # Only some providers' packages have a setting for retries.
            if getattr(provider_class, "MAX_RETRIES_SUPPORT", None) in {"native", "mapped"}:
                options["max_retries"] = 0
        return any_llm.create(self._provider, **options)

    async def _call(self, path: str, body: JsonObject, settings: ModelSettings) -> object:
        provider = await self._client()
        arguments = call_arguments(body, settings)
        if self._provider in _GOOGLE and (headers := arguments.pop("extra_headers", None)):
            arguments["http_options"] = {"headers": headers}
        if getattr(provider, "TIMEOUT_SUPPORT", None) not in {"native", "mapped"}:
            arguments.pop("timeout", None)  # it would reject the call; we enforce it
        if path == _RESPONSES:
            return await provider.aresponses(input_data=arguments.pop("input"), **arguments)
        # any-llm's default would request a reasoning effort that the settings do not.
        return await provider.acompletion(**{"reasoning_effort": None, **arguments})

    def _target(self, path: str, model: str) -> Target:
        return gateway_target(self, "any-llm", self._provider, path=path, name=model)


class AnyLLMProvider:
    """Finds models by any-llm's names. An instance lives as long as its worker.

    Attributes:
        api_key: the key for every model; None means the environment's key.
        base_url: the URL for every model; None means any-llm's default.
        api: as for `AnyLLMModel`.
    """

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        api: Api | None = None,
    ) -> None:
        """Create the provider with settings for all of its models."""
        self.api_key = api_key
        self.base_url = base_url
        self.api: Api | None = api
        self._models: dict[str, AnyLLMModel] = {}

    def get_model(self, model_name: str | None) -> AnyLLMModel:
        """Return the model of this name, or the default model for None.

        Raises:
            UserError: any-llm does not accept the name, or any-llm is not installed.
        """
        chosen = (model_name or get_default_model()).removeprefix(_PREFIX)
        if chosen not in self._models:
            self._models[chosen] = AnyLLMModel(chosen, self.base_url, self.api_key, self.api)
        return self._models[chosen]

    async def aclose(self) -> None:
        """Close the connections of the models in use."""
        for model in self._models.values():
            await model.aclose()
