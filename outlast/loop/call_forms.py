"""The forms in which a model calls a tool, and in which it is answered.

Owns: what calls of each form say, where they say it, and how an output is written for each. The
loop itself knows a call by its id, its tool's name and its arguments as text, whatever its form.
Must not know: what tools do.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass

from outlast.loop.items import call_id_of
from outlast.loop.phrases import as_text
from outlast.loop.values import Json, JsonObject, is_reference, placeholder

FUNCTION = "function_call"

BLANK_SCREEN = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNg"
    "AAAAAgAB5Sfe/AAAAABJRU5ErkJggg=="
)
"""One pixel, because a computer's call takes no other answer than a picture."""


@dataclass(frozen=True, slots=True)
class CallForm:
    """One form of a call.

    Attributes:
        output: the type of the item that answers it.
        said: what that item has in it where the answer is a text.
        text: where the call's text is; empty for calls that say several things.
        parts: where those are.
        name: the tool, where the call does not name it.
    """

    output: str
    said: Callable[[str], JsonObject]
    text: str = ""
    parts: tuple[str, ...] = ()
    name: str = ""


def _plain(text: str) -> JsonObject:
    return {"output": text}


def _patch_failed(text: str) -> JsonObject:
    return {"status": "failed", "output": text}


def _command_failed(text: str) -> JsonObject:
    outcome = {"type": "exit", "exit_code": 1}
    return {"output": [{"stdout": "", "stderr": text, "outcome": outcome}]}


def _nothing_to_see(_text: str) -> JsonObject:
    return {"output": {"type": "computer_screenshot", "image_url": BLANK_SCREEN}}


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
    ),
}
"""By the type of the call's item.

Functions are always run here. What is called in the other forms may be the provider's own: it then
answers itself, and the call has no plan.
"""

FORM_OF_OUTPUT = {form.output: name for name, form in FORMS.items()}
"""By the type of an output item, the form of its call."""


def form_of(raw: JsonObject) -> str:
    """Return the form of a call; a function's where the item says nothing else."""
    kind = str(raw.get("type", FUNCTION))
    return kind if kind in FORMS else FUNCTION


def is_call(raw: JsonObject) -> bool:
    """Whether an item may be a call of a tool that is run here."""
    return raw.get("type") in FORMS


def name_of(raw: JsonObject) -> str:
    """Return the name of the tool that a call is for."""
    return FORMS[form_of(raw)].name or str(raw.get("name", ""))


def arguments_of(raw: JsonObject) -> str:
    """Return what a call says, as text: what the model wrote, or JSON of the parts."""
    form = FORMS[form_of(raw)]
    if form.text:
        text: Json = raw.get(form.text, "")
        return placeholder(text) if is_reference(text) else str(text)
    said = {part: raw[part] for part in form.parts if raw.get(part) is not None}
    return json.dumps(said, separators=(",", ":"))


def call_item(form: str, *, call_id: str, name: str, arguments: str) -> JsonObject:
    """Return the call that says this: the item, as far as it matters to its tool."""
    known = FORMS[form]
    if known.text:
        return {"type": form, "call_id": call_id, "name": name, known.text: arguments}
    return {"type": form, "call_id": call_id, **json.loads(arguments)}


def output_item(call_id: str, output: Json, form: str = FUNCTION) -> JsonObject:
    """Return the item that answers a call.

    Args:
        call_id: the call's.
        output: what the model reads: a text; for a function, parts of its format, too; for the
            forms that say several things, all that the item has in it.
        form: the call's.
    """
    known = FORMS[form]
    head: JsonObject = {"type": known.output, "call_id": call_id}
    if known.text:
        return {**head, "output": output}
    return {**head, **(output if isinstance(output, dict) else known.said(as_text(output)))}


def same_call(one: JsonObject, other: JsonObject) -> bool:
    """Whether two calls say the same under one id."""
    return (call_id_of(one), form_of(one), name_of(one), arguments_of(one)) == (
        call_id_of(other),
        form_of(other),
        name_of(other),
        arguments_of(other),
    )
