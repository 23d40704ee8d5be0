"""Who decides: the system's user, a trusted proxy's headers, a verified token."""

import base64
import grp
import json
import logging
import os
import pwd
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import Client

from outlast.agents.errors import IdentityRefused, UserError
from outlast.client.identity import (
    decided_by,
    from_proxy_headers,
    from_token,
    os_user,
    person,
    sign,
)
from outlast.contract.identity import (
    IdentityKeys,
    Place,
    new_key_pair,
    parse_proof,
    proof_problem,
    shared_key,
)
from outlast.edges import clock
from outlast.loop.actions import ClaimAction
from outlast.loop.approvals import Decision, Person

APPROVE = Decision(request_id="a1", type="approve", by="mallory", proof="v1.0.x")
PROXY = ["10.0.0.0/8", "::1"]
USER = ("X-Forwarded-User", "ann")
GROUPS = ("X-Forwarded-Groups", "billing, leads")


# --- Names ---------------------------------------------------------------------------------------


def test_a_decision_gets_its_sender_from_the_person_alone() -> None:
    ann = person("ann", display="Ann", groups=["billing"], method="sso")
    decision = decided_by(APPROVE, ann)
    assert (decision.by, decision.display, decision.groups) == ("ann", "Ann", ("billing",))
    assert (decision.method, decision.proof) == ("sso", None)


@pytest.mark.parametrize(
    ("subject", "problem"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        (" ann", "has spaces around it"),
        ("ann\x00", "characters that people cannot see"),
        ("ann\u202e", r"'ann\\u202e' of a person has"),
        ("a" * 257, "has 257 characters"),
        (None, "must be a text, not NoneType"),
    ],
    ids=range(7),
)
def test_a_name_that_cannot_be_read_is_refused(subject: Any, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        person(subject)


def test_groups_are_a_list_of_names() -> None:
    assert person("ann", groups=["a", "b", "a"]).groups == ("a", "b")
    with pytest.raises(UserError, match="must be a list of names"):
        person("ann", groups="billing")
    with pytest.raises(UserError, match="The group '' of a person is empty"):
        person("ann", groups=[""])
    with pytest.raises(UserError, match="ann is in 1,001 groups"):
        person("ann", groups=map(str, range(1_001)))


# --- The operating system ------------------------------------------------------------------------


def test_the_systems_user_is_read_from_the_user_database(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("USER", "LOGNAME", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "mallory")
    found = os_user()
    entry = pwd.getpwuid(os.getuid())
    assert (found.subject, found.method) == (entry.pw_name, "os_user")
    assert grp.getgrgid(entry.pw_gid).gr_name in found.groups


def test_a_user_and_a_group_without_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_: int) -> Any:
        raise KeyError

    monkeypatch.setattr(os, "getuid", lambda: 12_345)
    monkeypatch.setattr(pwd, "getpwuid", nothing)
    monkeypatch.setattr(grp, "getgrgid", nothing)
    assert os_user() == Person(subject="uid:12345", method="os_user")


def test_a_full_name_is_shown_if_it_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def entry_with(full_name: str) -> Callable[[int], pwd.struct_passwd]:
        return lambda _: pwd.struct_passwd(("ann", "x", 0, 0, full_name, "/", "/bin/sh"))

    for full_name, shown in (("Ann Smith,room 1", "Ann Smith"), ("", None), ("\x1b[2J", None)):
        monkeypatch.setattr(pwd, "getpwuid", entry_with(full_name))
        assert os_user().display == shown


def test_a_system_without_a_user_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pwd", None)
    monkeypatch.setattr("getpass.getuser", lambda: "ann")
    assert os_user() == Person(subject="ann", method="os_user")


# --- A trusted proxy -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "peer",
    ["10.1.2.3", ("10.1.2.3", 4711), "::1", ("::1", 4711, 0, 0), "::ffff:10.1.2.3", "[::1]"],
    ids=range(6),
)
def test_a_trusted_proxy_names_the_person(peer: Any) -> None:
    found = from_proxy_headers([USER, GROUPS, ("Accept", "*/*")], peer, PROXY)
    assert found == Person(subject="ann", groups=("billing", "leads"), method="proxy")


@pytest.mark.parametrize(
    "headers",
    [
        {"x-forwarded-user": "ann", "X-FORWARDED-GROUPS": "billing,,leads,"},
        [(b"x-forwarded-user", b"ann"), (b"x-forwarded-groups", b"\tbilling ,leads")],
    ],
    ids=["mapping", "ASGI"],
)
def test_headers_come_in_every_form_of_the_frameworks(headers: Any) -> None:
    found = from_proxy_headers(headers, "10.0.0.1", PROXY)
    assert (found.subject, found.groups) == ("ann", ("billing", "leads"))


