"""The documentation in a browser: it needs no other host, is readable on a phone, and can be searched.

`make browser` builds it first.
"""

import functools
import shutil
import threading
from collections.abc import Generator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.async_api import Page, Route, expect

import outlast
from docs.build_site import SITE, list_versions
from tests.browser.window import (
    DESKTOP,
    PHONE,
    Theme,
    Windows,
    accessibility_faults,
    overflow,
)

OLDER = "0.0.1"
PAGES = (
    "",
    "concepts/state-diagram/",
    "how-to/approvals/",
    "reference/api/handoffs/",
    "reference/environment/",
)
WIDE = ("reference/api/tools/", "reference/feature-table/")
"""Pages that axe-core skips: it needs seconds for each, and checks similar pages."""
DIAGRAMS = ("concepts/state-diagram/", "concepts/message-way/")


class Files(SimpleHTTPRequestHandler):
    """Serves the site, and keeps quiet."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """Serve two versions of the site; return the address."""
    folder = tmp_path_factory.mktemp("site")
    built = SITE / outlast.__version__
    assert built.exists(), "`make site` builds the documentation"
    shutil.copytree(built, folder / outlast.__version__)
    (folder / OLDER).mkdir()
    for part in built.iterdir():
        (folder / OLDER / part.name).symlink_to(part)
    list_versions(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
async def page(windows: Windows, site: str) -> Page:
    """Open a window on the site that reaches no other host."""
    return await visitor(windows, site)


async def visitor(
    windows: Windows, site: str, width: int = DESKTOP, theme: Theme = "light"
) -> Page:
    """Open a window in which a request to another host is a fault."""
    page = await windows.open(width, theme)

    async def refuse(route: Route) -> None:
        if route.request.url.startswith((f"{site}/", "data:", "blob:")):
            await route.continue_()
        else:
            windows.problems.append(f"{page.url} asks for {route.request.url}")
            await route.abort()

    await page.route("**", refuse)
    return page


@pytest.mark.parametrize(("width", "theme"), [(DESKTOP, "light"), (PHONE, "dark")])
async def test_pages_are_readable(windows: Windows, site: str, width: int, theme: Theme) -> None:
    page = await visitor(windows, site, width, theme)
    for path in PAGES:
        await page.goto(f"{site}/{outlast.__version__}/{path}")
        assert await overflow(page) == 0, path
        assert await accessibility_faults(page) == [], path
    for path in WIDE:
        await page.goto(f"{site}/{outlast.__version__}/{path}")
        assert await overflow(page) == 0, path


async def test_a_phone_shows_the_install_line_and_code_first(windows: Windows, site: str) -> None:
    page = await visitor(windows, site, PHONE)
    await page.goto(site)
    install, program = (page.locator("article pre").nth(number) for number in (0, 1))
    await expect(install).to_contain_text("pip install")
    await expect(program).to_contain_text("function_tool")
    for block in (install, program):
        await expect(block).to_be_in_viewport()


@pytest.mark.parametrize("path", DIAGRAMS)
async def test_a_diagram_is_drawn_without_another_host(page: Page, site: str, path: str) -> None:
    await page.goto(f"{site}/{outlast.__version__}/{path}")
    # The theme draws into a closed shadow, so that only the size of the picture can be seen.
    await page.wait_for_function(
        "() => document.querySelector('div.mermaid')?.getBoundingClientRect().height > 200"
    )
    assert await page.locator("pre.mermaid").count() == 0


async def test_a_search_finds_the_guide(page: Page, site: str) -> None:
    await page.goto(f"{site}/{outlast.__version__}/")
    await page.locator(".md-search__input").fill("approval")
    found = page.locator("a.md-search-result__link[href*='how-to/approvals/']").first
    await expect(found).to_be_visible()
    await found.click()
    await expect(page.locator("h1")).to_contain_text("Approvals: let people approve calls")


async def test_the_menu_has_all_versions(page: Page, site: str) -> None:
    await page.goto(site)
    menu = page.locator(".md-version")
    await expect(menu.locator(".md-version__current")).to_have_text(outlast.__version__)
    await menu.locator(".md-version__current").focus()
    await menu.get_by_role("link", name=OLDER).click()
    await expect(page).to_have_url(f"{site}/{OLDER}/")
    await expect(page.locator("[data-md-component=outdated]")).to_be_visible()
    await page.locator("[data-md-component=outdated] a").click()
    await expect(page).to_have_url(f"{site}/{outlast.__version__}/")
