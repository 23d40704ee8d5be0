"""The steps of an answer as an A2A task: its artifacts, its status, and the events of a stream."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from outlast.a2a.protocol import (
    Artifact,
    Message,
    Part,
    Task,
    TaskState,
    TaskStatus,
    timestamp,
)
from outlast.serve.cursor import checksum
from outlast.serve.wires.answer_steps import answer_of
from outlast.serve.wires.ids import RequestId, TaskId
from outlast.serve.wires.steps import (
    Finished,
    Reason,
    Step,
    TextBegun,
    TextDone,
    TextPiece,
    TextVoid,
)
from outlast.views.customer import customer_view
from outlast.views.records import ApprovalRequest, Json, JsonObject
from outlast.views.run import RunSnapshot

STATES: Final[dict[Reason, TaskState]] = {
    "answered": "TASK_STATE_COMPLETED",
    "failed": "TASK_STATE_FAILED",
    "cancelled": "TASK_STATE_CANCELED",
    "ended": "TASK_STATE_FAILED",
    "asks": "TASK_STATE_INPUT_REQUIRED",
}

_CUT_SHORT: Final = "This answer was cut short."

_DECIDE: Final = (
    "This needs a decision. Send a message with this taskId and, for each request, a data part with "
    "its requestId and either approve (true or false, with a reason if you like) or response."
)


@dataclass(slots=True)
class _Text:
    text: str = ""
    is_complete: bool = False


class TaskProgress:
    """A task as far as it has been read.

    Each message of the agent is an artifact. While one is written, its artifact grows; where the
    text becomes void, the artifact is replaced by an empty one, and the next text takes its place.

    Args:
        task_id: the task.
        is_team: whether a member of the team reads it, who sees why it failed.

    Attributes:
        state: the state of the task.
        at_ms: since when it may be in that state, in milliseconds since the epoch; 0 if a later
            task of its context is newer.
    """

    def __init__(self, task_id: TaskId, *, is_team: bool) -> None:
        self.state: TaskState = "TASK_STATE_WORKING"
        self.at_ms: int = 0
        self._id = task_id
        self._is_team = is_team
        self._texts: list[_Text] = []
        self._words: list[Json] = []

    def task(self, *, has_artifacts: bool = True) -> Task:
        """Return the task."""
        artifacts = [self._artifact(n, one.text) for n, one in enumerate(self._texts) if one.text]
        return Task.of(
            id=str(self._id),
            context_id=self._id.run_id,
            status=self._status(),
            artifacts=artifacts if has_artifacts else None,
        )

    def take(self, step: Step) -> Iterator[JsonObject]:
        """Take a step, and yield the events that tell a client of it."""
        match step:
            case TextBegun():
                if not self._texts or self._texts[-1].is_complete:
                    self._texts.append(_Text())
            case TextPiece(text=text, whole=whole):
                opened = self._texts[-1]
                is_first, opened.text = not opened.text, whole
                yield self._update(text, append=not is_first)
            case TextVoid():
                opened = self._texts[-1] if self._texts else None
                if opened is not None and not opened.is_complete and opened.text:
                    opened.text = ""
                    yield self._update("", append=False)
            case TextDone(text=text):
                if self._texts[-1].text != text:
                    yield self._update(text, append=False)
                self._texts[-1] = _Text(text, is_complete=True)
                yield self._update("", append=True, last=True)
            case Finished():
                self._finish(step)
                yield self._status_update()
            case _:
                pass  # reasoning, calls and outputs have no place in the protocol

    def settle(self, state: RunSnapshot, trouble: str = "") -> Iterator[JsonObject]:
        """Take what no step tells: what the run waits for, and since when the task is as it is.

        Args:
            state: the run.
            trouble: what keeps it from going on, in words.
        """
        answer = answer_of(state, self._id.message_id)
        if answer is None or answer is state.answers[-1]:
            self.at_ms = state.updated_at_ms
        if self.state != "TASK_STATE_WORKING":
            return
        words: list[Json] = [one for one in (customer_view(state).waits_for, trouble) if one]
        if words != self._words:
            self._words = words
            yield self._status_update()

    def _finish(self, step: Finished) -> None:
        self.state = STATES[step.reason]
        if step.reason in {"failed", "ended"}:
            self._words = [step.words(is_team=self._is_team)]
        elif step.reason == "asks":
            self._words = [_DECIDE, {"requests": [_request(one) for one in step.requests]}]
        else:
            self._words = [_CUT_SHORT] if step.is_cut_short else []

    def _status(self) -> TaskStatus:
        said = None
        if self._words:
            parts = [
                Part(text=one) if isinstance(one, str) else Part(data=one) for one in self._words
            ]
            said = Message(
                message_id=f"status-{checksum(str(self._words))}",
                role="ROLE_AGENT",
                parts=parts,
                task_id=str(self._id),
                context_id=self._id.run_id,
            )
        at = timestamp(self.at_ms) if self.at_ms else None
        return TaskStatus.of(state=self.state, message=said, timestamp=at)

    def _artifact(self, number: int, text: str) -> Artifact:
        parts = [Part(text=text, media_type="text/plain")]
        return Artifact(artifact_id=f"message-{number + 1}", parts=parts)

    def _update(self, text: str, *, append: bool, last: bool = False) -> JsonObject:
        artifact = self._artifact(len(self._texts) - 1, text).record()
        update = self._event(artifact=artifact, append=append, lastChunk=last)
        return {"artifactUpdate": update}

    def _status_update(self) -> JsonObject:
        return {"statusUpdate": self._event(status=self._status().record())}

    def _event(self, **fields: Json) -> JsonObject:
        return {"taskId": str(self._id), "contextId": self._id.run_id, **fields}


def _request(request: ApprovalRequest) -> JsonObject:
    return {
        "requestId": str(RequestId.of(request)),
        "tool": request.name,
        "arguments": request.arguments,
        "reason": request.reason,
        "allows": list(request.terms.allow),
    }
