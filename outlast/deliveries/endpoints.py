"""The routes that take deliveries: the receiver and the description of the desk's API share them."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

_RECEIPT: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "type": "object",
        "properties": {
            "run_id": {"type": "string"},
            "name": {"type": "string", "description": "The name of the wait."},
            "at": {
                "type": ["string", "null"],
                "format": "date-time",
                "description": "When the run took the value; of a repetition, when it took the "
                "first. null if no worker was there: the server keeps the value.",
            },
        },
        "required": ["run_id", "name", "at"],
    }
)
_WOKEN: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "type": "object",
        "properties": {"run_id": {"type": "string"}, "woken": {"type": "boolean"}},
        "required": ["run_id", "woken"],
    }
)
_SENT: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "type": "object",
        "properties": {"run_id": {"type": "string"}, "message_id": {"type": "string"}},
        "required": ["run_id", "message_id"],
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryEndpoint:
    """One path that takes deliveries by `POST`.

    Attributes:
        path: the path, with `{token}` or `{name}`.
        name: names it among all operations of the API.
        summary: what it does, in a line.
        description: who may call it, and when a receiver has it.
        path_parameter: the parameter in the path, and what it means.
        query: the parameters in the query, and what they mean.
        answers: the statuses of a delivery that was taken, and what they mean.
        schema: the JSON Schema of their body.
    """

    path: str
    name: str
    summary: str
    description: str
    path_parameter: tuple[str, str]
    query: Mapping[str, str]
    answers: Mapping[int, str]
    schema: Mapping[str, Any]


WAIT_URL: Final = DeliveryEndpoint(
    path="/deliveries/{token}",
    name="post_deliveries",
    summary="Finish the wait of a signed URL, once.",
    description="For whoever has a URL of `ToolContext.wait_url`. The body is the value. A receiver "
    "has this route if OUTLAST_DELIVERY_KEYS is set.",
    path_parameter=("token", "The token of the wait."),
    query=MappingProxyType(
        {
            "expires": "Until when the URL counts, in seconds since the epoch.",
            "signature": "The signature of the token and the time.",
        }
    ),
    answers=MappingProxyType(
        {
            200: "The run has taken the value.",
            202: "No worker is there: the server keeps the value for the run.",
        }
    ),
    schema=_RECEIPT,
)

WEBHOOK: Final = DeliveryEndpoint(
    path="/webhooks/{name}",
    name="post_webhooks",
    summary="Take a webhook whose signature is verified.",
    description="For the service that signs the webhook, in headers of its own. A receiver has this "
    "route if it was given webhooks, as by `outlast serve --webhooks`.",
    path_parameter=("name", "The name of the webhook, such as `github`."),
    query=MappingProxyType({}),
    answers=MappingProxyType({200: "What the webhook did, or the challenge of a new address."}),
    schema=MappingProxyType(
        {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {
                        "done": {
                            "type": "array",
                            "items": {"anyOf": [dict(_RECEIPT), dict(_SENT), dict(_WOKEN)]},
                        }
                    },
                    "required": ["done"],
                },
                {
                    "type": "object",
                    "properties": {"challenge": {"type": "string"}},
                    "required": ["challenge"],
                },
            ]
        }
    ),
)

DELIVERY_ENDPOINTS: Final = (WAIT_URL, WEBHOOK)
