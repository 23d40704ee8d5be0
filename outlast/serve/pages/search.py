"""Text search: conversations by what was said in them, open and archived."""

from typing import Final

from pydantic import Field
from starlette.responses import Response
from starlette.routing import BaseRoute

from outlast.agents.errors import UserError
from outlast.deliveries.problems import Refused
from outlast.search.index import SearchUnavailable
from outlast.search.letters import LONGEST_QUERY
from outlast.serve.bodies import Query
from outlast.serve.pages.page import page, query_of, show_page
from outlast.serve.pages.parts import LAST, message_key
from outlast.serve.routing import DeskRequest, route
from outlast.serve.search import Found, found_for


class Wanted(Query):
    """What the address asks for."""

    q: str = Field(default="")


async def _show(asked: DeskRequest) -> Response:
    query = query_of(asked, Wanted).q
    try:
        found = await found_for(asked, query)
    except (Refused, SearchUnavailable, UserError) as error:
        found = Found(problem=str(error))
    return page(
        asked,
        "search.html",
        "Search",
        query=query,
        found=found,
        longest=LONGEST_QUERY,
        message_of=_message_of,
    )


def _message_of(message_id: str) -> str | None:
    """Return what the address of a conversation calls a message; None for none."""
    key = message_key(message_id)
    return None if key == LAST else str(key)


ROUTES: Final[list[BaseRoute]] = [
    route("/search", _show, action="list_runs", show=show_page, soon=True),
]
