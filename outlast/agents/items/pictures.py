"""The structure of pictures: what type one has, and whether it is whole, without a decoder.

A provider refuses a request with a picture that is cut off, and this shows where it is sent.
"""

import base64
import binascii
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, TypeAlias, cast

from outlast.agents.errors import UserError
from outlast.loop.values import JsonObject

Flaw: TypeAlias = Literal["", "incomplete", "damaged"]
"""What is wrong with a picture; empty for one that is whole."""

_DATA: Final = re.compile(r"data:([^,;]{0,100})([^,]{0,1000});base64,", re.ASCII | re.IGNORECASE)
_NAME: Final = re.compile(rb"[A-Za-z]{4}")


def media_type_of(data: bytes) -> str | None:
    """Return the type of a picture that every provider takes, by its first bytes; None for others."""
    found = (kind for kind, (begins, _) in _FORMATS.items() if begins.match(data[:16]))
    return next(found, None)


def flaw_of(data: bytes) -> Flaw:
    """Return what is wrong with the structure of a picture; empty for one of another type, too."""
    kind = media_type_of(data)
    return "" if kind is None else _FORMATS[kind][1](data)


def split_data_url(url: str) -> tuple[str, str, bytes] | None:
    """Return the type, the parameters and the content of a `data:` URL in base64; None for others."""
    found = _DATA.match(url)
    if found is None:
        return None
    try:
        content = base64.b64decode(url[found.end() :].encode("ascii", "replace"))
    except binascii.Error:
        return None
    return found[1].strip().lower(), found[2], content


def data_url(media_type: str, content: bytes) -> str:
    """Return a file as a `data:` URL."""
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def flaw_of_url(url: object) -> Flaw:
    """Return what is wrong with the picture of a `data:` URL; empty for anything else."""
    parts = split_data_url(url) if isinstance(url, str) else None
    return "" if parts is None else flaw_of(parts[2])


def new_pictures(items: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """Yield the picture parts of the user's messages at the end of an input.

    What stands before them is of earlier questions, and a conversation goes on with it.
    """
    start = len(items)
    while start and items[start - 1].get("role") == "user":
        start -= 1
    for item in items[start:]:
        content: Any = item.get("content")
        for part in cast("list[Any]", content) if isinstance(content, list) else []:
            if isinstance(part, dict) and cast("JsonObject", part).get("type") == "input_image":
                yield cast("JsonObject", part)


def check_pictures(items: Sequence[JsonObject]) -> None:
    """Refuse the user's new messages with a picture that is not whole.

    Raises:
        UserError: a picture is incomplete or damaged.
    """
    for number, part in enumerate(new_pictures(items), 1):
        if flaw := flaw_of_url(part.get("image_url")):
            raise UserError(f"Picture {number} of the input is {flaw}. Send it whole.")


# --- Formats -----------------------------------------------------------------------------------------


def _png_flaw(data: bytes) -> Flaw:
    """Walk the chunks: decoders insist on the checksums of those with a capital letter."""
    at, names = 8, list[bytes]()
    while b"IEND" not in names:
        if at + 12 > len(data):
            return "incomplete"
        length, name = int.from_bytes(data[at : at + 4]), data[at + 4 : at + 8]
        end = at + 12 + length
        if _NAME.fullmatch(name) is None or (not names and name != b"IHDR"):
            return "damaged"
        if end > len(data):
            return "incomplete"
        checksum = int.from_bytes(data[end - 4 : end])
        if name[:1].isupper() and zlib.crc32(memoryview(data)[at + 4 : end - 4]) != checksum:
            return "damaged"
        names.append(name)
        at = end
    return "" if b"IDAT" in names else "damaged"


def _jpeg_flaw(data: bytes) -> Flaw:
    """Walk the segments, past the preview with an end of its own, to the scan and its end."""
    at = 2
    while True:
        while data[at : at + 2] == b"\xff\xff":
            at += 1
        if at + 4 > len(data):
            return "incomplete"
        if data[at] != 0xFF:
            return "damaged"
        marker, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4])
        at += 2 + length
        if marker == 0xDA:
            return "" if data.find(b"\xff\xd9", at) >= 0 else "incomplete"
        if length < 2 or marker < 0xC0:
            return "damaged"


def _gif_flaw(data: bytes) -> Flaw:
    """Walk the blocks; a file without the byte at its end is shown by everybody."""
    if len(data) < 13:
        return "incomplete"
    at = 13 + _color_table(data[10])
    has_frame = False
    while at < len(data) and data[at] != 0x3B:
        if data[at] not in b"\x21\x2c":
            return "damaged"
        is_frame = data[at] == 0x2C
        if at + 10 > len(data):
            return "incomplete"
        at += 11 + _color_table(data[at + 9]) if is_frame else 2
        while at < len(data) and data[at]:
            at += 1 + data[at]
        if at >= len(data):
            return "incomplete"
        at += 1
        has_frame = has_frame or is_frame
    if has_frame:
        return ""
    return "damaged" if at < len(data) else "incomplete"


def _color_table(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _webp_flaw(data: bytes) -> Flaw:
    """Compare the length in the header with that of the file."""
    if len(data) >= 16 and data[12:16] not in {b"VP8 ", b"VP8L", b"VP8X"}:
        return "damaged"
    length = 8 + int.from_bytes(data[4:8], "little")
    return "incomplete" if len(data) < max(length, 20) else ""


_FORMATS: Final[dict[str, tuple[re.Pattern[bytes], Callable[[bytes], Flaw]]]] = {
    "image/png": (re.compile(rb"\x89PNG\r\n\x1a\n"), _png_flaw),
    "image/jpeg": (re.compile(rb"\xff\xd8\xff"), _jpeg_flaw),
    "image/gif": (re.compile(rb"GIF8[79]a"), _gif_flaw),
    "image/webp": (re.compile(rb"RIFF[\s\S]{4}WEBP"), _webp_flaw),
}
"""How a picture of each type begins, and what checks the rest.

These are the types that OpenAI (https://developers.openai.com/api/docs/guides/images-vision) and
Anthropic (https://platform.claude.com/docs/en/build-with-claude/vision) take.
"""

MEDIA_TYPES: Final = tuple(_FORMATS)
"""The types of pictures that every provider takes."""
