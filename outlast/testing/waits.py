"""What tests deliver to tools that wait for something outside of their runs."""

from typing import Any, Final

from outlast.agents.context.waits import WaitBegins, checked_name
from outlast.agents.context.wrapper import ToolContext, waits_of
from outlast.agents.errors import UserError
from outlast.loop.calls import Arrival
from outlast.loop.values import Json

__all__ = ["NOTHING_COMES", "NothingComes", "WaitBegins", "as_json", "delivered"]


class NothingComes:
    """The class of `NOTHING_COMES`."""

    def __repr__(self) -> str:
        return "NOTHING_COMES"


NOTHING_COMES: Final = NothingComes()
"""As a value of a delivery: nothing is delivered, and the time passes."""


def delivered(context: ToolContext[Any], value: Any, *, name: str = "result") -> None:
    """Let a wait of a hand-made `ToolContext` return a value, for a unit test of one tool.

        context = ToolContext(None, tool_name="book", tool_call_id="c1", tool_arguments="{}")
        delivered(context, Pickup("p1"), name="courier")
        assert await book.on_invoke_tool(context, "{}") == "p1"

    Without it, a tool that awaits the wait ends with `WaitBegins`.

    Args:
        context: the context that the tool gets.
        value: a JSON value, or an object of the type that the tool waits for; `NOTHING_COMES` lets
            the wait end with `WaitTimeout`.
        name: the wait.

    Raises:
        UserError: the value is no JSON.
    """
    nothing = isinstance(value, NothingComes)
    arrival = Arrival(
        name=checked_name(name),
        at_ms=0,
        value=None if nothing else as_json(value, "delivered"),
        delivery_id="" if nothing else "test",
        source="" if nothing else "test",
        timed_out=nothing,
    )
    waits = waits_of(context)
    others = tuple(one for one in waits.arrivals if one.name != name)
    waits.arrivals = (*others, arrival)


def as_json(value: Any, what: str) -> Json:
    """Return a value or an object as the JSON of it.

    Raises:
        UserError: it has no JSON.
    """
    from pydantic_core import PydanticSerializationError, to_jsonable_python  # slow to import

    try:
        return to_jsonable_python(value)
    except PydanticSerializationError as error:
        raise UserError(f"{what}: the value must be JSON, not {value!r:.80}: {error}") from error
