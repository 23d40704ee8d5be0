"""The chat in frames of other sites, and guests: headers, cookies, and who gets in."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from outlast.loop.approvals import ApprovalRequest
from outlast.loop.state import Hold, LoopState, Question
from outlast.serve.look import WORDS, Look
from outlast.serve.pages.chat_look import GUEST_COOKIE
from outlast.serve.pages.chat_view import status_of
from outlast.views.customer import By, CustomerMessage, customer_view
from outlast.views.run import snapshot_of
from tests.unit.serve.chat_desk import ORIGIN, Place, place, team, token

SHOP: Final = "https://shop.example"
LOOK: Final = Look(embed=[SHOP, "https://other.example"], guests=True, name="Globex <b>")
FRAME: Final = {"Sec-Fetch-Dest": "iframe", **ORIGIN}
NONE: Final = "frame-ancestors 'none'"
LISTED: Final = f"frame-ancestors {SHOP} https://other.example"


def policy(answer: Any) -> str:
    found: str = answer.headers["content-security-policy"]
    return found


async def come(desk: Place, run_id: str = "mine", **headers: str) -> Any:
    async with desk.client(**(FRAME | headers)) as http:
        return await http.post("/chat/open", data={"token": token(run_id)})


async def test_listed_sites_frame_a_customers_pages_and_nobody_elses() -> None:
    desk = place(look=LOOK)
    async with desk.client() as http:
        assert policy(await http.get("/chat/open")).endswith(LISTED)
        refused = await http.get("/chat/c/mine")
        assert refused.status_code == 401
        assert policy(refused).endswith(LISTED)
        cookie = {"Cookie": f"outlast_conversation={token()}"}
        assert policy(await http.get("/chat/c/mine?agent=Support", headers=cookie)).endswith(LISTED)
    async with team(look=LOOK).client(**FRAME) as http:
        # A login at a proxy comes along in a frame: what it may see is never framed.
        for page in ("/chat", "/chat/c/mine?agent=Support", "/agents"):
            assert policy(await http.get(page)).endswith(NONE)


async def test_without_a_list_nothing_is_framed() -> None:
    async with place().client(**FRAME) as http:
        assert policy(await http.get("/chat/open")).endswith(NONE)
        assert (await http.get("/chat/embed.js")).status_code == 404
    assert "Partitioned" not in (await come(place())).headers["set-cookie"]


async def test_the_cookie_of_a_frame_is_partitioned() -> None:
    cookie = (await come(place(look=LOOK))).headers["set-cookie"].lower()
    for part in ("httponly", "secure", "samesite=none", "partitioned", "path=/chat/c/mine"):
        assert part in cookie
    script = await come(place(look=LOOK), **{"Sec-Fetch-Dest": "empty", "X-Chat-Frame": "1"})
    assert "partitioned" in script.headers["set-cookie"].lower()
    plain = await come(place(look=LOOK), **{"Sec-Fetch-Dest": "document"})
    assert "samesite=strict" in plain.headers["set-cookie"].lower()
    assert "partitioned" not in plain.headers["set-cookie"].lower()


async def test_a_change_from_the_page_around_the_frame_is_refused() -> None:
    desk = place(look=LOOK)
    cookie = {"Cookie": f"outlast_conversation={token()}"}
    data = {"text": "Hi", "nonce": "12345678"}
    async with desk.client(Origin=SHOP, **cookie) as http:
        assert (await http.post("/chat/c/mine?agent=Support", data=data)).status_code == 403
        assert (await http.post("/chat/guest")).status_code == 403
        assert (await http.post("/chat/open", data={"token": token()})).status_code == 403
    assert not desk.runs.get("mine") or not desk.runs["mine"].sent


async def test_a_token_in_a_frame_opens_its_conversation_alone() -> None:
    desk = place(look=LOOK)
    cookie = {"Cookie": f"outlast_conversation={token('mine')}"}
    async with desk.client(**FRAME, **cookie) as http:
        assert (await http.get("/chat/c/mine?agent=Support")).status_code == 200
        assert (await http.get("/chat/c/other?agent=Support")).status_code == 401


async def test_the_script_has_the_look_as_data() -> None:
    async with place(look=LOOK).client() as http:
        answer = await http.get("/chat/embed.js")
    assert answer.headers["content-type"].startswith("text/javascript")
    assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
    found = re.search(r"const look = (\{.*\});", answer.text)
    assert found is not None
    look = json.loads(found[1])
    assert look["door"] == "http://localhost:8090/chat/open"
    assert (look["name"], look["origins"]) == ("Globex <b>", [SHOP, "https://other.example"])


async def test_colors_and_a_logo_come_from_the_desk(tmp_path: Path) -> None:
    logo = tmp_path / "logo.svg"
    logo.write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
    async with place(look=Look(color="#0b6e4f", logo=logo)).client() as http:
        colors = await http.get("/chat/look/colors.css")
        assert "--accent: #0b6e4f" in colors.text
        picture = await http.get("/chat/look/logo")
        assert picture.headers["content-type"] == "image/svg+xml"
        assert policy(picture).startswith("sandbox; default-src 'none'")
        door = (await http.get("/chat/open")).text
    assert "/chat/look/colors.css" in door
    assert "/chat/look/logo" in door
    async with place().client() as http:
        assert (await http.get("/chat/look/logo")).status_code == 404


async def test_the_words_of_the_operator_are_text() -> None:
    words = {"hello": "<script>alert(1)</script>", "send": '"><img src=x onerror=alert(1)>'}
    async with place(look=Look(name="<i>&", words=words)).client(
        Cookie=f"outlast_conversation={token()}"
    ) as http:
        text = (await http.get("/chat/c/mine?agent=Support")).text
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<title>&lt;i&gt;&amp;</title>" in text


# --- Guests --------------------------------------------------------------------------------------


async def test_a_guest_gets_a_conversation_and_finds_it_again() -> None:
    desk = place(look=LOOK)
    async with desk.client(**FRAME) as http:
        first = await http.post("/chat/guest?agent=Support")
        assert first.status_code == 303
        cookies = first.headers.get_list("set-cookie")
        assert all("Partitioned" in one for one in cookies)
        mine = next(one for one in cookies if one.startswith(GUEST_COOKIE)).partition(";")[0]
        assert "Path=/chat/guest" in next(one for one in cookies if one.startswith(GUEST_COOKIE))
        http.cookies.clear()
        again = await http.post("/chat/guest?agent=Support", headers={"Cookie": mine})
        assert again.headers["location"] == first.headers["location"]
        http.cookies.clear()
        new = await http.post("/chat/guest?new=yes", headers={"Cookie": mine})
        http.cookies.clear()
        other = await http.post("/chat/guest")
    found = {one.headers["location"].partition("?")[0] for one in (first, new, other)}
    assert len(found) == 3
    assert all(one.startswith("/chat/c/guest-") for one in found)


async def test_a_guest_has_no_conversation_of_somebody_with_a_token() -> None:
    async with place(look=LOOK).client(**FRAME) as http:
        for theirs in (token("case-1"), "oc1.forged", ""):
            answer = await http.post("/chat/guest", headers={"Cookie": f"{GUEST_COOKIE}={theirs}"})
            assert "case-1" not in answer.headers["location"]
            http.cookies.clear()


async def test_guests_come_only_where_the_operator_says_so() -> None:
    for desk in (place(look=replace(LOOK, guests=False)), place(look=LOOK, tokens=None)):
        async with desk.client(**FRAME) as http:
            assert (await http.post("/chat/guest")).status_code == 401
    async with place().client() as http:
        assert "Start a chat" not in (await http.get("/chat/open")).text


# --- What it waits for ---------------------------------------------------------------------------


HELD: Final = LoopState(phase="held", hold=Hold(by="bob", at_ms=1))


def said(*who: By) -> tuple[CustomerMessage, ...]:
    return tuple(CustomerMessage(id=f"i{at}", by=by, text="Hi") for at, by in enumerate(who))


@pytest.mark.parametrize(
    ("state", "messages", "expected"),
    [
        (HELD, said("customer"), "looks"),
        (HELD, said("customer", "assistant"), "taken"),
        (HELD, said("customer", "colleague"), "your_turn"),
        (HELD, said("customer", "colleague", "customer"), "looks"),
        (replace(HELD, hold=None), said("customer"), "team"),  # nobody has taken it yet
        (LoopState(phase="closed"), said("customer"), "ended"),
        (LoopState(phase="idle"), said("customer", "assistant"), ""),
    ],
)
def test_the_chat_says_what_it_waits_for(
    state: LoopState, messages: tuple[CustomerMessage, ...], expected: str
) -> None:
    run = snapshot_of(state)
    view = replace(customer_view(run), messages=messages)
    assert status_of(run, view, works=False) == expected
    assert not expected or expected in WORDS


@pytest.mark.parametrize(
    ("words", "shown"), [({}, False), ({"request": "A colleague checks it."}, True)]
)
async def test_a_request_has_words_only_where_the_operator_has_some(
    words: dict[str, str], shown: bool
) -> None:
    request = ApprovalRequest(
        id="a1",
        call_id="c1",
        name="refund",
        agent="A",
        arguments="{}",
        args_digest="d",
        requested_at_ms=1,
    )
    waits = LoopState(phase="acting", approvals=(request,), question=Question(answering=("m1",)))
    run = snapshot_of(waits)
    assert status_of(run, customer_view(run), works=True) == "request"
    desk = place(look=Look(words=words))
    desk.play(waits)
    async with desk.client(Cookie=f"outlast_conversation={token()}") as http:
        text = (await http.get("/chat/c/mine")).text
    assert ('auto"><span class="dots"' in text) == shown
    assert ("A colleague checks it." in text) == shown
