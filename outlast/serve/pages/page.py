"""What all pages share: the template environment, static files, and problems as pages.

Every value in a template is made visible and escaped, unless a function here made it HTML. So no
page can forget either.
"""

import hashlib
import mimetypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute

from outlast.agents.approvals.policy_file import calendars_of_file
from outlast.client.teams import TeamMember, TeamView
from outlast.deliveries.problems import Problem, Refused
from outlast.edges import rendering
from outlast.edges.clock import now_ms
from outlast.edges.rendering import visible_text
from outlast.serve.access import Action, Caller, Staff, may, scopes_for
from outlast.serve.bodies import Query
from outlast.serve.case_feed import CaseView, counts_of
from outlast.serve.health_words import Fact, facts_of, summary_of
from outlast.serve.pages import filters
from outlast.serve.routing import Desk, DeskRequest, route
from outlast.serve.team_api import TEAMS, of_caller
from outlast.views.records import JsonObject

_STATIC: Final = files("outlast.serve.pages") / "static"
MOST_FIELDS: Final = 5_000
"""The most fields of a form."""

_A_YEAR: Final = "public, max-age=31536000, immutable"

STATIC_FILES: Final = (
    "chat.css",
    "chat.js",
    "chat_open.js",
    "chat_frame.js",
    "desk.css",
    "desk.js",
    "icon.svg",
    "htmx-2.0.11.min.js",
    "htmx-sse-2.2.4.min.js",
)
"""The files that pages load. htmx and its extension are vendored, under the license beside them."""

PAGE_HEADERS: Final = {
    "Cache-Control": "no-store",  # what was shown to one person stays theirs
    "Vary": "Cookie, HX-Request",
    # With `no-referrer`, browsers send `Origin: null` with forms, and every change is refused.
    "Referrer-Policy": "same-origin",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data: blob:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
}


# --- Addresses -----------------------------------------------------------------------------------


def link(asked: DeskRequest | Request, *parts: str, **query: str | None) -> str:
    """Return the address of a page of the desk, whatever characters its parts have.

    `link(asked, "conversations", run_id)` is the address of a run, also if the desk is mounted
    below another path.

    Args:
        asked: the request that is being answered.
        *parts: the parts of the path, each of which is escaped.
        **query: the query; values that are empty or None are left out.
    """
    request = asked.http if isinstance(asked, DeskRequest) else asked
    path = "".join(f"/{quote(part, safe='', errors='replace')}" for part in parts) or "/"
    given = {name: value for name, value in query.items() if value}
    return f"{_root(request)}{path}{'?' if given else ''}{urlencode(given, errors='replace')}"


def _root(request: Request) -> str:
    desk: Desk = request.app.state.desk
    return urlsplit(desk.url).path.rstrip("/") or request.scope.get("root_path", "").rstrip("/")


VIEWS: Final[dict[CaseView, str]] = {
    "mine": "Mine",
    "team": "My team's",
    "nobody": "Nobody's",
    "attention": "Needs attention",
    "mentions": "Mentions me",
    "snoozed": "Snoozed",
    "resolved": "Resolved",
}
"""The names of the lists of shared conversations."""


# --- Pages ---------------------------------------------------------------------------------------


def page(
    asked: DeskRequest,
    template: str,
    title: str,
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
    **values: Any,
) -> Response:
    """Return a page.

    Args:
        asked: the request; the template has it as `asked`.
        template: the file in `templates/`, which extends `base.html`.
        title: the title of the window. Everything in it is shown as text.
        status: the HTTP status.
        headers: further headers.
        **values: the names that the template has.
    """
    text = fragment(asked, template, title=title, **values)
    return HTMLResponse(text, status, {**PAGE_HEADERS, **(headers or {})})


def fragment(asked: DeskRequest, template: str, **values: Any) -> str:
    """Return a piece of a page, such as one that a live stream sends.

    Arguments are those of `page`.
    """
    shared = _shared(asked.http, asked.desk, asked.caller)
    return _environment().get_template(template).render(shared | {"asked": asked} | values)


def version_of(*values: object) -> str:
    """Return a short text that differs where values do: what a live stream compares."""
    text = repr(values).encode("utf-8", "replace")
    return hashlib.sha256(text).hexdigest()[:12]


def said_aloud(words: str) -> str:
    """Return what lets a page with a place for it announce something."""
    html = Markup('<div id="said-aloud" hx-swap-oob="true" data-announce="{}" hidden></div>')
    return html.format(rendering.visible_text(words))


def html_part(text: str, status: int = 200) -> Response:
    """Return a piece of a page as a response of its own."""
    return HTMLResponse(text, status, PAGE_HEADERS)


