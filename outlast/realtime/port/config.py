"""The settings of realtime sessions and runs, and the user's input."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, Protocol, TypeAlias, TypedDict

from outlast.agents.config.model_settings import ToolChoice
from outlast.agents.config.run_config import ToolErrorFormatter
from outlast.agents.guardrails.guardrail import OutputGuardrail
from outlast.agents.handoffs.handoff import Handoff
from outlast.agents.prompt import Prompt
from outlast.agents.tools.hosted import Tool
from outlast.ports.model import ToolSpec

RealtimeModelName: TypeAlias = str
"""The name of a realtime model, such as `gpt-realtime-2.1`."""


class AudioFormatRecord(Protocol):
    """An audio format as a record of the `openai` package, such as `AudioPCM`."""

    @property
    def type(self) -> str | None:
        """The format's name, such as `audio/pcm`."""
        ...


RealtimeAudioFormat: TypeAlias = str | Mapping[str, Any] | AudioFormatRecord
"""The format of audio: `pcm16`, `g711_ulaw`, `g711_alaw`, a mapping with `type`, or a record."""


class RealtimeCustomVoice(TypedDict):
    """A custom voice of the provider."""

    id: str


RealtimeVoice: TypeAlias = str | RealtimeCustomVoice | Mapping[str, Any]
"""The voice of the answers: the name of a voice, or a custom voice."""

RealtimeReasoningEffort: TypeAlias = str
"""How much a realtime model reasons: `minimal`, `low`, `medium`, `high` or `xhigh`."""


class RealtimeClientMessage(TypedDict):
    """A message to the provider in the provider's own format."""

    type: str
    other_data: NotRequired[dict[str, Any]]


class RealtimeInputAudioTranscriptionConfig(TypedDict):
    """The transcription of the user's words.

    Attributes:
        model: the transcription model, such as `gpt-4o-mini-transcribe` or `whisper-1`.
        keywords: terms that the audio may contain.
        delay: the balance of latency and accuracy for a transcript that is streamed.
    """

    language: NotRequired[str]
    model: NotRequired[str]
    prompt: NotRequired[str]
    keywords: NotRequired[list[str]]
    languages: NotRequired[list[str]]
    delay: NotRequired[Literal["minimal", "low", "medium", "high", "xhigh"]]


class RealtimeInputAudioNoiseReductionConfig(TypedDict):
    """The noise reduction of the input audio.

    Attributes:
        type: `near_field` for headsets, `far_field` for microphones of rooms and laptops.
    """

    type: NotRequired[Literal["near_field", "far_field"]]


class RealtimeTurnDetectionConfig(TypedDict):
    """How the provider notices that the user starts and stops speaking.

    Attributes:
        type: `semantic_vad` judges the words, `server_vad` the volume.
        create_response: whether the end of the user's speech starts a response.
        eagerness: how soon `semantic_vad` takes a pause for the end.
        interrupt_response: whether the user's speech stops the response in progress.
        prefix_padding_ms: the audio to keep before the speech that was detected.
        silence_duration_ms: the silence that ends the user's turn.
        threshold: the volume that counts as speech.
        idle_timeout_ms: the silence of the user after which `server_vad` starts a response.
    """

    type: NotRequired[Literal["semantic_vad", "server_vad"]]
    create_response: NotRequired[bool]
    eagerness: NotRequired[Literal["auto", "low", "medium", "high"]]
    interrupt_response: NotRequired[bool]
    prefix_padding_ms: NotRequired[int]
    silence_duration_ms: NotRequired[int]
    threshold: NotRequired[float]
    idle_timeout_ms: NotRequired[int]
    model_version: NotRequired[str]


class RealtimeAudioInputConfig(TypedDict, total=False):
    """The settings of the user's audio.

    Attributes:
        noise_reduction: the noise reduction; None switches it off.
        turn_detection: the detection of turns; None switches it off.
    """

    format: RealtimeAudioFormat
    noise_reduction: RealtimeInputAudioNoiseReductionConfig | None
    transcription: RealtimeInputAudioTranscriptionConfig
    turn_detection: RealtimeTurnDetectionConfig | None


class RealtimeAudioOutputConfig(TypedDict, total=False):
    """The settings of the model's audio.

    Attributes:
        voice: the voice, which cannot change after the model has spoken.
        speed: the speed of the speech; 1.0 is normal.
    """

    format: RealtimeAudioFormat
    voice: RealtimeVoice
    speed: float


