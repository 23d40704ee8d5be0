"""Pictures that customers send: decoded before a run has them, and converted where that is safe.

A picture that no provider takes would fail the question, and the customer would not learn why.
"""

import asyncio
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from io import BytesIO
from typing import Final, cast
from urllib.parse import unquote

from PIL import Image, ImageOps

from outlast.agents.errors import UserError
from outlast.agents.items.pictures import data_url, flaw_of, new_pictures, split_data_url
from outlast.deliveries.problems import Refused
from outlast.serve.customer_input import customer_input
from outlast.serve.uploads import (
    LARGEST_FILE,
    READ_PICTURES,
    check_files,
    content_of,
    part_of,
    picture_type,
    plain_name,
)
from outlast.views.records import JsonObject

MOST_PIXELS: Final = 64_000_000
LONGEST_SIDE: Final = 30_000
"""The largest picture that is decoded: 260 MB of memory."""

_OPENED: Final = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "AVIF")
_CONVERTED: Final = {"image/bmp": "PNG", "image/tiff": "PNG", "image/avif": "JPEG"}
"""The format that a picture of a type becomes; with transparent parts, each becomes a PNG."""

_ANIMATED: Final = frozenset({"image/gif", "image/webp"})
"""The types with animations, of which OpenAI takes none: the first frame becomes a PNG."""

_PNG_MODES: Final = frozenset({"1", "L", "LA", "I;16", "P", "RGB", "RGBA"})
_RGB_MODES: Final = frozenset({"CMYK", "RGBX", "YCbCr"})
_MOST_SCANS: Final = 100
"""The most scans of a JPEG: one of a few bytes costs a decoder as much as a long one."""

_DECODERS: Final = ThreadPoolExecutor(max_workers=2, thread_name_prefix="outlast-pictures")
"""Decode beside the event loop, two pictures at once, whatever the number of customers."""

_SEND: Final = "Send it as PNG, JPEG, GIF or WebP."


async def readable_pictures(
    content: str | list[JsonObject], *, refuses: bool = True
) -> str | list[JsonObject]:
    """Return a customer's message with pictures that every provider takes.

    Args:
        content: the input of a run; the messages of the user at its end are new.
        refuses: whether a picture that cannot be read is refused; otherwise its place says why.

    Raises:
        Refused: a picture cannot be read; the sentence is for the customer.
    """
    if isinstance(content, str) or not any(new_pictures(content)):
        return content
    content = deepcopy(content)
    parts = list(new_pictures(content))
    loop = asyncio.get_running_loop()
    for number, part in enumerate(parts, 1):
        url = part.get("image_url")
        if isinstance(url, str) and url[:5].lower() == "data:":
            subject = "The picture" if len(parts) == 1 else f"Picture {number} of the message"
            try:
                url = await loop.run_in_executor(_DECODERS, _readable_url, url, subject)
                part["image_url"] = url
            except Refused as error:
                if refuses:
                    raise
                part.clear()
                part.update({"type": "input_text", "text": f"[{error.message}]"})
    return content


