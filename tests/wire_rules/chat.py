"""The rules of requests to `/chat/completions`."""

from typing import Any, Final

from tests.wire_rules.found import Found, fields_of, is_json_object, is_name, objects, text_of
from tests.wire_rules.parts import check_content
from tests.wire_rules.tools import check_format, check_tools

LONGEST_CALL_ID = 40

_TEXT: Final = frozenset({"text"})
_PARTS: Final[dict[str, frozenset[str]]] = {
    "system": _TEXT,
    "developer": _TEXT,
    "user": frozenset({"text", "image_url", "input_audio", "file"}),
    "assistant": frozenset({"text", "refusal"}),
    "tool": _TEXT,
}
_OF_RESPONSES: Final = frozenset({"type", "id", "status", "call_id", "output", "provider_data"})


def check_chat(found: Found, request: dict[str, Any]) -> None:
    """Check a request to `/chat/completions`."""
    messages = objects(request.get("messages"))
    found.check(messages, "messages-empty", "messages")
    for position, message in enumerate(messages):
        _check_message(found, message, f"messages[{position}]")
    _check_order(found, messages)
    _check_pairs(found, messages)
    check_tools(found, request)
    check_format(found, request.get("response_format"), "response_format")


def _check_message(found: Found, message: dict[str, Any], where: str) -> None:
    role, content = message.get("role"), message.get("content")
    types = _PARTS.get(text_of(role))
    if types is None:
        found.add("role-known", where, repr(role))
        return
    found.check(role != "developer", "developer-unknown", where)
    foreign = sorted(_OF_RESPONSES & message.keys())
    found.check(not foreign, "fields-known", where, ", ".join(foreign))
    if role == "assistant":
        _check_answer(found, message, where, types)
    elif role == "tool" and isinstance(content, str):
        pass  # an empty output is an output
    elif content is None:
        found.add("content-shape", f"{where}.content", "null")
    else:
        check_content(found, content, f"{where}.content", types)


def _check_answer(found: Found, message: dict[str, Any], where: str, types: frozenset[str]) -> None:
    content: object = message.get("content")
    calls: object = message.get("tool_calls")
    has_calls = calls or message.get("function_call")
    if content is None:
        has_more = has_calls or message.get("refusal") or message.get("audio")
        found.check(has_more, "answer-content", where)
        found.check(has_calls or not has_more, "answer-readable", where)
    elif content != "" or not calls:
        # Servers drop the empty text beside calls.
        check_content(found, content, f"{where}.content", types)
    if "tool_calls" not in message:
        return
    found.check(objects(calls), "calls-empty", where)
    for position, call in enumerate(objects(calls)):
        _check_call(found, call, f"{where}.tool_calls[{position}]")


def _check_call(found: Found, call: dict[str, Any], where: str) -> None:
    call_id = call.get("id")
    good = isinstance(call_id, str) and 0 < len(call_id) <= LONGEST_CALL_ID
    found.check(good, "call-id", where, repr(call_id))
    called = fields_of(call.get("function"))
    if call.get("type") != "function" or not called:
        found.check(call.get("type") == "custom", "call-shape", where)
        return
    found.check(is_name(called.get("name"), 64), "call-name", where, repr(called.get("name")))
    arguments = called.get("arguments")
    found.check(isinstance(arguments, str), "call-shape", where, "no arguments")
    found.check(is_json_object(arguments), "call-arguments", where, repr(arguments)[:80])


def _check_order(found: Found, messages: list[dict[str, Any]]) -> None:
    before = ""
    for position, message in enumerate(messages):
        role = str(message.get("role"))
        if role in {"system", "developer"}:
            continue
        if message.get("tool_calls") and not before:
            found.add("begins-with-call", f"messages[{position}]")
        if role == "user" and before == "tool":
            found.add("user-after-output", f"messages[{position}]")
        before = role
    if before == "assistant" and not messages[-1].get("tool_calls"):
        found.add("ends-with-answer", f"messages[{len(messages) - 1}]")


def _check_pairs(found: Found, messages: list[dict[str, Any]]) -> None:
    seen: set[str] = set()
    open_calls: dict[str, str] = {}
    for position, message in enumerate(messages):
        where = f"messages[{position}]"
        if message.get("role") == "tool":
            call_id = text_of(message.get("tool_call_id"))
            if open_calls.pop(call_id, None) is None:
                name = "call-answered" if call_id in seen else "output-called"
                found.add(name, where, call_id)
            continue
        for call_id, place in open_calls.items():
            found.add("call-answered", place, f"{call_id} before {where}")
        open_calls = {}
        for call in objects(message.get("tool_calls")):
            call_id = text_of(call.get("id"))
            found.check(call_id not in seen, "call-id-unique", where, call_id)
            seen.add(call_id)
            open_calls[call_id] = where
    for call_id, place in open_calls.items():
        found.add("call-answered", place, call_id)
