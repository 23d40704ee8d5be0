"""The check of links to other sites: what is gone is found, and what was not asked is not passed off."""

import asyncio
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from docs.links import check, links_of


class Site(BaseHTTPRequestHandler):
    """Has one page, and another one behind a redirect."""

    def do_GET(self) -> None:
        """Answer."""
        self.send_response({"/here": 200, "/moved": 302, "/private": 403}.get(self.path, 404))
        self.send_header("location", "/here")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing."""


@pytest.fixture
def site() -> Generator[str]:
    """Serve the site; return its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


SILENT = "http://127.0.0.1:9/"


def test_a_page_that_is_gone_is_named_with_the_pages_that_link_to_it(site: str) -> None:
    links = {f"{site}/{page}": ["a.md"] for page in ("here", "moved", "private", "gone")}
    code, text = asyncio.run(check(links))
    assert code == 1
    assert text.splitlines() == [
        f"{site}/gone is gone (404); see a.md",
        f"NOT CHECKED: {site}/private answered 403",
        "3 addresses checked, 1 gone",
    ]


def test_a_site_that_does_not_answer_was_not_checked(site: str) -> None:
    code, text = asyncio.run(check({f"{site}/here": ["a.md"], SILENT: ["a.md"]}))
    assert code == 0
    assert text == f"NOT CHECKED: {SILENT} did not answer\n1 addresses checked, 0 gone\n"


def test_without_a_network_nothing_passes_as_checked() -> None:
    code, text = asyncio.run(check({SILENT: ["a.md"]}))
    assert code == 3
    assert text.startswith("NOT CHECKED: none of 1 addresses was shown.")


def test_links_are_found_once_without_anchors_and_examples() -> None:
    pages = {
        "a.md": "[x](https://temporal.io/a#b) [y](https://temporal.io/a) [z](../b.md)",
        "b.md": "[x](https://temporal.io/a) [y](http://127.0.0.1:8233) [z](https://desk.example.com)",
    }
    assert links_of(pages) == {"https://temporal.io/a": ["a.md", "b.md"]}
