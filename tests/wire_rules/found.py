"""The collected breaches of rules, and the checks of text and names that both APIs share."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

from tests.wire_rules.table import RULES, Api, Server

LONGEST_TEXT = 10_485_760
NAME = re.compile(r"[a-zA-Z0-9_-]+")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
RANGES = {
    "temperature": (0, 2), "top_p": (0, 1), "frequency_penalty": (-2, 2), "presence_penalty": (-2, 2),
    "top_logprobs": (0, 20), "max_output_tokens": (16, None), "max_tokens": (1, None),
    "max_completion_tokens": (1, None),
}  # fmt: skip


class Found:
    """The faults of one request; counts a rule only for its API and its servers."""

    def __init__(self, api: Api, servers: Iterable[Server]) -> None:
        self.api: Api = api
        self.faults: list[str] = []
        self._servers = frozenset(servers)

    def add(self, name: str, where: str, detail: str = "") -> None:
        """Add a breach of the rule with this name, at a place in the request."""
        rule = RULES[name]
        if self.api in rule.apis and rule.servers & self._servers:
            self.faults.append(f"{name}: {where}{f': {detail}' if detail else ''}. {rule.text}")

    def check(self, holds: object, name: str, where: str, detail: str = "") -> bool:
        """Add a breach unless something holds; return whether it does."""
        if not holds:
            self.add(name, where, detail)
        return bool(holds)


def objects(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list, or nothing for another value."""
    return [one for one in list_of(value) if isinstance(one, dict)]


def fields_of(value: object) -> dict[str, Any]:
    """Return an object, and an empty one for another value."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def list_of(value: object) -> list[Any]:
    """Return a list, and an empty one for another value."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def text_of(value: object) -> str:
    """Return a text as it is, and what should be one as something to look up."""
    return value if isinstance(value, str) else repr(value)


def texts(value: object, where: str) -> Iterator[tuple[str, str]]:
    """Yield every text in JSON, with its place; keys as well."""
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, dict):
        for name, member in cast("dict[str, Any]", value).items():
            yield f"{where} key", name
            yield from texts(member, f"{where}.{name}" if where else name)
    elif isinstance(value, list):
        for position, member in enumerate(cast("list[Any]", value)):
            yield from texts(member, f"{where}[{position}]")


def check_texts(found: Found, request: object) -> None:
    """Check that the request can be encoded and that no text is too long."""
    for where, text in texts(request, ""):
        if len(text) > LONGEST_TEXT and not text.startswith("data:") and "file_data" not in where:
            found.add("text-length", where, f"{len(text)} characters")
        encodable = text.isascii() or not _SURROGATE.search(text)
        found.check(encodable, "text-encodable", where)
        found.check("\0" not in text, "text-nul", where)


def check_numbers(found: Found, request: dict[str, Any]) -> None:
    """Check the numbers of the settings, and `metadata`."""
    for name, (least, most) in RANGES.items():
        value = request.get(name)
        if value is None:
            continue
        good = isinstance(value, int | float) and not isinstance(value, bool)
        good = good and value >= least and (most is None or value <= most)
        found.check(good, "number-range", name, repr(value))
    metadata: object = request.get("metadata")
    if metadata is not None:
        pairs = fields_of(metadata)
        good = isinstance(metadata, dict) and len(pairs) <= 16
        for key, value in pairs.items():
            good = good and isinstance(value, str) and len(key) <= 64 and len(value) <= 512
        found.check(good, "metadata-size", "metadata")


def is_name(name: object, longest: int) -> bool:
    """Whether a name has the form of tools' names."""
    return isinstance(name, str) and len(name) <= longest and NAME.fullmatch(name) is not None


def is_json_object(text: object) -> bool:
    """Whether a text is the JSON of an object; `NaN` and the like are no JSON."""
    if not isinstance(text, str):
        return False
    try:
        return isinstance(json.loads(text, parse_constant=_refuse), dict)
    except (ValueError, RecursionError):
        return False


def _refuse(constant: str) -> None:
    raise ValueError(constant)
