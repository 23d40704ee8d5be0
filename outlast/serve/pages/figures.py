"""Figures of a team by day, and the scores of quality checks."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import BaseRoute

from outlast.agents.errors import UserError
from outlast.deliveries.problems import Refused
from outlast.edges.rendering import rough
from outlast.search.index import SearchUnavailable
from outlast.serve.figures import FiguresQuery, QualityQuery, figures_for, quality_for
from outlast.serve.pages.page import QueryT, page, query_of, show_page
from outlast.serve.routing import DeskRequest, route

SPANS: Final = (7, 14, 30, 90)
"""The choices of days."""


def index_page(
    name: str,
    query: type[QueryT],
    read: Callable[[DeskRequest, QueryT], Awaitable[object]],
    **words: Any,
) -> BaseRoute:
    """Return the route of a page that the index fills, or that says in a sentence why not."""

    async def show(asked: DeskRequest) -> Response:
        wanted, found, problem = query_of(asked, query), None, ""
        try:
            found = await read(asked, wanted)
        except (Refused, SearchUnavailable, UserError) as error:
            problem = str(error)
        return page(
            asked,
            f"{name}.html",
            name.title(),
            wanted=wanted,
            found=found,
            problem=problem,
            **words,
        )

    return route(f"/{name}", show, action="list_runs", show=show_page, soon=True)


def _short(seconds: float) -> str:
    return rough(timedelta(seconds=seconds))


ROUTES: Final[list[BaseRoute]] = [
    index_page("figures", FiguresQuery, figures_for, spans=SPANS, short=_short),
    index_page("quality", QualityQuery, quality_for, spans=SPANS),
]
