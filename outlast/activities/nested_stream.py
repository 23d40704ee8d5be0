"""The events of a nested run for the `on_stream` of its tool.

Each effect of the nested run makes its events, in order. A model call makes the outputs of the last
reply's calls, the model's stream, and the reply; a handoff makes the outputs, which its filter may
hide later, and its own event; finalizing makes the outputs that became the answer. A retried effect
makes all its events again.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from copy import deepcopy
from functools import cached_property, partial
from typing import Any, Final, Self, TypeAlias, cast

from outlast.activities.failure_words import failure_words
from outlast.activities.invocation import Invocation
from outlast.agents.agent_tools.call_items import call_item
from outlast.agents.callables import call
from outlast.agents.errors import UserError
from outlast.agents.items.raw_items import HeldRaw, as_json
from outlast.agents.items.stream_events import (
    OF_LONG_RUNS,
    AgentToolStreamEvent,
    AgentUpdatedStreamEvent,
    ProgramEvent,
    RawResponsesStreamEvent,
    item_event,
)
from outlast.agents.items.typed_events import load_event_types
from outlast.agents.logs import get_logger
from outlast.agents.mcp.tools import tools_seen
from outlast.agents.tools.definition import FunctionTool
from outlast.contract.effects import kind_of
from outlast.contract.streams.delta_reader import RESTARTED
from outlast.loop.call_forms import FUNCTION, name_of
from outlast.loop.call_forms import call_item as written_call
from outlast.loop.calls import ModelReply
from outlast.loop.effects import CallModel, FinalizeAnswer, RunHandoff
from outlast.loop.items import Item, ItemKind, call_id_of
from outlast.loop.state import ANSWER_KINDS
from outlast.loop.values import JsonObject

logger: Final = get_logger(__name__)

LONGEST_WAIT_SECONDS = 120.0
"""How long an effect waits, in total, for a callback that is slower than its events."""

SPARE_SECONDS = 10.0
"""The least time left of the effect's time-out; a model call that exceeds it is paid for again."""

_OUTPUTS = frozenset({"tool_output", "handoff_output"})

_Maker: TypeAlias = Callable[[], ProgramEvent | None]
"""Makes an event in its turn; None for items without a public event."""


