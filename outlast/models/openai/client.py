"""The `openai` package's client, under the import path that programs for the SDK use.

Importing this module imports the `openai` package, which takes half a second.
"""

from openai import AsyncOpenAI

__all__ = ["AsyncOpenAI"]
