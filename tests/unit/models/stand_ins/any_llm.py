"""any-llm's calls, for where any-llm is not installed: they speak to OpenAI-compatible servers.

They take the arguments that any-llm takes, answer with objects and raise like it, over HTTP.
"""

import os
from collections.abc import AsyncIterator, Awaitable
from typing import Any

from openai import APIStatusError, AsyncOpenAI, OpenAIError


class AnyLLMError(Exception):
    def __init__(self, origin: OpenAIError | None = None, message: str = "") -> None:
        super().__init__(message or str(origin))
        self.message = str(self)
        self.original_exception = origin
        self.status_code = origin.status_code if isinstance(origin, APIStatusError) else None


class MissingApiKeyError(AnyLLMError):
    pass


class UnsupportedProviderError(AnyLLMError):
    pass


class _OpenAI:
    MAX_RETRIES_SUPPORT = "native"
    TIMEOUT_SUPPORT = "native"
    SUPPORTS_RESPONSES = True
    KEY = "OPENAI_API_KEY"

    def __init__(self, api_key: str | None, api_base: str | None, max_retries: int = 2) -> None:
        key = api_key or os.environ.get(self.KEY)
        if not key:
            raise MissingApiKeyError(message=f"No key. Please set the {self.KEY} variable.")
        self.client: Any = AsyncOpenAI(api_key=key, base_url=api_base, max_retries=max_retries)

    async def acompletion(self, model: str, reasoning_effort: str | None, **given: Any) -> Any:
        if reasoning_effort is not None:
            given["reasoning_effort"] = reasoning_effort
        if "max_tokens" in given:
            given["max_completion_tokens"] = given.pop("max_tokens")
        return await _sent(self.client.chat.completions.create(model=model, **given))

    async def aresponses(self, model: str, input_data: Any, **given: Any) -> Any:
        return await _sent(self.client.responses.create(model=model, input=input_data, **given))


class _Moonshot(_OpenAI):
    MAX_RETRIES_SUPPORT = "unsupported"
    TIMEOUT_SUPPORT = "unsupported"
    SUPPORTS_RESPONSES = False
    KEY = "MOONSHOT_API_KEY"

    def __init__(self, api_key: str | None, api_base: str | None) -> None:
        super().__init__(api_key, api_base, max_retries=0)


_PROVIDERS = {"openai": _OpenAI, "moonshot": _Moonshot}


class AnyLLM:
    @staticmethod
    def get_provider_class(name: str) -> type[_OpenAI]:
        if name not in _PROVIDERS:
            raise UnsupportedProviderError(message=f"'{name}' is not a supported provider.")
        return _PROVIDERS[name]

    @classmethod
    def create(cls, name: str, *, unified_exceptions: bool, **given: Any) -> _OpenAI:
        assert unified_exceptions
        return cls.get_provider_class(name)(**given)


async def _sent(call: Awaitable[Any]) -> Any:
    try:
        answer = await call
    except OpenAIError as error:
        raise AnyLLMError(error) from error
    return _events(answer) if hasattr(answer, "__aiter__") else answer


async def _events(stream: Any) -> AsyncIterator[Any]:
    try:
        async for event in stream:
            yield event
    except OpenAIError as error:
        raise AnyLLMError(error) from error
    finally:
        await stream.close()
