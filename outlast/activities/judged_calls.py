"""The calls that this process has judged, so that it need not call users' predicates again.

A call is judged where the model's reply is planned, and again where it takes effect. A process
believes what it has found out itself, and nothing that a run says.
"""

from collections import OrderedDict
from typing import Final, TypeAlias

MOST_KEPT: Final = 10_000
"""How many calls a process remembers; others are judged again."""

JudgedCall: TypeAlias = tuple[str, str, str, str, str]
"""An execution in the server's words, the agent, the tool, the call's id and its arguments."""


class JudgedCalls:
    """The calls for which nobody needs to be asked."""

    def __init__(self) -> None:
        self._free: OrderedDict[JudgedCall, None] = OrderedDict()

    def keep(self, call: JudgedCall) -> None:
        """Remember that nobody needs to be asked about a call."""
        self._free[call] = None
        if len(self._free) > MOST_KEPT:
            self._free.popitem(last=False)

    def is_free(self, call: JudgedCall) -> bool:
        """Whether this process has found that nobody needs to be asked about a call."""
        return call in self._free
