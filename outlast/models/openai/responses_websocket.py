"""The SDK's names for the Responses API over WebSocket: a model, and the options of its sockets."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypedDict, cast

from outlast.agents.checks import check_options
from outlast.agents.errors import UserError
from outlast.models.openai.connection import OpenAIConnection
from outlast.models.openai.responses import OpenAIResponsesModel, ResponsesModel
from outlast.models.openai.socket_connection import SocketConnection

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class OpenAIResponsesWebSocketOptions(TypedDict, total=False):
    """Options of each WebSocket.

    Attributes:
        ping_interval: the seconds between two pings; None sends none. The default is 20.
        ping_timeout: the seconds to wait for the answer to a ping before the connection counts as
            lost; None waits for ever. The default is 20.
        max_size: the largest event to accept, in bytes; default 30 MB; None sets no limit.
    """

    ping_interval: float | None
    ping_timeout: float | None
    max_size: int | None


class OpenAIResponsesWSModel(OpenAIResponsesModel):
    """A model behind the Responses API over WebSocket, with its own sockets.

    Models of `OpenAIProvider(transport="websocket")` share their sockets instead.
    """

    def __init__(
        self,
        model: str,
        openai_client: "AsyncOpenAI",
        *,
        model_is_explicit: bool = True,
        websocket_options: OpenAIResponsesWebSocketOptions | None = None,
    ) -> None:
        """Create the model with a client, which the caller closes.

        The URL is the client's `websocket_base_url`, if set. Without `model_is_explicit`, a stored
        prompt may choose its own model.
        """
        check_websockets(f"OpenAIResponsesWSModel({model!r})")
        sockets = SocketConnection(
            http=OpenAIConnection(client=openai_client), options=checked_options(websocket_options)
        )
        super().__init__(model, openai_client)
        ResponsesModel.__init__(self, model, sockets, is_default=not model_is_explicit)

    async def close(self) -> None:
        """Close the sockets. A later call opens new ones."""
        await cast("SocketConnection", self._connection).aclose()


def check_websockets(what: str) -> None:
    """Check that the package for WebSockets is installed, without importing it."""
    if find_spec("websockets") is None:
        raise UserError(
            f"{what} needs the package websockets, which is not installed here:"
            ' pip install "outlast[realtime]". Install it where the worker runs.'
        )


def checked_options(options: OpenAIResponsesWebSocketOptions | None) -> dict[str, Any]:
    """Return the options as a dict."""
    name = "OpenAIResponsesWebSocketOptions"
    passed: object = options
    if options is not None and not isinstance(passed, dict):
        raise UserError(f"{name} is a dict, not {passed!r}.")
    values = cast("dict[str, object]", options or {})
    check_options(name, values, OpenAIResponsesWebSocketOptions)
    for option, value in values.items():
        kinds = int if option == "max_size" else (int, float)
        is_number = isinstance(value, kinds) and not isinstance(value, bool)
        if value is not None and not (is_number and cast("float", value) > 0):
            raise UserError(f"{name}({option}=...) must be a positive number, or None: {value!r}.")
    return dict(values)
