"""The settings of a realtime session become the provider's session object."""

from typing import Any

import pytest
from openai.types.realtime.realtime_audio_formats import AudioPCM, AudioPCMU

from outlast import Agent, WebSearchTool, function_tool, handoff
from outlast.agents.config.model_settings import MCPToolChoice
from outlast.agents.errors import UserError
from outlast.ports.model import ToolSpec
from outlast.realtime.openai.settings import (
    session_object,
    session_tools,
    to_realtime_audio_format,
    tracing_object,
)
from outlast.realtime.port.config import RealtimeSessionModelSettings

PCM = {"type": "audio/pcm", "rate": 24000}


def session(settings: Any, *, attached: bool = False) -> Any:
    checked: RealtimeSessionModelSettings = settings
    return session_object(checked, model="m", attached=attached)


@function_tool
def look_up(order_id: str) -> str:
    """Look up an order."""
    return order_id


REFUNDS = Agent[None](name="Refunds", handoff_description="Handles refunds.")


def test_without_settings_the_defaults_are_sent() -> None:
    assert session({}) == {
        "type": "realtime",
        "model": "m",
        "output_modalities": ["audio"],
        "audio": {
            "input": {
                "format": PCM,
                "transcription": {"model": "gpt-4o-mini-transcribe"},
                "turn_detection": {"type": "semantic_vad", "interrupt_response": True},
            },
            "output": {"format": PCM, "voice": "ash"},
        },
        "tools": [],
    }


def test_a_call_keeps_its_audio_formats_unless_the_settings_name_others() -> None:
    audio = session({"output_audio_format": "g711_ulaw"}, attached=True)["audio"]
    assert "format" not in audio["input"]
    assert audio["output"]["format"] == {"type": "audio/pcmu"}


def test_the_settings_under_audio_come_first() -> None:
    audio = session(
        {
            "voice": "ash",
            "speed": 1.5,
            "turn_detection": {"type": "server_vad"},
            "input_audio_noise_reduction": {"type": "near_field"},
            "audio": {
                "input": {
                    "format": {"type": "audio/pcma"},
                    "noise_reduction": None,
                    "transcription": {"model": "whisper-1"},
                    "turn_detection": None,
                },
                "output": {
                    "format": AudioPCMU(type="audio/pcmu"),
                    "voice": {"id": "v"},
                    "speed": 2,
                },
            },
        }
    )["audio"]
    assert audio == {
        "input": {
            "format": {"type": "audio/pcma"},
            "noise_reduction": None,
            "transcription": {"model": "whisper-1"},
            "turn_detection": None,
        },
        "output": {"format": {"type": "audio/pcmu"}, "voice": {"id": "v"}, "speed": 2},
    }


def test_the_single_settings_of_audio_are_sent() -> None:
    audio = session(
        {
            "voice": "cedar",
            "speed": 1.5,
            "input_audio_format": "g711_alaw",
            "input_audio_transcription": {"language": "de"},
            "input_audio_noise_reduction": {"type": "far_field"},
            "audio": {"input": None},
        }
    )["audio"]
    assert audio["input"]["format"] == {"type": "audio/pcma"}
    assert audio["input"]["transcription"] == {"language": "de"}
    assert audio["input"]["noise_reduction"] == {"type": "far_field"}
    assert audio["output"] == {"format": PCM, "voice": "cedar", "speed": 1.5}


def test_turn_detection_may_be_written_as_in_browsers() -> None:
    detection = {"type": "server_vad", "silenceDurationMs": 5, "create_response": False, "x": 1}
    assert session({"turn_detection": detection})["audio"]["input"]["turn_detection"] == {
        "type": "server_vad",
        "silence_duration_ms": 5,
        "create_response": False,
        "x": 1,
    }


