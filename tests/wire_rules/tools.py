"""The rules of tools, of the choice among them, and of an answer's format."""

from typing import Any, Final, cast

from tests.wire_rules.found import Found, is_name, objects
from tests.wire_rules.strict_schemas import check_strict

MOST_TOOLS = 128
LONGEST_DESCRIPTION = 1_024

_HOSTED: Final = frozenset({
    "file_search", "computer", "computer_use_preview", "web_search", "web_search_2025_08_26",
    "web_search_preview", "web_search_preview_2025_03_11", "mcp", "code_interpreter",
    "programmatic_tool_calling", "image_generation", "local_shell", "shell", "custom", "namespace",
    "tool_search", "apply_patch",
})  # fmt: skip
_COMPUTER: Final = frozenset({"computer", "computer_use", "computer_use_preview"})


def check_tools(found: Found, request: dict[str, Any]) -> None:
    """Check the tools of a request and its `tool_choice`."""
    tools = request.get("tools")
    if tools is not None:
        found.check(tools, "tools-empty", "tools")
        found.check(len(tools) <= MOST_TOOLS, "tools-many", "tools", f"{len(tools)} tools")
    names: list[str] = []
    for position, tool in enumerate(objects(tools)):
        names += _check_tool(found, tool, f"tools[{position}]")
    doubled = sorted({name for name in names if names.count(name) > 1})
    found.check(not doubled, "tool-names-unique", "tools", ", ".join(doubled))
    if tools or request.get("prompt") is not None:
        _check_choice(found, request.get("tool_choice"), objects(tools), names, request)
        return
    for name in ("tool_choice", "parallel_tool_calls"):
        # Responses accepts its defaults without tools.
        harmless = found.api == "responses" and request.get(name) in {
            None,
            "auto",
            "none",
            True,
            False,
        }
        if name in request and not harmless:
            found.add("choice-without-tools", name)


def _check_tool(found: Found, tool: dict[str, Any], where: str) -> list[str]:
    kind = tool.get("type")
    if kind == "namespace" and found.api == "responses":
        inner = objects(tool.get("tools"))
        return [name for one in inner for name in _check_tool(found, one, f"{where}.tools")]
    if kind != "function":
        known = _HOSTED if found.api == "responses" else {"custom"}
        found.check(kind in known, "tools-type", where, repr(kind))
        return [tool["name"]] if kind == "custom" and "name" in tool else []
    function = (
        tool if found.api == "responses" else cast("dict[str, Any]", tool.get("function") or {})
    )
    name = function.get("name")
    longest = 128 if found.api == "responses" else 64
    found.check(is_name(name, longest), "tool-name", where, repr(name))
    description = function.get("description") or ""
    found.check(len(description) <= LONGEST_DESCRIPTION, "tool-description", where, str(name))
    parameters = function.get("parameters")
    schema = cast("dict[str, Any]", parameters) if isinstance(parameters, dict) else None
    is_object = schema is not None and schema.get("type") in {None, "object"}
    found.check(parameters is None or is_object, "tool-parameters", where, str(name))
    if function.get("strict") is True:
        check_strict(found, schema, f"{where} {name!r}")
    return [str(name)]


def _check_choice(
    found: Found,
    choice: object,
    tools: list[dict[str, Any]],
    names: list[str],
    request: dict[str, Any],
) -> None:
    if choice is None or choice in ("none", "auto", "required"):
        return
    detail = repr(choice)
    if not isinstance(choice, dict):
        found.add("choice-known", "tool_choice", detail)
        return
    chosen = cast("dict[str, Any]", choice)
    kind = chosen.get("type")
    if found.api == "chat":
        inner = cast("dict[str, Any]", chosen.get(str(kind)) or {})
        good = kind in {"function", "custom"} and inner.get("name") in names
        found.check(good or kind == "allowed_tools", "choice-known", "tool_choice", detail)
        return
    if request.get("prompt") is not None:
        return  # the stored prompt may have the tools
    kinds = {str(tool.get("type")) for tool in tools}
    if kind in {"function", "custom"}:
        found.check(chosen.get("name") in names, "choice-known", "tool_choice", detail)
    elif kind == "mcp":
        labels = {tool.get("server_label") for tool in tools}
        found.check(chosen.get("server_label") in labels, "choice-known", "tool_choice", detail)
    elif kind in _COMPUTER:
        found.check(kinds & _COMPUTER, "choice-known", "tool_choice", detail)
    elif kind != "allowed_tools":
        found.check(kind in kinds, "choice-known", "tool_choice", detail)


def check_format(found: Found, form: object, where: str) -> None:
    """Check the format of an answer."""
    if not isinstance(form, dict):
        return
    fields = cast("dict[str, Any]", form)
    if fields.get("type") != "json_schema":
        return
    if found.api == "chat":
        fields = cast("dict[str, Any]", fields.get("json_schema") or {})
    name = fields.get("name")
    found.check(is_name(name, 64), "format-name", where, repr(name))
    if fields.get("strict") is True:
        check_strict(found, fields.get("schema"), where)
