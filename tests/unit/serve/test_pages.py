"""What all pages share: visible text, problems as pages, static files."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx2
import pytest
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection
from starlette.responses import Response

from outlast.agents.errors import RunNotFound
from outlast.client.identity import person
from outlast.edges import rendering
from outlast.loop.approvals import Person
from outlast.serve.access import ROLES, RoleRules
from outlast.serve.login import ThisMachine
from outlast.serve.pages import filters
from outlast.serve.pages.page import ROUTES, STATIC_FILES, page, see_other, show_page
from outlast.serve.routing import Desk, DeskRequest, EscapedPaths, route
from tests.unit.serve.hostile_pages import HOSTILE, active_content

STATIC = Path(filters.__file__).parent / "static"


class Nobody:
    routes = ()
    path = "/login"

    async def person(self, _connection: HTTPConnection) -> Person | None:
        return None


async def _problem(asked: DeskRequest) -> Response:
    raise RunNotFound(f"There is no run {asked.run_id!r}.")


async def _empty(asked: DeskRequest) -> Response:
    return page(asked, "base.html", asked.http.query_params.get("title", "Empty"))


async def _moved(asked: DeskRequest) -> Response:
    return see_other(asked, "conversations", "a/b ?", next="x&y", nothing=None)


def _app(**fields: Any) -> Starlette:
    app = Starlette(
        routes=[
            *ROUTES,
            route("/conversations/{run_id}", _problem, action="view_run", show=show_page),
            route("/empty", _empty, action="inbox", show=show_page),
            route("/moved", _moved, action="inbox", show=show_page),
        ],
        middleware=[Middleware(EscapedPaths)],
    )
    settings: dict[str, Any] = {
        "client": None,
        "feed": None,
        "login": ThisMachine(person("ann", groups=["billing"])),
        "roles": RoleRules(anybody=ROLES),
    }
    app.state.desk = Desk(**(settings | fields))
    return app


def _client(app: Any) -> Any:
    transport = httpx2.ASGITransport(app, client=("127.0.0.1", 5000))
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost:8090")


@pytest.fixture
async def http() -> AsyncGenerator[Any]:
    async with _client(_app()) as client:
        yield client


async def test_a_page_names_the_person_and_loads_nothing_from_elsewhere(http: Any) -> None:
    answer = await http.get("/empty")
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert "ann" in answer.text
    assert "http://" not in answer.text.replace("http://localhost", "")
    assert active_content(answer.text) == []


async def test_static_files_are_kept_for_ever_by_their_content(http: Any) -> None:
    text = (await http.get("/empty")).text
    parser = _Addresses()
    parser.feed(text)
    files = [one for one in parser.found if "/static/" in one]
    # The chat, which customers load, has files of its own.
    assert len(files) == len([one for one in STATIC_FILES if not one.startswith("chat")])
    for address in files:
        answer = await http.get(address)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["Cache-Control"]
    old = await http.get("/static/000000000000/desk.css")
    assert (old.status_code, old.headers["Cache-Control"]) == (200, "no-store")
    for name in ("desk.html", "..%2Fpage.py", "%2Fetc%2Fpasswd", "htmx-LICENSE.txt"):
        assert (await http.get(f"/static/x/{name}")).status_code == 404


async def test_problems_are_pages(http: Any) -> None:
    answer = await http.get("/conversations/%3Cscript%3Ealert(1)%3C%2Fscript%3E")
    assert answer.status_code == 404
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "There is no run" in answer.text
    assert active_content(answer.text) == []


async def test_nobody_is_sent_to_the_login_and_back_again() -> None:
    async with _client(_app(login=Nobody())) as http:
        answer = await http.get("/conversations/a%2Fb?x=1")
        assert answer.status_code == 303
        assert answer.headers["Location"] == "/login?next=%2Fconversations%2Fa%252Fb%3Fx%3D1"
        part = await http.get("/empty", headers={"HX-Request": "true"})
        assert (part.status_code, part.headers["HX-Redirect"]) == (401, "/login")


async def test_a_mounted_desk_links_to_itself() -> None:
    outer = Starlette()
    outer.mount("/desk", _app())
    async with _client(outer) as http:
        answer = await http.get("/desk/moved")
        assert answer.headers["Location"] == "/desk/conversations/a%2Fb%20%3F?next=x%26y"
        text = (await http.get("/desk/empty")).text
        assert 'href="/desk/conversations"' in text
        assert 'src="/desk/static/' in text


async def test_hostile_titles_are_text(http: Any) -> None:
    for text in HOSTILE:
        title = text[:2000].encode("utf-8", "replace").decode()
        answer = await http.get("/empty", params={"title": title})
        assert (text, active_content(answer.text)) == (text, [])


def test_hostile_markdown_is_harmless() -> None:
    for text in HOSTILE:
        for form in (text, f"[x]({text})", f"![x]({text})", f"`{text}`", f"<{text}>", f"> {text}"):
            html = filters.markdown(form)
            assert (form, active_content(f"<div>{html}</div>")) == (form, [])


def test_links_of_markdown_show_where_they_lead() -> None:
    html = filters.markdown("[bank.example](https://evil.example/login) [a](javascript:alert(1))")
    assert '<span class="host">(evil.example)</span>' in html
    assert 'rel="noopener noreferrer nofollow"' in html
    assert "javascript" not in filters.markdown("[a](data:text/html,x)")
    local = filters.markdown("[a](/conversations/x/cancel) [b](//evil.example)")
    assert "href" not in local
    assert "not a link" in local
    assert "xn--" in filters.markdown("[a](https://\u0430pple.example)")


def test_markdown_tells_no_server_who_reads() -> None:
    html = filters.markdown("![x](https://evil.example/pixel.png) &#x202e;abc&#x0;")
    assert "<img" not in html
    assert "\u202e" not in html
    assert "\\u202e" in html


def test_what_a_form_shows_comes_back_as_it_was() -> None:
    for text in (*HOSTILE, "a\\u0041", "\r\n x \n", "\\\\u0041", ""):
        sent = rendering.visible_text(text).replace("\n", "\r\n")  # as browsers send it
        assert filters.read_back(sent) == text


def test_values_are_visible_unless_they_are_html() -> None:
    assert filters.shown("a\u202eb\x1b[31m\nc") == "a\\u202eb\\u001b[31m\nc"
    assert filters.shown(Markup("<b>")) == "<b>"
    assert filters.shown(3) == 3


def test_times_are_rough_and_exact() -> None:
    at = datetime.now(UTC) - timedelta(minutes=5)  # noqa: TID251  the filters read the clock
    assert ">5 min</time>" in filters.age(at)
    assert 'data-time="age"' in filters.age(int(at.timestamp() * 1000))
    assert "overdue" in filters.deadline(at)
    assert "in 59 min" in filters.deadline(at + timedelta(minutes=65))
    assert filters.age(None) == filters.deadline(None) == ""


@pytest.mark.parametrize(
    ("amount", "text"),
    [(None, "\u2013"), (0, "$0.00"), (0.01234, "$0.01234"), (1234.5, "$1,234.50")],
)
def test_money_has_the_places_that_it_needs(amount: float | None, text: str) -> None:
    assert filters.money(amount) == text


def test_the_files_of_pages_are_small() -> None:
    sizes = {one.name: one.stat().st_size for one in STATIC.iterdir()}
    of_customers = sum(size for name, size in sizes.items() if name.startswith("chat"))
    embedded = sizes["embed.js"]
    assert sum(sizes.values()) - of_customers - embedded < 150_000, "of the team's pages"
    assert of_customers < 25_000
    assert embedded < 5_000, "on pages of others"


class _Addresses(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [
            value for name, value in attrs if name in {"href", "src"} and value is not None
        ]
