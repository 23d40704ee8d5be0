"""A sound for calls without a microphone: a hum that counts as speech, and silence after it."""

import math
from array import array
from collections.abc import Iterator

RATE = 24_000
"""Samples per second of the session's `pcm16`."""

CHUNK_MS = 100


def hum(seconds: float = 0.8) -> Iterator[bytes]:
    """Yield pieces of a hum at 220 Hz, and a second of silence."""
    for number in range(int(seconds * 1000 / CHUNK_MS)):
        start = number * RATE * CHUNK_MS // 1000
        places = range(start, start + RATE * CHUNK_MS // 1000)
        waves = (int(6_000 * math.sin(2 * math.pi * 220 * place / RATE)) for place in places)
        yield array("h", waves).tobytes()
    for _ in range(1000 // CHUNK_MS):
        yield bytes(2 * RATE * CHUNK_MS // 1000)
