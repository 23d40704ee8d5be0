"""The duration of audio data in the formats of realtime models."""

from collections.abc import Mapping

from outlast.realtime.port.config import RealtimeAudioFormat

PCM_RATE = 24_000
"""Samples per second of `audio/pcm`, which has two bytes per sample."""

G711_RATE = 8_000
"""Samples per second of the two G.711 formats, which have one byte per sample."""

PCM_NAMES = frozenset({"pcm16", "pcm", "audio/pcm"})
ULAW_NAMES = frozenset({"g711_ulaw", "pcmu", "audio/pcmu"})
ALAW_NAMES = frozenset({"g711_alaw", "pcma", "audio/pcma"})


def format_name(audio_format: RealtimeAudioFormat | None) -> str | None:
    """Return the name of an audio format: a name, a mapping or a record with a `type`; or None."""
    name: object = audio_format
    if isinstance(audio_format, Mapping):
        name = audio_format.get("type")
    elif not isinstance(audio_format, str):
        name = getattr(audio_format, "type", None)
    return name if isinstance(name, str) else None


def audio_ms(audio_format: RealtimeAudioFormat | None, data: bytes) -> float:
    """Return the milliseconds of audio data; an unknown format counts as PCM at 24 kHz."""
    name = (format_name(audio_format) or "").lower()
    if name in ULAW_NAMES | ALAW_NAMES:
        return len(data) / G711_RATE * 1000
    return len(data) / (2 * PCM_RATE) * 1000
