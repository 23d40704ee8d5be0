"""The client under the name that programs import."""

import openai

from outlast import AsyncOpenAI, OpenAIChatCompletionsModel


def test_it_is_the_packages_own() -> None:
    assert AsyncOpenAI is openai.AsyncOpenAI
    client = AsyncOpenAI(api_key="k", base_url="http://127.0.0.1:9/v1")
    assert OpenAIChatCompletionsModel("m", openai_client=client).name == "m"
