"""Pages of other sites: they read answers with a customer's token, where the desk allows them to."""

from collections.abc import Sequence
from typing import Final, Required, TypedDict, Unpack

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from outlast.deliveries.problems import Problem
from outlast.serve.access import Action, Customer
from outlast.serve.routing import DeskRequest, Handler, ShowProblem, as_json, route

_HEADERS: Final = {
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Last-Event-ID",
    "Access-Control-Max-Age": "600",
}


class RouteOptions(TypedDict, total=False):
    """Further arguments of `route`."""

    action: Required[Action | None]
    methods: Sequence[str]
    name: str | None


def shared_route(
    path: str, handler: Handler, *, show: ShowProblem = as_json, **options: Unpack[RouteOptions]
) -> Route:
    """Return a route whose answers to customers pages of other sites may read; see `route`."""

    async def answer(asked: DeskRequest) -> Response:
        response = await handler(asked)
        if isinstance(asked.caller, Customer):
            response.headers.update(_allows(asked.http))
        return response

    def show_to_them(request: Request, problem: Problem) -> Response:
        response = show(request, problem)
        if request.headers.get("Authorization", "")[:11].lower() == "bearer oc1.":
            response.headers.update(_allows(request))
        return response

    return route(path, answer, show=show_to_them, **options)


def preflight_route(path: str) -> Route:
    """Return the route that answers browsers before pages of other sites send requests."""
    return route(path, preflight, action=None, methods=["OPTIONS"], name=f"preflight {path}")


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
