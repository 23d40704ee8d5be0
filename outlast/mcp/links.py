"""Links that a server wants a person to open before it carries out a call.

Servers of versions before 2026-07-28 refuse the call with an error that has the links. The call is
sent again when a person has followed them.
"""

from typing import Any, Final, cast

from outlast.loop.values import JsonObject

_KEY: Final = "outlast/link "
"""Begins the keys of these questions, whose answers are not sent to the server."""


def links_in(data: Any) -> dict[str, JsonObject]:
    """Return the links of a refusal as questions by key, as `MCPInputRequired` has them."""
    fields = cast("JsonObject", data) if isinstance(data, dict) else {}
    given: Any = fields.get("elicitations")
    listed = cast("list[Any]", given) if isinstance(given, list) else []
    return {
        f"{_KEY}{at + 1}": {"method": "elicitation/create", "params": one}
        for at, one in enumerate(listed)
    }


def declined(answers: JsonObject | None) -> bool:
    """Whether a person has not followed such a link."""
    of_links: list[Any] = [one for key, one in (answers or {}).items() if key.startswith(_KEY)]
    return any(cast("JsonObject", one).get("action") != "accept" for one in of_links)


def without_links(answers: JsonObject | None) -> JsonObject | None:
    """Return the answers that go to the server; None if there are none."""
    others = {key: one for key, one in (answers or {}).items() if not key.startswith(_KEY)}
    return others or None
