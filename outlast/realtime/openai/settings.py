"""Converts the settings of a realtime session to the session object of OpenAI's Realtime API."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from pydantic.alias_generators import to_snake

from outlast.agents.callables import shown
from outlast.agents.config.model_settings import MCPToolChoice
from outlast.agents.errors import UserError
from outlast.agents.handoffs.handoff import Handoff
from outlast.agents.json_values import as_object
from outlast.agents.prompt import Prompt
from outlast.agents.tools.definition import FunctionTool
from outlast.agents.tools.local import LocalTool
from outlast.loop.values import JsonObject
from outlast.ports.model import ToolSpec
from outlast.ports.model_arguments import function_specs
from outlast.realtime.port.audio import ALAW_NAMES, PCM_NAMES, PCM_RATE, ULAW_NAMES, format_name
from outlast.realtime.port.config import (
    RealtimeAudioFormat,
    RealtimeSessionModelSettings,
)

if TYPE_CHECKING:
    from openai.types.realtime.realtime_audio_formats import RealtimeAudioFormats

DEFAULT_REALTIME_MODEL = "gpt-realtime-2.1"
"""The model of sessions whose settings name none, as in the Agents SDK."""

DEFAULT_MODEL_SETTINGS: RealtimeSessionModelSettings = {
    "voice": "ash",
    "modalities": ["audio"],
    "input_audio_format": "pcm16",
    "output_audio_format": "pcm16",
    "input_audio_transcription": {"model": "gpt-4o-mini-transcribe"},
    "turn_detection": {"type": "semantic_vad", "interrupt_response": True},
}
"""The settings of sessions that set none, as in the Agents SDK."""

_MODES = frozenset({"auto", "none", "required"})


def session_object(
    settings: RealtimeSessionModelSettings, *, model: str | None, attached: bool = False
) -> JsonObject:
    """Return the session object of a `session.update` message.

    A session that is attached belongs to a call that someone else has set up: its audio formats
    stay as they are unless the settings name others.

    Raises:
        UserError: a setting has a value that the API cannot express.
    """
    session: JsonObject = {
        "type": "realtime",
        "output_modalities": settings.get("output_modalities")
        or settings.get("modalities")
        or DEFAULT_MODEL_SETTINGS.get("modalities"),
        "audio": {
            "input": _input(settings, attached=attached),
            "output": _output(settings, attached=attached),
        },
        "tools": session_tools(settings.get("tools") or (), settings.get("handoffs") or ()),
    }
    if model is not None:
        session["model"] = model
    for name in ("parallel_tool_calls", "reasoning"):
        if settings.get(name) is not None:
            session[name] = settings.get(name)
    for name in ("instructions", "max_output_tokens"):
        if name in settings:
            session[name] = settings.get(name)
    if "prompt" in settings:
        session["prompt"] = _prompt(settings["prompt"])
    if "tool_choice" in settings:
        session["tool_choice"] = _tool_choice(settings["tool_choice"])
    return session


def tracing_object(tracing: object) -> JsonObject:
    """Return the provider's form of its trace settings; a `UserError` if they are no dict."""
    if not isinstance(tracing, Mapping):
        raise UserError(
            "The setting `tracing` of a realtime session is None, or a dict with workflow_name,"
            f" group_id and metadata, not {shown(tracing)}."
        )
    tracing = cast("Mapping[str, Any]", tracing)
    return {name: value for name, value in tracing.items() if value is not None}


