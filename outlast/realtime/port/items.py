"""The items of a realtime conversation: messages and tool calls."""

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field


class _Record(BaseModel):
    """A record that keeps the fields that it does not name."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")


class InputText(_Record):
    """A text from the user or the system."""

    type: Literal["input_text"] = "input_text"
    text: str | None = None


class InputAudio(_Record):
    """Audio from the user.

    Attributes:
        audio: the audio data in base64, if the provider sends it.
    """

    type: Literal["input_audio"] = "input_audio"
    audio: str | None = None
    transcript: str | None = None


class InputImage(_Record):
    """An image from the user.

    Attributes:
        image_url: the image's address, or a `data:` URL with the image.
    """

    type: Literal["input_image"] = "input_image"
    image_url: str | None = None
    detail: str | None = None


class AssistantText(_Record):
    """A text from the model."""

    type: Literal["text"] = "text"
    text: str | None = None


class AssistantAudio(_Record):
    """Audio from the model.

    Attributes:
        audio: the audio data in base64, if the provider sends it.
    """

    type: Literal["audio"] = "audio"
    audio: str | None = None
    transcript: str | None = None


class _Item(_Record):
    item_id: str
    previous_item_id: str | None = None


class SystemMessageItem(_Item):
    """A message from the system."""

    type: Literal["message"] = "message"
    role: Literal["system"] = "system"
    content: list[InputText]


class UserMessageItem(_Item):
    """A message from the user."""

    type: Literal["message"] = "message"
    role: Literal["user"] = "user"
    content: list[Annotated[InputText | InputAudio | InputImage, Field(discriminator="type")]]


class AssistantMessageItem(_Item):
    """A message from the model.

    Attributes:
        status: whether the message is complete; `incomplete` means that it was cut off.
    """

    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    status: Literal["in_progress", "completed", "incomplete"] | None = None
    content: list[Annotated[AssistantText | AssistantAudio, Field(discriminator="type")]]


RealtimeMessageItem: TypeAlias = Annotated[
    SystemMessageItem | UserMessageItem | AssistantMessageItem,
    Field(discriminator="role"),
]
"""A message from the system, the user or the model."""


class RealtimeToolCallItem(_Item):
    """A tool call of the model, and its output.

    Attributes:
        status: `in_progress` until there is an output.
    """

    call_id: str | None
    type: Literal["function_call"] = "function_call"
    status: Literal["in_progress", "completed"]
    arguments: str
    name: str
    output: str | None = None


RealtimeItem: TypeAlias = RealtimeMessageItem | RealtimeToolCallItem
"""An item of a realtime conversation: a message or a tool call."""


class RealtimeResponse(BaseModel):
    """A response of a realtime model."""

    id: str
    output: list[RealtimeMessageItem]
