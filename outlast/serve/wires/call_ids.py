"""Ids of calls for the clients of wires: another one for each call of a run.

Some models use the ids of their calls again, in a later reply or even in the same one. Clients find
the part of a call by its id, so the second call would overwrite the first, and a decision about one
would show at the other.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from outlast.views.records import ApprovalRequest

_OF_REQUESTS: Final = re.compile(r"(e\d+\.)*a\d+", re.ASCII)
"""Ids that requests have: a part that stands for a request has its id."""


@dataclass(slots=True)
class _Named:
    """A call, or a request whose call is not there yet.

    Attributes:
        own: its id for clients.
        name: the tool.
        turn: the turn of the call; None while only a request is there.
        requests: its requests, and whether each still waits.
        is_answered: whether its output is there.
    """

    own: str
    name: str
    turn: int | None = None
    requests: dict[str, bool] = field(default_factory=dict[str, bool])
    is_answered: bool = False

    @property
    def waits(self) -> bool:
        return any(self.requests.values())


class CallIds:
    """Gives each call of a run its id for clients, from its items and requests in their order."""

    def __init__(self) -> None:
        self._named: dict[str, list[_Named]] = {}
        self._taken: set[str] = set()

    def called(self, call_id: str, name: str, turn: int) -> str:
        """Return the id of a call that a reply has made."""
        early = (one for one in self._open(call_id) if one.turn is None and one.name == name)
        found = next(early, None) or self._new(call_id, name)
        found.turn = turn
        return found.own

    def answered(self, call_id: str) -> str:
        """Return the id of the call that an output is of; the model's own for an unknown one."""
        made = [one for one in self._open(call_id) if one.turn is not None]
        found = next((one for one in made if not one.waits), made[0] if made else None)
        if found is None:
            return call_id
        found.is_answered = True
        return found.own

    def asked(self, request: ApprovalRequest) -> str:
        """Return the id of the call that a request is about; empty where it asks for no approval."""
        if request.kind not in {"tool", "handoff"} or request.wait:
            return ""
        known = self._named.get(request.call_id, ())
        found = next((one for one in known if request.id in one.requests), None)
        if found is None:
            fits = [one for one in self._open(request.call_id) if one.name == request.name]
            free = (one for one in fits if not one.requests)
            settled = (one for one in fits if not one.waits)
            found = next(free, None) or next(settled, None)
        found = found or self._new(request.call_id, request.name)
        found.requests[request.id] = request.status == "pending"
        return found.own

    def _open(self, call_id: str) -> Iterator[_Named]:
        """Yield the calls of the newest turn that have no output, the first one first.

        A question that failed leaves calls behind that never get one.
        """
        found = [one for one in self._named.get(call_id, ()) if not one.is_answered]
        newest = max((one.turn for one in found if one.turn is not None), default=None)
        yield from (one for one in found if one.turn in {newest, None})

    def _new(self, call_id: str, name: str) -> _Named:
        own, count = call_id or "call", 1
        while own in self._taken or _OF_REQUESTS.fullmatch(own):
            count += 1
            own = f"{call_id or 'call'}.{count}"
        self._taken.add(own)
        made = _Named(own, name)
        self._named.setdefault(call_id, []).append(made)
        return made
