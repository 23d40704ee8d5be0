"""Text search as a caller of the desk sees it: the same conversations as in their lists."""

from dataclasses import dataclass
from typing import Final

from outlast.client.search import behind_words, search_conversations, search_status
from outlast.deliveries.problems import Refused
from outlast.search.index import Hit, SearchIndex
from outlast.serve.bodies import MOST_FOUND
from outlast.serve.routing import DeskRequest

LOOKED_AT: Final = 4
"""How many times as many are looked at, for a caller who may not see each of them any more."""

NO_INDEX: Final = (
    "This desk has no index of search. Its operators make one with `outlast search run`, and name "
    "it with --search-index."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search has found.

    Attributes:
        hits: the conversations, newest first.
        more: whether there are more.
        as_of_ms: everything before is in the index; 0 if that was never so.
        problem: what is wrong with the index, in a sentence; empty for nothing.
    """

    hits: tuple[Hit, ...] = ()
    more: bool = False
    as_of_ms: int = 0
    problem: str = ""


def index_of(asked: DeskRequest) -> SearchIndex:
    """Return the index of the desk.

    Raises:
        Refused: it has none.
    """
    if asked.desk.search is None:
        raise Refused(404, "no_search_index", NO_INDEX)
    return asked.desk.search


async def found_for(asked: DeskRequest, query: str, limit: int = MOST_FOUND) -> Found:
    """Return the conversations with the words of a query that the caller sees.

    The index says whose they were when it was fed. Of a caller who sees some runs only, the server
    is asked again, so that what has left their sight since is not shown.

    Raises:
        Refused: the desk has no index.
        UserError: the query is too long.
        SearchUnavailable: the index is not there, or the search takes too long.
    """
    index, client = index_of(asked), asked.desk.client
    scopes = asked.scopes("list_runs")
    status = await search_status(client, index)
    most = (limit + 1) * (LOOKED_AT if scopes else 1)
    hits = await search_conversations(client, index, query, scopes=scopes, limit=most)
    shown = list[Hit]()
    for start in range(0, len(hits), limit + 1):
        some = hits[start : start + limit + 1]
        ids = list(dict.fromkeys(one.document.run_id for one in some))
        seen = set(await asked.seen(ids, "list_runs"))
        shown += [one for one in some if one.document.run_id in seen]
        if len(shown) > limit:
            break
    return Found(
        hits=tuple(shown[:limit]),
        more=len(shown) > limit,
        as_of_ms=0 if status is None else status.as_of_ms,
        problem=behind_words(status, shows_counts=not scopes),
    )
