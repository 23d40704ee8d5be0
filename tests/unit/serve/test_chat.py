"""The chat page: who comes in, what they see, what they send."""

import asyncio
import json
import re
import time
from base64 import b64encode
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given

from outlast.agents.agent import Agent
from outlast.agents.errors import RunClosed, ServerUnavailable, UserError
from outlast.client.read.events import StreamedState
from outlast.client.results.result_members import RunSnapshot
from outlast.contract.streams.delta_reader import UNJUDGED
from outlast.deliveries.problems import Refused
from outlast.loop.aside import Aside
from outlast.loop.items import Item
from outlast.loop.machine import advance
from outlast.loop.state import LoopState
from outlast.serve import uploads
from outlast.serve.access import RoleRules
from outlast.serve.feed import FeedLimits
from outlast.serve.pages import chat
from outlast.serve.pages.chat_stream import PageContent, chat_events
from outlast.serve.pages.chat_view import ChatView
from outlast.serve.pages.parts import SHOWN
from outlast.views.customer import customer_view
from outlast.views.run import loop_state, snapshot_of
from tests.laws.driver import Play, message, said
from tests.laws.strategies import Script, examples, play_script, scripts
from tests.pictures import CUT_PNG, HEIC, PNG, SVG
from tests.unit.serve.chat_desk import ORIGIN, Place, PlayedRun, place, team, token
from tests.unit.serve.scripted_source import COMPLETED, RESTART, event, raw
from tests.unit.serve.test_customer_view import SECRET, secretive_play

COOKIE = "outlast_conversation"
NONCE = "abcdefgh1234"

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "[click](javascript:alert(1))",
    "![x](https://evil.example/track.png)",
    "</textarea><script>alert(1)</script>",
    "a\u202eb\u200bc\x1b[31m",
    "{{ 7*7 }} {% raw %}",
    "<svg onload=alert(1)>",
    "&lt;script&gt; &#x202e;",
    "' onmouseover='alert(1)",
]
HARMFUL = re.compile(
    r"<script(?! src=\"/)|<svg onload|onerror=alert\(1\)>|<img src=x|href=\"javascript|<img[^>]*evil|\u202e|\u200b|\x1b|>49 "
)


