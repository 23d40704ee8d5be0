"""Events: each has a time, none can be changed, and the union knows all of them."""

import dataclasses
from typing import get_args, get_origin

import pytest

from outlast.loop import events
from outlast.loop.actions import DeliverRecord, LineReplyRecord
from outlast.loop.calls import ModelReply
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


def test_a_delivery_without_an_id_could_be_taken_twice() -> None:
    with pytest.raises(ValueError, match="delivery_id must tell this delivery from every other"):
        DeliverRecord(question=0, turn=1, call_id="c1", name="paid", delivery_id="")


def test_a_reply_on_a_line_without_an_id_could_be_taken_twice() -> None:
    with pytest.raises(ValueError, match=r"reply\.response_id must be the provider's id"):
        LineReplyRecord(line="l1", reply=ModelReply(items=()))
