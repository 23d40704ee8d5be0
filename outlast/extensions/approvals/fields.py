"""Fields of foreign JSON, checked; and the fields of decisions that other systems lack."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from outlast.agents.errors import UserError
from outlast.loop.approvals import ApprovalRequest, Decision
from outlast.loop.values import JsonObject


def object_of(value: object, what: str) -> JsonObject:
    """Return a value that has to be a JSON object.

    Raises:
        UserError: it is none.
    """
    if not isinstance(value, Mapping) or not all(
        isinstance(name, str) for name in cast("Mapping[Any, Any]", value)
    ):
        raise UserError(f"{what} must be an object, not {value!r:.80}.")
    return dict(cast("Mapping[str, Any]", value))


def list_of(value: object, what: str) -> list[Any]:
    """Return a value that has to be a list.

    Raises:
        UserError: it is none.
    """
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise UserError(f"{what} must be a list, not {value!r:.80}.")
    return list(cast("Sequence[Any]", value))


def text_of(value: object, what: str) -> str:
    """Return a value that has to be a text.

    Raises:
        UserError: it is none.
    """
    if not isinstance(value, str):
        raise UserError(f"{what} must be a text, not {value!r:.80}.")
    return value


def arguments_of(request: ApprovalRequest) -> JsonObject:
    """Return the arguments of a request as reviewers see them.

    Raises:
        UserError: they are no JSON object, or repeat a key, so an object would not show them all.
    """
    repeated: list[str] = []

    def fields_of(pairs: list[tuple[str, Any]]) -> JsonObject:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            repeated.append("a key")
        return fields

    try:
        value: object = json.loads(request.arguments or "{}", object_pairs_hook=fields_of)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or repeated:
        raise UserError(
            f"The arguments of approval {request.id} are no JSON object, or repeat a key, so other "
            "systems cannot show them. Decide it with `outlast approve` or `outlast reject`."
        )
    return cast("JsonObject", value)


def check_sayable(decision: Decision, system: str, *, message: bool) -> None:
    """Refuse a decision with a part that another system has no field for.

    Args:
        decision: the decision.
        system: the name of the system.
        message: whether the system takes a message with this type of decision.

    Raises:
        UserError: the decision would reach the system without that part.
    """
    if decision.remember:
        raise UserError(
            f"{system} cannot remember a decision for further calls. Send it without remember."
        )
    if decision.message is not None and not message:
        raise UserError(
            f"{system} takes no message with a decision of type {decision.type}. Send it without."
        )


def is_for_texts(schema: JsonObject | None) -> bool:
    """Whether a response schema takes texts, as does a request without a schema."""
    return schema is None or schema.get("type") == "string"
