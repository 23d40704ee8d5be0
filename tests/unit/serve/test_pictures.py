"""Customers' pictures: whole ones pass as they are, some are converted, and the rest is refused."""

import asyncio
import io
import struct
import time
from typing import Any

import pytest
from PIL import Image

from outlast.deliveries.problems import Refused
from outlast.loop.values import JsonObject
from outlast.serve import pictures
from outlast.serve.pictures import checked_picture, readable_pictures
from outlast.serve.uploads import with_name
from tests.pictures import (
    BMP,
    CUT_PNG,
    HEIC,
    PNG,
    SVG,
    declared_png,
    noise,
    of_user,
    url_of,
    written,
)

TURNED = Image.Exif()
TURNED[0x0112] = 6
FRAMES = {"save_all": True, "append_images": [noise().rotate(90)]}


def refusal(data: bytes) -> str:
    """Return why a picture is refused."""
    with pytest.raises(Refused) as refused:
        checked_picture(data, "The picture a.png")
    assert (refused.value.status, refused.value.code) == (400, "picture_refused")
    return refused.value.message


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("PNG", {}),
        ("JPEG", {}),
        ("JPEG", {"progressive": True, "exif": TURNED}),
        ("GIF", {}),
        ("WEBP", {}),
        ("WEBP", {"lossless": True}),
    ],
)
def test_what_providers_take_is_the_same_bytes(kind: str, options: dict[str, Any]) -> None:
    data = written(noise(), kind, **options)
    assert checked_picture(data) == (f"image/{kind.lower()}", data)


@pytest.mark.parametrize(
    ("data", "kind", "mode"),
    [
        (BMP, "PNG", "RGB"),
        (written(noise(), "TIFF"), "PNG", "RGB"),
        (written(noise().convert("1"), "TIFF", compression="group4"), "PNG", "1"),
        (written(noise().convert("CMYK"), "TIFF"), "PNG", "RGB"),
        (written(Image.new("I;16", (120, 90), 40_000), "TIFF"), "PNG", "I;16"),
        (written(noise(), "AVIF"), "JPEG", "RGB"),
        (written(Image.new("RGBA", (120, 90)), "AVIF"), "PNG", "RGBA"),
        (written(noise(), "GIF", **FRAMES), "PNG", "P"),
        (written(noise(), "WEBP", **FRAMES), "PNG", "RGB"),
    ],
)
def test_what_can_be_converted_is(data: bytes, kind: str, mode: str) -> None:
    media_type, content = checked_picture(data)
    assert media_type == f"image/{kind.lower()}"
    with Image.open(io.BytesIO(content)) as image:
        assert (image.format, image.size, image.mode) == (kind, (120, 90), mode)
        image.load()
    assert checked_picture(content) == (media_type, content)


def test_what_is_converted_without_loss_has_the_same_pixels_the_right_way_up() -> None:
    _, content = checked_picture(written(noise(), "TIFF", exif=TURNED))
    with Image.open(io.BytesIO(content)) as image:
        assert image.tobytes() == noise().transpose(Image.Transpose.ROTATE_270).tobytes()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "AVIF"])
