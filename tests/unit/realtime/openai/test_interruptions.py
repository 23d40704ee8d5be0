"""An interruption cuts off what was not heard, and cancels what is not wanted."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from outlast.agents.errors import UserError
from outlast.realtime.openai.interruptions import Interruptions
from outlast.realtime.openai.playback import Playback
from outlast.realtime.openai.response_queue import ResponseQueue
from outlast.realtime.port.model import RealtimePlaybackTracker
from outlast.realtime.port.model_events import RealtimeModelAudioInterruptedEvent
from outlast.realtime.port.model_inputs import RealtimeModelSendInterrupt as Interrupt

SECOND = bytes(48_000)
A, B = ("a", 0), ("b", 0)


@dataclass
class Session:
    """The parts of a connection, with a clock that tests set."""

    tracker: RealtimePlaybackTracker | None = None
    now: float = 0.0
    sent: list[Any] = field(default_factory=list[Any])
    heard: list[Any] = field(default_factory=list[Any])

    def __post_init__(self) -> None:
        self.responses = ResponseQueue(self.send)
        self.playback = Playback(self.tracker, clock=lambda: self.now)
        self.interruptions = Interruptions(self.send, self.emit, self.responses, self.playback)

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def emit(self, event: Any) -> None:
        self.heard.append(event)

    def answer(self, *audios: tuple[str, int], response_id: str = "r1") -> None:
        """Receive a second of each audio of a response."""
        self.responses.created(response_id)
        for audio in audios:
            self.playback.receive(audio, SECOND, response_id)


def cut(item_id: str, ms: int) -> dict[str, Any]:
    return {
        "type": "conversation.item.truncate",
        "item_id": item_id,
        "content_index": 0,
        "audio_end_ms": ms,
    }


CANCEL = {"type": "response.cancel"}


async def test_speech_cuts_off_the_answer_where_it_was_heard() -> None:
    one = Session()
    one.answer(A)
    one.now = 0.4
    await one.interruptions.speech_started()
    assert one.sent == [cut("a", 400), CANCEL]
    assert one.heard == [RealtimeModelAudioInterruptedEvent("a", 0)]
    await one.interruptions.speech_started()
    assert len(one.heard) == 1, "nothing is played any more"


async def test_the_provider_may_cancel_the_response_itself() -> None:
    one = Session()
    one.interruptions.automatic = True
    one.answer(A)
    await one.interruptions.speech_started()
    assert one.sent == [cut("a", 0)]
    await one.interruptions.interrupt(Interrupt(force_response_cancel=True))
    assert one.sent == [cut("a", 0), CANCEL]


async def test_speech_while_nothing_is_played_changes_nothing() -> None:
    one = Session()
    one.responses.created("r1")
    await one.interruptions.speech_started()
    assert (one.sent, one.heard) == ([], [])


async def test_an_answer_that_was_heard_to_its_end_is_not_cut_off() -> None:
    one = Session()
    one.answer(A)
    one.responses.done("r1")
    one.now = 5
    await one.interruptions.speech_started()
    assert one.sent == []
    assert one.heard == [RealtimeModelAudioInterruptedEvent("a", 0)]


async def test_more_of_an_answer_in_progress_may_come_so_that_it_is_cut_off_at_its_end() -> None:
    one = Session()
    one.answer(A)
    one.now = 5
    await one.interruptions.speech_started()
    assert one.sent == [cut("a", 1000), CANCEL]


async def test_the_tracker_says_what_was_heard() -> None:
    tracker = RealtimePlaybackTracker()
    one = Session(tracker)
    one.answer(A, B)
    tracker.on_play_ms("a", 0, 250)
    one.now = 5
    await one.interruptions.interrupt(Interrupt())
    assert one.sent == [cut("a", 250), CANCEL]
    assert one.heard == [RealtimeModelAudioInterruptedEvent("a", 0)]
    assert tracker.get_state()["current_item_id"] is None


async def test_a_tracker_that_has_played_nothing_cuts_off_nothing() -> None:
    one = Session(RealtimePlaybackTracker())
    one.answer(A)
    await one.interruptions.speech_started()
    assert one.sent == [CANCEL]
    one.answer(B)
    await one.interruptions.interrupt(Interrupt())
    assert one.sent == [CANCEL, CANCEL]


async def test_audio_that_is_unknown_is_cut_off_as_the_tracker_says() -> None:
    tracker = RealtimePlaybackTracker()
    one = Session(tracker)
    tracker.on_play_ms("elsewhere", 1, 70.4)
    await one.interruptions.interrupt(Interrupt())
    assert one.sent == [{**cut("elsewhere", 70), "content_index": 1}]


async def test_the_format_decides_how_long_the_answer_is() -> None:
    tracker = RealtimePlaybackTracker()
    one = Session(tracker)
    one.playback.set_format("audio/pcmu")
    one.responses.created("r1")
    one.playback.receive(A, bytes(8_000), "r1")
    assert one.playback.received_ms(A) == 1000
    tracker.on_play_bytes("a", 0, bytes(800))
    assert one.playback.playing() == (A, 100)


async def test_an_interruption_of_one_response_leaves_others_alone() -> None:
    one = Session()
    one.answer(A, response_id="r1")
    one.answer(B, response_id="r2")
    one.now = 0.5
    await one.interruptions.interrupt(Interrupt(response_id="r1"))
    assert one.heard == [RealtimeModelAudioInterruptedEvent("a", 0)]
    assert one.sent == [], "r2 is played and in progress"
    assert one.playback.silenced == {"r1"}
    await one.interruptions.interrupt(Interrupt(response_id="r2"))
    assert one.sent == [cut("b", 500), {**CANCEL, "response_id": "r2"}]
    assert one.playback.playing() is None


async def test_an_interruption_of_a_response_with_a_tracker_stops_what_is_played_of_it() -> None:
    tracker = RealtimePlaybackTracker()
    one = Session(tracker)
    one.answer(A, B)
    tracker.on_play_ms("a", 0, 100)
    await one.interruptions.interrupt(Interrupt(response_id="r1", playback_only=True))
    assert one.sent == [cut("a", 100)]
    assert len(one.heard) == 2
    assert tracker.get_state()["current_item_id"] is None


async def test_an_interruption_of_a_response_without_audio_only_cancels_it() -> None:
    one = Session()
    one.responses.created("r1")
    await one.interruptions.interrupt(Interrupt(response_id="r1"))
    assert (one.heard, one.sent) == ([], [{**CANCEL, "response_id": "r1"}])
    one.playback.retire("r1")
    assert one.playback.silenced == set()


async def test_only_the_response_is_cancelled() -> None:
    one = Session()
    one.answer(A)
    await one.interruptions.interrupt(Interrupt(response_id="r1", cancel_response_only=True))
    assert (one.heard, one.sent) == ([], [{**CANCEL, "response_id": "r1"}])


@pytest.mark.parametrize(
    "contradiction",
    [
        Interrupt(playback_only=True, cancel_response_only=True, response_id="r1"),
        Interrupt(playback_only=True, force_response_cancel=True),
        Interrupt(cancel_response_only=True),
    ],
)
async def test_steps_that_exclude_each_other_are_refused(contradiction: Interrupt) -> None:
    one = Session()
    one.answer(A)
    with pytest.raises(UserError, match="RealtimeModelSendInterrupt"):
        await one.interruptions.interrupt(contradiction)
    assert (one.heard, one.sent) == ([], [])
