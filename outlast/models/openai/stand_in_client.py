"""Clients that have only the typed methods, such as the stand-ins of programs' tests."""

from collections.abc import AsyncIterator
from typing import Any

from outlast.agents.items.raw_items import as_json
from outlast.loop.values import JsonObject

_METHODS = {"/responses": ("responses",), "/chat/completions": ("chat", "completions")}


class StandInClient:
    """Sends the calls of `client.post` to the `create` methods of a client without `post`."""

    def __init__(self, client: Any) -> None:
        """Wrap the client, which the caller closes."""
        self._stand_in = client

    def __getattr__(self, name: str) -> Any:
        """Return the client's own attribute."""
        return getattr(self._stand_in, name)

    async def post(
        self, path: str, *, body: JsonObject, options: JsonObject, **how: Any
    ) -> "StandInReply":
        """Call the method for the path; `how` says how the `openai` client reads the answer."""
        del how
        methods = self._stand_in
        for name in _METHODS[path]:
            methods = getattr(methods, name)
        extra = {
            name: options[given]
            for name, given in (("extra_headers", "headers"), ("extra_query", "params"))
            if given in options
        }
        timeout = {"timeout": options["timeout"]} if "timeout" in options else {}
        return StandInReply(await methods.create(**body, **extra, **timeout))


class StandInReply:
    """The answer of a stand-in: a response, or a stream of events."""

    status_code = 200
    headers: dict[str, str] = {}  # noqa: RUF012  nothing writes it

    def __init__(self, answer: Any) -> None:
        """Wrap what the method returned."""
        self._answer = answer
        self._events: AsyncIterator[Any] | None = None

    @property
    def response(self) -> "StandInReply":
        """The response to which the stream belongs."""
        return self

    @property
    def content(self) -> bytes:
        """The JSON of the response."""
        from pydantic_core import to_json

        return to_json(self._answer, fallback=_fields)

    def __aiter__(self) -> "StandInReply":
        """Read the events."""
        return self

    async def __anext__(self) -> Any:
        """Return the next event as JSON."""
        if self._events is None:
            self._events = aiter(self._answer)
        return as_json(await anext(self._events))

    async def close(self) -> None:
        """Close the stream, if it can be closed."""
        close = getattr(self._answer, "close", None) or getattr(self._answer, "aclose", None)
        if close is not None:
            await close()


def _fields(answer: object) -> dict[str, object]:
    """Return the public attributes of a plain object."""
    return {name: getattr(answer, name) for name in dir(answer) if not name.startswith("_")}
