"""Decisions that clients send, and where the answer goes on after them."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal, TypeAlias

from outlast.client.people.actions import decision_of
from outlast.client.people.nested_requests import FoundRequest
from outlast.client.read.events import ApprovalStreamEvent, StatusStreamEvent
from outlast.serve.cursor import Cursor
from outlast.serve.feed import FeedEntry, FeedReader, Happened
from outlast.serve.routing import DeskRequest
from outlast.serve.wires.ids import RequestId
from outlast.serve.wires.steps import GoesOn
from outlast.views.records import ApprovalRequest, Json
from outlast.views.run import reported_requests

LAG: Final = timedelta(seconds=5)
"""How long a process may be behind another one that has taken a message or a decision."""


@dataclass(frozen=True, slots=True)
class SentDecision:
    """What a person has decided in a client.

    Attributes:
        id: the request.
        kind: the decision.
        reason: what the model reads of a rejection; what is no text is left out.
        response: the answer of a `respond`.
    """

    id: RequestId
    kind: Literal["approve", "reject", "respond"]
    reason: object = None
    response: Json = None


async def decide(
    asked: DeskRequest, found: FoundRequest, sent: SentDecision, *, channel: str
) -> None:
    """Send a decision of the person of the login to the run that made the request.

    Args:
        asked: the request over HTTP, at the run that the wire is about.
        found: the request to decide, of that run or of one nested in it.
        sent: the decision.
        channel: the name of the wire.

    Raises:
        Refused: the caller may not decide it.
        AgentsException: the run refuses it.
    """
    request, kind, reason = found.request, sent.kind, sent.reason
    if request.status == "pending":
        asked.check("decide", await asked.target(found.state, request))
    decision = decision_of(
        request,
        kind,
        by=asked.person,
        message=reason if isinstance(reason, str) and reason and kind == "reject" else None,
        channel=channel,
        response=sent.response,
    )
    await asked.handle.decide(decision, request=request)


# --- Where the answer goes on --------------------------------------------------------------------

RequestTest: TypeAlias = Callable[[ApprovalRequest], bool]


def voted_by(name: str) -> RequestTest:
    """Return a test whether a person has decided about a request."""
    return lambda request: any(vote.decision.by == name for vote in request.votes)


def is_settled(request: ApprovalRequest) -> bool:
    """Whether nobody can decide the request any more."""
    return request.status != "pending"


async def decided_at(
    asked: DeskRequest, wanted: Mapping[str, RequestTest], wait: timedelta = LAG
) -> GoesOn | None:
    """Return where an answer goes on after requests pass their tests for the first time.

    None if they do not within the time.
    """
    search = _DecisionSearch(wanted)
    async with asked.desk.feed.reader(asked.run_id, Cursor()) as reader:
        await reader.until_present()
        with suppress(TimeoutError):
            async with asyncio.timeout(wait.total_seconds() or None):
                while not search.is_over(reader):
                    if reader.has_more:
                        entry = await anext(reader, None)
                        if entry is None:
                            return None
                        search.take(entry, reader)
                    elif wait:
                        await reader.news()
                    else:
                        return None
    return search.found


class _DecisionSearch:
    """Looks for the events of decisions.

    The run has no events of nested runs' decisions. There, the answer goes on from where the run
    began to wait for them.
    """

    def __init__(self, wanted: Mapping[str, RequestTest]) -> None:
        self._wanted = wanted
        self._waits_from = 0
        self._waits = False
        self._found: dict[str, GoesOn] = {}

    def is_over(self, reader: FeedReader) -> bool:
        """Whether all are found, and what the run knows of nested runs shows the decisions."""
        if not reader.has_more:
            self._find_nested(reader, reader.recorded)
        if len(self._found) < len(self._wanted):
            return False
        reported = reported_requests(reader.state)
        return all(self._wanted[one.id](one) for one in reported if one.id in self._wanted)

    @property
    def found(self) -> GoesOn | None:
        """Where the answer goes on after all of them; None if one is missing."""
        places = self._found.values()
        if len(places) < len(self._wanted):
            return None
        return GoesOn(min(one.event for one in places), max(one.decided for one in places))

    def take(self, entry: FeedEntry, reader: FeedReader) -> None:
        """Look at an entry."""
        if not isinstance(entry, Happened):
            return
        event = entry.event
        self._find_nested(reader, event.id)
        if isinstance(event, StatusStreamEvent):
            self._waits = event.status == "waiting"
            self._waits_from = event.id + 1 if self._waits else self._waits_from
        if isinstance(event, ApprovalStreamEvent):
            passes = self._wanted.get(event.request.id)
            if passes is not None and passes(event.request):
                found = GoesOn(self._waits_from, event.id + 1)
                self._found.setdefault(event.request.id, found)

    def _find_nested(self, reader: FeedReader, event: int) -> None:
        """Find the requests of nested runs for which the run waits before an event."""
        for name in self._wanted.keys() & reader.reported_requests.keys():
            reported = reader.reported_requests[name]
            if self._waits and reported <= event:
                place = max(reported, self._waits_from)
                self._found.setdefault(name, GoesOn(place, place))
