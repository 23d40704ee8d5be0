"""Feeds of runs: who gets what, who is refused or cut, and when a follower ends."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from outlast.agents.errors import RunNotFound
from outlast.client.read.events import StreamedState
from outlast.contract.streams.delta_reader import UNJUDGED
from outlast.loop.state import Answer, LoopState, Question
from outlast.loop.values import Failure
from outlast.serve.cursor import Cursor
from outlast.serve.feed import (
    AnswerRange,
    Cut,
    Ended,
    Feed,
    FeedEntry,
    FeedLimits,
    FeedReader,
    Happened,
    Snapshot,
    TextAdded,
    TextReset,
    TooManyReaders,
)
from outlast.views.run import loop_state, snapshot_of
from tests.eventually import eventually
from tests.unit.serve.scripted_source import (
    COMPLETED,
    MISSED,
    RESTART,
    ScriptedSource,
    Streamed,
    delta,
    model_call,
    raw,
    state,
)

SOON = timedelta(milliseconds=30)
LATER = timedelta(minutes=1)


@pytest.fixture
def source() -> ScriptedSource:
    return ScriptedSource()


async def settle() -> None:
    """Let everything happen that does not wait for time to pass."""
    for _ in range(20):
        await asyncio.sleep(0)


async def take(reader: FeedReader, count: int) -> list[FeedEntry]:
    async with asyncio.timeout(5):
        return [await anext(reader) for _ in range(count)]


async def is_waiting(reader: FeedReader) -> bool:
    """Whether nothing comes, for longer than the lag of these tests."""
    try:
        async with asyncio.timeout(SOON.total_seconds() * 3):
            await anext(reader)
    except TimeoutError:
        return True
    return False


async def test_a_reader_waits_until_a_place_is_read(source: ScriptedSource) -> None:
    def at(number: int, *place: Any) -> StreamedState:
        return replace(state(number), place=place)

    source.put(at(0, "first", 1))
    async with Feed(source, FeedLimits(lag=SOON)) as feed, feed.reader("run") as reader:
        await reader.until_present()
        waiting = asyncio.ensure_future(reader.until_read(("first", 2)))
        await settle()
        assert not waiting.done()
        source.put(at(1, "first", 2))
        await asyncio.wait_for(waiting, SOON.total_seconds() / 2)
        source.put(at(2, "second", 1))
        await settle()
        await asyncio.wait_for(reader.until_read(("first", 9)), SOON.total_seconds() / 2)
        await reader.until_read(("third", 1))  # not for ever


async def read_all(source: ScriptedSource, after: Cursor | None) -> list[FeedEntry]:
    """Read what a new process shows of a run that has ended."""
    source.end()
    async with Feed(source) as feed, feed.reader("run", after) as reader:
        return [item async for item in reader]


async def cursor_after(count: int, *shown: Streamed) -> Cursor:
    """Return the cursor of a reader that got so much of another process."""
    source = ScriptedSource([*shown])
    async with Feed(source) as feed, feed.reader("run", Cursor()) as reader:
        return (await take(reader, count))[-1].cursor


def kinds(items: list[FeedEntry]) -> list[type]:
    return [type(item) for item in items]


def text(items: list[FeedEntry]) -> str:
    return "".join(item.text for item in items if isinstance(item, TextAdded))


# --- What a reader gets -------------------------------------------------------------------------------------


async def test_a_reader_from_the_start_gets_events_and_texts_and_the_end(
    source: ScriptedSource,
) -> None:
    source.put(state(0, call=2), delta("Hel"), delta("lo"), COMPLETED, state(1, 2))
    items = await read_all(source, Cursor())
    assert kinds(items) == [Happened, TextAdded, Happened, Happened, Ended]
    assert text(items) == "Hello"
    assert [(one.cursor.event, one.cursor.offset) for one in items] == [
        (1, 0),
        (1, 5),
        (2, 0),
        (3, 0),
        (3, 0),
    ]


async def test_text_is_unjudged_only_where_the_attempt_that_writes_it_says_so(
    source: ScriptedSource,
) -> None:
    source.put(state(0, call=2), raw("response.created", **{UNJUDGED: True}), delta("One"))
    async with Feed(source) as feed, feed.reader("run", Cursor()) as reader:
        _, first = await take(reader, 2)
        async with feed.reader("run") as late:
            [snapshot] = await take(late, 1)
        source.put(RESTART, raw("response.created"), delta("Two"))
        void, again = await take(reader, 2)
        source.put(COMPLETED, state(1, call=3), delta("Three"))
        _, third = await take(reader, 2)
    assert isinstance(void, TextReset)
    shown = [
        one for one in (first, snapshot, again, third) if isinstance(one, TextAdded | Snapshot)
    ]
    assert [(one.text, one.is_unjudged) for one in shown] == [
        ("One", True),
        ("One", True),
        ("Two", False),
        ("Three", False),
    ]


async def test_text_says_which_model_call_of_the_run_writes_it(source: ScriptedSource) -> None:
    # The effects count the calls of each question anew.
    first, second = (
        snapshot_of(LoopState(turns=turn, pending=(model_call(turn),))) for turn in (1, 2)
    )
    begun = replace(state(0, call=1), state=first)
    source.put(begun, delta("One"), COMPLETED, replace(state(1), state=second), delta("Two"))
    async with Feed(source) as feed, feed.reader("run", Cursor()) as reader:
        items = await take(reader, 4)
        async with feed.reader("run") as late:
            items += await take(late, 1)
    texts = [one for one in items if isinstance(one, TextAdded | Snapshot)]
    assert [(one.text, one.turn) for one in texts] == [("One", 1), ("Two", 2), ("Two", 2)]


async def test_a_reader_that_comes_late_goes_on_from_the_present(source: ScriptedSource) -> None:
    source.put(state(0, present=False), state(1, call=2), delta("Hel"))
    async with Feed(source) as feed, feed.reader("run", Cursor()) as first:
        await take(first, 3)
        async with feed.reader("run") as late:
            [snapshot] = await take(late, 1)
            present = source.shown[1]
            assert isinstance(snapshot, Snapshot)
            assert isinstance(present, StreamedState)
            assert (snapshot.state, snapshot.text) == (present.state, "Hel")
            source.put(delta("lo"), COMPLETED, state(2))
            assert await take(late, 2) == await take(first, 2)
            newest = source.shown[-1]
            assert isinstance(newest, StreamedState)
            assert late.state == newest.state
    assert source.opened == 1, "one follower for both"


async def test_a_late_reader_waits_until_the_follower_has_caught_up(source: ScriptedSource) -> None:
    source.put(state(0, present=False))
    async with Feed(source) as feed, feed.reader("run") as reader:
        begins = asyncio.create_task(anext(reader))
        await settle()
        assert not begins.done()
        source.put(state(1))
        assert (await begins).cursor.event == 2


async def test_a_cursor_of_one_process_is_good_in_another(source: ScriptedSource) -> None:
    source.put(state(0, call=2), delta("Hello "), delta("Ann"), COMPLETED, state(1, at_ms=7))
    whole = await read_all(source, Cursor())
    for count in range(len(whole)):
        cursor = whole[count].cursor
        rest = await read_all(source, Cursor.parse(str(cursor)))
        assert rest == (whole[count + 1 :] or whole[-1:])


async def test_a_cursor_in_the_middle_of_a_piece_gets_the_rest_of_it(
    source: ScriptedSource,
) -> None:
    after = await cursor_after(2, state(0, call=2), delta("Hel"))
    source.put(state(0, call=2), delta("Hello"), COMPLETED, state(1))
    assert text(await read_all(source, after)) == "lo"


async def test_texts_of_several_messages_are_apart_and_refusals_are_text(
    source: ScriptedSource,
) -> None:
    source.put(
        state(0, call=2),
        raw("response.created"),
        delta("Let me see.", 0),
        raw("response.function_call_arguments.delta", delta="{}", output_index=1),
        raw("response.reasoning_summary_text.delta", delta="Hm", output_index=2),
        raw("response.refusal.delta", delta="I can", output_index=3),
        raw("response.refusal.delta", delta="not.", output_index=3),
        COMPLETED,
        state(1),
    )
    assert text(await read_all(source, Cursor())) == "Let me see.\n\nI cannot."


async def test_a_text_goes_on_over_an_event_of_something_else(source: ScriptedSource) -> None:
    source.put(state(0, call=2), delta("Hel"))
    async with Feed(source) as feed, feed.reader("run", Cursor()) as live:
        items = await take(live, 2)
        source.put(state(1, call=2), delta("lo"), COMPLETED, state(2))
        items += await take(live, 2)
    assert [(one.cursor.event, one.cursor.offset) for one in items] == [
        (1, 0),
        (1, 3),
        (2, 3),
        (2, 5),
    ]
    late = ScriptedSource([state(0, call=2), state(1, call=2), delta("Hello"), COMPLETED, state(2)])
    rest = await read_all(late, items[1].cursor)
    assert kinds(rest) == [Happened, TextAdded, Happened, Ended]
    assert text(rest) == "lo"


# --- When a text is void ------------------------------------------------------------------------------------


async def test_a_call_that_starts_over_voids_the_text_and_the_next_cursors_are_good(
    source: ScriptedSource,
) -> None:
    source.put(state(0, call=2), delta("Hel"))
    async with Feed(source) as feed, feed.reader("run", Cursor()) as reader:
        await take(reader, 2)
        source.put(RESTART, delta("Good"))
        reset, added = await take(reader, 2)
    assert isinstance(reset, TextReset)
    for cursor, rest in ((reset.cursor, "Good day"), (added.cursor, " day")):
        late = ScriptedSource([state(0, call=2), delta("Good day"), COMPLETED, state(1)])
        items = await read_all(late, cursor)
        assert kinds(items) == [TextAdded, Happened, Ended]
        assert text(items) == rest


async def test_a_slow_reader_learns_that_its_text_is_void_before_the_new_one(
    source: ScriptedSource,
) -> None:
    source.put(state(0, call=2), delta("Hel"))
    async with Feed(source) as feed, feed.reader("run", Cursor()) as reader:
        await take(reader, 2)
        source.put(RESTART, delta("Good day"), COMPLETED, state(1), state(2, call=3), delta("x"))
        await settle()
        items = await take(reader, 5)
    assert kinds(items) == [TextReset, TextAdded, Happened, Happened, TextAdded]
    assert text(items) == "Good dayx"


@pytest.mark.parametrize("call", [None, 3])
async def test_a_call_that_ends_without_a_reply_voids_its_text(
    source: ScriptedSource, call: int | None
) -> None:
    source.put(state(0, call=2), delta("Hel"))
    async with Feed(source) as feed, feed.reader("run", Cursor()) as reader:
        await take(reader, 2)
        source.put(state(1, call=call))
        assert kinds(await take(reader, 2)) == [TextReset, Happened]


async def test_a_reply_that_nobody_may_see_is_void_when_the_model_is_called_again(
    source: ScriptedSource,
) -> None:
    source.put(state(0, call=2), delta("Hel"))
    async with Feed(source) as feed, feed.reader("run", Cursor()) as reader:
        await take(reader, 2)
        source.put(COMPLETED, state(), state(call=3))
        assert kinds(await take(reader, 1)) == [TextReset]
        source.put(state(1, call=3), delta("Hi"))
        assert kinds(await take(reader, 2)) == [Happened, TextAdded]


async def test_a_cursor_of_a_text_that_is_void_gets_a_snapshot_at_once(
    source: ScriptedSource,
) -> None:
    after = await cursor_after(2, state(0, call=2), delta("Hel"))
    source.put(state(0, call=2), RESTART, delta("Good"))
    limits = FeedLimits(lag=LATER)
    async with Feed(source, limits) as feed, feed.reader("run", after) as reader:
        [snapshot] = await take(reader, 1)
    assert isinstance(snapshot, Snapshot)
    assert snapshot.text == "Good"


async def test_a_cursor_of_another_past_gets_a_snapshot(source: ScriptedSource) -> None:
    """The run was reset, or its id is that of a new run."""
    after = await cursor_after(2, state(0, at_ms=5), state(1, at_ms=6))
    source.put(state(0, at_ms=5), state(1, at_ms=7), state(2, at_ms=8))
    items = await read_all(source, after)
    assert kinds(items) == [Snapshot, Ended]
    assert items[0].cursor.event == 3


# --- A process that is behind -------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [False, True])
async def test_a_reader_that_is_ahead_of_the_process_waits_for_it(
    source: ScriptedSource, *, offset: bool
) -> None:
    ahead: list[Streamed] = [state(0, call=2), delta("Hello")]
    after = await cursor_after(2 if offset else 1, *ahead)
    source.put(*([state(0, call=2), delta("Hel")] if offset else [state()]))
    async with Feed(source, FeedLimits(lag=LATER)) as feed, feed.reader("run", after) as reader:
        assert await is_waiting_without_harm(reader)
        source.put(*([delta("lo!")] if offset else [state(0, call=2), delta("Hello!")]))
        [added] = await take(reader, 1)
    assert isinstance(added, TextAdded)
    assert added.text == ("!" if offset else "Hello!")


async def is_waiting_without_harm(reader: FeedReader) -> bool:
    begins = asyncio.create_task(anext(reader))
    await settle()
    is_waiting = not begins.done()
    begins.cancel()
    await asyncio.gather(begins, return_exceptions=True)
    return is_waiting


async def test_a_reader_that_stays_ahead_gets_a_snapshot(source: ScriptedSource) -> None:
    after = await cursor_after(2, state(0, call=2), delta("Hello"))
    source.put(state(0, call=2), delta("Hel"))
    limits = FeedLimits(lag=SOON)
    async with Feed(source, limits) as feed, feed.reader("run", after) as reader:
        [snapshot] = await take(reader, 1)
    assert isinstance(snapshot, Snapshot)
    assert snapshot.text == "Hel"


async def test_a_process_that_still_reads_the_history_is_waited_for(
    source: ScriptedSource,
) -> None:
    after = await cursor_after(2, state(0), state(1))
    source.put(state(0, present=False))
    limits = FeedLimits(lag=SOON)
    async with Feed(source, limits) as feed, feed.reader("run", after) as reader:
        assert await is_waiting(reader)
        source.put(state(1), state(2))
        assert kinds(await take(reader, 1)) == [Happened]


async def test_a_text_with_a_gap_is_waited_for_until_it_is_recorded(
    source: ScriptedSource,
) -> None:
    after = await cursor_after(2, state(0, call=2), delta("Hello"))
    source.put(state(0, call=2), MISSED)
    limits = FeedLimits(lag=SOON)
    async with Feed(source, limits) as feed, feed.reader("run", after) as reader:
        assert await is_waiting(reader)
        source.put(delta("Hello Ann"), COMPLETED, state(1))
        assert text(await take(reader, 1)) == " Ann"


# --- Slow readers, and how many -----------------------------------------------------------------------------


async def test_a_slow_reader_gets_more_text_at_once(source: ScriptedSource) -> None:
    source.put(state(0, call=2))
    async with Feed(source) as feed, feed.reader("run", Cursor()) as reader:
        await take(reader, 1)
        for _ in range(1_000):
            source.put(delta("ab"))
        await settle()
        [added] = await take(reader, 1)
    assert isinstance(added, TextAdded)
    assert added.text == "ab" * 1_000


async def test_a_reader_that_takes_nothing_is_cut_and_comes_back_by_its_cursor(
    source: ScriptedSource,
) -> None:
    source.put(state(0, call=2), delta("Hel"))
    limits = FeedLimits(stalled_after=SOON, readers_per_run=1)
    async with Feed(source, limits) as feed, feed.reader("run", Cursor()) as stalled:
        [*_, last] = await take(stalled, 2)
        source.put(delta("l"))
        await settle()
        with pytest.raises(TooManyReaders):
            await feed.reader("run").__aenter__()
        await asyncio.sleep(SOON.total_seconds() * 2)
        source.put(delta("o"))
        await settle()
        assert [item async for item in stalled] == [Cut(last.cursor)]
        async with feed.reader("run", last.cursor) as again:
            assert text(await take(again, 1)) == "lo"


async def test_a_follower_whose_readers_are_all_cut_ends(source: ScriptedSource) -> None:
    source.put(state(0))
    limits = FeedLimits(stalled_after=SOON, grace=SOON)
    async with Feed(source, limits) as feed, feed.reader("run", Cursor()) as reader:
        await take(reader, 1)
        await asyncio.sleep(SOON.total_seconds() * 2)
        source.put(state(1))
        await eventually(lambda: source.open == 0)
        async with feed.reader("run", reader.cursor) as again:
            assert kinds(await take(again, 1)) == [Happened]


async def test_a_reader_for_whom_there_is_nothing_is_not_cut(source: ScriptedSource) -> None:
    source.put(state(0))
    limits = FeedLimits(stalled_after=SOON)
    async with Feed(source, limits) as feed, feed.reader("run", Cursor()) as reader:
        await take(reader, 1)
        waits = asyncio.create_task(anext(reader))
        await asyncio.sleep(SOON.total_seconds() * 2)
        source.put(state(1), state(2))
        assert isinstance(await waits, Happened)


async def test_a_run_has_a_limit_of_readers(source: ScriptedSource) -> None:
    source.put(state(0))
    async with Feed(source, FeedLimits(readers_per_run=2)) as feed:
        async with feed.reader("run"), feed.reader("run"):
            with pytest.raises(TooManyReaders, match="2 readers follow the run 'run' already"):
                await feed.reader("run").__aenter__()
            async with feed.reader("another"):
                pass
        async with feed.reader("run"):
            pass


# --- Followers ----------------------------------------------------------------------------------------------


async def test_a_follower_without_readers_ends_after_a_grace(source: ScriptedSource) -> None:
    source.put(state(0))
    async with Feed(source, FeedLimits(grace=SOON)) as feed:
        async with feed.reader("run") as reader:
            await take(reader, 1)
        assert source.open == 1
        async with feed.reader("run") as reader:
            await asyncio.sleep(SOON.total_seconds() * 2)
            await take(reader, 1)
        assert (source.open, source.opened) == (1, 1), "it was still there"
        await eventually(lambda: source.open == 0)
        assert feed.followed == frozenset()
        async with feed.reader("run") as reader:
            await take(reader, 1)
        assert source.opened == 2


async def test_the_end_of_a_run_is_not_remembered(source: ScriptedSource) -> None:
    """It may have been reset since."""
    source.put(state(0))
    source.end()
    async with Feed(source) as feed:
        for number in range(1, 3):
            async with feed.reader("run", Cursor()) as reader:
                assert kinds([item async for item in reader]) == [Happened, Ended]
            assert (source.opened, feed.followed) == (number, frozenset())


@pytest.mark.parametrize("after", [None, Cursor(), Cursor(9, 0, 5)])
async def test_every_reader_learns_why_a_run_cannot_be_read(
    source: ScriptedSource, after: Cursor | None
) -> None:
    source.end(RunNotFound("There is no run 'run'."))
    async with Feed(source) as feed:
        async with feed.reader("run", after) as one, feed.reader("run", after) as other:
            for reader in (one, other):
                with pytest.raises(RunNotFound, match="no run 'run'"):
                    await anext(reader)
        assert feed.followed == frozenset()


async def test_what_was_read_before_a_failure_comes_first(source: ScriptedSource) -> None:
    source.put(state(0))
    source.end(RunNotFound("gone"))
    async with Feed(source) as feed, feed.reader("run", Cursor()) as reader:
        assert kinds(await take(reader, 1)) == [Happened]
        with pytest.raises(RunNotFound):
            await anext(reader)


@pytest.mark.parametrize("after", [None, Cursor(), Cursor(9, 0, 5)])
async def test_a_process_that_ends_cuts_its_readers_and_leaves_no_task(
    source: ScriptedSource, after: Cursor | None
) -> None:
    before = asyncio.all_tasks()
    feed = Feed(source)
    async with feed.reader("run", after) as reader:
        waits = asyncio.create_task(anext(reader))
        await settle()
        await feed.close()
        assert await waits == Cut(after or Cursor())
        assert [item async for item in reader] == []
    assert source.open == 0
    assert asyncio.all_tasks() == before


async def test_a_reader_that_is_cancelled_leaves_the_others_alone(source: ScriptedSource) -> None:
    source.put(state(0))
    before = asyncio.all_tasks()

    async def read(feed: Feed) -> None:
        async with feed.reader("run", Cursor()) as reader:
            async for _ in reader:
                pass

    async with Feed(source, FeedLimits(grace=SOON)) as feed:
        async with feed.reader("run", Cursor()) as other:
            task = asyncio.create_task(read(feed))
            await settle()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            async with feed.reader("run"):
                pass
            source.put(state(1))
            assert kinds(await take(other, 2)) == [Happened, Happened]
        await eventually(lambda: source.open == 0)
    assert asyncio.all_tasks() == before


async def test_a_source_is_closed_where_its_follower_is_stopped() -> None:
    closed: list[str] = []

    async def source(run_id: str) -> AsyncGenerator[Any]:
        try:
            yield state(0)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            closed.append(run_id)

    async with Feed(source) as feed, feed.reader("run", Cursor()) as reader:
        await take(reader, 1)
    assert closed == ["run"]
    async with aclosing(source("unused")):
        pass


# --- Which events answer a message ----------------------------------------------------------------


def asking(streamed: StreamedState, *open_ids: str, answers: tuple[Answer, ...] = ()) -> Any:
    """The state while messages are being answered, or have been."""
    question = Question(answering=open_ids)
    reached = replace(loop_state(streamed.state), question=question, answers=answers)
    return replace(streamed, state=snapshot_of(reached))


async def test_a_reader_knows_which_events_answer_a_message(source: ScriptedSource) -> None:
    async with Feed(source) as feed, feed.reader("run", Cursor()) as reader:
        source.put(asking(state(0), "m1"), asking(state(1), "m1", "m2"))
        await take(reader, 2)
        assert reader.answer_range("m1") == AnswerRange(0)
        assert reader.answer_range("m2") == AnswerRange(1)
        assert reader.answer_range("m3") is None
        given = Answer(
            to=("m1", "m2"), item=None, agent="A", failure=Failure(code="x", message="y")
        )
        source.put(asking(state(2, 3), answers=(given,)), asking(state(4), answers=(given,)))
        await take(reader, 3)
        assert reader.answer_range("m1") == AnswerRange(0, 4)
        assert reader.answer_range("m2") == AnswerRange(1, 4)
        retried = replace(given, to=())
        source.put(asking(state(5), "m2", answers=(retried,)))
        await take(reader, 1)
        assert reader.answer_range("m2") == AnswerRange(1)


async def test_a_reader_knows_whether_there_is_more(source: ScriptedSource) -> None:
    async with Feed(source) as feed, feed.reader("run", Cursor()) as reader:
        waiting = asyncio.create_task(reader.until_present())
        await settle()
        assert not waiting.done()
        source.put(state(0, call=1), delta("abc"))
        await waiting
        await settle()
        assert reader.has_more
        await take(reader, 2)
        assert (reader.has_more, reader.recorded) == (False, 1)
        source.put(RESTART)
        await settle()
        assert reader.has_more
        assert isinstance((await take(reader, 1))[0], TextReset)
        assert not reader.has_more
        source.end()
        await settle()
        assert reader.has_more
