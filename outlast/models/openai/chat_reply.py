"""Converts Chat Completions responses to Responses objects, without I/O.

`provider_data` keeps data that the server expects back: the signed thinking blocks of Claude and
the signatures that Gemini adds to calls. Ids are derived from the completion's own id, so the same
response always yields the same items.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from outlast.agents.json_values import as_count, as_object, as_objects, as_text
from outlast.loop.values import JsonObject
from outlast.models.openai.responses import DERIVED, PROVIDER_DATA

_CUT_SHORT = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Finish reasons of incomplete answers, with the Responses API's names for them."""

_SIGNED_FIELDS = ("extra_content", "provider_specific_fields")
"""Fields with provider data of a call: those of Gemini's API, and of LiteLLM."""

_FILTERED = "The provider's content filter stopped the answer."


class UnreadableReplyError(ValueError):
    """A completion or chunk violates the API; the message says how."""


@dataclass(slots=True)
class _Message:
    id: str
    texts: dict[str, str] = field(default_factory=dict[str, str])
    """The text received so far by kind, `output_text` or `refusal`, in order of appearance."""
    annotations: list[JsonObject] = field(default_factory=list[JsonObject])
    logprobs: list[JsonObject] = field(default_factory=list[JsonObject])
    kept: JsonObject = field(default_factory=dict[str, Any])

    def part(self, kind: str) -> JsonObject:
        part = _content_part(kind, self.texts[kind])
        if kind == "output_text":
            part["annotations"] = self.annotations
            if self.logprobs:
                part["logprobs"] = self.logprobs
        return part

    def item(self, status: str) -> JsonObject:
        item: JsonObject = {
            "type": "message",
            "id": self.id,
            "role": "assistant",
            "status": status,
            "content": [self.part(kind) for kind in self.texts],
        }
        return _with_kept(item, self.kept)


@dataclass(slots=True)
class _Call:
    id: str
    call_id: str
    provider_id: str | None
    """The id from the server, if there is one."""
    index: object
    """The server's index of the call, to which later chunks refer."""
    name: str = ""
    arguments: str = ""
    kept: JsonObject = field(default_factory=dict[str, Any])

    def item(self, status: str) -> JsonObject:
        item: JsonObject = {
            "type": "function_call",
            "id": self.id,
            "call_id": self.call_id,
            "name": self.name,
            # Some servers send no arguments for a function without parameters.
            "arguments": self.arguments or "{}",
            "status": status,
        }
        return _with_kept(item, self.kept)


def response_from_chat(completion: JsonObject, *, turn: int, model: str = "") -> JsonObject:
    """Convert a whole completion to a response object; see `ChatReply` for the arguments."""
    choices = as_objects(completion.get("choices"))
    message = as_object(choices[0].get("message")) if choices else None
    if not choices or message is None:
        hint = "; this server speaks the Responses API" if "output" in completion else ""
        raise UnreadableReplyError(f"the completion has no choice with a message{hint}")
    # A whole message has the same fields as the only chunk of a stream.
    finish_reason = choices[0].get("finish_reason") or "stop"
    reply = ChatReply(turn=turn, model=model)
    only = {**choices[0], "index": 0, "delta": message, "finish_reason": finish_reason}
    reply.add({**completion, "choices": [only]})
    return reply.finish()[-1]["response"]


