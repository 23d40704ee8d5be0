"""A scripted realtime model answers expected messages, and refuses others."""

import asyncio
from typing import Any

import pytest

from outlast.realtime.port.model import RealtimeModelListener, RealtimePlaybackTracker
from outlast.realtime.port.model_events import (
    RealtimeModelErrorEvent,
    RealtimeModelEvent,
    RealtimeModelOtherEvent,
    RealtimeModelTurnEndedEvent,
    RealtimeModelTurnStartedEvent,
)
from outlast.realtime.port.model_inputs import (
    RealtimeModelSendAudio,
    RealtimeModelSendEvent,
    RealtimeModelSendSessionUpdate,
    RealtimeModelSendUserInput,
)
from outlast.realtime.testing import (
    RealtimeScriptError,
    RealtimeStep,
    ScriptedRealtimeModel,
    UnconsumedRealtimeSteps,
    UnexpectedRealtimeSend,
)
from tests.unit.realtime.openai.realtime_client import Recorder

STARTED, ENDED = RealtimeModelTurnStartedEvent(), RealtimeModelTurnEndedEvent()
HELLO, BYE = RealtimeModelSendUserInput("hello"), RealtimeModelSendUserInput("bye")


async def model_of(*steps: RealtimeStep, **options: Any) -> tuple[ScriptedRealtimeModel, Recorder]:
    model, heard = ScriptedRealtimeModel(steps, **options), Recorder()
    model.add_listener(heard)
    await model.connect({})
    return model, heard


def is_hello(event: RealtimeModelSendEvent) -> bool:
    return event == HELLO


def is_bye(event: RealtimeModelSendEvent) -> bool:
    return event == BYE


@pytest.mark.parametrize("expected", [HELLO, RealtimeModelSendUserInput, is_hello])
async def test_an_expected_message_is_answered(expected: Any) -> None:
    model, heard = await model_of(RealtimeStep(expected, emit=[STARTED, ENDED]))
    await model.send_event(HELLO)
    assert heard.all == [STARTED, ENDED]
    assert model.sent_events == (HELLO,)
    model.assert_complete()


@pytest.mark.parametrize("expected", [BYE, RealtimeModelSendAudio, is_bye])
async def test_another_message_is_refused(expected: Any) -> None:
    model, heard = await model_of(RealtimeStep(expected, emit=[STARTED]))
    with pytest.raises(UnexpectedRealtimeSend, match="expectation is not met: expected") as refused:
        await model.send_event(HELLO)
    assert (refused.value.actual, refused.value.expected) == (HELLO, expected)
    assert "hello" not in str(refused.value), "what was said may be secret"
    assert (heard.all, model.sent_events, model.remaining_steps) == ([], (), 1)
    with pytest.raises(UnconsumedRealtimeSteps, match=r"^1 scripted Realtime step") as left:
        model.assert_complete()
    assert left.value.remaining_steps == 1


async def test_a_message_after_the_last_step_is_refused() -> None:
    model, _ = await model_of()
    with pytest.raises(UnexpectedRealtimeSend, match="no scripted steps left") as refused:
        await model.send_event(HELLO)
    assert refused.value.expected is None


async def test_a_script_that_is_not_strict_lets_other_messages_pass() -> None:
    model, heard = await model_of(RealtimeStep(BYE, emit=[ENDED]), strict=False)
    await model.send_event(HELLO)
    await model.send_event(BYE)
    await model.send_event(HELLO)
    assert heard.all == [ENDED]
    assert model.sent_events == (HELLO, BYE, HELLO)


async def test_a_step_may_fail() -> None:
    model, _ = await model_of(RealtimeStep(HELLO, error=OSError("cable cut")))
    with pytest.raises(OSError, match="cable cut"):
        await model.send_event(HELLO)
    with pytest.raises(ValueError, match="both emit events and an error"):
        RealtimeStep(HELLO, emit=[STARTED], error=OSError())


async def test_a_condition_that_does_not_hold_takes_no_step() -> None:
    model, heard = await model_of(RealtimeStep(HELLO, emit=[STARTED]))
    assert not await model.send_event_if(HELLO, lambda: False)
    assert model.remaining_steps == 1
    assert await model.send_event_if(HELLO, lambda: True)
    assert heard.all == [STARTED]


async def test_a_listener_may_send_a_message_itself() -> None:
    class Answering(RealtimeModelListener):
        async def on_event(self, event: RealtimeModelEvent) -> None:
            if event == STARTED:
                await model.send_event(BYE)

    steps = RealtimeStep(HELLO, emit=[STARTED, ENDED]), RealtimeStep(BYE, emit=[OTHER])
    model, heard = await model_of(*steps)
    model.add_listener(Answering())
    async with asyncio.timeout(2):
        await model.send_event(HELLO)
    assert heard.all == [STARTED, ENDED, OTHER], "the events of one message stay together"
    model.assert_complete()


OTHER = RealtimeModelOtherEvent(data={"a": 1})