def see_other(asked: DeskRequest, *parts: str, **query: str | None) -> Response:
    """Return a redirect to a page, as after a form: reloading that page sends nothing again."""
    address = link(asked, *parts, **query)
    return RedirectResponse(address, 303, {"Cache-Control": "no-store"})


def show_page(request: Request, problem: Problem) -> Response:
    """Show a problem as a page; send people who are not logged in to the login.

    Pass it to `route` as `show=`.
    """
    desk: Desk = request.app.state.desk
    if problem.code == "not_logged_in" and desk.login.path is not None:
        return _to_login(request, desk.login.path)
    return problem_page(request, problem, "problem.html", "Not possible")


def beside(request: Request, problem: Problem) -> Response:
    """Show a problem beside the button; the page goes on to show the present state."""
    if problem.status == 401 or not request.headers.get("HX-Request"):
        return show_page(request, problem)
    sentence = escape(visible_text(problem.message))
    headers = {**problem.headers, "Cache-Control": "no-store"}
    return HTMLResponse(f'<p class="refusal" role="alert">{sentence}</p>', problem.status, headers)


def stay(request: Request, problem: Problem) -> Response:
    """Leave a part that a page asks for again and again as it is: the next answer may have it."""
    if problem.status == 401 or not request.headers.get("HX-Request"):
        return show_page(request, problem)
    headers = {**problem.headers, "HX-Reswap": "none", "Cache-Control": "no-store"}
    return Response(None, problem.status, headers)