class ChatReply:
    """Collects one completion, chunk by chunk.

    Both methods return the new events of the equivalent Responses stream.
    """

    def __init__(self, *, turn: int, model: str = "") -> None:
        """Start with an empty response.

        The number of items in the request, `turn`, is part of the derived ids, because small servers
        reuse the same few ids. Data kept for the server is only sent back to this model.
        """
        self._turn = turn
        self._model = model
        self._thinking: list[JsonObject] = []
        self._extra: JsonObject = {}
        self._started = False
        self._seed = ""
        self._head: JsonObject = {}
        self._items: list[_Message | _Call] = []
        self._usage: JsonObject = {}
        self._finish_reason: str | None = None
        self._events: list[JsonObject] = []
        self._sequence = 0

    def add(self, chunk: JsonObject) -> list[JsonObject]:
        """Process the next chunk."""
        self._events = []
        choices = as_objects(chunk.get("choices"))
        if choices is None:
            raise UnreadableReplyError("a chunk of the completion has no list of choices")
        self._start(chunk)
        self._usage = as_object(chunk.get("usage")) or self._usage
        for choice in choices:
            if choice.get("index") in {None, 0}:
                self._finish_reason = as_text(choice.get("finish_reason")) or self._finish_reason
                logprobs = as_objects((as_object(choice.get("logprobs")) or {}).get("content"))
                self._add_delta(as_object(choice.get("delta")) or {}, logprobs or [])
        return self._events

    def finish(self, *, otherwise: str | None = None) -> list[JsonObject]:
        """Complete the response; the last event contains the whole response.

        Without `otherwise`, a chunk must have had a finish reason.
        """
        self._events = []
        self._finish_reason = self._finish_reason or otherwise
        if self._finish_reason is None:
            raise UnreadableReplyError("the stream ended before the answer was complete")
        if any(isinstance(item, _Call) and not item.name for item in self._items):
            raise UnreadableReplyError("the completion calls a function without naming it")
        if not self._items:
            filtered = self._finish_reason == "content_filter"
            self._write("refusal" if filtered else "output_text", _FILTERED if filtered else "")
        self._keep_thoughts(self._items[0])
        reason = _CUT_SHORT.get(self._finish_reason)
        status = "incomplete" if reason else "completed"
        for position, item in enumerate(self._items):
            self._close(position, item, status)
        response = {
            **self._head,
            "status": status,
            "output": [item.item(status) for item in self._items],
            "usage": _usage(self._usage),
            # The usage in the server's own format.
            "raw_usage": self._usage or None,
            "incomplete_details": {"reason": reason} if reason else None,
        }
        self._emit("response.completed", response=response)
        return self._events

    def _start(self, chunk: JsonObject) -> None:
        if self._started:
            return
        self._started = True
        self._seed = f"{chunk.get('id')}|{chunk.get('created')}|{self._turn}"
        self._head = {
            "id": as_text(chunk.get("id")) or self._id("resp", 0),
            "object": "response",
            "created_at": as_count(chunk.get("created")),
            "model": chunk.get("model"),
            "error": None,
        }
        response: JsonObject = {**self._head, "status": "in_progress", "output": []}
        self._emit("response.created", response=response)

    def _add_delta(self, delta: JsonObject, logprobs: list[JsonObject]) -> None:
        if text := _text(delta.get("content")):
            self._write("output_text", text, [_logprob(logprob) for logprob in logprobs])
        if cited := _citations(delta):
            self._message().annotations += cited
        if refusal := as_text(delta.get("refusal")):
            self._write("refusal", refusal)
        for block in as_objects(delta.get("thinking_blocks")) or ():
            _extend_thinking(self._thinking, block)
        self._extra |= as_object(delta.get("extra_content")) or {}
        for call in as_objects(delta.get("tool_calls")) or ():
            self._add_call(call)

    def _message(self) -> _Message:
        message = next((item for item in self._items if isinstance(item, _Message)), None)
        if message is None:
            message = _Message(self._id("msg", len(self._items)))
            self._append(message)
        return message

    def _write(self, kind: str, text: str, logprobs: Sequence[JsonObject] = ()) -> None:
        message = self._message()
        place = {"item_id": message.id, "output_index": self._items.index(message)}
        if kind not in message.texts:
            place["content_index"] = len(message.texts)
            message.texts[kind] = ""
            self._emit("response.content_part.added", **place, part=_content_part(kind, ""))
        place["content_index"] = list(message.texts).index(kind)
        message.texts[kind] += text
        if kind == "refusal":
            self._emit("response.refusal.delta", **place, delta=text)
        else:
            message.logprobs += logprobs
            self._emit("response.output_text.delta", **place, delta=text, logprobs=list(logprobs))

    def _add_call(self, delta: JsonObject) -> None:
        function = as_object(delta.get("function")) or {}
        name = as_text(function.get("name"))
        call = self._find_call(delta, name)
        if call is None:
            call = self._new_call(delta, name or "")
            self._append(call)
        elif name and not call.name:
            call.name = name
        for field_name in _SIGNED_FIELDS:
            if signed := as_object(delta.get(field_name)):
                self._keep(call, "call", {field_name: signed})
        arguments = function.get("arguments")
        if arguments and not isinstance(arguments, str):
            arguments = json.dumps(arguments)
        if arguments:
            call.arguments += arguments
            self._emit(
                "response.function_call_arguments.delta",
                item_id=call.id,
                output_index=self._items.index(call),
                delta=arguments,
            )

    def _find_call(self, delta: JsonObject, name: str | None) -> _Call | None:
        calls = [item for item in self._items if isinstance(item, _Call)]
        index, provider_id = delta.get("index"), _provider_id(delta)
        if index is not None:
            same = next((call for call in reversed(calls) if call.index == index), None)
            # Some servers send index 0 for every call, but send each call whole.
            another = same and name and provider_id and same.provider_id not in {None, provider_id}
            return None if another else same
        if name is not None or not calls:
            return None
        return next((call for call in calls if call.provider_id == provider_id), calls[-1])

    def _new_call(self, delta: JsonObject, name: str) -> _Call:
        provider_id = _provider_id(delta)
        position = len(self._items)
        used = {item.call_id for item in self._items if isinstance(item, _Call)}
        # Outputs refer to calls by this id, so every call needs a unique one.
        call_id = (
            provider_id if provider_id and provider_id not in used else self._id("call", position)
        )
        return _Call(
            id=self._id("fc", position),
            call_id=call_id,
            provider_id=provider_id,
            index=delta.get("index"),
            name=name,
        )

    def _keep_thoughts(self, first: _Message | _Call) -> None:
        """Keep the signed thinking before the first item, so that it can be sent back."""
        if self._thinking:
            self._keep(first, "message", {"thinking_blocks": self._thinking})
        if self._extra:
            self._keep(first, "message", {"extra_content": self._extra})

    def _keep(self, item: _Message | _Call, place: str, fields: JsonObject) -> None:
        kept = {**item.kept.get(place, {}), **fields}
        item.kept |= {"model": self._model, place: kept}

    def _append(self, item: _Message | _Call) -> None:
        self._items.append(item)
        added = item.item("in_progress")
        if isinstance(item, _Call):
            added["arguments"] = ""
        self._emit("response.output_item.added", output_index=len(self._items) - 1, item=added)

    def _close(self, position: int, item: _Message | _Call, status: str) -> None:
        """Emit the end of an item; as in the SDK, its texts and arguments have no own end."""
        if isinstance(item, _Message):
            for index, kind in enumerate(item.texts):
                self._emit(
                    "response.content_part.done",
                    item_id=item.id,
                    output_index=position,
                    content_index=index,
                    part=item.part(kind),
                )
        self._emit("response.output_item.done", output_index=position, item=item.item(status))

    def _emit(self, kind: str, **fields: Any) -> None:
        self._events.append({"type": kind, "sequence_number": self._sequence, **fields})
        self._sequence += 1

    def _id(self, prefix: str, position: int) -> str:
        digest = sha256(f"{self._seed}|{position}".encode()).hexdigest()
        # Short enough for the Responses API, and with the prefix that it requires.
        return f"{prefix}{DERIVED}{digest[:32]}"


