"""The objects that programs bring for their runs: whose they are, and how long they are kept."""

import asyncio
import gc
import threading
import weakref
from contextvars import copy_context
from types import SimpleNamespace
from typing import Any

import pytest

from outlast.agents import run_objects
from outlast.agents.agent import Agent
from outlast.agents.references import RunReferences
from outlast.agents.registry import Registry
from outlast.agents.run_objects import ENDED_SECONDS, RunKey, RunObjects, RunObjectTable
from tests.eventually import eventually

RUN_ID = "support-42"
KEY = RunKey("default", "first-execution")


class Thing:
    """An object that is no data."""


class Clock:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(run_objects, "time", clock := Clock())
    return clock


@pytest.fixture
def table() -> RunObjectTable:
    return RunObjectTable()


def key_of(number: int) -> RunKey:
    return RunKey("default", f"execution-{number}")


def hosted(name: str = "A") -> Registry:
    return Registry([Agent[Any](name=name)], tell_apart=True)


def kept(table: RunObjectTable) -> list[int]:
    """Return the numbers of the executions that have objects."""
    return [number for number in range(10) if table.get(key_of(number)) is not None]


# --- What one start brings --------------------------------------------------------------------------------


def test_a_run_sees_the_definitions_with_its_own_objects() -> None:
    registry, objects = hosted(), RunObjects(context_type=SimpleNamespace)
    name = objects.references.name(thing := Thing())
    view = objects.view_of(registry, RUN_ID)
    assert view.reference(name) is thing
    assert view.agent("A") is registry.agent("A")
    assert view.context_type("types:SimpleNamespace") == (SimpleNamespace, True)
    assert registry.context_type(None) == (None, False)
    assert objects.view_of(registry, RUN_ID) is view
    assert objects.view_of(hosted(), RUN_ID) is not view


def test_definitions_that_nobody_else_has_are_not_kept_by_their_views() -> None:
    registry, objects = hosted(), RunObjects()
    objects.view_of(registry, RUN_ID)
    left = weakref.ref(registry)
    del registry
    gc.collect()
    assert left() is None


def test_another_start_of_a_run_renews_what_it_brings() -> None:
    objects = RunObjects(
        live={("pool",): "old"}, context_type=dict, definitions=hosted(), caller=copy_context()
    )
    name, view = objects.references.name(Thing()), objects.view_of(hosted(), RUN_ID)
    newer = RunObjects(
        live={("pool",): "new"},
        context_type=SimpleNamespace,
        definitions=hosted("B"),
        caller=copy_context(),
    )
    assert newer.references.name(thing := Thing()) == name
    objects.renew(newer)
    assert objects.references[name] is thing
    assert (objects.live, objects.context_type) == ({("pool",): "new"}, SimpleNamespace)
    assert (objects.definitions, objects.caller) == (newer.definitions, newer.caller)
    assert view.own_references is objects.references
    assert newer.definitions is not None
    assert objects.view_of(newer.definitions, RUN_ID).names == ["B"]


def test_each_run_of_an_execution_has_the_agents_that_its_own_handoffs_made() -> None:
    registry, objects = hosted(), RunObjects()
    outer, nested = (objects.view_of(registry, one) for one in (RUN_ID, f"{RUN_ID}/ask-3"))
    outer.take_over(made := Agent[Any](name="Made"), 7)
    assert objects.chosen == {RUN_ID: {"Made": made}, f"{RUN_ID}/ask-3": {}}
    assert (outer.names, nested.names, registry.names) == (["A", "Made"], ["A"], ["A"])


def test_another_start_keeps_the_agents_that_handoffs_of_the_run_have_made() -> None:
    objects = RunObjects(definitions=hosted())
    objects.view_of(hosted(), RUN_ID).take_over(made := Agent[Any](name="Made"), 7)
    objects.renew(RunObjects(definitions=(newer := hosted("B"))))
    view = objects.view_of(newer, RUN_ID)
    assert view.names == ["B", "Made"]
    assert view.agent("Made") is made


