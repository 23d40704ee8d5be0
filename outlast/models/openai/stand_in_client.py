"""Clients that have only the typed methods, such as the stand-ins of programs' tests."""

from collections.abc import AsyncIterator
from typing import Any

from outlast.agents.items.raw_items import as_json
from outlast.loop.values import JsonObject

_METHODS = {"/responses": ("responses",), "/chat/completions": ("chat", "completions")}

_EXTRA = ("extra_body", "extra_headers", "extra_query")
_BOTH = (
    "metadata", "model", "parallel_tool_calls",
    "prompt_cache_options", "prompt_cache_retention", "store", "stream",
    "temperature", "tool_choice", "tools", "top_logprobs", "top_p",
)  # fmt: skip
_ARGUMENTS = {
    "/responses": (
        *_BOTH, "context_management", "conversation", "include", "input", "instructions",
        "max_output_tokens", "previous_response_id", "prompt", "reasoning", "text", "truncation",
    ),
    "/chat/completions": (
        *_BOTH, "frequency_penalty", "max_tokens", "messages", "presence_penalty",
        "reasoning_effort", "response_format", "stream_options", "verbosity",
    ),
}  # fmt: skip
"""The arguments that the SDK's models always pass: a stand-in may read each of them."""


class StandInClient:
    """Sends the calls of `client.post` to the `create` methods of a client without `post`."""

    def __init__(self, client: Any) -> None:
        self._stand_in = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stand_in, name)

    async def post(
        self, path: str, *, body: JsonObject, options: JsonObject, **how: Any
    ) -> "StandInReply":
        """Call the method for the path; `how` says how the `openai` client reads the answer."""
        from openai import omit

        unset = dict.fromkeys(_ARGUMENTS[path], omit) | dict.fromkeys(_EXTRA)
        methods = self._stand_in
        for name in _METHODS[path]:
            methods = getattr(methods, name)
        extra = {
            name: options[given]
            for name, given in (("extra_headers", "headers"), ("extra_query", "params"))
            if given in options
        }
        timeout = {"timeout": options["timeout"]} if "timeout" in options else {}
        return StandInReply(await methods.create(**{**unset, **body, **extra, **timeout}))


class StandInReply:
    """The answer of a stand-in: a response, or a stream of events."""

    status_code = 200
    headers: dict[str, str] = {}  # noqa: RUF012  nothing writes it

    def __init__(self, answer: Any) -> None:
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
        return self

    async def __anext__(self) -> Any:
        if self._events is None:
            self._events = aiter(self._answer)
        return as_json(await anext(self._events))

    async def close(self) -> None:
        """Close the stream, if it can be closed."""
        close = getattr(self._answer, "close", None) or getattr(self._answer, "aclose", None)
        if close is not None:
            await close()


def _fields(answer: object) -> dict[str, object]:
    return {name: getattr(answer, name) for name in dir(answer) if not name.startswith("_")}
