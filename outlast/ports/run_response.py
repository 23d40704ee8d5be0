"""A model response with typed objects of the provider as output items."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, cast

from outlast.agents.items.raw_items import HeldRaw, as_input
from outlast.agents.usage import AnyUsage, Usage
from outlast.loop.values import JsonObject
from outlast.ports.model import ModelResponse


class RunResponse(ModelResponse):  # noqa: PLW1641  unhashable: it holds lists
    """One model response, as `result.raw_responses` and hooks show it.

    Attributes:
        usage: the tokens that the call used.
        response_id: the provider's id of the response.
        request_id: the provider's id of the request.
        raw_usage: the usage in the provider's own format, if available.
        model: the model that answered, as the provider names it; only while the model is called.
    """

    __slots__ = ("_held",)
    _held: list[HeldRaw]

    def __init__(
        self,
        output: Sequence[JsonObject],
        usage: AnyUsage,
        response_id: str | None = None,
        request_id: str | None = None,
        raw_usage: JsonObject | None = None,
        model: str | None = None,
    ) -> None:
        fields = {
            "_held": [HeldRaw(raw) for raw in output],
            "usage": Usage.of(usage),
            "response_id": response_id,
            "request_id": request_id,
            "raw_usage": raw_usage,
            "model": model,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)  # the class is frozen

    @classmethod
    def of(cls, response: ModelResponse) -> ModelResponse:
        """Convert a response; return it unchanged if its output is not a list of items."""
        written: object = response.output
        entries = cast("list[object]", written) if isinstance(written, list | tuple) else [None]
        if not all(isinstance(entry, dict) for entry in entries):
            return response
        return cls(
            response.output,
            response.usage,
            response.response_id,
            response.request_id,
            response.raw_usage,
            response.model,
        )

    @property
    def output(self) -> list[Any]:  # pyright: ignore[reportIncompatibleVariableOverride]  made when looked at: typing costs an import
        """The model's output items: typed objects, or dicts for unknown types."""
        return [held.shown() for held in self._held]

    @property
    def raw_response(self) -> JsonObject:
        """See `ModelResponse`; the items are as the provider wrote them."""
        written = deepcopy([held.value() for held in self._held])
        return {"id": self.response_id, "output": written, "usage": deepcopy(self.raw_usage)}

    def to_input_items(self) -> list[JsonObject]:
        """Return the items as input for a model, as new dicts."""
        return [deepcopy(as_input(held.value())) for held in self._held]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RunResponse):
            return NotImplemented
        return self._content() == other._content()

    def _content(self) -> tuple[object, ...]:
        written = [held.value() for held in self._held]
        return self.response_id, self.request_id, self.usage, written

    def __repr__(self) -> str:
        names = ("output", "usage", "response_id", "request_id", "raw_usage")
        shown = (f"{name}={getattr(self, name)!r}" for name in names)
        return f"ModelResponse({', '.join(shown)})"
