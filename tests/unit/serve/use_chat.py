"""The message that a client of the Vercel AI SDK makes of a stream, as strict as the real one."""

from dataclasses import dataclass, field
from typing import Any

from outlast.loop.values import JsonObject


@dataclass
class Message:
    """The assistant's message of a chat.

    Attributes:
        id: its id.
        parts: its parts, with the beginnings of steps.
        finish: why the stream ended; empty while it has not.
        errors: what went wrong, in words.
    """

    id: str = ""
    parts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    finish: str = ""
    errors: list[str] = field(default_factory=list[str])
    _open: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    _in_step: bool = False

    def take(self, chunk: JsonObject) -> None:
        """Take a chunk.

        Raises:
            AssertionError: the real client would fail, or would show a broken message.
        """
        assert not self.finish, "nothing follows the end"
        kind = str(chunk["type"])
        if kind == "start":
            self.id = str(chunk["messageId"])
        elif kind == "error":
            self.errors.append(str(chunk["errorText"]))
        elif kind.startswith("tool-"):
            self._take_tool(kind, chunk)
        elif kind.startswith(("text-", "reasoning-")):
            self._take_text(kind, chunk)
        elif kind not in {"abort", "data-outlast"}:
            self._take_step(kind, chunk)

    def _take_step(self, kind: str, chunk: JsonObject) -> None:
        match kind:
            case "start-step":
                assert not self._in_step
                self._in_step = True
                self.parts.append({"type": "step-start"})
            case "finish-step":
                assert self._in_step
                assert not self._open, "each text is closed before its step"
                self._in_step = False
            case "reset-step":
                at = max(i for i, one in enumerate(self.parts) if one["type"] == "step-start")
                lost = self.parts[at + 1 :]
                assert all(one["type"] == "text" for one in lost), "only a void text disappears"
                del self.parts[at + 1 :]
                self._open.clear()
            case "finish":
                assert not self._open
                assert not self._in_step
                self.finish = str(chunk["finishReason"])
            case _:
                raise AssertionError(f"the client does not know {kind}")

    def _take_text(self, kind: str, chunk: JsonObject) -> None:
        what, _, which = kind.partition("-")
        own = f"{what} {chunk['id']}"
        match which:
            case "start":
                assert self._in_step
                assert own not in self._open
                self._open[own] = {"type": what, "text": "", "state": "streaming"}
                self.parts.append(self._open[own])
            case "delta":
                self._open[own]["text"] += chunk["delta"]
            case "end":
                self._open.pop(own)["state"] = "done"
            case _:
                raise AssertionError(f"the client does not know {kind}")

    def _take_tool(self, kind: str, chunk: JsonObject) -> None:
        match kind:
            case "tool-input-available":
                own = (one for one in self._step_parts if one.get("id") == chunk["toolCallId"])
                assert not [*own], "the client writes over a call of this step with the same id"
                part = {"type": "tool", "name": chunk["toolName"], "input": chunk["input"]}
                self.parts.append({**part, "id": chunk["toolCallId"], "state": "input"})
            case "tool-approval-request":
                self._tool(chunk).update(state="asked", approval=chunk["approvalId"])
            case "tool-approval-response":
                own = chunk["approvalId"]
                [part] = [one for one in self.parts if one.get("approval") == own]
                part.update(state="decided", approved=chunk["approved"])
            case "tool-output-available":
                self._tool(chunk).update(state="output", output=chunk["output"])
            case "tool-output-denied":
                self._tool(chunk).update(state="denied")
            case _:
                raise AssertionError(f"the client does not know {kind}")

    def _tool(self, chunk: JsonObject) -> dict[str, Any]:
        [*_, part] = [one for one in self.parts if one.get("id") == chunk["toolCallId"]]
        return part

    @property
    def _step_parts(self) -> list[dict[str, Any]]:
        at = max(i for i, one in enumerate(self.parts) if one["type"] == "step-start")
        return self.parts[at + 1 :]

    @property
    def texts(self) -> list[str]:
        """The texts that are complete, in order."""
        texts = (one for one in self.parts if one["type"] == "text")
        return [one["text"] for one in texts if one["state"] == "done"]

    @property
    def shown(self) -> list[dict[str, Any]]:
        """The parts without steps."""
        return [one for one in self.parts if one["type"] != "step-start"]
