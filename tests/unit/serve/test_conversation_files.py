"""The pictures and files of a conversation, for the team."""

import re
from dataclasses import replace
from html import unescape
from typing import Any

import pytest

from outlast.loop.events import MessageReceived
from outlast.serve.pages import conversation
from outlast.serve.uploads import data_url, kind_of, part_of
from tests.laws.driver import Play, message, said
from tests.unit.serve.hostile_pages import active_content
from tests.unit.serve.played import PlayedRuns, browser_of, desk_of
from tests.unit.serve.test_api import PNG

HTML = b"<!doctype html><script>alert(1)</script>"
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"


def image(content: bytes) -> dict[str, Any]:
    return {"type": "input_image", "image_url": data_url("image/png", content)}


def file(name: str, content: bytes, kind: str = "application/pdf") -> dict[str, Any]:
    return {"type": "input_file", "filename": name, "file_data": data_url(kind, content)}


def wrote(*parts: dict[str, Any], is_read: bool = True) -> Play:
    """Return a conversation whose customer wrote these parts."""
    play = Play(keep_open=True)
    play.prepared()
    if is_read:
        play.replies(said("Hello."))
    sent = replace(
        message("files", "", play.now_ms), content=({"role": "user", "content": list(parts)},)
    )
    play.take(MessageReceived(at_ms=play.now_ms, message=sent))
    return play


async def files_of(play: Play, **fields: Any) -> tuple[str, list[Any]]:
    """Return the page of a conversation, and the answers of its links to files."""
    app = desk_of(PlayedRuns({"run": play, "other": Play.ready()}), conversation.ROUTES, **fields)
    async with app.state.desk.feed, browser_of(app) as http:
        page = (await http.get("/conversations/run")).text
        links = dict.fromkeys(re.findall(r'href="(/conversations/run/files[^"]+)"', page))
        return page, [await http.get(unescape(one)) for one in links]


@pytest.mark.parametrize("is_read", [True, False])
async def test_pictures_are_shown_and_everything_else_is_saved_by_its_bytes(is_read: bool) -> None:
    page, answers = await files_of(
        wrote(
            image(PNG),
            image(SVG),
            image(HTML),
            file("<script>alert(1)</script>.pdf", b"%PDF-1.7 x"),
            file("../../bill\u202efdp.pdf", HTML),
            file("note.txt", "Zażółć \u05d0".encode(), "text/html"),
            file("x.bin", b"\0\1"),
            is_read=is_read,
        )
    )
    assert active_content(page) == []
    assert "&lt;script&gt;alert(1)&lt;/script&gt;.pdf" in page
    assert [one.status_code for one in answers] == [200] * 7
    assert [one.headers["Content-Type"] for one in answers] == [
        "image/png",
        "text/plain; charset=utf-8",
        "text/plain; charset=utf-8",
        "application/pdf",
        "text/plain; charset=utf-8",
        "text/plain; charset=utf-8",
        "application/octet-stream",
    ]
    assert "Content-Disposition" not in answers[0].headers
    for one in answers:
        assert one.headers["X-Content-Type-Options"] == "nosniff"
        assert one.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    names = [one.headers["Content-Disposition"] for one in answers[1:]]
    assert all(one.startswith("attachment; filename*=UTF-8''") for one in names)
    assert names[2].endswith("script%3E.pdf")
    assert "/" not in names[3].partition("''")[2]
    assert "%E2%80%AE" not in names[3]


async def test_a_file_is_that_of_a_message_of_this_conversation() -> None:
    play = wrote(image(PNG))
    app = desk_of(PlayedRuns({"run": play, "other": Play.ready()}), conversation.ROUTES)
    async with app.state.desk.feed, browser_of(app) as http:
        page = (await http.get("/conversations/run")).text
        found = re.search(r'href="/conversations/run(/files[^"]+)"', page)
        assert found is not None
        own = unescape(found[1])
        assert (await http.get(f"/conversations/run{own}")).status_code == 200
        assert (await http.get(f"/conversations/other{own}")).status_code == 404
        assert (await http.get(f"/conversations/none{own}")).status_code == 404
        for query in ("", "message=i1&at=9", "message=i1&at=-1", "message=x&at=0", "at=0"):
            assert (await http.get(f"/conversations/run/files?{query}")).status_code == 404


async def test_a_file_is_for_those_who_see_the_conversation() -> None:
    app = desk_of(PlayedRuns({"run": wrote(image(PNG))}), conversation.ROUTES, roles=())
    async with app.state.desk.feed, browser_of(app) as http:
        assert (await http.get("/conversations/run/files?message=i1&at=0")).status_code == 403


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"%PDF-1.4<script>", "application/pdf"),
        (b"", "application/octet-stream"),
        (b"a\0b", "application/octet-stream"),
        (b"\xff\xfe", "application/octet-stream"),
        (HTML, "text/plain; charset=utf-8"),
    ],
)
def test_no_file_has_the_type_of_a_page(content: bytes, kind: str) -> None:
    assert kind_of(content) == kind


def test_what_is_sent_as_a_picture_and_is_none_is_refused_at_the_door() -> None:
    with pytest.raises(Exception, match=r"photo\.png"):
        part_of("photo.png", HTML)
