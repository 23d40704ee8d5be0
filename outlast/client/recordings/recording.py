"""What a run did, as one JSON document: the schema of recordings, version 1.

`docs/how-to/export.md` describes the fields for readers of the documents.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias, cast, get_args

from outlast.agents.errors import UserError
from outlast.contract.names import ListedStatus
from outlast.contract.records import UnreadableRecordError, adapter, read, write
from outlast.edges.bodies import DOORS, BodyRefused
from outlast.loop.redacted import Redacted
from outlast.loop.values import Failure, Json, JsonObject

FORMAT: Final = "outlast.recording"
VERSION: Final = 1

StepKind: TypeAlias = Literal[
    "prepared", "model", "tool", "agent", "handoff", "input_check", "answer_check", "summary"
]
"""What a worker carried out."""

OutsideKind: TypeAlias = Literal[
    "message", "action", "delivery", "time", "cancel", "retry", "withdraw"
]
"""What people or programs sent, or that a time came."""

EntryKind: TypeAlias = Literal[StepKind, OutsideKind, "request", "line", "answer", "end", "lost"]
"""What an entry is about: a message, a step of the run with its result, or something from outside."""

STEPS: Final[frozenset[EntryKind]] = frozenset(get_args(StepKind))
FROM_OUTSIDE: Final[frozenset[EntryKind]] = frozenset(get_args(OutsideKind))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that happened in a run. Fields that an entry does not need are left out.

    Attributes:
        kind: what the entry is about.
        at_ms: when it happened, in milliseconds since the epoch.
        question: how many questions of the run were settled before.
        turn: the number of model calls for the question, of steps in a turn.
        agent: the agent that did it.
        name: the tool, the handoff, the person's action, the wait, the stage of a guardrail, how a
            message is sent, or how the run ended.
        target: the agent that takes over or is used as a tool; the tool of a wait.
        call_id: the model's id of the call.
        arguments: the arguments of the call, as JSON text.
        items: the content of a message, in the format of OpenAI's Responses API.
        result: the record of a step's result, or of a person's action.
        failure: why a step, a question or the run failed.
        value: the value of a delivery, an answer, or who decided about a request, in order.
        id: the id of a message, a request or a lost history.
        run_id: the nested run of an agent that is used as a tool.
        by: who did it, in their own words.
        verified: a worker has verified who did it.
        approved: people approved the call before it ran, or the request.
    """

    kind: EntryKind
    at_ms: int
    question: int = 0
    turn: int = 0
    agent: str = ""
    name: str = ""
    target: str = ""
    call_id: str = ""
    arguments: str = ""
    items: tuple[JsonObject, ...] = ()
    result: JsonObject | None = None
    failure: Failure | None = None
    value: Json = None
    id: str = ""
    run_id: str = ""
    by: str = ""
    verified: bool = False
    approved: bool = False

    @property
    def is_begun(self) -> bool:
        """Whether a model call only began a response in the background, as older files tell."""
        return self.kind == "model" and bool((self.result or {}).get("begun"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStart:
    """How a run was started.

    Attributes:
        agent: the starting agent.
        context: the application's context as JSON.
        context_type: the registered name of the context's type.
        max_turns: the maximum number of model calls for one answer; None for no limit.
        keep_open: whether the run takes further messages after an answer.
        settings: the run's settings, without those of its session, hooks and trace.
        handled: codes of the failures that a handler of the run's program may turn into answers.
    """

    agent: str
    context: Json = None
    context_type: str | None = None
    max_turns: int | None = None
    keep_open: bool = False
    settings: JsonObject | None = None
    handled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A run as a document.

    Attributes:
        run_id: the run's id.
        execution_id: the id of its newest execution in Temporal; empty without a server.
        status: the status of the run when it was read.
        complete: the run has ended, so nothing will be added.
        starts_late: the beginning of the run is no longer retained, or is that of another run, which
            it was forked from: it cannot be replayed. An entry of the kind `lost` is where histories
            are missing, there or later.
        redacted: values that policies redact are replaced by `[redacted]`.
        start: how it was started.
        entries: what happened, in order.
        rating: what the customer thought of it, the score and the words; None without a rating.
        hidden: the values that the run's parent hides, for redacting; they are not written.
    """

    run_id: str
    execution_id: str = ""
    status: ListedStatus
    complete: bool
    starts_late: bool = False
    redacted: bool = False
    start: RecordedStart
    entries: tuple[Entry, ...]
    rating: JsonObject | None = None
    hidden: tuple[Redacted, ...] = field(default=(), compare=False, repr=False)

    def record(self) -> JsonObject:
        """Return the document as JSON."""
        head: JsonObject = {"format": FORMAT, "version": VERSION}
        body: JsonObject = {
            "run_id": self.run_id,
            "execution_id": self.execution_id,
            "status": self.status,
            "complete": self.complete,
            "starts_late": self.starts_late,
            "redacted": self.redacted,
            "start": write(self.start),
            "entries": [write(one) for one in self.entries],
        }
        if self.rating is not None:
            body["rating"] = self.rating
        return head | body

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the document as JSON text: one line, unless `indent` says otherwise."""
        return json.dumps(self.record(), ensure_ascii=False, indent=indent)

    @classmethod
    def from_json(cls, document: str | bytes | JsonObject, *, name: str = "") -> "Recording":
        """Read a document.

        Args:
            document: JSON text, or the JSON itself.
            name: names the document in errors, such as a file.

        Raises:
            UserError: it is no recording, or a newer version of outlast made it.
        """
        where = name or "The document"
        if isinstance(document, str | bytes):
            try:
                document = DOORS["recording"].parse(document)
            except BodyRefused as error:
                raise UserError(f"{where} cannot be read: {error}") from None
            except (ValueError, RecursionError) as error:
                raise UserError(f"{where} is not JSON: {error!s:.200}") from error
        document = document if isinstance(document, dict) else {}
        if document.get("format") != FORMAT:
            raise UserError(
                f"{where} is no recording: it lacks "
                f'"format": "{FORMAT}". Make one with `outlast record ID`.'
            )
        version = document.get("version")
        if version != VERSION:
            raise UserError(
                f"{where} has version {version!r:.40} of the format {FORMAT}; this version of "
                f"outlast reads version {VERSION}. Upgrade outlast, or record the run again."
            )
        try:
            fields = {key: document[key] for key in document if key not in {"format", "version"}}
            recording = read(cls, fields)
        except UnreadableRecordError as error:
            raise UserError(f"{where} is a damaged recording: {error}") from error
        return recording

    @property
    def lost(self) -> tuple[str, ...]:
        """The histories that were lost before the run was read, each the last of a gap."""
        return tuple(one.id for one in self.entries if one.kind == "lost")

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents that did something, in the order of their first step."""
        return tuple(dict.fromkeys(one.agent for one in self.entries if one.agent))

    def with_entries(self, entries: Sequence[Entry]) -> "Recording":
        """Return the recording with other entries."""
        return replace(self, entries=tuple(entries))


def json_schema() -> JsonObject:
    """Return the JSON Schema of a recording."""
    schema: JsonObject = adapter(Recording).json_schema()
    properties = cast("JsonObject", schema["properties"])
    schema["properties"] = {
        "format": {"const": FORMAT},
        "version": {"const": VERSION},
        **properties,
    }
    schema["required"] = ["format", "version", *schema["required"]]
    return schema


KINDS: Final[tuple[EntryKind, ...]] = get_args(EntryKind)