def session_tools(tools: Iterable[object], handoffs: Iterable[Handoff]) -> list[JsonObject]:
    """Return the entries of the functions that a model may call.

    Raises:
        UserError: an entry is no function, or two entries have one name.
    """
    tools = [tool for tool in tools if getattr(tool, "is_enabled", True) is not False]
    entries = function_specs(
        [tool for tool in tools if not isinstance(tool, ToolSpec) and _is_realtime_tool(tool)],
        [entry for entry in handoffs if entry.is_enabled is not False],
    )
    specs = [*(tool for tool in tools if isinstance(tool, ToolSpec)), *entries]
    names = [spec.name for spec in specs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(
            f"The realtime session has several tools or handoffs named {', '.join(map(repr, twice))}."
            " Give each its own name."
        )
    return [
        {
            "type": "function",
            "name": spec.name,
            "description": spec.description,
            "parameters": spec.parameters,
        }
        for spec in specs
    ]


def to_realtime_audio_format(
    input_audio_format: "RealtimeAudioFormat | None",
) -> "RealtimeAudioFormats | None":
    """Return an audio format as a record of the `openai` package; None for None."""
    from openai.types.realtime.realtime_audio_formats import AudioPCM, AudioPCMA, AudioPCMU

    if input_audio_format is None:
        return None
    entry = audio_format_object(input_audio_format)
    kinds = {"audio/pcm": AudioPCM, "audio/pcmu": AudioPCMU, "audio/pcma": AudioPCMA}
    return kinds[entry["type"]].model_validate(entry)


def audio_format_object(audio_format: RealtimeAudioFormat) -> JsonObject:
    """Return the provider's form of an audio format; a `UserError` if it has none."""
    name = format_name(audio_format)
    if name in PCM_NAMES:
        rate: object = getattr(audio_format, "rate", None)
        if isinstance(audio_format, Mapping):
            rate = audio_format.get("rate")
        if rate not in (None, PCM_RATE):
            raise UserError(
                f"Realtime models take PCM audio with 24000 samples per second, not {rate!r}."
                " Resample the audio, or use g711_ulaw or g711_alaw for phones."
            )
        return {"type": "audio/pcm", "rate": PCM_RATE}
    if name in ULAW_NAMES:
        return {"type": "audio/pcmu"}
    if name in ALAW_NAMES:
        return {"type": "audio/pcma"}
    raise UserError(
        f"Realtime models have no audio format {shown(audio_format)}. Use pcm16 (24 kHz, 16 bits,"
        " mono), g711_ulaw or g711_alaw."
    )


def _input(settings: RealtimeSessionModelSettings, *, attached: bool) -> JsonObject:
    own = _channel(settings, "input")
    single = {**DEFAULT_MODEL_SETTINGS, **settings}
    audio: JsonObject = _format(settings, own, "input_audio_format", attached=attached)
    if "noise_reduction" in own or "input_audio_noise_reduction" in single:
        audio["noise_reduction"] = own.get(
            "noise_reduction", single.get("input_audio_noise_reduction")
        )
    audio["transcription"] = own.get("transcription", single["input_audio_transcription"])
    audio["turn_detection"] = _turn_detection(own.get("turn_detection", single["turn_detection"]))
    return audio


def _output(settings: RealtimeSessionModelSettings, *, attached: bool) -> JsonObject:
    own = _channel(settings, "output")
    audio: JsonObject = _format(settings, own, "output_audio_format", attached=attached)
    audio["voice"] = own.get("voice") or settings.get("voice", DEFAULT_MODEL_SETTINGS.get("voice"))
    for source in (settings, own):
        if "speed" in source:
            audio["speed"] = source["speed"]
    return audio


def _channel(settings: RealtimeSessionModelSettings, name: str) -> JsonObject:
    audio = as_object(settings.get("audio") or {})
    channel = None if audio is None else as_object(audio.get(name) or {})
    if channel is None:
        raise UserError(
            "The setting `audio` of a realtime session is a dict with a dict at `input` and at"
            f" `output`, not {shown(settings.get('audio'))}."
        )
    return channel


def _format(
    settings: RealtimeSessionModelSettings, own: Mapping[str, Any], name: str, *, attached: bool
) -> JsonObject:
    audio_format = own.get("format")
    if audio_format is None:
        default = None if attached else DEFAULT_MODEL_SETTINGS.get(name)
        audio_format = settings.get(name, default)
    return {} if audio_format is None else {"format": audio_format_object(audio_format)}


def _turn_detection(config: object) -> object:
    """Return the settings with the API's names; programs for browsers have them in camel case."""
    if not isinstance(config, Mapping):
        return config
    entries = cast("Mapping[str, Any]", config).items()
    camel_first = sorted(entries, key=lambda entry: entry[0] == to_snake(entry[0]))
    return {to_snake(name): value for name, value in camel_first}


def _prompt(prompt: Prompt) -> JsonObject:
    if "id" not in cast("JsonObject", prompt):
        raise UserError("The prompt of a realtime session needs the key 'id'.")
    return {name: value for name, value in prompt.items() if value is not None}


def _tool_choice(choice: object) -> object:
    if isinstance(choice, MCPToolChoice):
        return {"type": "mcp", "server_label": choice.server_label, "name": choice.name}
    if isinstance(choice, str) and choice not in _MODES:
        return {"type": "function", "name": choice}
    return choice


def _is_realtime_tool(tool: object) -> bool:
    if not isinstance(tool, FunctionTool) or isinstance(tool, LocalTool):
        raise UserError(
            f"A realtime model cannot call {shown(tool)}: it calls function tools and handoffs."
        )
    if tool.defer_loading or tool.namespace is not None:
        raise UserError(
            f"The tool {tool.name!r} has defer_loading or a namespace, which realtime models do not"
            " support. Remove them, or use the tool with an Agent."
        )
    return True
