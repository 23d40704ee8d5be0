"""An input filter that shortens large tool outputs of older questions."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from outlast.agents.checks import InvalidValue, check_count
from outlast.agents.config.run_config import CallModelData, ModelInputData
from outlast.agents.json_values import is_list, is_object
from outlast.agents.schemas.subschemas import with_subschemas
from outlast.loop.values import JsonObject

_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})
_CALLS = frozenset({"function_call", "custom_tool_call"})
_PAYLOADS: Mapping[str, frozenset[str]] = {
    "input_text": frozenset({"text"}),
    "input_image": frozenset({"image_url", "file_id"}),
    "input_file": frozenset({"file_data", "file_url", "file_id", "filename"}),
}
"""The content parts of tool outputs, and the fields that hold their content."""
_DETAILS = ("low", "high", "auto", "original")
_SHORTEST = "[Trimmed]"

_PROSE = frozenset({"description", "title", "$comment", "examples"})


@dataclass(frozen=True)
class ToolOutputTrimmer:
    """A `call_model_input_filter` that shortens large tool outputs of older questions.

    The model reads a preview instead, which says what was left out. The newest questions, and
    everything after them, stay whole, and so does the transcript: only what one model call reads
    is shortened. Tools that a tool search found lose their descriptions.

    Attributes:
        recent_turns: how many of the newest user messages stay whole, with what follows them.
        max_output_chars: the size from which on an output is shortened.
        preview_chars: how many characters of an output stay.
        trimmable_tools: the names of the tools whose outputs are shortened, with or without their
            namespace; None for all tools.

    Raises:
        ValueError: a number is too small, or the names are no strings.
    """

    recent_turns: int = 2
    max_output_chars: int = 500
    preview_chars: int = 200
    trimmable_tools: str | Iterable[str] | None = None

    def __post_init__(self) -> None:
        for name, least in (("recent_turns", 1), ("max_output_chars", 1), ("preview_chars", 0)):
            place, value = f"ToolOutputTrimmer: {name}", getattr(self, name)
            check_count(place, value, least=least, expected=f">= {least}")
        names: Any = self.trimmable_tools
        if names is None:
            return
        tools: frozenset[object] = frozenset({names} if isinstance(names, str) else names)
        if not all(isinstance(one, str) for one in tools):
            raise InvalidValue(
                "ToolOutputTrimmer: trimmable_tools must be a string or iterable of strings, "
                f"not {names!r}."
            )
        object.__setattr__(self, "trimmable_tools", tools)

    def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the input with shortened outputs; the items themselves stay unchanged."""
        items = data.model_data.input
        names = {item.get("call_id"): _names(item) for item in items if item.get("type") in _CALLS}
        end = self._end_of_older(items)
        older = [self._trimmed(item, names.get(item.get("call_id"), ())) for item in items[:end]]
        return ModelInputData(
            input=[*older, *items[end:]], instructions=data.model_data.instructions
        )

    def _end_of_older(self, items: Sequence[JsonObject]) -> int:
        """Return the index of the oldest user message that stays whole; 0 if all do."""
        questions = [at for at, item in enumerate(items) if item.get("role") == "user"]
        return questions[-self.recent_turns] if len(questions) >= self.recent_turns else 0

    def _trimmed(self, item: JsonObject, names: Sequence[str]) -> JsonObject:
        kind = item.get("type")
        if kind == "tool_search_output":
            names = ("tool_search",)
        tools: Any = self.trimmable_tools
        if tools is not None and not tools.intersection(names):
            return item
        if kind == "tool_search_output":
            return self._trimmed_search(item)
        output: Any = item.get("output") if kind in _OUTPUTS else ""
        name = names[0] if names else "unknown_tool"
        if isinstance(output, str):
            short = self._preview(name, len(output), output)
            is_large = len(output) > max(self.max_output_chars, len(short))
            return {**item, "output": short} if is_large else item
        parts = _content_parts(output)
        size = sum(len(part[name]) for part in parts for name in _payload(part))
        if size <= self.max_output_chars:
            return item
        text = "\n".join(part["text"] for part in parts if part["type"] == "input_text")
        dropped = Counter(part["type"] for part in parts if part["type"] != "input_text")
        short = self._preview(name, size, text, dropped, limit=self.max_output_chars)
        return {**item, "output": short}

    def _trimmed_search(self, item: JsonObject) -> JsonObject:
        for field in ("tools", "results"):
            found: Any = item.get(field)
            size = len(json.dumps(found))
            if not isinstance(found, list) or size <= self.max_output_chars:
                continue
            short = (
                self._plainer(cast("list[object]", found))
                if field == "tools"
                else [{"text": self._preview("tool_search output", size, json.dumps(found))}]
            )
            return {**item, field: short} if len(json.dumps(short)) < size else item
        return item

    def _plainer(self, tools: list[object]) -> object:
        """Return the tools of a search, or of a namespace, with less prose."""
        return [
            {
                name: self._plainer(value)
                if name == "tools"
                else with_subschemas(value, _without_prose)
                if name == "parameters"
                else _cut(value, self.preview_chars)
                if name == "description"
                else value
                for name, value in cast("JsonObject", tool).items()
            }
            if isinstance(tool, dict)
            else tool
            for tool in tools
        ]

    def _preview(
        self,
        name: str,
        size: int,
        text: str,
        dropped: Mapping[str, int] | None = None,
        *,
        limit: int | None = None,
    ) -> str:
        """Return the beginning of an output's text, after as much of a summary as there is room."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted((dropped or {}).items()))
        shown = min(len(text), self.preview_chars)
        summary = [f"[Trimmed: {name}", f"payload {size} chars"]
        summary += [f"preview {shown}"] if shown else []
        summary += [f"dropped {kinds}"] if kinds else []
        heads = [
            "; ".join(summary) + "]",
            *([f"[Trimmed: {'+'.join(dropped)}]"] if dropped and not text else []),
        ]
        body = f"\n{_cut(text, shown)}" if shown else ""
        for head in (*heads, _SHORTEST):
            if limit is None or len(head + body) <= limit:
                return head + body
        room = limit - len(f"{_SHORTEST}\n...") if limit else 0
        return f"{_SHORTEST}\n{text[:room]}..." if room > 0 and body else _SHORTEST[:limit]


def _names(call: JsonObject) -> tuple[str, ...]:
    """Return the names of a call's tool: the one to show first, then the one without namespace."""
    name, namespace = str(call.get("name")), call.get("namespace")
    return (f"{namespace}.{name}", name) if namespace and namespace != name else (name,)


def _cut(text: object, length: int) -> str:
    whole = str(text)
    return whole if len(whole) <= length else f"{whole[:length]}..."


def _content_parts(output: object) -> list[JsonObject]:
    """Return the parts of an output; none if it is no list of texts, images and files."""
    parts = output if is_list(output) else []
    return parts if all(_is_content(part) for part in parts) else []


def _is_content(value: object) -> bool:
    if not is_object(value):
        return False
    kind = str(value.get("type"))
    return (
        kind in _PAYLOADS
        and value.keys() - _PAYLOADS[kind] <= {"type", "detail"}
        and value.get("detail") in (None, *_DETAILS)
        and all(isinstance(value[name], str) for name in _payload(value))
    )


def _payload(part: JsonObject) -> list[str]:
    return [name for name in _PAYLOADS[part["type"]] if part.get(name) is not None]


def _without_prose(schema: JsonObject) -> JsonObject:
    return {keyword: value for keyword, value in schema.items() if keyword not in _PROSE}