async def test_the_error_of_a_message_within_a_listener_reaches_the_sender() -> None:
    class Answering(RealtimeModelListener):
        async def on_event(self, event: RealtimeModelEvent) -> None:
            await model.send_event(BYE)

    steps = RealtimeStep(HELLO, emit=[STARTED]), RealtimeStep(BYE, error=OSError("late"))
    model, _ = await model_of(*steps)
    model.add_listener(Answering())
    with pytest.raises(OSError, match="late"):
        await model.send_event(HELLO)


async def test_events_of_two_senders_are_not_mixed() -> None:
    class Slow(Recorder):
        async def on_event(self, event: RealtimeModelEvent) -> None:
            await asyncio.sleep(0)
            await super().on_event(event)

    model, heard = ScriptedRealtimeModel(), Slow()
    model.add_listener(heard)
    await model.connect({})
    await asyncio.gather(model.emit(STARTED, ENDED), model.emit(STARTED, ENDED))
    assert heard.all == [STARTED, ENDED] * 2


async def test_nothing_is_sent_without_a_connection() -> None:
    model = ScriptedRealtimeModel([RealtimeStep(HELLO)])
    with pytest.raises(RealtimeScriptError, match="Cannot send a message"):
        await model.send_event(HELLO)
    with pytest.raises(RealtimeScriptError, match="Cannot emit events"):
        await model.emit(STARTED)
    await model.connect({})
    with pytest.raises(RealtimeScriptError, match=r"Already connected: call close"):
        await model.connect({})
    await model.close()
    await model.close()
    assert (model.connected, model.closed, model.close_calls) == (False, True, 2)


async def test_events_stop_when_a_listener_closes_the_model() -> None:
    class Closing(RealtimeModelListener):
        async def on_event(self, event: RealtimeModelEvent) -> None:
            await model.close()

    model, heard = await model_of(RealtimeStep(HELLO, emit=[STARTED, ENDED]))
    model.add_listener(Closing())
    await model.send_event(HELLO)
    assert heard.all == [STARTED]


async def test_events_wait_in_vain_for_a_model_that_is_closed() -> None:
    model, _ = await model_of()
    waiting = asyncio.gather(model.emit(STARTED), model.close(), return_exceptions=True)
    failure = (await waiting)[0]
    assert isinstance(failure, RealtimeScriptError)


async def test_a_connection_may_fail_or_bring_events() -> None:
    model, heard = await model_of(connect_events=[OTHER])
    assert heard.all == [OTHER]
    failing = ScriptedRealtimeModel(connect_error=OSError("no route"), close_error=OSError("stuck"))
    with pytest.raises(OSError, match="no route"):
        await failing.connect({})
    assert not failing.connected
    with pytest.raises(OSError, match="stuck"):
        await failing.close()
    with pytest.raises(ValueError, match="both connect events and a connect error"):
        ScriptedRealtimeModel(connect_events=[OTHER], connect_error=OSError())
    model.remove_listener(heard)
    model.remove_listener(heard)
    assert model.listeners == ()


async def test_a_listener_that_fails_at_the_connection_leaves_the_model_closed() -> None:
    class Broken(RealtimeModelListener):
        async def on_event(self, event: RealtimeModelEvent) -> None:
            raise RuntimeError("broken")

    model = ScriptedRealtimeModel(connect_events=[STARTED])
    model.add_listener(Broken())
    model.add_listener(model.listeners[0])
    with pytest.raises(RuntimeError, match="broken"):
        await model.connect({})
    assert (model.connected, model.closed) == (False, True)


async def test_calls_are_recorded_without_keys() -> None:
    model, tracker = ScriptedRealtimeModel(), RealtimePlaybackTracker()
    await model.connect(
        {
            "api_key": "sk-secret",
            "headers": {"api-key": "sk-secret"},
            "url": "wss://user:sk-secret@example.com/realtime?key=sk-secret",
            "initial_model_settings": {"voice": "ash", "tools": []},
            "playback_tracker": tracker,
            "call_id": "c1",
        }
    )
    assert model.connect_calls == (
        {
            "api_key_provided": True,
            "headers_provided": True,
            "url": "wss://example.com/realtime",
            "initial_model_settings": {"voice": "ash", "tools": []},
            "playback_tracker": tracker,
            "call_id": "c1",
        },
    )
    await model.close()
    await model.connect({})
    assert model.connect_calls[1] == {"api_key_provided": False, "headers_provided": False}


async def test_later_changes_do_not_reach_what_was_recorded_or_scripted() -> None:
    data: dict[str, Any] = {"a": 1}
    model, heard = await model_of(
        RealtimeStep(HELLO, emit=[RealtimeModelOtherEvent(data)]), strict=False
    )
    data["a"] = 2
    await model.send_event(HELLO)
    assert heard.all == [OTHER]
    settings: Any = {"instructions": "Be kind.", "tools": ["tool"]}
    await model.send_event(RealtimeModelSendSessionUpdate(settings))
    settings["instructions"] = "Be rude."
    settings["tools"].clear()
    recorded = model.sent_events[1]
    assert isinstance(recorded, RealtimeModelSendSessionUpdate)
    assert recorded.session_settings == {"instructions": "Be kind.", "tools": ["tool"]}
    error = RealtimeModelErrorEvent(OSError("same"))
    await model.emit(error)
    last = heard.all[-1]
    assert isinstance(last, RealtimeModelErrorEvent)
    assert last.error is error.error
