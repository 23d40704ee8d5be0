"""The OpenID Connect provider, over HTTP: its settings, its keys, codes, tokens and claims."""

import asyncio
import base64
import ssl
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final, cast
from urllib.parse import quote_plus, urlsplit

import httpx2
import jwt
from joserfc.errors import JoseError

from outlast.agents.errors import IdentityRefused, ServerUnavailable, UserError
from outlast.agents.hosts import is_this_machine
from outlast.agents.logs import get_logger
from outlast.client.identity import TokenKeyUnknown, token_claims
from outlast.edges.bodies import DOORS, loads
from outlast.edges.bodies.answers import AnswerTooLarge, bound_answers
from outlast.edges.rendering import excerpt

logger: Final = get_logger(__name__)

SETTINGS_SECONDS: Final = 3_600
"""How long the provider's settings and keys count before they are fetched again."""

FEWEST_SECONDS: Final = 10
"""Keys are not fetched more often, whatever keys tokens name."""

LEEWAY_SECONDS: Final = 60
"""How much the clocks of the provider and the desk may differ."""

_TIMEOUT_SECONDS: Final = 10.0

_REFUSALS: Final = frozenset(
    {
        "access_denied",
        "consent_required",
        "interaction_required",
        "invalid_grant",
        "login_required",
    }
)
"""What providers answer about a person who may not log in any more."""

_PROTOCOL_CLAIMS: Final = frozenset({"iss", "aud", "exp", "iat", "nbf", "nonce", "azp", "sid"})
"""Claims of the ID token that no other answer of the provider replaces."""


class LoginRefused(IdentityRefused):
    """The provider says that a person may not log in, or no longer."""


class ProviderUnavailable(ServerUnavailable):
    """The provider gives no answer that could be used."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a login or a check brings.

    Attributes:
        claims: the verified claims of the person; None if a check brought no ID token.
        refresh_token: asks the provider again; None if it gave none.
    """

    claims: dict[str, Any] | None
    refresh_token: str | None


@dataclass
class _Cached:
    """A document of the provider, and when it was fetched."""

    content: dict[str, Any]
    at: float


