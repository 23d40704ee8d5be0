"""Converts Chat Completions responses to Responses objects, without I/O.

`provider_data` keeps data that the server expects back; `given_back` says what that is. Ids are
derived from the completion's own id, so the same response always yields the same items.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias

from outlast.agents.json_values import as_count, as_object, as_objects, as_text
from outlast.loop.values import JsonObject
from outlast.models.openai.given_back import SIGNED_FIELDS, Thoughts
from outlast.models.openai.responses import DERIVED, FILTERED, PROVIDER_DATA

Meaning: TypeAlias = Literal["complete", "cut", "filtered", "failed"]
"""The answer is whole, ends early at a limit, was filtered, or its server failed."""

_WORDS: Final[Mapping[Meaning, str]] = {
    "complete": "stop tool_calls tool_call tool_use function_call end_turn end eos eos_token"
    " stop_sequence complete completed finished finish done normal",
    "cut": "length max_tokens max_output_tokens max_length max_new_tokens model_length token_limit"
    " context_length model_context_window_exceeded error_limit pause_turn repetition",
    "filtered": "content_filter content_filtered filtered safety recitation blocklist"
    " prohibited_content spii language image_safety image_prohibited_content image_recitation"
    " model_armor guardrail_intervened refusal refused sensitive error_toxic moderation",
    "failed": "error network_error abort aborted cancelled canceled user_cancel time_limit timeout"
    " malformed_function_call function_call_filter unexpected_tool_call too_many_tool_calls"
    " missing_thought_signature malformed_response malformed_model_output malformed_tool_use"
    " insufficient_system_resource",
}
"""The words of OpenAI, Azure, Anthropic, Bedrock, Gemini, Mistral, Cohere, DeepSeek, Z.ai, xAI,
OpenRouter, LiteLLM, vLLM, SGLang, Ollama, llama.cpp, TGI, Together and watsonx."""

MEANINGS: Final[Mapping[str, Meaning]] = {
    word: meaning for meaning, words in _WORDS.items() for word in words.split()
}
"""What each finish reason means, in lower case. Any other, such as `other` or `unknown`, is no
promise of a whole answer."""

_NONE: Final = frozenset({"", "null", "none"})
"""What some servers write instead of null as long as the answer goes on."""

_CUT_SHORT: Mapping[Meaning, str] = {"cut": "max_output_tokens", "filtered": "content_filter"}
"""The Responses API's names for why an answer is incomplete."""


class UnreadableReplyError(ValueError):
    """A completion or chunk violates the API; the message says how."""


class UnknownEndError(UnreadableReplyError):
    """A completion ended for a reason that nobody knows; `reason` is the server's word."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the completion has the unknown finish_reason {reason!r}")
        self.reason: str = reason


class ReportedError(UnreadableReplyError):
    """A completion holds an error, or ended with one; `report` is in the provider's format."""

    def __init__(self, report: object) -> None:
        super().__init__(f"the completion holds an error: {report!r:.300}")
        self.report: object = report


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
    finish_reason = reason_of(choices[0].get("finish_reason")) or "stop"
    reply = ChatReply(turn=turn, model=model, is_whole=True)
    only = {**choices[0], "index": 0, "delta": message, "finish_reason": finish_reason}
    reply.add({**completion, "choices": [only]})
    return reply.finish()[-1]["response"]


