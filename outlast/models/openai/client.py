"""The `openai` package's client, under the SDK's import path; importing it takes half a second."""

from openai import AsyncOpenAI

__all__ = ["AsyncOpenAI"]
