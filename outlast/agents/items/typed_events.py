"""A raw stream event as the object that programs know from the `openai` package.

Owns: which class an event has. Must not know: where events come from. The `openai` package is
imported by the first call, not with this module: it takes half a second, and most programs never
look.
"""

from functools import cache
from importlib import import_module
from typing import Any, get_args

from outlast.loop.values import JsonObject


async def load_event_types() -> None:
    """Import what `typed_event` needs, in a thread: it takes half a second, once.

    To be awaited before the first event, which else would hold everything up for as long.
    """
    from outlast.agents.threads import run_in_thread

    await run_in_thread(_classes)


def typed_event(raw: JsonObject) -> Any:
    """Return an event as an object of its class in `openai.types.responses`.

    So `isinstance(event, ResponseTextDeltaEvent)` and `event.delta` work. Nothing is checked: an
    attribute that the event lacks is missing. An event of a type that the installed `openai` does
    not know is an object with its fields as attributes.
    """
    classes = _classes()
    return classes.get(str(raw.get("type")), classes[""]).construct(None, **raw)


@cache
def _classes() -> dict[str, Any]:
    """Return the class of each type of event; that of the others has no name."""
    package: Any = import_module("openai")
    union, *_ = get_args(import_module("openai.types.responses").ResponseStreamEvent)
    members: tuple[Any, ...] = get_args(union)
    known = {name: member for member in members for name in _names(member)}
    return {**known, "": package.BaseModel}


def _names(member: Any) -> tuple[str, ...]:
    return get_args(member.model_fields["type"].annotation)