class NestedStream:
    """The events of one effect, on their way to the tool's `on_stream`, in an `async with` block.

    The events wait in a queue, so that the effect does not wait for the callback until the queue is
    full; the end of the block waits for it. An error of the callback is logged; if it hangs, the
    remaining events are dropped, as are all events without an `on_stream`.
    """

    def __init__(
        self, invocation: Invocation, effect: CallModel | RunHandoff | FinalizeAnswer
    ) -> None:
        tool = invocation.tool
        self._invocation, self._effect = invocation, effect
        self._on_stream = tool.on_stream if tool is not None else None
        self._patience_seconds = LONGEST_WAIT_SECONDS
        self._ends_at = math.inf
        self._calling: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self.has_callback:
            longest = kind_of(self._effect).policy(self._effect).timeout_seconds
            self._ends_at = asyncio.get_running_loop().time() + longest - SPARE_SECONDS
            self._calling = asyncio.create_task(self.call_back())
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if self._calling is None:
            return
        try:
            if error is None or isinstance(error, Exception):  # it gets what was before a failure
                await self.drain()
        finally:
            self._calling.cancel()

    @cached_property
    def _waiting(self) -> asyncio.Queue[_Maker]:
        tool = self._invocation.tool
        longest = tool.on_stream_max_pending_events if tool is not None else None
        return asyncio.Queue(longest or 0)

    @property
    def has_callback(self) -> bool:
        """Whether the tool has an `on_stream`."""
        return self._on_stream is not None

    async def turn(self, effect: CallModel, items: Sequence[Item], *, attempt: int) -> None:
        """Stream the events since the last reply, before the model call."""
        if not self.has_callback:
            return
        if attempt > 1:
            await self.raw({"type": RESTARTED, "attempt": attempt})
        if effect.starts:
            await self._put(
                partial(AgentUpdatedStreamEvent, id=0, new_agent=self._invocation.agent)
            )
        await self.outputs(items)

    async def raw(self, event: JsonObject) -> None:
        """Stream a raw event of the model's stream."""
        await self._put(partial(_raw_event, event))

    async def forward(self, events: AsyncIterator[JsonObject]) -> AsyncGenerator[JsonObject]:
        """Stream the events of a model's stream, and yield them."""
        try:
            async for raw in events:
                event: JsonObject = as_json(raw)
                await self.raw(event)
                yield event
        finally:
            if isinstance(events, AsyncGenerator):
                await cast("AsyncGenerator[JsonObject]", events).aclose()

    async def reply(self, effect: CallModel, reply: ModelReply) -> None:
        """Stream the items of the planned reply, except an answer that guardrails judge first."""
        if not self.has_callback:
            return
        written = _written(effect, reply)
        waits = "check_output" in reply.required_steps and not reply.calls
        ready = [item for item in written if not (waits and item.kind in ANSWER_KINDS)]
        await self._items(ready, among=written)

    async def checked_answer(self, items: Sequence[Item]) -> None:
        """Stream the answer of the newest turn, which output guardrails have passed."""
        newest = [item for item in items if item.turn == items[-1].turn]
        await self._items([item for item in newest if item.kind in ANSWER_KINDS], among=items)

    async def handoff(self, items: Sequence[Item], transfer: Item) -> None:
        """Stream the outputs of the turn and the handoff."""
        await self._items([*_newest_outputs(items), transfer], among=items)

    async def outputs(self, items: Sequence[Item]) -> None:
        """Stream the newest outputs, unless a handoff has streamed them."""
        outputs, agent = _newest_outputs(items), self._invocation.agent_name
        if all(output.kind == "tool_output" and output.agent == agent for output in outputs):
            await self._items(outputs, among=items)

    async def call_back(self) -> None:
        """Call the callback with each event, until cancelled."""
        await load_event_types()
        while True:
            make = await self._waiting.get()
            try:
                await self._call(make())
            except Exception as error:  # noqa: BLE001  an observer does not stop the run
                message = f"on_stream of the tool {self._tool_name!r} raised {type(error).__name__}"
                logger.warning("%s", failure_words(f"{message}: {error}", error))
            finally:
                self._waiting.task_done()

    async def drain(self) -> None:
        """Wait until the callback has had all events, within the time limit."""
        if self.has_callback:
            await self._wait_for(self._waiting.join())

    async def _items(self, entries: Sequence[Item], *, among: Sequence[Item]) -> None:
        if not self.has_callback:
            return
        calls = {call_id_of(item.raw): item for item in among if item.kind == "tool_call"}
        for entry in entries:
            await self._put(partial(self._item_event, entry, calls.get(call_id_of(entry.raw))))

    async def _put(self, make: _Maker) -> None:
        if self._on_stream is None:
            return
        try:
            self._waiting.put_nowait(make)
        except asyncio.QueueFull:
            await self._wait_for(self._waiting.put(make))

    async def _wait_for(self, step: Awaitable[None]) -> None:
        now = asyncio.get_running_loop().time
        began = now()
        left = min(self._patience_seconds, self._ends_at - began)
        try:
            async with asyncio.timeout(left):
                await step
        except TimeoutError:
            logger.warning(
                "on_stream of the tool %r is too slow: %d events and all later events of this step "
                "were dropped",
                self._tool_name,
                self._waiting.qsize(),
            )
            self._on_stream = None
        self._patience_seconds -= now() - began

    async def _call(self, event: ProgramEvent | None) -> None:
        if event is not None and self._on_stream is not None:
            tool_event = AgentToolStreamEvent(
                event=event, agent=self._invocation.agent, tool_call=self._tool_call
            )
            await call(self._on_stream, tool_event)

    @cached_property
    def _tool_call(self) -> Any:
        parent_call = self._invocation.parent_call
        if parent_call is None:
            return None
        raw = written_call(
            FUNCTION,
            call_id=parent_call.call_id,
            name=parent_call.tool.name,
            arguments=parent_call.arguments,
        )
        return HeldRaw(raw).shown()

    @property
    def _tool_name(self) -> str:
        return self._invocation.tool.name if self._invocation.tool is not None else ""

    def _item_event(self, entry: Item, called: Item | None) -> ProgramEvent | None:
        tool = None if called is None else self._tool(called.agent, name_of(called.raw))
        item = call_item(entry, tool, self._invocation.worker.registry.agent)
        event = item_event(entry, item)
        return None if event.name in OF_LONG_RUNS else event

    def _tool(self, agent: str, name: str) -> FunctionTool | None:
        registry = self._invocation.worker.registry
        try:
            return registry.tool(agent, name)
        except UserError:  # an MCP tool that another process listed, or no tool
            seen = tools_seen(registry.agent(agent))
            return next((tool for tool in seen if tool.name == name), None)


def _raw_event(raw: JsonObject) -> RawResponsesStreamEvent:
    return RawResponsesStreamEvent(raw=deepcopy(raw))  # the reply is made from the original


def _written(effect: CallModel, reply: ModelReply) -> list[Item]:
    plans: dict[int, ItemKind] = {
        plan.item: "handoff_call" if plan.kind == "handoff" else "tool_call" for plan in reply.calls
    }
    plain: dict[str, ItemKind] = {"message": "message", "reasoning": "reasoning"}
    return [
        Item(
            plans.get(at) or plain.get(str(raw.get("type")), "other"),
            raw,
            effect.agent,
            effect.turn,
        )
        for at, raw in enumerate(reply.items)
    ]


def _newest_outputs(items: Sequence[Item]) -> Sequence[Item]:
    """Return the outputs of the last reply's calls; messages may follow them."""
    stop = len(items)
    while stop and items[stop - 1].kind in {"input", "note"}:
        stop -= 1
    start = stop
    while start and items[start - 1].kind in _OUTPUTS:
        start -= 1
    return items[start:stop]
