"""Requests and decisions as elicitations of the Model Context Protocol, both ways.

A client of MCP can show approvals of outlast as forms: `to_elicitation`, then
`from_form_result`. People who use outlast can answer the form of an MCP server: `from_elicitation`,
then `to_elicitation_result`. Forms are flat: fields of texts, numbers, switches and choices. Needs
no package of MCP.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from outlast.agents.errors import UserError
from outlast.extensions.approvals.fields import (
    arguments_of,
    check_sayable,
    is_for_texts,
    list_of,
    object_of,
    text_of,
)
from outlast.loop.approvals import (
    REDACTED,
    ApprovalRequest,
    ApprovalTerms,
    Decision,
    DecisionType,
    digest,
)
from outlast.loop.values import JsonObject
from outlast.rendering import argument_lines, visible, visible_lines

CHANNEL: Final = "mcp"

_FORMATS: Final = frozenset({"email", "uri", "date", "date-time"})
_DESCRIBING: Final = ("title", "description", "default")
_WORDS: Final[dict[str, tuple[str, ...]]] = {
    "string": ("minLength", "maxLength", "pattern"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "boolean": (),
}
_EDIT: Final = "edit_"
_RESPONSE: Final = "response_"
_LABELS: Final[dict[DecisionType, str]] = {
    "approve": "Approve",
    "edit": "Approve with the changed values below",
    "reject": "Reject",
    "respond": "Answer in its place",
}


# --- Approvals of outlast, as forms --------------------------------------------------------------


def to_elicitation(request: ApprovalRequest) -> JsonObject:
    """Return a request as the parameters of `elicitation/create`, in the form mode.

    The form has the decision, a message, the arguments that can be edited, and the response. A
    request that only takes a response is a form of its response. Redacted arguments are not in it.

    Raises:
        UserError: no decision about the request fits into a form.
    """
    if _is_response_form(request):
        schema = request.terms.response_schema or {}
    else:
        schema = {"type": "object", "properties": _form_of(request), "required": ["decision"]}
    return {"mode": "form", "message": _message_of(request), "requestedSchema": schema}


def from_form_result(request: ApprovalRequest, result: Mapping[str, Any]) -> Decision | None:
    """Return the decision of a form, bound to the request's arguments; None for no decision.

    It names nobody: add the person with `outlast.client.identity.decided_by`. A field for an
    argument that is left empty leaves the argument as it is.

    Args:
        request: the request whose form it was.
        result: the `ElicitResult`: an action and the form's content.

    Raises:
        UserError: the result does not fit the form.
    """
    fields = object_of(result, "An ElicitResult")
    match fields.get("action"):
        case "cancel":
            return None
        case "decline":
            _check_allowed(request, "reject", request.terms.allow)
            return _decided(request, "reject")
        case "accept":
            content = object_of(fields.get("content"), "The content of an accepted form")
            return _accepted(request, content)
        case other:
            raise _unknown_action(other)


def _accepted(request: ApprovalRequest, content: JsonObject) -> Decision:
    properties = _form_of(request)
    strange = [name for name in content if name not in properties]
    if strange:
        raise UserError(f"The form of approval {request.id} has no field {strange[0]!r:.80}.")
    if _is_response_form(request):
        return _decided(request, "respond", response=content)
    allowed = _allowed(request)
    kind = content.get("decision")
    _check_allowed(request, kind, allowed)
    has_values = any(name.startswith(_EDIT) for name in content)
    edited = _edited(request, content) if has_values or kind == "edit" else {}
    if kind != "edit" and has_values and edited != arguments_of(request):
        raise UserError(
            f"The form of approval {request.id} has changed values, but the decision {kind}. "
            "Choose edit, or leave the values."
        )
    if kind == "edit":
        return _decided(request, "edit", edited_arguments=edited)
    if kind == "respond":
        return _decided(request, "respond", response=_response(request, content))
    message = content.get("message") or None
    if message is None:
        return _decided(request, cast("DecisionType", kind))
    if kind != "reject":
        raise UserError(f"A message goes with a rejection only, not with the decision {kind}.")
    return _decided(request, "reject", message=text_of(message, "The message"))


def _edited(request: ApprovalRequest, content: JsonObject) -> JsonObject:
    changed = {
        name.removeprefix(_EDIT): value
        for name, value in content.items()
        if name.startswith(_EDIT) and value is not None
    }
    return {**arguments_of(request), **changed}


def _response(request: ApprovalRequest, content: JsonObject) -> Any:
    if is_for_texts(request.terms.response_schema):
        return text_of(content.get("response"), "The field response")
    return {
        name.removeprefix(_RESPONSE): value
        for name, value in content.items()
        if name.startswith(_RESPONSE)
    }


def _form_of(request: ApprovalRequest) -> JsonObject:
    """Return the fields of a request's form."""
    if _is_response_form(request):
        return _flat_fields(request.terms.response_schema or {}) or {}
    allowed = _allowed(request)
    properties: JsonObject = {
        "decision": {
            "type": "string",
            "title": "Decision",
            "oneOf": [{"const": kind, "title": _LABELS[kind]} for kind in allowed],
        }
    }
    if "reject" in allowed:
        described = "What the model reads if you reject."
        properties["message"] = {"type": "string", "title": "Message", "description": described}
    if "edit" in allowed:
        for name, field in _editable(request).items():
            properties[f"{_EDIT}{name}"] = field
    if "respond" in allowed:
        properties |= _response_fields(request)
    return properties


