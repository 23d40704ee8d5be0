"""The routes that take deliveries: the receiver and the description of the desk's API share them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_TEXT: Final[dict[str, Any]] = {"type": "string"}


def _object(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of an object that has all of these."""
    return {"type": "object", "properties": properties, "required": list(properties)}


_RECEIPT: Final = _object(
    run_id=_TEXT,
    name=_TEXT | {"description": "The name of the wait."},
    at={
        "type": ["string", "null"],
        "format": "date-time",
        "description": "When the run took the value; of a repetition, when it took the first. null "
        "if no worker was there: the server keeps the value.",
    },
)
_SENT: Final = _object(run_id=_TEXT, message_id=_TEXT)
_WOKEN: Final = _object(run_id=_TEXT, woken={"type": "boolean"})
_DONE: Final = {"type": "array", "items": {"anyOf": [_RECEIPT, _SENT, _WOKEN]}}


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
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    answers: Mapping[int, str]
    schema: Mapping[str, Any]


WAIT_URL: Final = DeliveryEndpoint(
    path="/deliveries/{token}",
    name="post_deliveries",
    summary="Finish the wait of a signed URL, once.",
    description="For whoever has a URL of `ToolContext.wait_url`. The body is the value. A receiver "
    "has this route if OUTLAST_DELIVERY_KEYS is set.",
    path_parameter=("token", "The token of the wait."),
    query={
        "expires": "Until when the URL counts, in seconds since the epoch.",
        "signature": "The signature of the token and the time.",
    },
    answers={
        200: "The run has taken the value.",
        202: "No worker is there: the server keeps the value for the run.",
    },
    schema=_RECEIPT,
)

WEBHOOK: Final = DeliveryEndpoint(
    path="/webhooks/{name}",
    name="post_webhooks",
    summary="Take a webhook whose signature is verified.",
    description="For the service that signs the webhook, in headers of its own. A receiver has this "
    "route if it was given webhooks, as by `outlast serve --webhooks`.",
    path_parameter=("name", "The name of the webhook, such as `github`."),
    answers={200: "What the webhook did, or the challenge of a new address."},
    schema={"anyOf": [_object(done=_DONE), _object(challenge=_TEXT)]},
)

DELIVERY_ENDPOINTS: Final = (WAIT_URL, WEBHOOK)
