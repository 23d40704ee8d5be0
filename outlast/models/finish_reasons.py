"""What the finish reasons of Chat Completions servers mean."""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

Meaning: TypeAlias = Literal["complete", "cut", "filtered", "failed"]
"""The answer is whole, ends early at a limit, was filtered, or its server failed."""

_WORDS: Final[Mapping[Meaning, str]] = {
    "complete": "stop tool_calls tool_call tool_use function_call end_turn end eos eos_token"
    " stop_sequence complete completed finished finish done normal",
    "cut": "length max_tokens max_output_tokens max_length max_new_tokens model_length token_limit"
    " context_length model_context_window_exceeded error_limit pause_turn repetition",
    "filtered": "content_filter content_filtered filtered safety recitation blocklist"
    " prohibited_content spii language image_safety image_prohibited_content image_recitation"
    " model_armor guardrail_intervened refusal refused sensitive error_toxic moderation",
    "failed": "error network_error abort aborted cancelled canceled user_cancel time_limit timeout"
    " malformed_function_call function_call_filter unexpected_tool_call too_many_tool_calls"
    " missing_thought_signature malformed_response malformed_model_output malformed_tool_use"
    " insufficient_system_resource",
}
"""The words of OpenAI, Azure, Anthropic, Bedrock, Gemini, Mistral, Cohere, DeepSeek, Z.ai, xAI,
OpenRouter, LiteLLM, vLLM, SGLang, Ollama, llama.cpp, TGI, Together and watsonx."""

MEANINGS: Final[Mapping[str, Meaning]] = {
    word: meaning for meaning, words in _WORDS.items() for word in words.split()
}
"""What each finish reason means, in lower case. Any other, such as `other` or `unknown`, is no
promise of a whole answer."""

_NONE: Final = frozenset({"", "null", "none"})
"""What some servers write instead of null as long as the answer goes on."""


def reason_of(value: object) -> str | None:
    """Return a finish reason as it is written, or None if there is none yet."""
    reason = "" if value is None else str(value)
    return None if reason.strip().casefold() in _NONE else reason


def meaning_of(reason: str) -> Meaning | None:
    """Return what a finish reason means, however it is written, or None for an unknown one.

    Some servers name the class of an enumeration before it (`FinishReason.SAFETY`), or a detail
    after it (`content_filter: RECITATION`).
    """
    word = reason.partition(":")[0].rpartition(".")[2]
    return MEANINGS.get(word.strip().replace("-", "_").casefold())
