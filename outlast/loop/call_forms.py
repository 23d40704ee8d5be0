"""The item types that models use to call tools, and the item types that answer them.

Each form names the fields of a call and of its output. The loop itself only sees an id, a tool
name and the arguments as text.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass

from outlast.loop.canonical import digest
from outlast.loop.items import call_id_of
from outlast.loop.phrases import as_text
from outlast.loop.values import Json, JsonObject, is_reference, placeholder

FUNCTION = "function_call"

MCP_APPROVAL = "mcp_approval_request"
"""A provider's request to call a tool of an MCP server, answered by yes or no."""

MAY_CALL: JsonObject = {"approve": True}
"""The answer to such a request that lets the provider call the tool."""

BLANK_SCREEN = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNg"
    "AAAAAgAB5Sfe/AAAAABJRU5ErkJggg=="
)
"""One pixel: the output of a computer call must be a picture."""


@dataclass(frozen=True, slots=True)
class CallForm:
    """One item type for tool calls.

    Attributes:
        output: the type of the item that answers the call.
        fields: makes the output item's fields from a text.
        text: the field that holds the arguments; empty if several fields do.
        parts: those several fields.
        name: the tool's name, if the call does not hold it.
        image_only: whether the output item holds an image and no text.
    """

    output: str
    fields: Callable[[str], JsonObject]
    text: str = ""
    parts: tuple[str, ...] = ()
    name: str = ""
    image_only: bool = False


def _plain(text: str) -> JsonObject:
    return {"output": text}


def _patch_failed(text: str) -> JsonObject:
    return {"status": "failed", "output": text}


def _command_failed(text: str) -> JsonObject:
    outcome = {"type": "exit", "exit_code": 1}
    return {"output": [{"stdout": "", "stderr": text, "outcome": outcome}]}


def _nothing_to_see(_text: str) -> JsonObject:
    return {"output": {"type": "computer_screenshot", "image_url": BLANK_SCREEN}}


def _may_not_call(text: str) -> JsonObject:
    return {"approve": False, "reason": text}


FORMS = {
    FUNCTION: CallForm("function_call_output", _plain, text="arguments"),
    "custom_tool_call": CallForm("custom_tool_call_output", _plain, text="input"),
    "shell_call": CallForm("shell_call_output", _command_failed, parts=("action",), name="shell"),
    "local_shell_call": CallForm(
        "local_shell_call_output", _plain, parts=("action",), name="local_shell"
    ),
    "apply_patch_call": CallForm(
        "apply_patch_call_output", _patch_failed, parts=("operation",), name="apply_patch"
    ),
    "computer_call": CallForm(
        "computer_call_output",
        _nothing_to_see,
        parts=("action", "actions", "pending_safety_checks"),
        name="computer",
        image_only=True,
    ),
    MCP_APPROVAL: CallForm("mcp_approval_response", _may_not_call, text="arguments"),
}
"""Call forms by the type of the call item.

Functions always run here. A call of another form may run at the provider: the provider then also
sends its output, and the call has no plan.
"""

_WITHOUT_ID = frozenset({"function_call", "custom_tool_call", "shell_call", "apply_patch_call"})
"""The types of calls that providers also accept without an id."""

FORM_OF_OUTPUT = {form.output: name for name, form in FORMS.items()}
"""Call forms by the type of the output item."""

OUTPUT_OF_CALL = {
    **{name: form.output for name, form in FORMS.items()},
    "tool_search_call": "tool_search_output",
}
"""Calls that providers only accept together with their output, and the output's type."""

CALL_OF_OUTPUT = {output: name for name, output in OUTPUT_OF_CALL.items()}


def is_by_model(raw: JsonObject) -> bool:
    """Whether an item is one that models make: no input and no output of a tool."""
    if "role" in raw:
        return raw["role"] == "assistant"
    return str(raw.get("type")) not in CALL_OF_OUTPUT


def without_id(raw: JsonObject) -> JsonObject:
    """Return a model's message or call without its id; other items of a provider need theirs."""
    is_call = str(raw.get("type")) in _WITHOUT_ID
    if "id" not in raw or not (is_call or raw.get("role") == "assistant"):
        return raw
    dropped = {"id", "status"} if is_call else {"id"}
    return {name: value for name, value in raw.items() if name not in dropped}


def form_of(raw: JsonObject) -> str:
    """Return the form of a call; a call without a type is a function call."""
    kind = str(raw.get("type", FUNCTION))
    return kind if kind in FORMS else FUNCTION


def is_call(raw: JsonObject) -> bool:
    """Whether an item may be a call of a tool that runs here."""
    return str(raw.get("type")) in FORMS


def name_of(raw: JsonObject) -> str:
    """Return the name of the called tool; an MCP server of the provider comes before it."""
    name = FORMS[form_of(raw)].name or str(raw.get("name", ""))
    return f"{raw.get('server_label')}.{name}" if raw.get("type") == MCP_APPROVAL else name


def arguments_of(raw: JsonObject) -> str:
    """Return a call's arguments as text: the model's own text, or JSON of the fields."""
    form = FORMS[form_of(raw)]
    if form.text:
        text: Json = raw.get(form.text, "")
        return placeholder(text) if is_reference(text) else str(text)
    parts = {part: raw[part] for part in form.parts if raw.get(part) is not None}
    return json.dumps(parts, separators=(",", ":"))


def call_item(form: str, *, call_id: str, name: str, arguments: str) -> JsonObject:
    """Return a call item with the fields that matter to its tool."""
    rule = FORMS[form]
    if form == MCP_APPROVAL:
        label, _, tool = name.partition(".")
        return {
            "type": form,
            "id": call_id,
            "server_label": label,
            "name": tool,
            rule.text: arguments,
        }
    if rule.text:
        return {"type": form, "call_id": call_id, "name": name, rule.text: arguments}
    return {"type": form, "call_id": call_id, **json.loads(arguments)}


def output_item(call_id: str, output: Json, form: str = FUNCTION) -> JsonObject:
    """Return the item that answers a call.

    Args:
        call_id: the id of the call.
        output: a text for the model; for a function also Responses content parts; for forms with
            several fields, all fields of the item.
        form: the form of the call.
    """
    rule = FORMS[form]
    id_field = "approval_request_id" if form == MCP_APPROVAL else "call_id"
    head: JsonObject = {"type": rule.output, id_field: call_id}
    if rule.text and form != MCP_APPROVAL:
        return {**head, "output": output}
    return {**head, **(output if isinstance(output, dict) else rule.fields(as_text(output)))}


def lost_text(output: Json, form: str) -> str | None:
    """Return the text of an output that the output item of this form cannot hold."""
    if not FORMS[form].image_only or isinstance(output, dict):
        return None
    return as_text(output)


def same_call(one: JsonObject, other: JsonObject) -> bool:
    """Whether two calls have the same id, tool and arguments, however their JSON is spelt."""
    return _identity(one) == _identity(other)


def _identity(raw: JsonObject) -> tuple[str, ...]:
    form, arguments = form_of(raw), arguments_of(raw)
    is_json = FORMS[form].text != "input"
    return call_id_of(raw), form, name_of(raw), digest(arguments) if is_json else arguments
