"""The duration of audio depends on its format, however the format is written."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from outlast.realtime.port.audio import audio_ms, format_name
from outlast.realtime.port.config import RealtimeAudioFormat


@dataclass(frozen=True)
class Record:
    type: str | None


@pytest.mark.parametrize(
    "audio_format",
    ["pcm16", "audio/pcm", {"type": "audio/pcm", "rate": 24000}, Record("audio/pcm"), None],
)
def test_a_second_of_pcm_is_48000_bytes(audio_format: RealtimeAudioFormat | None) -> None:
    assert audio_ms(audio_format, bytes(48_000)) == 1000


@pytest.mark.parametrize(
    "audio_format",
    ["g711_ulaw", "G711_ALAW", "pcmu", {"type": "audio/pcmu"}, Record("audio/pcma")],
)
def test_a_second_of_g711_is_8000_bytes(audio_format: RealtimeAudioFormat) -> None:
    assert audio_ms(audio_format, bytes(8_000)) == 1000


def test_no_audio_has_no_duration() -> None:
    assert audio_ms("pcm16", b"") == 0


@pytest.mark.parametrize("nameless", [{"rate": 8000}, {"type": 5}, Record(None)])
def test_a_format_without_a_name_counts_as_pcm(nameless: Mapping[str, Any] | Record) -> None:
    assert format_name(nameless) is None
    assert audio_ms(nameless, bytes(48)) == 1
