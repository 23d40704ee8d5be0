"""The rules of a message's parts: texts, images and files."""

import base64
import re
from typing import Any

from tests.wire_rules.found import Found, fields_of, list_of, text_of

LONGEST_IMAGE = 20_971_520
LONGEST_FILE = 73_400_320

_BEGINNINGS = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/jpg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}
_DATA_URL = re.compile(r"data:([^;,]*)((?:;[^,;]*)*),(.*)", re.DOTALL)


def check_content(found: Found, content: object, where: str, types: frozenset[str]) -> None:
    """Check the content of a message: a text, or parts of the types that its role can have."""
    if isinstance(content, str):
        found.check(content.strip(), "content-empty", where)
        return
    parts = list_of(content)
    if not found.check(parts, "content-shape", where):
        return
    for position, part in enumerate(parts):
        at = f"{where}[{position}]"
        if found.check(isinstance(part, dict), "content-shape", at):
            check_part(found, part, at, types)


def check_part(found: Found, part: dict[str, Any], where: str, types: frozenset[str]) -> None:
    """Check one part."""
    kind = text_of(part.get("type"))
    if not found.check(kind in types, "part-type", where, kind):
        return
    if kind in {"text", "input_text", "output_text"}:
        if found.check(isinstance(part.get("text"), str), "content-shape", where, "no text"):
            found.check(part["text"].strip(), "content-empty", where)
    elif kind == "refusal":
        found.check(isinstance(part.get("refusal"), str), "content-shape", where, "no refusal")
    elif kind == "image_url":
        _check_image(found, fields_of(part.get("image_url")).get("url"), where)
    elif kind == "input_image":
        if part.get("file_id") is None:
            _check_image(found, part.get("image_url"), where)
    elif kind == "file":
        _check_file(found, fields_of(part.get("file")), where)
    elif kind == "input_file":
        _check_file(found, part, where)


def _check_image(found: Found, url: object, where: str) -> None:
    if not isinstance(url, str) or not url:
        found.add("image-address", where, "no URL")
        return
    found.check(len(url) <= LONGEST_IMAGE, "image-size", where, f"{len(url)} characters")
    if url.startswith(("http://", "https://")):
        return
    match = _DATA_URL.fullmatch(url)
    if match is None or "base64" not in match[2].split(";"):
        found.add("image-address", where, url[:40])
        return
    beginnings = _BEGINNINGS.get(match[1].lower())
    if beginnings is None:
        found.add("image-type", where, match[1])
        return
    data = _decoded(match[3])
    if not found.check(data, "image-address", where, "the data is no base64, or empty"):
        return
    found.check(data.startswith(beginnings), "image-type", where, f"no {match[1]}")


def _check_file(found: Found, file: dict[str, Any], where: str) -> None:
    data = file.get("file_data")
    if data is None:
        has_url = found.api == "responses" and file.get("file_url")
        found.check(file.get("file_id") or has_url, "file-data", where)
        return
    text = data if isinstance(data, str) and len(data) <= LONGEST_FILE else ""
    encoded = text.partition(",")[2] if text.startswith("data:") else text
    found.check(_decoded(encoded), "file-data", where, "the data is no base64, or empty")


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except ValueError:
        return b""
