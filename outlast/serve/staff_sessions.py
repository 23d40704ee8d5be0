"""Sessions of the team: encrypted cookies, because processes of the desk share nothing.

What a session is worth is in its cookie: who it is, when the login was, and when the provider was
last asked. Four things end it, and none needs a store:

- its lifetime, counted from the login;
- the provider: after `check_after` the desk asks it, by the session's refresh token, whether the
  person may still log in. With no word from the provider, a session ends an hour after the last;
- the operator: `valid_from` ends all sessions of earlier logins, and so does another key;
- the person: a logout deletes the cookie and revokes its refresh token. A copy of the cookie is
  refused at once by the process that saw the logout, and by others when they ask the provider.

A store of ended sessions would end a copy at once everywhere. It would also be one more thing that
has to run, and be asked at every request, to gain the minutes until the next check.
"""

import json
import secrets
import zlib
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final
from urllib.parse import urlsplit

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from outlast.agents.errors import IdentityRefused, UserError, as_user_error
from outlast.contract.identity import IdentityKeyError, IdentityKeys, keys_of
from outlast.views.records import Person

KEY_VARIABLE: Final = "OUTLAST_DESK_KEY"
"""The variable with the keys of the team's sessions."""

UNCHECKED: Final = timedelta(hours=1)
"""How long a session lasts without the provider's word that the person may still log in."""

SHORTEST_CHECK: Final = timedelta(minutes=1)

CLOCK_DIFFERENCE: Final = 300
"""How many seconds the clocks of two processes may differ."""

_PIECE: Final = 3_500
"""The characters of one cookie: browsers keep up to 4,096, with its name and attributes."""

_MOST_PIECES: Final = 2
"""Common proxies accept 8 KB of cookies in all."""


def keys_from_environment() -> IdentityKeys:
    """Return the keys in OUTLAST_DESK_KEY.

    Raises:
        UserError: a key is unusable.
    """
    with as_user_error(IdentityKeyError):
        return IdentityKeys(keys_of(KEY_VARIABLE), KEY_VARIABLE)


@dataclass(frozen=True)
class SessionRules:
    """How long sessions of the team count.

    Attributes:
        keys: the first one encrypts sessions, and all of them are accepted; default: those of
            OUTLAST_DESK_KEY. Every process of a desk has the same.
        lifetime: how long after the login a person has to log in again.
        check_after: how long the provider's word counts that the person may still log in.
        valid_from: sessions of earlier logins are over; None for none.
    """

    keys: IdentityKeys = field(default_factory=keys_from_environment)
    lifetime: timedelta = timedelta(hours=8)
    check_after: timedelta = timedelta(minutes=10)
    valid_from: datetime | None = None

    def __post_init__(self) -> None:
        if not self.keys:
            raise UserError(
                f"{KEY_VARIABLE} is not set: sessions of the team need a key that all processes of "
                "the desk share. Make one with `openssl rand -base64 32`."
            )
        if any(key.public is not None for key in self.keys.trusted):
            raise UserError(
                f"A key in {KEY_VARIABLE} is an Ed25519 key, which encrypts nothing. Make one with "
                "`openssl rand -base64 32`."
            )
        if not timedelta(minutes=1) <= self.lifetime <= timedelta(days=30):
            raise UserError(
                f"The lifetime of sessions must be from a minute to 30 days, not {self.lifetime}."
            )
        if not SHORTEST_CHECK <= self.check_after <= UNCHECKED:
            raise UserError(
                f"check_after= must be from {SHORTEST_CHECK} to {UNCHECKED}, "
                f"not {self.check_after}."
            )
        if self.valid_from is not None and self.valid_from.tzinfo is None:
            raise UserError(f"valid_from={self.valid_from} needs a time zone, such as UTC.")

    def is_over(self, session: "StaffSession", now: float) -> bool:
        """Whether a session no longer counts, whatever the provider says."""
        earliest = 0.0 if self.valid_from is None else self.valid_from.timestamp()
        return (
            session.began_at < earliest
            or session.began_at > now + CLOCK_DIFFERENCE
            or now >= self.ends_at(session)
        )

    def is_due(self, session: "StaffSession", now: float) -> bool:
        """Whether it is time to ask the provider about a session."""
        after = self.check_after.total_seconds()
        return session.refresh_token is not None and now >= session.checked_at + after

    def ends_at(self, session: "StaffSession") -> float:
        """Return when a session ends, if the provider says nothing more."""
        unchecked = session.checked_at + UNCHECKED.total_seconds()
        return min(session.began_at + self.lifetime.total_seconds(), unchecked)

    def streams_end_at(self, session: "StaffSession", now: float) -> float:
        """Return when a live stream ends, so that its reader comes back and is checked again."""
        after = self.check_after.total_seconds()
        due = session.checked_at + after
        return min(self.ends_at(session), due if due > now else now + after)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaffSession:
    """Who has logged in, as its cookie has it.

    Attributes:
        id: tells the session from others.
        subject: the person's name in audiences.
        display: the name for people to read.
        groups: the person's groups.
        provider_subject: the person as the provider names them (`sub`).
        began_at: when the login was, in seconds since the epoch.
        checked_at: when the provider last said that the person may log in.
        refresh_token: asks the provider again; None if it gave none.
    """

    id: str = field(default_factory=lambda: secrets.token_hex(16))
    subject: str
    display: str | None = None
    groups: tuple[str, ...] = ()
    provider_subject: str
    began_at: float
    checked_at: float
    refresh_token: str | None = None

    @property
    def person(self) -> Person:
        """Return who it is."""
        return Person(subject=self.subject, display=self.display, groups=self.groups, method="oidc")

    def checked(self, person: Person, refresh_token: str | None, now: float) -> "StaffSession":
        """Return the session after the provider's word."""
        return replace(
            self,
            subject=person.subject,
            display=person.display,
            groups=person.groups,
            refresh_token=refresh_token,
            checked_at=now,
        )


