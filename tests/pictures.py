"""Pictures for tests: whole ones, and such that no provider takes."""

import base64
import random
import struct
import zlib
from io import BytesIO
from typing import Any

from PIL import Image

from outlast.loop.values import JsonObject


def noise(width: int = 120, height: int = 90) -> Image.Image:
    """Return a picture that compresses badly, the same each time."""
    content = random.Random(1).randbytes(width * height * 3)
    return Image.frombytes("RGB", (width, height), content)


def written(image: Image.Image, kind: str, **options: Any) -> bytes:
    """Return the file of a picture."""
    file = BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def png_chunk(name: bytes, content: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(name + content))
    return struct.pack(">I", len(content)) + name + content + checksum


def declared_png(width: int, height: int) -> bytes:
    """Return a small PNG that says that it is large."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"\0" * 1_000)
    chunks = png_chunk(b"IHDR", header), png_chunk(b"IDAT", rows), png_chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def of_user(kind: str, *pictures: bytes, text: str = "Look.") -> JsonObject:
    """Return a message of the user with pictures."""
    parts: list[JsonObject] = [{"type": "input_text", "text": text}]
    parts += [{"type": "input_image", "image_url": url_of(kind, one)} for one in pictures]
    return {"role": "user", "content": parts}


def url_of(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


PNG = written(noise(), "PNG")
CUT_PNG = PNG[: len(PNG) // 2]
BMP = written(noise(), "BMP")
HEIC = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(range(200))
SVG = (
    b"<?xml version='1.0'?><svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
)
