"""Figures of a team by day, and the scores of quality checks."""

from datetime import timedelta
from typing import Final

from starlette.responses import Response
from starlette.routing import BaseRoute

from outlast.agents.errors import UserError
from outlast.deliveries.problems import Refused
from outlast.edges.rendering import rough
from outlast.search.index import SearchUnavailable
from outlast.serve.figures import FiguresQuery, QualityQuery, figures_for, quality_for
from outlast.serve.pages.page import page, query_of, show_page
from outlast.serve.routing import DeskRequest, route

SPANS: Final = (7, 14, 30, 90)
"""The choices of days."""


async def _show(asked: DeskRequest) -> Response:
    query = query_of(asked, FiguresQuery)
    figures, problem = None, ""
    try:
        figures = await figures_for(asked, query)
    except (Refused, SearchUnavailable, UserError) as error:
        problem = str(error)
    return page(
        asked,
        "figures.html",
        "Figures",
        wanted=query,
        figures=figures,
        problem=problem,
        spans=SPANS,
        short=lambda seconds: rough(timedelta(seconds=seconds)),
    )


async def _quality(asked: DeskRequest) -> Response:
    query = query_of(asked, QualityQuery)
    found, problem = None, ""
    try:
        found = await quality_for(asked, query)
    except (Refused, SearchUnavailable) as error:
        problem = str(error)
    return page(
        asked, "quality.html", "Quality", wanted=query, found=found, problem=problem, spans=SPANS
    )


ROUTES: Final[list[BaseRoute]] = [
    route("/quality", _quality, action="list_runs", show=show_page, soon=True),
    route("/figures", _show, action="list_runs", show=show_page, soon=True),
]