def test_another_start_that_brings_less_leaves_the_rest() -> None:
    objects = RunObjects(
        live={("pool",): 1}, context_type=dict, definitions=hosted(), caller=copy_context()
    )
    name = objects.references.name(thing := Thing())
    definitions, caller = objects.definitions, objects.caller
    objects.renew(RunObjects())
    assert objects.references[name] is thing
    assert (objects.live, objects.context_type) == ({("pool",): 1}, dict)
    assert (objects.definitions, objects.caller) == (definitions, caller)


def test_what_is_there_is_completed_and_not_replaced() -> None:
    objects = RunObjects(live={("pool",): 1})
    other = RunObjects(live={("pool",): 2}, definitions=hosted(), caller=copy_context())
    objects.complete(other)
    assert (objects.definitions, objects.caller) == (other.definitions, other.caller)
    assert objects.live == {("pool",): 1}
    objects.complete(RunObjects(definitions=hosted(), caller=copy_context()))
    assert (objects.definitions, objects.caller) == (other.definitions, other.caller)


# --- Bringing and finding ---------------------------------------------------------------------------------


async def test_an_execution_has_what_its_start_brought(table: RunObjectTable) -> None:
    assert table.is_empty
    assert (await table.find(KEY, RUN_ID), table.get(KEY)) == (None, None)
    objects = RunObjects()
    assert table.bring(KEY, objects) is objects
    assert await table.find(KEY, RUN_ID) is objects
    assert table.get(KEY) is objects
    assert objects.live == {}, "the run's callables may add some"
    assert not table.is_empty
    for other in (RunKey("elsewhere", KEY.chain_id), RunKey("default", "later execution")):
        assert await table.find(other, RUN_ID) is None


@pytest.mark.parametrize(
    ("is_awaited", "resumes", "is_renewed"),
    [(True, False, False), (False, False, True), (True, True, True), (False, True, True)],
)
def test_a_run_keeps_its_objects_while_the_caller_who_brought_them_waits_or_until_it_is_resumed(
    table: RunObjectTable, *, is_awaited: bool, resumes: bool, is_renewed: bool
) -> None:
    objects, newer = RunObjects(definitions=hosted()), RunObjects(definitions=hosted())
    first = objects.definitions
    table.bring(KEY, objects)
    table.attend(KEY)
    if not is_awaited:
        table.leave(KEY)
    assert table.bring(KEY, newer, resumes=resumes) is objects
    assert objects.definitions is (newer.definitions if is_renewed else first)


def test_who_attaches_to_a_run_fills_what_it_lacks(table: RunObjectTable) -> None:
    first, second = RunObjects(definitions=hosted()), RunObjects(definitions=hosted())
    lacking = RunObjects()
    table.bring(KEY, lacking)
    assert table.fill(KEY, first) is lacking
    assert table.fill(KEY, second) is lacking
    assert lacking.definitions is first.definitions
    other = key_of(1)
    assert table.fill(other, second) is second
    assert table.get(other) is second
    assert second.live is None, "who attaches brings no context"


async def test_an_effect_waits_for_the_start_that_may_have_begun_its_run(
    table: RunObjectTable,
) -> None:
    objects = RunObjects()
    with table.starting("default", RUN_ID), table.starting("default", RUN_ID):
        assert not table.is_empty
        found = asyncio.create_task(table.find(KEY, RUN_ID))
        await asyncio.sleep(0)
        nested = asyncio.create_task(table.find(KEY, f"{RUN_ID}/ask-3/look-4"))
        await asyncio.sleep(0)
        others = [table.find(KEY, one) for one in ("another run", f"{RUN_ID}2", f"x/{RUN_ID}")]
        for other in (*others, table.find(RunKey("other", "x"), RUN_ID)):
            assert await other is None, "nobody starts that one"
        assert not found.done()
        assert not nested.done()
        table.bring(KEY, objects)
    assert await found is objects
    assert await nested is objects


