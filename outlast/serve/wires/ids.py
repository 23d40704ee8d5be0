"""The ids that clients of the wires have of responses and requests."""

import json
from dataclasses import dataclass
from typing import Any

from outlast.agents.errors import UserError
from outlast.serve.encoding import decoded, encoded
from outlast.serve.wires.steps import GoesOn
from outlast.views.records import ApprovalRequest


@dataclass(frozen=True, slots=True)
class ResponseId:
    """What the id of a response says: it has no secret, since callers are judged, not ids.

    Attributes:
        run_id: the run.
        message_id: the message that the response answers.
        created_at: when it was asked for, in seconds since the epoch.
        goes_on: where the answer goes on after a decision; None otherwise.
    """

    run_id: str
    message_id: str
    created_at: int
    goes_on: GoesOn | None = None

    def __str__(self) -> str:
        """Return the id as clients have it."""
        place = [] if self.goes_on is None else [self.goes_on.event, self.goes_on.decided]
        return "resp_" + spelled([self.run_id, self.message_id, self.created_at, *place])

    @classmethod
    def parse(cls, text: str) -> "ResponseId | None":
        """Read an id; None if it is none."""
        match parsed(text, "resp_"):
            case [str(run_id), str(message_id), int(created)] if run_id:
                return cls(run_id, message_id, created)
            case [str(run_id), str(message_id), int(created), int(event), int(decided)] if run_id:
                return cls(run_id, message_id, created, GoesOn(event, decided))
            case _:
                return None


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """What the id of an A2A task says: a task is the answer to one message of a conversation.

    Attributes:
        run_id: the run, whose id is the `contextId`.
        message_id: the message.
    """

    run_id: str
    message_id: str

    def __str__(self) -> str:
        """Return the id as clients have it."""
        return "task_" + spelled([self.run_id, self.message_id])

    @classmethod
    def parse(cls, text: str) -> "TaskId | None":
        """Read an id; None if it is none."""
        match parsed(text, "task_"):
            case [str(run_id), str(message_id)] if run_id and message_id:
                return cls(run_id, message_id)
            case _:
                return None


@dataclass(frozen=True, slots=True)
class RequestId:
    """What the id of an `mcp_approval_request` says.

    Attributes:
        request_id: the request in its run.
        digest: the beginning of the digest of what the client was shown.
    """

    request_id: str
    digest: str

    def __str__(self) -> str:
        """Return the id as clients have it."""
        return "mcpr_" + spelled([self.request_id, self.digest])

    @classmethod
    def of(cls, request: ApprovalRequest) -> "RequestId":
        """Return the id of a request as it is now."""
        return cls(request.id, request.digest[:16])

    @classmethod
    def parse(cls, text: str) -> "RequestId":
        """Read an id.

        Raises:
            UserError: it is none.
        """
        match parsed(text, "mcpr_"):
            case [str(request_id), str(digest)]:
                return cls(request_id, digest)
            case _:
                raise UserError(
                    f"approval_request_id {text!r:.80} is none of this desk. Send the id of an "
                    "mcp_approval_request as it came."
                )


def spelled(fields: list[Any]) -> str:
    """Return JSON as a text that clients send back as it is."""
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    return encoded(text.encode("utf-8", "replace"))


def parsed(text: str, prefix: str = "") -> Any:
    """Return the JSON of such a text behind a prefix; None if it is none.

    Each id has one spelling: else another text would be the same task.
    """
    content = text.removeprefix(prefix)
    if not text.startswith(prefix) or len(text) > 4_000:
        return None
    try:
        fields = json.loads(decoded(content))
        return fields if spelled(fields) == content else None
    except (ValueError, RecursionError):
        return None
