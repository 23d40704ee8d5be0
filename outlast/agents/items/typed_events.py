"""Conversion of raw stream events to the event classes of the `openai` package."""

from functools import cache
from importlib import import_module
from typing import Any, get_args

from outlast.loop.values import JsonObject


async def load_event_types() -> None:
    """Import the classes that `typed_event` needs, in a thread: that takes half a second."""
    from outlast.agents.threads import run_in_thread

    await run_in_thread(_classes)


def typed_event(raw: JsonObject) -> Any:
    """Return an event as an object of its class in `openai.types.responses`.

    So `isinstance(event, ResponseTextDeltaEvent)` and `event.delta` work. The event is not
    validated: fields that it lacks are missing as attributes. If the installed `openai` has no
    class for the event's type, the result is an object with the event's fields as attributes.
    """
    classes = _classes()
    return classes.get(str(raw.get("type")), classes[""]).construct(None, **raw)


@cache
def _classes() -> dict[str, Any]:
    package: Any = import_module("openai")
    union, *_ = get_args(import_module("openai.types.responses").ResponseStreamEvent)
    members: tuple[Any, ...] = get_args(union)
    classes = {name: member for member in members for name in _names(member)}
    return {**classes, "": package.BaseModel}


def _names(member: Any) -> tuple[str, ...]:
    return get_args(member.model_fields["type"].annotation)
