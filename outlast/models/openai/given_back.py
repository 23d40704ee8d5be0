"""What Chat Completions servers expect back with an assistant message, and how it is put together.

Nothing of this goes to another model than the one that sent it.
"""

from collections.abc import Mapping
from typing import Any, Final

from outlast.agents.json_values import as_object, as_objects, as_text
from outlast.loop.values import JsonObject

SIGNED_FIELDS: Final = ("extra_content", "provider_specific_fields")
"""Fields with provider data of a call: those of Gemini's API, and of LiteLLM."""


UNSIGNED: Final = ("reasoning_content", "reasoning")
"""Fields with thoughts that nobody signed; the first one goes back where a server sends both."""

_STRICT: Final[Mapping[str, str]] = {"groq": "groq.com", "cerebras": "cerebras.ai"}
"""Providers, by LiteLLM's prefix and their host, that refuse the thoughts which they send:
https://github.com/karthink/gptel/issues/774, https://github.com/anomalyco/opencode/issues/26762"""


def refused_fields(host: str, model: str) -> tuple[str, ...]:
    """Return the fields of an assistant message that a server refuses although it sends them."""
    is_strict = any(
        model.startswith(f"{prefix}/") or host == domain or host.endswith(f".{domain}")
        for prefix, domain in _STRICT.items()
    )
    return UNSIGNED if is_strict else ()


_BLOCKS: Final = ("thinking_blocks", "reasoning_details")

_PIECES: Final[Mapping[object, str]] = {
    "thinking": "thinking", "reasoning.text": "text", "reasoning.summary": "summary",
}  # fmt: skip
"""The field with text, by the type of a block that arrives in pieces."""


class Thoughts:
    """Collects what the server expects back with a message, chunk by chunk."""

    def __init__(self, *, is_whole: bool) -> None:
        """Start with nothing; blocks of a message that `is_whole` are not put together."""
        self._is_whole = is_whole
        self._fields: JsonObject = {}

    def add(self, delta: JsonObject) -> None:
        """Take the fields of a chunk's delta."""
        for name in _BLOCKS:
            for block in as_objects(delta.get(name)) or ():
                self._extend(self._fields.setdefault(name, []), block)
        for name in UNSIGNED:
            if isinstance(text := delta.get(name), str):
                self._fields[name] = f"{self._fields.get(name, '')}{text}"
        if extra := as_object(delta.get("extra_content")):
            self._fields["extra_content"] = {**self._fields.get("extra_content", {}), **extra}
        own = as_object(delta.get("provider_specific_fields")) or {}
        signatures = own.get("thought_signatures")
        if isinstance(signatures, list) and signatures:
            kept: Any = self._fields.setdefault("provider_specific_fields", {})
            kept["thought_signatures"] = [*kept.get("thought_signatures", ()), *signatures]

    def hold(self, text: str | None) -> bool:
        """Whether a text is the thoughts that nobody signed."""
        return bool(text) and any(self._fields.get(name) == text for name in UNSIGNED)

    def kept(self, *, has_calls: bool) -> JsonObject:
        """Return the fields that go back.

        Thoughts that nobody signed go back only with calls, which they explain, and only where the
        same thoughts do not go back as blocks.
        """
        texts = [name for name in UNSIGNED if name in self._fields]
        is_told = any(name in self._fields for name in _BLOCKS)
        left_out = set(texts if is_told or not has_calls else texts[1:])
        return {name: value for name, value in self._fields.items() if name not in left_out}

    def _extend(self, blocks: list[JsonObject], news: JsonObject) -> None:
        """Append a piece to the last block; a signature completes a block."""
        last = blocks[-1] if blocks else {}
        kind = news.get("type")
        text = _PIECES.get(kind)
        is_next = text is None or last.get("type") != kind or last.get("signature")
        if self._is_whole or is_next or last.get("index") != news.get("index"):
            blocks.append(dict(news))
            return
        for name, value in news.items():
            if name in {text, "signature"} and as_text(value):
                last[name] = f"{last.get(name) or ''}{value}"
            elif last.get(name) is None:
                last[name] = value