async def test_each_start_that_ends_is_looked_at(table: RunObjectTable) -> None:
    objects = RunObjects()
    first, second = (table.starting("default", RUN_ID) for _ in range(2))
    first.__enter__()
    second.__enter__()
    found = asyncio.create_task(table.find(KEY, RUN_ID))
    await asyncio.sleep(0)
    first.__exit__(None, None, None)  # it has begun another execution
    done, _ = await asyncio.wait([found], timeout=0.05)
    assert not done
    table.bring(KEY, objects)
    second.__exit__(None, None, None)
    assert await found is objects


async def test_a_start_that_fails_leaves_the_run_without_objects(table: RunObjectTable) -> None:
    async def start() -> None:
        with table.starting("default", RUN_ID):
            await asyncio.sleep(0)
            raise ConnectionError

    starting = asyncio.create_task(start())
    await asyncio.sleep(0)
    assert await table.find(KEY, RUN_ID) is None
    with pytest.raises(ConnectionError):
        await starting
    assert table.is_empty


async def test_who_gives_up_waiting_disturbs_nobody(table: RunObjectTable) -> None:
    objects = RunObjects()
    with table.starting("default", RUN_ID):
        gives_up, waits = (asyncio.create_task(table.find(KEY, RUN_ID)) for _ in range(2))
        await asyncio.sleep(0)
        gives_up.cancel()
        await asyncio.wait([gives_up])
        table.bring(KEY, objects)
    assert gives_up.cancelled()
    assert await waits is objects


async def test_a_start_on_another_event_loop_is_waited_for(table: RunObjectTable) -> None:
    objects, has_begun, may_end = RunObjects(), threading.Event(), threading.Event()

    def start() -> None:
        with table.starting("default", RUN_ID):
            has_begun.set()
            may_end.wait(10)
            table.bring(KEY, objects)

    starting = asyncio.create_task(asyncio.to_thread(start))
    await asyncio.to_thread(has_begun.wait, 10)
    found = asyncio.create_task(table.find(KEY, RUN_ID))
    await asyncio.sleep(0)
    assert not found.done()
    may_end.set()
    assert await found is objects
    await starting


def test_many_threads_start_and_end_runs_at_once(table: RunObjectTable) -> None:
    found: list[bool] = []

    def work(thread: int) -> None:
        for number in range(50):
            key, objects = RunKey(str(thread), str(number)), RunObjects()
            with table.starting(key.namespace, key.chain_id):
                table.bring(key, objects)
            table.attend(key)
            found.append(asyncio.run(table.find(key, key.chain_id)) is objects)
            table.leave(key, ended=True)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 200
    assert table.is_empty


# --- How long they are kept -------------------------------------------------------------------------------


def test_a_run_that_has_ended_needs_nothing(table: RunObjectTable) -> None:
    table.bring(KEY, RunObjects())
    table.attend(KEY)
    table.leave(KEY, ended=True)
    assert table.is_empty
    table.attend(KEY)
    table.leave(KEY, ended=True)
    table.leave(KEY)
    assert table.is_empty


def test_a_run_is_awaited_until_its_last_caller_has_left(table: RunObjectTable) -> None:
    objects, newer = RunObjects(definitions=hosted()), RunObjects(definitions=hosted())
    first = objects.definitions
    table.bring(KEY, objects)
    table.attend(KEY)
    table.attend(KEY)
    table.leave(KEY)
    table.bring(KEY, newer)
    assert objects.definitions is first
    table.leave(KEY)
    table.bring(KEY, newer)
    assert objects.definitions is newer.definitions


