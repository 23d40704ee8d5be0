"""Contexts with live values: the data travels, the objects stay and are put back by their path."""

import asyncio
import dataclasses
import threading
from collections.abc import AsyncGenerator, Iterator
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from outlast.agents.context import factories
from outlast.agents.context.codec import (
    BorrowedContext,
    ProgramContext,
    read_context,
    write_context,
    write_parts,
)
from outlast.agents.context.encoding import decode, encode
from outlast.agents.context.factories import as_factories
from outlast.agents.context.live import live_paths, without_live
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError


class Pool:
    """A connection pool: no data."""


@dataclasses.dataclass
class Inner:
    n: int
    lock: Any


@dataclasses.dataclass
class Desk:
    name: str
    opened: date
    pool: Pool | None
    inner: Inner | None = None
    tags: set[str] = dataclasses.field(default_factory=set[str])


class Model(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    n: int
    pool: Pool
    more: dict[str, Pool]


class Plain:
    def __init__(self) -> None:
        self.n = 1
        self.pool = Pool()


@dataclasses.dataclass(frozen=True)
class Frozen:
    pool: Pool
    n: int = 0


CONTEXTS: dict[str, tuple[Any, list[tuple[str, ...]]]] = {
    "dataclass": (
        Desk("Ann", date(2026, 1, 2), Pool(), Inner(1, threading.Lock()), {"x"}),
        [("pool",), ("inner", "lock")],
    ),
    "optional": (Desk("Ann", date(2026, 1, 2), None, Inner(1, Pool())), [("inner", "lock")]),
    "model": (Model(n=1, pool=Pool(), more={"a": Pool()}), [("pool",), ("more", "a")]),
    "plain class": (Plain(), [("pool",)]),
    "frozen": (Frozen(Pool(), 3), [("pool",)]),
    "dict": ({"n": 1, "pool": Pool(), "in": {"f": open}}, [("pool",), ("in", "f")]),
    "list": ({"pools": [Pool()]}, [("pools",)]),
}


@pytest.mark.parametrize("name", CONTEXTS)
def test_callables_get_the_very_objects_and_the_run_gets_the_data(name: str) -> None:
    context, paths = CONTEXTS[name]
    value, live = write_parts(context)
    assert list(live) == [path for path, _ in live_paths(value)] == paths
    made = read_context(value, type(context), live, is_own=True)
    assert type(made) is type(context)
    again, same = write_parts(made)
    assert again == value
    assert all(same[path] is live[path] for path in paths)


def test_the_data_keeps_its_types_beside_a_live_value() -> None:
    value, live = write_parts(CONTEXTS["dataclass"][0])
    made: Desk = read_context(value, Desk, live)
    assert (made.opened, made.tags, made.inner and made.inner.n) == (date(2026, 1, 2), {"x"}, 1)


def test_fields_that_are_not_in_the_data_have_their_defaults() -> None:
    made: Desk = read_context(
        {"name": "A", "opened": "2026-01-02", "pool": {"$live": "Pool"}}, Desk, {("pool",): 1}
    )
    assert (made.tags, made.inner) == (set(), None)


def test_a_context_without_live_values_is_written_as_before() -> None:
    assert write_parts({"n": 1}) == ({"n": 1}, {})
    assert without_live({"n": 1, "in": {"pool": {"$live": "Pool"}, "m": 2}}) == {
        "n": 1,
        "in": {"m": 2},
    }


def test_a_live_value_that_is_elsewhere_is_named_with_the_fix() -> None:
    value = write_context(CONTEXTS["dataclass"][0])
    with pytest.raises(UserError, match=r"context's pool \(Pool\).*context="):
        read_context(value, Desk)


@pytest.mark.parametrize("context", [{"$live": "x"}, {"a": {"$live": "x"}, "pool": Pool()}])
def test_data_that_looks_like_a_marker_is_data(context: Any) -> None:
    value, live = write_parts(context)
    assert ("$live",) not in live
    assert ("a", "$live") not in live
    assert read_context(value, None, live) == context


def test_an_object_that_a_callable_puts_in_the_place_of_another_is_what_the_next_one_gets() -> None:
    value, live = write_parts({"pool": Pool(), "n": 1})
    borrowed = BorrowedContext(value, None, live)
    borrowed.context["pool"] = newer = Pool()
    borrowed.context["n"] = 2
    wrapper = RunContextWrapper[Any](context=borrowed.context)
    assert [change.path for change in borrowed.changes(wrapper)] == [("n",)]
    assert BorrowedContext(value, None, live).context["pool"] is newer


def test_an_object_that_a_callable_adds_stays_only_where_the_run_was_started() -> None:
    live: dict[tuple[str, ...], Any] = {}
    here = BorrowedContext({}, None, live, may_add=True)
    here.context["pool"] = added = Pool()
    here.changes(RunContextWrapper[Any](context=here.context))
    assert live == {("pool",): added}
    elsewhere = BorrowedContext({}, None)
    elsewhere.context["pool"] = added
    with pytest.raises(UserError, match=r"context's pool, a Pool that a callable has added"):
        elsewhere.changes(RunContextWrapper[Any](context=elsewhere.context))


def test_the_programs_own_object_gets_the_data_and_keeps_its_live_values() -> None:
    pool = Pool()
    desk, notes = Desk("Ann", date(2026, 1, 2), pool), {"pool": pool, "n": 1}
    lent, kept = ProgramContext(desk), ProgramContext(notes)
    value: Any = write_context(desk)
    lent.update({**value, "name": "Ben"})
    kept.update({"pool": {"$live": "Pool"}, "n": 2})
    assert (desk.name, desk.pool) == ("Ben", pool)
    assert notes == {"pool": pool, "n": 2}


# --- Factories ----------------------------------------------------------------------------------------


async def test_a_context_is_made_of_the_data_once_for_each_run_and_closed() -> None:
    happened: list[str] = []

    async def make(data: Any) -> AsyncGenerator[Desk]:
        happened.append(f"open {data['name']}")
        yield Desk(data["name"], date(2026, 1, 1), Pool())
        happened.append(f"close {data['name']}")

    made = as_factories(make)
    assert made is not None
    first = await made.values("r1", {"name": "Ann"})
    assert await made.values("r1", {"name": "Ann"}) is first
    assert await made.values("r2", {"name": "Ben"}) is not first
    assert list(first) == [("pool",)]
    await made.aclose()
    assert sorted(happened) == ["close Ann", "close Ben", "open Ann", "open Ben"]


async def test_a_field_is_made_once_for_the_worker() -> None:
    calls: list[str] = []

    def pool() -> Iterator[Pool]:
        calls.append("open")
        yield Pool()
        calls.append("close")

    made = as_factories({"pool": pool, "inner.lock": threading.Lock})
    assert made is not None
    values = await made.values("r1", {})
    assert await made.values("r2", {}) == values
    assert list(values) == [("pool",), ("inner", "lock")]
    await made.aclose()
    assert calls == ["open", "close"]


async def test_the_oldest_run_is_closed_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(factories, "KEPT_RUNS", 1)
    closed: list[str] = []

    def make(data: str) -> Iterator[dict[str, Any]]:
        yield {"pool": Pool()}
        closed.append(data)

    made = as_factories(make)
    assert made is not None
    await made.values("r1", "one")
    await made.values("r2", "two")
    assert closed == ["one"]


async def test_a_factory_that_fails_or_hangs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail() -> Pool:
        raise ConnectionError("no database")

    async def hang(_data: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(factories, "PATIENCE_SECONDS", 0.01)
    failing, hanging = as_factories({"pool": fail}), as_factories(hang)
    assert failing is not None
    assert hanging is not None
    with pytest.raises(UserError, match=r"context=\{'pool': ...\}\) raised ConnectionError: no da"):
        await failing.values("r", {})
    with pytest.raises(UserError, match=r"context=...\) did not return within 0.01 seconds"):
        await hanging.values("r", {})


async def test_a_factory_that_fails_to_close_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def make(_data: Any) -> Iterator[dict[str, Any]]:
        yield {"pool": Pool()}
        raise OSError("gone")

    made = as_factories(make)
    assert made is not None
    await made.values("r", {})
    await made.aclose()
    assert "failed while it was closed" in caplog.text


@pytest.mark.parametrize("given", [5, "make", {"pool": 5}, lambda: None])
def test_what_is_no_factory_is_refused(given: Any) -> None:
    with pytest.raises(UserError, match=r"AgentWorker\(context="):
        as_factories(given)


def local_class(value: int) -> Any:
    """Return an object of a class that this call makes."""

    @dataclasses.dataclass
    class Note:
        number: int

    return Note(value)


def test_a_class_made_in_a_function_is_found_by_the_run_that_has_it_alone():
    mine, others = local_class(1), local_class(1)
    written, live = encode({"note": mine, "all": [mine]})
    _, others_live = encode({"note": others})
    read = decode(written, None, live)
    assert type(read["note"]) is type(mine)
    assert type(read["all"][0]) is type(mine)
    for lacking in ({}, others_live):
        with pytest.raises(
            UserError, match=r"The context's note is of the class .*Note#.* has made"
        ):
            decode(written, None, lacking)


def test_a_callable_on_another_worker_may_not_add_an_object_of_a_class_made_in_a_function():
    borrowed = BorrowedContext({"note": None}, None)
    wrapper = RunContextWrapper[Any](borrowed.context)
    wrapper.context["note"] = local_class(1)
    with pytest.raises(UserError, match="a class made in a function"):
        borrowed.changes(wrapper)
    here = BorrowedContext({"note": None}, None, {}, may_add=True)
    wrapper = RunContextWrapper[Any](here.context)
    wrapper.context["note"] = local_class(1)
    assert here.changes(wrapper)
