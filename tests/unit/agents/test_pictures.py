"""The structure of pictures: the type that the bytes say, and whether a picture is whole."""

import subprocess
import sys

import pytest

from outlast.agents.errors import UserError
from outlast.agents.items.pictures import (
    check_pictures,
    flaw_of,
    flaw_of_url,
    media_type_of,
    new_pictures,
)
from outlast.loop.values import JsonObject
from tests.pictures import BMP, CUT_PNG, HEIC, PNG, noise, of_user, png_chunk, url_of, written

PREVIEW = written(noise(16, 16), "JPEG")
WITH_PREVIEW = (
    b"\xff\xd8\xff\xe1"
    + (len(PREVIEW) + 2).to_bytes(2)
    + PREVIEW
    + b"\xff"  # bytes may fill up before a marker
    + written(noise(), "JPEG")[2:]
)
FRAMES = {"save_all": True, "append_images": [noise().rotate(90)]}

WHOLE = {
    "png": ("image/png", PNG),
    "jpeg": ("image/jpeg", written(noise(), "JPEG")),
    "progressive jpeg": ("image/jpeg", written(noise(), "JPEG", progressive=True)),
    "jpeg with a preview": ("image/jpeg", WITH_PREVIEW),
    "gif": ("image/gif", written(noise(), "GIF")),
    "animated gif": ("image/gif", written(noise(), "GIF", **FRAMES)),
    "webp": ("image/webp", written(noise(), "WEBP")),
    "lossless webp": ("image/webp", written(noise(), "WEBP", lossless=True)),
    "animated webp": ("image/webp", written(noise(), "WEBP", **FRAMES)),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_picture_is_whole_and_is_not_when_it_is_cut_at_any_tenth(name: str) -> None:
    kind, data = WHOLE[name]
    assert (media_type_of(data), flaw_of(data)) == (kind, "")
    assert flaw_of(data + b"what some cameras add") == ""
    for tenth in range(1, 10):
        assert flaw_of(data[: len(data) * tenth // 10]) == "incomplete", tenth
    for length in range(12, 40):
        assert flaw_of(data[:length]) == "incomplete", length
    assert flaw_of(b"GIF89a\1\0\1\0\0\0\0,") == "incomplete"


@pytest.mark.parametrize(
    "data",
    [
        b"GIF89a<html><script>alert(1)</script></html>",
        b"GIF89a\1\0\1\0\0\0\0;",
        b"\x89PNG\r\n\x1a\n" + PNG[33:],
        PNG[:60] + b"\0" + PNG[61:],
        PNG[:8] + png_chunk(b"IHDR", bytes(13)) + png_chunk(b"IEND", b""),
        PNG[:33] + b"\0\0\0\4<b>!" + bytes(100),
        b"\xff\xd8\xff" + b"<script>" * 10,
        b"\xff\xd8\xff\xe1\0\0" + bytes(100),
        b"\xff\xd8\xff\xe1\0\4ab<script>" + bytes(100),
        b"RIFF\x10\0\0\0WEBPhtml" + bytes(100),
    ],
)
def test_a_picture_is_damaged_that_is_no_picture_inside(data: bytes) -> None:
    assert flaw_of(data) == "damaged"


def test_the_checksum_of_what_decoders_skip_does_not_count() -> None:
    text = bytearray(png_chunk(b"tEXt", b"Comment\0Hello"))
    text[-1] ^= 1
    assert flaw_of(PNG[:33] + bytes(text) + PNG[33:]) == ""


@pytest.mark.parametrize("data", [b"", b"Hello", HEIC, BMP, b"\x89PNG", b"RIFF\0\0\0\0WAVE"])
def test_what_is_of_another_type_is_not_judged(data: bytes) -> None:
    assert (media_type_of(data), flaw_of(data)) == (None, "")


@pytest.mark.parametrize(
    "url",
    [
        None,
        "https://example.com/a.png",
        "data:image/png,%89PNG",
        "data:image/png;base64,CUT",
        "data:image/png;base64,ü",
        url_of("image/png", PNG),
        url_of("image/heic", HEIC),
        url_of("image/png", b"a text"),
    ],
)
def test_what_may_be_right_is_left_to_the_provider(url: object) -> None:
    assert flaw_of_url(url) == ""


def test_a_new_picture_that_is_cut_off_is_refused_at_the_call() -> None:
    check_pictures([of_user("image/png", PNG)])
    for kind in ("image/png", "image/jpeg", "IMAGE/PNG;name=a.png"):
        with pytest.raises(UserError, match="Picture 2 of the input is incomplete"):
            check_pictures([of_user(kind, PNG, CUT_PNG)])


def test_a_conversation_goes_on_with_the_pictures_that_it_has() -> None:
    said: JsonObject = {"role": "assistant", "content": "I cannot see it."}
    old, new = of_user("image/png", CUT_PNG), of_user("image/png", PNG)
    check_pictures([old, said, new, {"role": "user", "content": "What is it?"}])
    assert list(new_pictures([old, said, new])) == new["content"][1:]
    assert list(new_pictures([{"role": "user", "content": ["odd", {"type": "odd"}]}])) == []


def test_the_library_loads_no_decoder() -> None:
    code = "import sys, outlast, outlast.worker; outlast.Runner; print('PIL' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