def _response_fields(request: ApprovalRequest) -> JsonObject:
    schema = request.terms.response_schema
    if is_for_texts(schema):
        words = _field_of(schema or {}) or {}
        return {"response": {"title": "Response", **words, "type": "string"}}
    fields = _flat_fields(schema or {}) or {}
    return {f"{_RESPONSE}{name}": field for name, field in fields.items()}


def _editable(request: ApprovalRequest) -> JsonObject:
    """Return the fields of the arguments that fit into a form, with their values."""
    arguments = arguments_of(request)
    listed: object = (request.schema or {}).get("properties")
    properties = cast("JsonObject", listed) if isinstance(listed, dict) else {}
    found: JsonObject = {}
    for name, rule in properties.items():
        field = _field_of(rule)
        value = arguments.get(name)
        if field is None or value == REDACTED or name in request.terms.redact:
            continue
        field.pop("default", None)
        if value is not None:
            if not _holds(field, value):
                continue
            field["default"] = value
        found[name] = {"title": name, **field}
    return found


def _holds(field: JsonObject, value: object) -> bool:
    """Whether a form's field can show a value."""
    match field["type"]:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "array":
            entries = cast("list[object]", value) if isinstance(value, list) else [None]
            return all(isinstance(one, str) for one in entries)
        case _:
            return isinstance(value, int | float) and not isinstance(value, bool)


def _allowed(request: ApprovalRequest) -> list[DecisionType]:
    """Return the decisions that a form can express.

    Raises:
        UserError: there is none.
    """
    schema = request.terms.response_schema
    fits: dict[DecisionType, bool] = {
        "approve": True,
        "edit": "edit" in request.terms.allow and bool(_editable(request)),
        "reject": True,
        "respond": is_for_texts(schema) or bool(_flat_fields(schema or {})),
    }
    found: list[DecisionType] = [kind for kind in request.terms.allow if fits[kind]]
    if not found:
        raise UserError(
            f"Approval {request.id} takes {', '.join(request.terms.allow)} only, with values that "
            "a flat form cannot hold. Decide it with `outlast`."
        )
    return found


def _is_response_form(request: ApprovalRequest) -> bool:
    """Whether accepting the form can only mean a response, as for the form of an MCP server."""
    schema = request.terms.response_schema
    only = "respond" in request.terms.allow and set(request.terms.allow) <= {"respond", "reject"}
    return only and schema is not None and _flat_fields(schema) is not None


def _message_of(request: ApprovalRequest) -> str:
    if _is_response_form(request):
        return request.reason or f"{request.agent} asks for {request.name}."
    lines = [f"{visible(request.agent)} wants to call {visible(request.name)}:"]
    lines += argument_lines(request.arguments) or visible_lines(request.arguments)
    if request.reason:
        lines += ["", *visible_lines(request.reason)]
    if request.terms.effect:
        lines.append(f"Effect: {visible(request.terms.effect)}.")
    lines.append(f"Risk: {request.terms.risk}.")
    return "\n".join(lines)


# --- Forms of MCP servers, answered with outlast -------------------------------------------------


def from_elicitation(
    params: Mapping[str, Any], *, request_id: str, server: str, agent: str, requested_at_ms: int
) -> ApprovalRequest:
    """Return the form of an MCP server as a request that takes a response or a rejection.

    Args:
        params: the parameters of `elicitation/create`.
        request_id: the id of the request.
        server: the name of the server, which people have to see.
        agent: the agent whose call the server asks about.
        requested_at_ms: when it asked, in milliseconds since the epoch.

    Raises:
        UserError: it is no form, or not a flat one.
    """
    fields = object_of(params, "The parameters of an elicitation")
    mode = fields.get("mode", "form")
    if mode != "form":
        raise UserError(
            f"The server {server!r:.80} asks in the mode {mode!r:.40}. Only forms can be answered "
            "here; a person has to open an address in a browser."
        )
    message = text_of(fields.get("message"), "The message of an elicitation")
    schema = object_of(fields.get("requestedSchema"), "requestedSchema")
    if schema.get("type", "object") != "object" or _flat_fields(schema) is None:
        raise UserError(
            f"The form of the server {server!r:.80} is not flat: {_not_flat(schema)}. Fields may be "
            "texts, numbers, switches and choices."
        )
    list_of(schema.get("required", []), "required in requestedSchema")
    arguments = json.dumps({"message": message}, ensure_ascii=False)
    return ApprovalRequest(
        id=request_id,
        call_id="",
        name=f"{server}.elicitation",
        agent=agent,
        arguments=arguments,
        args_digest=digest(arguments),
        reason=message,
        terms=ApprovalTerms(allow=("respond", "reject"), response_schema=schema),
        requested_at_ms=requested_at_ms,
    )


