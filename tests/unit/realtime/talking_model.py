"""A realtime model for tests: what it says is scripted, and what it gets is kept."""

import asyncio
from collections.abc import Callable
from typing import Any

from outlast.agents.usage import Usage
from outlast.realtime.port import model_events as events
from outlast.realtime.port import model_inputs as inputs
from outlast.realtime.port.items import (
    AssistantAudio,
    AssistantMessageItem,
    InputText,
    UserMessageItem,
)
from outlast.realtime.port.model import RealtimeModel, RealtimeModelConfig, RealtimeModelListener


class TalkingModel(RealtimeModel):
    """Answers each request for a response with the next entry of its script.

    An entry is a text, a list of calls as (name, call id, arguments), or None for a response that
    the test makes itself.
    """

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.sent: list[inputs.RealtimeModelSendEvent] = []
        self.configs: list[RealtimeModelConfig] = []
        self.connected = False
        self.pace = 0.0
        self.prefix = "r"
        self._listeners: list[RealtimeModelListener] = []
        self._responses = 0
        self._items = 0
        self._speaking = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    async def connect(self, options: RealtimeModelConfig) -> None:
        self.configs.append(options)
        self.connected = True

    def add_listener(self, listener: RealtimeModelListener) -> None:
        self._listeners.append(listener)

    def remove_listener(self, listener: RealtimeModelListener) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    async def close(self) -> None:
        self.connected = False

    async def send_event_if(
        self, event: inputs.RealtimeModelSendEvent, send_if: Callable[[], bool]
    ) -> bool:
        if send_if():
            await self.send_event(event)
            return True
        return False

    async def send_event(self, event: inputs.RealtimeModelSendEvent) -> None:
        assert self.connected
        self.sent.append(event)
        match event:
            case inputs.RealtimeModelSendUserInput():
                text = event.user_input if isinstance(event.user_input, str) else ""
                await self.hear(text)
                self._respond()
            case inputs.RealtimeModelSendToolOutput(start_response=True):
                self._respond()
            case inputs.RealtimeModelSendRawMessage(message={"type": "response.create"}):
                self._respond()
            case inputs.RealtimeModelSendRawMessage(message={"type": "conversation.item.create"}):
                item = event.message.get("other_data", {})["item"]
                added = {"type": "conversation.item.added", "item": item}
                await self.emit(events.RealtimeModelRawServerEvent(added))
            case _:
                pass

    async def emit(self, *given: events.RealtimeModelEvent) -> None:
        for event in given:
            for listener in list(self._listeners):
                await listener.on_event(event)

    async def hear(self, text: str) -> None:
        """The provider's copy of what the user said."""
        self._items += 1
        item = UserMessageItem(item_id=f"u{self._items}", content=[InputText(text=text)])
        await self.emit(events.RealtimeModelItemUpdatedEvent(item=item))

    def _respond(self) -> None:
        entry = self.script.pop(0) if self.script else "Yes."
        if entry is not None:
            task = asyncio.create_task(self.say(entry))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def say(self, entry: Any) -> None:
        """Make a whole response."""
        async with self._speaking:
            self._responses += 1
            response = f"{self.prefix}{self._responses}"
            await self.emit(events.RealtimeModelTurnStartedEvent(response_id=response))
            if isinstance(entry, str):
                self._items += 1
                item_id = f"a{self._items}"
                for word in entry.split(" "):
                    delta = events.RealtimeModelTranscriptDeltaEvent(item_id, f"{word} ", response)
                    await self.emit(delta)
                    await asyncio.sleep(self.pace)
                item = AssistantMessageItem(
                    item_id=item_id, content=[AssistantAudio(transcript=entry)]
                )
                await self.emit(events.RealtimeModelItemUpdatedEvent(item=item))
            else:
                for name, call_id, arguments in entry:
                    await self.emit(events.RealtimeModelToolCallEvent(name, call_id, arguments))
            usage = Usage(requests=1, input_tokens=10, output_tokens=2, total_tokens=12)
            await self.emit(
                events.RealtimeModelUsageEvent(usage=usage),
                events.RealtimeModelTurnEndedEvent(response_id=response),
            )

    @property
    def outputs(self) -> list[tuple[str, str]]:
        """The outputs that it got, with their call ids."""
        return [
            (event.tool_call.call_id, event.output)
            for event in self.sent
            if isinstance(event, inputs.RealtimeModelSendToolOutput)
        ]

    @property
    def raw(self) -> list[dict[str, Any]]:
        """The raw messages that it got."""
        return [
            {"type": event.message["type"], **event.message.get("other_data", {})}
            for event in self.sent
            if isinstance(event, inputs.RealtimeModelSendRawMessage)
        ]
