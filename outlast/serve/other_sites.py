"""Pages of other sites: they read answers with a customer's token, where the desk allows them to."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from outlast.deliveries.problems import Problem
from outlast.serve.access import Customer
from outlast.serve.routing import DeskRequest, Handler, ShowProblem, as_json

_HEADERS: Final = {
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Last-Event-ID",
    "Access-Control-Max-Age": "600",
}


def for_other_sites(handler: Handler) -> Handler:
    """Return a handler whose answers to customers pages of other sites may read."""

    async def answer(asked: DeskRequest) -> Response:
        response = await handler(asked)
        if isinstance(asked.caller, Customer):
            response.headers.update(_allows(asked.http))
        return response

    return answer


def shown_to_other_sites(show: ShowProblem) -> ShowProblem:
    """Return what shows problems also to pages of other sites, in its own form."""

    def show_to_them(request: Request, problem: Problem) -> Response:
        response = show(request, problem)
        if _is_of_customer(request):
            response.headers.update(_allows(request))
        return response

    return show_to_them


show_to_other_sites: Final = shown_to_other_sites(as_json)
"""Shows a problem as JSON, also to pages of other sites."""


async def preflight(asked: DeskRequest) -> Response:
    """Answer a browser that asks whether a page of another site may send a request."""
    allowed = _allows(asked.http)
    if not allowed:
        return Response(status_code=204)
    # Clients have headers of their own. None of them is an identity, and no cookie comes along.
    wanted = asked.http.headers.get("Access-Control-Request-Headers")
    named = {"Access-Control-Allow-Headers": wanted} if wanted else {}
    return Response(status_code=204, headers=allowed | _HEADERS | named)


def _allows(request: Request) -> dict[str, str]:
    """Return the headers that let a page of another site read an answer.

    They never allow cookies: such a page acts with a customer's token alone.
    """
    origin = request.headers.get("Origin", "")
    if origin not in request.app.state.desk.origins:
        return {}
    return {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}


def _is_of_customer(request: Request) -> bool:
    return request.headers.get("Authorization", "")[:11].lower() == "bearer oc1."
