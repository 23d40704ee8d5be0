"""The playback tracker, and what a realtime model does unless its class says otherwise."""

from typing import Any

import pytest

from outlast.realtime.port.model import (
    RealtimeModel,
    RealtimeModelConfig,
    RealtimeModelListener,
    RealtimePlaybackTracker,
)
from outlast.realtime.port.model_inputs import RealtimeModelSendEvent, RealtimeModelSendInterrupt


class Silent(RealtimeModel):
    """A model that does nothing but count."""

    sent = 0

    async def connect(self, options: RealtimeModelConfig) -> None: ...

    def add_listener(self, listener: RealtimeModelListener) -> None: ...

    def remove_listener(self, listener: RealtimeModelListener) -> None: ...

    async def send_event(self, event: RealtimeModelSendEvent) -> None:
        self.sent += 1

    async def close(self) -> None: ...


def played(tracker: RealtimePlaybackTracker) -> tuple[str | None, int | None, float | None]:
    state = tracker.get_state()
    return (
        state["current_item_id"],
        state["current_item_content_index"],
        state["elapsed_ms"],
    )


def test_pieces_of_one_audio_add_up() -> None:
    tracker = RealtimePlaybackTracker()
    assert played(tracker) == (None, None, None)
    tracker.on_play_ms("item", 0, 20)
    tracker.on_play_ms("item", 0, 30)
    assert played(tracker) == ("item", 0, 50)


@pytest.mark.parametrize("following", [("item", 1), ("other", 0)])
def test_another_audio_starts_at_zero(following: tuple[str, int]) -> None:
    tracker = RealtimePlaybackTracker()
    tracker.on_play_ms("item", 0, 20)
    tracker.on_play_ms(*following, 5)
    assert played(tracker) == (*following, 5)


def test_bytes_count_by_the_format() -> None:
    tracker = RealtimePlaybackTracker()
    tracker.on_play_bytes("item", 0, bytes=bytes(480))
    assert played(tracker) == ("item", 0, 10)
    tracker.set_audio_format(format="g711_ulaw")
    tracker.on_play_bytes("item", 0, bytes(80))
    assert played(tracker) == ("item", 0, 20)


def test_an_interruption_ends_the_playback() -> None:
    tracker = RealtimePlaybackTracker()
    tracker.on_play_ms("item", 0, 20)
    tracker.on_interrupted()
    assert played(tracker) == (None, None, None)
    tracker.get_state()["elapsed_ms"] = 5
    assert played(tracker) == (None, None, None), "callers get a copy"


async def test_a_model_that_cannot_check_a_condition_while_it_sends_sends_nothing() -> None:
    model = Silent()
    assert not await model.send_event_if(RealtimeModelSendInterrupt(), lambda: True)
    assert model.sent == 0
    model.retire_response_audio("resp_1")


def test_a_model_without_its_methods_cannot_be_made() -> None:
    abstract: Any = RealtimeModel
    with pytest.raises(TypeError, match="abstract"):
        abstract()
