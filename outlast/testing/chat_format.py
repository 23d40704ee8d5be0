"""Recordings as examples for fine-tuning, in the chat format of OpenAI and compatible servers."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.client.recordings.recorder import redaction_in
from outlast.client.recordings.recording import Recording
from outlast.loop.approvals import REDACTED
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
    it with `weight` 0, so that each reply is trained once. So are replies that nobody should learn:
    with something redacted, or with a call that could not run, such as with invalid arguments. A
    run that would go another way today has no examples, and neither has what the chat format cannot
    express.

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
            found.append(_shown(_example(calls), redaction))
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
    refused = {call_id for one in calls for call_id in one.refused}
    for at, message in enumerate(messages):
        is_reply = message["role"] == "assistant"
        if is_reply and (at < len(before) or _teaches_nothing(message, refused)):
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


def _shown(example: JsonObject, redaction: Redaction) -> JsonObject:
    """Return an example without what a redaction hides."""
    if not redaction.arguments and not redaction.texts:
        return example
    messages = [_message_shown(one, redaction) for one in example["messages"]]
    return cast("JsonObject", redaction.json({**example, "messages": messages}))


def _message_shown(message: JsonObject, redaction: Redaction) -> JsonObject:
    """Return a message without what a redaction hides; a reply that lacks it is not to be learned."""
    calls = [
        {
            **one,
            "function": {
                **one["function"],
                "arguments": redaction.of_tool(*_called(one["function"])),
            },
        }
        for one in message.get("tool_calls", ())
    ]
    made = {**message, "tool_calls": calls} if calls else message
    shown = cast("JsonObject", redaction.json(made))
    if message["role"] == "assistant" and shown != message:
        return {**shown, "weight": 0}
    return shown


def _teaches_nothing(message: JsonObject, refused: Collection[str]) -> bool:
    """Whether a reply is redacted, or has a call that was refused or whose arguments are no object."""
    return REDACTED in json.dumps(message, default=str) or any(
        one.get("id") in refused or not _is_object(str(one["function"]["arguments"]))
        for one in message.get("tool_calls", ())
    )


def _is_object(arguments: str) -> bool:
    try:
        return isinstance(json.loads(arguments or "{}"), dict)
    except (ValueError, RecursionError):
        return False


def _called(function: JsonObject) -> tuple[str, str]:
    return str(function["name"]), str(function["arguments"])
