"""What the models answered in a run, response by response, read out of its transcript.

Owns: `RunResponse`, and which items of a transcript came in which response. Must not know: what
the answers led to.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from outlast.agents.raw_items import HeldRaw
from outlast.loop.items import Item
from outlast.loop.state import OUTPUT_KINDS, Response, RunState
from outlast.loop.values import JsonObject, Usage
from outlast.ports.model import ModelResponse


class RunResponse(ModelResponse):
    """One response of a model, as `result.raw_responses` has it.

    Attributes:
        usage: what it cost.
        response_id: the provider's id of the response.
        request_id: the provider's id of the request.
    """

    __slots__ = ("_held",)
    _held: list[HeldRaw]

    def __init__(
        self,
        output: Sequence[JsonObject],
        usage: Usage,
        response_id: str | None = None,
        request_id: str | None = None,
    ) -> None:
        given = {
            "_held": [HeldRaw(raw) for raw in output],
            "usage": usage,
            "response_id": response_id,
            "request_id": request_id,
            "raw_usage": None,
        }
        for name, value in given.items():
            object.__setattr__(self, name, value)  # it is frozen for everybody else

    @property
    def output(self) -> list[Any]:  # pyright: ignore[reportIncompatibleVariableOverride]  made when looked at: typing costs an import
        """The items that the model wrote: typed objects, or dicts where there is no type."""
        return [held.shown() for held in self._held]

    def to_input_items(self) -> list[JsonObject]:
        """Return the items as input for a model: dicts of their own."""
        return [deepcopy(held.value()) for held in self._held]

    def __eq__(self, other: object) -> bool:
        """Compare the content; the typed objects are not needed for it."""
        if not isinstance(other, RunResponse):
            return NotImplemented
        return self._content() == other._content()

    __hash__ = None  # pyright: ignore[reportAssignmentType]  it holds lists

    def _content(self) -> tuple[object, ...]:
        written = [held.value() for held in self._held]
        return self.response_id, self.request_id, self.usage, written

    def __repr__(self) -> str:
        return f"RunResponse(response_id={self.response_id!r}, output={self.to_input_items()!r})"


def run_responses(state: RunState, *, after: int, until: int | None = None) -> list[RunResponse]:
    """Return the responses of some turns of a run.

    Args:
        state: the run.
        after: the turn before the first one wanted.
        until: the last turn wanted; default the newest.
    """
    wanted = [
        one for one in state.responses if one.turn > after and (until is None or one.turn <= until)
    ]
    return [
        RunResponse(_written(state.items, one), one.usage, one.response_id, one.request_id)
        for one in wanted
    ]


def last_turn(items: Sequence[Item]) -> int:
    """Return the last turn that wrote one of the items; 0 where none did."""
    return max((item.turn for item in items), default=0)


def _written(items: Sequence[Item], response: Response) -> list[JsonObject]:
    """Return what the model wrote in a turn: all of it, up to the first output of a call."""
    written: list[JsonObject] = []
    for item in items:
        if item.turn == response.turn:
            if item.kind in OUTPUT_KINDS:
                break
            written.append(item.raw)
        elif written:
            break
    return written
