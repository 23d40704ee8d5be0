"""Answers as UI message streams of the Vercel AI SDK, and the messages that its clients send."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from outlast.agents.errors import UserError
from outlast.agents.json_values import as_object, is_list
from outlast.serve.customer_input import customer_message_id
from outlast.serve.uploads import with_name
from outlast.serve.wires.decisions import SentDecision
from outlast.serve.wires.ids import RequestId
from outlast.serve.wires.steps import (
    Finished,
    Reasoned,
    RequestChanged,
    Step,
    TextBegun,
    TextDone,
    TextHidden,
    TextPiece,
    TextVoid,
    ToolAnswered,
    ToolCalled,
)
from outlast.views.records import ApprovalRequest, Item, Json, JsonObject
from outlast.views.transcript import name_of

_IN_ANSWER: Final = "~"
_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
_APPROVED: Final = frozenset({"approved", "edited", "responded"})


def own_message_id(given: object) -> str:
    """Return the id of a client's message in its run.

    Raises:
        UserError: the message has no id.
    """
    if not isinstance(given, str) or not given:
        raise UserError("Each message needs an id.")
    if _PLAIN_ID.fullmatch(given) is None:
        given = hashlib.sha256(given.encode("utf-8", "replace")).hexdigest()[:32]
    return customer_message_id(given)


def answer_id(message_id: str) -> str:
    """Return the id of the answer to a message: the same in every stream of it."""
    return f"answer-{hashlib.sha256(message_id.encode()).hexdigest()[:16]}"


@dataclass
class MessageChunks:
    """Makes the chunks of one answer from its steps.

    Attributes:
        message_id: the id of the assistant's message.
        arguments: returns the arguments of a call as the caller may see them.
        goes_on: whether the message goes on that the client has already.
        is_team: whether the caller may read why an answer failed.
        has_calls: the calls in the earlier steps of the message that the client has.
    """

    message_id: str
    arguments: Callable[[Item], str]
    goes_on: bool = False
    is_team: bool = False
    has_calls: frozenset[str] = frozenset()
    _has_parts: bool = False
    _is_open: bool = False
    _texts: int = 0
    _sent: set[str] = field(default_factory=set[str])
    _calls: dict[str, Item] = field(default_factory=dict[str, Item])
    _later: list[JsonObject] = field(default_factory=list[JsonObject])
    _facts: JsonObject | None = None

    def begin(self) -> Iterator[JsonObject]:
        """Yield the first chunks."""
        yield {"type": "start", "messageId": self.message_id}
        self._has_parts = self.goes_on
        if not self.goes_on:
            yield {"type": "start-step"}

    def take(self, step: Step) -> Iterator[JsonObject]:
        """Yield the chunks of a step."""
        if isinstance(step, ToolCalled | TextHidden):
            # A request about it may have come first: the call is withheld while an answer is judged.
            if isinstance(step, ToolCalled) and step.call_id not in self._sent:
                self._calls[step.call_id] = step.item
            return
        if not isinstance(step, RequestChanged):
            yield from self._known_calls()
        match step:
            case TextBegun():
                yield from self._begin_text()
            case TextPiece(text=text):
                yield {"type": "text-delta", "id": self._text_id, "delta": text}
            case TextVoid():
                # The text is alone in its step.
                self._is_open = self._has_parts = False
                yield {"type": "reset-step"}
                yield from self._deferred()
            case TextDone():
                self._is_open = False
                yield {"type": "text-end", "id": self._text_id}
                yield from self._deferred()
            case Reasoned(text=text):
                yield from self._reasoning(text)
            case RequestChanged(request=request):
                yield from self._decided(request)
            case ToolAnswered():
                yield from self._output(step)
            case Finished():
                yield from self._finish(step)

    def rest(self, facts: JsonObject) -> Iterator[JsonObject]:
        """Yield what is certain once no more steps are there: calls, and facts that have changed."""
        yield from self._known_calls()
        if facts != self._facts:
            self._facts = facts
            yield {"type": "data-outlast", "data": facts, "transient": True}

    # --- Parts ----------------------------------------------------------------------------------

    def _known_calls(self) -> Iterator[JsonObject]:
        """Yield the calls of which it is known by now what people may see of their arguments."""
        for call_id, item in self._calls.items():
            call = self._call(call_id, name_of(item.raw), self.arguments(item))
            yield from self._part(call)
        self._calls.clear()

    @property
    def _text_id(self) -> str:
        return f"text-{self._texts}"

    def _begin_text(self) -> Iterator[JsonObject]:
        if self._has_parts:
            yield {"type": "finish-step"}
            yield {"type": "start-step"}
        self._texts += 1
        self._is_open = self._has_parts = True
        yield {"type": "text-start", "id": self._text_id}

    def _part(self, *chunks: JsonObject) -> Iterator[JsonObject]:
        """Yield chunks of another part than the text; it must not vanish with a void text."""
        if self._is_open:
            self._later += chunks
            return
        self._has_parts = True
        yield from chunks

    def _deferred(self) -> Iterator[JsonObject]:
        later, self._later = self._later, []
        yield from self._part(*later) if later else ()

    def _reasoning(self, text: str) -> Iterator[JsonObject]:
        if not text:
            return
        self._texts += not self._is_open
        own = f"reasoning-{self._texts}"
        yield from self._part(
            {"type": "reasoning-start", "id": own},
            {"type": "reasoning-delta", "id": own, "delta": text},
            {"type": "reasoning-end", "id": own},
        )

    def _call(self, call_id: str, name: str, arguments: str) -> JsonObject:
        self._sent.add(call_id)
        # The desk runs the tool: the client must not.
        return {
            "type": "tool-input-available",
            "toolCallId": call_id,
            "toolName": name,
            "input": _value(arguments),
            "dynamic": True,
            "providerExecuted": True,
        }

    def _approval_id(self, request: ApprovalRequest) -> str:
        """Return the id of an approval, another one in each answer: clients look for the first."""
        return f"{RequestId.of(request)}{_IN_ANSWER}{self.message_id}"

    def _asked(self, request: ApprovalRequest) -> Iterator[JsonObject]:
        call_id = _call_id(request)
        yield from self._known_calls()
        if call_id not in self._sent:
            yield from self._part(self._call(call_id, request.name, request.arguments))
        asked: JsonObject = {
            "type": "tool-approval-request",
            "approvalId": self._approval_id(request),
            "toolCallId": call_id,
        }
        yield from self._part({**asked, "reason": request.reason} if request.reason else asked)

    def _decided(self, request: ApprovalRequest) -> Iterator[JsonObject]:
        if request.status == "pending":
            return
        yield from self._asked(request)
        decision = request.decision
        response: JsonObject = {
            "type": "tool-approval-response",
            "approvalId": self._approval_id(request),
            "approved": request.status in _APPROVED,
            "providerExecuted": True,
        }
        reason = None if decision is None else decision.message
        yield from self._part({**response, "reason": reason} if reason else response)
        call_id = _call_id(request)
        if request.status not in _APPROVED:  # the output may have come before
            yield from self._part({"type": "tool-output-denied", "toolCallId": call_id})
        elif call_id == request.id:
            yield from self._part(_output(call_id, request.status))

    def _output(self, step: ToolAnswered) -> Iterator[JsonObject]:
        if step.call is None:
            return
        call_id, request = step.call_id, step.request
        if call_id not in self._sent | self.has_calls:
            self._calls[call_id] = step.call
            yield from self._known_calls()
        is_denied = request is not None and request.status in {"rejected", "expired", "cancelled"}
        if is_denied:
            yield from self._part({"type": "tool-output-denied", "toolCallId": call_id})
        else:
            yield from self._part(_output(call_id, step.item.raw.get("output")))

    def _finish(self, step: Finished) -> Iterator[JsonObject]:
        if self._has_parts and any(one.run_id for one in step.requests):
            # `useChat` sends decisions when the last step has nothing else that is open, and the call
            # that waits for a nested run is open.
            yield {"type": "finish-step"}
            yield {"type": "start-step"}
        # Also those that an earlier answer asked: `useChat` sends approvals of its last message only.
        for request in step.requests:
            yield from self._asked(request)
        reasons = {"answered": "stop", "asks": "tool-calls", "cancelled": "other"}
        if step.reason == "cancelled":
            yield {"type": "abort", "reason": "cancelled"}
        elif step.reason not in reasons:
            yield {"type": "error", "errorText": step.words(is_team=self.is_team)}
        yield {"type": "finish-step"}
        reason = "length" if step.is_cut_short else reasons.get(step.reason, "error")
        yield {"type": "finish", "finishReason": reason}


def _call_id(request: ApprovalRequest) -> str:
    """Return the id of the call that a request is about, or of the part that stands for one.

    Calls of nested runs are not in the answer, and their ids may be those of others.
    """
    return request.call_id if request.call_id and not request.run_id else request.id


def _value(text: str) -> Json:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _output(call_id: str, output: Json) -> JsonObject:
    value = _value(output) if isinstance(output, str) else output
    return {
        "type": "tool-output-available",
        "toolCallId": call_id,
        "output": value,
        "dynamic": True,
        "providerExecuted": True,
    }


# --- What clients send ---------------------------------------------------------------------------


def approvals_in(messages: list[JsonObject]) -> list[SentDecision]:
    """Return the decisions in a client's messages: all of them, since old ones stay there."""
    found: dict[str, SentDecision] = {}
    for part in _tool_parts(messages, "approval-responded"):
        fields = as_object(part.get("approval")) or {}
        own, approved, reason = (fields.get(name) for name in ("id", "approved", "reason"))
        if isinstance(own, str) and isinstance(approved, bool) and own.startswith("mcpr_"):
            request_id = RequestId.parse(own.partition(_IN_ANSWER)[0])
            said = reason if isinstance(reason, str) and reason else None
            found[own] = SentDecision(request_id, "approve" if approved else "reject", said)
    return list(found.values())