def _provider_id(call: JsonObject) -> str | None:
    # LiteLLM appends Gemini's signature to the id, which makes the id too long.
    return (as_text(call.get("id")) or "").partition("__thought__")[0] or None


def _with_kept(item: JsonObject, kept: JsonObject) -> JsonObject:
    return {**item, PROVIDER_DATA: kept} if kept else item


def _extend_thinking(blocks: list[JsonObject], news: JsonObject) -> None:
    """Append a piece of thinking to the last block; a signature completes a block."""
    last = blocks[-1] if blocks else {}
    if news.get("type") != "thinking" or last.get("type") != "thinking" or last.get("signature"):
        blocks.append(dict(news))
        return
    for name in ("thinking", "signature"):
        if piece := as_text(news.get(name)):
            last[name] = f"{last.get(name) or ''}{piece}"


def _content_part(kind: str, text: str) -> JsonObject:
    if kind == "refusal":
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _citations(message: JsonObject) -> list[JsonObject]:
    """Return the message's web citations in the flat format of the Responses API."""
    cited = [
        annotation.get("url_citation")
        for annotation in as_objects(message.get("annotations")) or ()
    ]
    return [
        {"type": "url_citation", **fields} for citation in cited if (fields := as_object(citation))
    ]


def _logprob(logprob: JsonObject) -> JsonObject:
    likely = as_objects(logprob.get("top_logprobs")) or ()
    top: list[JsonObject] = [{**token, "bytes": token.get("bytes") or []} for token in likely]
    return {**logprob, "bytes": logprob.get("bytes") or [], "top_logprobs": top}


def _text(content: object) -> str:
    """Return the text of a message's content, which some servers send in parts."""
    parts = as_objects(content) or ()
    texts = [str(part.get("text") or "") for part in parts if part.get("type") == "text"]
    return "".join(texts) or as_text(content) or ""


def _usage(usage: JsonObject) -> JsonObject:
    input_details = as_object(usage.get("prompt_tokens_details")) or {}
    output_details = as_object(usage.get("completion_tokens_details")) or {}
    return {
        "input_tokens": as_count(usage.get("prompt_tokens")),
        "input_tokens_details": {
            name: as_count(input_details.get(name))
            for name in ("cached_tokens", "cache_write_tokens")
        },
        "output_tokens": as_count(usage.get("completion_tokens")),
        "output_tokens_details": {
            "reasoning_tokens": as_count(output_details.get("reasoning_tokens"))
        },
        "total_tokens": as_count(usage.get("total_tokens")),
    }
