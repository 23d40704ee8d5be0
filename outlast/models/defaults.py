"""The process's default model, and the defaults of `OpenAIProvider`.

The setters apply wherever a provider has no value of its own, even in workers that already run.
Other processes are not affected: set their environment, or pass
`AgentWorker(model_provider=...)`.
"""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from outlast.agents.checks import check_choice
from outlast.agents.config.model_defaults import (
    gpt_5_reasoning_settings_required,
    settings_of_model,
)
from outlast.agents.config.model_settings import ModelSettings

if TYPE_CHECKING:
    from openai import AsyncOpenAI

DEFAULT_MODEL = "gpt-5.6-luna"
"""The default model, which is also that of the Agents SDK."""

VARIABLES = ("OUTLAST_MODEL", "OPENAI_DEFAULT_MODEL")
"""Environment variables for the default model, in order of precedence."""


def get_default_model() -> str:
    """Return the name of the model for agents that name none."""
    return next(
        (name for variable in VARIABLES if (name := os.environ.get(variable))), DEFAULT_MODEL
    )


def get_default_model_settings(model: str | None = None) -> ModelSettings:
    """Return the settings of an agent that sets none; None stands for the default model."""
    return settings_of_model(get_default_model() if model is None else model)


def is_gpt_5_default() -> bool:
    """Whether the default model is a reasoning model of the GPT-5 family."""
    return gpt_5_reasoning_settings_required(get_default_model())


Api: TypeAlias = Literal["responses", "chat_completions"]
Transport: TypeAlias = Literal["http", "websocket"]


@dataclass
class Defaults:
    """The process's defaults."""

    api_key: str | None = None
    client: "AsyncOpenAI | None" = None
    api: Api = "responses"
    transport: Transport = "http"


defaults: Final = Defaults()
"""The defaults of this process."""


def get_default_openai_key() -> str | None:
    """Return the key that `set_default_openai_key` has set."""
    return defaults.api_key


def get_default_openai_client() -> "AsyncOpenAI | None":
    """Return the client that `set_default_openai_client` has set."""
    return defaults.client


def set_default_openai_key(key: str, use_for_tracing: bool = True) -> None:  # noqa: FBT001, FBT002  (the name's known form)
    """Set the default API key of OpenAI providers.

    It takes precedence over OPENAI_API_KEY.

    Args:
        key: the key.
        use_for_tracing: has no effect: traces go to the processors that the program adds, and to
            no provider.
    """
    defaults.api_key = key


def set_default_openai_client(client: "AsyncOpenAI", use_for_tracing: bool = True) -> None:  # noqa: FBT001, FBT002  (likewise)
    """Set the default client of OpenAI providers, which the caller closes.

    `use_for_tracing` has no effect, as for `set_default_openai_key`.
    """
    defaults.client = client


def set_default_openai_api(api: Api) -> None:
    """Set the default API of OpenAI providers.

    Args:
        api: `responses`, or `chat_completions` for servers without the Responses API.

    Raises:
        ValueError: the value is neither.
    """
    check_choice("set_default_openai_api(...)", api, get_args(Api))
    defaults.api = api


def set_default_openai_responses_transport(transport: Transport) -> None:
    """Set the default transport of OpenAI providers for the Responses API.

    Args:
        transport: `http`, or `websocket`, which needs the extra `realtime`.

    Raises:
        ValueError: the value is neither.
    """
    if transport not in ("http", "websocket"):
        raise ValueError(
            f"The default transport cannot be {transport!r}. Expected one of: 'http', 'websocket'."
        )
    defaults.transport = transport