def test_of_runs_that_nobody_awaits_the_newest_keep_their_objects(
    table: RunObjectTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_objects, "MOST_KEPT", 2)
    for number in range(4):
        table.bring(key_of(number), RunObjects())
    assert kept(table) == [2, 3]
    table.attend(key_of(2))
    table.bring(key_of(4), RunObjects())
    table.leave(key_of(2))  # it was needed after the others
    assert kept(table) == [2, 4]


def test_a_run_that_is_awaited_keeps_its_objects_however_many_there_are(
    table: RunObjectTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_objects, "MOST_KEPT", 1)
    for number in range(4):
        table.bring(key_of(number), RunObjects())
        table.attend(key_of(number))
    table.bring(key_of(4), RunObjects())
    table.bring(key_of(5), RunObjects())
    assert kept(table) == [0, 1, 2, 3, 5]
    for number in range(4):
        table.leave(key_of(number))
    assert kept(table) == [3]


async def test_objects_outlive_the_workflow_for_a_minute(
    table: RunObjectTable, clock: Clock
) -> None:
    """The server may not have taken the end, and the workflow goes on then."""
    table.bring(key_of(1), RunObjects())
    table.has_ended(key_of(1))
    table.has_ended(key_of(9))  # which this process has not started
    clock.now += ENDED_SECONDS - 1
    table.bring(key_of(2), RunObjects())
    table.has_ended(key_of(2))
    assert kept(table) == [1, 2]
    clock.now += 1
    table.bring(key_of(3), RunObjects())
    assert kept(table) == [2, 3]
    clock.now += ENDED_SECONDS
    table.bring(key_of(4), RunObjects())
    assert kept(table) == [3, 4]


async def test_a_run_that_goes_on_after_all_keeps_its_objects(
    table: RunObjectTable, clock: Clock
) -> None:
    for number in (1, 2, 3):
        table.bring(key_of(number), RunObjects())
        table.has_ended(key_of(number))
    assert await table.find(key_of(1), RUN_ID) is not None
    table.bring(key_of(2), RunObjects())
    clock.now += ENDED_SECONDS
    table.bring(key_of(4), RunObjects())
    assert kept(table) == [1, 2, 4]
    table.has_ended(key_of(1))
    clock.now += ENDED_SECONDS
    table.bring(key_of(5), RunObjects())
    assert kept(table) == [2, 4, 5]


def test_a_run_that_has_ended_keeps_its_objects_while_somebody_reads_it(
    table: RunObjectTable, clock: Clock
) -> None:
    table.bring(key_of(1), RunObjects())
    table.attend(key_of(1))
    table.has_ended(key_of(1))
    clock.now += ENDED_SECONDS
    table.bring(key_of(2), RunObjects())
    assert kept(table) == [1, 2]
    table.leave(key_of(1), ended=True)
    table.bring(key_of(3), RunObjects())
    assert kept(table) == [2, 3]


def test_a_process_that_starts_no_runs_forgets_those_that_have_ended_too(
    table: RunObjectTable, clock: Clock
) -> None:
    """A worker keeps the agents that handoffs have made in its process."""
    for number in (1, 2):
        table.fill(key_of(number), RunObjects())
        table.has_ended(key_of(number))
        clock.now += ENDED_SECONDS
    table.fill(key_of(3), RunObjects())
    assert kept(table) == [3]


def test_a_process_that_starts_no_runs_keeps_no_more_than_others(
    table: RunObjectTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_objects, "MOST_KEPT", 2)
    for number in range(4):
        table.fill(key_of(number), RunObjects())
    assert kept(table) == [2, 3]


async def test_objects_that_no_run_needs_are_free(table: RunObjectTable) -> None:
    references = RunReferences()
    references.name(thing := Thing())
    left = weakref.ref(thing)
    del thing
    table.bring(KEY, RunObjects(references=references))
    table.attend(KEY)
    del references
    table.leave(KEY, ended=True)

    def is_gone() -> bool:
        gc.collect()
        return left() is None

    await eventually(is_gone)
