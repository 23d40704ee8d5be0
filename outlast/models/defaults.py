"""What a program says once of its model provider, for every run of the process.

Owns: `set_default_openai_key`, `set_default_openai_client`, `set_default_openai_api`. They count
where `OpenAIProvider` is not told otherwise, also for a worker that runs already. They say nothing
to workers in other processes: give those the environment, or `AgentWorker(model_provider=...)`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from openai import AsyncOpenAI

Api: TypeAlias = Literal["responses", "chat_completions"]


@dataclass
class Defaults:
    """What was said.

    Attributes:
        api_key: the key; None for the environment's.
        client: a client to use as it is; None for one of ours.
        api: which API models are asked through.
    """

    api_key: str | None = None
    client: "AsyncOpenAI | None" = None
    api: Api = "responses"


defaults = Defaults()
"""This process's."""


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
        client: is used as it is, with its retries switched off per call; closing it stays the
            caller's.
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
