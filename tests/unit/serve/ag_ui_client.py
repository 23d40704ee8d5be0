"""A client of AG-UI in Python: the rules and the reducer of `@ag-ui/client` 1.0, as far as we use them.

`tests/clients` has the real one. This one is for thousands of streams in a second.
"""

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ag_ui.core import Event
from pydantic import TypeAdapter

EVENT: TypeAdapter[Any] = TypeAdapter(Event)

Fields = dict[str, Any]


@dataclass
class Client:
    """What a front end has, from what it got.

    Attributes:
        messages: the messages, as the protocol writes them.
        state: the shared state.
        interrupts: what the client is asked; it refuses everything else until that is answered.
        outcomes: how the runs of the protocol have ended.
        types: the types of all events.
        errors: the messages of RUN_ERROR.
    """

    messages: list[Fields] = field(default_factory=list[Fields])
    state: Any = None
    interrupts: list[Fields] = field(default_factory=list[Fields])
    outcomes: list[str] = field(default_factory=list[str])
    types: list[str] = field(default_factory=list[str])
    errors: list[str] = field(default_factory=list[str])
    _phase: str = "new"
    _open: set[str] = field(default_factory=set[str])
    _calls: set[str] = field(default_factory=set[str])

    def connect(self) -> None:
        """Begin another stream: the rules count for each, the messages stay."""
        self._phase = "new"
        self._open.clear()
        self._calls.clear()

    def take_all(self, events: Iterable[Any]) -> None:
        for event in events:
            self.take(event)

    def take(self, event: Any) -> None:
        """Take an event, if the protocol allows it there."""
        fields: Fields = event.model_dump(by_alias=True)
        EVENT.validate_python(fields)
        kind = str(getattr(fields["type"], "value", fields["type"]))
        self.types.append(kind)
        self._check_order(kind)
        getattr(self, f"_{kind.lower()}")(fields)

    def message(self, own: str) -> Fields | None:
        return next((one for one in self.messages if one["id"] == own), None)

    def texts(self, role: str = "assistant") -> list[str]:
        """Return the texts of messages, in order."""
        return [
            one["content"] for one in self.messages if one["role"] == role and one.get("content")
        ]

    def calls(self) -> list[Fields]:
        """Return all tool calls."""
        return [call for one in self.messages for call in one.get("toolCalls") or ()]

    def _check_order(self, kind: str) -> None:
        if self._phase == "new":
            assert kind in {"RUN_STARTED", "RUN_ERROR"}, f"{kind} comes first"
        if self._phase == "failed":
            assert kind == "RUN_STARTED", f"{kind} after RUN_ERROR"
        if self._phase == "finished":
            assert kind in {"RUN_STARTED", "RUN_ERROR"}, f"{kind} after RUN_FINISHED"
        if self._phase == "running":
            assert kind != "RUN_STARTED", "a run begins in a run"

    def _run_started(self, _event: Fields) -> None:
        self._phase = "running"
        self._open.clear()
        self._calls.clear()

    def _run_finished(self, event: Fields) -> None:
        assert not self._open, f"messages are open: {self._open}"
        assert not self._calls, f"calls are open: {self._calls}"
        self._phase = "finished"
        outcome: Fields = event.get("outcome") or {"type": "success"}
        self.outcomes.append(outcome["type"])
        self.interrupts = outcome.get("interrupts", [])

    def _run_error(self, event: Fields) -> None:
        self._phase = "failed"
        self.outcomes.append("error")
        self.errors.append(event["message"])

    def _text_message_start(self, event: Fields) -> None:
        own = event["messageId"]
        assert own not in self._open
        self._open.add(own)
        if self.message(own) is None:
            role = event.get("role") or "assistant"
            self.messages.append({"id": own, "role": role, "content": ""})

    def _text_message_content(self, event: Fields) -> None:
        own = event["messageId"]
        assert own in self._open
        assert event["delta"]
        message = self.message(own)
        assert message is not None
        message["content"] = (message.get("content") or "") + event["delta"]

    def _text_message_end(self, event: Fields) -> None:
        self._open.remove(event["messageId"])

    def _tool_call_start(self, event: Fields) -> None:
        own, parent = event["toolCallId"], event["parentMessageId"]
        assert own not in self._calls
        self._calls.add(own)
        message = self.message(parent)
        if message is None:
            message = Fields(id=parent, role="assistant", content=None)
            self.messages.append(message)
        function = {"name": event["toolCallName"], "arguments": ""}
        calls: list[Fields] = message.setdefault("toolCalls", [])
        assert all(one["id"] != own for one in self.calls())
        calls.append({"id": own, "type": "function", "function": function})

    def _tool_call_args(self, event: Fields) -> None:
        assert event["toolCallId"] in self._calls
        [call] = [one for one in self.calls() if one["id"] == event["toolCallId"]]
        call["function"]["arguments"] += event["delta"]

    def _tool_call_end(self, event: Fields) -> None:
        self._calls.remove(event["toolCallId"])

    def _tool_call_result(self, event: Fields) -> None:
        result = {
            "id": event["messageId"],
            "role": "tool",
            "toolCallId": event["toolCallId"],
            "content": event["content"],
        }
        owners = [
            at
            for at, one in enumerate(self.messages)
            if any(call["id"] == event["toolCallId"] for call in one.get("toolCalls") or ())
        ]
        at = owners[0] + 1 if owners else len(self.messages)
        while owners and at < len(self.messages) and self.messages[at]["role"] == "tool":
            at += 1
        self.messages.insert(at, result)

    def _messages_snapshot(self, event: Fields) -> None:
        new = {one["id"]: copy.deepcopy(one) for one in event["messages"]}
        assert len(new) == len(event["messages"])
        kept = [
            new.pop(one["id"], one)
            for one in self.messages
            if one["id"] in new or one["role"] == "activity"
        ]
        self.messages = [*kept, *new.values()]

    def _state_snapshot(self, event: Fields) -> None:
        self.state = event["snapshot"]

    def _state_delta(self, event: Fields) -> None:
        [change] = event["delta"]
        assert (change["op"], change["path"]) == ("add", "/outlast")
        self.state["outlast"] = change["value"]

    def _activity_snapshot(self, event: Fields) -> None:
        activity = {
            "id": event["messageId"],
            "role": "activity",
            "activityType": event["activityType"],
            "content": event["content"],
        }
        before = self.message(event["messageId"])
        if before is None:
            self.messages.append(activity)
        else:
            before.update(activity)
