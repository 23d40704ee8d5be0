"""Windows of the browser, each of a person with cookies of their own, and what is wrong on their pages."""

import os
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Response

Theme: TypeAlias = Literal["light", "dark"]
DESKTOP: Final = 1280
PHONE: Final = 360
HEIGHTS: Final = {DESKTOP: 800, PHONE: 740}

AXE: Final = Path(os.environ.get("OUTLAST_AXE", ".venv/npm/node_modules/axe-core/axe.min.js"))
RUN_AXE: Final = """
async () => {
  const found = await axe.run(document, {resultTypes: ["violations"]});
  return found.violations.map(one => ({
    id: one.id, impact: one.impact, help: one.help,
    nodes: one.nodes.map(node => `${node.html.slice(0, 200)} | ${node.failureSummary}`),
  }));
}
"""


@dataclass
class Windows:
    """Opens windows, and collects the errors of their pages.

    Attributes:
        browser: the browser.
        problems: errors in the console, of scripts and of requests; the reports of the
            Content-Security-Policy are among them.
        may_lose_server: whether it is no error that a server does not answer, as when it is killed.
    """

    browser: Browser
    problems: list[str] = field(default_factory=list[str])
    may_lose_server: bool = False
    _contexts: list[BrowserContext] = field(default_factory=list[BrowserContext])

    async def open(self, width: int = DESKTOP, theme: Theme = "light", **options: Any) -> Page:
        """Open a window of somebody who has no other one."""
        context = await self.browser.new_context(
            viewport={"width": width, "height": HEIGHTS[width]},
            color_scheme=theme,
            reduced_motion="reduce",
            **options,
        )
        self._contexts.append(context)
        page = await context.new_page()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.problems.append(f"{page.url}: {error}"))
        page.on("response", self._answered)
        return page

    async def close(self) -> None:
        """Close all windows."""
        while self._contexts:
            await self._contexts.pop().close()

    async def take_problems(self) -> list[str]:
        """Close all windows, and give what was wrong on their pages, which the test expected.

        A picture may fail to load after the script that brought it returned: only a window that is
        closed reports nothing more.
        """
        await self.close()
        problems, self.problems = self.problems, []
        return problems

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type not in {"error", "warning"}:
            return
        # How htmx names the end of a stream, and a request that finds no server.
        lost = ("net::ERR_", "[object Event]", "htmx:afterRequest, ", "htmx:sendError, ")
        if self.may_lose_server and any(one in message.text for one in lost):
            return
        where = message.location.get("url", "")
        self.problems.append(f"{message.type} at {where}: {message.text}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self.problems.append(f"{response.status} from {response.url}")


@cache
def axe() -> str:
    """Return the script of axe-core."""
    return AXE.read_text(encoding="utf-8")


async def accessibility_faults(page: Page) -> list[str]:
    """Return what axe-core finds on a page that is serious or critical."""
    await page.evaluate(axe())
    found: list[dict[str, Any]] = await page.evaluate(RUN_AXE)
    return [
        f"{one['id']} ({one['impact']}): {one['help']}: {node}"
        for one in found
        if one["impact"] in {"serious", "critical"}
        for node in one["nodes"]
    ]


async def picture(page: Page, name: str) -> None:
    """Write a picture of a page to the folder that `OUTLAST_PICTURES` names, if it names one."""
    if folder := os.environ.get("OUTLAST_PICTURES"):
        await page.screenshot(path=Path(folder) / f"{name}.png")


async def overflow(page: Page) -> int:
    """Return by how many pixels a page is wider than its window."""
    wide: int = await page.evaluate(
        "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return wide