# --- Encryption ----------------------------------------------------------------------------------


class Sealer:
    """Encrypts what only this desk may read again, for one purpose.

    Args:
        keys: the first one encrypts, all of them decrypt.
        purpose: what it is for, and for which desk: a text of another purpose cannot be read.
    """

    def __init__(self, keys: IdentityKeys, *purpose: str) -> None:
        info = json.dumps(["outlast desk", *purpose]).encode()

        def derived(secret: bytes) -> Fernet:
            key = HKDF(hashes.SHA256(), length=32, salt=None, info=info).derive(secret)
            return Fernet(urlsafe_b64encode(key))

        self._box = MultiFernet([derived(key.secret or b"") for key in keys.trusted])

    def seal(self, value: Mapping[str, Any]) -> str:
        """Return a value as a text that only `open` can read."""
        content = zlib.compress(json.dumps(value, separators=(",", ":")).encode())
        return self._box.encrypt(content).rstrip(b"=").decode()

    def open(self, text: str) -> dict[str, Any] | None:
        """Return the value of a text; None if it is none of this purpose and these keys."""
        try:
            content = self._box.decrypt(text + "=" * (-len(text) % 4))
        except (InvalidToken, ValueError):  # a text of other characters than ASCII
            return None
        return json.loads(zlib.decompress(content))


# --- Cookies -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CookieJar:
    """Writes and reads the cookies of one desk.

    Attributes:
        url: the address of the desk.
        keys: see `SessionRules`.
        audience: what else the sessions belong to, such as the provider and the client.
    """

    url: str
    keys: IdentityKeys
    audience: tuple[str, ...] = ()

    @property
    def is_secure(self) -> bool:
        """Whether cookies are for HTTPS alone: everywhere but at http on this machine."""
        return urlsplit(self.url).scheme == "https"

    def name(self, what: str) -> str:
        """Return the name of a cookie.

        Ports share cookies, so the port is part of the name where another desk may have another.
        """
        if self.is_secure:
            # Browsers take a name with this beginning from this very host alone, and over HTTPS.
            return f"__Host-outlast-{what}"
        return f"outlast-{what}-{urlsplit(self.url).port or 80}"

    def sealer(self, purpose: str) -> Sealer:
        """Return what encrypts cookies of one purpose for this desk."""
        return Sealer(self.keys, purpose, self.url, *self.audience)

    @cached_property
    def _sessions(self) -> Sealer:
        return self.sealer("session")

    def written(self, name: str, value: str, *, seconds: float) -> str:
        """Return the header that sets a cookie; it deletes the cookie if `seconds` is 0."""
        parts = [f"{name}={value}", "Path=/", f"Max-Age={int(seconds)}", "HttpOnly", "SameSite=Lax"]
        return "; ".join([*parts, "Secure"] if self.is_secure else parts)

    def session(self, cookies: Mapping[str, str]) -> StaffSession | None:
        """Return the session in a request's cookies; None if there is none of this desk."""
        pieces = [cookies.get(name, "") for name in self._names]
        value = self._sessions.open("".join(pieces)) if pieces[0] else None
        if value is None:
            return None
        try:
            groups = tuple(value.pop("groups"))
            return StaffSession(**value, groups=groups)
        except (TypeError, KeyError):  # of another version
            return None

    def session_set(self, session: StaffSession, *, seconds: float) -> list[str]:
        """Return the headers that set a session.

        Raises:
            IdentityRefused: it does not fit into cookies.
        """
        text = self._sessions.seal(asdict(session))
        if len(text) > _PIECE * _MOST_PIECES:
            raise IdentityRefused(
                f"The login has {len(session.groups):,} groups, which do not fit into a cookie. "
                "Let the provider send only the groups that this desk needs."
            )
        pieces = [text[at * _PIECE : (at + 1) * _PIECE] for at in range(_MOST_PIECES)]
        return [
            self.written(name, piece, seconds=seconds if piece else 0)
            for name, piece in zip(self._names, pieces, strict=True)
        ]

    def session_deleted(self) -> list[str]:
        """Return the headers that delete a session."""
        return [self.written(name, "", seconds=0) for name in self._names]

    @property
    def _names(self) -> list[str]:
        return [
            self.name("session"),
            *(self.name(f"session{at}") for at in range(2, _MOST_PIECES + 1)),
        ]
