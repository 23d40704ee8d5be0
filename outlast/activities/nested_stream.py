"""What the `on_stream` of a tool that is an agent is told of the nested run.

Owns: which events each effect of that run makes, their order, and the waiting for whoever is told.
A model call tells what its model says, its reply, and before it the outputs of the last reply's
calls, which all count at once; a handoff tells these where its filter may hide them, and itself;
a conclusion tells those that became the answer. An effect that is tried again tells all its own
again. Knows no Temporal.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from copy import deepcopy
from functools import cached_property, partial
from typing import Any, TypeAlias, cast

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
from outlast.contract.delta_reader import RESTARTED
from outlast.contract.effects import kind_of
from outlast.loop.call_forms import FUNCTION, name_of, output_item
from outlast.loop.call_forms import call_item as written_call
from outlast.loop.calls import ModelReply
from outlast.loop.effects import CallModel, FinalizeAnswer, RunHandoff
from outlast.loop.items import Item, ItemKind, call_id_of
from outlast.loop.phrases import handed_over
from outlast.loop.state import ANSWER_KINDS
from outlast.loop.values import JsonObject

logger = get_logger(__name__)

LONGEST_WAIT_SECONDS = 120.0
"""How long an effect waits, in all, for a callback that is slower than what it is told of."""

SPARE_SECONDS = 10.0
"""What is left then, at least, of the effect's bound: a model call that outlives it is paid again."""

_OUTPUTS = frozenset({"tool_output", "handoff_output"})

_Maker: TypeAlias = Callable[[], ProgramEvent | None]
"""Makes an event when its turn has come; None for what programs are not told."""


@contextlib.asynccontextmanager
async def telling(
    invocation: Invocation, asked: CallModel | RunHandoff | FinalizeAnswer
) -> AsyncGenerator["NestedStream"]:
    """Tell what an effect does, as a block, at whose end it has been told.

    In a run that nobody is told of, whatever is told is dropped.

    Args:
        invocation: the effect's.
        asked: the effect.
    """
    stream = NestedStream(invocation, bound_seconds=kind_of(asked).policy(asked).timeout_ms / 1000)
    if not stream.is_heard:
        yield stream
        return
    passing_on = asyncio.create_task(stream.pass_on())
    try:
        yield stream
        await stream.all_heard()
    except Exception:
        await stream.all_heard()
        raise
    finally:
        passing_on.cancel()