def earlier_calls(message: JsonObject) -> frozenset[str]:
    """Return the ids of the calls in a client's message, without those of its last step."""
    parts = _parts(message)
    begins = [at for at, one in enumerate(parts) if one.get("type") == "step-start"]
    earlier = parts[: begins[-1]] if begins else []
    return frozenset(str(one["toolCallId"]) for one in earlier if "toolCallId" in one)


def _tool_parts(messages: list[JsonObject], state: str) -> Iterator[JsonObject]:
    for message in messages:
        for part in _parts(message) if message.get("role") == "assistant" else ():
            if part.get("state") == state:
                yield part


def _parts(message: JsonObject) -> list[JsonObject]:
    """Return the parts of a message; one that is no object is empty."""
    parts: Any = message.get("parts")
    return [as_object(one) or {} for one in parts] if is_list(parts) else []


def content_of(message: JsonObject) -> list[JsonObject]:
    """Return a user's message as parts of Responses input."""
    found: list[JsonObject] = []
    for part in _parts(message):
        match part.get("type"):
            case "text":
                found.append({"type": "input_text", "text": part.get("text")})
            case "file" if str(part.get("mediaType")).startswith("image/"):
                url = part.get("url")
                if isinstance(url, str):
                    url = with_name(url, str(part.get("filename") or ""))
                found.append({"type": "input_image", "image_url": url, "detail": "auto"})
            case "file":
                name = str(part.get("filename") or "file")
                found.append({"type": "input_file", "file_data": part.get("url"), "filename": name})
            case kind:
                raise UserError(f"A part of a message is a text or a file, not {kind!r:.40}.")
    return found
