"""Events: each has a time, none can be changed, and the union knows all of them."""

import dataclasses
from typing import get_args, get_origin

from outlast.loop import events
from outlast.loop.effects import EffectAnswered, EffectFailed
from outlast.loop.events import CancelRequested, Event
from outlast.loop.start import Parent

EVENT_CLASSES = [get_origin(one) or one for one in get_args(Event)]


def test_the_union_names_every_event_there_is() -> None:
    own = {
        one
        for one in vars(events).values()
        if dataclasses.is_dataclass(one) and getattr(one, "__module__", "") == events.__name__
    }
    assert own - {Parent} == set(EVENT_CLASSES) - {EffectAnswered, EffectFailed}


def test_every_event_carries_its_time_because_the_loop_has_no_clock() -> None:
    for kind in EVENT_CLASSES:
        defaults = {field.name: field.default for field in dataclasses.fields(kind)}
        assert defaults.get("at_ms") is dataclasses.MISSING, kind


def test_every_event_is_frozen() -> None:
    assert [kind for kind in EVENT_CLASSES if not kind.__dataclass_params__.frozen] == []


def test_a_cancel_is_immediate_unless_asked_otherwise() -> None:
    assert CancelRequested(at_ms=1).mode == "immediate"
