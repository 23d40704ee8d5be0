"""What customers may write: a list of what is allowed."""

import re
from typing import Final, cast

from outlast.agents.errors import UserError
from outlast.views.customer import PARTS
from outlast.views.records import JsonObject

_PREFIX: Final = "customer-"
"""Begins no other id: see `RunHandle.send` and `outlast.client.people.actions`."""

_MESSAGE_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,100}")

MOST_PARTS: Final = 50
"""The most texts and files in one message of a customer."""


def customer_input(value: object) -> str | list[JsonObject]:
    """Return what a customer wrote, as the input of a run.

    Customers write messages of the user, with texts, images and files. Instructions, outputs of
    tools and other items of a conversation are for the program that runs the agents.

    Args:
        value: a text, or a list of parts of Responses input.

    Raises:
        UserError: it is something else.
    """
    if isinstance(value, str):
        if not value.strip():
            raise UserError("The message is empty. Write something.")
        return value
    parts = cast("list[object]", value) if isinstance(value, list) else []
    if not 0 < len(parts) <= MOST_PARTS:
        raise UserError(f"A message is a text, or a list of 1 to {MOST_PARTS} parts.")
    content: list[JsonObject] = [_checked_part(part) for part in parts]
    return [{"role": "user", "content": content}]


def customer_message_id(given: object) -> str:
    """Return the id of a customer's message, from the one that their program chose.

    Messages of programs and of realtime lines, and people's actions, have ids of the same kind, of
    which a run takes each once: a customer's never take the place of another.

    Raises:
        UserError: it is no short text of letters, digits and `_.:-`.
    """
    if not isinstance(given, str) or _MESSAGE_ID.fullmatch(given) is None:
        raise UserError("The id of a message is 1 to 100 letters, digits and _.:- characters.")
    return f"{_PREFIX}{given}"


def _checked_part(part: object) -> JsonObject:
    fields = cast("JsonObject", part) if isinstance(part, dict) else {}
    kind: object = fields.get("type")
    allowed = PARTS.get(str(kind))
    if allowed is None:
        raise UserError(f"A part of a message is one of {', '.join(PARTS)}, not {kind!r:.40}.")
    for name, text in fields.items():
        if name not in {"type", *allowed}:
            raise UserError(f"A part {kind} has {', '.join(allowed)}, not {name!r:.40}.")
        if not isinstance(text, str):
            raise UserError(f"{name!r:.40} of a part {kind} must be a text.")
    if not fields.get(allowed[0]):
        raise UserError(f"A part {kind} of the message is empty.")
    if not str(fields.get("image_url", "data:")).startswith("data:"):
        raise UserError("image_url of a part input_image must be the image itself: data:image/…")
    return fields