class Provider:
    """Speaks to an OpenID Connect provider, whose settings it discovers from the issuer.

    Args:
        issuer: the provider, such as `https://login.example.com`.
        client_id: this desk, as it is registered there.
        client_secret: the secret of the registration; None for a public client.
        transport: sends HTTP requests; None for the usual one.
    """

    def __init__(
        self,
        issuer: str,
        client_id: str,
        client_secret: str | None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.issuer: str = _checked_address(issuer, "The issuer")
        if not client_id:
            raise UserError("client_id= is empty. Pass the id that the provider gave this desk.")
        self.client_id = client_id
        self._secret = client_secret or None
        self._transport = transport
        self._lock = asyncio.Lock()
        self._settings: _Cached | None = None
        self._keys: _Cached | None = None

    async def authorization_url(self, **parameters: str) -> str:
        """Return the address of the provider's login page.

        Args:
            **parameters: `redirect_uri`, `scope`, `state`, `nonce` and `code_verifier`.

        Raises:
            ProviderUnavailable: the provider's settings cannot be fetched.
        """
        page = await self._endpoint("authorization_endpoint")
        async with self._client() as http:
            url, _ = http.create_authorization_url(page, **parameters)
        return url

    async def tokens(self, code: str, *, verifier: str, nonce: str, redirect_uri: str) -> Tokens:
        """Return what the code of a login is worth.

        Raises:
            LoginRefused: the code does not count.
            IdentityRefused: the ID token proves nothing.
            ProviderUnavailable: the provider cannot be asked.
        """
        found = await self._requested(
            "fetch_token",
            grant_type="authorization_code",
            code=code,
            code_verifier=verifier,
            redirect_uri=redirect_uri,
        )
        if not isinstance(found.get("id_token"), str):
            raise IdentityRefused("The provider sent no ID token. The scope `openid` is needed.")
        return Tokens(await self._claims(found, nonce=nonce), _text(found.get("refresh_token")))

    async def refreshed(self, refresh_token: str, *, subject: str) -> Tokens:
        """Ask the provider whether a person may still log in.

        Args:
            refresh_token: of the login or of the last check.
            subject: the person, as the provider named them at the login.

        Raises:
            LoginRefused: the person may not, or is another one.
            ProviderUnavailable: the provider cannot be asked.
        """
        found = await self._requested("refresh_token", refresh_token=refresh_token)
        claims = None
        if isinstance(found.get("id_token"), str):
            claims = await self._claims(found, nonce=None)
            if claims.get("sub") != subject:
                raise LoginRefused("The provider names another person than at the login.")
        return Tokens(claims, _text(found.get("refresh_token")) or refresh_token)

    async def revoke(self, refresh_token: str) -> None:
        """Tell the provider that a refresh token is not needed; it may not be interested."""
        with suppress(ProviderUnavailable, httpx2.HTTPError, ValueError):
            settings = await self.settings()
            url = settings.get("revocation_endpoint")
            if isinstance(url, str) and _problem_of_address(url) is None:
                async with self._client(settings) as http:
                    await http.revoke_token(
                        url,
                        token=refresh_token,
                        token_type_hint="refresh_token",  # noqa: S106  a kind of token
                    )

    async def logout_url(self) -> str | None:
        """Return the provider's own logout page; None if it names none."""
        settings = await self.settings()
        url = settings.get("end_session_endpoint")
        return url if isinstance(url, str) and _problem_of_address(url) is None else None

    # --- Tokens ----------------------------------------------------------------------------------

    async def _requested(self, method: str, **parameters: str) -> dict[str, Any]:
        """Return the answer of the token endpoint."""
        url, settings = await self._endpoint("token_endpoint"), await self.settings()
        oauth_error = _authlib().OAuthError
        try:
            async with self._client(settings) as http:
                found: dict[str, Any] = dict(await getattr(http, method)(url, **parameters))
        except oauth_error as error:
            code = str(error.error)
            if code in _REFUSALS:
                raise LoginRefused(f"The provider refuses the login: {_said(error)}") from None
            logger.warning("The provider refuses this desk: %s", _said(error))
            raise ProviderUnavailable(
                f"The provider refuses this desk: {_said(error)} Check the client's id and secret."
            ) from None
        except (httpx2.HTTPError, ValueError, TypeError) as error:
            raise self._unavailable(error) from None
        if _text(found.get("access_token")) is None:
            # Such as the refusal of a firewall: it must not pass for the provider's word.
            raise self._unavailable(ValueError("the answer has no access token"))
        return found

    async def _claims(self, found: Mapping[str, Any], *, nonce: str | None) -> dict[str, Any]:
        """Return the verified claims of a token response, with those of the userinfo endpoint."""
        token = str(found["id_token"])
        claims = await self._verified(token, ("iss", "sub", "aud", "exp", "iat"))
        header = jwt.get_unverified_header(token)  # of the token that was just verified
        access_token = _text(found.get("access_token"))
        parameters = {"client_id": self.client_id, "nonce": nonce, "access_token": access_token}
        id_token: Any = import_module("authlib.oidc.core").CodeIDToken
        try:
            id_token(claims, header, {}, parameters).validate(leeway=LEEWAY_SECONDS)
        except JoseError as error:
            claim = getattr(error, "claim", "") or error.error
            raise IdentityRefused(
                f"The ID token is for another login: its claim {str(claim)!r:.40} does not fit."
            ) from None
        return {**await self._userinfo(access_token, claims["sub"]), **claims}

    async def _verified(self, token: str, required: Sequence[str]) -> dict[str, Any]:
        def verified(keys: Mapping[str, Any]) -> dict[str, Any]:
            return token_claims(
                token,
                issuer=self.issuer,
                audience=self.client_id,
                jwks=keys,
                required=required,
                leeway_seconds=LEEWAY_SECONDS,
            )

        try:
            try:
                return verified(await self._key_set())
            except TokenKeyUnknown:
                return verified(await self._key_set(is_old=True))
        except UserError as error:
            raise ProviderUnavailable(f"The provider's keys are unusable: {error}") from None

    async def _userinfo(self, access_token: str | None, subject: str) -> dict[str, Any]:
        """Return further claims; some providers keep names and groups out of ID tokens."""
        settings = await self.settings()
        if access_token is None or "userinfo_endpoint" not in settings:
            return {}
        url = await self._endpoint("userinfo_endpoint")
        found = await self._fetched(url, {"Authorization": f"Bearer {access_token}"})
        if found.get("sub") != subject:
            raise IdentityRefused("The provider's userinfo is about another person.")
        return {name: value for name, value in found.items() if name not in _PROTOCOL_CLAIMS}

    # --- Documents -------------------------------------------------------------------------------

    async def settings(self) -> dict[str, Any]:
        """Return the provider's settings, fetched at most once an hour.

        Raises:
            ProviderUnavailable: they cannot be fetched, or are those of another issuer.
        """
        async with self._lock:
            cached = self._settings
            if cached is None or time.monotonic() - cached.at > SETTINGS_SECONDS:
                url = f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
                found = await self._fetched(url)
                if found.get("issuer") != self.issuer:
                    raise ProviderUnavailable(
                        f"The provider at {self.issuer} calls itself "
                        f"{excerpt(str(found.get('issuer')))}. Use that as the issuer, letter by "
                        "letter, if it is the one that you mean."
                    )
                cached = self._settings = _Cached(found, time.monotonic())
        return cached.content

    async def _key_set(self, *, is_old: bool = False) -> dict[str, Any]:
        """Return the provider's keys.

        Args:
            is_old: whether a token has a key that is not among those that were fetched before.
        """
        url = await self._endpoint("jwks_uri")
        async with self._lock:
            cached = self._keys
            longest = FEWEST_SECONDS if is_old else SETTINGS_SECONDS
            if cached is None or time.monotonic() - cached.at > longest:
                cached = self._keys = _Cached(await self._fetched(url), time.monotonic())
        return cached.content

    async def _endpoint(self, name: str) -> str:
        found = (await self.settings()).get(name)
        if not isinstance(found, str):
            raise ProviderUnavailable(f"The provider's settings have no {name}.")
        if problem := _problem_of_address(found):
            raise ProviderUnavailable(f"The provider's {name} {problem}.")
        return found

    async def _fetched(self, url: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        try:
            async with self._client() as http:
                answer = await http.get(
                    url, headers={"Accept": "application/json", **(headers or {})}, auth=None
                )
                answer.raise_for_status()
                found = loads(answer.content)
        except (
            RecursionError,
            AnswerTooLarge,
            httpx2.HTTPError,
            httpx2.InvalidURL,
            ValueError,
        ) as error:
            raise self._unavailable(error) from None
        if not isinstance(found, dict):
            raise ProviderUnavailable(f"{url} is no JSON object.")
        return cast("dict[str, Any]", found)

    def _unavailable(self, error: Exception) -> ProviderUnavailable:
        reason = f"{type(error).__name__}: {excerpt(str(error))}"
        logger.warning("The provider %s gives no answer (%s)", self.issuer, reason)
        return ProviderUnavailable(
            f"The login provider {self.issuer} gives no answer. Try again in a moment."
        )

    def _client(self, settings: Mapping[str, Any] | None = None) -> Any:
        """Return an HTTP client that knows OAuth; each has the tokens of one person."""
        offered = cast("list[str]", (settings or {}).get("token_endpoint_auth_methods_supported"))
        method = "none" if self._secret is None else "client_secret_basic"
        if self._secret is not None and offered and method not in offered:
            method = "client_secret_post"
        client = _authlib().AsyncOAuth2Client(
            self.client_id,
            self._secret,
            token_endpoint_auth_method=method,
            revocation_endpoint_auth_method=method,
            code_challenge_method="S256",
            transport=self._transport,
            verify=_certificates() if self._transport is None else True,
            timeout=_TIMEOUT_SECONDS,
            follow_redirects=False,
        )
        client.register_client_auth_method(("client_secret_basic", _with_basic))
        bound_answers(client, DOORS["oidc"])
        return client


def _with_basic(client: Any, _method: str, uri: str, headers: Any, body: Any) -> tuple[Any, ...]:
    """Add the client's id and secret to a request; both are escaped, as RFC 6749 wants it."""
    pair = f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret)}"
    headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    return uri, headers, body


@cache
def _certificates() -> ssl.SSLContext:
    return httpx2.create_ssl_context()  # takes longer than a request


def _authlib() -> Any:
    """Return Authlib's client, which has no types."""
    return import_module("authlib.integrations.httpx_client")


def _said(error: Any) -> str:
    """Return what a provider says about an error, in characters that people can see."""
    words = excerpt(str(error.description or error.error or "")).rstrip(".")
    return f"{words}."


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _checked_address(url: str, what: str) -> str:
    problem = _problem_of_address(url)
    if problem:
        raise UserError(f"{what} {url!r:.120} {problem}.")
    return url


def _problem_of_address(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        host, is_web = parts.hostname or "", parts.scheme in {"http", "https"}
    except ValueError:
        host, is_web, parts = "", False, urlsplit("")
    if not host or not is_web or "@" in parts.netloc or parts.fragment:
        return "is no address such as https://login.example.com"
    if parts.scheme == "http" and not is_this_machine(host):
        return "has to begin with https://, since tokens go there"
    return None
