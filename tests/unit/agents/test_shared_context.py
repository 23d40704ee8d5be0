"""A context object for the calls of a reply: who gets it, and what each of them reports."""

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from outlast.agents.context import shared
from outlast.agents.context.codec import BorrowedContext
from outlast.agents.context.shared import Borrower, SharedContexts
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.loop.changes import Change, apply
from outlast.loop.values import Json


@dataclass
class Desk:
    n: int = 0
    log: list[str] = field(default_factory=list[str])


EMPTY: Json = {"n": 0, "log": []}


def lent(value: Json = EMPTY) -> BorrowedContext:
    return BorrowedContext(value, Desk, is_own=True)


class Calls:
    """Calls that begin and end as a test says."""

    def __init__(self) -> None:
        self.shares = SharedContexts()
        self._open: dict[str, ExitStack] = {}
        self._borrowers: dict[str, Borrower] = {}
        self.contexts: dict[str, RunContextWrapper[Any]] = {}

    def begin(
        self,
        name: str,
        value: Json = EMPTY,
        *,
        run: str = "r",
        reply: int | None = 1,
        attempt_of: str = "",
    ) -> Desk:
        stack = ExitStack()
        share = self.shares.join(run, reply, lent(value), call=attempt_of or name)
        borrower = stack.enter_context(share)
        self._open[name], self._borrowers[name] = stack, borrower
        self.contexts[name] = RunContextWrapper(borrower.borrowed.context)
        desk: Desk = borrower.borrowed.context
        return desk

    def report(self, name: str) -> tuple[int, tuple[Change, ...]]:
        borrower = self._borrowers[name]
        return borrower.order, borrower.changes(self.contexts[name])

    def end(self, name: str) -> tuple[Change, ...]:
        changes = self._borrowers[name].changes(self.contexts[name])
        self._open.pop(name).close()
        return changes


def test_calls_beside_each_other_get_one_object_and_report_each_change_once() -> None:
    calls = Calls()
    one, other = calls.begin("one"), calls.begin("other")
    assert one is other
    one.n += 1
    other.n += 1
    one.log.append("x")
    first = calls.end("one")
    other.n += 1
    second = calls.end("other")
    assert apply(apply(EMPTY, first), second) == {"n": 3, "log": ["x"]}
    assert second == (Change("set", ("n",), 3, 2),)


def test_a_call_that_begins_when_the_other_has_ended_goes_on_from_there() -> None:
    calls = Calls()
    calls.begin("one").n += 1
    first = calls.end("one")
    assert calls.begin("other").n == 1
    calls.contexts["other"].context.n += 1
    assert apply(apply(EMPTY, first), calls.end("other")) == {"n": 2, "log": []}


def test_what_a_call_did_that_failed_is_not_seen_by_later_ones() -> None:
    calls = Calls()
    calls.begin("one").n = 99
    calls._open.pop("one").close()
    assert calls.begin("other").n == 0


def test_another_attempt_reports_what_the_one_before_did_whose_result_was_lost() -> None:
    calls = Calls()
    calls.begin("beside").log.append("x")
    beside = calls.end("beside")
    calls.begin("lost").n += 1
    lost = calls.end("lost")
    again = calls.begin("again", attempt_of="lost")
    assert again == Desk(0, ["x"])
    again.n += 1
    assert calls.end("again") == lost
    assert calls._borrowers["again"].order == 3
    assert apply(apply(EMPTY, beside), lost) == {"n": 1, "log": ["x"]}
    assert calls.begin("later") == Desk(1, ["x"])


def test_another_attempt_beside_one_that_nobody_waits_for_any_more_has_its_own() -> None:
    calls = Calls()
    slow = calls.begin("slow")
    slow.n += 1
    again = calls.begin("again", attempt_of="slow")
    assert again.n == 0
    again.n += 1
    slow.n += 1
    calls.end("slow")
    assert calls.end("again") == (Change("set", ("n",), 1, 0),)


def test_a_call_that_starts_from_newer_data_of_the_run_gets_those() -> None:
    calls = Calls()
    calls.begin("one").n += 1
    calls.end("one")
    newer = {"n": 1, "log": ["from elsewhere"]}
    assert calls.begin("other", newer) == Desk(1, ["from elsewhere"])
    calls.contexts["other"].context.n += 1
    calls.end("other")
    assert calls._borrowers["other"].order == 2, "the order goes on"


@pytest.mark.parametrize(
    "other",
    [{"run": "another"}, {"reply": 2}, {"reply": None}],
    ids=["of another run", "of another reply", "that shares nothing"],
)
def test_a_call_of_something_else_has_its_own(other: dict[str, Any]) -> None:
    calls = Calls()
    one = calls.begin("one")
    assert calls.begin("other", **other) is not one


def test_a_call_that_sets_a_context_of_its_own_leaves_the_others_theirs() -> None:
    calls = Calls()
    one, other = calls.begin("one"), calls.begin("other")
    assert one is other
    calls.contexts["one"].context = Desk(n=10)
    other.n += 1
    assert calls.end("one") == (Change("set", ("n",), 10, 0),)
    assert calls.end("other") == (Change("set", ("n",), 1, 0),)
    calls.begin("alone", reply=2)
    calls.contexts["alone"].context = Desk(n=5)
    assert calls.end("alone") == (Change("set", ("n",), 5, 0),)
    assert calls.begin("next", reply=2).n == 5


def test_reports_have_an_order_and_a_call_without_changes_has_none() -> None:
    calls = Calls()
    calls.begin("idle")
    calls.begin("one").n += 1
    assert calls.report("one") == (0, (Change("set", ("n",), 1, 0),))
    assert calls.report("one") == (1, (Change("set", ("n",), 1, 0),))
    assert calls.report("idle") == (0, ())
    assert calls.report("idle") == (0, ())


def test_only_so_many_objects_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "KEPT", 2)
    calls = Calls()
    for run in ("a", "b", "c"):
        calls.begin(run, run=run).n += 1
        calls.end(run)
    assert calls.begin("again", run="a").n == 0
    assert calls.begin("kept", run="c").n == 1


def test_an_object_that_a_thread_changes_meanwhile_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = Calls()
    calls.begin("one").n += 1
    tries: list[int] = []
    read = BorrowedContext.changes

    def late(self: BorrowedContext, wrapper: RunContextWrapper[Any]) -> tuple[Change, ...]:
        tries.append(1)
        if len(tries) < 3:
            raise RuntimeError("dictionary changed size during iteration")
        return read(self, wrapper)

    monkeypatch.setattr(BorrowedContext, "changes", late)
    assert calls.end("one") == (Change("set", ("n",), 1, 0),)
    monkeypatch.setattr(shared, "READS", 1)
    tries.clear()
    calls.begin("two").n += 1
    with pytest.raises(RuntimeError):
        calls.end("two")
