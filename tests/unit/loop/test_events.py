"""Events: each has a time, none can be changed, and the union knows all of them."""

import dataclasses
from typing import get_args

import pytest

from outlast.loop import events
from outlast.loop.effects import EffectEvent
from outlast.loop.events import CancelRequested, Event, Parent, RunStarted
from tests.loop_driver import message

EVENT_CLASSES = get_args(Event)


def test_the_union_names_every_event_there_is() -> None:
    own = {
        one
        for one in vars(events).values()
        if dataclasses.is_dataclass(one) and getattr(one, "__module__", "") == events.__name__
    }
    assert own - {Parent} == set(EVENT_CLASSES) - set(get_args(EffectEvent))


@pytest.mark.parametrize("kind", EVENT_CLASSES, ids=lambda kind: kind.__name__)
def test_every_event_carries_its_time_because_the_loop_has_no_clock(kind: type) -> None:
    (at_ms,) = [field for field in dataclasses.fields(kind) if field.name == "at_ms"]
    assert at_ms.default is dataclasses.MISSING


@pytest.mark.parametrize("kind", EVENT_CLASSES, ids=lambda kind: kind.__name__)
def test_every_event_is_frozen(kind: type) -> None:
    assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]  # set by dataclasses


def test_a_run_is_bounded_and_closes_after_its_answer_unless_asked_otherwise() -> None:
    started = RunStarted(at_ms=1, run_id="r", agent="A", message=message("m"))
    assert started.max_turns == 10
    assert started.keep_open is False


def test_a_cancel_is_immediate_unless_asked_otherwise() -> None:
    assert CancelRequested(at_ms=1).mode == "immediate"
