"""The routes of the API, each declared at its handler: the table that `openapi.py` describes."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args

from starlette.responses import Response

from outlast.deliveries.problems import JSONAnswer
from outlast.serve.access import Action
from outlast.serve.bodies import Body, Query, read_body, read_query
from outlast.serve.live import EventName
from outlast.serve.records import View
from outlast.serve.routing import DeskRequest, Handler


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One method of one path.

    Attributes:
        method: the HTTP method.
        path: the path, with `{run_id}` and `{request_id}`.
        action: what it is, in the table of `access`.
        handler: answers it.
        summary: what it does, in a line.
        body: its body.
        query: its query.
        answers: what it answers: one view, or another one for a customer.
        status: the status of its answer.
        content: the type of a file that it answers; empty for JSON.
        events: what it streams as server-sent events, by their names; empty for no stream.
    """

    method: Literal["GET", "POST"]
    path: str
    action: Action
    handler: Handler
    summary: str
    body: type[Body] | None = None
    query: type[Query] | None = None
    answers: tuple[type[View], ...] = ()
    status: int = 200
    content: str = ""
    events: Mapping[EventName, type[View]] = field(default_factory=dict[EventName, type[View]])


ENDPOINTS: Final[list[Endpoint]] = []
"""Everything that the API answers."""

Answering: TypeAlias = Callable[..., Awaitable[View | Response | None]]
"""A handler that takes the request, and its body or query if it has one, and returns its answer."""

AnsweringT = TypeVar("AnsweringT", bound=Answering)


def get(
    path: str,
    action: Action,
    *,
    content: str = "",
    events: Mapping[EventName, type[View]] | None = None,
) -> Callable[[AnsweringT], AnsweringT]:
    """Declare that a handler answers GET; its annotations and its docstring describe the rest.

    Args:
        path: the path.
        action: what it is, in the table of `access`.
        content: the type of a file that it answers.
        events: what it streams, by the names of the events.
    """
    return _declared(method="GET", path=path, action=action, content=content, events=events or {})


def post(path: str, action: Action, *, status: int = 200) -> Callable[[AnsweringT], AnsweringT]:
    """Declare that a handler answers POST; its annotations and its docstring describe the rest.

    Args:
        path: the path.
        action: what it is, in the table of `access`.
        status: the status of its answer.
    """
    return _declared(method="POST", path=path, action=action, status=status)


def _declared(**fields: Any) -> Callable[[AnsweringT], AnsweringT]:
    def declare(answering: AnsweringT) -> AnsweringT:
        kinds: dict[str, Any] = inspect.get_annotations(answering)
        answer = kinds.pop("return")
        given = {"body": _of(Body, kinds.values()), "query": _of(Query, kinds.values())}
        views = [one for one in get_args(answer) or (answer,) if _is(View, one)]
        endpoint = Endpoint(
            handler=_handler(answering, **given, status=fields.get("status", 200)),
            summary=(answering.__doc__ or "").partition("\n")[0],
            answers=tuple(views),
            **given,
            **fields,
        )
        ENDPOINTS.append(endpoint)
        return answering

    return declare


def _of(base: type, kinds: Any) -> Any:
    return next((one for one in kinds if _is(base, one)), None)


def _is(base: type, kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, base)


def _handler(
    answering: Answering, body: type[Body] | None, query: type[Query] | None, status: int
) -> Handler:
    async def handler(asked: DeskRequest) -> Response:
        given: list[Body | Query] = []
        if body is not None:
            given.append(await read_body(asked.http, body))
        if query is not None:
            given.append(read_query(asked.http, query))
        match await answering(asked, *given):
            case None:
                return Response(status_code=status)
            case View() as view:
                return JSONAnswer(view.record(), status, {"Cache-Control": "no-store"})
            case response:
                return response

    return handler
