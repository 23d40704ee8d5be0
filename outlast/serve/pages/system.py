"""How the installation is: a strip in the navigation, and a page with its figures."""

import asyncio
from typing import Final

from starlette.responses import Response
from starlette.routing import BaseRoute

from outlast.monitor.health import Health
from outlast.serve.case_feed import unless_away
from outlast.serve.health_words import facts_of, summary_of
from outlast.serve.pages.page import fragment, html_part, page, stay
from outlast.serve.routing import DeskRequest, route

LOOK_SECONDS: Final = 4.0
"""How long a page waits for the first look; what comes later is there the next time."""


async def _health(asked: DeskRequest) -> Health | None:
    asked.check_sees_all()

    async def read() -> Health | None:
        async with asked.desk.health.reader(asked.desk.client, None) as reader:
            return (await anext(reader))[0]

    return await unless_away(asyncio.wait_for(read(), LOOK_SECONDS), None)


async def _show(asked: DeskRequest) -> Response:
    health = await _health(asked)
    at_ms = None if health is None else health.at_ms
    return page(asked, "system.html", "System", facts=facts_of(health), at_ms=at_ms)


async def _strip(asked: DeskRequest) -> Response:
    summary = summary_of(facts_of(await _health(asked)))
    return html_part(fragment(asked, "system_strip.html", summary=summary))


ROUTES: Final[list[BaseRoute]] = [
    route("/system", _show, action="list_runs", show=stay, soon=True),
    route("/system-strip", _strip, action="list_runs", show=stay, soon=True),
]
