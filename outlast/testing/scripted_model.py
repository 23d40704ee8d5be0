"""A model that replies from a script, and functions that write the replies."""

import asyncio
import inspect
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeAlias, cast

from outlast.agents.usage import AnyUsage, plain_usage
from outlast.contract.streams.reply_events import reply_events, response_object
from outlast.loop.values import JsonObject, Usage
from outlast.ports.model import Model, ModelError, ModelRequest, ModelResponse
from outlast.ports.model_arguments import answers_both_forms, streams_both_forms

Reply: TypeAlias = Sequence[JsonObject]
"""The output items of one reply."""

PlainStep: TypeAlias = (
    str
    | Reply
    | Exception
    | Callable[[ModelRequest], "str | Reply | Awaitable[str] | Awaitable[Reply]"]
)
"""A text answer, the items of a reply, an error to raise, or a function of the request.

The function returns a text answer or the items of a reply; it may be async.
"""

TOKENS = Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15)
"""The default usage of a model call."""

_WORD = re.compile(r"\S+\s*|\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectedStep:
    """A step with timing, failure or usage, from `after`, `wait_for`, `paced` and the like."""

    step: PlainStep
    delay: timedelta = timedelta()
    gate: asyncio.Event | None = None
    every: timedelta = timedelta()
    failure: Exception | None = None
    fails_after: int = 0
    usage: Usage = TOKENS


Step: TypeAlias = PlainStep | DirectedStep
"""The script of one model call."""


def after(delay: timedelta | float, step: Step) -> DirectedStep:
    """Delay a step by this number of seconds or duration."""
    return replace(_directed(step), delay=_duration(delay))


def wait_for(event: asyncio.Event, step: Step) -> DirectedStep:
    """Delay a step until a test sets an event."""
    return replace(_directed(step), gate=event)


def paced(every: timedelta | float, step: Step) -> DirectedStep:
    """Stream a reply slowly, with a pause before each event, about a word; a number counts seconds."""
    return replace(_directed(step), every=_duration(every))


def fail_after(events: int, error: Exception, step: Step) -> DirectedStep:
    """Make a stream fail after this number of events, with `response.created`.

    A reply that is not streamed fails as a whole.
    """
    return replace(_directed(step), fails_after=events, failure=error)


def costing(usage: AnyUsage, step: Step) -> DirectedStep:
    """Set the usage of a step; the default is `TOKENS`."""
    return replace(_directed(step), usage=plain_usage(usage))


def say(text: str) -> list[JsonObject]:
    """Return a reply with an answer."""
    content: list[JsonObject] = [{"type": "output_text", "text": text, "annotations": []}]
    return [{"type": "message", "role": "assistant", "status": "completed", "content": content}]


def refuse(text: str) -> list[JsonObject]:
    """Return a reply in which the model refuses."""
    content = [{"type": "refusal", "refusal": text}]
    return [{"type": "message", "role": "assistant", "content": content}]


def call(name: str, call_id: str, /, **arguments: Any) -> JsonObject:
    """Return one call of a tool or handoff, as an item of a reply.

    The arguments may have any name, including `name`.
    """
    return raw_call(name, call_id, json.dumps(arguments))


def raw_call(name: str, call_id: str, arguments: str) -> JsonObject:
    """Return one call with any text as arguments, even invalid JSON."""
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

    A call that fails and is retried takes two steps. The model is its own provider, so both
    `AgentWorker(model_provider=...)` and `run_in_memory(model=...)` accept it.

    Attributes:
        requests: the requests, oldest first.
        names: the requested model names.
        closed: how often the model was closed.
    """

    def __init__(self, *steps: Step, always: Step | None = None, repeat: bool = False) -> None:
        """Set the script.

        Args:
            steps: one step for each model call, in order.
            always: the step for every further call; None makes further calls fail.
            repeat: start again with the first step after the last one; `always` is then ignored.
        """
        self._steps = list(steps)
        self._always = always
        self._repeat = repeat
        self.requests: list[ModelRequest] = []
        self.names: list[str | None] = []
        self.closed: int = 0

    def then(self, *steps: Step) -> None:
        """Add steps to the script."""
        self._steps.extend(steps)

    @property
    def calls(self) -> int:
        """The number of model calls."""
        return len(self.requests)

    async def check_access(self) -> str:
        """Return that the model needs no key."""
        return "a script, offline"

    def get_model(self, name: str | None) -> Model:
        """Return this model for any name."""
        self.names.append(name)
        return self

    async def aclose(self) -> None:
        """Count the call."""
        self.closed += 1

    @answers_both_forms
    async def get_response(self, request: ModelRequest) -> ModelResponse:
        """Take the next step."""
        number, step, reply = await self._play(request)
        if step.failure is not None:
            raise step.failure
        return ModelResponse(output=reply, usage=step.usage, response_id=f"resp_{number}")

    @streams_both_forms
    async def stream_response(self, request: ModelRequest) -> AsyncGenerator[JsonObject]:
        """Take the next step, and stream it as a provider does, about a word at a time.

        The reply at the end is the one that `get_response` would have returned.
        """
        number, step, reply = await self._play(request)
        response = response_object(
            reply, step.usage, response_id=f"resp_{number}", model="scripted"
        )
        events = list(reply_events(response, _WORD.findall))
        if step.failure is not None and step.fails_after > len(events):
            message = f"fail_after({step.fails_after}): the reply has only {len(events)} events"
            raise ValueError(message)
        for position, event in enumerate(events):
            if step.failure is not None and position == step.fails_after:
                raise step.failure
            await asyncio.sleep(step.every.total_seconds())
            yield {**event, "sequence_number": position}
        if step.failure is not None:
            raise step.failure

    async def _play(self, request: ModelRequest) -> tuple[int, DirectedStep, Reply]:
        self.requests.append(request)
        number = self.calls  # others may be called before this one is answered
        step = self._next_step()
        if step is None:
            message = f"The script has no step for model call {number}."
            raise ModelError(message, code="invalid_request", retryable=False)
        directed = _directed(step)
        if directed.gate is not None:
            await directed.gate.wait()
        await asyncio.sleep(directed.delay.total_seconds())
        if isinstance(directed.step, Exception):
            raise directed.step
        return number, directed, await _reply_of(directed.step, request)

    def _next_step(self) -> Step | None:
        if not self._steps:
            return self._always
        step = self._steps.pop(0)
        if self._repeat:
            self._steps.append(step)
        return step


def _directed(step: Step) -> DirectedStep:
    return step if isinstance(step, DirectedStep) else DirectedStep(step=step)


def _duration(value: timedelta | float) -> timedelta:
    return value if isinstance(value, timedelta) else timedelta(seconds=value)


async def _reply_of(step: Any, request: ModelRequest) -> Reply:
    reply: Any = step(request) if callable(step) else step
    if inspect.isawaitable(reply):
        reply = await reply
    return say(reply) if isinstance(reply, str) else cast("Reply", reply)
