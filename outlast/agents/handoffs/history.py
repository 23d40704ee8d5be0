"""Nested handoff history: the conversation so far as a summary for the next agent.

Summaries can be read back, so that a second handoff does not put a summary into a summary.
"""

import inspect
import json
import re
from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any, TypeAlias, cast

from outlast.agents.errors import UserError
from outlast.agents.handoffs.input_data import HandoffHistoryMapper, HandoffInputData
from outlast.agents.items.raw_items import CREATED_BY, TEXT_TYPES
from outlast.agents.items.run_items import RunItem, ToolApprovalItem, raw_of
from outlast.agents.json_values import as_object
from outlast.loop.items import text_of
from outlast.loop.values import Json, JsonObject

Wrappers: TypeAlias = tuple[str, str]
"""The lines before and after a summary."""

DEFAULT_WRAPPERS: Wrappers = ("<CONVERSATION HISTORY>", "</CONVERSATION HISTORY>")

_PREAMBLE = "What was said and done in this conversation before you took over:"
_NOTHING = "(nothing yet)"
_ROLES = frozenset({"user", "assistant", "system", "developer"})
# Of no use to a reader: the provider's metadata, and encrypted reasoning.
_LEFT_OUT = frozenset({"id", "status", "encrypted_content", CREATED_BY})
_NUMBERED = re.compile(r"(\d+)\. ")

_in_use: list[Wrappers] = [DEFAULT_WRAPPERS]


def set_conversation_history_wrappers(*, start: str | None = None, end: str | None = None) -> None:
    """Set the lines before and after summaries in this process.

    Runs with their own wrappers ignore these. Every worker of a task queue must set the same.

    Args:
        start: the line before; None keeps it.
        end: the line after; None keeps it.
    """
    before, after = _in_use[0]
    _in_use[0] = (before if start is None else start, after if end is None else end)


def reset_conversation_history_wrappers() -> None:
    """Restore the default lines before and after summaries."""
    _in_use[0] = DEFAULT_WRAPPERS


def get_conversation_history_wrappers() -> Wrappers:
    """Return the lines before and after summaries in this process."""
    return _in_use[0]


def default_handoff_history_mapper(
    transcript: list[JsonObject], *, wrappers: Wrappers | None = None
) -> list[JsonObject]:
    """Return a conversation, as input items, as one assistant message with a summary.

    Args:
        transcript: the conversation as input items.
        wrappers: the lines around it; default the process's.
    """
    start, end = wrappers or _in_use[0]
    lines = [f"{number}. {_line(item)}" for number, item in enumerate(transcript, 1)]
    content = "\n".join([_PREAMBLE, start, *(lines or [_NOTHING]), end])
    return [{"role": "assistant", "content": content}]


def nest_handoff_history(
    handoff_input_data: HandoffInputData,
    *,
    history_mapper: HandoffHistoryMapper | None = None,
    wrappers: Wrappers | None = None,
) -> HandoffInputData:
    """Return handoff data with the conversation so far as a summary.

    Without a mapper, messages of the current turn, and user messages since the run began, are
    passed on unchanged, in their places. The rest is summarized between them: the history, calls
    and their outputs, reasoning, and agents' messages of earlier turns. The run's own items,
    `new_items`, are unchanged.

    Args:
        handoff_input_data: the next agent's input.
        history_mapper: called with the conversation as a flat list; returns exactly the next
            agent's input.
        wrappers: the lines around summaries; default: the process's.

    Raises:
        UserError: the mapper returned something other than a list of input items.
    """
    lines = wrappers or _in_use[0]
    history = list(_flat(_as_list(handoff_input_data.input_history), lines))
    before = _shown(handoff_input_data.pre_handoff_items)
    now = _shown(handoff_input_data.new_items)
    if history_mapper is not None:
        mapped = history_mapper(deepcopy([*history, *before, *now]))
        view = _check(mapped, history_mapper)
    else:
        entries = [(raw, _is_sealed(raw)) for raw in history]
        entries += [(raw, _stands_alone(raw) and raw.get("role") != "assistant") for raw in before]
        entries += [(raw, _stands_alone(raw)) for raw in now]
        view = _summarize(entries, lines)
    return handoff_input_data.clone(input_history=tuple(view), pre_handoff_items=(), input_items=())


