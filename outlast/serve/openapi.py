"""The description of the API: OpenAPI 3.1, from the same table and models that answer requests."""

from functools import cache
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from outlast.deliveries.endpoints import DELIVERY_ENDPOINTS, DeliveryEndpoint
from outlast.serve.access import RULES
from outlast.serve.api import ENDPOINTS
from outlast.serve.bodies import FromQuery
from outlast.serve.endpoints import Endpoint
from outlast.serve.records import View
from outlast.serve.routing import DeskRequest, route
from outlast.views.records import JsonObject

_REFERENCE: Final = "#/components/schemas/{model}"
_PARAMETERS: Final = {
    "run_id": "The id of the conversation. Escape each character but letters, digits and _.-~.",
    "message_id": "The id of the message: `message_id` of its receipt, or for the team that of `unread`.",
    "number": "The place of the attachment in the message, from 0.",
    "team": "The name of the team, escaped as the id of a conversation.",
    "request_id": "The id of the request, such as `a1`, or `e3.a1` in a nested run.",
}


class ErrorView(View):
    """Why a request failed."""

    code: str
    message: str


class Error(View):
    """The answer to a request that failed."""

    error: ErrorView


def _models() -> list[tuple[type[BaseModel], JsonSchemaMode]]:
    found: dict[tuple[type[BaseModel], JsonSchemaMode], None] = {}
    for endpoint in ENDPOINTS:
        if endpoint.body is not None:
            found[endpoint.body, "validation"] = None
        for answer in (*endpoint.answers, *endpoint.events.values()):
            found[answer, "serialization"] = None
    found[Error, "serialization"] = None
    return list(found)


@cache
def document() -> JsonObject:
    """Return the description of the API."""
    _, definitions = models_json_schema(_models(), ref_template=_REFERENCE)
    paths: dict[str, JsonObject] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    for delivery in DELIVERY_ENDPOINTS:
        paths[delivery.path] = {"post": _delivery(delivery)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "outlast desk",
            "version": "1",
            "description": "Conversations with agents: start, send, read live, decide, take over.",
        },
        "security": [{"bearer": []}, {"login": []}],
        "paths": paths,
        "components": {
            "schemas": definitions["$defs"],
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The API key of a program, or the token of a customer.",
                },
                "login": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "session",
                    "description": "The login of a member of the team. Changes also need the "
                    "header `Origin` with the address of the desk.",
                },
            },
        },
    }


def _operation(endpoint: Endpoint) -> JsonObject:
    operation: JsonObject = {
        "operationId": operation_id(endpoint),
        "summary": endpoint.summary,
        "description": _who(endpoint),
        "responses": {f"{endpoint.status}": _answer(endpoint), "default": _failure()},
    }
    if parameters := [*_of_path(endpoint), *_of_query(endpoint)]:
        operation["parameters"] = parameters
    if endpoint.body is not None:
        is_needed = any(field.is_required() for field in endpoint.body.model_fields.values())
        content = {"application/json": {"schema": _of(endpoint.body)}}
        operation["requestBody"] = {"required": is_needed, "content": content}
    return operation


def _failure() -> JsonObject:
    return {
        "description": "Why it failed.",
        "content": {"application/json": {"schema": _of(Error)}},
    }


def _parameter(
    where: str, name: str, text: str, schema: JsonObject | None = None, *, is_needed: bool = True
) -> JsonObject:
    schema = {"type": "string"} if schema is None else schema
    rest: JsonObject = {"required": is_needed, "description": text, "schema": schema}
    return {"name": name, "in": where, **rest}


def _delivery(endpoint: DeliveryEndpoint) -> JsonObject:
    """Return the description of a route of deliveries: a signature is the right, not a login."""
    content = {"application/json": {"schema": dict(endpoint.schema)}}
    answers = {
        f"{status}": {"description": text, "content": content}
        for status, text in endpoint.answers.items()
    }
    queried = [_parameter("query", name, text) for name, text in endpoint.query.items()]
    return {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "description": endpoint.description,
        "security": [],
        "parameters": [_parameter("path", *endpoint.path_parameter), *queried],
        "requestBody": {"required": False, "content": {"*/*": {}}},
        "responses": {**answers, "default": _failure()},
    }


def operation_id(endpoint: Endpoint) -> str:
    """Return the name of an endpoint, which no other has."""
    parts = [one for one in endpoint.path.split("/")[2:] if not one.startswith("{")]
    is_one = endpoint.path.endswith("}")
    return "_".join([endpoint.method.lower(), *parts, *(["one"] if is_one else [])])


def _who(endpoint: Endpoint) -> str:
    rule = RULES[endpoint.action]
    who = [f"staff with the role {' or '.join(sorted(rule.roles))}"]
    who += ["programs"] if rule.programs else []
    who += ["the customer of the conversation"] if rule.customers else []
    return f"For {', '.join(who)}."


def _answer(endpoint: Endpoint) -> JsonObject:
    if endpoint.events:
        told = [f"- `{name}`: {_line(kind)}" for name, kind in endpoint.events.items()]
        models = [_of(kind) for kind in dict.fromkeys(endpoint.events.values())]
        return {
            "description": "Server-sent events, each with JSON:\n" + "\n".join(told),
            "content": {"text/event-stream": {"schema": {"anyOf": models}}},
        }
    if endpoint.content:
        schema = {"type": "string", "format": "binary"}
        return {"description": "The file.", "content": {endpoint.content: {"schema": schema}}}
    if not endpoint.answers:
        return {"description": "It is on its way."}
    schemas = [_of(one) for one in endpoint.answers]
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {
        "description": " Or: ".join(map(_line, endpoint.answers)),
        "content": {"application/json": {"schema": schema}},
    }


def _line(model: type[BaseModel]) -> str:
    """Return the first line of a model's description."""
    line = (model.__doc__ or "").strip().partition("\n")[0]
    return line.rpartition("`: ")[2]


def _of(model: type[BaseModel]) -> JsonObject:
    return {"$ref": _REFERENCE.format(model=model.__name__)}


def _of_path(endpoint: Endpoint) -> list[JsonObject]:
    named = _PARAMETERS.items()
    return [_parameter("path", *one) for one in named if f"{{{one[0]}}}" in endpoint.path]


def _of_query(endpoint: Endpoint) -> list[JsonObject]:
    if endpoint.query is None:
        return []
    fields: dict[str, Any] = endpoint.query.model_json_schema()["properties"]
    found = [
        _parameter("query", name, schema.pop("description", ""), schema, is_needed=False)
        for name, schema in fields.items()
    ]
    if endpoint.query is FromQuery:
        text = "The id of the last event that the reader has."
        found.append(_parameter("header", "Last-Event-ID", text, is_needed=False))
    return found


async def _show(_asked: DeskRequest) -> Response:
    return JSONResponse(document())


ROUTES: Final[list[BaseRoute]] = [route("/api/openapi.json", _show, action=None)]