def test_a_picture_that_is_cut_anywhere_is_refused(kind: str) -> None:
    data = written(noise(), kind)
    assert refusal(b"") == "The picture a.png is empty. Choose another file."
    for tenth in range(1, 10):
        words = refusal(data[: len(data) * tenth // 10])
        if kind == "AVIF":  # what it contains is listed at its beginning, and then nothing else
            assert words.startswith("The picture a.png is damaged. Send it again"), tenth
        else:
            assert words == "The picture a.png is incomplete. Send it again.", tenth


def test_a_picture_with_pixels_missing_in_a_whole_file_is_refused() -> None:
    assert "is incomplete" in refusal(declared_png(100, 100))


HUGE_TAGS = b"".join(
    (
        b"II*\0\x08\0\0\0\x09\0",
        struct.pack("<HHIIHHII", 256, 4, 1, 100, 257, 4, 1, 100),
        struct.pack("<HHIIHHII", 258, 3, 0x0FFFFFFF, 8, 259, 3, 1, 1),
        struct.pack("<HHIIHHII", 262, 3, 1, 1, 270, 2, 0xFFFFFFFF, 8),
        struct.pack("<HHII", 273, 4, 0x3FFFFFFF, 8) * 3,
        bytes(4),
    )
)
PROGRESSIVE = written(noise(8, 8).convert("L"), "JPEG", progressive=True)
LAST_SCAN = PROGRESSIVE[PROGRESSIVE.rfind(b"\xff\xda") : -2]
SCANS = PROGRESSIVE[:-2] + LAST_SCAN * 5_000 + b"\xff\xd9"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (declared_png(60_000, 60_000), "is too large"),
        (declared_png(10_000, 10_000), "is too large"),
        (declared_png(30_001, 1), "is too large"),
        (written(noise(), "BMP")[:18] + b"\0\0\1\0" * 2 + BMP[26:], "is too large"),
        (HUGE_TAGS, "is "),  # incomplete or damaged, as the version of the decoder says
        (SCANS, "is damaged"),
        (b"GIF89a<html><script>alert(1)</script></html>", "is damaged"),
        (SVG, "is of the type SVG, which cannot be read here. Send it as PNG"),
        (b"<svg onload='alert(1)'/>", "is of the type SVG"),
        (HEIC, "is of the type HEIC, which cannot be read here. Send it as PNG, JPEG"),
        (b"Only a text.", "is no picture that can be read here"),
        (bytes(100), "is no picture"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is no picture"),
        (written(noise(), "TIFF", **FRAMES), "has several pages. Send it as a PDF"),
        (written(Image.new("F", (9, 9)), "TIFF"), "has colors of a kind"),
    ],
)
def test_hostile_and_unreadable_pictures_are_refused_fast(data: bytes, words: str) -> None:
    begun = time.monotonic()
    assert refusal(data).startswith(f"The picture a.png {words}")
    assert time.monotonic() - begun < 2


def test_of_an_animation_the_first_frame_alone_is_decoded() -> None:
    first, *others = [Image.new("P", (4, 4), at % 256) for at in range(10_000)]
    begun = time.monotonic()
    data = written(first, "GIF", save_all=True, append_images=others, optimize=False)
    took = time.monotonic() - begun
    begun = time.monotonic()
    assert checked_picture(data)[0] == "image/png"
    assert time.monotonic() - begun < took / 2


def test_a_picture_that_conversion_makes_too_large_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pictures, "LARGEST_FILE", 10_000)
    assert "is too large" in refusal(BMP)


# --- In a message ------------------------------------------------------------------------------------


async def test_a_message_keeps_its_words_and_gets_readable_pictures() -> None:
    message = of_user("image/jpeg", PNG, BMP)
    message["content"] += [
        {"type": "input_file", "file_data": url_of("a/b", b"x")},
        {"type": "input_image", "image_url": "https://example.com/a.png"},
    ]
    before = repr(message)
    found: Any = (await readable_pictures([message]))[0]
    text, same, other, *rest = found["content"]
    assert [text, *rest] == [message["content"][0], *message["content"][3:]]
    assert same["image_url"] == url_of("image/png", PNG), "the bytes say what it is"
    assert other["image_url"].startswith("data:image/png;base64,")
    assert repr(message) == before
    assert await readable_pictures("Hello") == "Hello"


@pytest.mark.parametrize(
    ("contents", "subject"),
    [([CUT_PNG], "The picture"), ([PNG, CUT_PNG], "Picture 2 of the message")],
)
async def test_the_refusal_says_which_picture(contents: list[bytes], subject: str) -> None:
    with pytest.raises(Refused, match=f"^{subject} is incomplete"):
        await readable_pictures([of_user("image/png", *contents)])


async def test_the_refusal_says_the_name_where_there_is_one() -> None:
    message = of_user("image/png", CUT_PNG)
    part = message["content"][1]
    part["image_url"] = with_name(part["image_url"], "../a;b,\n<é>.png")
    with pytest.raises(Refused, match=r"^The picture a;b,_<é>\.png is incomplete"):
        await readable_pictures([message])
    assert with_name("data:image/png,x", "a.png") == "data:image/png,x"


@pytest.mark.parametrize("url", ["data:image/png;base64,CUT", "data:image/png,x", "DATA:,"])
async def test_a_picture_is_base64(url: str) -> None:
    message: JsonObject = {"role": "user", "content": [{"type": "input_image", "image_url": url}]}
    with pytest.raises(Refused, match="is no base64"):
        await readable_pictures([message])


async def test_a_picture_that_was_refused_before_leaves_its_reason() -> None:
    message = of_user("image/png", CUT_PNG, PNG)
    found: Any = (await readable_pictures([message], refuses=False))[0]
    words = "[Picture 1 of the message is incomplete. Send it again.]"
    assert found["content"][1] == {"type": "input_text", "text": words}
    assert found["content"][2]["image_url"] == url_of("image/png", PNG)


async def test_customers_do_not_wait_for_each_other_and_the_loop_waits_for_nobody() -> None:
    large = written(noise(1_500, 1_000), "BMP")
    asked = [
        asyncio.create_task(readable_pictures([of_user("image/bmp", one)]))
        for one in (large, CUT_PNG, PNG)
    ]
    longest = 0.0
    while not all(one.done() for one in asked):
        begun = time.monotonic()
        await asyncio.sleep(0.005)
        longest = max(longest, time.monotonic() - begun)
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert [isinstance(one, Refused) for one in found] == [False, True, False]
    assert longest < 1
