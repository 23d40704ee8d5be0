"""Login with OpenID Connect: the authorization code flow with PKCE, and the team's sessions.

    /login -> the provider's page -> /login/callback -> the page that was asked for

Between the two routes, a cookie of ten minutes has the state, the nonce and the verifier, so that
any process of the desk can finish a login that another one began.
"""

import asyncio
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import httpx2
from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from outlast.agents.errors import IdentityRefused, UserError
from outlast.agents.hosts import is_this_machine
from outlast.agents.logs import get_logger
from outlast.client.identity import person_of_claims
from outlast.deliveries.problems import Problem, Refused
from outlast.edges.rendering import excerpt
from outlast.serve.access import Staff
from outlast.serve.login import TeamLogin, forget_session, note_session
from outlast.serve.oidc_provider import Provider, ProviderUnavailable, Tokens
from outlast.serve.pages.page import link, page
from outlast.serve.routing import Desk, DeskRequest, check_origin, route
from outlast.serve.staff_sessions import CookieJar, SessionRules, StaffSession
from outlast.views.records import Person

logger: Final = get_logger(__name__)

SCOPES: Final = ("openid", "profile", "email")

LOGIN_SECONDS: Final = 600
"""How long a person may take at the provider."""

_MOST_LOGINS: Final = 4
"""Logins that a browser has begun and not finished; more fill its cookies."""

_SAME_CHECK_SECONDS: Final = 60.0
"""Requests that a page sends together have the same cookie: the provider is asked once for them."""

_RETRY_SECONDS: Final = 30.0
"""How soon a provider that gave no answer is asked again about a person."""

_STATE: Final = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)

_AGAIN: Final = (
    "This login was begun in another browser, more than ten minutes ago, or is finished already. "
    "Log in again."
)


