"""Identities of people who decide: from the operating system, a trusted proxy or a token.

A name counts as proven only if something other than the request vouches for it. No function here
puts a token into an error or a record.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from temporalio.client import Client

from outlast.agents.errors import IdentityRefused, UserError, as_user_error
from outlast.contract import identity
from outlast.contract.identity import Record
from outlast.edges import clock
from outlast.loop.actions import fields_of
from outlast.loop.approvals import Decision, Person
from outlast.temporal.proofs import ServerLineage, identity_keys

if TYPE_CHECKING:
    from jwt import PyJWK

Headers: TypeAlias = "Mapping[str, str] | Iterable[tuple[str | bytes, str | bytes]]"
"""HTTP headers: a mapping, or pairs as in an ASGI scope."""

Network: TypeAlias = "str | IPv4Network | IPv6Network"

DEFAULT_ALGORITHMS: Final = ("RS256", "ES256", "PS256", "EdDSA")
"""The signatures that tokens may have unless the program names others: with public keys only."""

LONGEST_NAME: Final = 256
"""The most characters of a person's or a group's name."""

MOST_GROUPS: Final = 1_000  # they are part of each decision in the history
LONGEST_TOKEN: Final = 32_000  # longer than the headers that web servers accept

_ALGORITHMS: Final = frozenset(
    f"{family}{bits}" for family in ("HS", "RS", "ES", "PS") for bits in (256, 384, 512)
) | {"EdDSA", "ES256K"}


class TokenKeyUnknown(IdentityRefused):
    """A token names a key that the issuer's key set does not have: the set may be old."""


def person(
    subject: str,
    *,
    display: str | None = None,
    groups: Iterable[str] = (),
    method: str = "caller",
) -> Person:
    """Return a person whom the program itself has identified.

    Args:
        subject: the name in audiences; the same person always has the same one.
        display: the name for people to read, if it differs.
        groups: the groups that the person belongs to.
        method: how the program knows who it is; part of the audit.

    Raises:
        UserError: a name is empty, too long, or has characters that people cannot see.
    """
    if isinstance(groups, str):
        raise UserError(f"groups={groups!r:.80} must be a list of names, such as [{groups!r:.80}].")
    try:
        return _checked(subject, display, groups, method)
    except IdentityRefused as error:
        raise UserError(error.message) from None


def decided_by(decision: Decision, who: Person) -> Decision:
    """Return a decision as that of a person, without earlier claims about its sender."""
    return replace(decision, **fields_of(replace(who, proof=None)))


# --- The operating system ------------------------------------------------------------------------


def os_user() -> Person:
    """Return the operating-system user of this process, with its groups.

    Reads the user database and not variables such as USER, which anybody can set. A user id
    without a name, as in some containers, is `uid:1000`.
    """
    try:
        import grp
        import pwd
    except ImportError:  # Windows has no such database
        import getpass

        return _checked(getpass.getuser(), None, (), "os_user")
    uid = os.getuid()
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return _checked(f"uid:{uid}", None, _named(grp, os.getgroups()), "os_user")
    ids = os.getgrouplist(entry.pw_name, entry.pw_gid)
    full_name = entry.pw_gecos.partition(",")[0].strip() or None
    display = full_name if full_name is not None and _problem(full_name) is None else None
    return _checked(entry.pw_name, display, _named(grp, ids), "os_user")


def _named(grp: Any, ids: Iterable[int]) -> Iterator[str]:
    for one in dict.fromkeys(ids):
        try:
            yield str(grp.getgrgid(one).gr_name)
        except KeyError:
            continue


# --- A trusted proxy -----------------------------------------------------------------------------


def from_proxy_headers(
    headers: Headers,
    peer: str | tuple[Any, ...] | None,
    trusted: Iterable[Network],
    *,
    user_header: str = "X-Forwarded-User",
    groups_header: str | None = "X-Forwarded-Groups",
    groups_separator: str = ",",
) -> Person:
    """Return the person whom a proxy has authenticated.

    The proxy has to remove these headers from what its clients send.

    Args:
        headers: all headers of the request, repeated ones included.
        peer: the address of the connection, such as `request.client` of Starlette: never one from
            a header.
        trusted: the proxy's addresses or networks, such as `["10.0.0.0/8", "::1"]`.
        user_header: the header with the person's name.
        groups_header: the header with the person's groups; None for no groups.
        groups_separator: what is between two groups; another one than a comma for groups whose
            names have commas, such as LDAP's.

    Raises:
        IdentityRefused: the request does not come from the proxy, or its headers are not exactly
            one user and at most one list of groups.
        UserError: `trusted` is no list of networks, or trusts every address.
    """
    networks = proxy_networks(trusted)
    address = _address(peer)
    if address is None or not any(address in one for one in networks):
        where = "an unknown address" if address is None else str(address)
        raise IdentityRefused(
            f"The request comes from {where}, which is not a trusted proxy, so its headers prove "
            "nothing. Name the proxy's network in trusted=, if it is one."
        )
    pairs = [(_text_of(name), value) for name, value in _pairs(headers)]
    user = _only(pairs, user_header)
    if user is None:
        raise IdentityRefused(f"The proxy sent no header {user_header}, so nobody is signed in.")
    if "," in user:
        raise IdentityRefused(
            f"The header {user_header} has a comma: that is how two headers become one. The proxy "
            "has to set it once, with one name."
        )
    listed = _only(pairs, groups_header) if groups_header is not None else None
    groups = [one.strip() for one in (listed or "").split(groups_separator)]
    return _checked(user, None, filter(None, groups), "proxy")