class NestedStream:
    """The events of one effect, on their way to the tool's `on_stream`.

    They wait in a queue, so that the effect does not wait for the callback, until the queue is
    full. What the callback raises is logged; where it hangs, the rest is dropped.

    Args:
        invocation: the effect's.
        bound_seconds: how long the effect may take.
    """

    def __init__(self, invocation: Invocation, *, bound_seconds: float) -> None:
        tool = invocation.tool
        self._scene = invocation
        self._on_stream = tool.on_stream if tool is not None else None
        longest = tool.on_stream_max_pending_events if tool is not None else None
        self._waiting: asyncio.Queue[_Maker] = asyncio.Queue(longest or 0)
        self._patience_seconds = LONGEST_WAIT_SECONDS
        self._ends_at = asyncio.get_running_loop().time() + bound_seconds - SPARE_SECONDS
        self._called: dict[str, Item] = {}

    @property
    def is_heard(self) -> bool:
        """Whether anybody is told."""
        return self._on_stream is not None

    async def turn(self, asked: CallModel, items: Sequence[Item], *, attempt: int) -> None:
        """Tell what has happened since the last reply, before the model is asked.

        Args:
            asked: the model call.
            items: what the model is shown.
            attempt: 1 for the first try.
        """
        if not self.is_heard:
            return
        if attempt > 1:
            await self.raw({"type": RESTARTED, "attempt": attempt})
        if asked.starts:
            await self._put(partial(AgentUpdatedStreamEvent, id=0, new_agent=self._scene.agent))
        await self._outputs_unless_told(items)

    async def raw(self, event: JsonObject) -> None:
        """Tell a raw event of the model's stream."""
        await self._put(partial(_raw_event, event))

    async def passed(self, events: AsyncIterator[JsonObject]) -> AsyncGenerator[JsonObject]:
        """Tell the events of a model's stream, and yield them."""
        try:
            async for given in events:
                event: JsonObject = as_json(given)
                await self.raw(event)
                yield event
        finally:
            if isinstance(events, AsyncGenerator):
                await cast("AsyncGenerator[JsonObject]", events).aclose()

    async def reply(self, asked: CallModel, reply: ModelReply) -> None:
        """Tell what the model has written, now that it is known what it means.

        An answer that output guardrails have to pass is told by `passed_answer`.
        """
        if self.is_heard:
            written = _written(asked, reply)
            waits = "check_output" in reply.required_steps and not reply.calls
            ready = [one for one in written if not (waits and one.kind in ANSWER_KINDS)]
            await self._items(ready, among=written)

    async def passed_answer(self, items: Sequence[Item]) -> None:
        """Tell the answer of the newest turn, which output guardrails have passed."""
        if self.is_heard:
            newest = items[-1].turn if items else 0
            said = [one for one in items if one.turn == newest > 0]
            await self._items([one for one in said if one.kind in ANSWER_KINDS], among=items)

    async def handoff(self, asked: RunHandoff, items: Sequence[Item], target: str) -> None:
        """Tell that another agent has taken over, and first what was done besides.

        Args:
            asked: the handoff.
            items: the transcript before it.
            target: the name of the agent that takes over.
        """
        if self.is_heard:
            transfer = output_item(asked.call_id, handed_over(target))
            done = Item("handoff_output", transfer, asked.agent)
            await self._items([*_newest_outputs(items), done], among=items)

    async def answer(self, items: Sequence[Item]) -> None:
        """Tell the outputs after which no model is asked any more."""
        if self.is_heard:
            await self._outputs_unless_told(items)

    async def pass_on(self) -> None:
        """Call the callback with what comes, until it is cancelled."""
        await load_event_types()
        while True:
            make = await self._waiting.get()
            try:
                await self._call(make())
            except Exception as error:  # noqa: BLE001  who reads along does not stop the run
                said = f"on_stream of the tool {self._tool_name!r} raised {type(error).__name__}"
                logger.warning("%s", failure_words(f"{said}: {error}", error))
            finally:
                self._waiting.task_done()

    async def all_heard(self) -> None:
        """Wait until everything was told, for as long as there is time."""
        if self.is_heard:
            await self._wait_for(self._waiting.join())

    async def _outputs_unless_told(self, items: Sequence[Item]) -> None:
        """Tell the newest outputs, unless a handoff has told them with itself."""
        outputs, agent = _newest_outputs(items), self._scene.agent.name
        if all(one.kind == "tool_output" and one.agent == agent for one in outputs):
            await self._items(outputs, among=items)

    async def _items(self, entries: Sequence[Item], *, among: Sequence[Item]) -> None:
        calls = {call_id_of(one.raw): one for one in among if one.kind == "tool_call"}
        for entry in entries:
            await self._put(partial(self._item_event, entry, calls.get(call_id_of(entry.raw))))

    async def _put(self, make: _Maker) -> None:
        if self._on_stream is None:
            return
        try:
            self._waiting.put_nowait(make)
        except asyncio.QueueFull:
            await self._wait_for(self._waiting.put(make))

    async def _wait_for(self, heard: Awaitable[None]) -> None:
        """Wait for the callback; without patience left, give it up."""
        now = asyncio.get_running_loop().time
        began = now()
        left = min(self._patience_seconds, self._ends_at - began)
        try:
            async with asyncio.timeout(left):
                await heard
        except TimeoutError:
            logger.warning(
                "on_stream of the tool %r is too slow: %d events are not told, nor what comes "
                "after them in this step",
                self._tool_name,
                self._waiting.qsize(),
            )
            self._on_stream = None
        self._patience_seconds -= now() - began

    async def _call(self, event: ProgramEvent | None) -> None:
        if event is not None and self._on_stream is not None:
            told = AgentToolStreamEvent(
                event=event, agent=self._scene.agent, tool_call=self._tool_call
            )
            await call(self._on_stream, told)

    @cached_property
    def _tool_call(self) -> Any:
        outer = self._scene.outer
        if outer is None:
            return None
        raw = written_call(
            FUNCTION, call_id=outer.call_id, name=outer.tool.name, arguments=outer.arguments
        )
        return HeldRaw(raw).shown()

    @property
    def _tool_name(self) -> str:
        return self._scene.tool.name if self._scene.tool is not None else ""

    def _item_event(self, entry: Item, called: Item | None) -> ProgramEvent | None:
        tool = None if called is None else self._tool(called.agent, name_of(called.raw))
        item = call_item(entry, tool, self._scene.worker.registry.agent)
        event = item_event(entry, item)
        return None if event.name in OF_LONG_RUNS else event

    def _tool(self, agent: str, name: str) -> FunctionTool | None:
        registry = self._scene.worker.registry
        try:
            return registry.tool(agent, name)
        except UserError:  # of a server that this process has listed, or nobody's
            seen = tools_seen(registry.agent(agent))
            return next((tool for tool in seen if tool.name == name), None)


def _raw_event(raw: JsonObject) -> RawResponsesStreamEvent:
    """Return a raw event; the reply is made of the same JSON, so programs get a copy."""
    return RawResponsesStreamEvent(raw=deepcopy(raw))


def _written(asked: CallModel, reply: ModelReply) -> list[Item]:
    """Return the items of a reply as the transcript will have them."""
    plans: dict[int, ItemKind] = {
        plan.item: "handoff_call" if plan.kind == "handoff" else "tool_call" for plan in reply.calls
    }
    plain: dict[str, ItemKind] = {"message": "message", "reasoning": "reasoning"}
    return [
        Item(
            plans.get(at) or plain.get(str(raw.get("type")), "other"), raw, asked.agent, asked.turn
        )
        for at, raw in enumerate(reply.items)
    ]


def _newest_outputs(items: Sequence[Item]) -> Sequence[Item]:
    """Return the outputs of the last reply's calls; somebody may have said something since."""
    stop = len(items)
    while stop and items[stop - 1].kind == "input":
        stop -= 1
    start = stop
    while start and items[start - 1].kind in _OUTPUTS:
        start -= 1
    return items[start:stop]