def problem_page(
    request: Request,
    problem: Problem,
    template: str,
    title: str,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a problem as a page of a template, which has it as `problem`."""
    nobody = DeskRequest(request, request.app.state.desk, None)
    further = {**problem.headers, **(headers or {})}
    return page(nobody, template, title, status=problem.status, headers=further, problem=problem)


def _to_login(request: Request, path: str) -> Response:
    address = _root(request) + path
    if request.headers.get("HX-Request"):
        # A part of a page cannot log in: the whole page goes.
        return Response(None, 401, {"HX-Redirect": address, "Cache-Control": "no-store"})
    if request.method == "GET":
        after = _root(request) + request.url.path.removeprefix(_root(request))
        query = request.url.query
        address += "?" + urlencode({"next": f"{after}?{query}" if query else after})
    return RedirectResponse(address, 303, {"Cache-Control": "no-store"})


def _shared(request: Request, desk: Desk, caller: Caller) -> dict[str, Any]:
    """Return what every template has."""

    def address(*parts: str, **query: str | None) -> str:
        return link(request, *parts, **query)

    def static(name: str) -> str:
        return _static_address(request, name)

    paths = {one.path for one in desk.login.routes}
    logout = "/logout" if "/logout" in paths else None
    return {
        "link": address,
        "static": static,
        "person": caller.person if isinstance(caller, Staff) else None,
        "roles": sorted(caller.roles) if isinstance(caller, Staff) else [],
        "logout": None if logout is None else _root(request) + logout,
        "has_search": desk.search is not None,
        "may": partial(_may, caller),
        "sees_all": isinstance(caller, Staff) and not caller.scopes and caller.bound is None,
        "look": desk.look,
        "words": desk.look.texts,
        "here": request.url.path.removeprefix(_root(request)),
        "query": request.query_params,
        "views": cache(partial(_views, request, desk, caller)),
        "duties": cache(partial(_duties, desk, caller)),
        "calendars": calendars_of_file,
        "health": partial(_health, desk),
        "sees_teams": isinstance(caller, Staff) and may(caller, "view_teams") is None,
        "now_ms": now_ms(),
    }


def _may(caller: Caller, action: Action) -> bool:
    return isinstance(caller, Staff) and may(caller, action) is None


@dataclass(frozen=True, slots=True)
class ViewLink:
    """A list of shared conversations, in the navigation.

    Attributes:
        name: the list.
        words: its name for people.
        count: how many conversations it has; None if that is not known.
        is_here: whether the page shows it.
    """

    name: CaseView
    words: str
    count: int | None
    is_here: bool


def _views(request: Request, desk: Desk, caller: Caller) -> list[ViewLink]:
    """Return the lists of shared conversations, with their counts as far as they are known."""
    if not isinstance(caller, Staff) or may(caller, "list_runs") is not None:
        return []
    scopes = scopes_for(caller, "list_runs")
    known = desk.cases.known(scopes)
    counts = desk.cases.known_counts(scopes)
    if known is not None:
        counts |= counts_of(known, caller.person)
    here = request.query_params.get("view")
    names: list[CaseView] = [one for one in VIEWS if one != "team" or caller.person.groups]
    return [ViewLink(one, VIEWS[one], counts.get(one), here == one) for one in names]


def _duties(desk: Desk, caller: Caller) -> list[tuple[TeamView, TeamMember]]:
    """Return the teams in which the person is on duty, as far as the desk knows."""
    if not isinstance(caller, Staff):
        return []
    teams = of_caller(caller, desk.cases.recent.known(TEAMS) or ())
    found = ((one, one.member(caller.person.subject)) for one in teams)
    return [(one, member) for one, member in found if member is not None and member.on_duty]


def _health(desk: Desk) -> Fact | None:
    """Return how the installation is in one line; None if nobody has looked lately."""
    known = desk.health.known(None)
    return summary_of(facts_of(known[0])) if known else None


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("outlast.serve.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=filters.shown,
        auto_reload=False,
    )
    environment.filters.update(filters.FILTERS)
    shared: dict[str, Any] = {
        "nav_class": _nav_class,
        "version_of": version_of,
        **filters.GLOBALS,
    }
    environment.globals.update(shared)
    return environment


@pass_context
def _nav_class(context: Context, *prefixes: str) -> Markup:
    """Return the attribute that marks the link to the present page."""
    here: str = context.get("nav") or context["here"]
    is_here = any(here == one or (one != "/" and here.startswith(one)) for one in prefixes)
    return Markup('aria-current="page"') if is_here else Markup("")


# --- Forms ---------------------------------------------------------------------------------------


QueryT = TypeVar("QueryT", bound=Query)


def query_of(asked: DeskRequest, kind: type[QueryT]) -> QueryT:
    """Return what the address of a page asks for; what does not fit counts as not asked."""
    names = {field.alias or name for name, field in kind.model_fields.items()}
    given = {name: _entered(asked.http.query_params.get(name, "")) for name in names}
    given = {name: text for name, text in given.items() if text}
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        wrong = {one["loc"][0] for one in error.errors()}
        return kind.model_validate({name: given[name] for name in given.keys() - wrong})


def _entered(text: str) -> str:
    # Half a character, which an escape can stand for, is in no name and in no address.
    return filters.read_back(text).encode(errors="replace").decode().strip()


class Form:
    """What somebody sent by a form.

    Args:
        pairs: the names and values, in order.
        files: the files, as parts of a message.
    """

    def __init__(self, pairs: Sequence[tuple[str, str]], files: Sequence[JsonObject] = ()) -> None:
        self.pairs: tuple[tuple[str, str], ...] = tuple(pairs)
        self.files: tuple[JsonObject, ...] = tuple(files)
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name, []).append(value)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def exact(self, name: str, default: str = "") -> str:
        """Return the last value of a field as it was sent."""
        return self._values.get(name, [default])[-1]

    def text(self, name: str, default: str = "") -> str:
        """Return what somebody wrote into a field, whose characters the page had made visible."""
        return self.read(self.exact(name, default))

    @staticmethod
    def read(value: str) -> str:
        """Return a value whose characters the page had made visible, as it was."""
        return filters.read_back(value)

    def all(self, name: str) -> tuple[str, ...]:
        """Return all values of a field."""
        return tuple(self._values.get(name, ()))


async def form_of(asked: DeskRequest) -> Form:
    """Return what a form sent.

    Raises:
        Refused: it was sent in another encoding than that of forms without files.
    """
    kind = asked.http.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Refused(415, "unsupported_media_type", "Send the form as the page does.")
    body = (await asked.http.body()).decode("utf-8", "replace")
    try:
        pairs = parse_qsl(body, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        message = f"A form has at most {MOST_FIELDS:,} fields."
        raise Refused(413, "too_many_fields", message) from None
    return Form(pairs)


# --- Static files --------------------------------------------------------------------------------


@cache
def _content(name: str) -> bytes:
    return _STATIC.joinpath(*name.split("/")).read_bytes()


@cache
def _version(name: str) -> str:
    return hashlib.sha256(_content(name)).hexdigest()[:12]


def _static_address(request: Request, name: str) -> str:
    """Return the address of a file, which changes with its content: caches keep it for ever."""
    return link(request, "static", _version(name), name)


async def _static_file(asked: DeskRequest) -> Response:
    name = asked.parameter("name")
    if name not in STATIC_FILES:
        raise Refused(404, "not_found", "There is no such file.")
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    # A page of the version before may ask while a new one is rolled out.
    is_present = asked.parameter("version") == _version(name)
    headers = {"Cache-Control": _A_YEAR if is_present else "no-store"}
    return Response(_content(name), media_type=kind, headers=headers)


ROUTES: Final[list[BaseRoute]] = [
    route("/static/{version}/{name}", _static_file, action=None),
]
