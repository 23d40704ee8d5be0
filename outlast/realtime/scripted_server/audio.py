"""The sound of a scripted realtime session: silence for words, and the detection of speech."""

from array import array
from dataclasses import dataclass

from outlast.loop.values import JsonObject
from outlast.realtime.port.audio import audio_ms

WORD_MS = 100
"""The duration of one word of the scripted model's speech."""

_LOUD = 500
"""The amplitude of 16-bit samples from which sound counts as speech."""

_G711_SILENCE = frozenset({0xFF, 0x7F, 0xD5, 0x55})
"""The bytes of silence in the two G.711 formats."""


def silence(audio_format: JsonObject, ms: int) -> bytes:
    """Return silence in one of the provider's formats."""
    empty = {"audio/pcmu": b"\xff", "audio/pcma": b"\xd5"}.get(str(audio_format.get("type")), b"\0")
    return empty * round(ms / audio_ms(audio_format, b"\0"))


def is_speech(audio_format: JsonObject, data: bytes) -> bool:
    """Whether any sample of the audio is loud."""
    if audio_format.get("type") != "audio/pcm":
        return any(byte not in _G711_SILENCE for byte in data)
    samples = array("h", data[: len(data) // 2 * 2])
    return any(abs(sample) > _LOUD for sample in samples)


@dataclass
class InputBuffer:
    """The audio that the user has sent, and where speech begins and ends in it."""

    total_ms: float = 0.0
    buffered_ms: float = 0.0
    speaking: bool = False
    quiet_ms: float = 0.0

    def append(self, audio_format: JsonObject, data: bytes, silence_ms: float) -> str | None:
        """Add audio; return `started` or `stopped` if speech begins or ends with it."""
        ms = audio_ms(audio_format, data)
        self.total_ms += ms
        self.buffered_ms += ms
        if is_speech(audio_format, data):
            started, self.speaking, self.quiet_ms = not self.speaking, True, 0.0
            return "started" if started else None
        self.quiet_ms += ms
        if self.speaking and self.quiet_ms >= silence_ms:
            self.speaking = False
            return "stopped"
        return None

    def clear(self) -> None:
        """Forget the audio since the last commit."""
        self.buffered_ms, self.speaking, self.quiet_ms = 0.0, False, 0.0
