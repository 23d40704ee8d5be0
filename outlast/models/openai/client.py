"""The `openai` package's client, where programs for the SDK import it from.

Importing this module imports the `openai` package, which takes half a second.
"""

from openai import AsyncOpenAI

__all__ = ["AsyncOpenAI"]
