"""One context object for the calls of a reply that run in one worker.

As in a program without an engine, `ctx.context.n += 1` in two tools adds two. Calls that run in
other workers have another object; the loop settles what both changed.
"""

import secrets
from collections import OrderedDict
from collections.abc import Hashable
from copy import copy
from typing import Any, Final, Self

from outlast.agents.context.codec import BorrowedContext
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.edges.newest import keep_newest
from outlast.loop.changes import Change, apply, same
from outlast.loop.values import Json

READS: Final = 20
"""How often an object is read that another thread changes at the same time."""

KEPT: Final = 200
"""How many objects are kept whose calls may be over; the oldest are dropped first."""


class _Share:
    """A context object and the calls that use it.

    Attributes:
        borrowed: the object; its `value` is what the calls have reported so far.
        first: the JSON of the object before its first call.
        orders: how many reports of changes there were for the reply.
        begun: the calls that have used the object.
        reports: what each call has reported, with the order of its last report.
    """

    def __init__(self, reply: Hashable, borrowed: BorrowedContext, orders: int = 0) -> None:
        self.reply = reply
        self.borrowed = borrowed
        self.first: Json = borrowed.value
        self.calls = 0
        self.orders = orders
        self.begun: set[Hashable] = set()
        self.reports: dict[Hashable, tuple[int, tuple[Change, ...]]] = {}

    def without(self, call: Hashable, own: BorrowedContext) -> "_Share":
        """Return a new object with what the other calls have reported."""
        share = _Share(self.reply, own, self.orders)
        share.reports = {one: report for one, report in self.reports.items() if one != call}
        share.begun = self.begun - {call}
        value = share.first
        for _, changes in sorted(share.reports.values()):
            value = apply(value, changes)
        own.restore(value)
        return share


class Borrower:
    """One call's use of a context object.

    Attributes:
        order: the place of the call's changes among those of the calls that share the object; 0 if
            the call has changed nothing.
    """

    def __init__(self, share: _Share, call: Hashable) -> None:
        self._share = share
        self._call = call
        self._taken: tuple[Change, ...] = ()
        self.order: int = 0

    @property
    def borrowed(self) -> BorrowedContext:
        """The object, with the JSON that is reported so far."""
        return self._share.borrowed

    def changes(self, wrapper: RunContextWrapper[Any]) -> tuple[Change, ...]:
        """Return this call's changes so far, and count them as reported.

        What another call has changed and not reported yet is among them: nobody can say which of
        two calls has changed an object.

        Raises:
            UserError: the changed context cannot be written as JSON.
        """
        if wrapper.context is not self.borrowed.context:
            self._replace(wrapper.context)
        share = self._share
        changes = _read(share.borrowed, wrapper)
        if changes:
            share.borrowed.value = apply(share.borrowed.value, changes)
            self._taken += changes
            share.orders += 1
            self.order = share.orders
            share.reports[self._call] = self.order, self._taken
        return self._taken

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._share.calls -= 1

    def _replace(self, context: Any) -> None:
        """Go on with an object that the call has set as its context; other calls keep theirs."""
        if self._share.calls > 1:
            self._share.calls -= 1
            self._share = _Share(self._share.reply, copy(self._share.borrowed), self._share.orders)
            self._share.calls = 1
        self._share.borrowed.context = context


class SharedContexts:
    """The context objects of a worker's calls, by run.

    Attributes:
        host: tells the changes of this worker's calls from those of others.
    """

    def __init__(self) -> None:
        self.host: str = secrets.token_hex(4)
        self._shares: OrderedDict[Hashable, _Share] = OrderedDict()

    def join(
        self, run: Hashable, reply: Hashable | None, own: BorrowedContext, *, call: Hashable
    ) -> Borrower:
        """Use the object of a reply's other calls for a `with` block, or the call's own.

        `run` identifies the run and the type of its context, and `call` the call, whichever of its
        attempts this is; without a `reply`, nothing is shared.
        """
        share = _Share(None, own) if reply is None else self._share_of(run, reply, own, call)
        share.calls += 1
        share.begun.add(call)
        return Borrower(share, call)

    def _share_of(
        self, run: Hashable, reply: Hashable, own: BorrowedContext, call: Hashable
    ) -> _Share:
        """Return the object for a call.

        Where no call runs, the object is made again of what was reported: a call that failed may
        have changed it. If the run has recorded changes since, the call starts from those.

        Another attempt of a call gets an object without the changes of the attempt before it: that
        one's result was lost, and changes that are there already would not be reported again.
        """
        share = self._shares.pop(run, None)
        if share is None or share.reply != reply:
            share = _Share(reply, own)
        elif call in share.begun and same(share.first, own.value):
            share = share.without(call, own)
        elif share.calls == 0:
            if same(share.first, own.value):
                own.restore(share.borrowed.value)
                share.borrowed = own
            else:
                share = _Share(reply, own, share.orders)
        keep_newest(self._shares, run, share, KEPT)
        return share


def _read(borrowed: BorrowedContext, wrapper: RunContextWrapper[Any]) -> tuple[Change, ...]:
    """Return the unreported changes of an object; a thread may change it while it is read."""
    for _ in range(READS - 1):
        try:
            return borrowed.changes(wrapper)
        except RuntimeError:  # a dict or set changed its size during iteration
            continue
    return borrowed.changes(wrapper)
