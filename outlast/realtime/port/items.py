"""The items of a realtime conversation: messages and tool calls."""

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field


class _Record(BaseModel):
    """A record that keeps the fields that it does not name."""

    model_config = ConfigDict(extra="allow")


class InputText(_Record):
    """A text from the user or the system.

    Attributes:
        type: the type of the content.
        text: the text.
    """

    type: Literal["input_text"] = "input_text"
    text: str | None = None


class InputAudio(_Record):
    """Audio from the user.

    Attributes:
        type: the type of the content.
        audio: the audio data in base64, if the provider sends it.
        transcript: the transcript of the audio, as soon as there is one.
    """

    type: Literal["input_audio"] = "input_audio"
    audio: str | None = None
    transcript: str | None = None


class InputImage(_Record):
    """An image from the user.

    Attributes:
        type: the type of the content.
        image_url: the image's address, or a `data:` URL with the image.
        detail: the resolution at which the model sees the image.
    """

    type: Literal["input_image"] = "input_image"
    image_url: str | None = None
    detail: str | None = None


class AssistantText(_Record):
    """A text from the model.

    Attributes:
        type: the type of the content.
        text: the text.
    """

    type: Literal["text"] = "text"
    text: str | None = None


class AssistantAudio(_Record):
    """Audio from the model.

    Attributes:
        type: the type of the content.
        audio: the audio data in base64, if the provider sends it.
        transcript: the transcript of the audio.
    """

    type: Literal["audio"] = "audio"
    audio: str | None = None
    transcript: str | None = None


class SystemMessageItem(_Record):
    """A message from the system.

    Attributes:
        item_id: the provider's id of the item.
        previous_item_id: the id of the item before it.
        type: the type of the item.
        role: the sender.
        content: the texts of the message.
    """

    item_id: str
    previous_item_id: str | None = None
    type: Literal["message"] = "message"
    role: Literal["system"] = "system"
    content: list[InputText]


class UserMessageItem(_Record):
    """A message from the user.

    Attributes:
        item_id: the provider's id of the item.
        previous_item_id: the id of the item before it.
        type: the type of the item.
        role: the sender.
        content: the texts, audio and images of the message.
    """

    item_id: str
    previous_item_id: str | None = None
    type: Literal["message"] = "message"
    role: Literal["user"] = "user"
    content: list[Annotated[InputText | InputAudio | InputImage, Field(discriminator="type")]]


class AssistantMessageItem(_Record):
    """A message from the model.

    Attributes:
        item_id: the provider's id of the item.
        previous_item_id: the id of the item before it.
        type: the type of the item.
        role: the sender.
        status: whether the message is complete; `incomplete` means that it was cut off.
        content: the texts and audio of the message.
    """

    item_id: str
    previous_item_id: str | None = None
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    status: Literal["in_progress", "completed", "incomplete"] | None = None
    content: list[Annotated[AssistantText | AssistantAudio, Field(discriminator="type")]]


RealtimeMessageItem: TypeAlias = Annotated[
    SystemMessageItem | UserMessageItem | AssistantMessageItem,
    Field(discriminator="role"),
]
"""A message from the system, the user or the model."""


class RealtimeToolCallItem(_Record):
    """A tool call of the model, and its output.

    Attributes:
        item_id: the provider's id of the item.
        previous_item_id: the id of the item before it.
        call_id: the provider's id of the call, which its output refers to.
        type: the type of the item.
        status: `in_progress` until there is an output.
        arguments: the arguments as JSON text.
        name: the tool's name.
        output: the tool's output.
    """

    item_id: str
    previous_item_id: str | None = None
    call_id: str | None
    type: Literal["function_call"] = "function_call"
    status: Literal["in_progress", "completed"]
    arguments: str
    name: str
    output: str | None = None


RealtimeItem: TypeAlias = RealtimeMessageItem | RealtimeToolCallItem
"""An item of a realtime conversation: a message or a tool call."""


class RealtimeResponse(BaseModel):
    """A response of a realtime model.

    Attributes:
        id: the provider's id of the response.
        output: the messages of the response.
    """

    id: str
    output: list[RealtimeMessageItem]
