"""The `openai` package's client, under the SDK's import path.

Importing this module imports the `openai` package, which takes half a second.
"""

from openai import AsyncOpenAI

__all__ = ["AsyncOpenAI"]