def to_elicitation_result(request: ApprovalRequest, decision: Decision | None) -> JsonObject:
    """Return a decision as an `ElicitResult`; None, for a request that expired, cancels.

    Raises:
        UserError: MCP cannot express the decision.
    """
    if decision is None:
        return {"action": "cancel"}
    _check_allowed(request, decision.type, request.terms.allow)
    check_sayable(decision, "MCP", message=False)
    if decision.type == "reject":
        return {"action": "decline"}
    if decision.type == "respond":
        content = object_of(decision.response, f"The response to {request.id}")
        return {"action": "accept", "content": content}
    raise UserError(f"An elicitation takes a response or a rejection, not {decision.type}.")


def _flat_fields(schema: JsonObject) -> JsonObject | None:
    """Return the fields of a flat object schema, or None if one does not fit into a form."""
    listed: object = schema.get("properties")
    if not isinstance(listed, dict):
        return None
    fields = {name: _field_of(rule) for name, rule in cast("JsonObject", listed).items()}
    return None if None in fields.values() else cast("JsonObject", fields)


def _not_flat(schema: JsonObject) -> str:
    listed: object = schema.get("properties")
    if not isinstance(listed, dict):
        return "it has no properties"
    fields = cast("JsonObject", listed)
    bad = next((name for name, rule in fields.items() if _field_of(rule) is None), "its type")
    return f"{bad!r:.80} does not fit"


def _field_of(rule: object) -> JsonObject | None:
    """Return a JSON Schema as a field of a form, or None if it does not fit into one."""
    if not isinstance(rule, dict):
        return None
    words = _without_null(cast("JsonObject", rule))
    kind = words.get("type")
    kept = {name: words[name] for name in _DESCRIBING if words.get(name) is not None}
    if kind == "array":
        choices = _choices(words.get("items"), "anyOf")
        sizes = {name: words[name] for name in ("minItems", "maxItems") if name in words}
        return None if choices is None else {"type": "array", **kept, **sizes, "items": choices}
    if not isinstance(kind, str) or kind not in _WORDS:
        return None
    if kind == "string" and ("enum" in words or "oneOf" in words):
        choices = _choices(words, "oneOf")
        return None if choices is None else {**kept, **choices}
    if set(words) & {"enum", "const", "anyOf", "oneOf", "allOf", "$ref"}:
        return None
    kept |= {name: words[name] for name in _WORDS[kind] if name in words}
    if words.get("format") in _FORMATS and kind == "string":
        kept["format"] = words["format"]
    return {"type": kind, **kept}


def _without_null(words: JsonObject) -> JsonObject:
    """Return the schema of the values besides null: in a form, null is an empty field."""
    options: object = words.get("anyOf")
    if isinstance(options, list):
        others = [one for one in cast("list[object]", options) if one != {"type": "null"}]
        if len(others) == 1 and isinstance(others[0], dict):
            rest = {name: value for name, value in words.items() if name != "anyOf"}
            return {**cast("JsonObject", others[0]), **rest}
    kinds: object = words.get("type")
    if isinstance(kinds, list):
        named = [one for one in cast("list[object]", kinds) if one != "null"]
        if len(named) == 1:
            return {**words, "type": named[0]}
    return words


def _choices(rule: object, titled: str) -> JsonObject | None:
    """Return the choices of a form's field: texts, or texts with titles."""
    if not isinstance(rule, dict):
        return None
    words = cast("JsonObject", rule)
    listed: object = words.get("enum")
    if isinstance(listed, list) and words.get("type", "string") == "string":
        names = cast("list[object]", listed)
        return {"type": "string", "enum": names} if _all_texts(names) else None
    options: object = words.get(titled)
    if not isinstance(options, list):
        return None
    pairs = [
        cast("JsonObject", one) if isinstance(one, dict) else {}
        for one in cast("list[object]", options)
    ]
    if not all(_all_texts([one.get("const"), one.get("title")]) for one in pairs):
        return None
    choices: JsonObject = {titled: [{n: one[n] for n in ("const", "title")} for one in pairs]}
    return choices if titled == "anyOf" else {"type": "string", **choices}


def _all_texts(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(one, str) for one in values)


# --- Both ways -----------------------------------------------------------------------------------


def _decided(request: ApprovalRequest, kind: DecisionType, **fields: Any) -> Decision:
    return Decision(
        request_id=request.id,
        type=kind,
        args_digest=request.args_digest,
        channel=CHANNEL,
        **fields,
    )


def _check_allowed(request: ApprovalRequest, kind: object, allowed: Any) -> None:
    if kind not in allowed:
        raise UserError(
            f"Approval {request.id} cannot be decided with {kind!r:.40}, only with "
            f"{', '.join(allowed)}."
        )


def _unknown_action(action: object) -> UserError:
    return UserError(
        f"The action of an ElicitResult is accept, decline or cancel, not {action!r:.40}."
    )