@pytest.mark.parametrize(
    "peer",
    ["192.168.0.1", "::2", "::ffff:192.168.0.1", None, "", "localhost", (), "unix:", "10.0.0.1, 1"],
    ids=range(9),
)
def test_nobody_else_names_a_person(peer: Any) -> None:
    with pytest.raises(IdentityRefused, match="which is not a trusted proxy"):
        from_proxy_headers([USER], peer, PROXY)


def test_a_zone_does_not_make_an_address_another_one() -> None:
    assert from_proxy_headers([USER], "fe80::1%eth0", ["fe80::/10"]).subject == "ann"


@pytest.mark.parametrize(
    "headers",
    [
        [USER, ("x-forwarded-user", "mallory")],
        [("X_Forwarded_User", "mallory"), USER],
        [("X_Forwarded_User", "mallory")],
        [("X-Forwarded-User ", "mallory"), USER],
        [USER, GROUPS, ("X-Forwarded_Groups", "leads")],
        {"X-Forwarded-User": "ann", "x-forwarded-user": "mallory"},
        [USER, (b"X-Forwarded-User", b"mallory")],
    ],
    ids=range(7),
)
def test_a_second_header_before_the_proxy_is_refused(headers: Any) -> None:
    with pytest.raises(IdentityRefused, match="has several headers X-Forwarded-"):
        from_proxy_headers(headers, "10.0.0.1", PROXY)


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ([], "sent no header X-Forwarded-User"),
        ([GROUPS], "sent no header X-Forwarded-User"),
        ([("X-Forwarded-User", "")], "is empty"),
        ([("X-Forwarded-User", " \t ")], "is empty"),
        ([("X-Forwarded-User", "ann, mallory")], "has a comma"),
        ([("X-Forwarded-User", "ann\r\nX-Forwarded-Groups: leads")], "cannot see"),
        ([("X-Forwarded-User", "a" * 300)], "has 300 characters"),
        ([(b"X-Forwarded-User", b"\xff")], "not UTF-8"),
    ],
    ids=range(8),
)
def test_headers_that_do_not_name_one_person(headers: Any, problem: str) -> None:
    with pytest.raises(IdentityRefused, match=problem):
        from_proxy_headers(headers, "10.0.0.1", PROXY)


def test_groups_with_commas_have_another_separator() -> None:
    names = ("X-Groups", "CN=billing,OU=people | CN=leads,OU=people")
    found = from_proxy_headers(
        [("Remote-User", "ann"), names], "10.0.0.1", PROXY,
        user_header="Remote-User", groups_header="X-Groups", groups_separator="|",
    )  # fmt: skip
    assert found.groups == ("CN=billing,OU=people", "CN=leads,OU=people")


def test_groups_that_nobody_reads_are_no_groups() -> None:
    assert from_proxy_headers([USER, GROUPS], "10.0.0.1", PROXY, groups_header=None).groups == ()


@pytest.mark.parametrize(
    ("trusted", "problem"),
    [
        ("10.0.0.0/8", r"must be a list: trusted=\['10.0.0.0/8'\]"),
        ([], "is empty"),
        (["0.0.0.0/0"], "is every address"),
        (["::/0"], "is every address"),
        (["proxy.internal"], "is no address or network"),
        (["10.0.0.1/8"], "has host bits set"),
    ],
    ids=range(6),
)
def test_trusted_is_a_list_of_networks(trusted: Any, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        from_proxy_headers([USER], "10.0.0.1", trusted)


# --- A token -------------------------------------------------------------------------------------

ISSUER = "https://login.example"
SECRET = "s" * 20 + "0123456789abcdef" * 2
RSA_KEY = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
PUBLIC = RSA_KEY.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)


def claims(**changes: Any) -> dict[str, Any]:
    """Return the claims of a good token, with some changed; None leaves a claim out."""
    now = int(time.time())
    good = {
        "iss": ISSUER, "aud": "outlast", "sub": "ann", "exp": now + 600, "nbf": now - 5, "iat": now - 5,
        "name": "Ann Smith", "groups": ["billing", "leads"],
    }  # fmt: skip
    return {name: value for name, value in {**good, **changes}.items() if value is not None}


def token_of(key: Any = RSA_KEY, algorithm: str = "RS256", **changes: Any) -> str:
    headers = {"kid": changes.pop("kid")} if "kid" in changes else None
    return jwt.encode(claims(**changes), key, algorithm, headers=headers)


def read(token: str, **options: Any) -> Person:
    arguments: dict[str, Any] = {"issuer": ISSUER, "audience": "outlast", **options}
    if "jwks" not in options:
        arguments.setdefault("key", PUBLIC)
    return from_token(token, **arguments)


