"""The readable content of tool call output items."""

from typing import Any, cast

from outlast.agents.json_values import as_object
from outlast.loop.values import Json, JsonObject


def output_content(raw: JsonObject) -> Json:
    """Return the content of an output item: a text, or a function's list of parts.

    The content of a screenshot is its URL or `data:` URL; of shell commands, what they printed; of a
    hosted approval, its reason.
    """
    output: Any = raw.get("output")
    match raw.get("type"):
        case "shell_call_output":
            return _shell_text(output)
        case "apply_patch_call_output":
            return output or ""
        case "program_output":
            return raw.get("result") or ""
        case "mcp_approval_response":
            return raw.get("reason") or ""
        case "computer_call_output":
            return (as_object(output) or {}).get("image_url") or ""
        case _:
            return output


def _shell_text(output: Any) -> str:
    entries = cast("list[Any]", output) if isinstance(output, list) else []
    texts = [_command_text(cast("JsonObject", entry)) for entry in entries]
    return "\n\n".join(text for text in texts if text)


def _command_text(entry: JsonObject) -> str:
    stdout, stderr = str(entry.get("stdout") or ""), str(entry.get("stderr") or "")
    late = (as_object(entry.get("outcome")) or {}).get("type") == "timeout"
    parts = [
        stdout.rstrip("\n"),
        f"stderr:\n{stderr.rstrip()}" if stderr else "",
        "status: timeout" if late else "",
    ]
    return "\n\n".join(part for part in parts if part)