def has_header(headers: Headers, name: str) -> bool:
    """Whether a request has a header, or another spelling of it that servers take for the same."""
    wanted = _spelled(name)
    return any(_spelled(_text_of(one)) == wanted for one, _ in _pairs(headers))


def proxy_networks(trusted: Iterable[Network]) -> list[IPv4Network | IPv6Network]:
    """Return the networks of a trusted proxy.

    Raises:
        UserError: it is no list of networks, or has every address.
    """
    if isinstance(trusted, str):
        raise UserError(f"trusted={trusted!r:.80} must be a list: trusted=[{trusted!r:.80}].")
    networks: list[IPv4Network | IPv6Network] = []
    for one in trusted:
        try:
            network = ip_network(one)
        except ValueError as error:
            raise UserError(
                f"{one!r:.80} in trusted= is no address or network ({error}). Write one such as "
                "10.0.0.0/8 or 10.0.0.7."
            ) from None
        if network.prefixlen == 0:
            raise UserError(
                f"{one} in trusted= is every address, so anybody could send any name. Name the "
                "proxy's own address."
            )
        networks.append(network)
    if not networks:
        raise UserError("trusted= is empty, so no proxy can be trusted. Name its address.")
    return networks


def _address(peer: str | tuple[Any, ...] | None) -> IPv4Address | IPv6Address | None:
    host = peer[0] if isinstance(peer, tuple) and peer else peer
    if not isinstance(host, str):
        return None
    try:
        # A zone, as in fe80::1%eth0, names an interface of this machine.
        address = ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _pairs(headers: Headers) -> Iterator[tuple[str | bytes, str | bytes]]:
    items = getattr(headers, "items", None)
    found = cast("Iterable[Any]", items() if callable(items) else headers)
    yield from found


def _only(pairs: Sequence[tuple[str, str | bytes]], name: str) -> str | None:
    """Return the value of a header that may occur once; None if there is none.

    Other spellings count too, because servers fold them into one: `X_Forwarded_User` arrives at a
    CGI program as the same variable as `X-Forwarded-User`.
    """
    wanted = _spelled(name)
    found = [(one, value) for one, value in pairs if _spelled(one) == wanted]
    if not found:
        return None
    if len(found) > 1 or found[0][0].lower() != name.lower():
        raise IdentityRefused(
            f"The request has several headers {name}, or another spelling of it: somebody may have "
            "added one before the proxy. Let the proxy remove them from what its clients send."
        )
    return _text_of(found[0][1]).strip(" \t")


