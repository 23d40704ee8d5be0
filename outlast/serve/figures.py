"""Figures of a team, and scores of quality checks, as a caller of the desk sees them: of their conversations."""

from dataclasses import replace

from pydantic import Field

from outlast.client.figures import MOST_DAYS, TeamFigures, team_figures
from outlast.client.quality import Quality, quality_scores
from outlast.serve.bodies import Query
from outlast.serve.routing import DeskRequest
from outlast.serve.search import index_of


class FiguresQuery(Query):
    """Which figures are wanted."""

    days: int = Field(default=14, ge=1, le=MOST_DAYS, description="How many days, with today.")
    team: str | None = Field(
        default=None, description="Only of conversations that were assigned to this team then."
    )
    time_zone: str = Field(default="UTC", description="In which days begin.")


async def figures_for(asked: DeskRequest, query: FiguresQuery) -> TeamFigures:
    """Return the figures of the conversations that the caller sees.

    Raises:
        Refused: the desk has no index.
        UserError: there is no such time zone.
        SearchUnavailable: the index is not there, or cannot be read.
    """
    return await team_figures(
        asked.desk.client,
        index_of(asked),
        days=query.days,
        team=query.team or None,
        time_zone=query.time_zone,
        scopes=asked.scopes("list_runs"),
    )


class QualityQuery(Query):
    """Which scores are wanted."""

    days: int = Field(default=30, ge=1, le=MOST_DAYS, description="How many days.")


async def quality_for(asked: DeskRequest, query: QualityQuery) -> Quality:
    """Return the scores of the conversations that the caller sees.

    Raises:
        Refused: the desk has no index.
        SearchUnavailable: the index is not there, or cannot be read.
    """
    scopes = asked.scopes("list_runs")
    found = await quality_scores(asked.desk.client, index_of(asked), days=query.days, scopes=scopes)
    seen = await asked.seen(list({one.run_id for one in found.worst}), "list_runs")
    return replace(found, worst=tuple(one for one in found.worst if one.run_id in seen))
