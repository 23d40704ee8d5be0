"""Text search: conversations by what was said in them, open and archived."""

from typing import Final

from pydantic import Field
from starlette.routing import BaseRoute

from outlast.search.letters import LONGEST_QUERY
from outlast.serve.bodies import Query
from outlast.serve.pages.figures import index_page
from outlast.serve.pages.parts import LAST, message_key
from outlast.serve.routing import DeskRequest
from outlast.serve.search import Found, found_for


class Wanted(Query):
    """What the address asks for."""

    q: str = Field(default="")


async def _found(asked: DeskRequest, wanted: Wanted) -> Found:
    return await found_for(asked, wanted.q)


def _message_of(message_id: str) -> str | None:
    """Return what the address of a conversation calls a message; None for none."""
    key = message_key(message_id)
    return None if key == LAST else str(key)


ROUTES: Final[list[BaseRoute]] = [
    index_page("search", Wanted, _found, longest=LONGEST_QUERY, message_of=_message_of),
]
