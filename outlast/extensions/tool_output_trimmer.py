"""An input filter that shortens large tool outputs of older questions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from outlast.agents.config.run_config import CallModelData, ModelInputData
from outlast.agents.errors import UserError
from outlast.loop.values import JsonObject

_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})
_CALLS = frozenset({"function_call", "custom_tool_call"})


@dataclass(frozen=True)
class ToolOutputTrimmer:
    """A `call_model_input_filter` that shortens large tool outputs of older questions.

    The model reads a preview instead. The newest questions, and everything after them, stay whole,
    and so does the transcript: only what one model call reads is shortened.

    Attributes:
        recent_turns: how many of the newest user messages stay whole, with what follows them.
        max_output_chars: the size from which on an output is shortened.
        preview_chars: how many characters of an output stay.
        trimmable_tools: the names of the tools whose outputs are shortened; None for all tools.
    """

    recent_turns: int = 2
    max_output_chars: int = 500
    preview_chars: int = 200
    trimmable_tools: str | Iterable[str] | None = None

    def __post_init__(self) -> None:
        """Check the fields.

        Raises:
            UserError: a number is too small, or the names are no strings.
        """
        for name, least in (("recent_turns", 1), ("max_output_chars", 1), ("preview_chars", 0)):
            value = cast("object", getattr(self, name))
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise UserError(
                    f"ToolOutputTrimmer({name}=...) must be a whole number from {least}, not {value!r}."
                )
        names: Any = self.trimmable_tools
        if names is None:
            return
        tools: frozenset[object] = frozenset({names} if isinstance(names, str) else names)
        if not all(isinstance(one, str) for one in tools):
            raise UserError(
                f"ToolOutputTrimmer(trimmable_tools=...) must be names of tools, not {names!r}."
            )
        object.__setattr__(self, "trimmable_tools", tools)

    def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the input with shortened outputs; the items themselves stay unchanged."""
        items = data.model_data.input
        names = {item.get("call_id"): item.get("name") for item in items if _is_call(item)}
        end = self._end_of_older(items)
        older = [self._trimmed(item, names.get(item.get("call_id"))) for item in items[:end]]
        return ModelInputData(
            input=[*older, *items[end:]], instructions=data.model_data.instructions
        )

    def _end_of_older(self, items: Sequence[JsonObject]) -> int:
        """Return the index of the oldest user message that stays whole; 0 if all do."""
        questions = [at for at, item in enumerate(items) if item.get("role") == "user"]
        return questions[-self.recent_turns] if len(questions) >= self.recent_turns else 0

    def _trimmed(self, item: JsonObject, name: object) -> JsonObject:
        tools: Any = self.trimmable_tools
        if str(item.get("type")) not in _OUTPUTS or (tools is not None and name not in tools):
            return item
        output: Any = item.get("output")
        size = _size(output)
        if size <= self.max_output_chars:
            return item
        head = f"[Shortened output of {name or 'a tool'}: {size} characters]\n"
        text = output if isinstance(output, str) else _text_of(output)
        preview = head + text[: self.preview_chars]
        if isinstance(output, str):
            return item if len(preview) >= size else {**item, "output": preview}
        preview = preview[: self.max_output_chars]
        return {**item, "output": [{"type": "input_text", "text": preview}]}


def _is_call(item: JsonObject) -> bool:
    return str(item.get("type")) in _CALLS


def _size(output: object) -> int:
    """Return the number of characters that an output's texts, images and files have."""
    if not isinstance(output, list):
        return len(str(output or ""))
    parts = cast("list[Any]", output)
    fields = [cast("JsonObject", part) for part in parts if isinstance(part, dict)]
    return sum(
        len(value)
        for part in fields
        for name, value in part.items()
        if name != "type" and isinstance(value, str)
    )


def _text_of(output: object) -> str:
    parts = cast("list[Any]", output) if isinstance(output, list) else []
    fields = [cast("JsonObject", part) for part in parts if isinstance(part, dict)]
    return "\n".join(str(part["text"]) for part in fields if part.get("text"))
