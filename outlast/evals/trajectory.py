"""The trajectory of a run: which tools ran, what people approved, and the answer."""

import json
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, PrivateAttr, SerializerFunctionWrapHandler
from pydantic import model_serializer as serializer

from outlast.client.recordings.recording import Entry, Recording
from outlast.contract.records import read
from outlast.loop.calls import ModelReply
from outlast.loop.checks import GuardrailRecord
from outlast.loop.values import NO_USAGE, Json, JsonObject
from outlast.pricing import Pricing


class Compact(BaseModel):
    """A model whose files leave out the fields that have their default."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    @serializer(mode="wrap")
    def _without_defaults(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = type(self).model_fields
        written = cast("dict[str, Any]", write(self))
        return {
            name: value
            for name, value in written.items()
            if fields[name].is_required() or getattr(self, name) != _default(fields[name])
        }


def _default(info: Any) -> Any:
    return info.get_default(call_default_factory=True)


class ToolCall(Compact):
    """A call of a tool that ran.

    Attributes:
        tool: the tool, or the name of the agent that is used as one.
        arguments: the arguments that it ran with; a text if they are no JSON.
        agent: the agent that made the call.
        approved: people approved the call before it ran.
        output: what the tool returned.
        failure: why the tool failed; empty if it did not.
    """

    tool: str
    arguments: Any = None
    agent: str = ""
    approved: bool = False
    output: Any = None
    failure: str = ""


class Approval(Compact):
    """A request for approval, and what people decided.

    Attributes:
        tool: the tool or handoff; `answer` for an answer.
        arguments: the arguments as people saw them.
        agent: the agent that made the call.
        approved: as many people approved as the request needs, and nobody rejected.
        by: who decided, in order.
    """

    tool: str
    arguments: Any = None
    agent: str = ""
    approved: bool = False
    by: tuple[str, ...] = ()


class Trajectory(Compact):
    """What a run did: the output of a case, and what a case expects.

    Attributes:
        agents: the agents that had the conversation, in order.
        tool_calls: the calls that ran, in order.
        approvals: the requests for approval, in order.
        answer: the last answer.
        failure: the code of the failure that the last question ended with; empty if it has an
            answer.
        unrecorded: the calls that the recording had no result for.
        model_calls: the number of model calls.
        input_tokens: the tokens that the models read.
        output_tokens: the tokens that the models wrote.
        cost_usd: the cost of the model calls; None if a model has no price.
    """

    agents: tuple[str, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    approvals: tuple[Approval, ...] = ()
    answer: Any = None
    failure: str = ""
    unrecorded: tuple[str, ...] = ()
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    _recording: Recording | None = PrivateAttr(default=None)

    @property
    def recording(self) -> Recording | None:
        """Everything that happened, with all items; None if this was read from a file."""
        return self._recording

    def bind(self, recording: Recording) -> None:
        """Set the recording, which no file of a trajectory has."""
        self._recording = recording

    def expectation(self) -> "Trajectory":
        """Return what another run should do, too: without outputs, tokens and cost."""
        calls = (one.model_copy(update={"output": None}) for one in self.tool_calls)
        return Trajectory(
            agents=self.agents,
            tool_calls=tuple(calls),
            approvals=self.approvals,
            answer=self.answer,
            failure=self.failure,
        )


def trajectory_of(
    recording: Recording,
    *,
    unrecorded: Iterable[str] = (),
    pricing: Pricing | None = None,
) -> Trajectory:
    """Return the trajectory of a recorded run.

    Args:
        recording: the run.
        unrecorded: the calls that a replay had no recorded result for.
        pricing: prices of models; without them, `cost_usd` is None.
    """
    last = next((one for one in reversed(recording.entries) if one.kind == "answer"), None)
    failure = last.failure if last is not None else None
    made = Trajectory(
        agents=_path(recording),
        tool_calls=tuple(_calls(recording)),
        approvals=tuple(_approvals(recording)),
        answer=None if last is None else last.value,
        failure="" if failure is None else failure.code,
        unrecorded=tuple(unrecorded),
        **_spent(recording, pricing),
    )
    made.bind(recording)
    return made


def _path(recording: Recording) -> tuple[str, ...]:
    path = [recording.start.agent]
    for entry in recording.entries:
        if entry.kind in {"model", "answer"} and entry.agent and entry.agent != path[-1]:
            path.append(entry.agent)
    return tuple(path)


def _spent(recording: Recording, pricing: Pricing | None) -> dict[str, Any]:
    usage, cost, number = NO_USAGE, Decimal(0), 0
    is_priced = pricing is not None
    for entry in recording.entries:
        if entry.kind != "model" or entry.result is None or entry.is_begun:
            continue
        reply = read(ModelReply, entry.result)
        number += 1
        usage = usage.plus(reply.usage)
        price = pricing.price(reply.model) if pricing is not None else None
        is_priced &= price is not None
        cost += price.cost(reply.usage) if price is not None else Decimal(0)
    return {
        "model_calls": number,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": float(cost) if is_priced else None,
    }


# --- Calls and approvals --------------------------------------------------------------------------


def _calls(recording: Recording) -> Iterable[ToolCall]:
    """Return the calls that ran, each once, with what came of it in the end."""
    found: dict[tuple[int, int, str], ToolCall] = {}
    for one in recording.entries:
        if one.kind in {"tool", "agent"} and not _was_stopped(one):
            result = one.result or {}
            found[one.question, one.turn, one.call_id] = ToolCall(
                tool=one.name,
                arguments=parsed(one.arguments),
                agent=one.agent,
                approved=one.approved,
                output=result.get("output" if one.kind == "tool" else "final_output"),
                failure="" if one.failure is None else one.failure.code,
            )
    return found.values()


def _approvals(recording: Recording) -> Iterator[Approval]:
    for one in recording.entries:
        if one.kind == "request" and (one.result or {}).get("kind") not in {"budget", "worker"}:
            yield Approval(
                tool=one.name,
                arguments=parsed(one.arguments),
                agent=one.agent,
                approved=one.approved,
                by=tuple(map(str, cast("list[Json]", one.value or []))),
            )


def _was_stopped(entry: Entry) -> bool:
    """Whether a guardrail answered instead of the tool."""
    checks = cast("list[JsonObject]", (entry.result or {}).get("checks") or [])
    return any(map(_stops, (read(GuardrailRecord, one) for one in checks)))


def _stops(check: GuardrailRecord) -> bool:
    rejects = (check.behavior or {}).get("type") == "reject_content"
    return check.stage == "tool_input" and (check.tripped or rejects)


def parsed(arguments: str) -> Json:
    """Return arguments as JSON, or as the text that they are."""
    try:
        return json.loads(arguments) if arguments else None
    except (ValueError, RecursionError):
        return arguments