class OpenIDConnect(TeamLogin):
    """People log in at an OpenID Connect provider, such as Okta, Entra, Keycloak or Google.

    Register the desk there as a web application with the redirect address
    `https://desk.example.com/login/callback`. The groups of a person are those of a claim.

    A session lasts `sessions.lifetime` from the login, and the provider is asked every
    `sessions.check_after` whether the person may still log in, if it gave a refresh token: many
    give one with the scope `offline_access`. Without one, a session lasts an hour. What else ends
    sessions is in `outlast.serve.staff_sessions`.

    Args:
        issuer: the provider, letter by letter as it calls itself, such as
            `https://login.example.com`.
        client_id: the id that the provider gave the desk.
        client_secret: the secret of the registration; None for a public client.
        scopes: what to ask for.
        subject_claim: the claim with the person's name in audiences. It has to be one that a
            person cannot change and that nobody gets again; `email` counts if it is verified.
        groups_claim: the claim with the groups, a list of names.
        sessions: how long sessions count; by default with the keys in OUTLAST_DESK_KEY.
        transport: sends requests to the provider; None for the usual one.

    Raises:
        UserError: an argument does not fit, or there is no key for sessions.
    """

    def __init__(
        self,
        issuer: str,
        client_id: str,
        client_secret: str | None = None,
        *,
        scopes: Sequence[str] = SCOPES,
        subject_claim: str = "sub",
        groups_claim: str = "groups",
        sessions: SessionRules | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        if isinstance(scopes, str) or "openid" not in scopes:
            raise UserError('scopes= must be a list with "openid", such as ["openid", "email"].')
        self._provider = Provider(issuer, client_id, client_secret, transport)
        self._scopes = " ".join(scopes)
        self._subject_claim = subject_claim
        self._groups_claim = groups_claim
        self._rules = sessions or SessionRules()
        self._jars: dict[str, CookieJar] = {}
        self._checks = _Checks(self._provider, self._person_of)
        self._ended = _Ended()

    @property
    def routes(self) -> Sequence[Route]:
        """The routes of the login: they answer with pages."""
        return (
            route("/login", self._begin, action=None, show=_as_page),
            route("/login/callback", self._finish, action=None, show=_as_page),
            route("/logout", self._log_out, action=None, methods=["POST"], show=_as_page),
        )

    @property
    def path(self) -> str | None:
        """Where people log in."""
        return "/login"

    def check_address(self, url: str) -> None:
        """Check that the provider can send people back to the desk, and cookies are safe there."""
        parts = urlsplit(url)
        if not url:
            raise UserError(
                "A desk with OpenID Connect needs its own address: pass "
                "url='https://desk.example.com', and register it at the provider with "
                "/login/callback at its end."
            )
        if parts.scheme != "https" and not is_this_machine(parts.hostname or ""):
            raise UserError(
                f"The address of the desk {url} has to begin with https://: cookies of logins are "
                "sent over HTTPS only, but on this machine."
            )

    # --- Who asks --------------------------------------------------------------------------------

    async def person(self, connection: HTTPConnection) -> Person | None:
        """Return whose session the cookies of a request have; None if none counts."""
        jar, now = self._jar(connection), time.time()
        session = jar.session(connection.cookies)
        if session is None or self._is_over(session, now):
            return None
        set_cookies: list[str] = []
        if self._rules.is_due(session, now):
            checked = await self._checks.checked(session, now)
            if checked is None or self._is_over(checked, now):
                return None
            if checked != session:
                set_cookies = self._session_cookies(jar, checked, now)
            session = checked
        ends_at = self._rules.streams_end_at(session, now)
        note_session(connection.scope, ends_at=ends_at, set_cookies=set_cookies)
        return session.person

    def _is_over(self, session: StaffSession, now: float) -> bool:
        return self._rules.is_over(session, now) or self._ended.has(session)

    def _session_cookies(self, jar: CookieJar, session: StaffSession, now: float) -> list[str]:
        lasts = session.began_at + self._rules.lifetime.total_seconds() - now
        return jar.session_set(session, seconds=lasts)

    def _jar(self, connection: HTTPConnection) -> CookieJar:
        desk: Desk = connection.app.state.desk
        if desk.url not in self._jars:
            audience = (self._provider.issuer, self._provider.client_id)
            self._jars[desk.url] = CookieJar(desk.url, self._rules.keys, audience)
        return self._jars[desk.url]

    def _person_of(self, claims: Mapping[str, Any]) -> Person:
        name = self._groups_claim
        elsewhere: object = claims.get("_claim_names")
        if name not in claims and isinstance(elsewhere, dict) and name in elsewhere:
            raise IdentityRefused(
                "The provider leaves out your groups, because there are too many. Its administrator "
                "can let it send only the groups of this desk."
            )
        return person_of_claims(
            claims, subject_claim=self._subject_claim, groups_claim=name, method="oidc"
        )

    # --- Log in ----------------------------------------------------------------------------------

    async def _begin(self, asked: DeskRequest) -> Response:
        """Send a person to the provider, or where they want to go if they are logged in."""
        target = local_path(asked.desk.url, asked.http.query_params.get("next", ""))
        if isinstance(asked.caller, Staff):
            return _redirect(asked.desk, target)
        jar = self._jar(asked.http)
        attempt = _Attempt.new(target)
        url = await self._provider.authorization_url(
            redirect_uri=_callback(asked.desk),
            scope=self._scopes,
            state=attempt.state,
            nonce=attempt.nonce,
            code_verifier=attempt.verifier,
        )
        response = RedirectResponse(url, 303, {"Cache-Control": "no-store"})
        begun = [name for name in asked.http.cookies if name.startswith(jar.name("login-"))]
        for name in begun if len(begun) >= _MOST_LOGINS else ():
            response.headers.append("Set-Cookie", jar.written(name, "", seconds=0))
        sealed = jar.sealer("login").seal(asdict(attempt))
        cookie = jar.written(attempt.cookie(jar), sealed, seconds=LOGIN_SECONDS)
        response.headers.append("Set-Cookie", cookie)
        return response

    async def _finish(self, asked: DeskRequest) -> Response:
        """Take a person back from the provider, and begin their session."""
        jar, now = self._jar(asked.http), time.time()
        values = asked.http.query_params
        attempt = _begun(jar, asked.http, now)
        if attempt is None:
            raise Refused(400, "login_expired", _AGAIN)
        await self._check_issuer(values.getlist("iss"))
        if "error" in values:
            said = excerpt(values.get("error_description") or values["error"]).rstrip(".")
            raise Refused(403, "login_refused", f"The provider refuses the login: {said}.")
        if len(values.getlist("code")) != 1 or not values["code"]:
            raise Refused(400, "login_expired", _AGAIN)
        tokens = await self._provider.tokens(
            values["code"],
            verifier=attempt.verifier,
            nonce=attempt.nonce,
            redirect_uri=_callback(asked.desk),
        )
        session = self._new_session(tokens, now)
        response = _redirect(asked.desk, attempt.target)
        deleted = jar.written(attempt.cookie(jar), "", seconds=0)
        for cookie in [deleted, *self._session_cookies(jar, session, now)]:
            response.headers.append("Set-Cookie", cookie)
        logger.info("%s logged in", excerpt(session.subject))
        return response

    async def _check_issuer(self, issuers: Sequence[str]) -> None:
        """Refuse the answer of another provider, where this one names itself in its answers."""
        settings = await self._provider.settings()
        names_itself = settings.get("authorization_response_iss_parameter_supported") is True
        if [*issuers] != [self._provider.issuer] and (issuers or names_itself):
            raise Refused(400, "other_issuer", "This answer is of another provider. Log in again.")

    def _new_session(self, tokens: Tokens, now: float) -> StaffSession:
        claims = tokens.claims or {}
        person = self._person_of(claims)
        if tokens.refresh_token is None:
            logger.info(
                "The provider gives no refresh token, so sessions last an hour. Many providers "
                "give one with the scope offline_access."
            )
        return StaffSession(
            subject=person.subject,
            display=person.display,
            groups=person.groups,
            provider_subject=str(claims["sub"]),
            began_at=now,
            checked_at=now,
            refresh_token=tokens.refresh_token,
        )

    # --- Log out ---------------------------------------------------------------------------------

    async def _log_out(self, asked: DeskRequest) -> Response:
        """End the session of a person."""
        check_origin(asked.desk, asked.http)  # also without a session: the answer deletes cookies
        jar = self._jar(asked.http)
        session = jar.session(asked.http.cookies)
        if session is not None:
            self._ended.add(session, time.time() + self._rules.lifetime.total_seconds())
            if session.refresh_token is not None:
                await self._provider.revoke(session.refresh_token)
        try:
            provider_page = await self._provider.logout_url() or ""
        except ProviderUnavailable:
            provider_page = ""
        response = _logged_out(asked, provider_page, self._provider)
        forget_session(asked.http.scope)
        for cookie in jar.session_deleted():
            response.headers.append("Set-Cookie", cookie)
        return response


# --- A login that is under way -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A login that a browser has begun; its cookie has it."""

    state: str
    nonce: str
    verifier: str
    target: str
    at: float

    @classmethod
    def new(cls, target: str) -> "_Attempt":
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        return cls(state, nonce, verifier, target, time.time())

    def cookie(self, jar: CookieJar) -> str:
        return jar.name(f"login-{self.state[:8]}")


def _begun(jar: CookieJar, request: Request, now: float) -> _Attempt | None:
    """Return the login that this browser has begun and that the provider answers; None if none."""
    states = request.query_params.getlist("state")
    if len(states) != 1 or not _STATE.fullmatch(states[0]):
        return None
    sealed = request.cookies.get(jar.name(f"login-{states[0][:8]}"), "")
    value = jar.sealer("login").open(sealed)
    if value is None:
        return None
    try:
        attempt = _Attempt(**value)
    except TypeError:  # of another version
        return None
    is_same = hmac.compare_digest(attempt.state, states[0])
    return attempt if is_same and attempt.at <= now < attempt.at + LOGIN_SECONDS else None


# --- Asking the provider again -------------------------------------------------------------------


class _Checks:
    """Asks the provider about sessions, once for requests that come together."""

    def __init__(self, provider: Provider, person_of: Any) -> None:
        self._provider = provider
        self._person_of = person_of
        self._asking: dict[str, asyncio.Task[StaffSession | None]] = {}
        self._answers: dict[str, tuple[float, StaffSession | None]] = {}

    async def checked(self, session: StaffSession, now: float) -> StaffSession | None:
        """Return the session after the provider's word; the same one if it gave none.

        None: the person may not log in any more.
        """
        key = hashlib.sha256((session.refresh_token or "").encode()).hexdigest()
        kept_until, answer = self._answers.get(key, (0.0, None))
        if now < kept_until:
            return answer
        if key not in self._asking:
            task = asyncio.create_task(self._ask(key, session, now))
            self._asking[key] = task
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        # The request may be given up; the answer is for others, too: its token counts once.
        return await asyncio.shield(self._asking[key])

    async def _ask(self, key: str, session: StaffSession, now: float) -> StaffSession | None:
        keep = _SAME_CHECK_SECONDS
        try:
            tokens = await self._provider.refreshed(
                session.refresh_token or "", subject=session.provider_subject
            )
            person = session.person if tokens.claims is None else self._person_of(tokens.claims)
            answer = session.checked(person, tokens.refresh_token, now)
        except ProviderUnavailable:
            answer, keep = session, _RETRY_SECONDS
        except IdentityRefused as error:
            logger.info("The session of %s ends: %s", excerpt(session.subject), error.message)
            answer = None
        self._answers = {one: kept for one, kept in self._answers.items() if now < kept[0]}
        self._answers[key] = (now + keep, answer)
        return answer


class _Ended:
    """Sessions that this process saw end, for as long as a copy of their cookies would count."""

    def __init__(self) -> None:
        self._sessions: dict[str, float] = {}

    def add(self, session: StaffSession, until: float) -> None:
        """End a session."""
        now = time.time()
        kept = {one: ends for one, ends in self._sessions.items() if ends > now}
        self._sessions = kept | {session.id: until}

    def has(self, session: StaffSession) -> bool:
        """Whether a session has ended."""
        return session.id in self._sessions


# --- Addresses and pages -------------------------------------------------------------------------


def local_path(url: str, target: str) -> str:
    """Return a path of this desk to go to; its first page if the text is no path of it.

    Args:
        url: the address of the desk.
        target: what a link says, which anybody may have written.
    """
    base = urlsplit(url).path
    first = f"{base}/"
    # A browser reads `//host`, `/\\host` and, after removing them, tabs and line ends as an address.
    is_plain = target.isascii() and target.isprintable() and not {"\\", " "} & {*target}
    is_path = target.startswith(first) and not target.startswith("//")
    parts = target.partition("?")[0].partition("#")[0].lower().replace("%2e", ".").split("/")
    if not is_plain or not is_path or {".", ".."} & {*parts} or len(target) > 2_000:
        return first
    return target


def _callback(desk: Desk) -> str:
    return f"{desk.url}/login/callback"


def _redirect(desk: Desk, target: str) -> Response:
    parts = urlsplit(desk.url)
    headers = {"Cache-Control": "no-store"}
    return RedirectResponse(f"{parts.scheme}://{parts.netloc}{target}", 303, headers)


def _as_page(request: Request, problem: Problem) -> Response:
    asked = DeskRequest(request, request.app.state.desk, None)
    return page(
        asked,
        "login.html",
        "Not logged in",
        status=problem.status,
        headers=problem.headers,
        sentences=[problem.message],
        target=(link(asked, "login"), "Log in"),
    )


def _logged_out(asked: DeskRequest, provider_page: str, provider: Provider) -> Response:
    sentences = ["You are logged out of this desk."]
    target = (link(asked, "login"), "Log in")
    if provider_page:
        separator = "&" if "?" in provider_page else "?"
        query = urlencode({"client_id": provider.client_id})
        target = (f"{provider_page}{separator}{query}", f"Log out of {provider.issuer}")
        sentences.append("You may still be logged in at the provider.")
    nobody = DeskRequest(asked.http, asked.desk, None)
    return page(nobody, "login.html", "Logged out", sentences=sentences, target=target)
