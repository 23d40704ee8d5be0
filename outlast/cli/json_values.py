"""JSON that people write: in an option, in a file, or in an editor."""

import json
import sys
from pathlib import Path
from typing import Any, cast

from outlast.agents.errors import UserError
from outlast.views.records import Json, JsonObject


def json_option(text: str, option: str) -> Json:
    """Return the JSON of an option: its text, or after `@` the content of a file."""
    if not text.startswith("@"):
        return parse_json(text, option)
    name = text[1:]
    try:
        content = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UserError(f"{option} {text!r:.200} cannot be read: {error}.") from None
    return parse_json(content, f"{option} {text!r:.200}")


def json_object(value: Json, what: str) -> JsonObject:
    """Return a value that is a JSON object."""
    if not isinstance(value, dict):
        raise UserError(
            f"{what} must be a JSON object with all arguments, such as "
            f'{{"order_id": "A-42"}}, not {json.dumps(value):.80}.'
        )
    return cast("JsonObject", value)


def parse_json(text: str, what: str) -> Json:
    """Return the value of a JSON text, in which no key is repeated."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise UserError(f"{what} is not JSON: {where}: {error.msg.removesuffix(' at')}.") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{what} is not JSON that a tool can take: {error}.") from None


def _unique(pairs: list[tuple[str, Any]]) -> JsonObject:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {json.dumps(repeated)} is repeated")
    return fields


def _no_number(text: str) -> Json:
    raise ValueError(f"{text} is not a number of JSON")
