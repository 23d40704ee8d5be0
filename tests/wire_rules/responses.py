"""The rules of requests to `/responses`."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.wire_rules.found import (
    Found,
    fields_of,
    is_json_object,
    is_name,
    list_of,
    objects,
    text_of,
)
from tests.wire_rules.parts import check_content
from tests.wire_rules.tools import check_format, check_tools

LONGEST_ID = 64

_INPUT: Final = frozenset({"input_text", "input_image", "input_file", "input_audio"})
_PARTS: Final[dict[str, frozenset[str]]] = {
    "user": _INPUT,
    "system": _INPUT,
    "developer": _INPUT,
    "assistant": frozenset({"output_text", "refusal"}),
}

OUTPUTS: Final = {
    "function_call_output": "function_call",
    "custom_tool_call_output": "custom_tool_call",
    "computer_call_output": "computer_call",
    "shell_call_output": "shell_call",
    "apply_patch_call_output": "apply_patch_call",
    "local_shell_call_output": "local_shell_call",
}
"""Types of outputs, and of the calls that they answer."""

_BY_MODEL: Final = frozenset({
    *OUTPUTS.values(), "file_search_call", "web_search_call", "tool_search_call", "program",
    "image_generation_call", "code_interpreter_call", "mcp_list_tools", "mcp_approval_request",
    "mcp_call", "reasoning", "compaction",
})  # fmt: skip
_TYPES: Final = _BY_MODEL | OUTPUTS.keys() | {
    "message", "tool_search_output", "additional_tools", "mcp_approval_response",
    "compaction_trigger", "item_reference", "program_output",
}  # fmt: skip

_PREFIXES: Final = {"message": "msg", "function_call": "fc", "reasoning": "rs"}
_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_STATUS: Final = frozenset({"in_progress", "completed", "incomplete"})
_FIELDS: Final[dict[str, frozenset[str]]] = {
    "message": frozenset({"id", "type", "role", "content", "phase", "status"}),
    "function_call": frozenset({
        "id", "type", "call_id", "caller", "namespace", "name", "arguments", "status",
    }),
    "function_call_output": frozenset({
        "id", "type", "call_id", "caller", "namespace", "name", "output", "status",
    }),
    "reasoning": frozenset({"id", "type", "encrypted_content", "summary", "content", "status"}),
}  # fmt: skip
_REQUIRED: Final = {
    "function_call": ("call_id", "name", "arguments"),
    "function_call_output": ("call_id", "output"),
    "reasoning": ("summary",),
    "compaction": ("encrypted_content",),
    "item_reference": ("id",),
}
_INCLUDE: Final = frozenset({
    "file_search_call.results", "web_search_call.results", "web_search_call.action.sources",
    "message.input_image.image_url", "computer_call_output.output.image_url",
    "code_interpreter_call.outputs", "reasoning.encrypted_content", "message.output_text.logprobs",
})  # fmt: skip


def check_responses(
    found: Found, request: dict[str, Any], history: Sequence[dict[str, Any]]
) -> None:
    """Check a request to `/responses`; `history` has the items as the provider made them."""
    given = request.get("input")
    continues = request.get("previous_response_id") or request.get("conversation")
    found.check(given or continues or request.get("prompt"), "input-empty", "input")
    if isinstance(given, str):
        found.check(not given or given.strip(), "content-empty", "input")
    items = objects(given)
    for position, item in enumerate(items):
        _check_item(found, item, f"input[{position}]")
    _check_pairs(found, items, is_whole=not continues)
    _check_reasoning(found, items, request, reasoning_of(history))
    if not continues:
        _check_approvals(found, items)
    _check_settings(found, request)
    check_tools(found, request)
    check_format(found, fields_of(request.get("text")).get("format"), "text.format")


def kind_of(item: Mapping[str, Any]) -> str:
    """Return an item's type; messages and references may have none."""
    return text_of(item.get("type") or ("message" if "role" in item else "item_reference"))


def is_by_model(item: Mapping[str, Any]) -> bool:
    """Whether a model makes items such as this one."""
    return kind_of(item) in _BY_MODEL or item.get("role") == "assistant"