@pytest.fixture(autouse=True)
def no_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing feeds these pages, so a page would wait for the times of its messages in vain."""
    monkeypatch.setattr(chat, "TIMES_SECONDS", 0.0)


@pytest.fixture
def desk() -> Place:
    return place()


def answered(*texts: str, user: str = "Hello") -> LoopState:
    """Return an open conversation with an answer."""
    play = Play(said=message("m1", user), keep_open=True)
    play.prepared()
    for at, text in enumerate(texts):
        if at:
            play.hears(f"m{at + 1}", f"Question {at + 1}")
        play.replies(said(text))
    return play.state


def open_to(desk: Place, run_id: str = "mine", **options: Any) -> Any:
    """Return the browser of a customer who has come in."""
    client = desk.client()
    path = f"/chat/c/{quote(run_id, safe='')}"
    client.cookies.set(COOKIE, token(run_id, **options), domain="localhost.local", path=path)
    client.headers["Cookie"] = f"{COOKIE}={token(run_id, **options)}"
    return client


async def post(client: Any, path: str = "/chat/c/mine", **fields: Any) -> Any:
    data = {"nonce": NONCE, "text": "Hello", **fields.pop("data", {})}
    headers = {**ORIGIN, **fields.pop("headers", {})}
    return await client.post(path, data=data, headers=headers, **fields)


# --- Coming in -------------------------------------------------------------------------------------


async def test_a_token_becomes_a_cookie_of_its_conversation_alone(desk: Place) -> None:
    desk.play(answered("Hi."), "a/b c")
    async with desk.client() as client:
        mine = token("a/b c")
        opened = await client.post("/chat/open", data={"token": mine}, headers=ORIGIN)
        assert (opened.status_code, opened.headers["Location"]) == (303, "/chat/c/a%2Fb%20c")
        cookie = opened.headers["Set-Cookie"]
        assert cookie.startswith(f"{COOKIE}={mine};")
        parts = {part.strip().lower() for part in cookie.split(";")[1:]}
        assert {"httponly", "samesite=strict", "path=/chat/c/a%2fb%20c"} <= parts
        assert "secure" not in parts
        (age,) = [part for part in parts if part.startswith("max-age=")]
        assert 86_000 < int(age.removeprefix("max-age=")) <= 86_400
        shown = await client.get("/chat/c/a%2Fb%20c", headers={"Cookie": f"{COOKIE}={mine}"})
        assert (shown.status_code, "Hi." in shown.text) == (200, True)
        assert mine not in shown.text


async def test_off_this_machine_the_cookie_is_secure() -> None:
    desk = place(url="https://desk.example.com")
    headers = {"Host": "desk.example.com", "Origin": "https://desk.example.com"}
    async with desk.client(**headers) as client:
        opened = await client.post("/chat/open", data={"token": token()})
        assert "; secure" in opened.headers["Set-Cookie"].lower()


async def test_a_mounted_desk_keeps_its_prefix() -> None:
    desk = place(prefix="/desk")
    desk.play(answered("Hi."))
    async with desk.client(Cookie=f"{COOKIE}={token()}") as client:
        opened = await client.post("/desk/chat/open", data={"token": token()}, headers=ORIGIN)
        assert opened.headers["Location"] == "/desk/chat/c/mine"
        assert "path=/desk/chat/c/mine" in opened.headers["Set-Cookie"].lower()
        shown = await client.get("/desk/chat/c/mine")
        assert 'data-events="/desk/chat/c/mine/events?first=0"' in shown.text
        assert (await client.get(re.findall(r'src="(/desk/static[^"]+)', shown.text)[0])).text


@pytest.mark.parametrize("given", ["", "nonsense", "oc1.a.b.1.v2.c", None])
async def test_other_tokens_open_nothing_and_are_not_shown(desk: Place, given: str | None) -> None:
    async with desk.client() as client:
        data = {} if given is None else {"token": given}
        refused = await client.post("/chat/open", data=data, headers=ORIGIN)
        assert refused.status_code == 401
        assert "Set-Cookie" not in refused.headers
        assert "This link has expired" in refused.text


async def test_a_page_of_somebody_else_logs_nobody_in(desk: Place) -> None:
    async with desk.client() as client:
        for origin in ({}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
            refused = await client.post("/chat/open", data={"token": token()}, headers=origin)
            assert (refused.status_code, "Set-Cookie" in refused.headers) == (403, False)


async def test_the_page_that_takes_the_token_shows_no_conversation(desk: Place) -> None:
    async with desk.client() as client:
        door = await client.get("/chat/open")
        assert door.status_code == 200
        assert "<form" in door.text


async def test_a_token_of_another_conversation_opens_nothing(desk: Place) -> None:
    desk.play(answered("SECRET"))
    desk.play(answered("Mine."), "other")
    async with open_to(desk, "other") as client:
        paths = ("/chat/c/mine", "/chat/c/mine/events", "/chat/c/mine/files/i0/0", "/chat/c/none")
        answers = [await client.get(path) for path in paths]
        assert {one.status_code for one in answers} == {401}
        assert not [one for one in answers if SECRET in one.text]
        assert answers[0].text == answers[3].text
        assert (await post(client)).status_code == 401
        assert desk.runs["mine"].sent == {}
        assert (await client.get("/chat/c/other")).status_code == 200


async def test_a_cookie_counts_on_the_pages_of_the_chat_alone() -> None:
    desk = place()
    async with open_to(desk) as client:
        for path in ("/chat", "/chat/Support"):
            assert (await client.get(path)).status_code in {303, 401}


async def test_nobody_sees_a_conversation(desk: Place) -> None:
    desk.play(answered("SECRET"))
    async with desk.client() as client:
        refused = await client.get("/chat/c/mine")
        assert (refused.status_code, SECRET in refused.text) == (401, False)
        assert "Open the chat with the link" in refused.text


async def test_an_expired_token_opens_nothing(desk: Place) -> None:
    desk.play(answered("Hi."))
    yesterday = (time.time_ns() // 1_000_000) - 90_000_000
    async with open_to(desk, now_ms=yesterday) as client:
        assert (await client.get("/chat/c/mine")).status_code == 401
        assert (await post(client)).status_code == 401


async def test_a_change_needs_the_page_of_the_desk(desk: Place) -> None:
    run = desk.play(answered("Hi."))
    async with open_to(desk) as client:
        for origin in ("null", "https://evil.example"):
            refused = await post(client, headers={"Origin": origin})
            assert (refused.status_code, run.sent) == (403, {})


# --- The team ----------------------------------------------------------------------------------------


async def test_an_operator_begins_a_conversation_as_a_customer() -> None:
    desk = team()
    async with desk.client() as client:
        listed = await client.get("/chat")
        assert 'href="/chat/Support"' in listed.text
        begun = await client.get("/chat/Support")
        address = begun.headers["Location"]
        assert re.fullmatch(r"/chat/c/chat-[0-9a-f]{16}\?agent=Support", address)
        assert f"path={address.partition('?')[0]}" in begun.headers["Set-Cookie"].lower()
        assert desk.runs == {}
        shown = await client.get(address)
        assert "Write a message to begin" in shown.text
        assert "New chat" in shown.text
        assert (await client.get("/chat/Nobody")).status_code == 404


async def test_without_keys_an_operator_writes_as_themselves() -> None:
    desk = team(tokens=None)
    async with desk.client() as client:
        begun = await client.get("/chat/Support")
        assert (begun.status_code, "Set-Cookie" in begun.headers) == (303, False)
        assert (await client.get(begun.headers["Location"])).status_code == 200


async def test_a_viewer_reads_and_does_not_write() -> None:
    desk = team(roles=RoleRules(anybody=["viewer"]))
    run = desk.play(answered("Hi."))
    async with desk.client() as client:
        assert (await client.get("/chat/Support")).status_code == 403
        assert (await client.get("/chat/c/mine")).status_code == 200
        assert ((await post(client)).status_code, run.sent) == (403, {})


async def test_an_agent_may_have_the_name_of_a_page() -> None:
    desk = team(agents=(Agent[Any](name="open"), Agent[Any](name="a/b")))
    async with desk.client() as client:
        listed = await client.get("/chat")
        addresses = re.findall(r'class="item" href="([^"]+)"', listed.text)
        assert addresses == ["/chat/%6Fpen", "/chat/a%2Fb"]
        for address in addresses:
            assert "/chat/c/" in (await client.get(address)).headers["Location"]


async def test_a_customer_sees_no_links_of_the_team(desk: Place) -> None:
    desk.play(answered("Hi."))
    async with open_to(desk) as client:
        shown = (await client.get("/chat/c/mine")).text
    assert "New chat" not in shown
    assert "/conversations" not in shown


# --- What a customer sees ------------------------------------------------------------------------------


async def test_messages_are_shown_with_who_says_them(desk: Place) -> None:
    play = Play(said=message("m1", "Hello"), keep_open=True)
    play.prepared()
    play.replies(said("**Hi** there."))
    play.holds("SECRET-ann")
    play.says("I am a person.", by="SECRET-ann")
    desk.play(play.state)
    async with open_to(desk) as client:
        shown = (await client.get("/chat/c/mine")).text
    assert "<strong>Hi</strong> there." in shown
    assert "A colleague" in shown
    assert "I am a person." in shown
    assert SECRET not in shown
    assert shown.index("Hello") < shown.index("<strong>Hi") < shown.index("I am a person.")


async def test_a_message_that_waits_is_marked(desk: Place) -> None:
    play = Play.ready(keep_open=True)
    play.hears("m2", "And my refund?", mode="queue")
    desk.play(play.state)
    async with open_to(desk) as client:
        shown = (await client.get("/chat/c/mine")).text
    assert "Sent, not read yet" in shown
    assert "An answer is on its way" in shown


async def test_a_run_that_no_worker_has_taken_is_shown(desk: Place) -> None:
    desk.runs["mine"] = PlayedRun(loop_state(RunSnapshot()))
    async with open_to(desk) as client:
        shown = await client.get("/chat/c/mine")
        assert (shown.status_code, "An answer is on its way" in shown.text) == (200, True)
        assert (await client.get("/chat/c/other")).status_code == 401


async def test_an_ended_conversation_takes_nothing(desk: Place) -> None:
    play = Play.ready()
    play.replies(said("Bye."))
    run = desk.play(play.state)
    async with open_to(desk) as client:
        shown = (await client.get("/chat/c/mine")).text
        assert "This conversation has ended." in shown
        assert re.search(r'<form id="write"[^>]* hidden', shown)
        refused = await post(client)
        assert (refused.status_code, run.sent) == (409, {})
        assert "This conversation has ended." in refused.text


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_words_do_nothing(desk: Place, text: str) -> None:
    state = answered(text, user=text)
    photo = {"type": "input_file", "filename": text, "file_data": "data:text/plain;base64,QQ=="}
    content = [{"type": "input_text", "text": text}, photo]
    items = (*state.items, Item("input", {"role": "user", "content": content}))
    desk.play(replace(state, items=items))
    async with open_to(desk) as client:
        shown = await client.get("/chat/c/mine")
        assert not HARMFUL.search(shown.text), HARMFUL.search(shown.text)
        desk.runs["mine"].failure = ServerUnavailable(text)
        again = await post(client, data={"text": text})
        # The draft is kept as it was; everything else is made visible.
        page, _, rest = again.text.partition("<textarea")
        assert not HARMFUL.search(page)
        assert "<script>alert" not in rest


async def test_a_page_lets_no_script_of_others_run(desk: Place) -> None:
    desk.play(answered("Hi."))
    async with open_to(desk) as client:
        shown = await client.get("/chat/c/mine")
    policy = shown.headers["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert shown.headers["Cache-Control"] == "no-store"
    assert not re.search(r"<script(?![^>]*src=)|\son\w+=|style=", shown.text)


@examples(60)
@given(scripts())
def test_in_any_run_the_page_shows_the_view_and_nothing_else(script: Script) -> None:
    """Two runs with the same view have the same page, whatever else is in them."""

    async def walk() -> None:
        desk = place()
        state = LoopState()
        async with open_to(desk) as client:
            for at, event in enumerate(play_script(script).events):
                state, _ = advance(state, event)
                if at % 7:
                    continue
                desk.play(state)
                shown = (await client.get("/chat/c/mine")).text
                view = customer_view(state)
                ids = re.findall(r'data-message="([^"]+)"', shown)
                assert ids == [
                    *(one.id for one in view.messages),
                    *(f"u-{one.id}" for one in view.unread),
                ]

    asyncio.run(walk())


async def test_a_run_with_secrets_shows_none(desk: Place) -> None:
    play = secretive_play()
    state, shown = LoopState(), None
    async with open_to(desk) as client:
        for event in play.events:
            state, _ = advance(state, event)
            run = desk.play(state)
            shown = await client.get("/chat/c/mine")
            assert SECRET not in shown.text.replace(repr(run), "")
        assert shown is not None
        files = re.findall(r'(/chat/c/mine/files/[^"]+)"', shown.text)
        for address in files:
            assert SECRET.encode() not in (await client.get(address)).content


# --- Files -----------------------------------------------------------------------------------------------


def with_files(*parts: dict[str, Any]) -> LoopState:
    state = answered("Hi.")
    photo = Item("input", {"role": "user", "content": list(parts)})
    return replace(state, items=(*state.items, photo))


def data_url(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{b64encode(content).decode()}"


async def test_photos_are_shown_and_files_are_downloads(desk: Place) -> None:
    svg = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"
    desk.play(
        with_files(
            {"type": "input_image", "image_url": data_url("image/png", PNG)},
            {"type": "input_image", "image_url": data_url("image/svg+xml", svg)},
            {
                "type": "input_file",
                "filename": "a.html",
                "file_data": data_url("text/html", b"<b>"),
            },
            {"type": "input_file", "filename": "b", "file_data": "no base64!"},
        )
    )
    async with open_to(desk) as client:
        shown = (await client.get("/chat/c/mine")).text
        paths = list(dict.fromkeys(re.findall(r'href="(/chat/c/mine/files/[^"]+)"', shown)))
        answers = [await client.get(path) for path in paths]
        assert [one.status_code for one in answers] == [200, 200, 200, 404]
        kinds = [one.headers["Content-Type"] for one in answers[:3]]
        assert kinds == ["image/png", "application/octet-stream", "application/octet-stream"]
        assert answers[0].content == PNG
        for one in answers[1:3]:
            assert one.headers["Content-Disposition"] == "attachment"
            assert "sandbox" in one.headers["Content-Security-Policy"]
        message_id = paths[0].split("/")[-2]
        for path in (f"{message_id}/9", f"{message_id}/-1", f"{message_id}/x", "i0/0", "i99/0"):
            assert (await client.get(f"/chat/c/mine/files/{path}")).status_code == 404


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("a.png", b"", "file_empty"),
        ("a.png", b"x" * (uploads.LARGEST_FILE + 1), "file_too_large"),
        ("a.html", b"<b>Hello</b>", "file_kind"),
        ("a.exe", b"MZ\x90\x00", "file_kind"),
        ("a.png", b"<script>", "file_kind"),
        ("a.zip", b"PK\x03\x04", "file_kind"),
        ("a.txt", b"\xff\xfe\x00", "file_kind"),
        ("a.txt", b"a\0b", "file_kind"),
    ],
)
def test_files_of_other_kinds_and_sizes_are_refused(name: str, content: bytes, code: str) -> None:
    with pytest.raises(Refused) as refused:
        uploads.part_of(name, content)
    assert refused.value.code == code
    assert name in refused.value.message


def test_what_a_file_is_its_bytes_say() -> None:
    part = uploads.part_of("../../evil.html", PNG)
    assert part["type"] == "input_image"
    assert part["image_url"] == data_url("image/png;name=evil.html", PNG)
    text = uploads.part_of("C:\\x\\notes.TXT", b"Hello")
    assert (text["filename"], text["file_data"]) == ("notes.TXT", data_url("text/plain", b"Hello"))
    assert uploads.part_of("a.pdf", b"%PDF-1.7")["type"] == "input_file"


@pytest.mark.parametrize(
    ("given", "expected"),
    [("", "file"), ("/", "file"), ("a\nb\x1b.txt", "a_b_.txt"), ("..", "..")],
)
def test_the_name_of_a_file_is_one_short_line(given: str, expected: str) -> None:
    assert uploads.plain_name(given) == expected
    assert len(uploads.plain_name("x" * 5_000 + ".txt")) < 100


# --- Sending -----------------------------------------------------------------------------------------------


async def test_a_plain_form_sends_and_shows_the_page(desk: Place) -> None:
    run = desk.play(answered("Hi."))
    async with open_to(desk) as client:
        sent = await post(client, data={"text": "Two\r\nlines "})
        assert (sent.status_code, sent.headers["Location"]) == (303, "/chat/c/mine")
    ((name, content),) = run.sent.items()
    assert content == "Two\nlines"
    assert re.fullmatch(rf"customer-{NONCE}\.[0-9a-f]{{24}}", name)


async def test_a_form_that_is_sent_twice_is_one_message(desk: Place) -> None:
    run = desk.play(answered("Hi."))
    async with open_to(desk) as client:
        for _ in range(2):
            assert (await post(client)).status_code == 303
        assert len(run.sent) == 1
        # An old page, gone back to: another text is another message.
        await post(client, data={"text": "Something else"})
        await post(client, data={"nonce": "another-page"})
    assert list(run.sent.values()) == ["Hello", "Something else", "Hello"]


async def test_a_message_may_have_photos_and_files(desk: Place) -> None:
    run = desk.play(answered("Hi."))
    files = [
        ("files", ("photo.png", PNG, "text/html")),
        ("files", ("notes.txt", b"Hello", "image/png")),
    ]
    async with open_to(desk) as client:
        sent = await post(client, files=files, headers={"X-Chat": "1"})
        assert (sent.status_code, sent.content) == (204, b"")
    ((_, content),) = run.sent.items()
    assert [part["type"] for part in content[0]["content"]] == [
        "input_text",
        "input_image",
        "input_file",
    ]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("receipt.png", CUT_PNG, "The picture receipt.png is incomplete. Send it again."),
        ("me.heic", HEIC, "The picture me.heic is of the type HEIC, which cannot be read here."),
        ("logo.svg", SVG, "The picture logo.svg is of the type SVG, which cannot be read here."),
    ],
)
async def test_the_page_says_what_is_wrong_with_a_picture_and_keeps_the_words(
    desk: Place, name: str, content: bytes, words: str
) -> None:
    run = desk.play(answered("Hi."))
    files = [("files", ("photo.png", PNG, "image/png")), ("files", (name, content, "image/png"))]
    async with open_to(desk) as client:
        refused = await post(client, files=files, headers={"X-Chat": "1"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "picture_refused")
        assert refused.json()["error"]["message"].startswith(words)
        page = await post(client, files=files)
        assert page.status_code == 400
        assert words in page.text
        assert ">\nHello</textarea>" in page.text
        assert run.sent == {}
        assert (await post(client, files=files[:1])).status_code == 303
    assert len(run.sent) == 1


async def test_a_message_has_few_files(desk: Place) -> None:
    run = desk.play(answered("Hi."))
    async with open_to(desk) as client:
        many = [("files", (f"{n}.txt", b"x", "text/plain")) for n in range(11)]
        refused = await post(client, files=many, headers={"X-Chat": "1"})
        assert refused.json()["error"]["code"] == "too_many_files"
        more = [("files", (f"{n}.txt", b"x", "text/plain")) for n in range(30)]
        assert (await post(client, files=more, headers={"X-Chat": "1"})).status_code == 400
        large = [("files", (f"{n}.pdf", b"%PDF-" + b"x" * 9_000_000, "a/b")) for n in range(3)]
        refused = await post(client, files=large, headers={"X-Chat": "1"})
        assert refused.status_code == 413
        wrong = [("files", ("a.exe", b"MZ", "image/png"))]
        refused = await post(client, files=wrong)
        assert refused.status_code == 415
        assert "a.exe cannot be sent" in refused.text
        assert ">\nHello</textarea>" in refused.text
    assert run.sent == {}


@pytest.mark.parametrize(
    "fields",
    [
        {"text": ""},
        {"text": " \r\n "},
        {"nonce": ""},
        {"nonce": "a b"},
        {"nonce": "x" * 65},
        {"text": "x" * 50_001},
    ],
)
async def test_other_forms_are_refused(desk: Place, fields: dict[str, str]) -> None:
    run = desk.play(answered("Hi."))
    async with open_to(desk) as client:
        refused = await post(client, data=fields, headers={"X-Chat": "1"})
    assert refused.status_code in {400, 413}
    assert refused.json()["error"]["code"] == "message_invalid"
    assert run.sent == {}


@pytest.mark.parametrize(
    ("failure", "status", "words"),
    [
        (ServerUnavailable("No server at SECRET:7233."), 503, "in a minute"),
        (RunClosed("The run SECRET has ended."), 409, "has ended"),
        (UserError("The payload has SECRET bytes."), 413, "too large"),
        (RuntimeError("SECRET"), 500, "This did not work"),
    ],
)
async def test_problems_are_in_words_for_customers(
    desk: Place, failure: Exception, status: int, words: str
) -> None:
    desk.play(answered("Hi.")).failure = failure
    async with open_to(desk) as client:
        plain = await post(client)
        scripted = await post(client, headers={"X-Chat": "1"})
    assert (plain.status_code, scripted.status_code) == (status, status)
    assert words in plain.text
    assert words in scripted.json()["error"]["message"]
    assert SECRET not in plain.text + scripted.text
    assert ">\nHello</textarea>" in plain.text


async def test_a_conversation_that_has_not_begun_needs_an_agent() -> None:
    desk = place(agents=())
    async with open_to(desk) as client:
        refused = await client.get("/chat/c/mine?agent=SECRET")
        assert (refused.status_code, SECRET in refused.text) == (404, False)
        assert (await post(client)).status_code == 404


# --- Live --------------------------------------------------------------------------------------------------


async def events_of(client: Any, path: str = "/chat/c/mine/events") -> list[tuple[str, Any]]:
    """Return what a stream sends until it ends."""
    answer = await client.get(path, headers={"Accept": "text/event-stream"})
    assert answer.status_code == 200, answer.text
    found: list[tuple[str, Any]] = []
    for block in answer.text.split("\n\n"):
        fields = dict(
            line.split(": ", 1) for line in block.splitlines() if not line.startswith(":")
        )
        if "data" in fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


async def test_a_stream_ends_with_its_token(desk: Place) -> None:
    desk.play(answered("Hi."))
    desk.source.put(streamed(LoopState()))
    async with open_to(desk, lifetime=timedelta(seconds=1)) as client:
        began = time.monotonic()
        found = await events_of(client)
        assert time.monotonic() - began < 5
        assert [kind for kind, _ in found] == ["chat"]
        assert (await client.get("/chat/c/mine/events")).status_code == 401


async def test_a_stream_of_a_run_that_does_not_exist_is_refused(desk: Place) -> None:
    async with open_to(desk) as client:
        refused = await client.get("/chat/c/mine/events", headers={"Accept": "text/event-stream"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "run_not_found")


@pytest.fixture(autouse=True)
async def _close(desk: Place) -> AsyncGenerator[None]:
    yield
    await desk.app.state.desk.feed.close()


def thinking(*texts: str) -> LoopState:
    """Return a conversation in which the model is being called."""
    play = Play(said=message("m1", "Hello"), keep_open=True)
    play.prepared()
    for at, text in enumerate(texts):
        play.replies(said(text))
        play.hears(f"m{at + 2}", f"Question {at + 2}")
    return replace(play.state, run_id="mine")


def written(text: str, *, is_unjudged: bool = True) -> Any:
    fields = {UNJUDGED: True} if is_unjudged else {}
    return raw("response.output_text.delta", delta=text, output_index=0, **fields)


def streamed(state: LoopState, *numbers: int, present: bool = True) -> StreamedState:
    return StreamedState(
        state=snapshot_of(state), events=tuple(map(event, numbers)), is_present=present
    )


def page_of(found: list[tuple[str, Any]]) -> tuple[list[str], str]:
    """Return the texts and the text in progress that a page has after a stream, as its script does."""
    html: dict[str, str] = {}
    order, text = list[str](), ""
    for kind, content in found:
        if kind == "chat":
            html |= content["html"]
            order = content["order"]
            text = content.get("text", text)
        elif kind == "text":
            text = content["text"] if "text" in content else text + content["add"]
    words = [re.sub(r"<[^>]+>", "", html[one]).split(":", 1)[-1].strip() for one in order]
    return words, text


async def test_an_answer_is_shown_while_it_is_written_and_then_as_a_message(desk: Place) -> None:
    desk.play(thinking())
    desk.source.put(streamed(thinking(), 0), written("It "), written("ships."))
    async with open_to(desk) as client:
        reading = asyncio.create_task(events_of(client))
        await desk.source.is_read.wait()
        desk.source.put(COMPLETED, streamed(replace(answered("It ships."), run_id="mine"), 1))
        desk.source.end()
        found = await reading
    assert page_of(found) == (["Hello", "It ships."], "")
    assert found[-1] == ("end", {})


@pytest.mark.parametrize("is_unjudged", [True, False])
async def test_a_text_that_somebody_judges_is_not_sent(desk: Place, is_unjudged: bool) -> None:
    desk.play(thinking())
    desk.source.put(streamed(thinking(), 0), written("SECRET draft", is_unjudged=is_unjudged))
    desk.source.end()
    async with open_to(desk) as client:
        found = await events_of(client)
    assert page_of(found) == (["Hello"], "SECRET draft" if is_unjudged else "")
    assert (SECRET in json.dumps(found)) == is_unjudged


async def test_a_text_that_starts_over_is_shown_once(desk: Place) -> None:
    desk.play(thinking())
    desk.source.put(streamed(thinking(), 0), written("Wrong"), RESTART, written("Right"))
    desk.source.end()
    async with open_to(desk) as client:
        found = await events_of(client)
    assert page_of(found) == (["Hello"], "Right")


async def test_a_long_chat_shows_its_newest_messages_and_earlier_ones_on_demand(
    desk: Place,
) -> None:
    run = replace(thinking(*(f"Answer {n}" for n in range(1, 100))), run_id="mine")
    desk.play(run)
    desk.source.put(streamed(run, 0))
    desk.source.end()
    async with open_to(desk) as client:
        page = part = (await client.get("/chat/c/mine")).text
        found = keys = re.findall('data-message="i([0-9]+)"', part)
        assert len(found) == SHOWN
        while links := re.findall('hx-get="([^"]*/more-messages[^"]*)"', part):
            part = (await client.get(unescape(links[0]))).text
            found = re.findall('data-message="i([0-9]+)"', part) + found
        assert found == [str(number) for number in range(199)]
        plain = re.findall(r'href="([^"]*\?message=\d+)"', page)[0]
        assert len(re.findall("data-message=", (await client.get(plain)).text)) == 2 * SHOWN
        events = unescape(re.findall('data-events="([^"]*)"', page)[0])
        ((_, first),) = [one for one in await events_of(client, events) if one[0] == "chat"]
        assert [one.removeprefix("i") for one in first["order"]] == keys


async def test_a_page_gets_only_what_it_lacks(desk: Place) -> None:
    run = replace(thinking(*(f"Answer {n}" for n in range(1, 20))), run_id="mine")
    desk.play(run)
    desk.source.put(streamed(run, 0))
    desk.source.end()
    async with open_to(desk) as client:
        found = await events_of(client)
    (first,) = [content for kind, content in found if kind == "chat"]
    assert len(first["order"]) == len(first["html"]) == 39


async def test_earlier_messages_are_for_the_customer_of_the_conversation_alone(desk: Place) -> None:
    desk.play(answered("Hi."))
    desk.play(answered("Secret."), "other")
    async with open_to(desk) as client:
        refused = await client.get("/chat/c/other/more-messages?before=999")
        assert refused.status_code == 401
        assert "Secret" not in refused.text
        assert (await client.get("/chat/c/mine/more-messages?before=999")).status_code == 200


def test_a_message_that_has_not_changed_is_not_sent_again() -> None:
    page = PageContent(
        lambda one, is_unread: f"{one.text}{is_unread}",
        lambda view: str(view.works),
        lambda _: "",
    )
    shown = (customer_view(one).messages for one in (answered("A"), answered("A", "B")))
    first, second = (ChatView(messages=messages) for messages in shown)
    begun = page.changes(first, "")
    assert begun is not None
    assert len(json.loads(begun.data)["html"]) == 2
    assert page.changes(first, "") is None
    more = page.changes(second, "")
    assert more is not None
    content = json.loads(more.data)
    assert (len(content["order"]), len(content["html"])) == (4, 2)
    texts = [page.changes(second, text) for text in ("A", "A", "AB", "X", "")]
    assert [one and json.loads(one.data) for one in texts] == [
        {"text": "A"},
        None,
        {"add": "B"},
        {"text": "X"},
        {"text": ""},
    ]


async def test_too_many_windows_are_refused(desk: Place) -> None:
    desk.play(answered("Hi."))
    streams = desk.app.state.desk.streams
    streams.limits = FeedLimits(readers_per_person=1)
    async with open_to(desk) as client:
        with streams.counted("The customer of 'mine'"):
            refused = await client.get(
                "/chat/c/mine/events", headers={"Accept": "text/event-stream"}
            )
    assert refused.status_code == 429
    assert "too many windows" in refused.json()["error"]["message"]


# --- What the assistant does not read, and answers that were cut off -----------------------------------

UNREAD_FILE = "The assistant could not read this attachment."
UNREAD_MESSAGE = "The assistant could not read this message."


@pytest.mark.parametrize(
    ("parts", "files", "messages"), [((1,), 1, 0), ((0, 1), 1, 1), ((None,), 0, 1), ((), 0, 0)]
)
async def test_a_customer_reads_that_the_assistant_could_not_read_what_they_sent(
    desk: Place, parts: tuple[int | None, ...], files: int, messages: int
) -> None:
    photo = {"type": "input_image", "image_url": data_url("image/png", PNG)}
    state = with_files({"type": "input_text", "text": "Look"}, photo, photo)
    at = len(state.items) - 1
    aside = tuple(Aside(item=at, part=part, reason="SECRET", by="SECRET") for part in parts)
    desk.play(replace(state, aside=aside))
    async with open_to(desk) as client:
        shown = (await client.get("/chat/c/mine")).text
    whole = None in parts or 0 in parts
    assert shown.count(UNREAD_FILE) == (0 if whole else files)
    assert shown.count(UNREAD_MESSAGE) == messages
    assert SECRET not in shown


async def test_a_mark_comes_and_goes_while_the_page_is_open(desk: Place) -> None:
    """No event of the run's stream tells of it."""
    state = replace(answered("Hi."), run_id="mine")
    desk.play(state)
    desk.source.put(streamed(state, 0))
    content = PageContent(lambda one, _: f"{one.id}: {one.left_out}", lambda _: "", lambda _: "")
    events = chat_events(desk.app.state.desk, "mine", content)
    async with asyncio.timeout(5), aclosing(events):

        async def next_html() -> dict[str, str]:
            while (event := await anext(events)).event != "chat":
                pass
            return json.loads(event.data)["html"]

        assert (await next_html())["i0"] == "i0: False"
        for aside, mark in (((Aside(item=0, reason=SECRET),), True), ((), False)):
            desk.source.put(streamed(replace(state, aside=aside)))
            assert await next_html() == {"i0": f"i0: {mark}"}


async def test_an_answer_that_a_limit_cut_off_says_so(desk: Place) -> None:
    state = answered("Half a sen")
    raw_item = {**state.items[1].raw, "status": "incomplete"}
    desk.play(replace(state, items=(state.items[0], replace(state.items[1], raw=raw_item))))
    async with open_to(desk) as client:
        assert "This answer was cut short." in (await client.get("/chat/c/mine")).text
