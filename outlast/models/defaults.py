"""The defaults of this process: its model, and the key, client and API of `OpenAIProvider`.

The setters count wherever a provider has no value of its own, also in workers that already run, but
not in other processes: give those the environment, or `AgentWorker(model_provider=...)`.
"""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from openai import AsyncOpenAI

DEFAULT_MODEL = "gpt-5.4-mini"
"""The default model: quick and cheap, and good at calling tools."""

VARIABLES = ("OUTLAST_MODEL", "OPENAI_DEFAULT_MODEL")
"""Environment variables that name the default model; the first one that is set counts."""


def get_default_model() -> str:
    """Return the name of the model for agents that name none."""
    return next((name for one in VARIABLES if (name := os.environ.get(one))), DEFAULT_MODEL)


def gpt_5_reasoning_settings_required(model_name: str) -> bool:
    """Whether a model of the GPT-5 family reasons; its chat models do not."""
    return model_name.startswith("gpt-5") and "-chat" not in model_name


def is_gpt_5_default() -> bool:
    """Whether the default model is one of the GPT-5 family that reasons."""
    return gpt_5_reasoning_settings_required(get_default_model())


Api: TypeAlias = Literal["responses", "chat_completions"]


@dataclass
class Defaults:
    """The defaults.

    Attributes:
        api_key: the key; None for the environment's.
        client: a client to use as it is; None for one of ours.
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
        api: `responses`, or `chat_completions` for servers that have no Responses API.

    Raises:
        ValueError: it is neither.
    """
    if api not in ("responses", "chat_completions"):
        raise ValueError(
            f'set_default_openai_api takes "responses" or "chat_completions", not {api!r}'
        )
    defaults.api = api
