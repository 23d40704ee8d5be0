"""Takes what customers think of their conversations, from the chat and from the API."""

from typing import Final
from weakref import WeakKeyDictionary

from pydantic import Field
from temporalio.client import Client

from outlast.agents.errors import RunClosed
from outlast.deliveries.problems import Refused
from outlast.edges.clock import now_ms
from outlast.serve.bodies import Body
from outlast.serve.case_api import acted
from outlast.serve.routing import DeskRequest
from outlast.views.acts import run_problem
from outlast.views.records import LONGEST_RATING

APART_MS: Final = 1_000
"""How long a rating stands before another one is taken: each is an event of the run's history."""

TOO_SOON: Final = "The conversation was rated a moment ago. Rate it again in a second."

_UNDER_WAY: Final[WeakKeyDictionary[Client, set[str]]] = WeakKeyDictionary()


class RatingBody(Body):
    """What the customer thinks of the conversation."""

    score: int = Field(ge=1, le=5, description="From 1, the worst, to 5.")
    text: str = Field(default="", max_length=LONGEST_RATING, description="Why, in their words.")


async def take_rating(asked: DeskRequest, score: int, text: str) -> None:
    """Rate the conversation that a path names; what it says already is not sent again.

    Raises:
        RunNotFound: there is no such conversation.
        Refused: it has ended, works for another run, or was rated a moment ago.
    """
    state, now, text = await asked.handle.state(), now_ms(), text.strip()
    problem = run_problem(state, "rate", None, now)
    if problem is not None:
        raise Refused(409, "not_rated", problem)
    known = state.case.rating
    if known is not None and (known.score, known.text) == (score, text):
        return
    under_way = _UNDER_WAY.setdefault(asked.desk.client, set())
    is_soon = known is not None and 0 <= now - known.at_ms < APART_MS
    if is_soon or asked.run_id in under_way:
        raise Refused(429, "rated_too_often", TOO_SOON)
    under_way.add(asked.run_id)
    try:
        await acted(asked.handle.rate(score, text))
    except RunClosed as error:
        raise Refused(409, "not_rated", str(error)) from None
    finally:
        under_way.discard(asked.run_id)
