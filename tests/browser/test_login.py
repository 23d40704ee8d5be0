"""Logging in and out in a real browser, at a real OpenID Connect provider on another site."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, BrowserContext, Page

from outlast.agents.hosts import free_port
from outlast.contract.identity import new_shared_key
from tests.oidc_provider.running import NEEDED, RealProvider, outlast_serve
from tests.servers import TemporalServer

pytestmark = NEEDED


@pytest.fixture
async def provider(server: TemporalServer) -> AsyncIterator[RealProvider]:
    """The provider, which a browser takes for another site than the desk."""
    provider = RealProvider(f"http://127.0.0.1:{free_port()}", host="localhost")
    await provider.start()
    async with outlast_serve(provider, server.address, new_shared_key()):
        yield provider
    await provider.stop()


@pytest.fixture
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    """A browser of one person."""
    context = await browser.new_context()
    yield context
    await context.close()


async def _log_in(page: Page, provider: RealProvider, name: str) -> None:
    await page.goto(f"{provider.desk_url}/conversations?agent=Triage")
    assert page.url.startswith(provider.issuer)
    await page.fill("input[name=login]", name)
    await page.fill("input[name=password]", "any")
    await page.click("button[type=submit]")
    await page.click("button[type=submit]")  # the provider asks whether the desk may know
    await page.wait_for_url(f"{provider.desk_url}/**")


async def _session(context: BrowserContext) -> list[dict[str, object]]:
    return [dict(one) for one in await context.cookies() if "-session" in str(one.get("name"))]


async def test_a_person_logs_in_works_and_logs_out(
    context: BrowserContext, provider: RealProvider
) -> None:
    page = await context.new_page()
    await _log_in(page, provider, "ann")
    assert page.url == f"{provider.desk_url}/conversations?agent=Triage"
    assert "ann of the team" in await page.inner_text(".whoami")
    (cookie,) = await _session(context)
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
    assert await page.evaluate("document.cookie") == ""

    # The browser sends the origin of the desk with its form.
    await page.click("text=Log out")
    await page.wait_for_selector("text=You are logged out of this desk.")
    assert await _session(context) == []
    assert await page.inner_text("main a.button") == f"Log out of {provider.issuer}"


async def test_another_site_logs_nobody_out(
    context: BrowserContext, provider: RealProvider
) -> None:
    page = await context.new_page()
    await _log_in(page, provider, "bob")
    await page.goto(f"{provider.issuer}/.well-known/openid-configuration")
    async with page.expect_navigation():
        await page.evaluate(
            """address => {
                const form = document.createElement("form");
                form.method = "post";
                form.action = address;
                document.documentElement.append(form);
                form.submit();
            }""",
            f"{provider.desk_url}/logout",
        )
    assert "Changes need the header" in await page.inner_text("main")
    assert len(await _session(context)) == 1
    await page.goto(f"{provider.desk_url}/conversations")
    assert "bob of the team" in await page.inner_text(".whoami")