def jwk(key: Any, kid: str, **more: str) -> dict[str, Any]:
    kind: Any = RSAAlgorithm if key is RSA_KEY else ECAlgorithm
    return {**kind.to_jwk(key.public_key(), as_dict=True), "kid": kid, **more}


def test_a_verified_token_names_the_person() -> None:
    ann = Person(subject="ann", display="Ann Smith", groups=("billing", "leads"), method="token")
    assert read(token_of()) == ann
    assert read(token_of(EC_KEY, "ES256", kid="e"), jwks={"keys": [jwk(EC_KEY, "e")]}) == ann


def test_other_claims_can_name_the_person() -> None:
    token = token_of(email="ann@example.com", email_verified=True, roles="billing", groups=None)
    found = read(token, subject_claim="email", groups_claim="roles", display_claim="absent")
    assert found == Person(subject="ann@example.com", groups=("billing",), method="token")
    wrong: list[dict[str, Any]] = [{"email_verified": False}, {"email_verified": "true"}, {}]
    for says in wrong:
        unverified = token_of(email="ann@example.com", **says)
        with pytest.raises(IdentityRefused, match="address is not verified"):
            read(unverified, subject_claim="email")


def test_a_key_set_has_old_and_new_keys() -> None:
    keys = {"keys": [jwk(RSA_KEY, "old"), jwk(EC_KEY, "new")]}
    assert read(token_of(kid="old"), jwks=keys).subject == "ann"
    assert read(token_of(EC_KEY, "ES256", kid="new"), jwks=keys).subject == "ann"
    assert read(token_of(), jwks={"keys": [jwk(RSA_KEY, "only")]}).subject == "ann"


@pytest.mark.parametrize(
    ("jwks", "kid"),
    [
        ([jwk(EC_KEY, "new"), jwk(RSA_KEY, "old")], "foreign"),
        ([jwk(EC_KEY, "new"), jwk(RSA_KEY, "old")], None),
        ([jwk(RSA_KEY, "old", use="enc")], "old"),
        ([{"kty": "oct", "kid": "old", "k": "c2VjcmV0", "alg": "HS256"}], "old"),
    ],
    ids=["another name", "no name", "for encryption", "a shared secret"],
)
def test_a_token_of_no_key_in_the_set_is_refused(jwks: list[Any], kid: str | None) -> None:
    token = token_of() if kid is None else token_of(kid=kid)
    with pytest.raises(IdentityRefused, match="names no key of the issuer's key set"):
        read(token, jwks={"keys": jwks})


def without_signature() -> str:
    return jwt.encode(claims(), "", algorithm="none")