async def checked_files(parts: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the pictures and files of a colleague, checked as those of customers are.

    Raises:
        Refused: one of them cannot be sent.
        UserError: a part is something else.
    """
    read: list[JsonObject] = []
    files = [_file_of(part) for part in parts]
    check_files([(name, len(content)) for name, content in files])
    message: JsonObject = {"role": "user", "content": [part_of(*one) for one in files]}
    for one in await readable_pictures([message]):
        read += cast("list[JsonObject]", cast("JsonObject", one)["content"])
    return read


def _file_of(part: JsonObject) -> tuple[str, bytes]:
    [checked] = cast("list[JsonObject]", customer_input([part]))
    [plain] = cast("list[JsonObject]", checked["content"])
    url = plain.get("image_url") or plain.get("file_data")
    if not isinstance(url, str):
        raise UserError("Files are parts input_image and input_file.")
    try:
        return str(plain.get("filename") or "file"), content_of(url)
    except ValueError:
        raise UserError("A file is no base64. Send it as data:application/pdf;base64,…") from None


def checked_picture(data: bytes, subject: str = "The picture") -> tuple[str, bytes]:
    """Return the type and the bytes of a picture: its own, unless it is converted.

    Args:
        data: the picture, of whatever type the sender says.
        subject: what a sentence about the picture begins with.

    Raises:
        Refused: the picture cannot be read.
    """
    if not data:
        raise _refused(f"{subject} is empty. Choose another file.")
    kind = picture_type(data)
    if kind is None:
        raise _refused(f"{subject} is no picture that can be read here. {_SEND}")
    if kind not in READ_PICTURES:
        name = kind.removeprefix("image/").partition("+")[0].upper()
        raise _refused(f"{subject} is of the type {name}, which cannot be read here. {_SEND}")
    flaw = flaw_of(data)
    if not flaw and kind == "image/jpeg" and data.count(b"\xff\xda") > _MOST_SCANS:
        flaw = "damaged"
    if not flaw:
        try:
            return _decoded(data, kind, subject)
        except Refused:
            raise
        except (Image.DecompressionBombError, Image.DecompressionBombWarning):
            raise _too_large(subject) from None
        except Exception as error:  # noqa: BLE001  decoders raise whatever they stumble over
            flaw = "incomplete" if "truncated" in str(error).lower() else "damaged"
    advice = (
        "Send it again." if flaw == "incomplete" else "Send it again, or save it as PNG or JPEG."
    )
    raise _refused(f"{subject} is {flaw}. {advice}")


# --- Decoding ----------------------------------------------------------------------------------------


def _readable_url(url: str, subject: str) -> str:
    parts = split_data_url(url)
    if parts is None:
        raise _refused(f"{subject} is no base64. Send it as data:image/png;base64,…")
    _, parameters, data = parts
    if named := re.search(r";name=([^;]+)", parameters):
        subject = f"The picture {plain_name(unquote(named[1]))}"
    return data_url(*checked_picture(data, subject))


def _decoded(data: bytes, kind: str, subject: str) -> tuple[str, bytes]:
    with Image.open(BytesIO(data), formats=_OPENED) as image:
        width, height = image.size
        if width * height > MOST_PIXELS or max(width, height) > LONGEST_SIDE:
            raise _too_large(subject)
        has_frames = bool(getattr(image, "is_animated", False))
        if kind == "image/tiff" and has_frames:
            message = "has several pages. Send it as a PDF, or each page as a picture."
            raise _refused(f"{subject} {message}")
        if kind == "image/jpeg":
            image.draft(None, (1, 1))  # reads every byte, and makes an eighth of the rows
        image.load()
        if kind in _CONVERTED or (kind in _ANIMATED and has_frames):
            return _converted(image, _CONVERTED.get(kind, "PNG"), subject)
    return kind, data


def _converted(image: Image.Image, target: str, subject: str) -> tuple[str, bytes]:
    profile = image.info.get("icc_profile")
    image = ImageOps.exif_transpose(image)
    if image.mode in _RGB_MODES:
        image, profile = image.convert("RGB"), None  # a profile is of the colors that it had
    if image.mode not in _PNG_MODES:
        raise _refused(f"{subject} has colors of a kind that cannot be read here. {_SEND}")
    if image.has_transparency_data:
        target = "PNG"
    written = BytesIO()
    image.save(written, target, quality=90, icc_profile=profile)
    if written.tell() > LARGEST_FILE:
        raise _too_large(subject)
    return f"image/{target.lower()}", written.getvalue()


def _too_large(subject: str) -> Refused:
    return _refused(f"{subject} is too large. Send a smaller one, or a part of it.")


def _refused(message: str) -> Refused:
    return Refused(400, "picture_refused", message)
