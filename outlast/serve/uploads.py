"""What customers attach to a message: photos and files, within limits.

What a file is, its bytes say. Its name and its type are words of the sender.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import quote

from starlette.datastructures import UploadFile

from outlast.agents.items.pictures import MEDIA_TYPES, data_url, media_type_of
from outlast.deliveries.problems import Refused
from outlast.views.records import JsonObject

MOST_FILES: Final = 10
LARGEST_FILE: Final = 10_000_000
LARGEST_FILES: Final = 20_000_000
"""The limits of one message. A body of a request may have a third more than that."""

READ_PICTURES: Final = (*MEDIA_TYPES, "image/bmp", "image/tiff", "image/avif")
"""The types of pictures that can be sent; the last ones are converted."""

_PICTURES: Final = {
    "image/bmp": rb"BM[\s\S]{4}\0{4}",
    "image/tiff": rb"II\*\0|MM\0\*",
    "image/avif": rb"[\s\S]{4}ftyp[\s\S]{0,40}?avi[fs]",
    "image/heic": rb"[\s\S]{4}ftyp(hei|hev|mif1|msf1)",
    "image/svg+xml": rb"\s*(<[?!][^>]*>\s*)*<svg[\s/>]",
}
"""How further pictures begin that have a type of their own."""

_TEXTS: Final = {
    ".txt": "text/plain",
    ".log": "text/plain",
    ".md": "text/markdown",
    ".csv": "text/csv",
    ".json": "application/json",
}
ACCEPTED: Final = ",".join([*READ_PICTURES, "application/pdf", *_TEXTS])
"""What the page offers to choose, for `accept=`."""

_LONGEST_NAME: Final = 100
_DATA: Final = re.compile(r"data:[^,]{0,200};base64,", re.ASCII)


def part_of(name: str, content: bytes) -> JsonObject:
    """Return a file as a part of a message.

    Raises:
        Refused: the file is empty, too large, or of another kind.
    """
    name = plain_name(name)
    if not content:
        raise Refused(400, "file_empty", f"{name} is empty. Choose another file.")
    if len(content) > LARGEST_FILE:
        limit = LARGEST_FILE // 1_000_000
        raise Refused(413, "file_too_large", f"{name} is too large. A file has up to {limit} MB.")
    kind = _file_kind(name, content)
    if kind is None and (picture := picture_type(content)):
        url = with_name(data_url(picture, content), name)
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    if kind is None:
        message = f"{name} cannot be sent. Send photos (PNG, JPEG, GIF, WebP), PDF or text files."
        raise Refused(415, "file_kind", message)
    return {"type": "input_file", "filename": name, "file_data": data_url(kind, content)}


def check_files(files: Iterable[tuple[str, int]]) -> None:
    """Refuse files before they are read, by their names and sizes.

    Raises:
        Refused: there are too many, or they are too large together.
    """
    sizes = [size for _, size in files]
    if len(sizes) > MOST_FILES:
        raise Refused(413, "too_many_files", f"A message has up to {MOST_FILES} files.")
    if sum(sizes) > LARGEST_FILES:
        limit = LARGEST_FILES // 1_000_000
        message = f"The files are too large together. Send up to {limit} MB at once."
        raise Refused(413, "file_too_large", message)


async def parts_of(files: Sequence[UploadFile]) -> list[JsonObject]:
    """Return the files of a form as parts of a message.

    Raises:
        Refused: there are too many, or one of them cannot be sent.
    """
    check_files([(one.filename or "", one.size or 0) for one in files])
    return [part_of(one.filename or "", await one.read()) for one in files]


def picture_type(content: bytes) -> str | None:
    """Return the type of a picture by its first bytes, also of one that cannot be sent."""
    head = content[:1_000]
    further = (kind for kind, begins in _PICTURES.items() if re.match(begins, head))
    return media_type_of(head) or next(further, None)


def kind_of(content: bytes) -> str:
    """Return the type of a file by its bytes, for somebody who saves it: never that of a page."""
    if content.startswith(b"%PDF-"):
        return "application/pdf"
    try:
        is_text = b"\0" not in content and bool(content.decode())
    except UnicodeDecodeError:
        is_text = False
    return "text/plain; charset=utf-8" if is_text else "application/octet-stream"


def with_name(url: str, name: str) -> str:
    """Return the `data:` URL of a picture with the file's name, which a refusal then says."""
    kind, mark, content = url.partition(";base64,")
    if not mark or not name:
        return url
    return f"{kind};name={quote(plain_name(name), safe='')}{mark}{content}"


def content_of(text: str) -> bytes:
    """Return the bytes of a `data:` address, or of plain base64.

    Raises:
        ValueError: it is neither.
    """
    found = _DATA.match(text)
    try:
        return base64.b64decode(text[found.end() :] if found else text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def plain_name(name: str) -> str:
    """Return the last part of a file's name, as one short line."""
    last = PurePosixPath(name.replace("\\", "/")).name
    line = "".join(one if one.isprintable() else "_" for one in last).strip()
    if len(line) > _LONGEST_NAME:
        stem, dot, ending = line.rpartition(".")
        line = f"{stem[:60]}…{dot}{ending[:20]}" if dot else line[:_LONGEST_NAME]
    return line or "file"


def _file_kind(name: str, content: bytes) -> str | None:
    if content.startswith(b"%PDF-"):
        return "application/pdf"
    kind = _TEXTS.get(PurePosixPath(name.lower()).suffix)
    if kind is None or b"\0" in content:
        return None
    try:
        content.decode()
    except UnicodeDecodeError:
        return None
    return kind