def signed_with_the_public_key() -> str:
    """Return a token of HS256 whose secret is the issuer's public key, made by hand."""
    import hashlib
    import hmac

    def part(data: bytes) -> bytes:
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    header = part(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    body = header + b"." + part(json.dumps(claims()).encode())
    return (body + b"." + part(hmac.digest(PUBLIC, body, hashlib.sha256))).decode()


def changed() -> str:
    header, _, signature = token_of().split(".")
    _, body, _ = token_of(sub="mallory").split(".")
    return f"{header}.{body}.{signature}"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: token_of(exp=int(time.time()) - 60), "has expired"),
        (lambda: token_of(nbf=int(time.time()) + 60), "is not valid yet"),
        (lambda: token_of(aud="another"), "issued for another program"),
        (lambda: token_of(aud=["other", "more"]), "issued for another program"),
        (lambda: token_of(iss="https://evil.example"), "of another issuer"),
        (lambda: token_of(rsa.generate_private_key(public_exponent=65_537, key_size=2_048)),
         "not of the issuer's key"),
        (changed, "not of the issuer's key"),
        (without_signature, "algorithm is not allowed"),
        (signed_with_the_public_key, "algorithm is not allowed"),
        (lambda: token_of(exp=None), "has no claim 'exp'"),
        (lambda: token_of(iss=None), "has no claim 'iss'"),
        (lambda: token_of(aud=None), "has no claim 'aud'"),
        (lambda: token_of(sub=None), "has no claim 'sub'"),
        (lambda: token_of(sub=""), "is empty"),
        (lambda: token_of(sub="ann\u202e"), "people cannot see"),
        (lambda: token_of(groups={"billing": True}), "'groups' is no list of names"),
        (lambda: token_of(groups=["billing", 7]), "'groups' is no list of names"),
        (lambda: "", "is no JSON Web Token"),
        (lambda: "secret.part.here", "is no JSON Web Token"),
        (lambda: "sécret", "is no text of a JSON Web Token"),
        (lambda: "x" * 40_000, "has 40,000 characters, of 32,000"),
    ],
    ids=range(21),
)  # fmt: skip
def test_a_token_that_proves_nothing_is_refused(
    make: Callable[[], str], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    token = make()
    with caplog.at_level(logging.DEBUG), pytest.raises(IdentityRefused, match=reason) as raised:
        read(token)
    said = f"{raised.value!r} {raised.value.__cause__!r} {caplog.text}"
    assert not [part for part in token.split(".") if len(part) > 3 and part in said]


def test_clocks_may_differ_a_little() -> None:
    late = int(time.time()) - 10
    assert read(token_of(exp=late)).subject == "ann"
    with pytest.raises(IdentityRefused, match="has expired"):
        read(token_of(exp=late), leeway_seconds=0)


def test_a_key_of_the_set_counts_with_allowed_algorithms_only() -> None:
    keys = {"keys": [jwk(RSA_KEY, "old")]}
    with pytest.raises(IdentityRefused, match="algorithm is not allowed"):
        read(token_of(kid="old"), jwks=keys, algorithms=["ES256"])


def test_a_shared_secret_counts_only_where_it_is_named() -> None:
    token = token_of(SECRET, "HS256")
    assert read(token, key=SECRET, algorithms=["HS256"]).subject == "ann"
    with pytest.raises(IdentityRefused, match="algorithm is not allowed"):
        read(token)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"algorithms": ["none"]}, "algorithms= names 'none'"),
        ({"algorithms": ["None"]}, "algorithms= names 'None'"),
        ({"algorithms": []}, "must be a list of names"),
        ({"algorithms": "RS256"}, "must be a list of names"),
        ({"algorithms": ["RS256", "HS256"]}, "mixes HS256"),
        ({"key": None}, "pass either key= or jwks="),
        ({"key": PUBLIC, "jwks": {"keys": []}}, "pass either key= or jwks="),
        ({"jwks": {"keys": []}}, "is no key set"),
        ({"jwks": {"keys": ["x"]}}, "is no key set"),
        ({"jwks": {}}, "is no key set"),
        ({"jwks": {"keys": []}, "algorithms": ["HS256"]}, "which no key set has"),
        ({"key": "not a key"}, "cannot check this token"),
        ({"issuer": ""}, "needs issuer= and audience="),
        ({"audience": []}, "needs issuer= and audience="),
    ],
    ids=range(14),
)
def test_wrong_arguments_are_errors_of_the_program(options: Any, problem: str) -> None:
    token = token_of()
    with pytest.raises(UserError, match=problem) as raised:
        read(token, **options)
    assert token not in str(raised.value)


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(UserError, match=r'pip install "outlast\[identity\]"'):
        read("x")


# --- Signatures ----------------------------------------------------------------------------------

KEY = shared_key(bytes(range(32)))
KEY_TEXT = base64.b64encode(bytes(range(32))).decode()
PLACE = Place(namespace="default", chain_id="first", run_id="support-42")


class Server:
    """A client whose server knows one run, in its second history."""

    namespace = "default"

    def __init__(self) -> None:
        self.workflow_service = self

    async def describe_workflow_execution(self, request: Any, *, retry: bool) -> Any:
        """Return what the server says of the run."""
        del retry
        assert (request.namespace, request.execution.workflow_id) == ("default", "support-42")
        execution = WorkflowExecution(workflow_id="support-42", run_id="second")
        info = WorkflowExecutionInfo(execution=execution, first_run_id="first")
        return DescribeWorkflowExecutionResponse(workflow_execution_info=info)


async def signed(record: Any, action: str = "decide") -> Any:
    return await sign(cast("Client", Server()), record, "support-42", action=action)


async def test_without_a_key_nothing_is_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTLAST_IDENTITY_KEY", raising=False)
    assert await signed(APPROVE) == APPROVE


async def test_who_can_only_check_signs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_IDENTITY_PUBLIC_KEYS", new_key_pair()[1])
    assert await signed(APPROVE) == APPROVE


async def test_with_a_key_everything_is_signed_now_for_the_runs_first_execution(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", KEY_TEXT)
    monkeypatch.setattr(clock, "now_ms", lambda: 5_000_000)
    keys = IdentityKeys((KEY,))
    decision = await signed(APPROVE)
    assert proof_problem(decision, PLACE, keys, now_ms=5_000_000) is None
    assert parse_proof(decision.proof).at_ms == 5_000_000  # pyright: ignore[reportOptionalMemberAccess]
    claim = await signed(ClaimAction(by="ann", request_id="a1"), "claim")
    now: dict[str, Any] = {"now_ms": 5_000_000, "action": "claim"}
    assert proof_problem(claim, PLACE, keys, **now) is None
    assert proof_problem(replace(claim, minutes=999), PLACE, keys, **now) is not None


async def test_a_weak_key_is_an_error_without_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", "hunter2")
    with pytest.raises(UserError, match="OUTLAST_IDENTITY_KEY has 7 bytes") as raised:
        await signed(APPROVE)
    assert "hunter2" not in str(raised.value)