def _summarize(entries: Iterable[tuple[JsonObject, bool]], wrappers: Wrappers) -> list[JsonObject]:
    view: list[JsonObject] = []
    to_summarize: list[JsonObject] = []
    for raw, hand_on in entries:
        if not hand_on:
            to_summarize.append(raw)
            continue
        if to_summarize:
            view.extend(default_handoff_history_mapper(to_summarize, wrappers=wrappers))
            to_summarize = []
        view.append(raw)
    if to_summarize or not view:
        view.extend(default_handoff_history_mapper(to_summarize, wrappers=wrappers))
    return view


def _shown(items: Iterable[RunItem]) -> list[JsonObject]:
    return [raw_of(item) for item in items if not isinstance(item, ToolApprovalItem)]


def _stands_alone(raw: JsonObject) -> bool:
    return "role" in raw or _is_sealed(raw)


def _is_sealed(raw: JsonObject) -> bool:
    """Whether an item is a provider's compaction, which only that provider can read."""
    return raw.get("type") == "compaction"


def _as_list(history: str | tuple[JsonObject, ...]) -> Sequence[JsonObject]:
    return ({"role": "user", "content": history},) if isinstance(history, str) else history


def _check(mapped: object, mapper: HandoffHistoryMapper) -> list[JsonObject]:
    name = getattr(mapper, "__qualname__", type(mapper).__qualname__)
    if inspect.iscoroutine(mapped):
        mapped.close()
        raise UserError(f"The handoff history mapper {name} is async. Make it a plain function.")
    if not isinstance(mapped, list | tuple):
        raise UserError(
            f"The handoff history mapper {name} returned {type(mapped).__name__}. It must return a "
            "list of input items (dicts)."
        )
    entries = list(cast("Sequence[object]", mapped))
    for entry in entries:
        if not isinstance(entry, dict):
            raise UserError(
                f"The handoff history mapper {name} returned {type(entry).__name__} in its list. "
                "Every entry must be an input item (a dict)."
            )
    return cast("list[JsonObject]", entries)


def _flat(items: Iterable[JsonObject], wrappers: Wrappers) -> Iterable[JsonObject]:
    """Yield items; instead of a summary, the items that it contains."""
    for item in items:
        contained = _summarized_items(item, wrappers)
        if contained is None:
            yield _plain(item)
        else:
            yield from _flat(contained, wrappers)


def _summarized_items(item: JsonObject, wrappers: Wrappers) -> list[JsonObject] | None:
    if item.get("role") != "assistant":
        return None
    text = text_of(item)
    for start, end in dict.fromkeys((wrappers, _in_use[0], DEFAULT_WRAPPERS)):
        head, tail = f"{_PREAMBLE}\n{start}\n", f"\n{end}"
        if text.startswith(head) and text.endswith(tail) and len(text) > len(head) + len(tail):
            return _read(text[len(head) : -len(tail)])
    return None


def _read(body: str) -> list[JsonObject] | None:
    if body == _NOTHING:
        return []
    items: list[JsonObject] = []
    for number, line in enumerate(body.split("\n"), 1):
        match = _NUMBERED.match(line)
        item = _item(line[match.end() :]) if match and int(match[1]) == number else None
        if item is None:
            return None
        items.append(item)
    return items


def _line(item: JsonObject) -> str:
    """Return an item as a line: `role: text` if that is complete, else its JSON."""
    item = _plain(item)
    content: Json = item.get("content")
    is_text = item.keys() == {"role", "content"} and isinstance(content, str)
    if is_text and str(item["role"]) in _ROLES and "\n" not in content:
        return f"{item['role']}: {content}"
    return json.dumps(item, ensure_ascii=False, default=str)


def _item(line: str) -> JsonObject | None:
    if line.startswith("{"):
        try:
            return as_object(json.loads(line))
        except ValueError:
            return None
    role, colon, text = line.partition(": ")
    return {"role": role, "content": text} if colon and role in _ROLES else None


def _plain(item: JsonObject) -> JsonObject:
    if _is_sealed(item):
        return item
    plain = {key: value for key, value in item.items() if key not in _LEFT_OUT}
    if "role" not in plain:
        return plain
    if plain.get("type") == "message":
        del plain["type"]
    content: Json = plain.get("content")
    if isinstance(content, list) and all(map(_is_plain_text, cast("list[Any]", content))):
        plain["content"] = text_of(item)
    return plain


def _is_plain_text(part: Any) -> bool:
    fields = as_object(part) or {}
    return str(fields.get("type")) in TEXT_TYPES and not fields.get("annotations")