def test_the_other_settings_are_sent_as_they_are() -> None:
    sent = session(
        {
            "instructions": "",
            "modalities": ["text"],
            "max_output_tokens": "inf",
            "parallel_tool_calls": False,
            "reasoning": {"effort": "low"},
            "prompt": {"id": "p", "variables": {"a": 1}},
            "tool_choice": "required",
        }
    )
    assert {name: sent[name] for name in sent.keys() - {"audio", "tools"}} == {
        "type": "realtime",
        "model": "m",
        "instructions": "",
        "output_modalities": ["text"],
        "max_output_tokens": "inf",
        "parallel_tool_calls": False,
        "reasoning": {"effort": "low"},
        "prompt": {"id": "p", "variables": {"a": 1}},
        "tool_choice": "required",
    }


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", "auto"),
        ("look_up", {"type": "function", "name": "look_up"}),
        (MCPToolChoice("shop", "buy"), {"type": "mcp", "server_label": "shop", "name": "buy"}),
        (None, None),
    ],
)
def test_a_tool_is_chosen_by_its_name(choice: Any, sent: Any) -> None:
    assert session({"tool_choice": choice})["tool_choice"] == sent


def test_function_tools_specifications_and_handoffs_are_functions() -> None:
    spec = ToolSpec(name="ping", description="Ping.", parameters={"type": "object"})
    tools = session_tools([look_up, spec], [handoff(REFUNDS)])
    assert [(tool["type"], tool["name"]) for tool in tools] == [
        ("function", "ping"),
        ("function", "look_up"),
        ("function", "transfer_to_refunds"),
    ]
    assert tools[1]["description"] == "Look up an order."
    assert list(tools[1]["parameters"]["properties"]) == ["order_id"]
    assert all("strict" not in tool for tool in tools)


def test_tools_that_are_switched_off_are_not_offered() -> None:
    @function_tool(is_enabled=False)
    def off() -> None: ...

    assert session_tools([off], [handoff(REFUNDS, is_enabled=False)]) == []


def test_a_name_is_there_once() -> None:
    twice = handoff(REFUNDS, tool_name_override="look_up")
    with pytest.raises(UserError, match="several tools or handoffs named 'look_up'"):
        session_tools([look_up], [twice])


def test_a_tool_that_is_no_function_is_refused() -> None:
    with pytest.raises(UserError, match="cannot call WebSearchTool"):
        session_tools([WebSearchTool()], [])

    @function_tool(defer_loading=True)
    def later() -> None: ...

    with pytest.raises(UserError, match="'later' has defer_loading"):
        session_tools([later], [])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"input_audio_format": "mp3"}, "no audio format 'mp3'"),
        ({"output_audio_format": {"type": "audio/pcm", "rate": 16000}}, "not 16000"),
        ({"input_audio_format": AudioPCM.model_construct(type="audio/pcm", rate=8000)}, "not 8000"),
        ({"audio": {"input": {"format": {"kind": "pcm"}}}}, "no audio format"),
        ({"audio": "loud"}, "`audio` of a realtime session is a dict"),
        ({"audio": {"output": "loud"}}, "a dict at `input` and at `output`"),
        ({"prompt": {"version": "1"}}, "needs the key 'id'"),
    ],
)
def test_a_setting_that_the_provider_cannot_have_is_refused(settings: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        session(settings)


def test_a_trace_has_only_the_settings_that_are_there() -> None:
    assert tracing_object({"group_id": "g", "metadata": None}) == {"group_id": "g"}
    with pytest.raises(UserError, match="`tracing` of a realtime session is None, or a dict"):
        tracing_object(5)


@pytest.mark.parametrize(
    ("audio_format", "kind"),
    [("pcm16", AudioPCM), ({"type": "audio/pcm"}, AudioPCM), ("g711_ulaw", AudioPCMU)],
)
def test_an_audio_format_is_converted_to_a_record(audio_format: Any, kind: type) -> None:
    assert type(to_realtime_audio_format(audio_format)) is kind
    assert to_realtime_audio_format(None) is None
