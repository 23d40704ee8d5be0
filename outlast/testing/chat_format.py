"""Recordings as examples for fine-tuning, in the chat format of OpenAI and compatible servers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.client.recordings.recorder import redaction_in
from outlast.client.recordings.recording import Recording
from outlast.loop.values import JsonObject
from outlast.models.openai.chat_request import (
    UnsupportedItemError,
    chat_messages,
    check_spec,
    tool_entry,
)
from outlast.testing.run_replay import ReplayedCall, replay
from outlast.views.redaction import Redaction


@dataclass(frozen=True, slots=True)
class ChatExamples:
    """The examples of one run.

    Attributes:
        examples: JSON objects, one for each line of the training file.
        skipped: what has no example, and why, safe to show.
    """

    examples: tuple[JsonObject, ...]
    skipped: tuple[str, ...] = ()


async def chat_examples(
    recording: Recording, agents: Agent[Any] | Sequence[Agent[Any]], *, redact: bool = True
) -> ChatExamples:
    """Return examples for fine-tuning: what the model would read today, and what it replied.

    The run is replayed, so that instructions and tools are those of today's agents. There is an
    example for each question and agent. Replies of other agents and earlier questions are part of
    it with `weight` 0, so that each reply is trained once. A run that would go another way today
    has no examples, and neither has what the chat format cannot express.

    Args:
        recording: the run, not redacted: redacted arguments may not fit their types.
        agents: today's agents.
        redact: hide what the approval policies of the run redact.
    """
    try:
        replayed = await replay(recording, agents)
    except UserError as error:
        return ChatExamples((), (error.message,))
    if not replayed.is_same:
        return ChatExamples((), tuple(replayed.report().splitlines()))
    redaction = redaction_in(recording) if redact else Redaction()
    found: list[JsonObject] = []
    skipped: list[str] = []
    for calls in _stretches(replayed.calls):
        last = calls[-1]
        try:
            found.append(_shown(_example(calls), last.agent, redaction))
        except UnsupportedItemError as error:
            skipped.append(f"{recording.run_id}, question {last.question}, {last.agent}: {error}")
    return ChatExamples(tuple(found), tuple(skipped))


def _stretches(calls: Sequence[ReplayedCall]) -> Iterator[list[ReplayedCall]]:
    """Yield the calls that one agent made for one question, without a call of another between."""
    stretch: list[ReplayedCall] = []
    for one in calls:
        if stretch and (one.question, one.agent) != (stretch[0].question, stretch[0].agent):
            yield stretch
            stretch = []
        stretch.append(one)
    if stretch:
        yield stretch


def _example(calls: Sequence[ReplayedCall]) -> JsonObject:
    first, last = calls[0].request, calls[-1].request
    if last.hosted_tools:
        names = ", ".join(one.name for one in last.hosted_tools)
        raise UnsupportedItemError(f"the provider runs the tools {names}.")
    for tool in last.tools:
        check_spec(tool)
    before = chat_messages(first.instructions, first.input)
    messages = chat_messages(last.instructions, [*last.input, *calls[-1].reply])
    for message in messages:
        _refuse_other_media(message)
    for message in messages[: len(before)]:
        if message["role"] == "assistant":
            message["weight"] = 0
    example: JsonObject = {"messages": messages}
    if last.tools:
        example["tools"] = [tool_entry(one) for one in last.tools]
        if last.settings.parallel_tool_calls is not None:
            example["parallel_tool_calls"] = last.settings.parallel_tool_calls
    return example


def _refuse_other_media(message: JsonObject) -> None:
    """Refuse what no fine-tuning takes: examples hold texts and images."""
    content: object = message.get("content")
    for part in cast("list[JsonObject]", content) if isinstance(content, list) else ():
        if part.get("type") not in {"text", "image_url"}:
            raise UnsupportedItemError(f"a message holds a part of type {part.get('type')!r:.40}.")


def _shown(example: JsonObject, agent: str, redaction: Redaction) -> JsonObject:
    """Return an example without what a redaction hides."""
    if not redaction.arguments and not redaction.texts:
        return example
    for message in example["messages"]:
        for one in message.get("tool_calls", ()):
            function = one["function"]
            function["arguments"] = _hidden(function, agent, redaction)
    return cast("JsonObject", redaction.json(example))


def _hidden(function: JsonObject, agent: str, redaction: Redaction) -> str:
    """Return the arguments of a call; the agent that made it may be another one."""
    name, arguments = str(function["name"]), str(function["arguments"])
    agents = {of for of, tool in redaction.arguments if tool == name} | {agent}
    for of in sorted(agents):
        arguments = redaction.call(of, name, arguments)
    return arguments
