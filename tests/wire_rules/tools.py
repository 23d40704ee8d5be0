"""The rules of tools, of the choice among them, and of an answer's format."""

from typing import Any, Final

from tests.wire_rules.found import Found, fields_of, is_name, list_of, objects, text_of
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
        count = len(list_of(tools))
        found.check(count <= MOST_TOOLS, "tools-many", "tools", f"{count} tools")
    names: list[str] = []
    for position, tool in enumerate(objects(tools)):
        names += _check_tool(found, tool, f"tools[{position}]")
    doubled = sorted({name for name in names if names.count(name) > 1})
    found.check(not doubled, "tool-names-unique", "tools", ", ".join(doubled))
    if tools or request.get("prompt") is not None:
        _check_choice(found, request.get("tool_choice"), objects(tools), names, request)
        return
    # Responses accepts the defaults without tools.
    harmless = ["None", "auto", "none", "True", "False"] if found.api == "responses" else []
    for name in ("tool_choice", "parallel_tool_calls"):
        if name in request and text_of(request[name]) not in harmless:
            found.add("choice-without-tools", name)


def _check_tool(found: Found, tool: dict[str, Any], where: str) -> list[str]:
    kind = text_of(tool.get("type"))
    if kind == "namespace" and found.api == "responses":
        inner = objects(tool.get("tools"))
        return [name for one in inner for name in _check_tool(found, one, f"{where}.tools")]
    if kind != "function":
        known = _HOSTED if found.api == "responses" else {"custom"}
        found.check(kind in known, "tools-type", where, kind)
        return [text_of(tool["name"])] if kind == "custom" and "name" in tool else []
    function = tool if found.api == "responses" else fields_of(tool.get("function"))
    name = text_of(function.get("name"))
    longest = 128 if found.api == "responses" else 64
    found.check(is_name(function.get("name"), longest), "tool-name", where, name)
    description = text_of(function.get("description") or "")
    found.check(len(description) <= LONGEST_DESCRIPTION, "tool-description", where, name)
    schema, is_missing = fields_of(function.get("parameters")), function.get("parameters") is None
    is_object = (
        isinstance(function.get("parameters"), dict) and schema.get("type", "object") == "object"
    )
    found.check(is_missing or is_object, "tool-parameters", where, name)
    if function.get("strict") is True:
        check_strict(found, schema, f"{where} {name!r}")
    return [name]


def _check_choice(
    found: Found,
    choice: object,
    tools: list[dict[str, Any]],
    names: list[str],
    request: dict[str, Any],
) -> None:
    if choice is None or text_of(choice) in {"none", "auto", "required"}:
        return
    chosen = fields_of(choice)
    kind = text_of(chosen.get("type"))
    if kind == "allowed_tools":
        return
    if found.api == "chat":
        name = text_of(fields_of(chosen.get(kind)).get("name"))
        good = kind in {"function", "custom"} and name in names
    elif request.get("prompt") is not None:
        return  # the stored prompt may have the tools
    elif kind in {"function", "custom"}:
        good = text_of(chosen.get("name")) in names
    elif kind == "mcp":
        good = chosen.get("server_label") in [tool.get("server_label") for tool in tools]
    else:
        wanted = _COMPUTER if kind in _COMPUTER else {kind}
        good = wanted & {text_of(tool.get("type")) for tool in tools}
    found.check(good, "choice-known", "tool_choice", repr(choice))


def check_format(found: Found, form: object, where: str) -> None:
    """Check the format of an answer."""
    fields = fields_of(form)
    if fields.get("type") != "json_schema":
        return
    if found.api == "chat":
        fields = fields_of(fields.get("json_schema"))
    name = fields.get("name")
    found.check(is_name(name, 64), "format-name", where, repr(name))
    if fields.get("strict") is True:
        check_strict(found, fields.get("schema"), where)