class ChatReply:
    """Collects one completion, chunk by chunk.

    Both methods return the new events of the equivalent Responses stream.
    """

    def __init__(self, *, turn: int, model: str = "", is_whole: bool = False) -> None:
        """Start with an empty response, of which all comes in one chunk if it `is_whole`.

        The number of items in the request, `turn`, is part of the derived ids, because small servers
        reuse the same few ids. Data kept for the server is only sent back to this model.
        """
        self._turn = turn
        self._model = model
        self._thoughts = Thoughts(is_whole=is_whole)
        self._started = False
        self._seed = ""
        self._head: JsonObject = {}
        self._items: list[_Message | _Call] = []
        self._newest: _Message | _Call | None = None
        self._usage: JsonObject = {}
        self._finish_reason: str | None = None
        self._own_reason: str | None = None
        self._events: list[JsonObject] = []
        self._sequence = 0

    def add(self, chunk: JsonObject) -> list[JsonObject]:
        """Process the next chunk; one that says nothing, such as a ping, is skipped."""
        self._events = []
        self._usage = as_object(chunk.get("usage")) or self._usage
        given = chunk.get("choices")
        choices = as_objects([] if given is None else given)
        if choices is None:
            raise UnreadableReplyError("a chunk of the completion has no list of choices")
        if "error" in (chunk.get("object"), chunk.get("type")):
            raise ReportedError(chunk)
        if choices or as_text(chunk.get("id")):
            self._start(chunk)
        for choice in choices:
            if choice.get("index") in {None, 0}:
                self._add_choice(choice)
        return self._events

    def _add_choice(self, choice: JsonObject) -> None:
        if choice.get("error"):
            raise ReportedError(choice["error"])
        self._finish_reason = reason_of(choice.get("finish_reason")) or self._finish_reason
        own = as_object(choice.get("provider_specific_fields")) or {}
        own_reason = choice.get("native_finish_reason") or own.get("native_finish_reason")
        self._own_reason = as_text(own_reason) or self._own_reason
        logprobs = as_objects((as_object(choice.get("logprobs")) or {}).get("content"))
        self._add_delta(as_object(choice.get("delta")) or {}, logprobs or [])

    def finish(self) -> list[JsonObject]:
        """Complete the response; the last event contains the whole response."""
        self._events = []
        meaning = self._meaning()
        if any(isinstance(item, _Call) and not item.name for item in self._items):
            raise UnreadableReplyError("the completion calls a function without naming it")
        if meaning == "filtered":
            message = self._message()
            self._items = [message]  # nobody carries out half a reply's calls
            if "refusal" not in message.texts:
                self._write("refusal", FILTERED)
        if not self._items:
            self._write("output_text", "")
        if meaning == "cut":
            self._drop_thoughts()
        self._keep_thoughts(self._items[0])
        reason = _CUT_SHORT.get(meaning)
        for position, item in enumerate(self._items):
            self._close(position, item, self._status(item, meaning))
        response = {
            **self._head,
            "status": "incomplete" if reason else "completed",
            "output": [item.item(self._status(item, meaning)) for item in self._items],
            "usage": _usage(self._usage),
            # The usage in the server's own format.
            "raw_usage": self._usage or None,
            "incomplete_details": {"reason": reason} if reason else None,
        }
        self._emit("response.completed", response=response)
        return self._events

    def _drop_thoughts(self) -> None:
        """Drop thoughts that some servers send again as the text, if a limit cut them off."""
        for item in self._items:
            if isinstance(item, _Message) and self._thoughts.hold(item.texts.get("output_text")):
                item.texts["output_text"] = ""

    def _meaning(self) -> Meaning:
        """Return how the answer ended. What the provider itself says outranks its gateway's word.

        Raises:
            UnreadableReplyError: it failed, or ended for an unknown reason or for none.
        """
        reason = self._finish_reason
        if reason is None:
            raise UnreadableReplyError("the stream ended before the answer was complete")
        meaning = meaning_of(reason)
        own_reason = self._own_reason or ""
        if meaning == "complete" and meaning_of(own_reason) in {"filtered", "failed", "cut"}:
            meaning, reason = meaning_of(own_reason), own_reason
        if meaning is None:
            raise UnknownEndError(reason)
        if meaning == "failed":
            message = f"the answer ended with finish_reason {reason!r}"
            raise ReportedError({"code": "server_error", "message": message})
        return meaning

    def _status(self, item: "_Message | _Call", meaning: Meaning) -> str:
        """Return `incomplete` for the item in which an answer ended early."""
        if meaning == "complete" or item is not self._newest:
            return "completed"
        is_whole = isinstance(item, _Call) and meaning == "cut" and _is_json(item.arguments)
        return "completed" if is_whole else "incomplete"

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
        self._thoughts.add(delta)
        for call in as_objects(delta.get("tool_calls")) or ():
            self._add_call(call)

    def _message(self) -> _Message:
        message = next((item for item in self._items if isinstance(item, _Message)), None)
        if message is None:
            message = _Message(self._id("msg", len(self._items)))
            self._append(message)
        return message

    def _write(self, kind: str, text: str, logprobs: Sequence[JsonObject] = ()) -> None:
        message = self._newest = self._message()
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
        self._newest = call
        for field_name in SIGNED_FIELDS:
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
        """Keep what the server expects back with the first item, before which it was thought."""
        has_calls = any(isinstance(item, _Call) for item in self._items)
        if fields := self._thoughts.kept(has_calls=has_calls):
            self._keep(first, "message", fields)

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


def _is_json(arguments: str) -> bool:
    try:
        json.loads(arguments)
    except ValueError:
        return False
    return True


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


def reason_of(value: object) -> str | None:
    """Return a finish reason as it is written, or None if there is none yet."""
    reason = "" if value is None else str(value)
    return None if reason.strip().casefold() in _NONE else reason


def meaning_of(reason: str) -> Meaning | None:
    """Return what a finish reason means, however it is written, or None for an unknown one.

    Some servers name the class of an enumeration before it (`FinishReason.SAFETY`), or a detail
    after it (`content_filter: RECITATION`).
    """
    word = reason.partition(":")[0].rpartition(".")[2]
    return MEANINGS.get(word.strip().replace("-", "_").casefold())
