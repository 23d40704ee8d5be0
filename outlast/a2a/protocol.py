"""The records of the Agent2Agent protocol (A2A), version 1.0, that both of its ends read and write.

They are those of the protocol's own `a2a.proto`, with its JSON names. Fields that neither end uses
are left out: the protocol asks readers to ignore fields that they do not know.
"""

import base64
import re
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, Literal, Self, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from outlast.loop.values import Json, JsonObject

VERSION: Final = "1.0"
VERSION_HEADER: Final = "A2A-Version"
CARD_PATH: Final = "/.well-known/agent-card.json"
MEDIA_TYPE: Final = "application/a2a+json"
OF_FILES: Final = re.compile(r"[A-Za-z0-9.+-]{1,100}/[A-Za-z0-9.+-]{1,100}", re.ASCII)
"""The media types of files that either end takes."""

Role: TypeAlias = Literal["ROLE_USER", "ROLE_AGENT"]

TaskState: TypeAlias = Literal[
    "TASK_STATE_UNSPECIFIED",
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_WORKING",
    "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED",
    "TASK_STATE_CANCELED",
    "TASK_STATE_INPUT_REQUIRED",
    "TASK_STATE_REJECTED",
    "TASK_STATE_AUTH_REQUIRED",
]
TERMINAL: Final[frozenset[TaskState]] = frozenset(
    {
        "TASK_STATE_COMPLETED",
        "TASK_STATE_FAILED",
        "TASK_STATE_CANCELED",
        "TASK_STATE_REJECTED",
    }
)
"""The states in which a task stays."""

INTERRUPTED: Final[frozenset[TaskState]] = frozenset(
    {"TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"}
)
"""The states in which a task waits for its client."""


class Record(BaseModel):
    """A record of the protocol."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, extra="ignore", frozen=True
    )

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        """Read null as a field that is not there, as the protocol's JSON has it."""
        if not isinstance(value, dict):
            return value
        fields = cast("JsonObject", value)
        return {name: one for name, one in fields.items() if one is not None}

    def record(self) -> JsonObject:
        """Return the record as JSON, without fields that were not set."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    @classmethod
    def of(cls, **fields: Any) -> Self:
        """Return a record with the fields that are not None."""
        return cls(**{name: one for name, one in fields.items() if one is not None})


# --- Messages and tasks --------------------------------------------------------------------------


class Part(Record):
    """A part of a message or an artifact: a text, a file as base64 or by its URL, or JSON."""

    text: str | None = None
    raw: str | None = None
    url: str | None = None
    data: Json = None
    filename: str = ""
    media_type: str = ""

    def content(self) -> bytes:
        """Return the bytes of `raw`, whose base64 may be of either alphabet, without padding.

        Raises:
            ValueError: it is no base64.
        """
        text = str(self.raw).replace("-", "+").replace("_", "/")
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)


class Message(Record):
    """A message between a client and an agent."""

    message_id: str
    role: Role
    parts: list[Part] = []
    context_id: str = ""
    task_id: str = ""


class Artifact(Record):
    """A result of a task."""

    artifact_id: str
    parts: list[Part] = []
    name: str = ""
    description: str = ""


class TaskStatus(Record):
    """The state of a task, with what the agent says about it."""

    state: TaskState
    message: Message | None = None
    timestamp: str | None = None


class Task(Record):
    """A piece of work of an agent."""

    id: str
    context_id: str = ""
    status: TaskStatus
    artifacts: list[Artifact] = []


class SendMessageResponse(Record):
    """The answer to a message: a task, or the agent's message where there is no task."""

    task: Task | None = None
    message: Message | None = None


# --- Requests ------------------------------------------------------------------------------------


class PushConfig(Record):
    """Where an agent reports what becomes of a task."""

    url: str
    id: str = ""
    task_id: str = ""
    token: str = ""


class SendConfiguration(Record):
    """How a client wants a message to be taken."""

    return_immediately: bool = False
    task_push_notification_config: PushConfig | None = None


class SendMessageRequest(Record):
    """Sends a message, which begins a task or goes on with one."""

    message: Message
    configuration: SendConfiguration = SendConfiguration()


class TaskRequest(Record):
    """Gets, cancels or subscribes to a task."""

    id: str


class ListTasksRequest(Record):
    """Lists tasks."""

    context_id: str = ""
    status: TaskState = "TASK_STATE_UNSPECIFIED"
    page_size: int = Field(default=50, ge=1, le=100)
    page_token: str = ""
    status_timestamp_after: datetime | None = None
    include_artifacts: bool = False


# --- Cards ---------------------------------------------------------------------------------------


class AgentInterface(Record):
    """An address of an agent, and the binding of the protocol that it speaks there."""

    url: str
    protocol_binding: str
    protocol_version: str = ""
    tenant: str = ""


class AgentCapabilities(Record):
    """What an agent can do beside answering."""

    streaming: bool = False
    push_notifications: bool = False


class AgentSkill(Record):
    """Something that an agent is good at."""

    id: str
    name: str
    description: str
    tags: list[str] = []


class AgentCard(Record):
    """What an agent says about itself: its name, its addresses and how to log in.

    It is the agent's own word: check what it leads to before you follow it.
    """

    name: str
    description: str = ""
    version: str = ""
    supported_interfaces: list[AgentInterface] = []
    capabilities: AgentCapabilities = AgentCapabilities()
    default_input_modes: list[str] = []
    default_output_modes: list[str] = []
    skills: list[AgentSkill] = []
    security_schemes: dict[str, Any] = {}
    security_requirements: list[Any] = []


def timestamp(at_ms: int) -> str:
    """Return a time as the protocol writes it."""
    then = datetime.fromtimestamp(at_ms / 1000, UTC)
    return then.isoformat(timespec="milliseconds").replace("+00:00", "Z")
