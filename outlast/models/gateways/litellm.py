"""Models through LiteLLM, which is imported on first use."""

from typing import Any

from outlast.agents.config.settings import ModelSettings
from outlast.loop.values import JsonObject
from outlast.models.defaults import get_default_model
from outlast.models.failures import Target
from outlast.models.gateways.connection import (
    PackageConnection,
    call_arguments,
    check_installed,
    gateway_target,
    load,
)
from outlast.models.openai.chat_completions import ChatCompletionsModel

_PREFIX = "litellm/"


class LitellmModel(ChatCompletionsModel):
    """A model behind LiteLLM: `LitellmModel("anthropic/claude-sonnet-4-5")`.

    Attributes:
        model: LiteLLM's name of the model: the provider, a slash, the provider's name.
        base_url: the provider's URL; None means LiteLLM's default.
        api_key: the key; None means the environment variable that LiteLLM reads.
    """

    def __init__(self, model: str, base_url: str | None = None, api_key: str | None = None) -> None:
        """Create the model; nothing is connected or imported yet.

        Raises:
            UserError: LiteLLM is not installed.
        """
        check_installed("litellm", "litellm", f"The model {model!r} of LiteLLM")
        connection = PackageConnection(self._call, self._target)
        super().__init__(model, connection, rich_outputs=True)
        self.model = model
        self.base_url = base_url
        self.api_key = api_key

    async def _call(self, path: str, body: JsonObject, settings: ModelSettings) -> object:
        del path  # LiteLLM is only used for completions
        litellm: Any = await load("litellm")
        arguments: JsonObject = {"api_key": self.api_key, "base_url": self.base_url}
        if "tools" in body:
            # Otherwise LiteLLM looks for MCP tools, with packages that only its proxy installs.
            arguments["_skip_mcp_handler"] = True
        arguments |= call_arguments(body, settings)
        # Disables LiteLLM's own retries and those of the provider's package.
        return await litellm.acompletion(**arguments | {"num_retries": 0, "max_retries": 0})

    def _target(self, path: str, model: str) -> Target:
        provider = model.partition("/")[0] if "/" in model else "LiteLLM's choice"
        return gateway_target(self, "LiteLLM", provider, path=path, name=model)


class LitellmProvider:
    """Finds models by LiteLLM's names, with the keys of the environment."""

    def get_model(self, model_name: str | None) -> LitellmModel:
        """Return the model of this name, or the default model for None.

        Raises:
            UserError: LiteLLM is not installed.
        """
        return LitellmModel((model_name or get_default_model()).removeprefix(_PREFIX))

    async def aclose(self) -> None:
        """Do nothing: LiteLLM shares its connections and closes them itself."""
