"""An OpenID Connect provider that does what a test wants, also what no honest one does."""

import base64
import hashlib
import json
import time
from importlib import import_module
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit

import httpx2
import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

ISSUER = "https://login.test"
CLIENT_ID = "desk"
CLIENT_SECRET = "a secret+of/the=desk"


class Key:
    """A key of the provider."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.private = ec.generate_private_key(ec.SECP256R1())

    @property
    def public(self) -> dict[str, Any]:
        algorithms: Any = import_module("jwt.algorithms")
        found = json.loads(algorithms.ECAlgorithm.to_jwk(self.private.public_key()))
        return {**found, "kid": self.name, "use": "sig", "alg": "ES256"}

    def signed(self, claims: dict[str, Any], **headers: Any) -> str:
        return jwt.encode(claims, self.private, "ES256", {"kid": self.name, **headers})


class ScriptedProvider:
    """Answers as its attributes say.

    Attributes:
        claims: further claims of the person; None takes a claim away.
        userinfo: what the userinfo endpoint says; None if there is none.
        settings: further settings; None takes a setting away.
        token: makes the ID token of claims; by default signed with the first key.
        refresh: what a refresh brings: True for new tokens, an error's name, or a status.
        requests: the paths that were asked for.
    """

    def __init__(self) -> None:
        self.keys = [Key("first")]
        self.claims: dict[str, Any] = {}
        self.userinfo: dict[str, Any] | None = None
        self.settings: dict[str, Any] = {}
        self.token: Any = self._signed
        self.refresh: bool | str | int = True
        self.gives_refresh_token = True
        self.sends_id_token = True
        self.requests: list[str] = []
        self.revoked: list[str] = []
        self._logins: dict[str, dict[str, str]] = {}
        self._count = 0
        self.app = Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._settings),
                Route("/jwks", self._jwks),
                Route("/token", self._token, methods=["POST"]),
                Route("/userinfo", self._userinfo),
                Route("/revoke", self._revoke, methods=["POST"]),
            ]
        )

    @property
    def transport(self) -> httpx2.ASGITransport:
        return httpx2.ASGITransport(self.app)

    def answer(self, address: str, **further: str) -> str:
        """Log a person in at the provider's page, and return where it sends them back to."""
        found = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert found["client_id"] == CLIENT_ID
        assert found["response_type"] == "code"
        assert found["code_challenge_method"] == "S256"
        code = f"code-{len(self._logins)}"
        self._logins[code] = found
        query = {"code": code, "state": found["state"], "iss": ISSUER} | further
        kept = {name: value for name, value in query.items() if value}
        return f"{found['redirect_uri']}?{urlencode(kept)}"

    def usual_claims(self, **further: Any) -> dict[str, Any]:
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "aud": CLIENT_ID,
            "sub": "user-1",
            "name": "Ann",
            "groups": ["support"],
            "sid": "session-1",
            "iat": now,
            "exp": now + 300,
        }
        merged = claims | further | self.claims
        return {name: value for name, value in merged.items() if value is not None}

    def _signed(self, claims: dict[str, Any]) -> str:
        return self.keys[0].signed(claims)

    async def _settings(self, request: Request) -> Response:
        self.requests.append("settings")
        found = {
            "issuer": ISSUER,
            "authorization_endpoint": f"{ISSUER}/authorize?tenant=1",
            "token_endpoint": f"{ISSUER}/token",
            "jwks_uri": f"{ISSUER}/jwks",
            "revocation_endpoint": f"{ISSUER}/revoke",
            "end_session_endpoint": f"{ISSUER}/end",
            "authorization_response_iss_parameter_supported": True,
        }
        if self.userinfo is not None:
            found["userinfo_endpoint"] = f"{ISSUER}/userinfo"
        merged = found | self.settings
        return JSONResponse({name: one for name, one in merged.items() if one is not None})

    async def _jwks(self, request: Request) -> Response:
        self.requests.append("jwks")
        return JSONResponse({"keys": [key.public for key in self.keys]})

    async def _token(self, request: Request) -> Response:
        fields = {name: one[0] for name, one in parse_qs((await request.body()).decode()).items()}
        self.requests.append(fields["grant_type"])
        kind, _, pair = request.headers.get("Authorization", "").partition(" ")
        name, _, secret = base64.b64decode(pair).decode().partition(":")
        if (kind, unquote_plus(name), unquote_plus(secret)) != ("Basic", CLIENT_ID, CLIENT_SECRET):
            return JSONResponse({"error": "invalid_client"}, 401)
        if fields["grant_type"] == "refresh_token":
            return self._refreshed(fields)
        login = self._logins.pop(fields["code"], None)
        challenge = hashlib.sha256(fields["code_verifier"].encode()).digest()
        if (
            login is None
            or login["code_challenge"] != base64.urlsafe_b64encode(challenge).decode().rstrip("=")
            or login["redirect_uri"] != fields["redirect_uri"]
        ):
            return JSONResponse({"error": "invalid_grant", "error_description": "no\x1b[2J"}, 400)
        return self._tokens(nonce=login["nonce"])

    def _refreshed(self, fields: dict[str, str]) -> Response:
        if isinstance(self.refresh, int) and not isinstance(self.refresh, bool):
            return JSONResponse({}, self.refresh)
        current = f"refresh-{self._count}"
        if self.refresh is not True or fields["refresh_token"] != current:
            return JSONResponse({"error": self.refresh or "invalid_grant"}, 400)
        return self._tokens()

    def _tokens(self, **further: Any) -> Response:
        self._count += 1
        found = {"access_token": "access", "token_type": "Bearer"}
        if self.sends_id_token:
            found["id_token"] = self.token(self.usual_claims(**further))
        if self.gives_refresh_token:
            found["refresh_token"] = f"refresh-{self._count}"
        return JSONResponse(found)

    async def _userinfo(self, request: Request) -> Response:
        self.requests.append("userinfo")
        assert request.headers["Authorization"] == "Bearer access"
        return JSONResponse(self.userinfo)

    async def _revoke(self, request: Request) -> Response:
        fields = parse_qs((await request.body()).decode())
        self.revoked.append(fields["token"][0])
        return Response()
