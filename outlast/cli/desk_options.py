"""The options of `outlast serve` that say who may come in, and what they may do."""

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias
from urllib.parse import urlsplit

import typer

from outlast.agents.durations import parse_duration
from outlast.agents.errors import UserError
from outlast.agents.hosts import is_this_machine
from outlast.agents.secrets import secret
from outlast.cli.durations import past_time

if TYPE_CHECKING:
    from outlast.serve.access import RoleRules
    from outlast.serve.login import Login

SECRET_VARIABLE: Final = "OUTLAST_OIDC_CLIENT_SECRET"  # noqa: S105  the name of a variable
API_KEYS_VARIABLE: Final = "OUTLAST_API_KEYS"

EVERYBODY: Final = "*"
"""The group in `--role` that everybody is in who can log in."""

_LOGIN: Final = "Login"
_GROUPS_OF_NOBODY: Final = "--groups belongs to --as: without a name, your own groups count."

Texts: TypeAlias = list[str] | None


def _login(variable: str | None = None) -> Any:
    return typer.Option(envvar=variable, rich_help_panel=_LOGIN)


AsName: TypeAlias = Annotated[
    str | None,
    typer.Option("--as", help="Your name on this machine's desk. Default: you, with your groups."),
]
Groups: TypeAlias = Annotated[
    str | None,
    typer.Option("--groups", help="The groups that you belong to, separated by commas."),
]


def person_arguments(name: str | None, groups: str | None) -> list[str]:
    """Return the arguments of `outlast serve` that name the person of this machine's desk.

    Raises:
        UserError: there are groups and no name.
    """
    if name is None and groups:
        raise UserError(_GROUPS_OF_NOBODY)
    given = {"--as": name, "--groups": groups}
    return [f"{option}={value}" for option, value in given.items() if value is not None]


