"""LiteLLM's one call, for where LiteLLM is not installed: it speaks to OpenAI-compatible servers.

It takes the arguments that LiteLLM takes, answers with objects and raises like it, over HTTP.
"""

from collections.abc import AsyncIterator
from typing import Any

from openai import AsyncOpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk


async def acompletion(
    *,
    model: str,
    api_key: str | None,
    base_url: str | None,
    num_retries: int,
    max_retries: int,
    _skip_mcp_handler: bool = False,
    **arguments: Any,
) -> ChatCompletion | AsyncIterator[ChatCompletionChunk]:
    assert num_retries == 0
    assert _skip_mcp_handler is ("tools" in arguments)
    client: Any = AsyncOpenAI(api_key=api_key, base_url=base_url, max_retries=max_retries)
    arguments["model"] = model.removeprefix("openai/")
    if arguments.get("stream"):
        return _chunks(client, arguments)
    async with client:
        return await client.chat.completions.create(**arguments)


async def _chunks(client: Any, arguments: dict[str, Any]) -> AsyncIterator[ChatCompletionChunk]:
    async with client, await client.chat.completions.create(**arguments) as chunks:
        async for chunk in chunks:
            yield chunk
