"""The model responses of a run, rebuilt from its transcript."""

from collections.abc import Sequence

from outlast.loop.items import Item
from outlast.loop.state import OUTPUT_KINDS, LoopState, Response
from outlast.loop.values import JsonObject
from outlast.ports.model import ModelResponse
from outlast.ports.run_response import RunResponse


def run_responses(state: LoopState, *, after: int, until: int | None = None) -> list[ModelResponse]:
    """Return the responses of the turns after `after`, up to `until` or the newest."""
    chosen = [
        response
        for response in state.responses
        if response.turn > after and (until is None or response.turn <= until)
    ]
    return [
        RunResponse(
            _written(state.items, response),
            response.usage,
            response.response_id,
            response.request_id,
            response.raw_usage,
        )
        for response in chosen
    ]


def last_turn(items: Sequence[Item]) -> int:
    """Return the last turn that wrote one of the items; 0 if none did."""
    return max((item.turn for item in items), default=0)


def _written(items: Sequence[Item], response: Response) -> list[JsonObject]:
    """Return the model's items in a turn, which end before the first output."""
    written: list[JsonObject] = []
    for item in items:
        if item.turn == response.turn:
            if item.kind in OUTPUT_KINDS:
                break
            written.append(item.raw)
        elif written:
            break
    return written
