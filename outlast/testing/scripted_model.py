"""A model that says what a test wrote down, behind the port that real providers implement.

Owns: `ScriptedModel`, and short ways to write replies down. Must not know: runs, Temporal.
"""

import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeAlias, cast

from outlast.loop.values import JsonObject, Usage
from outlast.ports.model import Model, ModelError, ModelRequest, ModelResponse

Reply: TypeAlias = Sequence[JsonObject]
"""The output items of one reply."""

Step: TypeAlias = str | Reply | Exception | Callable[[ModelRequest], "Reply | Awaitable[Reply]"]
"""What one model call does: answer with a text, reply with items, fail, or do whatever a function
of the request does, which may also wait."""

TOKENS = Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15)
"""What every call costs."""


def say(text: str) -> list[JsonObject]:
    """Return a reply that is an answer."""
    content: list[JsonObject] = [{"type": "output_text", "text": text, "annotations": []}]
    return [{"type": "message", "role": "assistant", "status": "completed", "content": content}]


def refuse(text: str) -> list[JsonObject]:
    """Return a reply in which the model refuses."""
    content = [{"type": "refusal", "refusal": text}]
    return [{"type": "message", "role": "assistant", "content": content}]


def call(name: str, call_id: str, **arguments: Any) -> JsonObject:
    """Return one call of a tool or handoff, as an item of a reply."""
    return raw_call(name, call_id, json.dumps(arguments))


def raw_call(name: str, call_id: str, arguments: str) -> JsonObject:
    """Return one call with arguments that may be anything, also not JSON."""
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
    }


class ScriptedModel:
    """A model with a script: each model call takes the next step.

        ScriptedModel([call("look_up_order", "c1", order_id="A-17")], "It is on its way.")

    A call that fails and is tried again takes two steps. The model is its own provider, so it can
    be given to `AgentWorker(model_provider=...)` as well as to `run_in_memory(model=...)`.

    Attributes:
        requests: what the model was asked, oldest first.
        names: the model names that were asked for.
        closed: how often it was closed.
    """

    def __init__(self, *steps: Step, always: Step | None = None) -> None:
        """Write the script.

        Args:
            steps: one for each model call, in order.
            always: what every call after them does; None makes them fail.
        """
        self._steps = list(steps)
        self._always = always
        self.requests: list[ModelRequest] = []
        self.names: list[str | None] = []
        self.closed = 0

    def then(self, *steps: Step) -> None:
        """Add to the script."""
        self._steps.extend(steps)

    @property
    def calls(self) -> int:
        """How often the model was asked."""
        return len(self.requests)

    def get_model(self, name: str | None) -> Model:
        """Return this model, whatever its name."""
        self.names.append(name)
        return self

    async def aclose(self) -> None:
        """Note that somebody closed it."""
        self.closed += 1

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        """Take the next step.

        Raises:
            Exception: the step is a failure.
            ModelError: the script is at its end.
        """
        self.requests.append(request)
        step = self._steps.pop(0) if self._steps else self._always
        if step is None:
            message = f"The script has no step for model call {self.calls}."
            raise ModelError(message, code="invalid_request", retryable=False)
        if isinstance(step, Exception):
            raise step
        reply = await _reply_of(step, request)
        return ModelResponse(output=reply, usage=TOKENS, response_id=f"resp_{self.calls}")

    def stream_response(self, request: ModelRequest) -> AsyncIterator[JsonObject]:
        """Not scripted yet: runs do not stream from models.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError


async def _reply_of(step: Any, request: ModelRequest) -> Reply:
    if isinstance(step, str):
        return say(step)
    if not callable(step):
        return cast("Reply", step)
    reply: Any = step(request)
    return cast("Reply", await reply if inspect.isawaitable(reply) else reply)
