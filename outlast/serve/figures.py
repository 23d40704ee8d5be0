"""Figures of a team as a caller of the desk sees them: of the conversations in their lists."""

from pydantic import Field

from outlast.client.figures import MOST_DAYS, TeamFigures, team_figures
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