def _spelled(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def _text_of(value: str | bytes) -> str:
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        raise IdentityRefused("A header of the request is not UTF-8.") from None


# --- A token -------------------------------------------------------------------------------------


def from_token(
    token: str,
    *,
    issuer: str,
    audience: str | Sequence[str],
    key: str | bytes | None = None,
    jwks: Mapping[str, Any] | None = None,
    algorithms: Sequence[str] = DEFAULT_ALGORITHMS,
    subject_claim: str = "sub",
    display_claim: str = "name",
    groups_claim: str = "groups",
    leeway_seconds: float = 30,
) -> Person:
    """Return the person of a verified JSON Web Token; needs `pip install "outlast[identity]"`.

    The token must have an expiry, an issuer, an audience and a subject.

    Args:
        token: the token, without the word `Bearer`.
        issuer: who must have issued it.
        audience: for whom it must have been issued: the name of this program, or several.
        key: the issuer's public key as PEM; a shared secret only with HS256 and its like.
        jwks: the issuer's key set instead, as the parsed JSON of its `jwks_uri`.
        algorithms: which signatures may count; never `none`.
        subject_claim: the claim with the person's name in audiences.
        display_claim: the claim with the name for people to read.
        groups_claim: the claim with the groups, a list of names.
        leeway_seconds: how much clocks may differ.

    Raises:
        IdentityRefused: the token does not prove who somebody is; the message says why, without
            any part of the token.
        UserError: the key or another argument is wrong, or the package `PyJWT` is missing.
    """
    claims = token_claims(
        token,
        issuer=issuer,
        audience=audience,
        key=key,
        jwks=jwks,
        algorithms=algorithms,
        required=("exp", "iss", "aud", subject_claim),
        leeway_seconds=leeway_seconds,
    )
    return person_of_claims(
        claims,
        subject_claim=subject_claim,
        display_claim=display_claim,
        groups_claim=groups_claim,
    )


def token_claims(
    token: str,
    *,
    issuer: str,
    audience: str | Sequence[str],
    key: str | bytes | None = None,
    jwks: Mapping[str, Any] | None = None,
    algorithms: Sequence[str] = DEFAULT_ALGORITHMS,
    required: Sequence[str] = ("exp", "iss", "aud"),
    leeway_seconds: float = 30,
) -> dict[str, Any]:
    """Return the claims of a verified JSON Web Token; see `from_token`.

    Raises:
        TokenKeyUnknown: the key set does not have the token's key.
        IdentityRefused: the token is not the issuer's, not for this audience, or not valid now.
        UserError: the key or another argument is wrong, or the package `PyJWT` is missing.
    """
    _check_arguments(issuer, audience, key, jwks, algorithms)
    jwt = _jwt()
    if not isinstance(cast("object", token), str) or not token.isascii():
        raise IdentityRefused("The token is no text of a JSON Web Token.")
    if len(token) > LONGEST_TOKEN:
        raise IdentityRefused(f"The token has {len(token):,} characters, of {LONGEST_TOKEN:,}.")
    try:
        return jwt.decode(
            token,
            key if jwks is None else _key_of(token, jwks, jwt),
            issuer=issuer,
            audience=audience,
            algorithms=list(algorithms),
            leeway=leeway_seconds,
            options={"require": list(required)},
        )
    except jwt.InvalidTokenError as error:
        raise IdentityRefused(_reason(error, jwt)) from None
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise UserError(
            f"The key of {issuer} cannot check this token ({type(error).__name__}). Pass its public "
            "key as PEM, or its key set as jwks=, and matching algorithms=."
        ) from None


def person_of_claims(
    claims: Mapping[str, Any],
    *,
    subject_claim: str = "sub",
    display_claim: str = "name",
    groups_claim: str = "groups",
    method: str = "token",
) -> Person:
    """Return the person whom verified claims name.

    Raises:
        IdentityRefused: they name nobody, or the groups are no list of names.
    """
    if claims.get(subject_claim) is None:
        raise IdentityRefused(f"The token has no claim {subject_claim!r:.80}.")
    if subject_claim == "email" and claims.get("email_verified") is not True:
        raise IdentityRefused("The token's e-mail address is not verified, so it names nobody.")
    return _checked(
        claims[subject_claim],
        _text_or_none(claims.get(display_claim)),
        _groups_of(claims.get(groups_claim), groups_claim),
        method,
    )


def _jwt() -> Any:
    try:
        import jwt
    except ImportError:
        raise UserError('Tokens need the package PyJWT: pip install "outlast[identity]".') from None
    return jwt


def _check_arguments(
    issuer: str,
    audience: str | Sequence[str],
    key: str | bytes | None,
    jwks: Mapping[str, Any] | None,
    algorithms: Sequence[str],
) -> None:
    if not issuer or not audience:
        raise UserError(
            "from_token needs issuer= and audience=. Without them, a token that was issued for "
            "another program would count here."
        )
    if (key is None) == (jwks is None):
        raise UserError("from_token needs the issuer's key: pass either key= or jwks=.")
    if isinstance(algorithms, str) or not algorithms:
        raise UserError('algorithms= must be a list of names, such as ["RS256"].')
    unknown = [one for one in algorithms if one not in _ALGORITHMS]
    if unknown:
        raise UserError(
            f"algorithms= names {unknown[0]!r:.40}. Signatures that count: "
            f"{', '.join(sorted(_ALGORITHMS))}."
        )
    shared = [one for one in algorithms if one.startswith("HS")]
    if shared and len(shared) < len(algorithms):
        raise UserError(
            f"algorithms= mixes {shared[0]}, which has a shared secret, with signatures of public "
            "keys. Anybody could then sign with the public key. Name one kind."
        )
    if shared and jwks is not None:
        raise UserError(f"{shared[0]} has a shared secret, which no key set has. Pass key=.")


def _key_of(token: str, jwks: Mapping[str, Any], jwt: Any) -> "PyJWK":
    try:
        keys: list[PyJWK] = jwt.PyJWKSet.from_dict(dict(jwks)).keys
    except (jwt.PyJWTError, ValueError, TypeError, AttributeError):
        raise UserError(
            'jwks= is no key set with a usable key. Pass the JSON of the issuer: {"keys": [...]}.'
        ) from None
    keys = [one for one in keys if one.public_key_use in {None, "sig"} and one.key_type != "oct"]
    wanted = jwt.get_unverified_header(token).get("kid")
    found = [one for one in keys if one.key_id == wanted] if wanted is not None else keys
    if len(found) != 1:
        raise TokenKeyUnknown(
            "The token names no key of the issuer's key set. If the issuer has new keys, fetch the "
            "set again."
        )
    return found[0]


def _reason(error: Exception, jwt: Any) -> str:
    """Return why a token is refused, without the library's messages: they may quote the token."""
    reasons: tuple[tuple[type[Exception], str], ...] = (
        (jwt.ExpiredSignatureError, "The token has expired. Sign in again."),
        (jwt.ImmatureSignatureError, "The token is not valid yet. Compare the clocks."),
        (jwt.InvalidAudienceError, "The token was issued for another program (aud)."),
        (jwt.InvalidIssuerError, "The token is of another issuer (iss)."),
        (jwt.InvalidAlgorithmError, "The token's algorithm is not allowed; see algorithms=."),
        (jwt.InvalidSignatureError, "The token's signature is not of the issuer's key."),
        (
            jwt.MissingRequiredClaimError,
            f"The token has no claim {getattr(error, 'claim', '')!r:.80}.",
        ),
        (jwt.DecodeError, "The token is no JSON Web Token."),
    )
    return next(
        (text for kind, text in reasons if isinstance(error, kind)), "The token is invalid."
    )


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and _problem(value) is None else None


def _groups_of(value: object, claim: str) -> Iterator[str]:
    entries = cast("list[object]", value) if isinstance(value, list) else [value]
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        elif entry is not None:
            raise IdentityRefused(f"The token's claim {claim!r:.80} is no list of names.")


# --- Names ---------------------------------------------------------------------------------------


def _checked(subject: object, display: str | None, groups: Iterable[str], method: str) -> Person:
    """Return a person, if the names are usable.

    Raises:
        IdentityRefused: a name is empty, too long, or has characters that people cannot see.
    """
    if not isinstance(subject, str):
        raise IdentityRefused(f"A person's name must be a text, not {type(subject).__name__}.")
    distinct = tuple(dict.fromkeys(groups))
    if len(distinct) > MOST_GROUPS:
        raise IdentityRefused(f"{subject:.80} is in {len(distinct):,} groups, of {MOST_GROUPS:,}.")
    named = [("name", subject), *(("group", one) for one in distinct)]
    named += [("display name", display)] if display is not None else []
    for what, name in named:
        problem = _problem(name)
        if problem:
            raise IdentityRefused(f"The {what} {name!a:.80} of a person {problem}.")
    return Person(subject=subject, display=display, groups=distinct, method=method)


def _problem(name: object) -> str | None:
    if not isinstance(name, str):
        return "is no text"
    if not name.strip():
        return "is empty"
    if len(name) > LONGEST_NAME:
        return f"has {len(name):,} characters, of at most {LONGEST_NAME}"
    if name != name.strip() or not name.isprintable():
        return "has spaces around it, or characters that people cannot see"
    return None


# --- Signatures ----------------------------------------------------------------------------------


async def sign(client: Client, record: Record, run_id: str, *, action: str = "decide") -> Record:
    """Return a decision, or the record of another action, with a signature if there is a key.

    The key is that of the environment, or of the embedded server's project. The signature holds for
    one execution of one run, for ten minutes, once.

    Args:
        client: connected to the run's server, which says which execution it is.
        record: the decision, complete; or the record of another action of a person.
        run_id: the workflow id of the run that receives it: the nested run, if that one asks.
        action: the name of the update.

    Raises:
        UserError: the key is unusable, or a field cannot be sent as JSON.
        RPCError: the server does not know the run.
    """
    keys = await identity_keys(client)
    if keys.signing is None:
        return record
    chain_id = (await ServerLineage(client)(run_id)).chain_id
    place = identity.Place(namespace=client.namespace, chain_id=chain_id, run_id=run_id)
    with as_user_error(ValueError):
        return identity.signed(record, place, keys.signing, action=action, at_ms=clock.now_ms())