class RealtimeAudioConfig(TypedDict, total=False):
    """The audio settings of a realtime session."""

    input: RealtimeAudioInputConfig
    output: RealtimeAudioOutputConfig


class RealtimeReasoningConfig(TypedDict, total=False):
    """The reasoning of a realtime model."""

    effort: RealtimeReasoningEffort


class RealtimeModelTracingConfig(TypedDict):
    """The provider's own trace of a realtime session.

    Attributes:
        group_id: an id that joins several traces.
    """

    workflow_name: NotRequired[str]
    group_id: NotRequired[str]
    metadata: NotRequired[dict[str, Any]]


class RealtimeSessionModelSettings(TypedDict):
    """The settings of a session with a realtime model.

    Attributes:
        modalities: `output_modalities` under its earlier name.
        audio: the audio settings, which precede the single ones below.
        max_output_tokens: the limit for one answer with its tool calls, from 1 to 4096 or `inf`.
        input_audio_noise_reduction: the noise reduction; None switches it off.
        turn_detection: the detection of turns; None switches it off.
        tracing: the provider's own trace; None switches it off.
    """

    model_name: NotRequired[RealtimeModelName]
    instructions: NotRequired[str]
    prompt: NotRequired[Prompt]
    modalities: NotRequired[list[Literal["text", "audio"]]]
    output_modalities: NotRequired[list[Literal["text", "audio"]]]
    audio: NotRequired[RealtimeAudioConfig]
    voice: NotRequired[RealtimeVoice]
    speed: NotRequired[float]
    max_output_tokens: NotRequired[int | Literal["inf"]]
    input_audio_format: NotRequired[RealtimeAudioFormat]
    output_audio_format: NotRequired[RealtimeAudioFormat]
    input_audio_transcription: NotRequired[RealtimeInputAudioTranscriptionConfig]
    input_audio_noise_reduction: NotRequired[RealtimeInputAudioNoiseReductionConfig | None]
    turn_detection: NotRequired[RealtimeTurnDetectionConfig | None]
    tool_choice: NotRequired[ToolChoice]
    parallel_tool_calls: NotRequired[bool]
    reasoning: NotRequired[RealtimeReasoningConfig]
    tools: NotRequired[Sequence[Tool | ToolSpec]]
    handoffs: NotRequired[Sequence[Handoff[Any, Any]]]
    tracing: NotRequired[RealtimeModelTracingConfig | None]


class RealtimeGuardrailsSettings(TypedDict):
    """When the output guardrails of a realtime run are called.

    Attributes:
        debounce_text_length: the number of characters of an answer after which guardrails run,
            and after which they run again. Default: 100.
    """

    debounce_text_length: NotRequired[int]


class RealtimeToolExecutionConfig(TypedDict):
    """How a realtime run carries out tool calls.

    Attributes:
        pre_approval_tool_input_guardrails: whether the guardrails of a tool's arguments run before
            a person is asked for approval. They run again before the tool does.
    """

    pre_approval_tool_input_guardrails: NotRequired[bool]


class RealtimeRunConfig(TypedDict):
    """The settings of a realtime run.

    Attributes:
        output_guardrails: guardrails for the answers of every agent.
        async_tool_calls: whether tools run while the conversation goes on. Default: true.
        tool_error_formatter: a function that writes what the model reads of a tool's error.
    """

    model_settings: NotRequired[RealtimeSessionModelSettings]
    output_guardrails: NotRequired[list[OutputGuardrail[Any]]]
    guardrails_settings: NotRequired[RealtimeGuardrailsSettings]
    tracing_disabled: NotRequired[bool]
    async_tool_calls: NotRequired[bool]
    tool_execution: NotRequired[RealtimeToolExecutionConfig]
    tool_error_formatter: NotRequired[ToolErrorFormatter]


class RealtimeUserInputText(TypedDict):
    """A text in a message of the user."""

    type: Literal["input_text"]
    text: str


class RealtimeUserInputImage(TypedDict):
    """An image in a message of the user.

    Attributes:
        image_url: the image's address, or a `data:` URL with the image.
        detail: the resolution at which the model sees the image: `auto`, `low` or `high`.
    """

    type: Literal["input_image"]
    image_url: str
    detail: NotRequired[str]


class RealtimeUserInputMessage(TypedDict):
    """A message of the user."""

    type: Literal["message"]
    role: Literal["user"]
    content: list[RealtimeUserInputText | RealtimeUserInputImage]


RealtimeUserInput: TypeAlias = str | RealtimeUserInputMessage
"""The user's input: a text, or a message with texts and images."""
