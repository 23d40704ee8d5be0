"""A raw stream event as the object that programs know from the `openai` package.

Owns: which class an event has. Must not know: where events come from. The `openai` package is
imported by the first call, not with this module.
"""

import asyncio
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

from outlast.loop.values import JsonObject

if TYPE_CHECKING:
    from openai import BaseModel


async def load_event_types() -> None:
    """Import what `typed_event` needs, in a thread: it takes half a second, once.

    To be awaited before the first event, which else would hold everything up for as long.
    """
    await asyncio.to_thread(_classes)


def typed_event(raw: JsonObject) -> "BaseModel":
    """Return an event as an object of its class in `openai.types.responses`.

    So `isinstance(event, ResponseTextDeltaEvent)` and `event.delta` work. Nothing is checked: an
    attribute that the event lacks is missing. An event of a type that the installed `openai` does
    not know is an object with its fields as attributes.
    """
    from openai import BaseModel

    kind = _classes().get(str(raw.get("type")), BaseModel)
    return kind.construct(None, **raw)


@cache
def _classes() -> "dict[str, type[BaseModel]]":
    from openai.types.responses import ResponseStreamEvent

    union, *_ = get_args(ResponseStreamEvent)
    members: tuple[Any, ...] = get_args(union)
    return {name: member for member in members for name in _names(member)}


def _names(member: Any) -> tuple[str, ...]:
    return get_args(member.model_fields["type"].annotation)