def reasoning_of(history: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the id of the reasoning that the provider put before each item, by the item's id."""
    before: dict[str, str] = {}
    reasoning: object = None
    for item in history:
        if kind_of(item) == "reasoning":
            reasoning = item.get("id")
        elif not is_by_model(item):
            reasoning = None
        elif isinstance(reasoning, str) and item.get("id"):  # scripted models give no ids
            before[text_of(item.get("id"))] = reasoning
        else:
            before.pop(text_of(item.get("id")), None)
    return before


def _check_item(found: Found, item: dict[str, Any], where: str) -> None:
    kind = kind_of(item)
    if not found.check(kind in _TYPES, "item-type", where, kind):
        return
    _check_fields(found, item, kind, where)
    if kind == "message":
        types = _PARTS.get(text_of(item.get("role")))
        if types is None:
            found.add("role-known", where, repr(item.get("role")))
        else:
            check_content(found, item.get("content"), f"{where}.content", types)
    elif kind == "function_call":
        found.check(is_name(item.get("name"), 128), "call-name", where, repr(item.get("name")))
        arguments = item.get("arguments")
        found.check(is_json_object(arguments), "call-arguments", where, repr(arguments)[:80])
    elif kind in {"function_call_output", "custom_tool_call_output"}:
        output = item.get("output")
        if not isinstance(output, str):
            check_content(found, output, f"{where}.output", _INPUT)


def _check_fields(found: Found, item: dict[str, Any], kind: str, where: str) -> None:
    unknown = sorted(item.keys() - _FIELDS.get(kind, item.keys()) | item.keys() & {"provider_data"})
    found.check(not unknown, "item-fields", where, f"{kind} has {', '.join(unknown)}")
    missing = [name for name in _REQUIRED.get(kind, ()) if item.get(name) is None]
    found.check(not missing, "item-fields", where, f"{kind} lacks {', '.join(missing)}")
    if kind in _FIELDS and "status" in item:
        found.check(
            text_of(item["status"]) in _STATUS, "item-fields", where, f"status {item['status']!r}"
        )
    item_id = item.get("id")
    if item_id is not None:
        good = isinstance(item_id, str) and len(item_id) <= LONGEST_ID and _ID.fullmatch(item_id)
        good = good and text_of(item_id).startswith(_PREFIXES.get(kind, ""))
        found.check(good, "item-id", where, repr(item_id))
    if (call_id := item.get("call_id")) is not None:
        good = isinstance(call_id, str) and 0 < len(call_id) <= LONGEST_ID
        found.check(good, "call-id", where, repr(call_id))


def _check_pairs(found: Found, items: list[dict[str, Any]], *, is_whole: bool) -> None:
    calls: dict[tuple[str, str], int] = {}
    answered: set[tuple[str, str]] = set()
    ids: set[str] = set()
    for position, item in enumerate(items):
        where, kind, item_id = f"input[{position}]", kind_of(item), text_of(item.get("id"))
        if item.get("id") is not None and kind not in OUTPUTS:
            found.check(item_id not in ids, "item-id-unique", where, item_id)
            ids.add(item_id)
        # The output of a local shell call may have the call's id as its own.
        call_id = text_of(item.get("call_id") or item.get("id"))
        if kind in OUTPUTS.values():
            found.check((kind, call_id) not in calls, "call-id-unique", where, call_id)
            calls[kind, call_id] = position
        elif kind in OUTPUTS:
            key = (OUTPUTS[kind], call_id)
            if key in answered:
                found.add("call-answered", where, f"{call_id} has two outputs")
            elif key in calls or not is_whole:
                answered.add(key)
            else:
                found.add("output-called", where, call_id)
    for key in calls.keys() - answered:
        found.add("call-answered", f"input[{calls[key]}]", key[1])


def _check_reasoning(
    found: Found, items: list[dict[str, Any]], request: dict[str, Any], needed: dict[str, str]
) -> None:
    present: set[str] = set()
    for position, item in enumerate(items):
        where, item_id = f"input[{position}]", text_of(item.get("id"))
        if kind_of(item) != "reasoning":
            reasoning = needed.get(item_id)
            if reasoning is not None:
                found.check(reasoning in present, "reasoning-kept", where, f"{item_id} {reasoning}")
            if kind_of(item) == "item_reference" and request.get("store") is False:
                found.add("reasoning-readable", where)
            continue
        present.add(item_id)
        if request.get("store") is False:
            found.check(item.get("encrypted_content"), "reasoning-readable", where, item_id)
        if item.get("id") is None:
            continue
        after = items[position + 1] if position + 1 < len(items) else {}
        follows = is_by_model(after) or kind_of(after) == "item_reference"
        good = follows and bool(after.get("id"))
        if good and item_id in needed.values() and kind_of(after) != "reasoning":
            good = needed.get(text_of(after["id"])) == item_id
        found.check(good, "reasoning-followed", where, item_id)


def _check_approvals(found: Found, items: list[dict[str, Any]]) -> None:
    asked: set[str] = set()
    for position, item in enumerate(items):
        if kind_of(item) == "mcp_approval_request":
            asked.add(text_of(item.get("id")))
        elif kind_of(item) == "mcp_approval_response":
            request_id = text_of(item.get("approval_request_id"))
            found.check(request_id in asked, "approval-asked", f"input[{position}]", request_id)


def _check_settings(found: Found, request: dict[str, Any]) -> None:
    both = request.get("previous_response_id") and request.get("conversation")
    found.check(not both, "thread-once", "previous_response_id")
    unknown = set(map(text_of, list_of(request.get("include")))) - _INCLUDE
    found.check(not unknown, "include-known", "include", ", ".join(sorted(unknown)))
