"""`outlast serve`: which desks it starts, and which it refuses in a sentence."""

import re
from pathlib import Path
from typing import Any

import pytest

from outlast.agents.errors import UserError
from outlast.cli.desk_options import TeamOptions, api_keys
from outlast.contract.identity import new_shared_key
from outlast.serve.login import ThisMachine, TrustedProxy
from outlast.serve.oidc import OpenIDConnect
from tests.unit.cli.conftest import Invoke

URL = ["--url", "https://desk.test"]
PROXY = ["--proxy", "10.0.0.7"]
ROLE = ["--role", "support=viewer"]
OIDC = ["--oidc-issuer", "https://login.test", "--oidc-client-id", "desk"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "0.0.0.0"], "A desk at 0.0.0.0 needs a login."),
        (["--host", "desk.test", *ROLE], "needs a login"),
        (URL, "A desk at https://desk.test needs a login: add --oidc-issuer or --proxy."),
        (["--as", "ann", *URL], "needs a login"),
        (["--groups", "billing"], "--groups belongs to --as"),
        (["--as", "ann", *URL, *PROXY, *ROLE], "--as names the user of a desk without a login"),
        (ROLE, "--role belongs to a login"),
        ([*PROXY, *OIDC], "Choose one login"),
        ([*PROXY, *ROLE], "add --url https://desk.example.com"),
        ([*PROXY, *URL], "Say who may do what"),
        ([*PROXY, *URL, "--role", "support"], "must be a group and its roles"),
        ([*PROXY, *URL, "--role", "support="], "must be a group and its roles"),
        ([*PROXY, *URL, "--role", "=viewer"], "must be a group and its roles"),
        ([*PROXY, *URL, "--role", "support=boss"], "'boss' of 'support' is no role"),
        (["--proxy", "0.0.0.0/0", *URL, *ROLE], "is every address"),
        ([*OIDC[:2], *URL, *ROLE], "--oidc-issuer needs --oidc-client-id"),
        ([*OIDC, *URL, *ROLE], "OUTLAST_DESK_KEY is not set"),
        ([*OIDC, *URL, *ROLE, "--session", "long"], "is no duration, such as 8h"),
        ([*OIDC, *URL, *ROLE, "--sessions-from", "never"], "'never' is no time"),
    ],
)
async def test_what_does_not_fit_is_refused_in_a_sentence(
    cli: Invoke, arguments: list[str], words: str
) -> None:
    done = await cli("serve", *arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert words in " ".join(done.stderr.split())


def _options(**given: Any) -> TeamOptions:
    return TeamOptions(
        url="https://desk.test", role=["support=viewer, decider", "*=viewer"], **given
    )


def test_options_make_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_DESK_KEY", new_shared_key())
    monkeypatch.setenv("OUTLAST_OIDC_CLIENT_SECRET", "secret")
    assert isinstance(_options(proxy=["10.0.0.7", "10.1.0.0/16"]).login(), TrustedProxy)
    options = _options(issuer="https://login.test", client_id="desk", sessions_from="30d")
    assert isinstance(options.login(), OpenIDConnect)
    assert isinstance(TeamOptions().login(), ThisMachine)
    assert TeamOptions().roles() is None


def test_roles_are_those_of_groups_and_of_everybody() -> None:
    rules = TeamOptions(role=["a=b=viewer", "ops=operator", "ops=viewer", "*=viewer"]).roles()
    assert rules is not None
    assert rules.groups == {"a=b": ["viewer"], "ops": ["operator", "viewer"]}
    assert rules.anybody == ["viewer"]


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        (
            "acme=viewer,decider@tenant:acme",
            ("acme", ["viewer@tenant:acme", "decider@tenant:acme"]),
        ),
        ("team@x.com=viewer@tenant:acme", ("team@x.com", ["viewer@tenant:acme"])),
        ("team@x.com=viewer", ("team@x.com", ["viewer"])),
        ("a=viewer@tenant:b=c@d+agent:E", ("a", ["viewer@tenant:b=c@d+agent:E"])),
    ],
)
def test_the_scope_of_an_option_is_that_of_all_its_roles(
    option: str, expected: tuple[str, list[str]]
) -> None:
    rules = TeamOptions(role=[option]).roles()
    assert rules is not None
    assert rules.groups == dict([expected])


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("acme=viewer@acme", "has no scope that can be read"),
        ("acme=viewer@place:Bonn", "has no scope that can be read"),
        ("acme=viewer@tenant:", "has no scope that can be read"),
        ("acme=viewer@tenant:a,decider", None),
        ("acme@tenant:a", "must be a group and its roles"),
    ],
)
def test_no_role_loses_its_scope(option: str, words: str | None) -> None:
    team = TeamOptions(role=[option])
    if words is None:  # a name may have a comma: it is no other role
        rules = team.roles()
        assert rules is not None
        assert rules.groups == {"acme": ["viewer@tenant:a,decider"]}
        return
    with pytest.raises(UserError, match=words):
        team.roles()


def test_keys_of_programs_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_API_KEYS", " shop=abc=, crm = def ,")
    assert api_keys() == {"shop": "abc=", "crm": "def"}
    monkeypatch.delenv("OUTLAST_API_KEYS")
    assert api_keys() == {}


@pytest.mark.parametrize("text", ["topsecret", "shop=abc,=topsecret", "a=topsecret,a=topsecret"])
def test_no_part_of_a_key_is_in_an_error(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("OUTLAST_API_KEYS", text)
    with pytest.raises(UserError) as refused:
        api_keys()
    assert "topsecret" not in str(refused.value)


def test_secrets_are_in_variables_only() -> None:
    """A command line can be read by every user of a machine."""
    source = Path("outlast/cli/desk_options.py").read_text(encoding="utf-8")
    assert not re.findall(r'"--[a-z-]*(?:secret|key|token|password)[a-z-]*"', source)
