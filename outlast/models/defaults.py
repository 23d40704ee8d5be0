"""The process's default model, and the defaults of `OpenAIProvider`.

The setters apply wherever a provider has no value of its own, even in workers that already run.
Other processes are not affected: set their environment, or pass
`AgentWorker(model_provider=...)`.
"""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from openai import AsyncOpenAI

DEFAULT_MODEL = "gpt-5.4-mini"
"""The default model: fast, inexpensive, and good at calling tools."""

VARIABLES = ("OUTLAST_MODEL", "OPENAI_DEFAULT_MODEL")
"""Environment variables for the default model, in order of precedence."""


def get_default_model() -> str:
    """Return the name of the model for agents that name none."""
    return next((name for one in VARIABLES if (name := os.environ.get(one))), DEFAULT_MODEL)


def gpt_5_reasoning_settings_required(model_name: str) -> bool:
    """Whether a model is a GPT-5 reasoning model, not a GPT-5 chat model."""
    return model_name.startswith("gpt-5") and "-chat" not in model_name


def is_gpt_5_default() -> bool:
    """Whether the default model is a reasoning model of the GPT-5 family."""
    return gpt_5_reasoning_settings_required(get_default_model())


Api: TypeAlias = Literal["responses", "chat_completions"]


@dataclass
class Defaults:
    """The process's defaults.

    Attributes:
        api_key: the key; None means the environment's key.
        client: a client to use unchanged; None means that the provider creates one.
        api: the API for model calls.
    """

    api_key: str | None = None
    client: "AsyncOpenAI | None" = None
    api: Api = "responses"


defaults = Defaults()
"""The defaults of this process."""


def set_default_openai_key(key: str, use_for_tracing: bool = True) -> None:  # noqa: FBT001, FBT002  (the name's known form)
    """Set the default API key of OpenAI providers.

    It takes precedence over OPENAI_API_KEY.

    Args:
        key: the key.
        use_for_tracing: has no effect: traces go to the processors that the program adds, and to
            no provider.
    """
    del use_for_tracing
    defaults.api_key = key


def set_default_openai_client(client: "AsyncOpenAI", use_for_tracing: bool = True) -> None:  # noqa: FBT001, FBT002  (likewise)
    """Set the default client of OpenAI providers.

    Args:
        client: used as it is, with its retries switched off per call; the caller closes it.
        use_for_tracing: has no effect, as for `set_default_openai_key`.
    """
    del use_for_tracing
    defaults.client = client


def set_default_openai_api(api: Api) -> None:
    """Set the default API of OpenAI providers.

    Args:
        api: `responses`, or `chat_completions` for servers without the Responses API.

    Raises:
        ValueError: the value is neither.
    """
    if api not in ("responses", "chat_completions"):
        raise ValueError(
            f'set_default_openai_api takes "responses" or "chat_completions", not {api!r}'
        )
    defaults.api = api