@dataclass(frozen=True, kw_only=True)
class TeamOptions:
    """The options that say who comes in: a login, or the user of this machine.

    Command line:
        url (ADDRESS): The address of the desk, as browsers have it. Needed with a login.
        issuer (--oidc-issuer ADDRESS): The OpenID Connect provider at which people log in.
        client_id (--oidc-client-id ID): The desk's id there; its secret is in
            OUTLAST_OIDC_CLIENT_SECRET.
        scopes (--oidc-scopes SCOPES): What to ask the provider for, separated by spaces.
        subject_claim (--oidc-subject-claim CLAIM): The claim with a person's name in audiences.
        groups_claim (--oidc-groups-claim CLAIM): The claim with a person's groups.
        session (DURATION): How long after a login a person has to log in again.
        sessions_from (DATE): Ends all sessions of logins before this time.
        proxy (NETWORK): The address of a proxy that logs people in and names them in headers.
            Repeatable.
        user_header (--proxy-user-header NAME): The proxy's header with the name.
        groups_header (--proxy-groups-header NAME): The proxy's header with the groups.
        role (GROUP=ROLES[@SCOPE]): What a group may do: viewer, decider, operator. After an @, for
            which runs: such as acme=viewer,decider@tenant:acme, or @agent:NAME, or @team:GROUP; +
            joins several. Repeatable; the group * is everybody who can log in.
        search_index (PLACE): The index of search, which `outlast search run` feeds: a file, or
            postgresql://HOST/DATABASE. Default: OUTLAST_SEARCH_INDEX, or no search.
        origin (ADDRESS): Another site whose pages may call the API with a customer's token.
            Repeatable.
        look (FILE): The look of the customers' page: the table [chat] of a TOML file.
    """

    as_name: AsName = None
    groups: Groups = None
    url: Annotated[str | None, _login("OUTLAST_DESK_URL")] = None
    issuer: Annotated[str | None, _login("OUTLAST_OIDC_ISSUER")] = None
    client_id: Annotated[str | None, _login("OUTLAST_OIDC_CLIENT_ID")] = None
    scopes: Annotated[str, _login()] = "openid profile email"
    subject_claim: Annotated[str, _login()] = "sub"
    groups_claim: Annotated[str, _login()] = "groups"
    session: Annotated[str, _login()] = "8h"
    sessions_from: Annotated[str | None, _login("OUTLAST_SESSIONS_FROM")] = None
    proxy: Annotated[Texts, _login()] = None
    user_header: Annotated[str, _login()] = "X-Forwarded-User"
    groups_header: Annotated[str, _login()] = "X-Forwarded-Groups"
    role: Annotated[Texts, _login()] = None
    origin: Texts = None
    look: Path | None = None
    search_index: str | None = None

    @property
    def has_login(self) -> bool:
        """Whether people log in."""
        return self.issuer is not None or bool(self.proxy)

    def login(self) -> "Login":
        """Return the login that the options describe.

        Raises:
            UserError: they do not fit together.
        """
        if self.issuer is not None and self.proxy:
            raise UserError("Choose one login: --oidc-issuer, or --proxy.")
        if not self.has_login:
            if self.role:
                raise UserError(
                    "--role belongs to a login: without one, the desk serves you alone, and you "
                    "may do everything. Add --oidc-issuer or --proxy."
                )
            return self._this_machine()
        if self.as_name is not None:
            raise UserError("--as names the user of a desk without a login. Leave it out.")
        if not self.url:
            raise UserError(
                "A desk with a login needs its address: add --url https://desk.example.com, as "
                "browsers have it."
            )
        if not self.role:
            raise UserError(
                "Say who may do what: --role support=viewer,decider,operator for a group, or "
                "--role '*=viewer' for everybody who can log in."
            )
        return self._proxy() if self.issuer is None else self._oidc(self.issuer)

    def roles(self) -> "RoleRules | None":
        """Return who may do what; None without a login."""
        from outlast.serve.access import RoleRules

        if not self.role:
            return None
        groups: dict[str, list[str]] = {}
        for one in self.role or ():
            head, at, scope = _without_scope(one)
            group, equals, names = head.rpartition("=")
            found = [f"{name.strip()}{at}{scope}" for name in names.split(",") if name.strip()]
            if not equals or not group.strip() or not found:
                raise UserError(
                    f"--role {one!r:.80} must be a group and its roles, such as "
                    "support=viewer,decider, or acme=viewer,decider@tenant:acme."
                )
            groups.setdefault(group.strip(), []).extend(found)
        anybody = groups.pop(EVERYBODY, [])
        return RoleRules(groups, anybody)

    def _this_machine(self) -> "Login":
        from outlast.client.identity import os_user, person
        from outlast.serve.login import ThisMachine

        if self.url and not is_this_machine(urlsplit(self.url).hostname or ""):
            raise UserError(
                f"A desk at {self.url} needs a login: add --oidc-issuer or --proxy. Without one, a "
                "desk serves you alone, at an address of this machine."
            )
        groups = [one.strip() for one in (self.groups or "").split(",") if one.strip()]
        if self.as_name is not None:
            return ThisMachine(person(self.as_name, groups=groups, method="desk"))
        if groups:
            raise UserError(_GROUPS_OF_NOBODY)
        return ThisMachine(os_user())

    def _proxy(self) -> "Login":
        from outlast.serve.login import TrustedProxy

        return TrustedProxy(
            self.proxy or (), user_header=self.user_header, groups_header=self.groups_header
        )

    def _oidc(self, issuer: str) -> "Login":
        from outlast.serve.oidc import OpenIDConnect
        from outlast.serve.staff_sessions import SessionRules

        if not self.client_id:
            raise UserError("--oidc-issuer needs --oidc-client-id: the id that it gave the desk.")
        now = datetime.now(UTC)  # noqa: TID251  for what the option means
        valid_from = None if self.sessions_from is None else past_time(self.sessions_from, now)
        return OpenIDConnect(
            issuer,
            self.client_id,
            secret(SECRET_VARIABLE) or None,
            scopes=self.scopes.split(),
            subject_claim=self.subject_claim,
            groups_claim=self.groups_claim,
            sessions=SessionRules(lifetime=self._lifetime(), valid_from=valid_from),
        )

    def _lifetime(self) -> timedelta:
        length = parse_duration(self.session)
        if length is None:
            raise UserError(f"--session {self.session!r:.40} is no duration, such as 8h or 45min.")
        return length


_SCOPED: Final = re.compile(r"(?P<head>[^@]*(?:@(?!\w+:)[^@]*)*)@(?P<scope>\w+:.*)", re.DOTALL)


def _without_scope(role: str) -> tuple[str, str, str]:
    """Return the group and roles of an option, and the scope of all these roles.

    A group may be a mail address, so the scope begins at the first `@` with the name of a kind and a
    colon after it.
    """
    found = _SCOPED.fullmatch(role)
    return (role, "", "") if found is None else (found["head"], "@", found["scope"])


def api_keys() -> dict[str, str]:
    """Return the keys of programs in OUTLAST_API_KEYS, by name.

    Raises:
        UserError: the variable cannot be read; no part of a key is in the message.
    """
    found: dict[str, str] = {}
    entries = [one.strip() for one in os.environ.get(API_KEYS_VARIABLE, "").split(",")]
    for at, entry in enumerate(entries, start=1):
        name, _, key = entry.partition("=")
        if not entry:
            continue
        if not name.strip() or not key.strip():
            raise UserError(
                f"Entry {at} of {API_KEYS_VARIABLE} must be a name and a key, such as "
                "shop=KEY. Make a key with `openssl rand -hex 32`."
            )
        if name.strip() in found:
            raise UserError(f"{API_KEYS_VARIABLE} names {name.strip()!r:.80} twice.")
        found[name.strip()] = key.strip()
    return found
