"""The stream of an answer's steps, with what the runs nested in its run wait for."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import timedelta
from typing import Final

from outlast.client.people.nested_requests import find_request, found_requests
from outlast.serve.access import Caller, Staff, may
from outlast.serve.cursor import Cursor
from outlast.serve.feed import Cut, FeedReader
from outlast.serve.routing import Desk, DeskRequest
from outlast.serve.troubles import Watch
from outlast.serve.wires.answer_steps import AnswerSteps
from outlast.serve.wires.decisions import LAG
from outlast.serve.wires.steps import Finished, Step
from outlast.views.run import reported_requests

_WAITS: Final = frozenset({"waiting", "parked", "held", "blocked"})
"""Statuses in which a run waits for people or for something outside, which may take days."""


@asynccontextmanager
async def read_run(desk: Desk, run_id: str) -> AsyncGenerator[tuple[FeedReader, Watch]]:
    """Read a run from its beginning: what there is by now has come, and its trouble is watched."""
    async with (
        desk.feed.reader(run_id, Cursor()) as reader,
        desk.troubles.watch(run_id, lambda: reader.state) as watch,
    ):
        await reader.until_present()
        yield reader, watch


async def knows_message(desk: Desk, run_id: str, message_id: str) -> bool:
    """Return whether a run has had a message; this process may be behind the run for a moment."""
    async with desk.feed.reader(run_id, Cursor()) as reader:
        await reader.until_present()
        await reader.until(
            lambda: reader.answer_range(message_id) is not None or reader.state.outcome is not None,
            LAG.total_seconds(),
        )
        return reader.answer_range(message_id) is not None


class NestedRequests:
    """The requests of nested runs, for a caller who may decide.

    The run has no events of them, and what it was told about them is not trusted: anybody who reaches
    the server can tell it. So the nested runs are read, whenever that changes.

    Args:
        desk: the desk.
        caller: who reads.
        shown: the ids of requests that the client has.

    Attributes:
        goes_on: whether a nested run goes on, although the run does not know yet.
    """

    def __init__(self, desk: Desk, caller: Caller, shown: Collection[str] = ()) -> None:
        self._client = desk.client
        self._decides = isinstance(caller, Staff) and may(caller, "decide") is None
        self._shown = set(shown)
        self._looked_at: object = None
        self.goes_on: bool = False

    async def settled(self, steps: AnswerSteps, reader: FeedReader) -> list[Step]:
        """Return the steps of requests that the client has, and that are settled by now."""
        found = list[Step]()
        for name in sorted(self._shown & reader.reported_requests.keys()) if self._decides else ():
            request = await find_request(name, reader.state, self._client)
            if request is not None and request.request.status != "pending":
                self._shown.discard(name)
                found += steps.show(request)
        return found

    async def steps(self, steps: AnswerSteps, reader: FeedReader) -> list[Step]:
        """Return the steps that the present requests lead to, if there is news of them."""
        state = reader.state
        news = reported_requests(state), state.status
        if not self._decides or not reader.reported_requests or news == self._looked_at:
            return []
        self._looked_at = news
        found = await self.settled(steps, reader)
        waiting = await found_requests(state, self._client)
        self.goes_on = not waiting
        nested = [one for one in waiting if one.request.run_id]
        return [*found, *steps.ask(nested, reader)]


async def follow_steps(
    steps: AnswerSteps,
    reader: FeedReader,
    nested: NestedRequests | None = None,
    watch: Watch | None = None,
) -> AsyncGenerator[Step | None]:
    """Yield the steps of an answer until it is over, or the reader is cut off.

    None comes whenever all steps have come that there are by now, and with a watch also when what
    keeps the run from going on is another thing.

    Raises:
        AgentsException: the run cannot be read.
    """
    # They come first: what the client has of them is at the end of its message.
    for step in await nested.settled(steps, reader) if nested is not None else ():
        yield step
    found = steps.catch_up(reader)
    while True:
        for step in found:
            if nested is not None and isinstance(step, Finished):
                for one in await nested.steps(steps, reader):
                    yield one
            yield step
        if not (steps.is_over or reader.has_more):
            for step in await nested.steps(steps, reader) if nested is not None else ():
                yield step
            if not steps.is_over:
                yield None
                await (reader.news() if watch is None else watch.or_news(reader.news()))
                found = steps.catch_up(reader)
                continue
        if steps.is_over:
            return
        entry = await anext(reader, None)
        if entry is None or isinstance(entry, Cut):
            return
        if watch is not None:
            watch.look()
        found = steps.take(entry, reader)


async def take_present_steps(
    steps: AnswerSteps,
    reader: FeedReader,
    nested: NestedRequests,
    take: Callable[[Step], object],
    wait: timedelta = timedelta(0),
) -> None:
    """Take the steps of an answer that there are by now.

    Args:
        steps: the answer.
        reader: reads its run.
        nested: what the runs nested in it wait for.
        take: takes a step.
        wait: how long to wait until the answer is over, or the run waits for people who are not
            asked here.

    Raises:
        AgentsException: the run cannot be read.
    """
    with suppress(TimeoutError):
        async with (
            asyncio.timeout(wait.total_seconds() or None),
            aclosing(follow_steps(steps, reader, nested)) as following,
        ):
            async for step in following:
                if step is not None:
                    take(step)
                elif not wait:
                    return
                elif steps.begins is None or nested.goes_on:
                    continue  # the message is not read here yet, or a nested run goes on
                elif reader.state.status in _WAITS:
                    return


async def until_retried(asked: DeskRequest, message_id: str, answers: int) -> None:
    """Wait until a feed shows that a question is asked again: its failure is not its end any more.

    Args:
        asked: the request, at the run.
        message_id: the message.
        answers: how many answers and failures the run had before.
    """
    async with asked.desk.feed.reader(asked.run_id, Cursor()) as reader:
        await reader.until_present()

        def is_asked_again() -> bool:
            found = reader.answer_range(message_id)
            is_open = found is not None and found.ends is None
            return is_open or len(reader.state.answers) > answers

        await reader.until(is_asked_again, LAG.total_seconds())
