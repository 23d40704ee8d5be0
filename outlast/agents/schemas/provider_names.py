"""Names of tools for people, and the names that providers accept for them."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256

from outlast.loop.values import JsonObject

_ACCEPTED = re.compile(r"[a-zA-Z0-9_-]{1,64}")
LONGEST_NAME = 64
"""The APIs' limit for the characters of a tool's name."""

_DIGITS = 8
_NAMED = frozenset({"function_call", "custom_tool_call"})
"""The types of items that have a tool's name."""


def is_tool_name(name: object) -> bool:
    """Whether a name is 1 to 64 letters (of any script), digits, `_` or `-`."""
    if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_NAME:
        return False
    return all(
        character in "_-" or character.isalnum() or _is_mark(character) for character in name
    )


def provider_name(name: str) -> str:
    """Return a tool's name for providers, which accept only ASCII.

    A name that providers accept stays. Of any other, the ASCII part stays, and a hash of the whole
    name follows: the result is the same in every process, and different for different names.
    """
    if _ACCEPTED.fullmatch(name):
        return name
    letters = unicodedata.normalize("NFKD", name)
    kept = "".join(letter for letter in letters if not _is_mark(letter))
    ascii_part = re.sub(r"[^a-zA-Z0-9_-]+", "_", kept).strip("_-") or "tool"
    digest = sha256(name.encode()).hexdigest()[:_DIGITS]
    return f"{ascii_part[: LONGEST_NAME - _DIGITS - 1].rstrip('_-')}_{digest}"


def name_from(text: str) -> str:
    """Return a tool's name for a text such as an agent's name.

    Invalid characters become `_`. A text without ASCII letters keeps its own.
    """
    plain = re.sub(r"[^a-zA-Z0-9_]", "_", text).lower()
    return plain if plain.strip("_") else re.sub(r"\W", "_", text).lower()


def distinct_name(text: str, most: int = LONGEST_NAME) -> str:
    """Return a tool's name for a text, as `name_from`, and another one for another text.

    Where characters other than blanks are lost, a hash of the text follows. So the name does not
    depend on other names. Texts that differ only in capitals and in blanks for `_` share a name.

    Args:
        text: the text.
        most: how many characters the name may have.
    """
    name = name_from(text)
    if name == text.lower().replace(" ", "_") and len(name) <= most:
        return name
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    kept = re.sub(r"_+", "_", name)[: most - _DIGITS - 1].strip("_")
    return f"{kept}_{digest}" if kept else digest


def with_provider_names(items: Sequence[JsonObject]) -> list[JsonObject]:
    """Return a request's items, with the provider's names of the called tools."""
    return [_rename(item, provider_name) for item in items]


def with_own_names(items: Sequence[JsonObject], names: Iterable[str]) -> list[JsonObject]:
    """Return the items of a reply, with the tools' own names in calls."""
    own = {provider_name(name): name for name in names}
    return [_rename(item, lambda name: own.get(name, name)) for item in items]


def _is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M")


def _rename(item: JsonObject, rename: Callable[[str], str]) -> JsonObject:
    name = item.get("name") if str(item.get("type")) in _NAMED else None
    if not isinstance(name, str) or (new := rename(name)) == name:
        return item
    return {**item, "name": new}
